"""The matrix: what is known, each row with a source. No host is looked at here."""
