"""A host of a few files: checks that look at them, steps that write them, hands that touch nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from doctor.checks.finding import Finding, FixAdvice, Outcome, Severity
from doctor.checks.verdict import verdict
from doctor.exit_codes import code_for
from doctor.facts.identity import HostName
from doctor.plan.model import Plan, Step
from doctor.plan.planner import Setting, plan_steps
from doctor.plan.remedy import Remedy, Touches
from doctor.remedy.fix import fix
from doctor.remedy.hands import as_root
from doctor.remedy.job import Ask, FixOptions, Job, Line
from doctor.remedy.outcome import FixReport
from doctor.remedy.resume import approved, newest, resume
from doctor.remedy.runner import Asked, CancelToken, RoleResult
from doctor.remedy.state import Run, State, open_state
from doctor.remedy.undo import UndoReport, undo
from doctor.report.model import Report, next_step
from doctor.resources import playbooks_dir
from doctor.smoke.model import SmokeReport, SmokeVerdict, exit_code_of

ROLES = Path(__file__).parent / "roles"
QUIET: dict[str, Any] = {"gpu": [], "containers": [], "live_restore": False, "unknown": []}


class Killed(BaseException):
    """Stands for SIGKILL: nothing of ours catches it."""


class Bench:
    """Each note is a file; its check passes when the file says what it should."""

    host = HostName(name="bench")

    def __init__(self, root: Path) -> None:
        self.root = root
        self.etc = root / "etc"
        self.etc.mkdir()
        self.state: State = open_state(root / "state")
        self.remedies: dict[str, Remedy] = {}
        self.severity: dict[str, Severity] = {}
        self.unseen: set[str] = set()
        self.workload: dict[str, Any] = dict(QUIET)
        self.boot = "boot-1"
        self.obstacles: list[str] = []
        self.scheduled: list[dict[str, Any]] = []
        self.withdrawn = 0
        self.facts: dict[str, Any] = {}
        self.results: dict[str, RoleResult] = {}
        self.kill_at: str | None = None
        self.kill_in: str | None = None
        self.ran: list[str] = []
        self.events: list[Any] = []
        self.lock_holder: dict[str, str] = {}
        self.smoke: SmokeVerdict = "passed"
        self.proved: list[str] = []

    def note(
        self,
        name: str,
        *,
        needs: tuple[str, ...] = (),
        disturbs: Any = "none",
        undo: Any = "exact",
        severity: Severity = Severity.ERROR,
        packages: tuple[str, ...] = (),
    ) -> Path:
        """A note that is wrong, and a role that puts it right."""
        path = self.etc / name
        path.write_text("wrong\n", encoding="utf-8")
        path.chmod(0o604)
        self.remedies[name] = Remedy(
            name=name,
            say=f"puts {name} right",
            answers=[f"note.{name}"],
            needs=list(needs),
            disturbs=disturbs,
            undo=undo,
            touches=Touches(paths=[str(path)], packages=list(packages)),
        )
        self.severity[name] = severity
        return path

    def look(self) -> Report:
        findings = [self.finding(name) for name in sorted(self.remedies)]
        said = verdict(findings)
        return Report(
            doctor="test",
            host=self.host,
            judged_as_of="2026-11-30",
            verdict=said,
            exit_code=int(code_for(said)),
            next=next_step(findings),
            findings=findings,
            facts=self.facts,
            unseen=[],
            timing_ms={},
        )

    def finding(self, name: str) -> Finding:
        path = self.etc / name
        right = path.exists() and path.read_text(encoding="utf-8") == "right\n"
        severity = self.severity[name]
        bad = Outcome.FAIL if severity is Severity.ERROR else Outcome.WARN
        outcome = Outcome.PASS if right else bad
        if name in self.unseen:
            outcome = Outcome.UNKNOWN
        return Finding(
            id=f"note.{name}",
            title=f"{name} is right",
            outcome=outcome,
            severity=severity,
            message=f"{name} is {'right' if right else 'wrong'}",
            fix=None
            if right
            else FixAdvice(kind="auto", say="write it", command=f"write {name}", disturbs="none"),
        )

    def plan(self, report: Report) -> Plan:
        steps = plan_steps(
            [], report.findings, Setting(remedies=self.remedies, family="debian"), self.values
        )
        return Plan(
            host=report.host,
            judged_as_of=report.judged_as_of,
            want=[],
            status="changes" if steps else "satisfied",
            exit_code=1 if steps else 0,
            steps=steps,
        )

    def prove(self, report: Report, level: str, folder: Path, cancel: CancelToken) -> SmokeReport:
        """The fake ladder: it ends as it was told to."""
        assert folder.is_dir()
        self.proved.append(level)
        return SmokeReport(
            doctor="test",
            host=report.host,
            engine="vllm",
            level=level,
            verdict=self.smoke,
            exit_code=int(exit_code_of(self.smoke)),
            next=None,
            stages=[],
        )

    def values(self, remedy: Remedy) -> dict[str, Any]:
        return {"note_file_path": str(self.etc / remedy.name), "note_file_text": "right"}

    def do(self, op: str, **arguments: Any) -> dict[str, Any]:
        if op == self.kill_at:
            self.kill_at = None
            raise Killed
        fakes: dict[str, Callable[[], dict[str, Any]]] = {
            "workload": lambda: self.workload,
            "boot_id": lambda: {"id": self.boot},
            "obstacles": lambda: {"why": self.obstacles},
            "schedule": lambda: {"ok": not self.scheduled.append(arguments), "why": ""},
            "withdraw": lambda: self._withdraw(),
            "package_lock": lambda: self.lock_holder,
            "keep_packages": lambda: {"saved": {}, "missing": arguments["globs"]},
            "repair": lambda: {"why": ""},
            "leftovers": lambda: {"processes": []},
        }
        if op in fakes:
            return fakes[op]()
        if op == "before_step":
            arguments["base"] = False
        if op == "undo_step":
            arguments["touched"] = []
        return as_root(op, **arguments)

    def _withdraw(self) -> dict[str, Any]:
        self.withdrawn += 1
        return {"ok": True, "why": ""}

    def play(self, asked: Asked, workspace: Any, tell: Any, cancel: CancelToken) -> RoleResult:
        """The fake runner: writes half, may die, writes the rest."""
        role = str(asked.values["doctor_remedy"])
        self.ran.append(role)
        tell("write the note", 0)
        path = Path(asked.values["note_file_path"])
        if role == self.kill_in:
            self.kill_in = None
            path.write_text("half", encoding="utf-8")
            raise Killed
        result = self.results.get(role, RoleResult(status="ok", changed=1))
        if asked.check:
            return result
        if result.status == "ok":
            path.write_text("right\n", encoding="utf-8")
            path.chmod(0o640)
        return result

    def job(self, *, ask: Ask | None = None, **options: Any) -> Job:
        return Job(
            line=Line(look=self.look, plan=self.plan, prove=self.prove),
            remedies=self.remedies,
            state=self.state,
            do=self.do,
            run_playbook=self.play,
            playbooks=playbooks_dir(),
            options=FixOptions(**{"lock_wait": 0.2, "package_wait": 0.1, **options}),
            tell=self.events.append,
            ask=ask,
            doctor="/opt/gpu-host-doctor/bin/doctor",
        )

    def fix(self, **options: Any) -> FixReport:
        return fix(self.job(**options), self.state.new_run())

    def resume(self, **more: Any) -> FixReport:
        run = newest(self.state)
        options = approved(run).options
        after_reboot = bool(more.pop("after_reboot", False))
        job = self.job(allow=[*options.allow, *more.get("allow", [])], smoke=options.smoke)
        return resume(job, run, after_reboot=after_reboot)

    def undo(self, run: str, **options: Any) -> UndoReport:
        return undo(self.job(**options), self.state.run(run))

    def last(self) -> Run:
        return self.state.runs()[-1]


def statuses(report: FixReport) -> dict[str, str]:
    return {step.id: step.status for step in report.steps}


def step_of(report: FixReport, id: str) -> Step | Any:
    return next(step for step in report.steps if step.id == id)
