"""The smoke ladder: rungs that prove a host by building and serving a small engine end to end."""
