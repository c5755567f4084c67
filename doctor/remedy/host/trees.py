"""Folders that a step makes and fills: too large to copy, and nothing in them was there before. Undo takes a new one away whole."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

Trees = dict[str, dict[str, Any]]


def look(paths: Sequence[str]) -> Trees:
    """Path -> what is there, and which folders above it are not."""
    return {
        path: {"there": _sum(path) if os.path.lexists(path) else None, "above": _missing(path)}
        for path in paths
    }


def _missing(path: str) -> list[str]:
    found = []
    folder = os.path.dirname(path)
    while folder != "/" and not os.path.lexists(folder):
        found.append(folder)
        folder = os.path.dirname(folder)
    return found


def difference(before: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Folders that were not there, with their number of entries and newest change; and those that were there and were filled."""
    found = []
    for path, was in before.items():
        now = _sum(path) if os.path.lexists(path) else None
        if now is not None and now != was["there"]:
            found.append({"path": path, "new": not was["there"], "above": was["above"], **now})
    return found


def _sum(path: str) -> dict[str, int]:
    entries, newest = 0, _changed(path)
    for folder, names, files in os.walk(path):
        for name in (*names, *files):
            entries += 1
            newest = max(newest, _changed(f"{folder}/{name}"))
    return {"entries": entries, "newest": newest}


def _changed(path: str) -> int:
    try:
        return os.lstat(path).st_ctime_ns
    except OSError:
        return 0


def restore(changed: Sequence[Mapping[str, Any]]) -> dict[str, list[dict[str, str]]]:
    """Take new folders away, if nobody changed anything in them since. -> {"restored", "left", "failed"}"""
    said: dict[str, list[dict[str, str]]] = {"restored": [], "left": [], "failed": []}
    for item in changed:
        path = str(item["path"])
        if not item["new"]:
            why = "it was there before and was not copied"
            said["left"].append({"path": path, "why": why})
        elif not os.path.lexists(path):
            continue
        elif not item.get("unsure") and _sum(path) != {
            "entries": item["entries"],
            "newest": item["newest"],
        }:
            said["left"].append({"path": path, "why": "somebody changed something in it since"})
        else:
            _remove(path, item["above"], said)
    return said


def _remove(path: str, above: Sequence[str], said: dict[str, list[dict[str, str]]]) -> None:
    try:
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)
    except OSError as error:
        said["failed"].append({"path": path, "why": error.strerror or str(error)})
        return
    said["restored"].append({"path": path, "why": ""})
    for folder in above:
        try:
            os.rmdir(folder)
        except OSError:
            return
        said["restored"].append({"path": folder, "why": ""})
