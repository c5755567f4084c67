"""What each role promises, read from playbooks/roles/<role>/meta/remedy.yml: a check cannot promise what no role does."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Literal

import msgspec

from doctor.errors import DoctorError
from doctor.plan.model import Disturbs
from doctor.resources import playbooks_dir

Undo = Literal["exact", "best-effort", "none"]
Family = Literal["debian", "rhel", "wsl2"]

RANK: dict[str, int] = {"none": 0, "service": 1, "gpu": 2, "reboot": 3}
"""How much a step disturbs, the least first."""


class Touches(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a role may create or change; it is saved before the role runs."""

    paths: list[str] = []
    """Absolute paths or globs. /etc is always saved."""
    trees: list[str] = []
    """Folders that it makes and fills, with {variables}: not copied, and taken away whole."""
    packages: list[str] = []
    """Globs over package names."""
    units: list[str] = []


class Remedy(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One role as the planner sees it."""

    name: str = ""
    say: str
    """One sentence: what it changes."""
    answers: list[str] = []
    """Ids of checks that pass once it has run."""
    needs: list[str] = []
    """Roles that come first when they are in the plan too."""
    conflicts: list[str] = []
    disturbs: Disturbs = "none"
    check_mode: str = "full"
    """full, or "partial: reason"."""
    undo: Undo = "exact"
    touches: Touches = Touches()
    vars: list[str] = []
    """Extra variables that it cannot run without."""
    families: tuple[Family, ...] = ("debian", "rhel")


def remedies(roles: Path | None = None) -> Mapping[str, Remedy]:
    """Every role that has a meta/remedy.yml, by name."""
    if roles is None:
        try:
            roles = playbooks_dir() / "roles"
        except DoctorError:
            return {}
    return _read_all(roles)


def answers(role: str, check_id: str) -> bool:
    """Whether playbooks/roles/<role>/meta/remedy.yml is here and lists the check."""
    found = remedies().get(role)
    return found is not None and check_id in found.answers


@cache
def _read_all(roles: Path) -> dict[str, Remedy]:
    from doctor.matrix import cache as compiled

    found = {meta.parents[1].name: meta for meta in sorted(roles.glob("*/meta/remedy.yml"))}
    name = "remedies-" + _digest(found.values())
    stored = compiled.read(name)
    if stored is not None:
        try:
            return msgspec.json.decode(stored, type=dict[str, Remedy])
        except msgspec.MsgspecError:
            pass
    read = {role: read_one(meta) for role, meta in found.items()}
    _acyclic(read)
    compiled.write(name, msgspec.json.encode(read))
    return read


def _digest(files: Iterable[Path]) -> str:
    """A name for these files with these contents, read by this version of the reader."""
    digest = hashlib.sha256(Path(__file__).read_bytes())
    for file in files:
        content = file.read_bytes()
        digest.update(b"%s\0%d\0" % (bytes(file), len(content)) + content)
    return digest.hexdigest()


def read_one(meta: Path) -> Remedy:
    """One remedy.yml, strictly: an unknown key or a wrong word is an error."""
    import yaml

    try:
        fast = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        raw = yaml.load(meta.read_text(encoding="utf-8"), Loader=fast)  # noqa: S506 - a safe loader
        remedy = msgspec.convert(raw, Remedy)
    except (OSError, yaml.YAMLError, msgspec.ValidationError) as error:
        raise DoctorError(f"{meta}: {error}", "see playbooks/README.md") from None
    if remedy.check_mode != "full" and not remedy.check_mode.startswith("partial: "):
        raise DoctorError(f'{meta}: check_mode is full or "partial: reason"')
    named = (*remedy.touches.paths, *remedy.touches.trees)
    wrong = [path for path in named if not path.startswith("/")]
    if wrong:
        raise DoctorError(f"{meta}: {wrong[0]!r} is not an absolute path")
    return msgspec.structs.replace(remedy, name=meta.parents[1].name)


def _acyclic(read: Mapping[str, Remedy]) -> None:
    for name in read:
        if name in before(name, read):
            raise DoctorError(f"the role {name} needs itself, by way of others")


def before(name: str, read: Mapping[str, Remedy]) -> frozenset[str]:
    """All roles that `name` needs, and what these need."""
    found: set[str] = set()
    pending = list(read[name].needs) if name in read else []
    while pending:
        need = pending.pop()
        if need not in found:
            found.add(need)
            pending += read[need].needs if need in read else []
    return frozenset(found)


def answering(check_id: str, named: str | None, read: Iterable[Remedy]) -> Remedy | None:
    """The role that cures a check: the one that the check names, else the only one that lists it."""
    listing = [item for item in read if check_id in item.answers]
    for item in listing:
        if item.name == named:
            return item
    return listing[0] if len(listing) == 1 else None
