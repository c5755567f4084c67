"""Environment doctor and provisioning agent for NVIDIA inference hosts."""

__version__ = "0.1.0"
