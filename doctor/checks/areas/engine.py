"""Inference engines against this host: GPU generation, driver, compilers.

Which wheels fit each other is in python_*.
"""

from __future__ import annotations

from doctor.checks.areas.advice import by_family
from doctor.checks.areas.engine_trtllm import boards, driver_runs
from doctor.checks.areas.environments import each, environments, having, pip, version
from doctor.checks.areas.presence import DRIVER_LADDER
from doctor.checks.areas.python_cuda import built_for
from doctor.checks.base import (
    ERROR,
    INFO,
    WARN,
    Fix,
    Result,
    check,
    failed,
    passed,
    skipped,
)
from doctor.checks.knowledge import Knowledge
from doctor.facts.model import Absent, known_or
from doctor.facts.tree import Facts
from doctor.facts.versions import ComputeCapability, CudaVersion, Pep440Version
from doctor.matrix import query
from doctor.matrix.model import Row, Vllm

ENVIRONMENTS = "python_env.environments"
OLD_SERIES = 10
"""Minor series behind the newest known one from which a release is called very old."""


@check(
    "engine.vllm-too-old-for-gpu",
    title="vLLM is built with a CUDA that knows the GPUs",
    severity=ERROR,
    reads=(ENVIRONMENTS, "nvml.gpus"),
    needs=("cuda.arch-not-in-build",),
    sources=("engine-vllm-gpu-floor",),
    fix=Fix(
        say="install a vLLM whose CUDA is at least the first that knows the GPU, with the "
        "torch that it pins",
        command="python3 -m pip install --upgrade vllm",
        kind="needs-argument",
    ),
)
def _too_old(f: Facts, k: Knowledge) -> Result:
    """Code for a generation needs the CUDA release that introduced it."""
    found = having(f, "vllm")
    if not found:
        return skipped("no environment has vllm")
    there = boards(f)
    good: list[str] = []
    problems: list[str] = []
    rows: list[Row] = []
    command = None
    for item, text in found:
        built, row = built_for(k, "vllm", text)
        if built is None:
            continue
        for name, _, _ in there:
            family = query.gpu_by_name(k.matrix, name)
            if family is None:
                continue
            rows += [family] + ([row] if row else [])
            if CudaVersion(built).release >= family.first_cuda.release:
                good.append(
                    f"vllm {text} is built with CUDA {built}, {name} is known from "
                    f"{family.first_cuda}"
                )
                continue
            problems.append(
                f"vllm {text} ({item.path}) is built with CUDA {built}, and {name} is known "
                f"from CUDA {family.first_cuda}"
            )
            command = command or pip(item, "--upgrade", "vllm")
    if problems:
        return failed(
            each(problems),
            want="a vLLM built with that CUDA or a newer one",
            command=command,
            rows=rows,
        )
    if good:
        return passed(each(good), rows=rows)
    return skipped("no vLLM or no GPU that the rows know")


@check(
    "engine.gpu-too-old-for-vllm",
    title="The GPUs reach the compute capability that vLLM needs",
    severity=ERROR,
    reads=(ENVIRONMENTS, "nvml.gpus"),
    needs=("cuda.arch-not-in-build",),
    sources=("engine-vllm-gpu-floor",),
    fix=Fix(
        say="install the newest release that still has code for this generation",
        command="doctor plan --want vllm",
        kind="needs-argument",
    ),
)
def _gpu_floor(f: Facts, k: Knowledge) -> Result:
    """Every release has a floor, and CUDA 13 raised it."""
    found = having(f, "vllm")
    if not found:
        return skipped("no environment has vllm")
    there = boards(f)
    good: list[str] = []
    problems: list[str] = []
    rows: list[Row] = []
    command = None
    for item, text in found:
        row = query.vllm(k.matrix, text) if Pep440Version.maybe(text) else None
        floor = row.min_compute_capability if row else None
        if row is None or floor is None:
            continue
        for name, capability, _ in there:
            rows.append(row)
            if capability >= floor:
                good.append(
                    f"{name} has compute capability {capability}, vllm {text} needs {floor}"
                )
                continue
            problems.append(
                f"{name} has compute capability {capability}, and vllm {text} ({item.path}) "
                f"needs {floor}"
            )
            last = _newest_for(k, capability)
            command = command or (pip(item, f"vllm=={last.version}") if last else None)
    if problems:
        return failed(
            each(problems),
            want="a release with a lower floor, or a newer GPU",
            command=command,
            rows=rows,
        )
    if good:
        return passed(each(good), rows=rows)
    return skipped("no vLLM release that a row knows, or no GPU")


def _newest_for(k: Knowledge, capability: ComputeCapability) -> Vllm | None:
    fitting = [
        row
        for row in k.matrix.rows(Vllm)
        if row.min_compute_capability and row.min_compute_capability <= capability
    ]
    return max(fitting, key=lambda row: row.version, default=None)


@check(
    "engine.vllm-cuda-vs-driver",
    title="The driver runs the CUDA that vLLM is built with",
    severity=ERROR,
    reads=(ENVIRONMENTS, "nvml.driver_version", "cuda.scope"),
    needs=(*DRIVER_LADDER, "cuda.driver-too-old"),
    sources=("engine-cuda-compatibility",),
    fix=Fix(
        say="install a newer driver, or the vLLM build for an older CUDA with its torch",
        command="doctor plan --want vllm",
        kind="needs-argument",
        disturbs="gpu",
        remedy="nvidia_driver",
    ),
)
def _vllm_driver(f: Facts, k: Knowledge) -> Result:
    """A CUDA major needs the driver branch that came with it or a newer one."""
    return driver_runs(f, k, "vllm")


