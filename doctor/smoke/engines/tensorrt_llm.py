"""TensorRT-LLM 0.9 to 1.2: converted and built with the version's own tools, or served as it is by the PyTorch backend.

**Not run on hardware**: tested against a stand-in that refuses what the real version does not have (tests/smoke/trtllm_standin).
What differs between versions is data: options in matrices/engine_options.yml, rules in matrices/tensorrt_llm.yml.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from doctor.checks.finding import Citation
from doctor.facts.versions import Pep440Version, Specifier
from doctor.matrix.query import engine_option
from doctor.smoke import engine_log, environment
from doctor.smoke.client import MODEL
from doctor.smoke.context import StageFailed, StageUnseen
from doctor.smoke.engines.base import Command, Place, TokenAnswer, Tolerance
from doctor.smoke.guest import Guest, how_it_ended, script
from doctor.smoke.model import fault
from doctor.smoke.ports import LOOPBACK
from doctor.smoke.provision import provision

if TYPE_CHECKING:
    from doctor.smoke.context import Context
    from doctor.smoke.tiny_model import TinyModel

PACKAGES = ("tensorrt-llm", "tensorrt_llm")
OLDEST = "0.9.0"
"""Older versions name options that no table here has."""
MAX_BATCH, MAX_LENGTH, MAX_TOKENS = 8, 512, 1024
GPU_SHARE = "0.05"
"""Of the free memory for the KV cache: the smoke model needs megabytes."""
CONVERT_S, BUILD_S, ANSWER_S = 300.0, 900.0, 600.0
QUIET = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "TRTLLM_NO_USAGE_STATS": "1"}
TOLERANCE = Tolerance(
    dtype="bfloat16",
    each=0.6,
    mean=0.15,
    tie=0.6,
    why="8 bits of mantissa; taken over from vLLM's, which was measured: TensorRT-LLM has not been run on hardware by this project",
)
GUEST = "trtllm_guest"


class TensorRTLLM:
    """From an interpreter or an image of the version."""

    name = "tensorrt_llm"
    gpu = True
    server_logprobs = False
    """Most releases of trtllm-serve refuse to give log-probabilities: tokens go through the version's runner."""

    def place(self, ctx: Context) -> Place:
        """--image, --python, the managed environment, or one seen on the host."""
        if ctx.options.image is not None:
            return self._in_image(ctx, ctx.options.image)
        found = environment.find(ctx, PACKAGES, "tensorrt-llm")
        if found is None and ctx.options.provision:
            found = provision(ctx, "tensorrt-llm", PACKAGES)
        if found is None:
            raise environment.missing(
                ctx,
                self.name,
                PACKAGES[:1],
                "name one with --python or --image: its wheels come from pypi.nvidia.com",
            )
        return self._known(ctx, found)

    def dtype(self, ctx: Context) -> str:
        """What engines serve by default on a GPU that has it."""
        return TOLERANCE.dtype

    def tolerance(self, ctx: Context) -> Tolerance:
        """For this dtype."""
        return TOLERANCE

    def build(self, ctx: Context, place: Place, model: TinyModel) -> Path:
        """The engine; or, for a version whose default backend needs none, the model under the name it is served by."""
        if by_pytorch(ctx, place.version):
            served = ctx.scratch / "served" / MODEL
            served.parent.mkdir(exist_ok=True)
            served.symlink_to(Path("..") / model.folder.relative_to(ctx.scratch))
            return served
        if model.model_class != "llama":
            raise self._failed(
                "model-class",
                f"TensorRT-LLM {place.version} is built for the class llama here, not {model.model_class}",
                "--model-class llama",
            )
        guest = Guest(ctx, place)
        checkpoint, engine = ctx.scratch / "checkpoint", ctx.scratch / "engine" / MODEL
        ctx.progress("converting the checkpoint")
        said = self._guest(
            ctx,
            guest,
            {
                "do": "convert",
                "model": guest.path(model.folder),
                "output": guest.path(checkpoint),
                "dtype": model.dtype,
            },
            "trtllm-convert",
            CONVERT_S,
        )
        ctx.progress(f"trtllm-build ({said.get('by', 'converted')})")
        self._tool(
            ctx,
            guest,
            "trtllm-build",
            build_options(ctx, place.version, guest.path(checkpoint), guest.path(engine)),
            BUILD_S,
        )
        return engine

    def command(
        self, ctx: Context, place: Place, built: Path, port: int, key: str
    ) -> Command | None:
        """trtllm-serve, which came with 0.15; it takes no API key, so it listens on the loopback alone."""
        if not applies(ctx, "tensorrt-llm.serve-cli", place.version):
            return None
        guest = Guest(ctx, place)
        wanted: list[tuple[str, str]] = [
            ("--host", LOOPBACK if place.image is None else "0.0.0.0"),  # noqa: S104 - inside the container; published on the loopback
            ("--port", str(port)),
            ("--tokenizer", guest.path(ctx.scratch / "model")),
            ("--max_batch_size", str(MAX_BATCH)),
            ("--max_seq_len", str(MAX_LENGTH)),
            ("--max_num_tokens", str(MAX_TOKENS)),
            ("--kv_cache_free_gpu_memory_fraction", GPU_SHARE),
        ]
        if by_pytorch(ctx, place.version):
            wanted.append(("--backend", "pytorch"))
        options = known_options(ctx, "trtllm-serve", place.version, wanted)
        tool = "trtllm-serve" if place.python is None else str(beside(place.python, "trtllm-serve"))
        return Command(
            argv=(tool, guest.path(built), *options),
            env=dict(QUIET),
            image=place.image,
        )

    def answers(
        self,
        ctx: Context,
        place: Place,
        built: Path,
        prompts: tuple[tuple[int, ...], ...],
        tokens: int,
    ) -> list[TokenAnswer]:
        """Through the version's runner. Starting it takes a minute: the first question asks for all of the model's prompts."""
        kept: dict[tuple[tuple[int, ...], int], TokenAnswer] = ctx.shared.setdefault(GUEST, {})
        if any((prompt, tokens) not in kept for prompt in prompts):
            every = dict.fromkeys([*prompts, *self._prompts(ctx, tokens)])
            asked = [prompt for prompt in every if (prompt, tokens) not in kept]
            guest = Guest(ctx, place)
            said = self._guest(
                ctx,
                guest,
                {
                    "do": "answer",
                    "runner": "llm" if by_pytorch(ctx, place.version) else "engine",
                    "built": guest.path(built),
                    "tokenizer": guest.path(ctx.scratch / "model"),
                    "prompts": asked,
                    "tokens": tokens,
                    "gpu_share": float(GPU_SHARE),
                },
                "trtllm-answer",
                ANSWER_S,
                stage="tokens",
            )
            found = msgspec.convert(said.get("answers"), list[_Answer])
            if len(found) != len(asked):
                raise StageUnseen(f"{len(found)} answers to {len(asked)} prompts")
            for prompt, answer in zip(asked, found, strict=True):
                kept[prompt, tokens] = TokenAnswer(
                    ids=tuple(answer.ids), logprobs=tuple(answer.logprobs)
                )
        return [kept[prompt, tokens] for prompt in prompts]

    def _prompts(self, ctx: Context, tokens: int) -> tuple[tuple[int, ...], ...]:
        model: TinyModel | None = ctx.shared.get("model")
        return model.prompts if model is not None and tokens == model.tokens else ()

    def _guest(
        self,
        ctx: Context,
        guest: Guest,
        spec: Mapping[str, Any],
        name: str,
        timeout: float,
        stage: str = "engine-build",
    ) -> dict[str, Any]:
        """Run the guest script; its last JSON line."""
        running = guest.start_script(script(GUEST), spec, name)
        rc = self._wait(ctx, running, timeout)
        text = running.tail()
        said = _last_object(text)
        if rc != 0 or said is None:
            what = "converting" if spec["do"] == "convert" else "the runner"
            raise self._log_failed(ctx, stage, what, rc, text, running.log.name)
        return said

    def _tool(
        self, ctx: Context, guest: Guest, tool: str, options: Sequence[str], timeout: float
    ) -> None:
        """Run a console script of the version: the one beside its interpreter, or the image's."""
        python = guest.place.python
        path = str(beside(python, tool)) if python is not None else tool
        running = guest.start([path, *options], QUIET, tool, image_arguments=[tool, *options])
        rc = self._wait(ctx, running, timeout)
        if rc != 0:
            raise self._log_failed(ctx, "engine-build", tool, rc, running.tail(), running.log.name)

    def _wait(self, ctx: Context, running: Any, timeout: float) -> int | None:
        """Its exit code; None when it was late, and then it is ended."""
        import time

        until = time.monotonic() + min(timeout, ctx.left)
        while time.monotonic() < until:
            if running.returncode is not None:
                return int(running.returncode)
            ctx.sleep(0.2)
        running.end()
        return None

    def _log_failed(
        self, ctx: Context, stage: str, what: str, rc: int | None, text: str, log: str
    ) -> StageFailed:
        how = "no end in time" if rc is None else how_it_ended(rc)
        return engine_log.broken(
            ctx,
            stage,
            "tool-failed",
            "The version's own tools build and run the smoke model",
            f"{what}: {how}",
            text,
            log,
            want=f"{what} that ends with 0",
        )

    def _known(self, ctx: Context, place: Place) -> Place:
        """Refuse what is older than the option tables."""
        if Pep440Version.parse(place.version) < Pep440Version.parse(OLDEST):
            raise self._failed(
                "version",
                f"TensorRT-LLM {place.version} is older than {OLDEST}: its options are in no table here",
                "doctor plan --want tensorrt-llm",
                [
                    item
                    for row in ctx.knowledge.matrix.statements("tensorrt_llm_rules")
                    if row.id == "tensorrt-llm.build-cli"
                    for item in ctx.knowledge.citations_of(row)
                ],
            )
        return place

    def _failed(
        self, name: str, message: str, command: str, sources: Sequence[Citation] = ()
    ) -> StageFailed:
        return StageFailed(
            fault(
                "engine-build",
                name,
                "This version can be built and served",
                message,
                want=f"TensorRT-LLM {OLDEST} or newer",
                say="choose another version or model class",
                command=command,
                sources=sources,
            )
        )

    def _in_image(self, ctx: Context, image: str) -> Place:
        guest = Guest(ctx, Place(version="0", image=image))
        said = self._guest(ctx, guest, {"do": "version"}, "image-version", 120.0)
        place = Place(version=str(said["version"]), image=image, note="as asked with --image")
        return self._known(ctx, place)


