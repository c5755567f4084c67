"""Copies and the way back: content, mode, links, times, labels; what somebody else changed is left."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from doctor.remedy.host import exempt, files

NAMES = ("a", "b", "c/d", "c/e", "f/g/h")
things = st.one_of(
    st.tuples(st.just("file"), st.binary(max_size=40), st.sampled_from((0o600, 0o644, 0o4755))),
    st.tuples(st.just("link"), st.sampled_from(("a", "/nowhere", "../x")), st.just(0)),
    st.tuples(st.just("none"), st.just(b""), st.just(0)),
)
trees = st.dictionaries(st.sampled_from(NAMES), things)


def lay(root: Path, tree: dict[str, tuple[str, object, int]]) -> None:
    for name, (kind, content, mode) in tree.items():
        path = root / name
        if path.is_symlink() or path.exists():
            path.unlink()
        if kind == "none":
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind == "link":
            path.symlink_to(str(content))
        else:
            path.write_bytes(content)  # type: ignore[arg-type]
            path.chmod(mode)


def seen(root: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for path in sorted(root.rglob("*")):
        info = path.lstat()
        what: object = path.readlink() if path.is_symlink() else path.is_dir() or path.read_bytes()
        found[str(path.relative_to(root))] = (what, info.st_mode, info.st_uid, info.st_gid)
    return found


@settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(trees, trees)
def test_restore_brings_back_every_tree(
    tmp_path_factory: pytest.TempPathFactory, first: dict[str, object], then: dict[str, object]
) -> None:
    top = tmp_path_factory.mktemp("tree")
    root, pack = top / "root", files.Pack(str(top / "pack"))
    root.mkdir()
    lay(root, first)  # type: ignore[arg-type]
    before = seen(root)
    manifest = files.snapshot([str(root)], pack)
    lay(root, then)  # type: ignore[arg-type]
    changed = files.changes(manifest, [str(root)])
    said = files.restore(changed, manifest, pack)
    assert seen(root) == before
    assert said["left"] == said["failed"] == []
    assert files.changes(manifest, [str(root)]) == []


def test_restore_twice_is_restore_once(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "a").write_text("old")
    pack = files.Pack(str(tmp_path / "pack"))
    manifest = files.snapshot([str(tmp_path / "root")], pack)
    (tmp_path / "root" / "a").write_text("new")
    changed = files.changes(manifest, [str(tmp_path / "root")])
    assert len(files.restore(changed, manifest, pack)["restored"]) == 1
    assert files.restore(changed, manifest, pack) == {"restored": [], "left": [], "failed": []}


def test_labels_come_back(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old")
    try:
        os.setxattr(path, "user.label", b"gpu")
    except OSError:
        pytest.skip("this file system has no extended attributes")
    pack = files.Pack(str(tmp_path / "pack"))
    manifest = files.snapshot([str(path)], pack)
    path.unlink()
    path.write_text("new")
    files.restore(files.changes(manifest, [str(path)]), manifest, pack)
    assert os.getxattr(path, "user.label") == b"gpu"


def test_a_second_copy_costs_only_what_changed(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    for number in range(20):
        (root / str(number)).write_text("x" * 1000 + str(number))
    pack = files.Pack(str(tmp_path / "pack"))
    first = files.snapshot([str(root)], pack)
    size = (tmp_path / "pack").stat().st_size
    (root / "3").write_text("new")
    second = files.snapshot([str(root)], pack, first)
    assert (tmp_path / "pack").stat().st_size == size + 3
    assert pack.read(second[str(root / "7")]["at"]) == b"x" * 1000 + b"7"


def test_what_is_torn_at_the_end_of_the_pack_is_never_read(tmp_path: Path) -> None:
    pack = files.Pack(str(tmp_path / "pack"))
    [first] = pack.append([b"one"])
    with (tmp_path / "pack").open("ab") as file:
        file.write(b"torn")
    [second] = pack.append([b"two"])
    assert (pack.read(first), pack.read(second)) == (b"one", b"two")


def test_a_full_or_read_only_disk_is_said_and_nothing_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "root" / "a"
    path.parent.mkdir()
    path.write_text("old")
    pack = files.Pack(str(tmp_path / "pack"))
    manifest = files.snapshot([str(path)], pack)
    path.write_text("new")
    changed = files.changes(manifest, [str(path)])
    (path.parent / "a.gpu-host-doctor").mkdir()  # what stands in the way of the new name
    said = files.restore(changed, manifest, pack)
    assert [item["path"] for item in said["failed"]] == [str(path)]
    assert path.read_text() == "new"


def test_every_exemption_has_a_reason() -> None:
    assert all(len(reason) > 3 for reason in exempt.EXEMPT.values())
    assert exempt.exempt("/etc/ld.so.cache")
    assert exempt.exempt("/boot/initrd.img-6.8.0-45-generic")
    assert exempt.exempt("/etc/docker/daemon.json") is None


def test_a_large_new_folder_is_one_change(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    pack = files.Pack(str(tmp_path / "pack"))
    manifest = files.snapshot([str(root)], pack)
    (root / "env" / "lib").mkdir(parents=True)
    for number in range(files.TREE + 1):
        (root / "env" / "lib" / str(number)).write_text("x")
    [change] = files.changes(manifest, [str(root)])
    assert change["tree"]["entries"] == files.TREE + 2
    (root / "env" / "lib" / "7").write_text("somebody's")
    assert files.restore([change], manifest, pack)["left"][0]["path"] == str(root / "env")
    [change] = files.changes(manifest, [str(root)])
    assert files.restore([change], manifest, pack)["restored"][0]["path"] == str(root / "env")
    assert list(root.iterdir()) == []
