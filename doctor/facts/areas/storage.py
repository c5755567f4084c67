"""/dev/shm and the disks where images, engines and caches live."""

from doctor.facts.model import NOT_PROBED, Area, Fact, Record


class Disk(Record, frozen=True, kw_only=True):
    """The file system that holds a path. Bytes."""

    mount: str
    path: str = ""
    """What was looked at: the place itself or the nearest folder above it that exists."""
    filesystem: str | None = None
    size: int
    free: int
    """Free for ordinary users."""
    read_only: bool = False


class Orphan(Record, frozen=True, kw_only=True):
    """Files left in /dev/shm by a family of programs."""

    name: str
    """Prefix, for example nccl- or psm_."""
    count: int
    size: int


class StorageFacts(Area, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sizes in bytes."""

    shm: Fact[Disk] = NOT_PROBED
    """/dev/shm of the scope."""
    shm_used: Fact[int] = NOT_PROBED
    shm_left_behind: Fact[list[Orphan]] = NOT_PROBED
    """Files that no running process maps."""
    disks: Fact[dict[str, Disk]] = NOT_PROBED
    """Purpose -> disk: root, docker, containerd, hf-cache, tmp, home."""
