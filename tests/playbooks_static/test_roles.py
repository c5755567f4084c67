"""What every role keeps to: named variables, no banned tasks, specs that agree with defaults, READMEs that agree with specs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from doctor.checks.base import all_checks
from doctor.plan.remedy import read_one, remedies
from tests.playbooks_static.role_docs import (
    PLAYBOOKS,
    ROLES,
    load,
    options,
    playbooks_readme,
    role_readme,
)

NAMES = [role.name for role in ROLES]
HELPERS = {"exact_packages"}
"""Roles that others use and that cure nothing by themselves."""
each_role = pytest.mark.parametrize("role", ROLES, ids=NAMES)
BARE = re.compile(
    r"(?<![\w.'\"])ansible_(distribution|os_family|kernel|architecture|pkg_mgr|service_mgr)\b"
)
RUNNERS = (
    "ansible.builtin.command",
    "ansible.builtin.shell",
    "ansible.builtin.raw",
    "ansible.builtin.script",
)


def task_files(role: Path) -> list[Path]:
    return sorted([*role.glob("tasks/*.yml"), *role.glob("handlers/*.yml")])


def tasks_of(path: Path) -> Iterator[dict[str, Any]]:
    pending = list(load(path) or [])
    while pending:
        task = pending.pop(0)
        yield task
        for part in ("block", "rescue", "always"):
            pending += task.get(part, [])


def tasks(role: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    for path in task_files(role):
        for task in tasks_of(path):
            yield f"{path.parent.name}/{path.name}: {task.get('name')}", task


@each_role
def test_no_task_ignores_errors_takes_the_latest_or_reboots(role: Path) -> None:
    for where, task in tasks(role):
        text = yaml.safe_dump(task)
        assert "ignore_errors" not in task, where
        assert "latest" not in [
            value.get("state") for value in task.values() if isinstance(value, dict)
        ], where
        assert not any(key.endswith("reboot") for key in task), where
        assert (
            not re.search(r"systemctl\W+reboot|/sbin/reboot|shutdown", text)
            or "wsl --shutdown" in text
        ), where


@each_role
def test_commands_say_when_they_change_something_and_a_shell_says_why(role: Path) -> None:
    for path in task_files(role):
        lines = path.read_text().splitlines()
        for task in tasks_of(path):
            for runner in [item for item in RUNNERS if item in task]:
                idempotent = {"creates", "removes"} & set(task[runner])
                assert "changed_when" in task or idempotent, f"{path}: {task['name']}"
            if "ansible.builtin.shell" in task:
                at = next(i for i, line in enumerate(lines) if f"name: {task['name']}" in line)
                assert lines[at - 1].lstrip().startswith("#"), (
                    f"{path}: {task['name']}: a reason above it"
                )


@each_role
def test_variables_are_prefixed_and_facts_are_looked_up(role: Path) -> None:
    own = re.compile(rf"(__)?{role.name}_\w+$")
    for path in role.glob("defaults/*.yml"):
        for name in load(path) or {}:
            assert re.match(rf"{role.name}_\w+$", name), f"{path}: {name}"
    for path in role.glob("vars/*.yml"):
        for name in load(path) or {}:
            assert re.match(rf"__{role.name}_\w+$", name), f"{path}: {name}"
    for where, task in tasks(role):
        for name in [task.get("register"), task.get("loop_control", {}).get("loop_var")]:
            assert name is None or own.match(name), f"{where}: {name}"
        assert "loop" not in task or task.get("loop_control", {}).get("loop_var"), (
            f"{where}: item as a loop variable"
        )
        for name in task.get("ansible.builtin.set_fact", {}):
            assert own.match(name) or name == "cacheable", f"{where}: {name}"
    for path in [
        *task_files(role),
        *role.glob("vars/*.yml"),
        *role.glob("defaults/*.yml"),
        *role.glob("templates/*"),
    ]:
        assert not BARE.search(path.read_text()), f"{path}: ansible_facts['...'] instead"


@each_role
def test_the_files_of_tasks_are_short(role: Path) -> None:
    for path in task_files(role):
        assert len(path.read_text().splitlines()) <= 80, path


@each_role
def test_what_is_required_has_no_default_and_what_has_a_default_says_the_same(role: Path) -> None:
    defaults = load(role / "defaults/main.yml") or {}
    found = options(role)
    assert set(defaults) <= set(found), "a default that no spec names"
    for name, spec in found.items():
        assert name.startswith(role.name + "_"), name
        assert spec.get("description"), name
        assert not (spec.get("required") and (name in defaults or "default" in spec)), name
        assert ("default" in spec) == (name in defaults), name
        assert name not in defaults or defaults[name] == spec["default"], name


@each_role
def test_no_default_holds_a_version(role: Path) -> None:
    for name, value in (load(role / "defaults/main.yml") or {}).items():
        assert not re.search(r"\d+\.\d+", str(value)), f"{name}: {value}"


@each_role
def test_every_public_variable_that_is_used_is_specified(role: Path) -> None:
    used: set[str] = set()
    for path in [*task_files(role), *role.glob("vars/*.yml"), *role.glob("templates/*")]:
        used |= set(re.findall(rf"(?<![\w.'-]){role.name}_[a-z_]+", path.read_text()))
    entries = load(role / "meta/argument_specs.yml")["argument_specs"]
    specified = {name for entry in entries.values() for name in entry.get("options") or {}}
    assert used - specified == set()


@pytest.mark.parametrize(
    "role", [role for role in ROLES if role.name not in HELPERS], ids=lambda role: role.name
)
def test_remedy_yml_reads_and_names_what_there_is(role: Path) -> None:
    remedy = read_one(role / "meta/remedy.yml")
    assert set(remedy.vars) <= {
        name for name, spec in options(role).items() if spec.get("required")
    } | set(load(role / "meta/argument_specs.yml")["argument_specs"]["main"].get("options") or {})
    required = {name for name, spec in options(role).items() if spec.get("required")}
    assert required <= set(remedy.vars), "the planner would not know what it has to say"
    assert set(remedy.needs) | set(remedy.conflicts) <= set(NAMES)
    assert set(remedy.answers) <= set(all_checks())
    assert not remedy.say.endswith(".")


def test_needs_are_acyclic_and_no_check_is_cured_twice_unless_it_names_its_role() -> None:
    found = remedies(PLAYBOOKS / "roles")
    for ident, check in all_checks().items():
        roles = [name for name, remedy in found.items() if ident in remedy.answers]
        assert len(roles) < 2 or check.fix.remedy in roles, f"{ident}: {roles}"


def test_a_check_that_a_role_answers_names_the_role() -> None:
    checks = all_checks()
    for name, remedy in remedies(PLAYBOOKS / "roles").items():
        for ident in remedy.answers:
            fix = checks[ident].fix
            assert name in (fix.remedy, fix.debian), f"{name} answers {ident}, which names {fix}"


def test_readmes_say_what_meta_says() -> None:
    assert (PLAYBOOKS / "README.md").read_text() == playbooks_readme(), (
        "python -m tests.playbooks_static.role_docs"
    )
    for role in ROLES:
        assert (role / "README.md").read_text() == role_readme(role), (
            f"{role.name}: python -m tests.playbooks_static.role_docs"
        )
