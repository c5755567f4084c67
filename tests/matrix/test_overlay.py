"""A site's overlay adds rows and waivers, nothing that is run or contradicts the vendor."""

from __future__ import annotations

import datetime

import pytest

from doctor.errors import MatrixError
from doctor.matrix.load import load
from doctor.matrix.model import Branch, NcclKnownBad

from .conftest import OVERLAY_SOURCE, write

CITED = "sources: [ours], as_of: 2026-11-30, basis: field"


def overlay(tmp_path, text):
    return write(tmp_path / "site", sources=OVERLAY_SOURCE, rows=text)


def test_adds_rows_and_waivers(folder, tmp_path):
    site = overlay(
        tmp_path,
        "driver_branches:\n"
        f'- {{branch: "999", cuda: "14.0", status: active, modules: [open], {CITED}}}\n'
        "waivers:\n- {id: pci.acs, reason: old boards, owner: ops, expires: 2027-01-31}\n",
    )
    matrix = load([site], root=folder, use_cache=False)
    row = matrix.find(Branch, "999")
    assert row is not None
    assert row.layer == "site"
    assert row.origin == f"{site / 'rows.yml'}:2"
    assert matrix.find(Branch, "580").layer == "vendor"
    assert matrix.waivers[0].expires == datetime.date(2027, 1, 31)
    assert matrix.cite(row)[0]["url"] == "https://wiki.example/x"


def test_may_not_contradict_the_vendor(folder, tmp_path):
    site = overlay(
        tmp_path,
        "driver_branches:\n"
        f'- {{branch: "580", cuda: "12.9", status: active, modules: [open], {CITED}}}\n',
    )
    says = r"rows\.yml:2: driver_branches 580 contradicts .*tables\.yml:2: cuda is 12\.9 here"
    with pytest.raises(MatrixError, match=says):
        load([site], root=folder, use_cache=False)


def test_may_replace_what_the_field_says(folder, tmp_path):
    site = overlay(
        tmp_path,
        f'nccl_known_bad:\n- {{id: hang, versions: "==2.28.8", problem: ours, {CITED}}}\n',
    )
    rows = load([site], root=folder, use_cache=False).rows(NcclKnownBad)
    assert [(row.id, str(row.versions), row.layer) for row in rows] == [
        ("hang", "==2.28.8", "site")
    ]


def test_may_say_the_same_again(folder, tmp_path):
    site = overlay(
        tmp_path,
        'driver_branches:\n- {branch: "R580", cuda: "13.0", status: active, '
        "kind: Long Term Support Branch, eol: 2028-06, modules: [open, proprietary], "
        f"{CITED}}}\n".replace("R580", "580"),
    )
    rows = load([site], root=folder, use_cache=False).rows(Branch)
    assert [row.layer for row in rows] == ["vendor"]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            'repositories:\n- {codename: x, format: deb, status: current, url: "https://x"}\n',
            ":1:1:",
        ),
        ("driver_packages:\n- {distribution: x}\n", ":1:1: an overlay may not add"),
        (
            f'nccl_known_bad:\n- {{id: x, versions: "<1", problem: p, remedy: [do], {CITED}}}\n',
            r':2:\d+: an overlay may not set "remedy"',
        ),
        (
            "distributions:\n- {id: x, version: '1', name: x, repository: x, branch_lock: rm}\n",
            r':2:\d+: an overlay may not set "branch_lock"',
        ),
    ],
)
def test_never_brings_addresses_keys_or_commands(folder, tmp_path, text, says):
    site = overlay(tmp_path, text)
    with pytest.raises(MatrixError, match=r"rows\.yml" + says):
        load([site], root=folder, use_cache=False)


@pytest.mark.parametrize("name", ["roles", "playbooks", "rules"])
def test_never_brings_what_is_run(folder, tmp_path, name):
    site = overlay(tmp_path, "")
    (site / name).mkdir()
    with pytest.raises(MatrixError, match=f"an overlay may not bring {name}/"):
        load([site], root=folder, use_cache=False)


def test_a_source_of_its_own_only(folder, tmp_path):
    site = write(
        tmp_path / "site",
        sources='page: {title: Mine, publisher: x, url: "https://x", retrieved: 2026-11-30}\n',
    )
    with pytest.raises(MatrixError, match='source "page" is already defined'):
        load([site], root=folder, use_cache=False)


def test_a_malformed_waiver(folder, tmp_path):
    site = overlay(tmp_path, "waivers:\n- {id: pci.acs, reason: x, owner: ops}\n")
    with pytest.raises(MatrixError, match=r'rows\.yml:2:3: the row has no "expires"'):
        load([site], root=folder, use_cache=False)


def test_waivers_are_not_shipped(folder):
    write(folder, waivers="waivers:\n- {id: x, reason: x, owner: x, expires: 2027-01-01}\n")
    with pytest.raises(MatrixError, match="waivers belong in an overlay"):
        load(root=folder, use_cache=False)


def test_a_folder_that_is_not_there(folder, tmp_path):
    with pytest.raises(MatrixError, match="is not a folder"):
        load([tmp_path / "nowhere"], root=folder)
