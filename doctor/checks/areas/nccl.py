"""NCCL: how variables and the system steer it.

Its copies are in nccl_copies, what joins hosts in nccl_network.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable

from doctor.checks.areas.environments import each, gpus, version
from doctor.checks.areas.nccl_copies import listed, versions
from doctor.checks.areas.nccl_network import SETTINGS, settings
from doctor.checks.areas.presence import gpu_count
from doctor.checks.base import ERROR, INFO, WARN, Fix, Result, check, failed, passed, skipped
from doctor.checks.knowledge import Knowledge
from doctor.facts.model import known_or
from doctor.facts.tree import Facts
from doctor.facts.versions import CudaVersion
from doctor.matrix import query
from doctor.matrix.model import NcclBehaviour

SET_BY_IMAGES = frozenset(
    [
        "NCCL_VERSION",
        "NCCL_HOME",
        "NCCL_ROOT",
        "NCCL_ROOT_DIR",
        "NCCL_INCLUDE_DIR",
        "NCCL_LIB_DIR",
        "NCCL_LIBRARY",
        "NCCL_PATH",
        "NCCL_DIR",
        "NCCL_DEBUG_LEVEL",
    ]
)
"""Names that images and build systems set and NCCL does not read."""
VERBOSE = ("INFO", "TRACE")


def switched_off(value: str | None) -> bool:
    """Whether a variable is set to 0."""
    return value is not None and value.strip() == "0"


@check(
    "nccl.cumem-host",
    title="NCCL's host memory is not switched off while /dev/shm is small",
    severity=ERROR,
    reads=(
        *SETTINGS,
        "nccl.vmm_sysnice",
        "nccl.system",
        "nccl.wheels",
        "nvml.gpus",
        "nvml.cuda_version",
        "storage.shm",
    ),
    sources=("nccl-runtime-issues", "nccl-measured-two-h200"),
    fix=Fix(
        say="unset the variable, or enlarge /dev/shm",
        command="unset NCCL_CUMEM_HOST_ENABLE NCCL_CUMEM_ENABLE",
    ),
)
def _cumem_host(f: Facts, k: Knowledge) -> Result:
    """Without cuMem host memory the SHM transport takes a segment of /dev/shm per connection and
    channel.
    """
    if gpu_count(f) < 2:
        return skipped("fewer than two GPUs: NCCL joins nothing here")
    chosen = settings(f)
    off = [
        name
        for name in ("NCCL_CUMEM_HOST_ENABLE", "NCCL_CUMEM_ENABLE")
        if switched_off(chosen.get(name))
    ]
    if off:
        return _switched_off(f, k, off)
    return _broken_without_test(f, k)


def _switched_off(f: Facts, k: Knowledge, off: list[str]) -> Result:
    segment = _behaviour(k, "shm-segment")
    advice = _behaviour(k, "container-advice")
    size = f.storage.shm.value.size
    if segment is None or advice is None:
        return skipped("no row says how much /dev/shm NCCL takes")
    # half of NCCL's 32 channels a GPU, never more than what NVIDIA asks for
    need = min(int(advice.values["shm_bytes"]), gpu_count(f) * 16 * int(segment.values["bytes"]))
    names = " and ".join(f"{name}=0" for name in off)
    if size >= need:
        return passed(
            f"{names}, and /dev/shm has {size >> 20} MiB of the {need >> 20} MiB it then takes"
        )
    return failed(
        f"{names}: NCCL's SHM transport uses /dev/shm, which has {size >> 20} MiB, "
        f"in segments of {segment.values['bytes']} bytes a connection and channel",
        want=f"the variable unset, or /dev/shm of {need >> 20} MiB or more",
        say=f"unset it, or give /dev/shm at least {need >> 20} MiB (--shm-size in a container)",
        command=f"unset {' '.join(off)}",
        rows=(segment, advice),
    )


def _broken_without_test(f: Facts, k: Knowledge) -> Result:
    """Releases that do not test the allocation fail where NUMA calls are forbidden."""
    found = versions(f)
    rows = [
        row
        for row in k.matrix.rows(NcclBehaviour)
        if row.id == "cumem-host-fallback" and row.behaviour.startswith("no test")
    ]
    hit = [(path, item) for path, item in found.items() if rows and rows[0].versions.contains(item)]
    if not hit:
        return passed(
            f"cuMem host memory is not switched off; NCCL {listed(found) or 'not found'} tests "
            "it before use"
        )
    if f.nccl.vmm_sysnice.value:
        return passed(f"NUMA calls are allowed here, which NCCL {hit[0][1]} takes for granted")
    cuda = known_or(f.nvml.cuda_version, "0.0")
    on = [
        row
        for row in query.nccl_behaviour(k.matrix, hit[0][1], "cumem-host")
        if row.driver_cuda_min
    ]
    if on and version(CudaVersion, cuda, "nvml.cuda_version") < on[0].driver_cuda_min:
        return passed(f"the driver's CUDA {cuda} is too old for NCCL to use cuMem host memory")
    return failed(
        f"NCCL {hit[0][1]} ({hit[0][0]}) uses cuMem host memory without a test, and NUMA calls "
        "are forbidden here",
        want="CAP_SYS_NICE, a newer NCCL, or NCCL_CUMEM_HOST_ENABLE=0 with a large /dev/shm",
        say="start the container with --cap-add SYS_NICE, or set NCCL_CUMEM_HOST_ENABLE=0 and "
        "--shm-size=1g",
        command="export NCCL_CUMEM_HOST_ENABLE=0",
        rows=rows,
    )


def _behaviour(k: Knowledge, ident: str) -> NcclBehaviour | None:
    return next((row for row in k.matrix.rows(NcclBehaviour) if row.id == ident), None)


@check(
    "nccl.removeipc",
    title="logind does not delete the shared memory of users who log out",
    severity=INFO,
    reads=("nccl.remove_ipc", "nvml.gpus"),
    sources=("nccl-runtime-issues",),
    fix=Fix(
        say="switch it off, or start engines as a service: services of system users are not "
        "touched",
        command="printf '[Login]\\nRemoveIPC=no\\n' "
        "| sudo install -D -m 644 /dev/stdin /etc/systemd/logind.conf.d/gpu-host.conf "
        "&& sudo systemctl restart systemd-logind",
        disturbs="service",
    ),
)
def _removeipc(f: Facts, k: Knowledge) -> Result:
    """Jobs that outlive their user's last session lose NCCL's segments in /dev/shm."""
    if gpu_count(f) < 2:
        return skipped("fewer than two GPUs: NCCL shares no memory here")
    if f.nccl.remove_ipc.value:
        return failed(
            "RemoveIPC is on: /dev/shm files of a user go when the last session ends, also "
            "under a running job",
            want="RemoveIPC=no",
        )
    return passed("RemoveIPC is off")


@check(
    "nccl.p2p-disabled",
    title="GPUs that are joined by NVLink talk over it",
    severity=WARN,
    reads=(*SETTINGS, "nvml.gpus"),
    sources=("nccl-measured-two-h200",),
    fix=Fix(
        say="unset it where the engine is started; it is a workaround for PCIe hosts whose ACS "
        "or IOMMU breaks peer access",
        command="unset NCCL_P2P_DISABLE NCCL_P2P_LEVEL",
    ),
)
def _p2p_disabled(f: Facts, k: Knowledge) -> Result:
    """NCCL_P2P_DISABLE=1 and NCCL_P2P_LEVEL=LOC send everything through host memory."""
    if gpu_count(f) < 2:
        return skipped("fewer than two GPUs")
    chosen = settings(f)
    reasons = [
        f"{name}={chosen[name]}"
        for name, values in (("NCCL_P2P_DISABLE", ("1",)), ("NCCL_P2P_LEVEL", ("LOC", "0")))
        if chosen.get(name) in values
    ]
    if not reasons:
        return passed("NCCL_P2P_DISABLE is not set")
    links = sum(known_or(gpu.nvlink_up, 0) for gpu in gpus(f).values())
    if not links:
        return passed(f"{' and '.join(reasons)}; no NVLink is up that it would leave unused")
    row = k.matrix.statement("nccl_rules", "nccl.p2p-disabled")
    return failed(
        f"{' and '.join(reasons)} with {links} NVLinks up: traffic goes through host memory",
        want="unset",
        rows=(row,) if row else (),
    )


@check(
    "nccl.debug-left-on",
    title="NCCL does not log every operation",
    severity=INFO,
    reads=SETTINGS,
    sources=("nccl-parameters",),
    fix=Fix(say="unset it where the engine is started", command="unset NCCL_DEBUG"),
)
def _debug(f: Facts, k: Knowledge) -> Result:
    """INFO and TRACE are for finding a fault, not for production."""
    value = settings(f).get("NCCL_DEBUG", "")
    if value.upper() in VERBOSE:
        return failed(f"NCCL_DEBUG={value[:20]}: logs grow with every start", want="unset, or WARN")
    return passed(f"NCCL_DEBUG is {value[:20] or 'not set'}")


@check(
    "nccl.environment-unknown",
    title="Every NCCL variable has a name that NCCL reads",
    severity=WARN,
    reads=SETTINGS,
    sources=("nccl-parameters",),
    fix=Fix(say="correct the name", command="env | grep ^NCCL_"),
)
def _environment(f: Facts, k: Knowledge) -> Result:
    """A misspelt variable is ignored without a word; names far from any known one are a plugin's
    own.
    """
    row = k.matrix.statement("nccl_rules", "nccl.variables")
    if row is None:
        return skipped("no row lists NCCL's variables")
    chosen = settings(f)
    close = dict(_misspelt(chosen, row.names))
    if close:
        name, near = next(iter(close.items()))
        return failed(
            each([f"{name} is not read by NCCL; {near} is" for name, near in close.items()]),
            want=near,
            command=f"export {shlex.quote(f'{near}={chosen[name]}')}",
            rows=(row,),
        )
    return passed(f"{', '.join(sorted(chosen)) or 'no NCCL variable is set'}", rows=(row,))


def _misspelt(chosen: Iterable[str], names: tuple[str, ...]) -> Iterable[tuple[str, str]]:
    known = set(names) | SET_BY_IMAGES
    for name in sorted(chosen):
        if name in known or not name.startswith("NCCL_"):
            continue
        from difflib import get_close_matches  # only for a name that nobody knows

        near = get_close_matches(name, names, n=1, cutoff=0.88)
        if near:
            yield name, near[0]
