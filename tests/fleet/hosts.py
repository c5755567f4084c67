"""Inventories of stand-in hosts on this machine, reached by Ansible's local connection."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Any

from doctor.simulate.simulator import simulate

ROOT = Path(__file__).parents[2]
LIAR = Path(__file__).with_name("liar.py")


def recording(folder: Path, name: str, **description: Any) -> Path:
    """A healthy host, but for what the description says."""
    healthy = {"gpus": ["NVIDIA H100 80GB HBM3"], "driver": "580.95.05", "name": name}
    return simulate({**healthy, **description}).write(folder / name)


def shell(folder: Path, kind: str, source: Path) -> Path:
    """A shell that does what Ansible asks, but lies where the probe is asked."""
    words = shlex.join([sys.executable, str(LIAR), kind, str(source)])
    path = folder / f"{kind}.sh"
    path.write_text(
        f"#!/bin/sh\nexport PYTHONPATH={shlex.quote(str(ROOT))}\n"
        f'case "$2" in *--answer*) exec {words} "$2";; esac\nexec /bin/sh "$@"\n'
    )
    path.chmod(0o755)
    return path


def bare_shell(folder: Path) -> Path:
    """A host without any Python."""
    bare = folder / "bare"
    bare.mkdir(exist_ok=True)
    for tool in ("mktemp", "head", "cat", "rm"):
        (bare / tool).symlink_to(Path("/usr/bin") / tool)
    path = folder / "no-python.sh"
    path.write_text(
        f'#!/bin/sh\ncase "$2" in *--answer*) PATH={bare}; export PATH;; esac\nexec /bin/sh "$@"\n'
    )
    path.chmod(0o755)
    return path


def inventory(path: Path, hosts: dict[str, dict[str, Any]], **groups: list[str]) -> Path:
    """JSON, which Ansible's YAML plugin reads."""
    local = {name: {"ansible_connection": "local", **given} for name, given in hosts.items()}
    children = {group: {"hosts": dict.fromkeys(names)} for group, names in groups.items()}
    path.write_text(json.dumps({"all": {"hosts": local, "children": children}}))
    return path
