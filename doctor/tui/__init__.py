"""The TUI: consumes events, so that a live run, a recording, an event log and a demo look the same. The only room where Textual lives."""
