"""Shared memory and limits of a container: what is asked for, as NVIDIA documents it for engines, and what the daemon refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from doctor.checks.finding import Finding, Severity
from doctor.smoke.host_cause import cause_of
from doctor.smoke.model import fault

if TYPE_CHECKING:
    from doctor.smoke.context import Context
    from doctor.smoke.docker_engine import Refused

SHM_BYTES = 1 << 30
MEMLOCK, STACK = -1, 67108864
"""As NVIDIA documents for TensorRT-LLM's containers (matrices/tensorrt_llm.yml, container-flags) and as engines are started here."""
TITLE = "A container has the shared memory and limits that were asked for"


def amount(value: int) -> str:
    """Bytes for a person."""
    return "unlimited" if value == -1 else f"{value >> 20} MiB"


def limits_asked(ctx: Context) -> dict[str, int]:
    """Limits that this run still asks for: those that the daemon refused are gone."""
    asked: dict[str, int] = ctx.shared.setdefault(
        "container-limits", {"memlock": MEMLOCK, "stack": STACK}
    )
    return asked


def limits_refused(ctx: Context, refused: Refused) -> Finding:
    """Docker cannot give more than it has: the container was tried again without."""
    cause = cause_of(ctx, ("limits.memlock", "container.rootless"))
    return fault(
        "container",
        "limits-refused",
        TITLE,
        f"Docker refuses --ulimit {refused.limit}: {refused}",
        want=f"--ulimit memlock={MEMLOCK} --ulimit stack={STACK}",
        say="give dockerd's unit the limit first: a container cannot have more than the daemon",
        command="systemctl show docker -p LimitMEMLOCK -p LimitSTACK; sudo systemctl edit docker  # [Service] LimitMEMLOCK=infinity",
        severity=Severity.WARN,
        disturbs="service",
        blocked_by=cause.id if cause else None,
    )
