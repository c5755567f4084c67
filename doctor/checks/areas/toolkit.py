"""CUDA toolkits: which there are, whether nvcc and host compiler fit, and whether the driver runs what they build."""

from __future__ import annotations

from doctor.checks.areas.cuda_fit import driver_answer
from doctor.checks.areas.driver_advice import install
from doctor.checks.areas.subject import LADDER, counted, told
from doctor.checks.base import INFO, WARN, Fix, Result, check, failed, passed, seen, skipped
from doctor.checks.knowledge import Knowledge
from doctor.facts.areas.cuda import Toolkit
from doctor.facts.areas.python_env import Environment
from doctor.facts.model import FactUnknown, known_or
from doctor.facts.tree import Facts
from doctor.facts.versions import CudaVersion, Pep440Version, Specifier

NONE = "no CUDA toolkit under /usr/local/cuda* or /opt/cuda"


def _versioned(f: Facts) -> list[tuple[Toolkit, CudaVersion]]:
    """Toolkits whose version is known; FactUnknown for one that does not say it."""
    found = []
    for item in f.cuda.toolkits.value:
        version = CudaVersion.maybe(item.version or "")
        if version is None:
            raise FactUnknown("its version was not seen", item.path)
        found.append((item, version))
    return found


@check(
    "toolkit.several-versions",
    title="One CUDA toolkit is installed",
    severity=INFO,
    reads=("cuda.toolkits", "cuda.default_toolkit"),
    sources=("cuda-cuda-installation-guide-linux",),
    fix=Fix(
        "say which one builds use: CUDA_HOME, or the link /usr/local/cuda",
        command="readlink -f /usr/local/cuda; command -v nvcc",
    ),
)
def several_versions(f: Facts, k: Knowledge) -> Result:
    """Builds that find nvcc in one and libraries in another break in surprising ways."""
    toolkits = f.cuda.toolkits.value
    if len(toolkits) > 1:
        paths = ", ".join(item.path for item in toolkits)
        default = told(f.cuda.default_toolkit)
        return failed(
            f"{len(toolkits)} toolkits: {paths}; /usr/local/cuda leads to {default or 'none of them'}",
            want="one toolkit, or CUDA_HOME set for every build",
        )
    return passed(f"one CUDA toolkit: {toolkits[0].path}") if toolkits else skipped(NONE)


@check(
    "toolkit.host-compiler-too-new",
    title="nvcc accepts the default gcc",
    severity=WARN,
    reads=("cuda.toolkits", "cuda.environment", "kernel.gcc", "host.os_release"),
    sources=("cuda-installation-guide-linux-host-compiler-support-policy",),
    fix=Fix("point nvcc at an older g++"),
)
def host_compiler(f: Facts, k: Knowledge) -> Result:
    """The newest gcc that the toolkit's nvcc accepts is not older than the default one."""
    from doctor.matrix.query import host_compiler as accepted

    toolkits = [(item, version) for item, version in _versioned(f) if item.nvcc]
    if not toolkits:
        return skipped("no toolkit with nvcc")
    chosen = [name for name in ("CUDAHOSTCXX", "NVCC_CCBIN") if name in f.cuda.environment.value]
    if chosen:
        return skipped(f"{chosen[0]} names the host compiler")
    gcc = known_or(f.kernel.gcc, None)
    if gcc is None:
        return skipped("no gcc is installed")
    major = int(gcc.partition(".")[0])
    checked, rows = [], []
    for item, version in toolkits:
        row = accepted(k.matrix, version)
        if row is None or row.gcc_max is None:
            continue
        rows.append(row)
        most = int(str(row.gcc_max).partition(".")[0])
        if major > most:
            return failed(
                f"gcc {gcc} is newer than nvcc of {item.path} accepts (up to gcc {most}); kernels compiled at start-up fail",
                want=f"gcc {most} or older for nvcc",
                command=f"{install(f, f'g++-{most}')} && export NVCC_CCBIN=/usr/bin/g++-{most}",
                rows=[row],
            )
        checked.append(f"CUDA {version} accepts up to gcc {most}")
    if not checked:
        raise FactUnknown(f"no row says which gcc CUDA {toolkits[0][1]} accepts", "host_compilers")
    return passed(f"gcc {gcc}; {', '.join(checked)}", rows=rows)


