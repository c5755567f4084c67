"""What rungs run in disposable child processes: standard library, Python 3.9, no import of an engine."""
