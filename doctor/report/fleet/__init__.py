"""Writers of an audit: each yields text in pieces, reads one host at a time and prints nothing."""
