"""Whether the driver runs what engines were built with: CUDA release, PTX, compute capability. By rows, per environment."""

from __future__ import annotations

from doctor.checks.areas.driver_advice import install_driver
from doctor.checks.areas.driver_fit import driver_for
from doctor.checks.areas.subject import LADDER, answers, label
from doctor.checks.base import ERROR, WARN, Fix, Result, check, failed, passed, seen, skipped
from doctor.checks.knowledge import Knowledge
from doctor.facts.areas.python_env import Environment
from doctor.facts.model import FactUnknown, Known
from doctor.facts.tree import Facts
from doctor.facts.versions import ComputeCapability, CudaVersion, DriverVersion, Pep440Version

NOTHING = "no environment here has a CUDA build of torch"


def cuda_builds(f: Facts) -> list[tuple[Environment, CudaVersion]]:
    """Environments with a torch that was built for CUDA, and the release."""
    found = []
    for environment in f.python_env.environments.value:
        if "torch" not in environment.packages or environment.torch_cpu_only:
            continue
        version = CudaVersion.maybe(environment.torch_cuda or "")
        if version is None:
            raise FactUnknown("the CUDA release of its torch was not seen", environment.path)
        found.append((environment, version))
    return found


def driver_answer(f: Facts, k: Knowledge, want: CudaVersion) -> tuple[str, tuple[object, ...]]:
    """(native | minor | refused | "", rows) for a CUDA release under the driver that answers here."""
    from doctor.matrix.query import min_driver_to_run, native_cuda, runs

    version = DriverVersion.parse(f.nvml.driver_version.value)
    if isinstance(f.cuda.scope, Known) and f.cuda.scope.value.driver_version:
        level = CudaVersion.parse(f.cuda.scope.value.driver_version)
        if f.cuda.scope.value.code == 0 and level >= want.release:
            row = native_cuda(k.matrix, version)
            return "native", (row,) if row else ()
    if f.host.hardware.value != "wsl2":
        found = runs(k.matrix, want, version)
        return (found.mode, found.rows) if found else ("", ())
    need = min_driver_to_run(k.matrix, want)
    if need is None or need.min_run_windows is None:
        return "", ()
    return ("minor" if version >= need.min_run_windows else "refused"), (need,)


READS = (
    "host.hardware",
    "host.os_release",
    "pci.gpus",
    "nvml.driver_version",
    "cuda.scope",
    "python_env.environments",
)


@check(
    "cuda.driver-too-old",
    title="The driver runs the CUDA release that engines were built with",
    severity=ERROR,
    needs=LADDER,
    reads=READS,
    sources=("minor-version-compatibility",),
    fix=Fix(
        "install a newer driver branch, or an engine built with an older CUDA",
        disturbs="reboot",
        remedy="nvidia_driver",
    ),
)
def driver_too_old(f: Facts, k: Knowledge) -> Result:
    """For each environment: native, or an older minor of the same major."""
    builds = cuda_builds(f)
    if not builds:
        return skipped(NOTHING)
    driver = f.nvml.driver_version.value
    told, refused, unsure = [], [], []
    rows: list[object] = []
    for environment, cuda in builds:
        mode, cited = driver_answer(f, k, cuda)
        rows += cited
        if mode == "refused":
            refused.append((environment, cuda))
        elif not mode:
            unsure.append((environment, cuda))
        told.append(f"{environment.path} (CUDA {cuda}: {mode})")
    if refused:
        from doctor.matrix.query import min_driver_to_run

        need = min_driver_to_run(k.matrix, refused[0][1])
        branch, flavor = driver_for(f, k)
        return failed(
            "; ".join(
                f"{environment.path} was built with CUDA {cuda}, which driver {driver} does not run"
                for environment, cuda in refused
            ),
            want=f"driver {need.min_run} or newer" if need else "a newer driver",
            command=install_driver(f, k, branch, flavor),
            evidence=[
                seen(f"python_env.environments[{item.path}].torch_cuda", str(cuda))
                for item, cuda in refused
            ],
            rows=list(dict.fromkeys(rows)),
        )
    if unsure:
        raise FactUnknown(f"no row says which drivers run CUDA {unsure[0][1]}", "cuda_majors")
    return passed(f"driver {driver} runs {', '.join(told)}", rows=list(dict.fromkeys(rows)))


