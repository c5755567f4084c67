"""Local images against this host's driver, by the whole of what they require."""

from __future__ import annotations

import shlex

from doctor.checks.areas.container_toolkit import NO_DOCKER, setting, statement
from doctor.checks.areas.presence import DRIVER_LADDER
from doctor.checks.base import ERROR, Fix, Result, check, failed, passed, seen, skipped, unseen
from doctor.checks.knowledge import Knowledge
from doctor.facts.model import Absent, known_or
from doctor.facts.tree import Facts
from doctor.facts.versions import ComputeCapability, CudaVersion, DriverVersion
from doctor.matrix.query import forward_compat, gpu_by_name, min_driver_to_run, native_cuda, runs
from doctor.matrix.require_cuda import require_cuda
from doctor.matrix.row import Row

BRANDS = {"datacenter": "tesla", "geforce": "geforce"}
"""What NVML calls the product line of a market; workstation boards have several names and stay unknown."""


@check(
    "container.require-cuda",
    title="The driver meets what local images require",
    severity=ERROR,
    needs=DRIVER_LADDER,
    reads=(
        "container.images",
        "container.images_unseen",
        "container.toolkit_config",
        "driver.loaded",
        "driver.library",
        "nvml.gpus",
    ),
    sources=("cloud-native-docs-docker-specialized", "vllm#5635", "nvidia-container-toolkit#152"),
    fix=Fix(
        "install a driver whose CUDA the image asks for, or use an image for this driver",
        command="doctor plan --want driver",
        disturbs="reboot",
        remedy="nvidia_driver",
    ),
)
def images_require(f: Facts, k: Knowledge) -> Result:
    """NVIDIA_REQUIRE_* is evaluated whole: a space is OR, a comma is AND, several variables are ANDed."""
    if isinstance(f.container.images, Absent):
        return skipped(NO_DOCKER)
    asking = [
        item
        for item in f.container.images.value
        if any(name.startswith("NVIDIA_REQUIRE_") for name in item.env)
    ]
    unseen_images = known_or(f.container.images_unseen, 0)
    if not asking:
        return skipped("no local image asks for a driver")
    if (
        setting(f, "nvidia-container-runtime.mode") == "cdi"
        or setting(f, "disable-require") is True
    ):
        return skipped("the toolkit is set so that it does not evaluate NVIDIA_REQUIRE_*")
    version = known_or(f.driver.loaded, "") or f.driver.library.value
    driver = DriverVersion.maybe(version)
    if driver is None:
        return unseen(f"{version!r} is not a driver version")
    branch = native_cuda(k.matrix, driver)
    cuda = CudaVersion.parse(str(branch.cuda)) if branch else None
    brands, archs = _hardware(f, k)
    open_terms: list[str] = []
    for item in asking:
        for brand, arch in zip(brands, archs, strict=True):
            verdict = require_cuda(item.env, driver, cuda, brand, arch)
            if verdict.satisfied is False:
                return failed(
                    f"driver {driver} (CUDA {cuda or 'unknown'}) does not meet {item.ref}: "
                    f"{verdict.unmet[0]} is not satisfied",
                    want=verdict.unmet[0],
                    command=f"docker image inspect --format '{{{{.Config.Env}}}}' {shlex.quote(item.ref)}"
                    " && doctor plan --want driver",
                    evidence=[seen(f"image.{item.ref}", item.env, item.ref)],
                    rows=[
                        *([branch] if branch else []),
                        statement(k, "container.require-cuda-syntax"),
                    ],
                )
            if verdict.satisfied is None:
                open_terms += verdict.unknown
    if open_terms:
        return unseen(f"cannot decide {', '.join(dict.fromkeys(open_terms))} for {asking[0].ref}")
    if unseen_images:
        return unseen(f"{unseen_images} more GPU images were not looked at")
    return passed(
        f"driver {driver} (CUDA {cuda}) meets all {len(asking)} local image(s) that ask",
        rows=[branch] if branch else [],
    )


@check(
    "container.image-cuda",
    title="The driver runs the CUDA inside local images",
    severity=ERROR,
    needs=(*DRIVER_LADDER, "container.require-cuda"),
    reads=("container.images", "driver.loaded", "driver.library", "nvml.gpus"),
    sources=("minor-version-compatibility", "forward-compatibility", "TensorRT-LLM#23"),
    fix=Fix(
        "install a driver that runs the image's CUDA, or use an image for this driver",
        command="doctor plan --want driver",
        disturbs="reboot",
        remedy="nvidia_driver",
    ),
)
def images_run(f: Facts, k: Knowledge) -> Result:
    """CUDA_VERSION of an image is native to the driver, of its major release, or in reach of the compat library."""
    if isinstance(f.container.images, Absent):
        return skipped(NO_DOCKER)
    built = [
        (item, cuda)
        for item in f.container.images.value
        if (cuda := CudaVersion.maybe(_three(item.env.get("CUDA_VERSION", "")))) is not None
    ]
    if not built:
        return skipped("no local image says which CUDA it has")
    driver = DriverVersion.parse(known_or(f.driver.loaded, "") or f.driver.library.value)
    gpus = [gpu_by_name(k.matrix, gpu.name.value) for gpu in f.nvml.gpus.value.values()]
    rows: list[Row] = []
    undecided = ""
    for item, cuda in built:
        answer = runs(k.matrix, cuda, driver)
        if answer is None:
            undecided = undecided or f"the matrix does not know CUDA {cuda} of {item.ref}"
            continue
        rows += answer.rows
        if answer.mode != "refused":
            continue
        lifts = [forward_compat(k.matrix, cuda, driver, gpu) if gpu else None for gpu in gpus]
        blocked = next((lift for lift in lifts if lift and lift.possible is False), None)
        if blocked:
            need = min_driver_to_run(k.matrix, cuda)
            return failed(
                f"driver {driver} does not run {item.ref}, which has CUDA {cuda}: {blocked.why}",
                want=f"driver >= {need.min_run}" if need else f"a driver for CUDA {cuda}",
                command=f"doctor plan --want {shlex.quote(f'image:{item.ref}')}",
                evidence=[seen(f"image.{item.ref}", item.env, item.ref)],
                rows=[*answer.rows, *blocked.rows],
            )
        if not lifts or any(lift is None or lift.possible is None for lift in lifts):
            undecided = undecided or f"whether the compat library of {item.ref} may run here"
    if undecided:
        return unseen(f"not known: {undecided}")
    shown = ", ".join(sorted({str(cuda) for _, cuda in built}))
    return passed(f"driver {driver} runs CUDA {shown} of {len(built)} local image(s)", rows=rows)


def _three(version: str) -> str:
    """The release of an image: a fourth field numbers the build."""
    return ".".join(version.split(".")[:3])


def _hardware(f: Facts, k: Knowledge) -> tuple[list[str | None], list[ComputeCapability | None]]:
    """Brand and compute capability of each kind of GPU."""
    brands: list[str | None] = []
    archs: list[ComputeCapability | None] = []
    for gpu in known_or(f.nvml.gpus, {}).values():
        family = gpu_by_name(k.matrix, gpu.name.value)
        brand = BRANDS.get(family.market or "") if family else None
        arch = ComputeCapability.maybe(known_or(gpu.compute_capability, ""))
        if (brand, arch) not in zip(brands, archs, strict=True):
            brands.append(brand)
            archs.append(arch)
    return brands or [None], archs or [None]
