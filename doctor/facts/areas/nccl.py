"""NCCL: which copies there are and how the environment steers it."""

from doctor.facts.model import NOT_PROBED, Area, Fact, Record


class NcclCopy(Record, frozen=True, kw_only=True):
    """One libnccl.so.2 outside any wheel."""

    path: str
    version: str | None = None
    why: str = ""
    """LD_LIBRARY_PATH:<dir>, ld.so.conf:<dir>, default:<dir>, or the variable that names it."""


class NcclFacts(Area, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Versions come from file names, nccl.h and wheel metadata; no library is loaded or read."""

    system: Fact[str] = NOT_PROBED
    """Version of the copy that the loader's configuration gives; Absent when there is none."""
    loader: Fact[NcclCopy] = NOT_PROBED
    """The copy that a program without a path of its own gets in this scope; Absent when there is
    none.
    """
    named: Fact[list[NcclCopy]] = NOT_PROBED
    """Copies that variables name (NCCL_HOME, VLLM_NCCL_SO_PATH, LD_PRELOAD, ...)."""
    wheels: Fact[dict[str, str]] = NOT_PROBED
    """path of a bundled libnccl -> version."""
    environment: Fact[dict[str, str]] = NOT_PROBED
    """NCCL_* variables of the scope."""
    conf: Fact[dict[str, str]] = NOT_PROBED
    """/etc/nccl.conf and ~/.nccl.conf; Absent when there is neither."""
    vmm_sysnice: Fact[bool] = NOT_PROBED
    """Whether the scope may make NUMA calls (no seccomp filter, or CAP_SYS_NICE), which cuMem
    host memory needs.
    """
    remove_ipc: Fact[bool] = NOT_PROBED
    """logind's RemoveIPC, which deletes segments of users who log out."""
