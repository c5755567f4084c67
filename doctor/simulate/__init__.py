"""A host that does not exist, as a consistent recording: what-if, demos, tests. One writer per probe area."""
