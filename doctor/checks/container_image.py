"""Local images against this host's driver, by the whole of what they require."""

from __future__ import annotations

import shlex

from doctor.checks.base import ERROR, Fix, Result, check, failed, passed, seen, skipped, unseen
from doctor.checks.container_toolkit import NO_DOCKER, setting, statement
from doctor.checks.knowledge import Knowledge
from doctor.checks.presence import DRIVER_LADDER
from doctor.facts.model import Absent, known_or
from doctor.facts.tree import Facts
from doctor.facts.versions import ComputeCapability, CudaVersion, DriverVersion
from doctor.matrix.query import gpu_by_name, native_cuda
from doctor.matrix.require_cuda import require_cuda

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
    driver = DriverVersion.parse(version)
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
