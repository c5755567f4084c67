"""How far up the ladder a host has to climb for what it is wanted for, with which engine. Pure: wants and images -> what to try."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import msgspec

from doctor.smoke.model import LADDER

if TYPE_CHECKING:
    from doctor.plan.want import Want

AUTO = "auto"
NONE = "none"
LEVELS = (AUTO, *LADDER)
"""What may be asked for after a fix."""
BUSY = "driver"
"""The last rung that uses no GPU: nobody who computes is disturbed by it."""

CPU_ENGINE = "vllm-cpu"
"""Computes on no GPU."""

_ENGINES = {"vllm": "vllm", "tensorrt-llm": "tensorrt_llm", CPU_ENGINE: CPU_ENGINE}
_DRIVER = "nccl"
"""A host that is wanted for its driver has to compute on every GPU and between them."""


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """Up to which rung, with what."""

    level: str
    engine: str = AUTO
    image: str | None = None


def reach(wants: Sequence[Want], images: Collection[str], level: str = AUTO) -> Reach:
    """An engine is to serve, a container to get its GPUs, all else to compute; `level` overrules how far.

    Of images only one that is here counts: the smoke downloads nothing.
    """
    from doctor.plan.image import is_here
    from doctor.plan.want import ImageWant, LaunchWant, PackageWant

    found = Reach(level=_DRIVER)
    for want in wants:
        if isinstance(want, PackageWant) and want.name in _ENGINES:
            found = Reach(level=LADDER[-1], engine=_ENGINES[want.name])
            break
        refs = [want.ref] if isinstance(want, ImageWant) else []
        if isinstance(want, LaunchWant):
            refs = [item.image for item in want.launch.containers]
        here = [ref for ref in refs if is_here(ref, images)]
        if refs or _named(want, "container"):
            found = Reach(level="container", image=here[0] if here else found.image)
    return found if level == AUTO else msgspec.structs.replace(found, level=level)


def _named(want: Want, name: str) -> bool:
    return getattr(want, "name", None) == name
