"""NCCL: which copies there are and how the environment steers it."""

from __future__ import annotations

from doctor.facts.model import NOT_PROBED, Area, Fact, Record


class NcclFacts(Area, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Versions come from file names and the version string inside the file."""

    system: Fact[str] = NOT_PROBED
    """Version of the copy ldconfig gives."""
    wheels: Fact[dict[str, str]] = NOT_PROBED
    """path of a bundled libnccl -> version."""
    environment: Fact[dict[str, str]] = NOT_PROBED
    """NCCL_* variables of the scope."""
    conf: Fact[dict[str, str]] = NOT_PROBED
    """/etc/nccl.conf."""
    vmm_sysnice: Fact[bool] = NOT_PROBED
    """Whether the scope may call set_mempolicy/move_pages (CAP_SYS_NICE), which cuMem host memory needs in a container."""
    remove_ipc: Fact[bool] = NOT_PROBED
    """logind's RemoveIPC, which deletes segments of users who log out."""
