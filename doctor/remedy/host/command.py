"""Runs the system's own tools: found in the system's folders, with a fixed environment and a bound."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from typing import Any

PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
"""The only folders in which tools are looked for; never the caller's."""

ENVIRONMENT = {
    "PATH": PATH,
    "LC_ALL": "C",
    "LANG": "C",
    "HOME": "/root",
    "DEBIAN_FRONTEND": "noninteractive",
    "NEEDRESTART_SUSPEND": "1",
}


class Ran:
    """How a tool ended. rc None: it is not there, or it did not end in time."""

    def __init__(self, rc: int | None, out: str, err: str) -> None:
        self.rc = rc
        self.out = out
        self.err = err

    @property
    def ok(self) -> bool:
        """Whether it ended with 0."""
        return self.rc == 0

    @property
    def why(self) -> str:
        """The last line that says why it failed."""
        lines = [line for line in (self.err or self.out).strip().splitlines() if line.strip()]
        return lines[-1].strip() if lines else f"exit {self.rc}"


def which(name: str) -> str | None:
    """The tool in the system's folders."""
    for folder in PATH.split(":"):
        candidate = os.path.join(folder, name)
        if os.access(candidate, os.X_OK) and not os.path.isdir(candidate):
            return candidate
    return None


def run(
    argv: Sequence[str],
    timeout: float = 60,
    cwd: str | None = None,
    extra: dict[str, str] | None = None,
) -> Ran:
    """Run a tool without a shell and without input."""
    program = which(argv[0])
    if program is None:
        return Ran(None, "", f"{argv[0]} is not installed")
    options: dict[str, Any] = {"cwd": cwd or "/", "env": {**ENVIRONMENT, **(extra or {})}}
    try:
        done = subprocess.run(
            [program, *argv[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            check=False,
            **options,
        )
    except subprocess.TimeoutExpired:
        return Ran(None, "", f"{argv[0]} did not end within {timeout:g} s")
    except OSError as error:
        return Ran(None, "", f"{argv[0]}: {error.strerror}")
    return Ran(
        done.returncode,
        done.stdout.decode("utf-8", "replace"),
        done.stderr.decode("utf-8", "replace"),
    )
