"""Every mistake in a matrix file is one sentence with file and line."""

from __future__ import annotations

import re

import pytest

from doctor.errors import MatrixError
from doctor.matrix.load import load

from .conftest import write

ROW = (
    '- {branch: "580", cuda: "13.0", status: active, modules: [open], '
    "sources: [page], as_of: 2026-11-30, basis: stated}\n"
)

MISTAKES = {
    "unknown key": (ROW.replace("status:", "staus: x, status:"), 2, 'unknown key "staus".*'),
    "key of the loader": (ROW.replace("status:", "layer: site, status:"), 2, 'unknown key "layer"'),
    "unquoted version": (ROW.replace('"13.0"', "13.10"), 2, r"unquoted version or text: 13\.10"),
    "unquoted branch": (ROW.replace('"580"', "580"), 2, "unquoted version or text: 580"),
    "not a version": (ROW.replace('"13.0"', '"thirteen"'), 2, '"thirteen" is not a CUDA version'),
    "no sources": (ROW.replace("sources: [page], ", ""), 2, 'no "sources"'),
    "empty sources": (ROW.replace("[page]", "[]"), 2, "no sources"),
    "no date": (ROW.replace("as_of: 2026-11-30, ", ""), 2, 'no "as_of"'),
    "no basis": (ROW.replace(", basis: stated", ""), 2, 'no "basis"'),
    "unverified": (ROW.replace("basis: stated", "basis: unverified"), 2, "basis: "),
    "unresolvable source": (
        ROW.replace("[page]", "[pge]"),
        2,
        'source "pge" .* not in sources.yml',
    ),
    "key twice": (ROW.replace("status: active", "status: active, status: eol"), 2, "written twice"),
    "row twice": (ROW + "\n" + ROW, 4, "driver_branches 580 is already at .*:2"),
    "row contradicts": (
        ROW + ROW.replace("13.0", "13.1"),
        3,
        "contradicts .*:2: cuda is 13.1 here and 13.0 there",
    ),
    "not a mapping": ("- 580\n", 2, "is a mapping"),
    "not yaml": ("- {branch: [\n", 3, "not YAML"),
    "second row": (
        ROW + "\n" + ROW.replace('"580"', '"590"').replace("13.0", "x"),
        4,
        '"x" is not',
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_says_file_and_line(folder, name):
    text, line, says = MISTAKES[name]
    path = folder / "tables.yml"
    path.write_text("driver_branches:\n" + text)
    with pytest.raises(MatrixError, match=says) as raised:
        load(root=folder, use_cache=False)
    assert str(raised.value).startswith(f"{path}:{line}")
    assert raised.value.line == line
    assert raised.value.hint
    assert "\n" not in str(raised.value)


def test_a_misspelt_key_names_the_nearest(folder):
    (folder / "tables.yml").write_text("driver_branches:\n" + ROW.replace("status:", "statuss:"))
    with pytest.raises(MatrixError) as raised:
        load(root=folder, use_cache=False)
    assert raised.value.hint == 'did you mean "status"?'


def test_a_misspelt_table_names_the_nearest(folder):
    (folder / "tables.yml").write_text("driver_branch:\n" + ROW)
    with pytest.raises(MatrixError, match=r"tables\.yml:1:1: unknown table") as raised:
        load(root=folder, use_cache=False)
    assert "driver_branches" in raised.value.hint


@pytest.mark.parametrize(
    "source",
    [
        "page: {title: A page, publisher: x, retrieved: 2026-11-30}",
        'page: {title: A page, publisher: x, url: "ftp://x", retrieved: 2026-11-30}',
        "page: {title: A page, publisher: x, repo: NVIDIA/nccl, retrieved: 2026-11-30}",
    ],
)
def test_a_source_that_nobody_can_look_up_does_not_load(folder, source):
    (folder / "sources.yml").write_text("# first\n" + source + "\n")
    with pytest.raises(MatrixError, match=r"sources\.yml:2:1: source \"page\" has no https url"):
        load(root=folder, use_cache=False)


CITED = "sources: [page], as_of: 2026-11-30, basis: stated"

RANGES = f"""\
nccl_behaviour:
- {{{{id: cumem, versions: "{{one}}", behaviour: off, {CITED}}}}}
- {{{{id: cumem, versions: "{{two}}", behaviour: on, {CITED}}}}}
"""


@pytest.mark.parametrize(
    ("one", "two"),
    [(">=2.0,<2.20", ">=2.19"), ("<2.20", "==2.18.1"), (">2.18", "<2.19"), ("", ">=2.20")],
)
def test_ranges_that_meet_with_different_claims(folder, one, two):
    text = RANGES.format(one=one, two=two).replace(": off,", ": 'off',").replace(": on,", ": 'on',")
    path = folder / "behaviour.yml"
    path.write_text(text)
    says = rf"{re.escape(str(path))}:3: .*contradicts {re.escape(str(path))}:2"
    with pytest.raises(MatrixError, match=says):
        load(root=folder, use_cache=False)


@pytest.mark.parametrize(("one", "two"), [("<2.20", ">=2.20"), ("==2.18.1", "==2.19.3")])
def test_ranges_that_only_touch(folder, one, two):
    text = RANGES.format(one=one, two=two).replace(": off,", ": 'off',").replace(": on,", ": 'on',")
    write(folder, behaviour=text)
    assert len(load(root=folder, use_cache=False).table("nccl_behaviour")) == 2


def test_yaml_words_that_are_not_text(folder):
    write(folder, behaviour=RANGES.format(one="<2.20", two=">=2.20"))
    with pytest.raises(MatrixError, match=r"behaviour\.yml:2:\d+: behaviour: Expected `str`"):
        load(root=folder, use_cache=False)
