"""Smoke ladder."""
