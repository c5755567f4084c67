"""Registry rows are derived again from metadata alone; the difference is a patch that applies."""

from __future__ import annotations

import datetime
import io
import json
import random
import re
import shutil
import subprocess
import zipfile
from pathlib import Path

import httpx
import pytest

from doctor.errors import DoctorError, MatrixError
from doctor.matrix.load import load
from doctor.matrix.model import NvidiaWheel, Torch, Vllm
from doctor.matrix.refresh import check_patched, derive_changes, patched, unified
from doctor.matrix.registry import TAIL_BYTES, HttpRegistry, SavedRegistry
from doctor.resources import matrices_dir

SAVED = Path(__file__).parent / "saved"
DAY = datetime.date(2026, 12, 24)


def quiet(what, done, of):
    assert done <= of


@pytest.fixture
def copy(tmp_path):
    """The shipped tables, to be changed at will."""
    where = tmp_path / "matrices"
    shutil.copytree(matrices_dir(), where)
    return where


def without(path: Path, pattern: str) -> None:
    """Take one row out of a table."""
    text = path.read_text()
    found = re.search(rf"^- \{{[^\n]*{pattern}.*?\}}\n(?=- |\n|\Z)", text, re.M | re.S)
    assert found
    path.write_text(text.replace(found[0], ""))


def apply(copy):
    matrix = load(root=copy, use_cache=False)
    changes = derive_changes(matrix, SavedRegistry(SAVED), DAY, quiet)
    return changes, patched(copy, changes)


def test_the_shipped_rows_are_what_the_metadata_says(shipped):
    assert derive_changes(shipped, SavedRegistry(SAVED), DAY, quiet) == []


def test_a_missing_row_is_found_again(copy, shipped):
    without(copy / "vllm.yml", 'version: "0.27.1"')
    changes, files = apply(copy)
    assert [(change.table, change.key, change.old) for change in changes] == [
        ("vllm", "0.27.1", None)
    ]
    for path, (_, after) in files.items():
        path.write_text(after)
    fresh = load(root=copy, use_cache=False)
    new, known = fresh.find(Vllm, "0.27.1"), shipped.find(Vllm, "0.27.1")
    for column in ("torch", "torch_cuda", "nccl", "min_driver", "glibc", "xgrammar", "flashinfer"):
        assert getattr(new, column) == getattr(known, column), column
    assert (new.basis, new.as_of, new.sources) == ("derived", DAY, ("pypi-vllm",))
    keys = [row.key for row in fresh.rows(Vllm)]
    assert keys.index("0.27.1") == keys.index("0.27.0") + 1


def test_a_wrong_column_is_put_right_and_nothing_else(copy, shipped):
    path = copy / "torch.yml"
    row = re.search(r'^- \{version: "2\.13\.0".*?\}\n', path.read_text(), re.M | re.S)[0]
    path.write_text(path.read_text().replace(row, row.replace('"==2.29.7"', '"==2.27.7"')))
    changes, files = apply(copy)
    assert [(change.key, change.columns) for change in changes] == [("2.13.0", ("nccl",))]
    patch = unified(copy, files)
    assert patch.startswith("--- a/matrices/torch.yml\n+++ b/matrices/torch.yml\n")
    assert 'nccl: "==2.29.7"' in patch
    assert "2.12.1" not in "".join(line for line in patch.splitlines() if line[:1] in "+-")


def test_the_patch_applies(copy):
    before = {path.name: path.read_text() for path in copy.glob("*.yml")}
    without(copy / "vllm.yml", 'version: "0.17.1"')
    _, files = apply(copy)
    patch = unified(copy, files)
    done = subprocess.run(
        ["git", "apply", "--verbose", "-"], input=patch, text=True, cwd=copy.parent, check=False
    )
    assert done.returncode == 0
    assert load(root=copy, use_cache=False).find(Vllm, "0.17.1") is not None
    assert (copy / "torch.yml").read_text() == before["torch.yml"]


def test_wheels_without_metadata_come_from_their_names(copy):
    without(copy / "nvidia_wheels.yml", 'package: nvidia-nccl-cu12, version: "2.28.9"')
    changes, files = apply(copy)
    assert [change.key for change in changes] == ["nvidia-nccl-cu12/2.28.9"]
    for path, (_, after) in files.items():
        path.write_text(after)
    row = load(root=copy, use_cache=False).find(NvidiaWheel, "nvidia-nccl-cu12/2.28.9")
    assert row.wheel_tag.startswith("manylinux")


