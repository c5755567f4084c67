"""Whether a step may run now. Pure: the step, what was allowed, what runs -> yes, or what stands in the way and the flag."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from doctor.plan.model import Step

FLAGS = ("service", "gpu", "reboot", "irreversible")


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """What stands in the way, and what allows it."""

    flag: str
    why: str


def consent(
    step: Step, allowed: Sequence[str], workload: Mapping[str, Any], *, person: bool = False
) -> Refusal | None:
    """None: go on. `person`: somebody who saw what is disturbed said yes to this step.

    What disturbs a service or the GPU runs unasked only where a look just before it shows nothing to disturb.
    """
    if step.reversible == "none" and "irreversible" not in allowed and not person:
        return Refusal(flag="irreversible", why=f"{step.id} cannot be undone")
    if step.disturbs == "none" or step.disturbs in allowed or person:
        return None
    if step.disturbs == "reboot":
        return Refusal(flag="reboot", why=f"{step.id} takes effect with a reboot")
    busy = running(step.disturbs, workload)
    if busy:
        what = "a service" if step.disturbs == "service" else "the GPU driver"
        return Refusal(flag=step.disturbs, why=f"{step.id} disturbs {what} while {busy}")
    return None


def running(disturbs: str, workload: Mapping[str, Any]) -> str:
    """What would be disturbed, in words; empty when nothing. What cannot be seen counts as something."""
    parts = []
    if workload.get("gpu"):
        parts.append(f"the GPU is in use by {_some(workload['gpu'])}")
    live = workload.get("live_restore") and disturbs == "service"
    if workload.get("containers") and not live:
        parts.append(f"containers run: {_some(workload['containers'])}")
    parts += list(workload.get("unknown", []))
    return "; ".join(parts)


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more
