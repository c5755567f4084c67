"""Adapters of engines: driven in their own interpreter or image, never imported."""
