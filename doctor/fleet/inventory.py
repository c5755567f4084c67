"""Whom an audit asks: any Ansible inventory, read by Ansible itself, or a folder of recordings and files of facts."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec

from doctor.errors import UsageError
from doctor.fleet import settings
from doctor.fleet.model import SUMMARY

PATIENCE = 600
"""Seconds for an inventory: some ask a cloud for every machine."""
_END = 4096
_EVERYBODY = ("all", "ungrouped")


class Inventory(msgspec.Struct, frozen=True, kw_only=True):
    """Hosts by name."""

    label: str
    """What it is called in the history: an audit is compared with the last one of the same name."""
    sources: list[str]
    """As ansible-playbook takes them, from any folder."""
    hosts: dict[str, list[str]]
    """Inventory name -> groups, without all and ungrouped."""
    recordings: dict[str, str] = {}
    """Name -> its recording or file of facts, where no Ansible is asked."""
    recorded: frozenset[str] = frozenset()
    """Hosts whose probe looks at a recording there, by the variable doctor_recording."""
    unsafe: dict[str, str] = {}
    """Name -> the variable that would switch host-key checking off."""


def unread(given: Sequence[str], limit: str | None = None) -> Inventory | None:
    """One whose hosts Ansible will say once it asks them, so that it is read once; None where somebody else must read it."""
    if not given:
        raise UsageError("no inventory is named", "name one with -i")
    if _recorded(given, limit) is not None:
        return None
    sources = _sources(given)
    config = settings.config_file(os.environ, Path.cwd())
    if _unsafe_setting(config):
        return None
    return Inventory(label=",".join(sources), sources=sources, hosts={})


def said(found: Inventory, hosts: dict[str, tuple[list[str], dict[str, str]]]) -> Inventory:
    """The same inventory with the hosts that Ansible said."""
    variables: dict[str, Any] = {name: given for name, (_, given) in hosts.items()}
    groups = {name: sorted(set(of) - set(_EVERYBODY)) for name, (of, _) in sorted(hosts.items())}
    return _known(found.label, found.sources, groups, variables, "")


def read(given: Sequence[str], limit: str | None = None) -> Inventory:
    """UsageError when it cannot be read or holds no host."""
    if not given:
        raise UsageError("no inventory is named", "name one with -i")
    found = _recorded(given, limit) or _asked(given, limit)
    if not found.hosts:
        of = f" that match {limit!r}" if limit else ""
        raise UsageError(f"{found.label} has no hosts{of}", "see ansible-inventory --graph")
    return found


# recordings


def _recorded(given: Sequence[str], limit: str | None) -> Inventory | None:
    if len(given) != 1 or not Path(given[0]).is_dir():
        return None
    folder = Path(given[0]).resolve()
    found = {}
    for path in sorted(folder.iterdir()):
        if path.is_symlink():
            continue
        if (path / "manifest.json").is_file():
            found[path.name] = str(path)
        elif path.suffix == ".json" and path.name != SUMMARY and path.is_file() and _is_facts(path):
            found[unquote(path.stem)] = str(path)
    if not found:
        return None
    patterns = limit.split(",") if limit else ["*"]
    names = [name for name in found if any(fnmatchcase(name, item) for item in patterns)]
    return Inventory(
        label=str(folder),
        sources=[str(folder)],
        hosts={name: [] for name in names},
        recordings={name: found[name] for name in names},
    )


def _is_facts(path: Path) -> bool:
    """By its schema, which is said at the beginning or the end: an Ansible inventory may be a folder with JSON files too."""
    with path.open("rb") as file:
        ends = file.read(_END)
        file.seek(max(0, path.stat().st_size - _END))
        ends += file.read(_END)
    return b'"doctor.facts/1"' in ends or b'"doctor.report/1"' in ends


# Ansible


def _asked(given: Sequence[str], limit: str | None) -> Inventory:
    sources = _sources(given)
    label = ",".join(sources)
    config = settings.config_file(os.environ, Path.cwd())
    document = _list(sources, limit, settings.environment(config), label)
    try:
        variables = document.pop("_meta", {}).get("hostvars", {})
        hosts = groups_of(document)
    except (AttributeError, TypeError):
        raise UsageError(
            f"{label}: ansible-inventory lists no inventory", "see ansible-inventory --list"
        ) from None
    return _known(label, sources, hosts, variables, _unsafe_setting(config))


def _known(
    label: str,
    sources: list[str],
    hosts: dict[str, list[str]],
    variables: dict[str, Any],
    everywhere: str,
) -> Inventory:
    return Inventory(
        label=label,
        sources=sources,
        hosts=hosts,
        recorded=frozenset(host for host in hosts if "doctor_recording" in variables.get(host, {})),
        unsafe=_unsafe(hosts, variables, everywhere),
    )


def _sources(given: Sequence[str]) -> list[str]:
    sources = [_absolute(item) for item in given]
    for source in sources:
        if "," not in source and not Path(source).exists():
            raise UsageError(f"{source} is not there", "name an inventory with -i")
    return sources


def _absolute(given: str) -> str:
    """A list of hosts ends with a comma or has one; all else is a path."""
    return given if "," in given else str(Path(given).absolute())


def _list(
    sources: Sequence[str], limit: str | None, environment: dict[str, str], label: str
) -> dict[str, Any]:
    from doctor.remedy.runner import ansible_playbook

    argv = [str(ansible_playbook().with_name("ansible-inventory")), "--list"]
    for source in sources:
        argv += ["-i", source]
    if limit:
        argv += ["--limit", limit]
    try:
        done = subprocess.run(
            argv,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise UsageError(
            f"{label}: no answer within {PATIENCE} s", "try ansible-inventory --list"
        ) from None
    said = " ".join(done.stderr.decode(errors="replace").split())
    try:
        document = json.loads(done.stdout)
    except ValueError:
        document = None
    if done.returncode or not isinstance(document, dict):
        from doctor.redact import redact
        from doctor.report.plain import escape

        raise UsageError(
            f"{label} cannot be read: {escape(redact(said[-600:]))}", "try ansible-inventory --list"
        )
    return document


def groups_of(document: dict[str, Any]) -> dict[str, list[str]]:
    """Host -> every group it is in, directly or through a child."""
    found: dict[str, set[str]] = {}
    parents: dict[str, set[str]] = {}
    for group, item in document.items():
        for child in item.get("children", []):
            parents.setdefault(child, set()).add(group)
    for group, item in document.items():
        above = _above(group, parents)
        for host in item.get("hosts", []):
            found.setdefault(host, set()).update(above)
    return {host: sorted(found[host] - set(_EVERYBODY)) for host in sorted(found)}


def _above(group: str, parents: dict[str, set[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = [group]
    while waiting:
        item = waiting.pop()
        if item not in seen:
            seen.add(item)
            waiting.extend(parents.get(item, ()))
    return seen


def _unsafe(
    hosts: dict[str, list[str]], variables: dict[str, Any], everywhere: str
) -> dict[str, str]:
    found = {}
    for host in hosts:
        given = variables.get(host, {})
        for name in settings.ARGUMENTS:
            if settings.switched_off(str(given.get(name, ""))):
                found[host] = name
        if everywhere and not {"local"} & {given.get("ansible_connection")}:
            found.setdefault(host, everywhere)
    return found


def _unsafe_setting(config: Path | None) -> str:
    """The setting of the environment or the configuration that switches checking off for all."""
    for key in ("ssh_args", "ssh_common_args", "ssh_extra_args"):
        name = f"ANSIBLE_{key.upper()}"
        if settings.switched_off(os.environ.get(name, "")):
            return name
        if settings.switched_off(settings.configured(config, "ssh_connection", key)):
            return f"{key} of {config}"
    return ""
