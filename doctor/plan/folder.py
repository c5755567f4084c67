"""The folder of an air-gapped host: vendors' repositories as they lie on the net, packages, wheels and images.

    DIR/developer.download.nvidia.com/...    the files of https://developer.download.nvidia.com/..., signatures and key among them
    DIR/nvidia.github.io/...                 the same of the container toolkit's repository
    DIR/packages/                            packages of the distribution, with their index (Packages or repodata)
    DIR/wheels/                              wheels of engines
    DIR/images/<name>.tar                    images as docker save writes them
    DIR/mirror.url                           instead of the vendors' folders: the address of a mirror that serves them

Where something comes from changes, and nothing else: versions are the plan's, keys are pinned as ever.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from doctor.errors import UsageError
from doctor.facts.model import Known
from doctor.plan.model import Step

if TYPE_CHECKING:
    from doctor.facts.tree import Facts

VENDORS = ("developer.download.nvidia.com", "nvidia.github.io")
"""Whose repositories roles add."""
ADDRESSES = ("nvidia_repo_url", "container_toolkit_repository")
KEYS = ("nvidia_repo_key", "container_toolkit_key")
_INDEX = ("repodata", "InRelease", "Release", "Packages", "Packages.gz")
_MIRROR = re.compile(r"https?://[A-Za-z0-9.-]+(:\d+)?(/[A-Za-z0-9._/-]*)?")


class Folder(msgspec.Struct, frozen=True, kw_only=True):
    """What lies in it."""

    path: str
    base: str
    """Stands for https:// in addresses."""
    trees: frozenset[str] = frozenset()
    """Places with a repository, below the folder."""
    wheels: bool = False
    images: tuple[str, ...] = ()

    def address(self, url: str) -> str:
        """Where the files of a vendor's address are."""
        return f"{self.base}/{_bare(url)}"

    def has(self, url: str) -> bool:
        """Whether the repository of an address is here. What a mirror has is seen when it is asked."""
        place = _bare(url).partition(" ")[0].rstrip("/")
        place = re.split(r"/\$", place)[0]
        return not self.base.startswith("file:") or any(
            tree == place or tree.startswith(f"{place}/") for tree in self.trees
        )


def read_folder(path: Path) -> Folder:
    """Look at the folder once. UsageError where its mirror.url is none."""
    where = str(path)
    if not re.fullmatch(r"[A-Za-z0-9._/@+-]+", where):
        raise UsageError(
            f"the path of --offline has characters that apt and dnf do not take: {where!r}",
            "use a folder whose path has letters, digits and . _ - / only",
        )
    mirror = path / "mirror.url"
    base = f"file://{where}"
    if mirror.is_file():
        base = mirror.read_text(encoding="utf-8").strip().rstrip("/")
        if not _MIRROR.fullmatch(base):
            raise UsageError(f"{mirror} is no http address: {base!r}", "https://mirror.example/gpu")
    return Folder(
        path=where,
        base=base,
        trees=frozenset(_trees(path)),
        wheels=any(path.glob("wheels/*.whl")),
        images=tuple(sorted(item.name for item in path.glob("images/*.tar"))),
    )


def _trees(path: Path) -> list[str]:
    found = []
    for vendor in VENDORS:
        for folder, names, files in os.walk(path / vendor):
            if any(name in _INDEX for name in (*names, *files)):
                found.append(os.path.relpath(folder, path))
                names.clear()
    return found


def archive(ref: str) -> str:
    """The file of an image in images/."""
    return re.sub(r"[^A-Za-z0-9.-]+", "_", ref) + ".tar"


def seen(facts: Facts, folder: Folder | None) -> Facts:
    """The host as far as it can be used: a vendor's repository that is out of reach is as good as none."""
    rows = facts.packages.repositories
    if folder is None or not isinstance(rows, Known):
        return facts
    reached = [
        row
        for row in rows.value
        if row.url.startswith(folder.base) or not any(vendor in row.url for vendor in VENDORS)
    ]
    replace = msgspec.structs.replace
    kept = replace(facts.packages, repositories=replace(rows, value=reached))
    return replace(facts, packages=kept)


def from_folder(steps: Sequence[Step], folder: Folder | None) -> list[Step]:
    """The steps with the folder as their source; one whose source is not in it is left to a person."""
    return list(steps) if folder is None else [_one(step, folder) for step in steps]


def _one(step: Step, folder: Folder) -> Step:
    told: dict[str, Any] = dict(step.vars)
    for name in ADDRESSES:
        if name in told:
            if not folder.has(told[name]):
                return _without(step, f"{folder.path}/{_bare(told[name])}")
            told[name] = folder.address(told[name])
    for name in KEYS:
        if name in told:
            key = folder.address(told[name])
            told[name] = key.removeprefix("file://")
    if step.remedy == "engine_env":
        if not folder.wheels:
            return _without(step, f"{folder.path}/wheels/*.whl")
        told["engine_env_wheels"] = f"{folder.path}/wheels"
    if step.remedy == "engine_image":
        refs = told["engine_image_refs"]
        files = {ref: archive(ref) for ref in refs}
        lacking = [name for name in files.values() if name not in folder.images]
        if lacking:
            return _without(step, f"{folder.path}/images/{lacking[0]}")
        told["engine_image_archives"] = {
            ref: f"{folder.path}/images/{name}" for ref, name in files.items()
        }
    if told == step.vars:
        return step
    return msgspec.structs.replace(
        step, vars=told, changes=[*step.changes, f"from the folder {folder.path}"]
    )


def _without(step: Step, lacks: str) -> Step:
    said = f"the folder lacks {lacks}; doctor plan --offline-list says what belongs in it"
    return msgspec.structs.replace(step, remedy=None, changes=[*step.changes, said])


def _bare(url: str) -> str:
    return url.partition("://")[2] or url
