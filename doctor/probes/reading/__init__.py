"""Readers of formats that several probes need. Pure functions of text or bytes."""
