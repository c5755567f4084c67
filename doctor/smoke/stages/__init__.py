"""One module per rung; each has a class whose instances are Stages."""
