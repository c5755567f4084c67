"""The only importer of ansible_runner: a role runs, its events become ours, and whatever happens there is one result.

What is worked around here was measured (ansible-runner 2.4.3): a handler that raises kills the thread and looks like success,
one that returns nothing loses the events, an absent cancel callback replaces the caller's signal handlers, the whole environment
of the caller is passed on and written to a file, host-key checking is switched off where nobody says otherwise, and settings that
are given as an argument are dropped when there is no file of settings. AWX_LIB_DIRECTORY of the caller names the folder from which a
plugin is loaded: nothing of the caller's environment is passed on.
"""

from __future__ import annotations

import os
import shlex
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import msgspec

from doctor.errors import RemedyError
from doctor.redact import redact
from doctor.remedy.host.command import PATH
from doctor.remedy.host.locks import MARK
from doctor.remedy.task_event import Heard, hear
from doctor.remedy.workspace import Workspace

Status = Literal["ok", "failed", "unreachable", "timeout", "canceled", "crash"]

TIMEOUT = 5400
"""Seconds a role may take: a driver is compiled for every kernel."""
IDLE = 1800
"""Seconds without a word."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """One playbook run."""

    ident: str
    playbooks: Path
    playbook: str
    inventory: dict[str, Any]
    values: dict[str, Any]
    check: bool = False
    become: bool = False
    roles: tuple[Path, ...] = ()
    """Roles beside those of the playbooks' own folder, for tests."""
    run: str = ""
    timeout: int = TIMEOUT
    idle: int = IDLE


class RoleResult(msgspec.Struct, frozen=True, kw_only=True):
    """How a role ended."""

    status: Status
    changed: int = 0
    reboot: str | None = None
    """Why the role needs a reboot to finish."""
    failures: list[str] = []
    diffs: list[str] = []
    tasks: int = 0
    replaces: list[str] = []
    """Installed packages that were or would be replaced or removed."""


class CancelToken:
    """Set by whoever wants the run to end; asked by the runner once a second."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def cancel(self) -> None:
        """Ask for the end."""
        self._event.set()

    @property
    def canceled(self) -> bool:
        """Whether the end was asked for."""
        return self._event.is_set()


def run_playbook(
    asked: Asked,
    workspace: Workspace,
    tell: Callable[[str, int], None] = lambda task, done: None,
    cancel: CancelToken | None = None,
) -> RoleResult:
    """Run it and wait. `tell` hears the name of each task; what it raises is dropped."""
    inventory = workspace.write_inventory(asked.inventory)
    values = workspace.write_vars(asked.ident, asked.values)
    flags = [*(["--check", "--diff"] if asked.check else ["--diff"]), "-e", f"@{values}"]
    if asked.become:
        flags.append("--become")
    command = Command(
        ident=asked.ident,
        playbooks=asked.playbooks,
        playbook=asked.playbook,
        inventory=str(inventory),
        flags=flags,
        environment=_environment(asked, workspace),
        timeout=asked.timeout,
        idle=asked.idle,
    )
    return run_command(command, workspace, tell, cancel)


def run_command(
    command: Command,
    workspace: Workspace,
    tell: Callable[[str, int], None] = lambda task, done: None,
    cancel: CancelToken | None = None,
) -> RoleResult:
    """The same for a command that is made already; of several hosts the result is one."""
    heard = Heard()

    def on_event(event: dict[str, Any]) -> bool:
        try:
            task = hear(event, heard)
            if task is not None:
                tell(task, heard.tasks)
        except Exception as error:  # a handler that raises kills the runner's thread
            heard.problems.append(f"{type(error).__name__}: {error}")
        return True

    try:
        ended = execute(command, workspace, on_event, cancel or CancelToken())
    except Exception as error:  # what the library raises is a crash of the step, not of the doctor
        return RoleResult(status="crash", failures=[redact(f"{type(error).__name__}: {error}")])
    finally:
        workspace.prune(command.ident)
    return _result(ended, heard)


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """One start of ansible-playbook, with all that it and its modules get to see."""

    ident: str
    playbooks: Path
    playbook: str
    inventory: str | list[str]
    flags: list[str]
    environment: dict[str, str]
    timeout: int = 0
    """Seconds; 0: as long as it takes."""
    idle: int = 0
    shown_by: str = ""
    """Another stdout callback than the runner's: then there are no events, and hosts cost a third less."""


def execute(
    command: Command,
    workspace: Workspace,
    on_event: Callable[[dict[str, Any]], bool],
    token: CancelToken,
) -> Any:
    """Run it and wait: the ended Runner, with status and rc. The caller prunes the workspace."""
    from ansible_runner.config.runner import RunnerConfig
    from ansible_runner.runner import Runner

    settings = {"pexpect_timeout": 1, "suppress_ansible_output": True}
    limits = {"idle_timeout": command.idle, "job_timeout": command.timeout}
    workspace.write_settings(settings | {key: value for key, value in limits.items() if value})
    config = RunnerConfig(
        private_data_dir=str(workspace.folder),
        project_dir=str(command.playbooks),
        playbook=command.playbook,
        ident=command.ident,
        inventory=command.inventory,
        cmdline=shlex.join(command.flags),
        suppress_env_files=True,
        quiet=True,
        envvars=command.environment,
    )
    config.prepare()
    config.command[0] = str(ansible_playbook())
    config.env = {**command.environment, **_for_runner(config, command)}
    runner = Runner(config, event_handler=on_event, cancel_callback=lambda: token.canceled)
    runner.run()
    return runner


