"""From findings to steps. Pure."""
