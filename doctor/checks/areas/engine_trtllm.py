"""TensorRT-LLM against this host, and what its checks share with vLLM's."""

from __future__ import annotations

from doctor.checks.areas.environments import each, gpus, having, pip, version
from doctor.checks.areas.presence import DRIVER_LADDER
from doctor.checks.areas.python_cuda import built_for, torch_for
from doctor.checks.base import ERROR, Fix, Result, check, failed, passed, skipped
from doctor.checks.knowledge import Knowledge
from doctor.facts.areas.nvml import Gpu
from doctor.facts.model import Known, known_or
from doctor.facts.tree import Facts
from doctor.facts.versions import ComputeCapability, CudaVersion, DriverVersion, Pep440Version
from doctor.matrix import query
from doctor.matrix.model import Row

ENVIRONMENTS = "python_env.environments"


def boards(f: Facts) -> list[tuple[str, ComputeCapability, Gpu]]:
    """(name, compute capability, board), one of each kind."""
    found: dict[str, tuple[str, ComputeCapability, Gpu]] = {}
    for gpu in gpus(f).values():
        capability = version(
            ComputeCapability, gpu.compute_capability.value, "nvml.gpus.compute_capability"
        )
        name = known_or(gpu.name, "GPU")
        found.setdefault(name, (name, capability, gpu))
    return list(found.values())


def driver_runs(f: Facts, k: Knowledge, name: str) -> Result:
    """Whether the driver runs what an engine's wheel is built with; a compat library counts as
    it answers.
    """
    found = having(f, name)
    if not found:
        return skipped(f"no environment has {name}")
    api = f.cuda.scope.value.driver_version if isinstance(f.cuda.scope, Known) else None
    good: list[str] = []
    problems: list[str] = []
    rows: list[Row] = []
    for item, text in found:
        built, row = built_for(k, name, text)
        if built is None:
            continue
        rows += [row] if row else []
        wanted = CudaVersion(built)
        if api and version(CudaVersion, api, "cuda.scope").major >= wanted.major:
            good.append(
                f"{name} {text} is built for CUDA {built}, the driver library answers for {api}"
            )
            continue
        driver = version(DriverVersion, f.nvml.driver_version.value, "nvml.driver_version")
        answer = query.runs(k.matrix, wanted, driver)
        if answer is None:
            continue
        rows += answer.rows
        text = f"{name} {text} ({item.path}) is built for CUDA {built}, driver {driver}"
        (problems if answer.mode == "refused" else good).append(text)
    if problems:
        return failed(
            each(problems) + " is too old for it",
            want="a driver that runs that CUDA, or a build for an older one",
            rows=rows,
        )
    if good:
        return passed(each(good), rows=rows)
    return skipped(f"no release of {name} whose CUDA a row names")


@check(
    "engine.trtllm-driver",
    title="The driver runs the CUDA that TensorRT-LLM is built with",
    severity=ERROR,
    reads=(ENVIRONMENTS, "nvml.driver_version", "cuda.scope"),
    needs=(*DRIVER_LADDER, "cuda.driver-too-old"),
    sources=("engine-cuda-compatibility", "engine-trtllm-notes"),
    fix=Fix(
        say="install a newer driver, or a release of TensorRT-LLM for an older CUDA",
        command="doctor plan --want tensorrt-llm",
        kind="needs-argument",
        disturbs="gpu",
        remedy="nvidia_driver",
    ),
)
def _trtllm_driver(f: Facts, k: Knowledge) -> Result:
    """A CUDA major needs the driver branch that came with it or a newer one."""
    return driver_runs(f, k, "tensorrt-llm")


