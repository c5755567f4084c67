"""Resource limits of the shell, of systemd's defaults and of the running dockerd."""

from doctor.facts.model import NOT_PROBED, Area, Fact, Record


class Limits(Record, frozen=True, kw_only=True):
    """[soft, hard]; bytes for memlock and stack, counts for nofile and nproc; -1 is unlimited; None was not said."""

    memlock: list[int] | None = None
    stack: list[int] | None = None
    nofile: list[int] | None = None
    nproc: list[int] | None = None


class LimitFacts(Area, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """limits.conf is not the limit of a running service: each scope is its own observation."""

    scope: Fact[Limits] = NOT_PROBED
    """Of the judged scope: the shell unless --scope says otherwise."""
    systemd: Fact[Limits] = NOT_PROBED
    """DefaultLimit* of the running manager."""
    dockerd: Fact[Limits] = NOT_PROBED
    """/proc/PID/limits of dockerd."""
    docker_defaults: Fact[Limits] = NOT_PROBED
    """default-ulimits of daemon.json."""
    limits_conf: Fact[list[str]] = NOT_PROBED
    """Active lines of limits.conf and limits.d about the four."""
