"""The report and its renderers: pure functions, no exit codes, no printing."""
