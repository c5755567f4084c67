"""A doctor of a pretended disease, for a stand-in host: real hands, real Ansible, real packages, units and reboots.

Runs inside the container as `demo-doctor fix|resume|undo|--after-reboot ...` and prints the report as JSON.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec

from doctor.checks.finding import Finding, Outcome, Severity
from doctor.checks.verdict import verdict
from doctor.exit_codes import code_for
from doctor.facts.identity import HostName
from doctor.plan.model import Plan
from doctor.plan.planner import Setting, plan_steps
from doctor.plan.remedy import Remedy, Touches
from doctor.remedy import hands, resume, runner, start, state, undo
from doctor.remedy.fix import fix
from doctor.remedy.job import FixOptions, Job
from doctor.report.model import Report
from doctor.resources import playbooks_dir

HERE = Path(os.path.realpath(__file__)).parent
REMEDIES = {
    "note_package": Remedy(
        name="note_package",
        say="installs demo 2.0",
        answers=["demo.package"],
        disturbs="reboot" if os.path.exists("/etc/demo-reboot") else "none",
        touches=Touches(packages=["demo*"], paths=["/usr/share/demo"]),
    ),
    "note_service": Remedy(
        name="note_service",
        say="runs demo.service as it should be",
        answers=["demo.service"],
        needs=["note_package"],
        disturbs="service",
        touches=Touches(paths=["/etc/systemd/system/demo.service"], units=["demo.service"]),
    ),
}


def out(*argv: str) -> str:
    return subprocess.run(argv, capture_output=True, text=True, check=False).stdout.strip()


def find(id: str, right: bool) -> Finding:
    return Finding(
        id=id,
        title=id,
        outcome=Outcome.PASS if right else Outcome.FAIL,
        severity=Severity.ERROR,
        message=f"{id} is {'right' if right else 'wrong'}",
    )


def look() -> Report:
    package = out("dpkg-query", "-W", "-f", "${Version}", "demo") == "2.0"
    pid = out("systemctl", "show", "-p", "MainPID", "--value", "demo.service")
    environment = b""
    if pid.isdigit() and pid != "0":
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    findings = [find("demo.package", package), find("demo.service", b"NOTE=right" in environment)]
    said = verdict(findings)
    return Report(
        doctor="demo",
        host=HostName(name="demo"),
        judged_as_of="2026-11-30",
        verdict=said,
        exit_code=int(code_for(said)),
        next=None,
        findings=findings,
        facts={"packages": {"manager": {"state": "known", "value": "apt"}}},
        unseen=[],
        timing_ms={},
    )


def plan(report: Report) -> Plan:
    def values(remedy: Remedy) -> dict[str, Any]:
        if remedy.name != "note_package":
            return {}
        return {
            "note_package_version": "2.0",
            "note_package_reboot": os.path.exists("/etc/demo-reboot"),
        }

    setting = Setting(remedies=REMEDIES, family="debian")
    steps = plan_steps([], report.findings, setting, values)
    return Plan(
        host=report.host, judged_as_of="", want=[], status="changes", exit_code=1, steps=steps
    )


def job(kept: state.State, **options: Any) -> Job:
    return Job(
        look=look,
        plan=plan,
        remedies=REMEDIES,
        state=kept,
        do=hands.hands(),
        run_playbook=runner.run_playbook,
        playbooks=playbooks_dir(),
        roles=(HERE / "roles",),
        options=FixOptions(**{"lock_wait": 1.0, "package_wait": 20.0, **options}),
        tell=lambda event: print(time.strftime("%T"), event, file=sys.stderr, flush=True),
        root=os.geteuid() == 0,
        doctor="/opt/gpu-host-doctor/bin/demo-doctor",
        session=start.own_session(),
    )


def main() -> int:
    kept = state.open_state()
    words = [item for item in sys.argv[1:] if not item.startswith("--allow=")]
    allow = [item.partition("=")[2] for item in sys.argv[1:] if item.startswith("--allow=")]
    report: Any
    if words[:2] == ["fix", "--after-reboot"]:
        run = kept.run(words[2])
        options = resume.approved(run).options
        report = resume.resume(job(kept, allow=options.allow), run, after_reboot=True)
    elif words == ["fix"]:
        report = fix(job(kept, allow=allow), kept.new_run())
    elif words == ["dry"]:
        report = fix(job(kept, dry_run=True), kept.new_run())
    elif words == ["resume"]:
        report = resume.resume(job(kept, allow=allow), resume.newest(kept))
    else:
        report = undo.undo(job(kept, allow=allow), kept.run(words[1]))
    print(msgspec.json.encode(report).decode())
    return int(report.exit_code)


if __name__ == "__main__":
    sys.exit(main())
