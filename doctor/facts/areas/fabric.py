"""NVSwitch fabric, NVLink services, DCGM."""

from doctor.facts.model import NOT_PROBED, Area, Fact, Record


class Unit(Record, frozen=True, kw_only=True):
    """A systemd unit. One that is not there is an Absent fact."""

    name: str
    load: str
    """loaded, masked, bad-setting, error."""
    active: str
    """active, inactive, failed, activating."""
    enabled: str | None = None
    after: list[str] = []
    since: int | None = None
    """Seconds since boot of the last activation."""
    result: str | None = None
    wants: list[str] = []
    """Wants= and Requires=."""
    restart: str | None = None
    """no, on-failure, always, ..."""
    engine: str | None = None
    """vllm, tensorrt-llm, triton, ollama, sglang, ... where the unit starts one."""


class FabricFacts(Area, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Needed by what PCI and NVML say, never by a GPU's name."""

    manager_version: Fact[str] = NOT_PROBED
    """Version of the installed fabric manager; Absent when not installed."""
    manager: Fact[Unit] = NOT_PROBED
    manager_log: Fact[list[str]] = NOT_PROBED
    nvlsm_version: Fact[str] = NOT_PROBED
    """Version of the NVLink subnet manager, or "installed" where no package says one."""
    imex_version: Fact[str] = NOT_PROBED
    imex: Fact[Unit] = NOT_PROBED
    persistenced: Fact[Unit] = NOT_PROBED
    dcgm: Fact[Unit] = NOT_PROBED
    engines: Fact[list[Unit]] = NOT_PROBED
    """Units that run an inference engine with their ordering."""
