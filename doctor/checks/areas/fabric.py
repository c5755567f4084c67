"""NVSwitch fabric: needed by what PCI and NVML say, never by a GPU's name."""

from __future__ import annotations

from doctor.checks.areas.advice import where
from doctor.checks.areas.environments import version
from doctor.checks.areas.fabric_state import (
    FABRIC,
    NOT_READY,
    UNIT,
    WAITING,
    by_subnet_manager,
    count,
    load_modules,
    manager_package,
    missing_parts,
    on_fabric,
    shown,
    states,
    subnet_row,
    switches,
)
from doctor.checks.base import (
    ERROR,
    INFO,
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
from doctor.checks.knowledge import Knowledge
from doctor.facts.model import Absent, FactUnknown, Known, NotApplicable, Unknown, known_or
from doctor.facts.tree import Facts
from doctor.facts.versions import DriverVersion


@check(
    "fabric.not-ready",
    title="The NVSwitch fabric is ready, so that CUDA may start",
    severity=ERROR,
    reads=(
        *FABRIC,
        "cuda.scope",
        "network.rdma_modules",
        "fabric.nvlsm_version",
        "host.container",
        "host.os_release",
    ),
    needs=("fabric.manager-missing", "fabric.manager-version", "fabric.manager-not-running"),
    sources=("fabric-cuda-errors", "fabric-user-guide"),
    fix=Fix(
        say="start the fabric manager and wait until nvidia-smi -q shows Fabric State Completed; "
        "in a virtual machine the hypervisor must hand over the fabric partition",
        command=f"sudo systemctl restart {UNIT[:-8]} && nvidia-smi -q | grep -A3 'Fabric'",
        disturbs="gpu",
        remedy="fabric_manager",
    ),
)
def _not_ready(f: Facts, k: Knowledge) -> Result:
    """cuInit does not answer 802, and no board waits for the fabric."""
    look = f.cuda.scope
    code = look.value.code if isinstance(look, Known) else None
    refused = code == NOT_READY
    found: dict[str, str] = {}
    try:
        found = states(f)
    except FactUnknown:
        if not refused:
            raise
    waiting = {uuid: state for uuid, state in found.items() if state in WAITING}
    if isinstance(look, Unknown) and not waiting:
        raise FactUnknown(look.reason, look.via)
    if refused or (waiting and code != 0):
        return _why_not_ready(f, k, found, refused)
    if not found and not on_fabric(f):
        return skipped("no NVSwitch on the bus and no board with a fabric state")
    return passed(
        f"fabric {count(found) or 'without a state'}; cuInit {'0' if code == 0 else 'not run'}",
        evidence=shown(found),
    )


def _why_not_ready(f: Facts, k: Knowledge, found: dict[str, str], refused: bool) -> Result:
    says = "cuInit answers 802 (system not yet initialized)" if refused else "CUDA must wait"
    state = count(found) or "no state from NVML"
    row = subnet_row(k)
    gone: list[str] = []
    if row is not None and found and by_subnet_manager(f, row):
        try:
            gone = missing_parts(f, row)
        except FactUnknown:
            gone = []
    if gone and row is not None:
        return failed(
            f"fabric {state}: {says}; {', '.join(gone)} not there, which this generation of "
            "NVSwitch needs",
            want="fabric completed on every GPU, with " + ", ".join(row.names) + " loaded",
            say=where(f)
            + f"install what brings {', '.join(row.names)}, load them now and at boot, "
            f"install {row.values['package']}, restart the fabric manager",
            command=load_modules(f, row),
            evidence=shown(found),
            rows=(row,),
        )
    return failed(
        f"fabric {state}: {says}", want="fabric completed on every GPU", evidence=shown(found)
    )


@check(
    "fabric.manager-missing",
    title="Fabric manager is installed where NVSwitches are on the bus",
    severity=ERROR,
    reads=(*FABRIC, "fabric.manager_version", "driver.loaded", "host.os_release"),
    needs=("driver.not-installed",),
    sources=("fabric-user-guide",),
    fix=Fix(
        say="install fabric manager in the driver's version and start it",
        command="nvidia-smi --query-gpu=driver_version --format=csv,noheader",
        disturbs="gpu",
        remedy="fabric_manager",
    ),
)
def _manager_missing(f: Facts, k: Knowledge) -> Result:
    """Switches on the bus, or boards that wait for a fabric, need the manager on this system."""
    fact = f.fabric.manager_version
    if isinstance(fact, NotApplicable):
        return skipped(fact.reason)
    if isinstance(fact, Known):
        return passed(f"fabric manager {fact.value} is installed")
    if isinstance(fact, Unknown):
        raise FactUnknown(fact.reason, fact.via)
    missing: FactUnknown | None = None
    try:
        number = switches(f)
    except FactUnknown as error:
        number, missing = 0, error
    try:
        waiting = [state for state in states(f).values() if state in WAITING]
    except FactUnknown as error:
        waiting, missing = [], missing or error
    if number or waiting:
        driver = f.driver.loaded.value if isinstance(f.driver.loaded, Known) else None
        what = f"{number} NVSwitches on the bus" if number else f"{len(waiting)} GPUs wait"
        return failed(
            f"{what} and no fabric manager is installed",
            want="fabric manager in the driver's version" + (f", {driver}" if driver else ""),
            command=manager_package(f, driver) + f" && sudo systemctl enable --now {UNIT[:-8]}"
            if driver
            else None,
        )
    if missing:
        raise missing
    return skipped("no NVSwitch on the bus and no board that waits for a fabric")


@check(
    "fabric.manager-version",
    title="Fabric manager has exactly the driver's version",
    severity=ERROR,
    reads=(*FABRIC, "fabric.manager_version", "driver.loaded", "host.os_release"),
    needs=("fabric.manager-missing",),
    sources=("fabric-version-report", "fabric-user-guide"),
    fix=Fix(
        say="install both in one version from one repository, and hold them together",
        command="nvidia-smi --query-gpu=driver_version --format=csv,noheader",
        disturbs="gpu",
        remedy="fabric_manager",
    ),
)
def _manager_version(f: Facts, k: Knowledge) -> Result:
    """The daemon refuses a driver of any other version, its own branch's included."""
    fact = f.fabric.manager_version
    if isinstance(fact, Absent):
        return skipped("fabric manager is not installed")
    manager = fact.value
    loaded = f.driver.loaded
    if isinstance(loaded, Absent):
        return skipped("no nvidia module is loaded to compare with")
    driver = loaded.value
    if version(DriverVersion, manager, "fabric.manager_version") == version(
        DriverVersion, driver, "driver.loaded"
    ):
        return passed(f"fabric manager {manager} is the driver's version")
    if not on_fabric(f):
        return skipped(
            f"fabric manager {manager} is not the driver's {driver}, but there is no NVSwitch "
            "fabric"
        )
    return failed(
        f"fabric manager {manager} is not the driver's version {driver}: it refuses to start",
        want=f"fabric manager {driver}",
        say=f"install fabric manager {driver} from the driver's own repository and hold both "
        "together",
        command=manager_package(f, driver) + f" && sudo systemctl restart {UNIT[:-8]}",
    )


@check(
    "fabric.manager-not-running",
    title="Fabric manager runs where it is installed and needed",
    severity=ERROR,
    reads=(*FABRIC, "fabric.manager_version", "fabric.manager", "fabric.manager_log"),
    needs=("fabric.manager-missing", "fabric.manager-version"),
    sources=("fabric-user-guide",),
    fix=Fix(
        say="start fabric manager now and at every boot",
        command=f"sudo systemctl enable --now {UNIT[:-8]}",
        disturbs="gpu",
        remedy="fabric_manager",
    ),
)
def _manager_not_running(f: Facts, k: Knowledge) -> Result:
    """The unit is active."""
    if isinstance(f.fabric.manager_version, Absent):
        return skipped("fabric manager is not installed")
    has = f.fabric.manager_version.value
    fact = f.fabric.manager
    if isinstance(fact, Absent):
        if not on_fabric(f):
            return skipped("no NVSwitch fabric")
        return unseen(f"fabric manager {has} is installed and no unit {UNIT} is there to look at")
    unit = fact.value
    if unit.active == "active":
        return passed(f"{UNIT} is active, fabric manager {has}")
    if not on_fabric(f):
        return skipped(f"{UNIT} is {unit.active}, and there is no NVSwitch fabric")
    log = f.fabric.manager_log.value if isinstance(f.fabric.manager_log, Known) else []
    last = f": {log[-1][:200]}" if log else ""
    return failed(
        f"{UNIT} is {unit.active}{last}",
        want=f"{UNIT} active",
        evidence=[seen("fabric.manager.active", unit.active)],
    )


@check(
    "fabric.manager-not-needed",
    title="Fabric manager is not started where there is no NVSwitch",
    severity=INFO,
    reads=(*FABRIC, "fabric.manager"),
    sources=("fabric-not-needed-report",),
    fix=Fix(
        say="switch it off; it has nothing to manage and fails at every boot",
        command=f"sudo systemctl disable --now {UNIT[:-8]}",
    ),
)
def _manager_not_needed(f: Facts, k: Knowledge) -> Result:
    """A unit that is enabled, active or failed without a fabric is a red herring in the logs."""
    fact = f.fabric.manager
    if isinstance(fact, Absent):
        return skipped("fabric manager has no unit here")
    unit = fact.value
    if on_fabric(f):
        return passed(f"{UNIT} has an NVSwitch fabric to manage")
    if unit.active in ("active", "failed", "activating") or unit.enabled == "enabled":
        return failed(
            f"{UNIT} is {unit.active} and {unit.enabled or 'not enabled'}, and there is no "
            "NVSwitch",
            want="the unit disabled",
            evidence=[seen("fabric.manager.active", unit.active)],
        )
    return passed(f"{UNIT} is {unit.active} and {unit.enabled or 'not enabled'}, no NVSwitch here")


@check(
    "fabric.ib-modules-missing",
    title="The InfiniBand modules that drive NVLink 5 switches are loaded",
    severity=WARN,
    reads=(
        "nvml.gpus",
        "network.rdma_modules",
        "fabric.nvlsm_version",
        "fabric.manager_version",
        "host.os_release",
    ),
    needs=("fabric.not-ready",),
    sources=("fabric-nvlink5-modules",),
    fix=Fix(
        say="load the modules now and at boot, install the subnet manager, restart fabric manager",
        command="sudo modprobe -a ib_umad mlx5_ib",
        disturbs="gpu",
        remedy="fabric_manager",
    ),
)
def _ib_modules(f: Facts, k: Knowledge) -> Result:
    """Without them the next start of fabric manager takes the system for one with older
    switches.
    """
    row = subnet_row(k)
    if row is None:
        return unseen("no row says which boards need the subnet manager")
    if isinstance(f.fabric.manager_version, NotApplicable):
        return skipped(f.fabric.manager_version.reason)
    if not by_subnet_manager(f, row):
        return skipped(f"no board of compute capability {row.minimum} or newer on a fabric")
    if isinstance(f.fabric.manager_version, Absent):
        return skipped("fabric manager is not here: the fabric is managed outside this system")
    if isinstance(f.fabric.manager_version, Unknown):
        raise FactUnknown(f.fabric.manager_version.reason, f.fabric.manager_version.via)
    gone = missing_parts(f, row)
    if not gone:
        return passed(
            f"{', '.join(row.names)} are loaded and {row.values['package']} is installed",
            rows=(row,),
        )
    return failed(
        f"{', '.join(gone)} not there: the fabric cannot come up at the next start",
        want=", ".join(row.names) + f" loaded and {row.values['package']} installed",
        command=load_modules(f, row),
        rows=(row,),
    )


@check(
    "fabric.imex",
    title="IMEX, where it is installed, has the driver's version and runs",
    severity=WARN,
    reads=("fabric.imex_version", "fabric.imex", "driver.loaded"),
    sources=("fabric-imex-report", "fabric-mnnvl-error"),
    fix=Fix(
        say="install nvidia-imex in the driver's version and start it on every node of the "
        "NVLink domain",
        command="sudo systemctl enable --now nvidia-imex",
        disturbs="service",
    ),
)
def _imex(f: Facts, k: Knowledge) -> Result:
    """Multi-node NVLink needs it, and NCCL fails where it is asked for and does not come up."""
    fact = f.fabric.imex_version
    if isinstance(fact, Absent):
        return skipped("nvidia-imex is not installed: no multi-node NVLink set up here")
    has = fact.value
    loaded = known_or(f.driver.loaded, "")
    if loaded and version(DriverVersion, has, "fabric.imex_version") != version(
        DriverVersion, loaded, "driver.loaded"
    ):
        return failed(
            f"nvidia-imex {has} is not the driver's version {loaded}",
            want=f"nvidia-imex {loaded}",
        )
    unit = f.fabric.imex
    if isinstance(unit, Absent):
        return unseen(f"nvidia-imex {has} is installed and has no unit to look at")
    if unit.value.active != "active":
        return failed(
            f"nvidia-imex.service is {unit.value.active}",
            want="nvidia-imex.service active",
            evidence=[seen("fabric.imex.active", unit.value.active)],
        )
    return passed(f"nvidia-imex {has} has the driver's version and is active")