@check(
    "cuda.ptx-too-new",
    title="The driver can compile the PTX that engines bring",
    severity=WARN,
    needs=(*LADDER, "cuda.driver-too-old"),
    reads=READS,
    sources=("minor-version-compatibility", "cuda-driver-api-group__cuda__types"),
    fix=Fix(
        "install the driver branch of that CUDA release", disturbs="reboot", remedy="nvidia_driver"
    ),
)
def ptx_too_new(f: Facts, k: Knowledge) -> Result:
    """The driver's own CUDA level is not below the release that made the PTX."""
    builds = cuda_builds(f)
    if not builds:
        return skipped(NOTHING)
    newer, told = [], []
    rows: list[object] = []
    for environment, cuda in builds:
        mode, cited = driver_answer(f, k, cuda)
        if not mode:
            raise FactUnknown(f"no row says which drivers run CUDA {cuda}", "cuda_majors")
        rows += cited
        told.append(f"{environment.path} CUDA {cuda}")
        if mode == "minor" and f.host.hardware.value != "wsl2":
            newer.append((environment, cuda))
    driver = f.nvml.driver_version.value
    if not newer:
        return passed(
            f"driver {driver} has the level of {', '.join(told)}", rows=list(dict.fromkeys(rows))
        )
    branch, flavor = driver_for(f, k)
    return failed(
        "; ".join(
            f"{item.path}: PTX of CUDA {cuda} is newer than driver {driver} compiles (error 222); its binary code still runs"
            for item, cuda in newer
        ),
        want=f"a driver with CUDA {max(cuda for _, cuda in newer).release} or newer",
        command=install_driver(f, k, branch, flavor),
        rows=list(dict.fromkeys(rows)),
    )


@check(
    "cuda.arch-not-in-build",
    title="torch was built for the GPUs that are here",
    severity=ERROR,
    needs=LADDER,
    reads=("nvml.gpus", "python_env.environments"),
    sources=("pytorch#175253",),
    fix=Fix("install a torch build that has this compute capability", kind="needs-argument"),
)
def arch_not_in_build(f: Facts, k: Knowledge) -> Result:
    """The CUDA release of the build can compile for the GPU, and the published list of the build has it."""
    from doctor.matrix.query import architecture, torch_builds

    builds = cuda_builds(f)
    if not builds:
        return skipped(NOTHING)
    capabilities: dict[str, str] = {}
    for gpu, value in answers(f, "compute_capability"):
        if not isinstance(value, str):
            raise FactUnknown(f"{label(gpu)}: {getattr(value, 'reason', 'not there')}", "nvml")
        capabilities.setdefault(value, label(gpu))
    if not capabilities:
        return skipped("NVML lists no GPU")
    told = []
    rows: list[object] = []
    for environment, cuda in builds:
        torch = environment.packages["torch"]
        published = [
            row
            for row in torch_builds(k.matrix, Pep440Version.parse(torch))
            if row.cuda.release == cuda.release
        ]
        for text, who in capabilities.items():
            capability = ComputeCapability.parse(text)
            row = architecture(k.matrix, capability)
            if row is None:
                raise FactUnknown(f"no row describes compute capability {text}", "sm_targets")
            rows.append(row)
            early = row.first_cuda is not None and cuda.release < row.first_cuda.release
            late = row.last_cuda is not None and cuda.release > row.last_cuda.release
            if early or late:
                since = f"from {row.first_cuda}" if early else f"up to {row.last_cuda}"
                return _missing(
                    environment,
                    torch,
                    who,
                    text,
                    f"CUDA {cuda} has no {row.sm} (it is in CUDA {since})",
                    rows,
                )
            for build in published:
                rows.append(build)
                if build.compute_capabilities and not _runs_on(
                    capability, build.compute_capabilities
                ):
                    return _missing(
                        environment, torch, who, text, f"the build's list lacks {row.sm}", rows
                    )
        told.append(f"{environment.path} torch {torch}")
    archs = ", ".join(capabilities)
    return passed(
        f"{', '.join(told)}: CUDA releases that have {archs}", rows=list(dict.fromkeys(rows))
    )


def _runs_on(capability: ComputeCapability, built: tuple[ComputeCapability, ...]) -> bool:
    """Binary code runs on the same major with an equal or higher minor."""
    return any(item.key[0] == capability.key[0] and item <= capability for item in built)


def _missing(
    environment: Environment, torch: str, who: str, capability: str, why: str, rows: list[object]
) -> Result:
    return failed(
        f"{environment.path}: torch {torch} has no code for {who}, compute capability {capability}: {why}",
        want=f"a torch build for compute capability {capability}",
        command="doctor plan --want vllm",
        evidence=[seen(f"python_env.environments[{environment.path}].torch", torch)],
        rows=list(dict.fromkeys(rows)),
    )
