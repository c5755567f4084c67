"""A small matrix in a folder, and the shipped one."""

from __future__ import annotations

from pathlib import Path

import pytest

from doctor.matrix.load import load
from doctor.matrix.matrix import Matrix

SOURCES = """\
page: {title: A page, publisher: NVIDIA, url: "https://docs.nvidia.com/x", retrieved: 2026-11-30}
thread: {title: A thread, publisher: vLLM, repo: vllm-project/vllm, issue: 1, retrieved: 2026-11-30}
"""

OVERLAY_SOURCE = """\
ours: {title: Our notes, publisher: site, url: "https://wiki.example/x", retrieved: 2026-11-30}
"""

TABLES = """\
driver_branches:
- {branch: "580", cuda: "13.0", status: active, kind: Long Term Support Branch, eol: 2028-06,
   modules: [open, proprietary], sources: [page], as_of: 2026-11-30, basis: stated}
nccl_known_bad:
- {id: hang, versions: "==2.28.9", problem: hangs,
   sources: [thread], as_of: 2026-11-30, basis: field}
"""


@pytest.fixture(scope="session")
def shipped() -> Matrix:
    """The matrix that comes with doctor, straight from its YAML."""
    return load(use_cache=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two tables and two sources that loads."""
    return write(tmp_path / "matrices", sources=SOURCES, tables=TABLES)


def write(where: Path, **files: str) -> Path:
    """A folder of YAML files."""
    where.mkdir(exist_ok=True)
    for name, text in files.items():
        (where / f"{name}.yml").write_text(text)
    return where
