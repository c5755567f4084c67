"""Container images: what a saved `docker image inspect`, the local engine or the matrix says of one, without starting it."""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from doctor.errors import UsageError
from doctor.facts.versions import CudaVersion, DriverVersion
from doctor.matrix import query, want_query
from doctor.matrix.model import CudaToolkit, ForwardCompat, TensorRTLLM, Vllm
from doctor.matrix.require_cuda import Requirement, require_cuda
from doctor.plan.pick import DRIVER, ENGINE, GPU, IMAGE, TOOLKIT, Need, Pick, Premise, rule

if TYPE_CHECKING:
    from doctor.matrix.matrix import Matrix
    from doctor.plan.host_state import GpuSeen, HostState
    from doctor.plan.want import ImageWant

MAX_FILE = 4 * 1024 * 1024
_REFERENCE = re.compile(r"[a-z0-9]+(?:[._:/-]+[A-Za-z0-9_.-]+)*(?:@sha256:[0-9a-f]{64})?")


class ImageLook(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of an image. `origin` says who said it."""

    ref: str
    env: dict[str, str] = {}
    labels: dict[str, str] = {}
    origin: str
    engine: Any = None
    """Row of what is inside, by name and tag: vLLM, TensorRT-LLM or a CUDA toolkit."""

    @property
    def requires(self) -> dict[str, str]:
        """NVIDIA_REQUIRE_* and the variable that switches them off."""
        return {
            name: value
            for name, value in self.env.items()
            if name.startswith("NVIDIA_REQUIRE_") or name == "NVIDIA_DISABLE_REQUIRE"
        }

    @property
    def cuda(self) -> CudaVersion | None:
        """The CUDA release inside: by CUDA_VERSION, a label, or the matrix."""
        for text in (
            self.env.get("CUDA_VERSION", ""),
            self.labels.get("com.nvidia.cuda.version", ""),
        ):
            match = re.match(r"\d{1,2}\.\d+(?:\.\d+)?", text)
            if match:
                return CudaVersion(match[0])
        return built_with(self.engine)


def built_with(row: Any) -> CudaVersion | None:
    """The CUDA release of an engine's or toolkit's row."""
    if isinstance(row, Vllm):
        return row.cuda or row.torch_cuda
    return row.cuda if isinstance(row, (TensorRTLLM, CudaToolkit)) else None


def read_image(argument: str) -> tuple[str, ImageLook | None]:
    """`REF` or the path of a saved inspect. UsageError for a file that is none, or a reference nobody could pull."""
    path = Path(argument)
    if argument.endswith(".json") or argument.startswith(("/", "./", "../")):
        look = _saved(path)
        return look.ref, look
    if not _REFERENCE.fullmatch(argument) or len(argument) > 512:
        raise UsageError(
            f"--want image:{argument}: not an image reference",
            "write image:nvcr.io/nvidia/cuda:13.0.2-base-ubuntu24.04",
        )
    return argument, None


def _saved(path: Path) -> ImageLook:
    try:
        if not path.is_file() or path.stat().st_size > MAX_FILE:
            raise UsageError(
                f"{path}: not a saved docker image inspect",
                f"make it with: docker image inspect REF > {path}",
            )
        document = json.loads(path.read_text(encoding="utf-8", errors="replace"))
    except OSError as error:
        raise UsageError(
            f"{path}: {error.strerror}", f"make it with: docker image inspect REF > {path}"
        ) from None
    except (ValueError, RecursionError):
        raise UsageError(
            f"{path}: not valid JSON", f"make it with: docker image inspect REF > {path}"
        ) from None
    entry = document[0] if isinstance(document, list) and document else document
    config = entry.get("Config") if isinstance(entry, dict) else None
    if not isinstance(entry, dict) or not isinstance(config, dict):
        raise UsageError(
            f"{path}: holds no image configuration",
            f"make it with: docker image inspect REF > {path}",
        )
    tags = entry.get("RepoTags") or entry.get("RepoDigests") or [path.name]
    env = dict(
        item.split("=", 1)
        for item in config.get("Env") or []
        if isinstance(item, str) and "=" in item
    )
    labels = {str(name): str(value) for name, value in (config.get("Labels") or {}).items()}
    return ImageLook(ref=str(tags[0]), env=env, labels=labels, origin=f"saved inspect {path.name}")


def look_at(want: ImageWant, state: HostState, matrix: Matrix) -> ImageLook | None:
    """What is known of a wanted image: the file's word, the local engine's, else the matrix's. None: nobody knows."""
    engine = want_query.image_engine(matrix, want.ref)
    if want.image is not None:
        return msgspec.structs.replace(want.image, engine=engine)
    for item in state.local_images:
        if plain(item.ref) == plain(want.ref):
            return ImageLook(
                ref=want.ref,
                env=item.env,
                labels=item.labels,
                origin="the local engine",
                engine=engine,
            )
    return (
        ImageLook(ref=want.ref, origin="the matrix", engine=engine) if engine is not None else None
    )


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """Whether an image runs under a driver. satisfied None: what decides was not seen."""

    satisfied: bool | None
    mode: str = ""
    """native, minor, forward."""
    say: str = ""
    rows: tuple[Any, ...] = ()


def judge(
    look: ImageLook, driver: DriverVersion, gpus: tuple[GpuSeen, ...], matrix: Matrix
) -> Judged:
    """The whole NVIDIA_REQUIRE_* of the image, then the CUDA inside, natively, by minor versions or by its compat package."""
    native = query.native_cuda(matrix, driver)
    required = _required(look, driver, native.cuda if native else None, gpus)
    if required.satisfied is False:
        term = required.unmet[0] if required.unmet else "NVIDIA_REQUIRE_CUDA"
        return Judged(satisfied=False, say=f"the image refuses driver {driver}: {term} is not met")
    inside = look.cuda
    if inside is None:
        if required.satisfied and look.requires and not required.disabled:
            return Judged(satisfied=True, mode="native", say="the image's requirement is met")
        return Judged(satisfied=None, say="neither NVIDIA_REQUIRE_CUDA nor CUDA_VERSION is known")
    answer = query.runs(matrix, inside, driver)
    if answer is None:
        return Judged(satisfied=None, say=f"the matrix does not know CUDA {inside}")
    if answer.mode != "refused":
        unknown = required.satisfied is None
        return Judged(
            satisfied=None if unknown else True,
            mode=answer.mode,
            rows=answer.rows,
            say=f"driver {driver} runs CUDA {inside}",
        )
    return _forward(look, inside, driver, gpus, matrix, answer.rows)


def _required(
    look: ImageLook, driver: DriverVersion, cuda: CudaVersion | None, gpus: tuple[GpuSeen, ...]
) -> Requirement:
    """Evaluated for each brand that NVML may report; only what they agree on is decided."""
    if not look.requires:
        return Requirement(True)
    results = [
        require_cuda(look.requires, driver=driver, cuda=cuda, brand=brand, arch=gpu.capability)
        for gpu in gpus or ()
        for brand in sorted(gpu.brands)
    ] or [require_cuda(look.requires, driver=driver, cuda=cuda)]
    answers = {result.satisfied for result in results}
    if len(answers) == 1:
        return results[0]
    return Requirement(None, unknown=("brand",))


def _forward(
    look: ImageLook,
    inside: CudaVersion,
    driver: DriverVersion,
    gpus: tuple[GpuSeen, ...],
    matrix: Matrix,
    rows: tuple[Any, ...],
) -> Judged:
    """The cuda-compat package in the image, where the driver alone is too old."""
    cited = list(rows)
    answers: list[bool | None] = []
    why = ""
    for gpu in gpus:
        if gpu.family is None:
            answers.append(None)
            continue
        answer = query.forward_compat(matrix, inside, driver, gpu.family)
        brands = next((row.brands for row in answer.rows if isinstance(row, ForwardCompat)), ())
        possible = answer.possible
        if possible and brands and not gpu.brands & set(brands):
            possible = False
        answers.append(possible)
        cited += answer.rows
        why = answer.why
    too_old = f"driver {driver} is too old for CUDA {inside}"
    if not answers or (None in answers and False not in answers):
        return Judged(
            satisfied=False,
            rows=tuple(cited),
            say=f"{too_old}, and forward compatibility is not known to help: {why}",
        )
    if False in answers:
        return Judged(
            satisfied=False,
            rows=tuple(cited),
            say=f"{too_old}, and {why or 'forward compatibility does not cover it'}",
        )
    return Judged(
        satisfied=True,
        mode="forward",
        rows=tuple(cited),
        say=f"{too_old} by itself; the image's compat libraries lift it ({why})",
    )


def image_picks(want: ImageWant, state: HostState, matrix: Matrix) -> list[Pick]:
    """The image is what it is: one pick."""
    look = look_at(want, state, matrix)
    here = is_here(want.ref, state.image_names)
    rows = (look.engine,) if look is not None and look.engine is not None else ()
    return [
        Pick(
            thing=thing_of(want),
            version=want.ref,
            data=look,
            rows=rows,
            installed=here,
            needs=lambda: _needs(want, look, state, matrix),
        )
    ]


def plain(ref: str) -> str:
    """A reference as the engine itself says it: of Docker's own registry without its name; a digest without the tag, else with one."""
    name = ref.removeprefix("docker.io/").removeprefix("library/")
    name, _, digest = name.partition("@")
    repository, colon, tag = name.rpartition(":")
    tagged = bool(colon) and "/" not in tag
    if digest:
        return f"{repository if tagged else name}@{digest}"
    return name if tagged else f"{name}:latest"


def is_here(ref: str, names: Collection[str]) -> bool:
    """Whether an image is among the engine's own."""
    return plain(ref) in names


def thing_of(want: ImageWant) -> str:
    """The solver's name for a wanted image."""
    return f"{IMAGE} {want.ref}"


def _needs(want: ImageWant, look: ImageLook | None, state: HostState, matrix: Matrix) -> list[Need]:
    needs = [
        Need(TOOLKIT, lambda pick: True, (_uses(want),)),
        Need(ENGINE, lambda pick: True, (_uses(want),)),
    ]
    if look is None:
        what = f"nobody here knows what {want.ref} needs: pull it, or give a saved docker image inspect"
        needs.append(
            Need(DRIVER, lambda pick: None, (rule("image.unknown", what),), f"image {want.ref}")
        )
        return needs
    inside = f" has CUDA {look.cuda}" if look.cuda else " says nothing of CUDA"
    asks = next(iter(look.requires.values()), "")
    wants = f" and asks for {asks}" if asks else ""
    floor = query.min_driver_to_run(matrix, look.cuda) if look.cuda else None
    needs.append(
        Need(
            DRIVER,
            lambda pick: judge(look, pick.data[0], state.gpus, matrix).satisfied,
            (
                rule(
                    "image.driver",
                    f"{want.ref}{inside}{wants} (by {look.origin})",
                    floor,
                    look.engine,
                ),
            ),
            "driver",
        )
    )
    if isinstance(look.engine, Vllm):
        from doctor.plan.gpu_needs import gpu_known_to, least_capability

        row = look.engine
        needs.append(least_capability(want.ref, "vllm.compute-capability", row, matrix, state))
        if (built := built_with(row)) is not None:
            needs.append(gpu_known_to(want.ref, built, row, state))
    elif look.cuda is not None:
        from doctor.plan.gpu_needs import gpu_known_to

        needs.append(gpu_known_to(want.ref, look.cuda, look.engine, state))
    return needs


def _uses(want: ImageWant) -> Premise:
    return Premise("rule", "image.container", f"{want.ref} runs in a container")


def container_engine_picks(state: HostState, matrix: Matrix) -> list[Pick]:
    """The engine that is there, Docker before podman; else the distribution's own to be installed: podman where there is dnf."""
    picks = []
    if state.docker:
        picks.append(
            Pick(thing=ENGINE, version=f"docker {state.docker}", data="docker", installed=True)
        )
    if state.podman:
        picks.append(
            Pick(thing=ENGINE, version=f"podman {state.podman}", data="podman", installed=True)
        )
    if not picks:
        name = "podman" if state.package_manager == "dnf" else "docker"
        row = query.container_engine(matrix, name)
        since = row.cdi_default_since if row else None
        version = f"{name} {since} or newer" if since else name
        picks.append(
            Pick(
                thing=ENGINE,
                version=version,
                data=name,
                rows=(row,) if row else (),
                reason="no container engine is here",
            )
        )
    return picks


def toolkit_picks(state: HostState, matrix: Matrix, as_of: datetime.date) -> list[Pick]:
    """The toolkit that is there, then every release newest first."""
    picks = []
    if state.toolkit:
        row = query.container_toolkit(matrix, state.toolkit)
        picks.append(
            Pick(thing=TOOLKIT, version=state.toolkit, rows=(row,) if row else (), installed=True)
        )
    rows = [
        row
        for row in want_query.container_toolkits_newest_first(matrix)
        if row.released is None or row.released <= as_of
    ]
    return picks + [Pick(thing=TOOLKIT, version=str(row.version), rows=(row,)) for row in rows]


def gpu_need(premise: Premise) -> Need:
    """At least one GPU."""

    def test(pick: Pick) -> bool | None:
        if not pick.data:
            return False
        return True if any(gpu.count for gpu in pick.data) else None

    return Need(GPU, test, (premise,), "gpus")
