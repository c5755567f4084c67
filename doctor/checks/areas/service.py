"""Units that start engines, and the services beside them."""

from __future__ import annotations

import shlex

from doctor.checks.areas.environments import each
from doctor.checks.base import INFO, WARN, Fix, Result, check, failed, passed, seen, skipped
from doctor.checks.knowledge import Knowledge
from doctor.facts.areas.fabric import Unit
from doctor.facts.model import Absent, known_or
from doctor.facts.tree import Facts

PERSISTENCED = "nvidia-persistenced.service"
READY_AFTER = frozenset(
    [
        PERSISTENCED,
        "nvidia-fabricmanager.service",
        "nvidia-cdi-refresh.service",
        "docker.service",
        "containerd.service",
        "podman.service",
        "kubelet.service",
    ]
)
"""Units after which the driver is up, or whose own start is what a container engine waits for."""


def in_use(facts: Facts) -> list[Unit]:
    """Engine units that run, failed, or start at boot."""
    found = facts.fabric.engines
    return [
        unit
        for unit in ([] if isinstance(found, Absent) else found.value)
        if unit.active in ("active", "activating", "failed") or unit.enabled == "enabled"
    ]


def waits_for_driver(unit: Unit) -> bool:
    """Whether the unit is ordered after something that brings the driver up."""
    return any(
        name in READY_AFTER or (name.startswith("dev-nvidia") and name.endswith(".device"))
        for name in unit.after
    )


def drop_in(unit: str, name: str, lines: str) -> str:
    """The command that adds lines to a unit without touching its file."""
    path = shlex.quote(f"/etc/systemd/system/{unit}.d/{name}.conf")
    return (
        f"printf {shlex.quote(lines)} | sudo install -D -m 644 /dev/stdin {path} "
        "&& sudo systemctl daemon-reload"
    )


@check(
    "service.starts-before-driver",
    title="Units that start engines wait for the driver",
    severity=WARN,
    reads=("fabric.engines", "fabric.persistenced"),
    sources=("service-boot-race",),
    fix=Fix(
        say="order the unit after nvidia-persistenced.service and restart it",
        command="systemctl show --property After NAME",
        disturbs="service",
    ),
)
def _before_driver(f: Facts, k: Knowledge) -> Result:
    """An engine that looks for GPUs too early finds none and stays on the CPU or stops."""
    units = in_use(f)
    if not units:
        return skipped("no unit starts an engine")
    early = [unit for unit in units if not waits_for_driver(unit)]
    if not early:
        return passed(f"{', '.join(unit.name for unit in units)} wait for the driver")
    daemon = known_or(f.fabric.persistenced, None)
    shown = [_shown(unit, daemon) for unit in early]
    lines = f"[Unit]\\nWants={PERSISTENCED}\\nAfter={PERSISTENCED}\\n"
    name = shlex.quote(early[0].name)
    return failed(
        each(shown) + f": not ordered after {PERSISTENCED}",
        want=f"After={PERSISTENCED}",
        say=f"add Wants= and After={PERSISTENCED} to {early[0].name}, then restart it",
        command=f"{drop_in(early[0].name, '10-after-driver', lines)} && sudo systemctl restart "
        f"{name}",
        evidence=[seen(f"fabric.engines.{unit.name}.after", unit.after) for unit in early],
    )


def _shown(unit: Unit, daemon: Unit | None) -> str:
    engine = f"{unit.name} ({unit.engine})" if unit.engine else unit.name
    before = daemon.since if daemon else None
    if unit.since is None or before is None or unit.since >= before:
        return engine
    return f"{engine} started {before - unit.since} s before {PERSISTENCED}"


@check(
    "service.engine-without-restart",
    title="Units that start engines come back after a failure",
    severity=INFO,
    reads=("fabric.engines",),
    sources=("service-restart",),
    fix=Fix(
        say="set Restart=on-failure",
        command="systemctl show --property Restart NAME",
        disturbs="service",
    ),
)
def _no_restart(f: Facts, k: Knowledge) -> Result:
    """An engine that dies of one bad request stays down without it."""
    units = in_use(f)
    if not units:
        return skipped("no unit starts an engine")
    bare = [unit for unit in units if unit.restart in (None, "", "no")]
    if bare:
        return failed(
            each([f"{unit.name} has Restart={unit.restart or 'no'}" for unit in bare]),
            want="Restart=on-failure",
            command=drop_in(
                bare[0].name, "10-restart", "[Service]\\nRestart=on-failure\\nRestartSec=5\\n"
            ),
        )
    return passed(each([f"{unit.name} has Restart={unit.restart}" for unit in units]))


@check(
    "service.persistenced",
    title="nvidia-persistenced runs where it is installed",
    severity=WARN,
    reads=("fabric.persistenced",),
    sources=("service-persistence", "service-persistenced-socket"),
    fix=Fix(
        say="start it now and at every boot; containers started before it miss its socket",
        command="sudo systemctl enable --now nvidia-persistenced",
        disturbs="none",
        remedy="persistence",
    ),
)
def _persistenced(f: Facts, k: Knowledge) -> Result:
    """It keeps the driver's state between programs, and engines are ordered after it."""
    fact = f.fabric.persistenced
    if isinstance(fact, Absent):
        return skipped(f"{PERSISTENCED} is not installed")
    unit = fact.value
    if unit.active == "active":
        return passed(f"{PERSISTENCED} is active")
    if unit.load == "masked":
        return skipped(f"{PERSISTENCED} is masked: the owner switched it off")
    return failed(
        f"{PERSISTENCED} is {unit.active}",
        want="active",
        evidence=[seen("fabric.persistenced.active", unit.active)],
    )


@check(
    "service.dcgm-conflict",
    title="One DCGM host engine collects profiling metrics",
    severity=INFO,
    reads=("fabric.dcgm", "container.running"),
    sources=("service-dcgm-two-engines", "service-dcgm-profiling"),
    fix=Fix(
        say="point dcgm-exporter at the host's engine (-r localhost:5555), or stop the host's",
        command="sudo systemctl disable --now nvidia-dcgm",
        disturbs="service",
    ),
)
def _dcgm(f: Facts, k: Knowledge) -> Result:
    """The profiling hardware is locked by one process; a second engine gets errors or gaps."""
    fact = f.fabric.dcgm
    if isinstance(fact, Absent):
        return skipped("no DCGM service on the host")
    unit = fact.value
    exporters = [
        item
        for item in known_or(f.container.running, [])
        if "dcgm-exporter" in item.image and not _remote(item.args)
    ]
    if unit.active == "active" and exporters:
        return failed(
            f"{unit.name} is active and container {exporters[0].name} ({exporters[0].image}) "
            "brings its own engine",
            want="one host engine",
        )
    return passed(
        f"{unit.name} is {unit.active}, {len(exporters)} dcgm-exporter containers with an "
        "engine of their own"
    )


def _remote(args: list[str]) -> bool:
    return any(
        arg in ("-r", "--remote-hostengine-info") or arg.startswith("--remote-hostengine-info=")
        for arg in args
    )
