"""What a fix is given: how to look, how to plan, who acts, what was allowed. No state of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from doctor.facts.model import Known
from doctor.facts.tree import decode
from doctor.plan.model import Plan, Step
from doctor.plan.remedy import Remedy
from doctor.remedy.hands import Hands
from doctor.remedy.runner import CancelToken, RoleResult
from doctor.remedy.state import State
from doctor.report.model import Report
from doctor.smoke.model import SmokeReport

Answer = Literal["yes", "no", "quit"]
Ask = Callable[[Step, str], Answer]
"""A person sees a step and what runs on the host, and says whether it may be done."""


class FixOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked for on the command line; kept with the run, so that a resumed run does the same."""

    wants: list[str] = []
    only: list[str] = []
    allow: list[str] = []
    dry_run: bool = False
    offline: str | None = None
    overlays: list[str] = []
    lock_wait: float = 60.0
    package_wait: float = 600.0
    rounds: int = 3
    """How often findings that only show up after a fix are planned for."""
    pip: dict[str, str] = {}
    """Where this host's owner has pip get its packages, of the environment that the run was begun in; what goes on after a reboot has another."""
    smoke: str | None = None
    """How far up the ladder the host is proved afterwards: auto, a rung, none; None where nobody said."""


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """The stages of the straight line that a fix goes through: they are lent to it, so that it knows none of them."""

    look: Callable[[], Report]
    """A fresh probe of this host, judged."""
    plan: Callable[[Report], Plan]
    prove: Callable[..., SmokeReport]
    """prove(report, level, folder, cancel): climb the smoke ladder."""
    offline: dict[str, str] = {}
    """What roles are told where the host has no way out."""
    own: Mapping[str, Mapping[str, Any]] = {}
    """What a role is told of settings of the host's owner; it comes before the plan's words."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a fix works with."""

    line: Line
    remedies: Mapping[str, Remedy]
    state: State
    do: Hands
    run_playbook: Callable[..., RoleResult]
    playbooks: Path
    options: FixOptions
    tell: Callable[[Any], None]
    roles: tuple[Path, ...] = ()
    ask: Ask | None = None
    cancel: CancelToken = msgspec.field(default_factory=CancelToken)
    root: bool = True
    """Whether this process is root; otherwise roles become root by sudo."""
    doctor: str = ""
    """Absolute path of the command that goes on after a reboot; empty where none may."""
    session: str = ""
    """The asker's own login session."""
    reboot: Callable[[], str] | None = None
    """Reboots a host that is not this one and waits for it: why it did not come back, or nothing. None: the host reboots itself."""

    def look(self) -> Report:
        """A fresh probe of this host, judged."""
        return self.line.look()

    def plan(self, report: Report) -> Plan:
        """What would put right what was seen."""
        return self.line.plan(report)


def manager_of(report: Report) -> str:
    """apt, dnf or nothing, as the probe saw it."""
    fact = decode({"packages": report.facts.get("packages", {})}).packages.manager
    return fact.value if isinstance(fact, Known) and fact.value in ("apt", "dnf") else ""


def outside_command(report: Report) -> tuple[str, str] | None:
    """Where this host cannot reboot itself: why, and what to run outside."""
    host = decode({"host": report.facts.get("host", {})}).host
    inside = host.container.value if isinstance(host.container, Known) else "none"
    if inside != "none":
        name = host.name.value if isinstance(host.name, Known) else "CONTAINER"
        import shlex

        tool = "podman" if inside == "podman" else "docker"
        return f"this is a {inside} container", f"{tool} restart {shlex.quote(name)}"
    if isinstance(host.hardware, Known) and host.hardware.value == "wsl2":
        return "WSL2 is restarted from Windows", "wsl.exe --shutdown"
    return None
