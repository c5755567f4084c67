"""Whether the driver fits the GPUs: flavour of the modules, branch, end of life. Predictions give way to what NVML opened."""

from __future__ import annotations

from typing import Any, Literal

from doctor.checks.areas.driver_advice import distribution_of, install_driver
from doctor.checks.areas.subject import counted, driver_in_use, elsewhere, works
from doctor.checks.base import ERROR, WARN, Fix, Result, check, failed, passed, seen, skipped
from doctor.checks.knowledge import Knowledge
from doctor.facts.areas.pci import PciDevice
from doctor.facts.model import FactUnknown, Known, known_or
from doctor.facts.tree import Facts
from doctor.facts.versions import DriverVersion

Flavor = Literal["open", "proprietary"]
READS = (
    "host.hardware",
    "host.os_release",
    "pci.gpus",
    "nvml.gpus",
    "driver.loaded",
    "driver.disk",
    "driver.flavor",
    "driver.flavor_disk",
)


def driver_for(f: Facts, k: Knowledge) -> tuple[str | None, Flavor]:
    """(branch, flavour) to advise: the newest long-lived branch that knows every GPU here; open where either would do."""
    from doctor.matrix.query import (
        distribution,
        gpu_by_pci,
        module_flavor_required,
        newest_supported_branch,
    )

    devices = f.pci.gpus.value if isinstance(f.pci.gpus, Known) else []
    families = [gpu_by_pci(k.matrix, device.device) for device in devices]
    known = [family for family in families if family is not None]
    release = distribution_of(f)
    where = distribution(k.matrix, release.id, release.version) if release else None
    row = newest_supported_branch(k.matrix, known, k.as_of, where) if known else None
    if row is None:
        return None, "open"
    answers = [module_flavor_required(k.matrix, family, row.branch.number) for family in known]
    proprietary = any(answer and answer.flavor == "proprietary" for answer in answers)
    return str(row.branch), "proprietary" if proprietary else "open"


def _each_device(f: Facts, judge: Any, agree: str) -> Result:
    """One judgement per GPU on the bus; a GPU that NVML opened needs none."""
    working, wrong, rows, unsure = 0, [], [], []
    for device in f.pci.gpus.value:
        if works(f, device):
            working += 1
            continue
        problem, cited = judge(device)
        rows += cited
        if problem is None:
            unsure.append(device)
        elif problem:
            wrong.append((device, problem))
    if wrong:
        return failed(
            "; ".join(f"{device.address} {problem}" for device, problem in wrong),
            want=agree,
            evidence=[seen(f"pci.gpus[{item.address}].device", item.device) for item, _ in wrong],
            rows=list(dict.fromkeys(rows)),
        )
    if unsure:
        ids = ", ".join(f"{item.address} (10de:{item.device})" for item in unsure)
        raise FactUnknown(f"no row says what {ids} needs", "matrix")
    if not f.pci.gpus.value:
        return skipped("no NVIDIA GPU on the bus")
    total = len(f.pci.gpus.value)
    how = f"NVML opened {working} of them" if working else "by their rows"
    return passed(f"{counted(total, 'GPU')} with {agree}: {how}", rows=list(dict.fromkeys(rows)))


