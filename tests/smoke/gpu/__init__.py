"""On a real GPU host only."""