@check(
    "engine.trtllm-cuda",
    title="TensorRT-LLM, its torch and its TensorRT fit each other",
    severity=ERROR,
    reads=(ENVIRONMENTS,),
    needs=("python.cpu-only-torch",),
    sources=("engine-trtllm-notes",),
    fix=Fix(
        say="install the torch build and the TensorRT that the release names, before "
        "tensorrt-llm itself",
        command="python3 -m pip check",
        kind="needs-argument",
    ),
)
def _trtllm_cuda(f: Facts, k: Knowledge) -> Result:
    """One CUDA major for both, and the TensorRT series that the release is built with: the torch
    on PyPI may be another build.
    """
    found = having(f, "tensorrt-llm")
    good: list[str] = []
    problems: list[str] = []
    rows: list[Row] = []
    command: str | None = None
    for item, text in found:
        row = query.tensorrt_llm(k.matrix, text) if Pep440Version.maybe(text) else None
        if row is None or row.cuda is None:
            continue
        rows.append(row)
        if item.torch_cuda and item.torch_cuda.partition(".")[0] != str(row.cuda.major):
            problems.append(
                f"tensorrt-llm {text} is built for CUDA {row.cuda}, torch "
                f"{item.packages['torch']} for {item.torch_cuda} ({item.path})"
            )
            command = command or torch_for(k, item, str(row.cuda.major))
        rt = Pep440Version.maybe(item.packages.get("tensorrt", ""))
        if row.tensorrt and rt and rt.key.release[:2] != row.tensorrt.key.release[:2]:
            problems.append(
                f"tensorrt-llm {text} is built with TensorRT {row.tensorrt}, {item.path} has {rt}"
            )
            command = command or pip(item, f"tensorrt=={row.tensorrt}.*")
        if not problems and (item.torch_cuda or rt):
            good.append(
                f"tensorrt-llm {text} wants CUDA {row.cuda} and TensorRT "
                f"{row.tensorrt or 'of any release'}, "
                f"{item.path} has torch for CUDA {item.torch_cuda or 'unknown'} and TensorRT "
                f"{rt or 'none'}"
            )
    if problems:
        return failed(
            each(problems), want="what the release is built with", command=command, rows=rows
        )
    if good:
        return passed(each(good), rows=rows)
    return skipped(
        "no TensorRT-LLM release that a row knows" if found else "no environment has tensorrt-llm"
    )


@check(
    "engine.trtllm-python",
    title="TensorRT-LLM runs on a Python that it is released for",
    severity=ERROR,
    reads=(ENVIRONMENTS,),
    needs=("python.version-unsupported",),
    sources=("engine-trtllm-matrix", "python-pypi-tensorrt-llm"),
    fix=Fix(
        say="make an environment with a Python of the support matrix",
        command="python3 -m venv /opt/tensorrt-llm",
        kind="needs-argument",
    ),
)
def _trtllm_python(f: Facts, k: Knowledge) -> Result:
    """Wheels exist for the Pythons of the support matrix only."""
    good: list[str] = []
    problems: list[str] = []
    rows: list[Row] = []
    found = having(f, "tensorrt-llm")
    for item, text in found:
        row = query.tensorrt_llm(k.matrix, text) if Pep440Version.maybe(text) else None
        if row is None or not row.python or item.python is None:
            continue
        rows.append(row)
        minor = ".".join(item.python.split(".")[:2])
        names = " or ".join(map(str, row.python))
        say = f"tensorrt-llm {text} is released for Python {names}, {item.path} has {item.python}"
        (good if minor in [str(one) for one in row.python] else problems).append(say)
    if problems:
        return failed(each(problems), want="one of those", rows=rows)
    if good:
        return passed(each(good), rows=rows)
    return skipped(
        "no TensorRT-LLM release whose Pythons a row names"
        if found
        else "no environment has tensorrt-llm"
    )


@check(
    "engine.trtllm-gpu-unsupported",
    title="TensorRT-LLM supports the GPUs",
    severity=ERROR,
    reads=(ENVIRONMENTS, "nvml.gpus"),
    sources=("engine-trtllm-matrix",),
    fix=Fix(
        say="serve with an engine that supports this generation; TensorRT-LLM has no code for it",
        command="doctor plan --want vllm",
        kind="hardware",
    ),
)
def _trtllm_gpu(f: Facts, k: Knowledge) -> Result:
    """By the list of compute capabilities of the support matrix."""
    found = having(f, "tensorrt-llm")
    if not found:
        return skipped("no environment has tensorrt-llm")
    row = k.matrix.statement("tensorrt_llm_rules", "tensorrt-llm.architectures")
    there = boards(f)
    if row is None or not there:
        return skipped("no GPU, or no row that lists what is supported")
    oldest = min(ComputeCapability(f"{name[:-1]}.{name[-1]}") for name in row.names)
    old = [(name, capability) for name, capability, _ in there if capability < oldest]
    if old:
        return failed(
            each(
                [
                    f"{name} has compute capability {capability}, and tensorrt-llm "
                    f"{found[0][1]} supports {oldest} and newer"
                    for name, capability in old
                ]
            ),
            want=f"compute capability {oldest} or newer",
            rows=(row,),
        )
    return passed(
        each([f"{name} has compute capability {capability}" for name, capability, _ in there])
        + f"; tensorrt-llm supports {oldest} and newer",
        rows=(row,),
    )
