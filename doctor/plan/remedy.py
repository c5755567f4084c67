"""Which role answers which finding, read from the roles themselves: a check cannot promise what no role does."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from doctor.errors import DoctorError
from doctor.resources import playbooks_dir


@cache
def answers(role: str, check_id: str) -> bool:
    """Whether playbooks/roles/<role>/meta/remedy.yml is here and lists the check."""
    try:
        meta = playbooks_dir() / "roles" / role / "meta" / "remedy.yml"
    except DoctorError:
        return False
    return check_id in _answered(meta)


@cache
def _answered(meta: Path) -> frozenset[str]:
    if not meta.is_file():
        return frozenset()
    import yaml

    return frozenset(yaml.safe_load(meta.read_text(encoding="utf-8")).get("answers", []))
