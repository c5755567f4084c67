"""The runner's private folder: made for one run, closed to others, pruned of what must not stay."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from doctor.redact import redact, redact_tree
from doctor.remedy.journal import store

KEPT = ("stdout", "rc", "status")
"""Files of an artifact folder that stay, redacted. The file that holds the environment goes."""


class Workspace:
    """Folders and files that ansible-runner works with."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("", "env", "home", "tmp", "vars"):
            (folder / name).mkdir(mode=0o700, exist_ok=True)

    @property
    def scratch(self) -> Path:
        """For files that modules lay down while they run."""
        return self.folder / "tmp"

    def write_inventory(self, inventory: dict[str, Any]) -> Path:
        """The inventory as a file; a later step writes the same one again."""
        path = self.folder / "hosts.json"
        store(path, inventory)
        return path

    def write_vars(self, ident: str, values: dict[str, Any]) -> Path:
        """Extra variables in a file: on a command line everybody could read them."""
        path = self.folder / "vars" / f"{ident}.json"
        store(path, values)
        return path

    def write_settings(self, settings: dict[str, Any]) -> None:
        """The runner's settings; it reads them from nowhere else."""
        store(self.folder / "env" / "settings", settings)

    def prune(self, ident: str) -> None:
        """Take the environment and raw results of a run away; what stays is redacted."""
        artifacts = self.folder / "artifacts" / ident
        if not artifacts.is_dir():
            return
        for item in artifacts.iterdir():
            if item.name in KEPT:
                text = item.read_text(encoding="utf-8", errors="replace")
                item.write_text(redact(text), encoding="utf-8")
            elif item.is_dir():
                shutil.rmtree(item, ignore_errors=True)
            else:
                item.unlink()
        for path in (self.folder / "vars").glob("*.json"):
            store(path, redact_tree(json.loads(path.read_text(encoding="utf-8"))))
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.scratch.mkdir(mode=0o700, exist_ok=True)
