"""Running `doctor --fix` on a stand-in and judging what came of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.playbooks.cures import VERIFIED
from tests.playbooks.standins.host import Host
from tests.playbooks.standins.manifest import differences, manifest

RUNS = "/var/lib/gpu-host-doctor/runs"
FIX_S = 420
EVERYTHING = "service,gpu,reboot,irreversible"
Fault = Callable[[Host], set[str]]
"""Breaks a host; the findings that say so."""


@dataclass(frozen=True)
class Fixed:
    """The report of one run (doctor.fix/1)."""

    code: int
    data: dict[str, Any]
    said: str

    @property
    def run(self) -> str:
        """Its id."""
        return str(self.data["run"])

    def steps(self) -> dict[str, str]:
        """Status by step."""
        return {row["id"]: row["status"] for row in self.data["steps"]}

    def findings(self) -> dict[str, str]:
        """Status by finding."""
        return {row["id"]: row["status"] for row in self.data["findings"]}

    def changed(self) -> int:
        """Tasks that changed something."""
        return sum(row["changed"] for row in self.data["steps"])

    def failures(self) -> str:
        """Everything that went wrong, for an assertion's message."""
        rows = [
            f"{row['id']}: {row['status']}: {row['say']} {row['failures']}"
            for row in self.data["steps"]
        ]
        return "\n".join([*rows, *(str(item) for item in self.data.get("stopped", [])), self.said])


def fix(host: Host, *flags: str, user: str = "root") -> Fixed:
    """`doctor --fix FLAGS`; the report and the exit code. A stand-in's GPU computes nothing: no smoke unless it is asked for."""
    proof = () if "--smoke" in flags else ("--no-smoke",)
    done = host.doctor("--fix", "--format", "json", *proof, *flags, user=user, timeout=FIX_S)
    return parsed(host, done.returncode, done.stdout, done.stderr)


def parsed(host: Host, code: int, out: str, err: str) -> Fixed:
    """The report, or what was said instead of one."""
    try:
        data = json.loads(out)
    except json.JSONDecodeError:
        raise AssertionError(f"{host.flavor}: exit {code}\n{out[-2000:]}\n{err[-4000:]}") from None
    VERIFIED.update(row["id"] for row in data.get("findings", ()) if row["status"] == "verified")
    return Fixed(code, data, err)


def after_reboot(host: Host, run: str) -> Fixed:
    """The host reboots by itself, its one-shot unit goes on, and this waits for the end."""
    host.wait_for_reboot()
    done = host.doctor("runs", "show", run, "--wait", "300", "--format", "json", timeout=FIX_S)
    return parsed(host, done.returncode, done.stdout, done.stderr)


def undo(host: Host, run: str, *flags: str) -> dict[str, Any]:
    """`doctor undo RUN`; its report."""
    done = host.doctor("undo", run, "--yes", "--format", "json", *flags, timeout=FIX_S)
    found: dict[str, Any] = parsed(host, done.returncode, done.stdout, done.stderr).data
    assert done.returncode == found["exit_code"] == 0, (found, done.stderr[-3000:])
    return found


def wrong(host: Host, *argv: str) -> set[str]:
    """Errors and warnings that nothing else explains."""
    return {
        name
        for name, row in host.findings(*argv).items()
        if row["outcome"] in ("fail", "warn") and row["blocked_by"] is None
    }


def only(findings: set[str]) -> list[str]:
    """The flags that leave everything else alone."""
    return [word for name in sorted(findings) for word in ("--only", name)]


def cured(host: Host, *plants: Fault) -> Fixed:
    """Plant, see, fix, see that nothing is left to do."""
    planted = {name for plant in plants for name in plant(host)}
    assert planted <= wrong(host)
    done = fix(host, *only(planted), "--allow", EVERYTHING)
    if done.code == 5:
        done = after_reboot(host, done.run)
    states_of = {name: done.findings().get(name) for name in planted}
    assert set(states_of.values()) == {"verified"}, (states_of, done.failures())
    assert not planted & wrong(host)
    again = fix(host, *only(planted), "--allow", EVERYTHING)
    assert again.changed() == 0, again.failures()
    return done


def planned(host: Host, *flags: str) -> dict[str, list[str]]:
    """`doctor plan`: the findings of each step."""
    data = json.loads(host.doctor("plan", "--format", "json", *flags).stdout)
    return {row["id"]: row["findings"] for row in data["steps"]}


def passes(host: Host, findings: set[str], *argv: str) -> None:
    """What a fix cured on its way, its report speaks of the causes alone: a fresh look passes."""
    rows = host.findings(*argv)
    assert {name: rows[name]["outcome"] for name in findings} == dict.fromkeys(findings, "pass")
    VERIFIED.update(findings)


@dataclass(frozen=True)
class Before:
    """A host as it was: files, packages, units."""

    files: dict[str, list[object]]
    packages: dict[str, str]
    units: dict[str, str]

    @classmethod
    def of(cls, host: Host) -> Before:
        """Look at everything."""
        return cls(manifest(host), host.packages(), host.units())

    def left(self, host: Host) -> dict[str, object]:
        """What is not as it was: {} when nothing is."""
        now = Before.of(host)
        found: dict[str, object] = dict(differences(self.files, now.files))
        for kind in ("packages", "units"):
            old, new = getattr(self, kind), getattr(now, kind)
            for name in sorted(old.keys() | new.keys()):
                if old.get(name) != new.get(name) and not _passing(name):
                    found[f"{kind[:-1]} {name}"] = (old.get(name), new.get(name))
        return found


def _passing(unit: str) -> bool:
    """Units that come and go by themselves: sessions, timers' services and what systemd makes for one command."""
    return unit.startswith(("run-", "user@", "user-runtime-dir@", "session-", "systemd-", "ssh@"))