class _Answer(msgspec.Struct, frozen=True):
    ids: list[int]
    logprobs: list[float]


def applies(ctx: Context, rule: str, version: str) -> bool:
    """Whether a rule of the matrix holds for a version."""
    for row in ctx.knowledge.matrix.statements("tensorrt_llm_rules"):
        if row.id == rule and row.versions is not None:
            return Specifier.parse(row.versions).contains(Pep440Version.parse(version))
    return False


def by_pytorch(ctx: Context, version: str) -> bool:
    """Whether the version's default backend needs no engine."""
    return applies(ctx, "tensorrt-llm.default-backend", version)


def build_options(ctx: Context, version: str, checkpoint: str, engine: str) -> list[str]:
    """Options of trtllm-build: what this version has of what the smoke model needs."""
    wanted = [
        ("--checkpoint_dir", checkpoint),
        ("--output_dir", engine),
        ("--max_batch_size", str(MAX_BATCH)),
        ("--max_input_len", str(MAX_LENGTH // 2)),
        ("--max_seq_len", str(MAX_LENGTH)),
        ("--max_num_tokens", str(MAX_TOKENS)),
        ("--gemm_plugin", TOLERANCE.dtype),
        ("--gather_generation_logits", ""),
    ]
    options = known_options(ctx, "trtllm-build", version, wanted)
    if "--max_seq_len" not in options:
        options += known_options(
            ctx, "trtllm-build", version, [("--max_output_len", str(MAX_LENGTH // 2))]
        )
    return options


def known_options(
    ctx: Context, command: str, version: str, wanted: Sequence[tuple[str, str]]
) -> list[str]:
    """Those that the version's tables have, flat; an empty value is a flag."""
    options: list[str] = []
    for name, value in wanted:
        if engine_option(ctx.knowledge.matrix, command, name, version) is not None:
            options += [name, value] if value else [name]
    return options


def beside(python: Path, tool: str) -> Path:
    """A console script of the interpreter's environment."""
    return python.parent / tool


def _last_object(text: str) -> dict[str, Any] | None:
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            try:
                found = msgspec.json.decode(line)
            except msgspec.DecodeError:
                continue
            if isinstance(found, dict):
                return found
    return None


ENGINE = TensorRTLLM()
