"""States of systemd's units, before and after."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from doctor.remedy.host.command import run

BOOTED = "/run/systemd/system"
"""There where systemd is process 1 (sd_booted)."""

States = dict[str, dict[str, str]]

_KEPT = (".service", ".socket", ".timer", ".path", ".mount", ".target")
_SETTLED = ("active", "inactive", "failed")
_CHANGEABLE = ("enabled", "disabled", "masked", "enabled-runtime")


def states() -> States:
    """Unit -> {"enabled", "active"}; empty where systemd does not run."""
    found: States = {}
    if not os.path.isdir(BOOTED):
        return found
    plain = ["--no-legend", "--plain", "--no-pager"]
    for line in run(["systemctl", "list-unit-files", *plain]).out.splitlines():
        fields = line.split()
        if len(fields) >= 2 and fields[0].endswith(_KEPT):
            found.setdefault(fields[0], {})["enabled"] = fields[1]
    for line in run(["systemctl", "list-units", "--all", *plain]).out.splitlines():
        fields = line.split()
        if len(fields) >= 4 and fields[0].endswith(_KEPT):
            found.setdefault(fields[0], {})["active"] = fields[2]
    return found


def difference(before: States, after: States, touched: Sequence[str]) -> dict[str, Any]:
    """Units whose enabling changed, and touched units that were started or stopped. What comes and goes by itself is not ours."""
    found: dict[str, Any] = {}
    for unit in sorted(before.keys() | after.keys()):
        was, now = before.get(unit, {}), after.get(unit, {})
        enabling = was.get("enabled") != now.get("enabled")
        running = unit in touched and was.get("active") != now.get("active")
        if enabling or running:
            found[unit] = {"before": was, "after": now, "running": running}
    return found


def restore(
    changed: Mapping[str, Any], touched: Sequence[str], before: States, restart: bool
) -> dict[str, list[dict[str, str]]]:
    """Enabling and running as before. `restart`: touched units that ran before read their old files again."""
    said: dict[str, list[dict[str, str]]] = {"restored": [], "left": [], "failed": []}
    now = states()
    for unit, item in changed.items():
        was = item["before"]
        current = now.get(unit)
        if current is None:
            continue
        if current.get("enabled") != item["after"].get("enabled"):
            if current.get("enabled") != was.get("enabled"):
                why = f"somebody made it {current.get('enabled')} since"
                said["left"].append({"path": unit, "why": why})
            continue
        _enabling(unit, was.get("enabled"), current.get("enabled"), said)
    for unit in touched:
        _running(unit, before.get(unit, {}), now.get(unit, {}), restart, said)
    return said


def _enabling(unit: str, was: Any, now: Any, said: dict[str, list[dict[str, str]]]) -> None:
    if was == now or was not in _CHANGEABLE:
        return
    if now == "masked":
        run(["systemctl", "unmask", unit])
    word = {"enabled": "enable", "disabled": "disable", "masked": "mask"}.get(was)
    if word is not None:
        ran = run(["systemctl", "--quiet", word, unit])
        key = "restored" if ran.ok else "failed"
        said[key].append({"path": unit, "why": "" if ran.ok else ran.why})


def _running(
    unit: str,
    was: Mapping[str, str],
    now: Mapping[str, str],
    restart: bool,
    said: dict[str, list[dict[str, str]]],
) -> None:
    before, after = was.get("active"), now.get("active")
    if after is None or (before is not None and before not in _SETTLED):
        return
    if before == "active":
        word = "restart" if restart and after == "active" else "start"
        if word == "start" and after == "active":
            return
    elif after == "active":
        word = "stop"
    else:
        return
    ran = run(["systemctl", word, unit], timeout=180)
    key = "restored" if ran.ok else "failed"
    said[key].append({"path": unit, "why": "" if ran.ok else ran.why})
