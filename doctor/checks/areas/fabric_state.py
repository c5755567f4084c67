"""What PCI and NVML say of an NVSwitch fabric, and the commands that bring one up.

Shared by the checks of the fabric.
"""

from __future__ import annotations

import shlex

from doctor.checks.areas.advice import by_family
from doctor.checks.areas.environments import version
from doctor.checks.base import seen
from doctor.checks.finding import Evidence
from doctor.checks.knowledge import Knowledge
from doctor.facts.model import FactUnknown, known_or
from doctor.facts.tree import Facts
from doctor.facts.versions import ComputeCapability
from doctor.matrix.model import Statement

NOT_READY = 802
WAITING = ("in-progress", "not-started")
FABRIC = ("pci.nvswitches", "nvml.gpus")
UNIT = "nvidia-fabricmanager.service"


def states(facts: Facts) -> dict[str, str]:
    """Fabric state by GPU, of the boards that have one; raises when NVML was not seen."""
    found = {}
    for uuid, gpu in known_or(facts.nvml.gpus, {}).items():
        state = known_or(gpu.fabric_state, "not-supported")
        if state != "not-supported":
            found[uuid] = state
    return found


def switches(facts: Facts) -> int:
    """NVSwitches on the bus; raises when the bus was not seen."""
    return len(known_or(facts.pci.nvswitches, []))


def on_fabric(facts: Facts) -> bool:
    """Whether the GPUs hang on NVSwitches: one observation is enough, and without any both must
    have been seen.
    """
    missing: FactUnknown | None = None
    for look in (switches, states):
        try:
            if look(facts):
                return True
        except FactUnknown as error:
            missing = error
    if missing:
        raise missing
    return False


def shown(found: dict[str, str]) -> list[Evidence]:
    """The states as evidence."""
    return [seen(f"nvml.gpus.{uuid}.fabric_state", state, "NVML") for uuid, state in found.items()]


def count(found: dict[str, str]) -> str:
    """`in-progress on 8 GPUs`."""
    by_state = {state: list(found.values()).count(state) for state in sorted(set(found.values()))}
    return ", ".join(
        f"{state} on {number} GPU{'s' * (number != 1)}" for state, number in by_state.items()
    )


def subnet_row(knowledge: Knowledge) -> Statement | None:
    """The row about NVSwitches that are driven through the InfiniBand stack."""
    return knowledge.matrix.statement("gpu_rules", "gpu.nvlink5-subnet-manager")


def by_subnet_manager(facts: Facts, row: Statement) -> bool:
    """Whether a board on the fabric is of a generation whose switches need the subnet manager."""
    least = ComputeCapability(row.minimum or "")
    for gpu in known_or(facts.nvml.gpus, {}).values():
        if known_or(gpu.fabric_state, "not-supported") == "not-supported":
            continue
        has = known_or(gpu.compute_capability, "0.0")
        if version(ComputeCapability, has, "nvml.gpus.compute_capability") >= least:
            return True
    return False


def missing_parts(facts: Facts, row: Statement) -> list[str]:
    """Modules and the package that the subnet manager needs and that are not there."""
    loaded = set(facts.network.rdma_modules.value)
    gone = [name for name in row.names if name not in loaded]
    if not known_or(facts.fabric.nvlsm_version, ""):
        gone.append(row.values["package"])
    return gone


def load_modules(facts: Facts, row: Statement) -> str:
    """Install, load and keep the modules, then start fabric manager again."""
    names = " ".join(row.names)
    install = by_family(
        facts,
        debian='sudo apt-get install -y "linux-modules-extra-$(uname -r)" nvlsm',
        rhel='sudo dnf install -y "kernel-modules-extra-$(uname -r)" nvlsm',
    )
    keep = f"printf '%s\\n' {names} | sudo tee /etc/modules-load.d/nvlink5.conf"
    return f"{install} && sudo modprobe -a {names} && {keep} && sudo systemctl restart {UNIT[:-8]}"


def manager_package(facts: Facts, driver: str) -> str:
    """The command that installs fabric manager in one version."""
    branch = driver.partition(".")[0]
    deb = shlex.quote(f"nvidia-fabricmanager-{branch}={driver}*")
    rpm = shlex.quote(f"nvidia-fabric-manager-{driver}")
    return by_family(
        facts,
        debian=f"sudo apt-get install -y --allow-downgrades {deb}",
        rhel=f"sudo dnf install -y {rpm}",
    )
