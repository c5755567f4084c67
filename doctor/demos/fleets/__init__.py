"""Fleets of simulated hosts: every host is simulated, probed and judged by the real line, and told of as an audit tells of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent


def names() -> tuple[str, ...]:
    """Every demo of a fleet."""
    return tuple(sorted(file.stem for file in FOLDER.glob("*.yml")))


def title(name: str) -> str:
    """One sentence."""
    return str(read(name)["title"])


def read(name: str) -> dict[str, Any]:
    """title, groups, differs, silent."""
    import yaml

    text = (FOLDER / f"{name}.yml").read_text(encoding="utf-8")
    document: dict[str, Any] = yaml.safe_load(text)
    return document
