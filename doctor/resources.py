"""Where playbooks/ and matrices/ are: beside the checkout's package, or inside the wheel."""

from __future__ import annotations

from pathlib import Path

from doctor.errors import DoctorError

_PACKAGE = Path(__file__).resolve().parent


def _data(kind: str) -> Path:
    for place in (_PACKAGE / "_data" / kind, _PACKAGE.parent / kind):
        if place.is_dir():
            return place
    raise DoctorError(
        f"the {kind} folder is missing from this installation", "reinstall gpu-host-doctor"
    )


def matrices_dir() -> Path:
    """The folder of YAML tables and rules."""
    return _data("matrices")


def playbooks_dir() -> Path:
    """The folder of playbooks and roles."""
    return _data("playbooks")
