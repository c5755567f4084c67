"""What the package manager knows."""

from doctor.facts.model import NOT_PROBED, Area, Fact, Record


class Repository(Record, frozen=True, kw_only=True):
    """One enabled or disabled repository."""

    id: str
    url: str
    enabled: bool = True
    signed: bool | None = None
    """gpgcheck or signed-by present; None when not said."""
    file: str = ""
    key: str | None = None
    """Keyring that signed-by names, "(inline)", or gpgkey of dnf."""
    key_found: bool | None = None
    """Whether that keyring file is there; None when it is not a file."""
    suite: str | None = None
    module_hotfixes: bool | None = None
    """dnf: whether modular filtering is off for this repository; None when not said."""
    excludes: list[str] = []


class Pin(Record, frozen=True, kw_only=True):
    """A record of apt's preferences."""

    package: str
    pin: str
    priority: int | None = None
    file: str = ""


class Pending(Record, frozen=True, kw_only=True):
    """An upgrade that waits."""

    name: str
    installed: str
    candidate: str
    origin: str | None = None


class Unattended(Record, frozen=True, kw_only=True):
    """Automatic upgrades."""

    enabled: bool
    excluded: list[str] = []
    """Package name patterns it leaves alone."""
    origins: list[str] = []
    """apt: the origins it may take packages from."""
    tool: str = ""
    """unattended-upgrades or dnf-automatic."""


class PackageFacts(Area, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """NotApplicable in a container for what belongs to the host."""

    manager: Fact[str] = NOT_PROBED
    """apt or dnf; Absent when neither."""
    installed: Fact[dict[str, str]] = NOT_PROBED
    """NVIDIA, CUDA, container and kernel packages: name -> version."""
    broken: Fact[list[str]] = NOT_PROBED
    """Half-installed or unconfigured packages."""
    repositories: Fact[list[Repository]] = NOT_PROBED
    pins: Fact[list[Pin]] = NOT_PROBED
    keys: Fact[dict[str, list[str]]] = NOT_PROBED
    """apt: keyring file -> fingerprints; dnf: {"rpm": short ids of imported keys}."""
    holds: Fact[list[str]] = NOT_PROBED
    """apt-mark hold or dnf versionlock entries."""
    unattended: Fact[Unattended] = NOT_PROBED
    pending: Fact[list[Pending]] = NOT_PROBED
    """Upgrades of driver, kernel or container packages that are known locally, without refreshing."""
    modules: Fact[dict[str, str]] = NOT_PROBED
    """Enabled dnf module streams: name -> stream."""
    last_upgrade: Fact[int] = NOT_PROBED
    """Seconds since the epoch of the newest logged NVIDIA package change."""
