"""What Ansible's events say, kept small: tasks, changes, failures, differences, and whether a reboot is due."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator
from typing import Any

import msgspec

REBOOT = "doctor_reboot_required"
"""The statistic by which a role says that it needs a reboot to finish."""
MAX_DIFF = 20_000
"""Characters of one difference that are shown."""


class Heard(msgspec.Struct):
    """What was heard so far."""

    tasks: int = 0
    changed: int = 0
    task: str = ""
    reboot: str | None = None
    unreachable: bool = False
    failures: list[str] = []
    diffs: list[str] = []
    problems: list[str] = []
    replaces: set[str] = set()
    """Names of installed packages that apt or dnf says it replaces or removes."""


def hear(event: dict[str, Any], heard: Heard) -> str | None:
    """Take one event in; the name of a task that starts."""
    kind = event.get("event", "")
    data = event.get("event_data") or {}
    if kind in ("playbook_on_task_start", "playbook_on_handler_task_start"):
        heard.tasks += 1
        heard.task = str(data.get("name") or data.get("task") or "")
        return heard.task
    result = data.get("res") or {}
    if kind in ("runner_on_ok", "runner_item_on_ok"):
        if result.get("changed") and kind == "runner_on_ok":
            heard.changed += 1
        heard.replaces |= replaced(result)
        if not result.get("results"):
            heard.diffs += list(differences(result.get("diff")))
    elif kind == "runner_on_failed" and not data.get("ignore_errors"):
        why = said(result) or " ".join(str(event.get("stdout", "")).split())[:2000]
        heard.failures.append(
            f"{data.get('task') or heard.task}: {why or 'it failed without a word'}"
        )
    elif kind == "runner_on_unreachable":
        heard.unreachable = True
        heard.failures.append(f"{data.get('host', 'the host')}: {said(result)}")
    elif kind == "playbook_on_stats":
        reason = (data.get("artifact_data") or {}).get(REBOOT)
        heard.reboot = str(reason) if reason else None
    return None


_APT = re.compile(r"^(?:(?:Remv|Purg) (\S+)|Inst (\S+) \[)", re.MULTILINE)
_DNF = re.compile(r"^Removed: (\S+)-[^-\s]+-[^-\s]+$")


def replaced(result: dict[str, Any]) -> set[str]:
    """Installed packages that a transaction replaces or removes, by the words of apt-get -s and of the dnf module."""
    found: set[str] = set()
    for text in (
        result.get("stdout"),
        (result.get("diff") or {}).get("prepared")
        if isinstance(result.get("diff"), dict)
        else None,
    ):
        if isinstance(text, str):
            found |= {(gone or old).partition(":")[0] for gone, old in _APT.findall(text)}
    for line in result.get("results") or []:
        match = _DNF.match(line) if isinstance(line, str) else None
        if match:
            found.add(match[1])
    return found


def said(result: dict[str, Any]) -> str:
    """Why a task failed, in one line: the first failing item's words where there are items."""
    for item in result.get("results") or []:
        if isinstance(item, dict) and item.get("failed"):
            return said(item)
    parts = [
        " ".join(str(part) for part in value) if isinstance(value, list) else str(value)
        for key in ("msg", "stderr", "module_stderr", "argument_errors")
        if (value := result.get(key))
    ]
    text = " ".join(": ".join(parts).split())
    return text[:2000]


def differences(diff: Any) -> Iterator[str]:
    """Ansible's before and after as unified differences."""
    for item in diff if isinstance(diff, list) else [diff]:
        if not isinstance(item, dict):
            continue
        if item.get("prepared"):
            yield str(item["prepared"])[:MAX_DIFF]
            continue
        before, after = _lines(item.get("before")), _lines(item.get("after"))
        if before == after:
            continue
        old, new = (str(item.get(f"{side}_header") or side) for side in ("before", "after"))
        text = "\n".join(difflib.unified_diff(before, after, old, new, lineterm=""))
        if text:
            yield text[:MAX_DIFF]


def _lines(value: Any) -> list[str]:
    if value is None:
        return []
    if not isinstance(value, str):
        return (
            [f"{key}: {value[key]}" for key in sorted(value)]
            if isinstance(value, dict)
            else [str(value)]
        )
    return value.splitlines()
