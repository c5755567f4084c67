"""One screen a file; what it shows comes from the ViewState, what it does goes through the app."""
