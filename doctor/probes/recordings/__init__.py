"""Recordings: kept, redacted, written and read back."""
