"""What was observed, typed. Holds facts; never looks and never judges."""