@check(
    "toolkit.newer-than-driver",
    title="The driver runs what the toolkit builds",
    severity=WARN,
    needs=LADDER,
    reads=("host.hardware", "cuda.toolkits", "cuda.scope", "nvml.driver_version"),
    sources=("minor-version-compatibility",),
    fix=Fix(
        "build with an older toolkit, or install a newer driver",
        command="doctor plan --want driver",
        disturbs="reboot",
    ),
)
def newer_than_driver(f: Facts, k: Knowledge) -> Result:
    """For each toolkit: native, or an older minor of the same major."""
    found = _versioned(f)
    if not found:
        return skipped(NONE)
    driver = f.nvml.driver_version.value
    rows: list[object] = []
    runs, refused = [], []
    for item, version in found:
        mode, cited = driver_answer(f, k, version)
        rows += cited
        if not mode:
            raise FactUnknown(f"no row says which drivers run CUDA {version}", "cuda_majors")
        if mode == "refused":
            refused.append((item, version))
        limit = ", without PTX of its own" if mode == "minor" else ""
        runs.append(f"CUDA {version} ({mode}{limit})")
    if refused:
        return failed(
            "; ".join(
                f"{item.path} is CUDA {version}, which driver {driver} does not run"
                for item, version in refused
            ),
            want="a toolkit that the driver runs",
            evidence=[
                seen(f"cuda.toolkits[{item.path}].version", str(version))
                for item, version in refused
            ],
            rows=list(dict.fromkeys(rows)),
        )
    return passed(f"driver {driver} runs {', '.join(runs)}", rows=list(dict.fromkeys(rows)))


@check(
    "toolkit.known-bad-version",
    title="No toolkit has a known compiler or library fault",
    severity=INFO,
    reads=("cuda.toolkits",),
    sources=("cuda-13.2.2-release-notes",),
    fix=Fix(
        "take the release in which it is fixed for what you compile here", command="nvcc --version"
    ),
)
def known_bad(f: Facts, k: Knowledge) -> Result:
    """No row with a version range names the toolkit."""
    found = _versioned(f)
    if not found:
        return skipped(NONE)
    statements = [row for row in k.matrix.statements("module_rules") if row.versions]
    hits = [
        (item, version, row)
        for item, version in found
        for row in statements
        if Specifier.parse(row.versions or "").contains(Pep440Version.parse(version.raw))
    ]
    if hits:
        return failed(
            "; ".join(f"{item.path} (CUDA {version}): {row.rule}" for item, version, row in hits),
            want="a release without it",
            rows=list({row.id: row for _, _, row in hits}.values()),
        )
    return passed(
        f"{', '.join(f'CUDA {version}' for _, version in found)}: in none of {counted(len(statements), 'known fault')}",
        rows=statements,
    )


@check(
    "toolkit.missing-nvcc",
    title="nvcc is there for engines that compile kernels at start-up",
    severity=WARN,
    reads=("python_env.environments", "cuda.toolkits", "cuda.nvcc"),
    sources=("measured-h200x2",),
    fix=Fix("install a CUDA toolkit, or FlashInfer's prebuilt kernels", remedy="cuda_toolkit"),
)
def missing_nvcc(f: Facts, k: Knowledge) -> Result:
    """FlashInfer without its prebuilt kernels builds them with nvcc on first use."""
    needing = [item for item in f.python_env.environments.value if _compiles(item)]
    if not needing:
        return skipped("no engine here compiles CUDA kernels at start-up")
    nvcc = known_or(f.cuda.nvcc, None)
    homes = [item.path for item in f.cuda.toolkits.value if item.nvcc]
    if nvcc is not None or homes:
        return passed(
            f"nvcc {nvcc or 'of ' + homes[0]} for {', '.join(item.path for item in needing)}"
        )
    item = needing[0]
    version = item.packages["flashinfer-python"]
    return failed(
        f"{item.path} has flashinfer-python {version} without its prebuilt kernels, and there is no nvcc to build them",
        want="nvcc, or flashinfer-cubin of the same version",
        command=f"{item.path}/bin/python -m pip install flashinfer-cubin=={version}",
        evidence=[seen(f"python_env.environments[{item.path}].flashinfer-python", version)],
    )


def _compiles(item: Environment) -> bool:
    prebuilt = {"flashinfer-cubin", "flashinfer-jit-cache"} & set(item.packages)
    return "flashinfer-python" in item.packages and "vllm" in item.packages and not prebuilt
