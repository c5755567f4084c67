"""What the rungs ask of an engine, whatever it is. An adapter drives an interpreter or an image and imports neither.

A module `doctor/smoke/engines/<name>.py` holds its adapter as ENGINE; a dash in the name is an underscore there.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec

from doctor.checks.finding import Evidence

if TYPE_CHECKING:
    from doctor.smoke.context import Context
    from doctor.smoke.tiny_model import TinyModel

ENGINES = ("vllm", "vllm-cpu", "tensorrt_llm")
"""Names that --engine takes beside auto. auto tries vllm, then tensorrt_llm, and never the CPU."""


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """Where an engine is: an interpreter of this host, or an image."""

    version: str
    """PEP 440 text of the engine's package."""
    python: Path | None = None
    image: str | None = None
    note: str = ""
    """How it was found or made, for the report."""
    evidence: tuple[Evidence, ...] = ()

    @property
    def where(self) -> str:
        """The interpreter or image."""
        return f"image {self.image}" if self.image else str(self.python)


class Mount(msgspec.Struct, frozen=True):
    """A folder of the host inside a container."""

    source: Path
    target: str
    read_only: bool = True


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """How to start a server. With `image` it is a container's command line; the port is then published on the loopback only."""

    argv: tuple[str, ...]
    env: dict[str, str] = {}
    image: str | None = None
    mounts: tuple[Mount, ...] = ()
    ready: str = "/health"
    """Path that answers 200 once it serves."""


class Tolerance(msgspec.Struct, frozen=True, kw_only=True):
    """How far from the float32 reference an engine of a dtype may be. In nats."""

    dtype: str
    each: float
    """Largest difference of one log-probability."""
    mean: float
    """Largest mean difference over all that are compared."""
    tie: float
    """Two candidates nearer than this in the reference are a tie: either may come."""
    why: str
    """Where the numbers come from."""


class TokenAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """What an engine generated for one prompt: ids, the log-probability of each, and those of the most likely candidates."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    top: tuple[dict[int, float], ...] = ()
    """Per position: candidate id -> log-probability, at least the chosen one."""


class Engine(Protocol):
    """One engine."""

    name: str
    gpu: bool
    """Whether it needs one: without, the rungs driver, cuda and nccl are skips."""

    def place(self, ctx: Context) -> Place:
        """Find it (--python, --image, the managed environment), or make it with --provision. StageFailed when it is not there."""

    def dtype(self, ctx: Context) -> str:
        """float32, bfloat16 or float16: how the smoke model is stored and served."""

    def tolerance(self, ctx: Context) -> Tolerance:
        """For this dtype."""

    def build(self, ctx: Context, place: Place, model: TinyModel) -> Path:
        """The folder to serve: the model itself, or the engine built from it. StageFailed with the log's explanation."""

    def command(
        self, ctx: Context, place: Place, built: Path, port: int, key: str
    ) -> Command | None:
        """How to serve `built` on 127.0.0.1:`port` with API key `key`. None: this version has no server."""

    def answers(
        self,
        ctx: Context,
        place: Place,
        built: Path,
        prompts: tuple[tuple[int, ...], ...],
        tokens: int,
    ) -> list[TokenAnswer]:
        """Greedy tokens through the version's own runner, for versions without a server."""


def engine(name: str) -> Engine:
    """The adapter called so."""
    module = importlib.import_module(f"doctor.smoke.engines.{name.replace('-', '_')}")
    found: Engine = module.ENGINE
    return found
