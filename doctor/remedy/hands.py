"""Does on the host what needs root: in this process when it is root, else through sudo without a password."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from doctor.errors import RemedyError
from doctor.remedy.host.command import ENVIRONMENT

PYTHON = "/usr/bin/python3"
"""The system's own interpreter; what runs as root is never this program's environment."""

_BOOT = (
    "import sys; sys.path.append(sys.argv[1]); "
    "from doctor.remedy.host.dispatch import main; main(sys.argv[2:])"
)

Hands = Callable[..., dict[str, Any]]


class NoRightsError(RemedyError):
    """Root's rights are not to be had."""


def hands() -> Hands:
    """`do(operation, **arguments)` on this host."""
    return as_root if os.geteuid() == 0 else by_sudo


def as_root(do: str, **arguments: Any) -> dict[str, Any]:
    """In this process. RemedyError when the operation fails."""
    from doctor.remedy.host.dispatch import answer

    try:
        return answer({"do": do, **arguments})
    except OSError as error:
        raise RemedyError(f"{error.filename or do}: {error.strerror}") from None


def by_sudo(do: str, **arguments: Any) -> dict[str, Any]:
    """In a child of sudo under the system's interpreter. NoRightsError when sudo refuses."""
    root = str(Path(__file__).resolve().parents[2])
    sudo = next((path for path in ("/usr/bin/sudo", "/bin/sudo") if os.access(path, os.X_OK)), None)
    if sudo is None:
        raise NoRightsError("sudo is not installed", "run the doctor as root")
    try:
        ran = subprocess.run(
            [sudo, "-n", "--", PYTHON, "-I", "-S", "-B", "-c", _BOOT, root],
            input=json.dumps({"do": do, **arguments}).encode(),
            capture_output=True,
            env={**ENVIRONMENT, "HOME": os.environ.get("HOME", "/")},
            timeout=7200,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RemedyError(f"sudo: {error}") from None
    try:
        said = json.loads(ran.stdout)
    except ValueError:
        why = ran.stderr.decode("utf-8", "replace").strip().splitlines() or [
            f"exit {ran.returncode}"
        ]
        raise NoRightsError(
            f"no rights to change this host: {why[-1]}", "run the doctor as root"
        ) from None
    if "error" in said:
        raise RemedyError(str(said["error"]))
    found: dict[str, Any] = said["ok"]
    return found