@check(
    "engine.flashinfer-jit",
    title="FlashInfer's kernels are there, or can be built at the first start",
    severity=WARN,
    reads=(ENVIRONMENTS, "cuda.toolkits", "cuda.nvcc", "python_env.ninja", "host.os_release"),
    sources=("engine-flashinfer-nvcc", "engine-flashinfer-packages"),
    fix=Fix(
        say="install flashinfer-cubin of flashinfer-python's version, or nvcc and ninja, "
        "or set VLLM_USE_FLASHINFER_SAMPLER=0",
        command="export VLLM_USE_FLASHINFER_SAMPLER=0",
        kind="needs-argument",
    ),
)
def _flashinfer(f: Facts, k: Knowledge) -> Result:
    """Without built kernels a missing nvcc or ninja keeps vLLM from starting."""
    row = k.matrix.statement("vllm_rules", "vllm.flashinfer-jit")
    using = [
        item for item in environments(f) if {"vllm", "flashinfer-python"} <= set(item.packages)
    ]
    if row is None or not using:
        return skipped("no environment has vllm with flashinfer-python")
    pinning = [release.version for release in k.matrix.rows(Vllm) if release.flashinfer_cubin]
    using = [
        item
        for item in using
        if pinning and version(Pep440Version, item.packages["vllm"], ENVIRONMENTS) >= min(pinning)
    ]
    if not using:
        return skipped("no vllm of the releases that sample with FlashInfer")
    built = [item for item in using if set(row.names) & set(item.packages)]
    bare = [item for item in using if item not in built]
    if not bare:
        return passed(
            f"built kernels are installed in {', '.join(item.path for item in built)}", rows=(row,)
        )
    tools = known_or(f.cuda.toolkits, [])
    nvcc = known_or(f.cuda.nvcc, "") or next((tool.path for tool in tools if tool.nvcc), "")
    item = bare[0]
    nvcc = nvcc or next((name for name in item.packages if name.startswith("nvidia-cuda-nvcc")), "")
    ninja = known_or(f.python_env.ninja, "") or item.packages.get("ninja", "")
    gone = [name for name, there in (("nvcc", nvcc), ("ninja", ninja)) if not there]
    if not gone:
        return passed(
            f"no built kernels in {item.path}, but nvcc ({nvcc}) and ninja ({ninja}) can build "
            "them",
            rows=(row,),
        )
    main = item.packages["flashinfer-python"].partition("+")[0]
    return failed(
        f"{item.path} has flashinfer-python {main} without its built kernels, and there is no "
        f"{' and no '.join(gone)}",
        want="flashinfer-cubin, or nvcc and ninja",
        command=pip(item, f"flashinfer-cubin=={main}"),
        rows=(row,),
    )


@check(
    "engine.triton-needs-compiler",
    title="A C compiler is there for Triton",
    severity=WARN,
    reads=(ENVIRONMENTS, "kernel.gcc", "host.os_release"),
    sources=("engine-triton-compiler", "engine-triton-compiler-v1"),
    fix=Fix(
        say="install a C compiler and Python's headers, or point CC at one",
        command="sudo apt-get install -y gcc python3-dev",
    ),
)
def _compiler(f: Facts, k: Knowledge) -> Result:
    """Triton compiles its launcher when it first runs."""
    row = k.matrix.statement("vllm_rules", "vllm.triton-compiler")
    using = [
        item
        for item in environments(f)
        if "triton" in item.packages and ({"vllm", "sglang"} & set(item.packages))
    ]
    if not using:
        return skipped("no environment has an engine with triton")
    if isinstance(f.kernel.gcc, Absent):
        return failed(
            f"no gcc, and triton {using[0].packages['triton']} in {using[0].path} compiles its "
            "launcher when it first runs",
            want="a C compiler",
            command=by_family(
                f,
                debian="sudo apt-get install -y gcc python3-dev",
                rhel="sudo dnf install -y gcc python3-devel",
            ),
            rows=(row,) if row else (),
        )
    return passed(
        f"gcc {f.kernel.gcc.value} for triton {using[0].packages['triton']}",
        rows=(row,) if row else (),
    )


@check(
    "engine.vllm-very-old",
    title="vLLM is not many releases behind",
    severity=INFO,
    reads=(ENVIRONMENTS,),
    sources=("engine-vllm-releases",),
    fix=Fix(
        say="plan an upgrade: fixes and new models go to new releases only",
        command="doctor plan --want vllm",
        kind="needs-argument",
    ),
)
def _very_old(f: Facts, k: Knowledge) -> Result:
    """Counted in minor series of the releases that the matrix knows."""
    found = having(f, "vllm")
    if not found:
        return skipped("no environment has vllm")
    newest = max(k.matrix.rows(Vllm), key=lambda row: row.version, default=None)
    if newest is None:
        return skipped("no row of vLLM")
    if newest.as_of > k.as_of:
        return skipped(f"the known releases are of {newest.as_of}, later than the judged day")
    series = {row.version.key.release[:2] for row in k.matrix.rows(Vllm)}
    old: list[str] = []
    good: list[str] = []
    for item, text in found:
        mine = version(Pep440Version, text, ENVIRONMENTS).key.release[:2]
        behind = sum(1 for other in series if other > mine)
        say = f"vllm {text} ({item.path}) is {behind} minor releases behind {newest.version}"
        (old if behind >= OLD_SERIES else good).append(say)
    if old:
        return failed(each(old), want=f"fewer than {OLD_SERIES} behind", rows=(newest,))
    return passed(each(good), rows=(newest,))
