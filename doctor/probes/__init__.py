"""Observation only: standard library, Python 3.9, also zipped to remote hosts. Never judges, never changes the host."""
