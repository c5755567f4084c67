"""Folders that a step makes and fills are not copied: a new one goes whole, what was there before or changed since stays."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import pytest

from doctor.errors import RemedyError
from doctor.plan.remedy import Touches
from doctor.remedy.host import files, trees
from doctor.remedy.session import filled
from tests.remedy.bench import Bench


def fill(folder: Path, count: int = 3) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        (folder / f"f{number}").write_text("x" * 1000)


def test_a_new_folder_goes_with_the_folders_made_for_it(tmp_path: Path) -> None:
    place = tmp_path / "opt" / "envs" / "vllm-1"
    before = trees.look([str(place)])
    fill(place)
    (place / "bin").symlink_to("/usr/bin")
    changed = json.loads(json.dumps(trees.difference(before)))
    assert [item["entries"] for item in changed] == [4]
    said = trees.restore(changed)
    assert [item["path"] for item in said["restored"]] == [
        str(place),
        str(place.parent),
        str(place.parent.parent),
    ]
    assert list(tmp_path.iterdir()) == []
    assert Path("/usr/bin").is_dir()
    assert trees.restore(changed) == {"restored": [], "left": [], "failed": []}
    assert list(tmp_path.iterdir()) == []
    fill(place)
    assert trees.difference(trees.look([str(place)])) == []


def test_what_was_there_or_changed_since_stays(tmp_path: Path) -> None:
    old, new, shared = tmp_path / "old", tmp_path / "envs" / "new", tmp_path / "envs" / "other"
    fill(old)
    before = trees.look([str(old), str(new)])
    fill(old, 5)
    fill(new)
    changed = trees.difference(before)
    (new / "mine").write_text("x")
    said = trees.restore(changed)
    assert {item["path"] for item in said["left"]} == {str(old), str(new)}
    (new / "mine").unlink()
    fill(shared)
    said = trees.restore([{**item, "unsure": True} for item in changed])
    assert [item["path"] for item in said["restored"]] == [str(new)]
    assert shared.is_dir()


def test_a_step_that_was_killed_half_way_leaves_a_folder_that_undo_takes_away(
    bench: Bench,
) -> None:
    bench.note("one")
    place = bench.root / "envs" / "vllm"
    touches = Touches(paths=bench.remedies["one"].touches.paths, trees=[str(place)])
    bench.remedies["one"] = msgspec.structs.replace(bench.remedies["one"], touches=touches)
    played = bench.play

    def fills(*given: object) -> object:
        fill(place)
        return played(*given)  # type: ignore[arg-type]

    bench.play = fills  # type: ignore[method-assign,assignment]
    report = bench.fix()
    saved = bench.last().saved
    assert sum(item.stat().st_size for item in saved.iterdir() if item.name == "pack") < 1000
    undone = bench.undo(report.run)
    assert undone.exit_code == 0
    assert not place.parent.exists()


@pytest.mark.parametrize("name", ["../../etc", "a/../../b", "a/b", "..", "", ".", "a//b"])
def test_a_name_that_leads_elsewhere_is_refused(name: str) -> None:
    with pytest.raises(RemedyError):
        filled("/opt/gpu-host-doctor/envs/{engine_env_name}", {"engine_env_name": name})


def test_a_name_makes_the_path() -> None:
    wanted = "/opt/gpu-host-doctor/envs/vllm-0.27.1"
    assert filled("/opt/gpu-host-doctor/envs/{n}", {"n": "vllm-0.27.1"}) == wanted
    assert os.path.normpath(wanted) == wanted


def test_files_of_a_saved_package_are_not_copied(tmp_path: Path) -> None:
    lib, own = tmp_path / "lib.so", tmp_path / "own.so"
    lib.write_text("a" * 5000)
    own.write_text("b" * 100)
    pack = files.Pack(str(tmp_path / "pack"))
    patterns = [str(tmp_path / "*.so")]
    manifest = files.snapshot(patterns, pack, owned={str(lib)})
    assert (tmp_path / "pack").stat().st_size == 100
    assert files.changes(manifest, patterns) == []
    was = lib.stat()
    lib.write_text("c" * 5000)
    changed = files.changes(manifest, patterns)
    assert [item["path"] for item in changed] == [str(lib)]
    said = files.restore(changed, manifest, pack)
    assert "package" in said["left"][0]["why"]
    lib.write_text("a" * 5000)  # its package came back, with the time that it has in there
    os.utime(lib, ns=(was.st_atime_ns, was.st_mtime_ns))
    assert files.changes(manifest, patterns) == []
    assert files.restore(changed, manifest, pack)["left"] == []


@pytest.mark.parametrize("first", [True, False], ids=["owned-then-not", "not-then-owned"])
def test_a_file_is_copied_by_the_step_that_does_not_save_its_package(
    tmp_path: Path, first: bool
) -> None:
    lib = tmp_path / "lib.so"
    lib.write_text("a" * 5000)
    patterns, pack = [str(tmp_path / "*.so")], files.Pack(str(tmp_path / "pack"))
    saved: dict[bool, set[str]] = {True: {str(lib)}, False: set()}
    one = files.snapshot(patterns, pack, owned=saved[first])
    two = files.snapshot(patterns, pack, one, saved[not first])
    copied, owned = (two, one) if first else (one, two)
    assert "at" in copied[str(lib)]
    assert files.changes(copied, patterns) == files.changes(owned, patterns) == []
    was = lib.stat()
    lib.write_text("c" * 5000)
    changed = files.changes(copied, patterns)
    package = tmp_path / "package"  # puts the old file there again under another inode
    package.write_text("a" * 5000)
    os.utime(package, ns=(was.st_atime_ns, was.st_mtime_ns))
    kept = files.changes(owned, patterns)
    assert files.restore(changed, copied, pack)["restored"] == [{"path": str(lib), "why": ""}]
    assert lib.read_text() == "a" * 5000
    package.chmod(was.st_mode & 0o7777)
    package.rename(lib)
    assert files.restore(kept, owned, pack) == {"restored": [], "left": [], "failed": []}
