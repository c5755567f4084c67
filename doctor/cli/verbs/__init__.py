"""One file per verb; each is imported only when it is called."""
