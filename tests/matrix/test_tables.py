"""The shipped tables as a whole: sourced, dated, and nothing in them that says it is unverified."""

from __future__ import annotations

import json
import re

import msgspec

from doctor.matrix.model import TABLES, Branch, CudaToolkit, DriverPackages, Gpu, KnownIssue
from doctor.matrix.row import LAYER_OF
from doctor.matrix.schema import schema
from doctor.resources import matrices_dir

ROOT = matrices_dir()


def every(matrix):
    return [(name, row) for name in matrix.names for row in matrix.table(name)]


def test_at_least_nine_hundred_rows_besides_pci_ids(shipped):
    rows = [name for name, _ in every(shipped) if name not in ("pci_devices", "nvidia_wheels")]
    assert len(rows) >= 900


def test_every_table_has_rows(shipped):
    assert [name for name in TABLES if not shipped.table(name)] == []


def test_every_row_is_sourced_and_dated(shipped):
    for name, row in every(shipped):
        assert row.sources, (name, row.key)
        assert row.layer == LAYER_OF[row.basis]
        assert re.fullmatch(r"[a-z0-9_]+\.yml:\d+", row.origin)


def test_rows_go_into_sets(shipped):
    rows = [row for _, row in every(shipped)]
    assert len(set(rows)) == len(rows)


def test_every_citation_can_be_opened(shipped):
    for ident, source in shipped.sources.items():
        link = source.link
        assert link.startswith("https://") or (ROOT.parent / link).is_file(), ident


def test_nothing_says_that_it_is_unverified():
    for path in ROOT.rglob("*.yml"):
        assert not re.search(r"(?i)unverified|not verified|to be checked", path.read_text()), path


def test_origins_point_at_the_row(shipped):
    for row in shipped.rows(Branch):
        file, _, line = row.origin.partition(":")
        text = (ROOT / file).read_text().splitlines()[int(line) - 1]
        assert f'"{row.branch}"' in text


def test_toolkits_and_gpus_name_known_branches(shipped):
    known = {str(row.branch) for row in shipped.rows(Branch)}
    for row in shipped.rows(CudaToolkit):
        assert str(row.branch) in known, row.key
    for gpu in shipped.rows(Gpu):
        assert gpu.last_branch is None or str(gpu.last_branch) in known


def test_a_toolkit_is_not_packaged_with_less_than_it_needs(shipped):
    for row in shipped.rows(CudaToolkit):
        for driver in (row.packaged, row.installer):
            assert driver is None or driver >= row.min_run, row.key


def test_no_proprietary_flavour_where_only_open_modules_exist(shipped):
    assert {row.flavor for row in shipped.rows(DriverPackages) if row.branch} == {
        "open",
        "proprietary",
    }
    for row in shipped.rows(DriverPackages):
        if row.branch is not None and row.branch.number >= 615:
            assert row.flavor == "open", row.key


def test_finding_ids_are_well_formed(shipped):
    for row in shipped.rows(KnownIssue):
        assert re.fullmatch(r"[a-z0-9]+(?:[.-][a-z0-9]+)*", row.finding), row.id


def test_the_readme_explains_every_table():
    readme = (ROOT / "README.md").read_text()
    assert [name for name in TABLES if f"`{name}`" not in readme] == []


def test_the_schema_is_current():
    current = json.loads(msgspec.json.encode(schema()))
    assert json.loads((ROOT / "schema.json").read_text()) == current


def test_files_are_for_people():
    for path in ROOT.glob("*.yml"):
        assert "\t" not in path.read_text(), path
        assert all(line == line.rstrip() for line in path.read_text().splitlines()), path