@check(
    "driver.wrong-module-flavor",
    title="The kernel modules are of the flavour that the GPUs need",
    severity=ERROR,
    needs=("gpu.not-on-bus", "driver.not-installed", "driver.no-module-for-kernel"),
    reads=READS,
    sources=("driver-guide-kernel-modules",),
    fix=Fix(
        "install the other flavour of the driver, then reboot",
        disturbs="reboot",
        remedy="nvidia_driver",
    ),
)
def wrong_flavor(f: Facts, k: Knowledge) -> Result:
    """Blackwell and Grace run with the open modules only, GPUs before Turing with the proprietary ones only."""
    from doctor.matrix.query import gpu_by_pci, module_flavor_required, pci_device

    skip = elsewhere(f)
    if skip:
        return skip
    version = DriverVersion.parse(driver_in_use(f))
    loaded = known_or(f.driver.flavor, None)
    flavor = loaded if loaded is not None else f.driver.flavor_disk.value

    def judge(device: PciDevice) -> tuple[str | None, list[Any]]:
        family = gpu_by_pci(k.matrix, device.device)
        answer = module_flavor_required(k.matrix, family, version) if family else None
        if family is None or answer is None:
            return None, []
        if answer.flavor in (flavor, "either"):
            return "", list(answer.rows)
        if answer.flavor == "none":
            return "", list(answer.rows)
        product = pci_device(k.matrix, device.device)
        name = f"{product.name}, {family.architecture}" if product else family.architecture
        return f"({name}) runs with {answer.flavor} modules only", list(answer.rows)

    result = _each_device(f, judge, f"{flavor} modules of {version}")
    if result.state != "fail":
        return result
    other: Flavor = "proprietary" if flavor == "open" else "open"
    branch = driver_for(f, k)[0]
    return failed(
        f"the modules of {version} are {flavor}: {result.message}",
        want=f"{other} modules",
        say=f"install the {other} flavour, then reboot",
        command=install_driver(f, k, branch, other),
        evidence=result.evidence,
        rows=result.rows,
    )


@check(
    "driver.gpu-not-supported",
    title="The driver knows every GPU",
    severity=ERROR,
    needs=("gpu.not-on-bus", "driver.not-installed", "driver.no-module-for-kernel"),
    reads=READS,
    sources=("architecture-matrix",),
    fix=Fix("install a branch that knows the GPU", disturbs="reboot", remedy="nvidia_driver"),
)
def not_supported(f: Facts, k: Knowledge) -> Result:
    """The branch is between the first and the last that supports the GPU."""
    from doctor.matrix.query import gpu_by_pci, supports

    skip = elsewhere(f)
    if skip:
        return skip
    version = DriverVersion.parse(driver_in_use(f))

    def judge(device: PciDevice) -> tuple[str | None, list[Any]]:
        family = gpu_by_pci(k.matrix, device.device)
        answer = supports(k.matrix, family, version) if family else None
        if family is None or answer is None:
            return None, []
        if answer:
            return "", [family]
        least = family.min_driver or family.first_branch
        bounds = f"from {least}" if least else ""
        bounds += f" up to branch {family.last_branch}" if family.last_branch else ""
        return f"({family.architecture}) is supported {bounds.strip()}", [family]

    result = _each_device(f, judge, f"driver {version}")
    if result.state != "fail":
        return result
    branch, flavor = driver_for(f, k)
    return failed(
        f"driver {version} does not know every GPU: {result.message}",
        want=f"branch {branch}" if branch else "a branch that knows every GPU",
        say=f"install branch {branch} ({flavor} modules), then reboot" if branch else None,
        command=install_driver(f, k, branch, flavor),
        evidence=result.evidence,
        rows=result.rows,
    )


@check(
    "driver.branch-eol",
    title="The driver's branch is maintained",
    severity=WARN,
    needs=("driver.not-installed",),
    reads=("host.hardware", "host.os_release", "pci.gpus", "driver.loaded", "driver.disk"),
    sources=("driver-branches-r620",),
    fix=Fix("move to a long-term or production branch", disturbs="reboot", remedy="nvidia_driver"),
)
def branch_eol(f: Facts, k: Knowledge) -> Result:
    """The branch has not passed its published end of life on the day of judgement."""
    from doctor.matrix.query import branch

    skip = elsewhere(f)
    if skip:
        return skip
    version = DriverVersion.parse(driver_in_use(f))
    row = branch(k.matrix, version)
    if row is None:
        raise FactUnknown(f"no row describes branch {version.branch}", "driver_branches")
    if not row.is_eol(k.as_of):
        until = f"until {row.eol}" if row.eol else "no end published"
        return passed(f"driver {version}: branch {row.branch} is maintained, {until}", rows=[row])
    better, flavor = driver_for(f, k)
    ended = f"ended {row.eol}" if row.eol else "has ended"
    return failed(
        f"driver {version}: branch {row.branch} {ended}; it gets no security fixes",
        want=f"a maintained branch{f', for example {better}' if better else ''}",
        command=install_driver(f, k, better, flavor),
        rows=[row],
    )
