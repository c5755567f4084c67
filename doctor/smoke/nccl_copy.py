"""Which libnccl.so.2 the engine of this run would load: its wheel's, else the system's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from doctor.facts.areas.python_env import Environment
from doctor.facts.model import Known, Unknown
from doctor.smoke.context import StageUnseen

if TYPE_CHECKING:
    from doctor.smoke.context import Context

SONAME = "libnccl.so.2"
ENGINES = ("vllm", "tensorrt-llm", "torch")
"""Packages that load a copy of their own, as they are named in an environment's metadata."""


class Copy(msgspec.Struct, frozen=True, kw_only=True):
    """One file and why it is the one."""

    path: str
    why: str


def copy_to_load(ctx: Context) -> Copy | None:
    """The copy of --python's environment, of the engine's, of one in scope, else what the loader finds. None: there is none."""
    places = ctx.facts.python_env.environments
    environments = places.value if isinstance(places, Known) else []
    for environment, why in _candidates(ctx, environments):
        if SONAME in environment.libraries:
            return Copy(path=environment.libraries[SONAME], why=why)
    loader = ctx.facts.nccl.loader
    if isinstance(loader, Known):
        return Copy(path=loader.value.path, why=f"system library, {loader.value.why}")
    if isinstance(places, Unknown) or isinstance(loader, Unknown):
        unknown = places if isinstance(places, Unknown) else loader
        raise StageUnseen(f"copies of NCCL were not seen: {getattr(unknown, 'reason', '')}")
    return None


def _candidates(ctx: Context, found: list[Environment]) -> list[tuple[Environment, str]]:
    python = ctx.options.python
    if python is not None:
        prefix = str(python.absolute().parent.parent)
        return [(item, f"environment of {python}") for item in found if item.path == prefix]
    chosen = ctx.engine.name.replace("_", "-") if ctx.engine is not None else None
    names = [chosen] if chosen else []
    names += [name for name in ENGINES if name not in names]
    ordered = sorted(
        (
            (names.index(name), not item.in_scope, place, item, name)
            for place, item in enumerate(found)
            for name in names
            if name in item.packages
        ),
        key=lambda entry: entry[:3],
    )
    return [
        (item, f"environment {item.path} of {name} {item.packages[name]}")
        for _, _, _, item, name in ordered
    ]