def test_an_empty_table_is_filled(copy):
    (copy / "nvidia_wheels.yml").write_text("nvidia_wheels: []\n")
    changes, files = apply(copy)
    assert len(changes) == 2
    for path, (_, after) in files.items():
        path.write_text(after)
    keys = [row.key for row in load(root=copy, use_cache=False).rows(NvidiaWheel)]
    assert keys == ["nvidia-nccl-cu12/2.27.5", "nvidia-nccl-cu12/2.28.9"]


def test_nothing_is_written_that_would_not_load(copy):
    without(copy / "vllm.yml", 'version: "0.27.1"')
    _, files = apply(copy)
    broken = {path: (before, after + "- {x: y}\n") for path, (before, after) in files.items()}
    with pytest.raises(MatrixError):
        check_patched(copy, broken)


def test_a_file_that_was_not_saved(copy, tmp_path):
    some = tmp_path / "saved"
    shutil.copytree(SAVED, some)
    next((some / "vllm").glob("*.metadata")).unlink()
    with pytest.raises(DoctorError, match="was not saved"):
        derive_changes(load(root=copy, use_cache=False), SavedRegistry(some), DAY, quiet)


METADATA = b"Metadata-Version: 2.4\nName: torch\nVersion: 2.13.0\nRequires-Python: >=3.10\n"


def wheel() -> bytes:
    """A wheel that is larger than what is asked for first."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("torch-2.13.0.dist-info/METADATA", METADATA)
        archive.writestr("torch/big.so", random.Random(0).randbytes(4 * TAIL_BYTES))
    return buffer.getvalue()


def served(*, core_metadata, body=None):
    """A registry with one wheel, and what was asked of it."""
    asked: list[httpx.Request] = []
    content = body or wheel()
    name = "torch-2.13.0-cp311-cp311-manylinux_2_28_x86_64.whl"

    def answer(request):
        asked.append(request)
        if request.url.path == "/simple/torch/":
            file = {"filename": name, "url": f"../../files/{name}", "core-metadata": core_metadata}
            return httpx.Response(200, content=json.dumps({"files": [file]}))
        if request.url.path == f"/files/{name}.metadata":
            return httpx.Response(200, content=METADATA)
        span = re.fullmatch(r"bytes=(\d*)-(\d*)", request.headers.get("range", ""))
        assert span, f"the whole of {request.url.path} was asked for"
        start = int(span[1]) if span[1] else max(0, len(content) - int(span[2]))
        end = int(span[2]) + 1 if span[1] and span[2] else len(content)
        headers = {"content-range": f"bytes {start}-{end - 1}/{len(content)}"}
        return httpx.Response(206, content=content[start:end], headers=headers)

    client = httpx.Client(transport=httpx.MockTransport(answer))
    return HttpRegistry(client, "https://registry.example/simple"), asked, len(content)


def test_metadata_beside_the_wheel():
    registry, asked, _ = served(core_metadata={"sha256": "x"})
    (file,) = registry.index("torch").files
    assert registry.metadata("torch", file) == METADATA
    assert [request.url.path.endswith(".whl") for request in asked] == [False, False]


def test_metadata_inside_the_wheel_by_ranges():
    registry, asked, size = served(core_metadata=False)
    (file,) = registry.index("torch").files
    assert registry.metadata("torch", file) == METADATA
    fetched = sum(
        int(end) - int(start) + 1
        for request in asked
        if (span := request.headers.get("range", ""))
        for start, end in [re.fullmatch(r"bytes=(\d*)-(\d*)", span).groups()]
        if start
    )
    assert fetched < size / 2


def test_no_network():
    def refuse(request):
        raise httpx.ConnectError("no route")

    registry = HttpRegistry(httpx.Client(transport=httpx.MockTransport(refuse)))
    with pytest.raises(DoctorError, match="no route") as raised:
        registry.index("torch")
    assert "--from DIR" in raised.value.hint


def test_a_page_that_is_no_index():
    answer = httpx.MockTransport(lambda request: httpx.Response(200, content=b"<html>"))
    with pytest.raises(DoctorError, match="is not a package index"):
        HttpRegistry(httpx.Client(transport=answer)).index("torch")


def test_torch_pins(shipped):
    row = shipped.find(Torch, "2.10.0")
    assert (str(row.nccl), str(row.cuda)) == ("==2.27.5", "12.8")
