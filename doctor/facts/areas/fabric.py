"""NVSwitch fabric, NVLink services, DCGM."""

from __future__ import annotations

from doctor.facts.model import NOT_PROBED, Area, Fact, Record


class Unit(Record, frozen=True, kw_only=True):
    """A systemd unit."""

    name: str
    load: str
    """loaded, not-found, masked."""
    active: str
    """active, inactive, failed, activating."""
    enabled: str | None = None
    after: list[str] = []
    since: int | None = None
    """Seconds since the epoch of the last activation."""
    result: str | None = None


class FabricFacts(Area, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Needed by what PCI and NVML say, never by a GPU's name."""

    manager_version: Fact[str] = NOT_PROBED
    """Package version of fabric manager; Absent when not installed."""
    manager: Fact[Unit] = NOT_PROBED
    manager_log: Fact[list[str]] = NOT_PROBED
    nvlsm_version: Fact[str] = NOT_PROBED
    imex_version: Fact[str] = NOT_PROBED
    imex: Fact[Unit] = NOT_PROBED
    persistenced: Fact[Unit] = NOT_PROBED
    dcgm: Fact[Unit] = NOT_PROBED
    engines: Fact[list[Unit]] = NOT_PROBED
    """Units that run an inference engine (vllm, trtllm, triton, ollama) with their ordering."""