def _for_runner(config: Any, command: Command) -> dict[str, str]:
    """What the library needs of its own. It takes each of these from the caller's environment too, where it is set there.

    Its own callback, once it is found, wraps all that Ansible displays: that alone is a tenth of what a host costs.
    """
    from ansible_runner.utils import get_callback_dir

    own = command.environment.get("ANSIBLE_CALLBACK_PLUGINS", "")
    callbacks = [own] if command.shown_by else [own, get_callback_dir()]
    return {
        "ANSIBLE_CALLBACK_PLUGINS": ":".join(item for item in callbacks if item),
        "ANSIBLE_STDOUT_CALLBACK": command.shown_by or "awx_display",
        "ANSIBLE_RETRY_FILES_ENABLED": "False",
        "ANSIBLE_CACHE_PLUGIN": "jsonfile",
        "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(config.fact_cache),
        "AWX_ISOLATED_DATA_DIR": str(config.artifact_dir),
        "RUNNER_OMIT_EVENTS": "False",
        "RUNNER_ONLY_FAILED_EVENTS": "False",
    }


def _environment(asked: Asked, workspace: Workspace) -> dict[str, str]:
    """All that Ansible and the modules get to see."""
    places = [str(asked.playbooks / "roles"), *map(str, asked.roles)]
    found = {
        "PATH": PATH,
        "HOME": str(workspace.folder / "home"),
        "LANG": "C.UTF-8",
        "LC_ALL": "C.UTF-8",
        "TERM": "dumb",
        "PYTHONNOUSERSITE": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "ANSIBLE_CONFIG": str(asked.playbooks / "ansible.cfg"),
        "ANSIBLE_HOME": str(workspace.folder / "home"),
        "ANSIBLE_LOCAL_TEMP": str(workspace.scratch),
        "ANSIBLE_COLLECTIONS_PATH": str(workspace.folder / "home"),
        "ANSIBLE_ROLES_PATH": ":".join(places),
        "ANSIBLE_LIBRARY": str(asked.playbooks / "library"),
        "ANSIBLE_MODULE_UTILS": str(asked.playbooks / "module_utils"),
        "ANSIBLE_HOST_KEY_CHECKING": "True",
        "ANSIBLE_NOCOLOR": "1",
        MARK: asked.run,
    }
    if "SSH_AUTH_SOCK" in os.environ and _over_ssh(asked.inventory):
        found["SSH_AUTH_SOCK"] = os.environ["SSH_AUTH_SOCK"]
    return found


def _over_ssh(inventory: Mapping[str, Any]) -> bool:
    hosts = inventory["all"]["children"]["targets"]["hosts"].values()
    return any(host.get("ansible_connection") == "ssh" for host in hosts)


def ansible_playbook() -> Path:
    """The one that was installed with this program, never one of the caller's PATH."""
    found = Path(sys.prefix) / "bin" / "ansible-playbook"
    if not found.is_file():
        raise RemedyError(f"{found} is not there", "install gpu-host-doctor with its dependencies")
    return found


def _result(ended: Any, heard: Heard) -> RoleResult:
    """rc None means that the runner's thread died, whatever its status says."""
    status = _status(ended, heard)
    failures = [redact(item) for item in heard.failures]
    if status not in ("ok", "failed") and not failures:
        failures = [_REASONS[status]]
    if status == "failed" and not failures:
        failures = [f"ansible-playbook ended with {ended.rc}: {last_words(ended)}"]
    return RoleResult(
        status=status,
        changed=heard.changed,
        reboot=heard.reboot,
        failures=failures,
        diffs=[redact(item) for item in heard.diffs],
        tasks=heard.tasks,
        replaces=sorted(heard.replaces),
    )


_REASONS = {
    "unreachable": "the host did not answer",
    "timeout": "it did not end in time; what it started may still run",
    "canceled": "it was interrupted; what it started may still run",
    "crash": "ansible-runner died",
}


def _status(ended: Any, heard: Heard) -> Status:
    if ended.status == "canceled":
        return "canceled"
    if ended.status == "timeout":
        return "timeout"
    if ended.rc is None or heard.problems:
        return "crash"
    if heard.unreachable:
        return "unreachable"
    return "ok" if ended.rc == 0 and ended.status == "successful" else "failed"


def last_words(ended: Any) -> str:
    """The end of what ansible-playbook wrote."""
    try:
        text = Path(ended.config.artifact_dir, "stdout").read_text(
            encoding="utf-8", errors="replace"
        )
    except OSError:
        return "no output"
    lines: Sequence[str] = [line for line in text.splitlines() if line.strip()]
    return redact(" ".join(lines[-3:])) if lines else "no output"
