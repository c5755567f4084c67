"""One probe per area of facts; nothing to register: a module here defines `probe(source)`."""
