"""Copies of files with mode, owner, labels and times, and the way back. A copy lies in one append-only pack with an index beside it."""

from __future__ import annotations

import base64
import errno
import glob
import hashlib
import os
import shutil
import stat as statmod
from collections.abc import Container, Iterator, Mapping, Sequence
from typing import Any

from doctor.remedy.host.exempt import exempt

Entry = dict[str, Any]
Manifest = dict[str, Entry]

MAX_FILE = 64 << 20
"""Larger files are not copied; their change is reported and left."""
TREE = 500
"""Things in a new folder beyond which the folder is recorded as a whole."""
_KINDS = (
    (statmod.S_ISREG, "file"),
    (statmod.S_ISDIR, "dir"),
    (statmod.S_ISLNK, "link"),
    (statmod.S_ISCHR, "char"),
    (statmod.S_ISBLK, "block"),
    (statmod.S_ISFIFO, "fifo"),
    (statmod.S_ISSOCK, "socket"),
)
SAME = ("type", "mode", "uid", "gid", "sha", "target", "rdev", "xattrs")
"""Keys by which two looks at a path are the same. Times are restored, not compared."""


class Pack:
    """The bytes of the copies: appended, synced once, read by offset. What a crash leaves behind the index is never read."""

    def __init__(self, path: str) -> None:
        self.path = path

    def append(self, blobs: Sequence[bytes]) -> list[tuple[int, int]]:
        """Offsets and lengths of the blobs, on disk when this returns."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(self.path, flags, 0o600)
        try:
            at = os.lseek(fd, 0, os.SEEK_END)
            places = []
            for blob in blobs:
                _write(fd, blob)
                places.append((at, len(blob)))
                at += len(blob)
            os.fsync(fd)
        finally:
            os.close(fd)
        return places

    def read(self, place: Sequence[int]) -> bytes:
        """One copy."""
        with open(self.path, "rb") as file:
            file.seek(place[0])
            return file.read(place[1])


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def walk(patterns: Sequence[str]) -> Iterator[str]:
    """Every path under the patterns, links as links, without leaving a file system and without what is exempt."""
    seen = set()
    for pattern in patterns:
        found = glob.glob(pattern, recursive=True) if glob.has_magic(pattern) else [pattern]
        for top in sorted(found):
            for path in _under(top):
                if path not in seen:
                    seen.add(path)
                    yield path


def _under(top: str) -> Iterator[str]:
    try:
        info = os.lstat(top)
    except OSError:
        return
    if exempt(top):
        return
    yield top
    if not statmod.S_ISDIR(info.st_mode):
        return
    try:
        names = sorted(os.listdir(top))
    except OSError:
        return
    for name in names:
        path = os.path.join(top, name)
        try:
            if os.lstat(path).st_dev == info.st_dev:
                yield from _under(path)
        except OSError:
            continue


def look(path: str, before: Entry | None = None) -> Entry | None:
    """What is at a path now, with the digest of its content; None when nothing is. `before` spares reading what did not change."""
    try:
        info = os.lstat(path)
    except OSError:
        return None
    entry: Entry = {
        "type": next((name for test, name in _KINDS if test(info.st_mode)), "other"),
        "mode": statmod.S_IMODE(info.st_mode),
        "uid": info.st_uid,
        "gid": info.st_gid,
        "mtime": info.st_mtime_ns,
        "ctime": info.st_ctime_ns,
        "ino": info.st_ino,
        "size": info.st_size,
    }
    if entry["type"] in ("char", "block"):
        entry["rdev"] = info.st_rdev
    if entry["type"] == "link":
        entry["target"] = os.readlink(path)
    attributes = _xattrs(path)
    if attributes:
        entry["xattrs"] = attributes
    if entry["type"] == "file":
        same = before is not None and all(
            before.get(key) == entry[key] for key in ("ino", "size", "mtime", "ctime", "type")
        )
        owned = before is not None and before.get("owned", False)
        if owned:
            entry["owned"] = True
        if owned or info.st_size > MAX_FILE:
            entry["sha"] = f"size {info.st_size} mtime {info.st_mtime_ns}"
        elif same and before is not None and "sha" in before:
            entry["sha"] = before["sha"]
        else:
            entry["sha"] = hashlib.sha256(_read(path)).hexdigest()
    return entry


def _read(path: str) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        return file.read()


def _xattrs(path: str) -> dict[str, str]:
    found = {}
    try:
        for name in sorted(os.listxattr(path, follow_symlinks=False)):
            value = os.getxattr(path, name, follow_symlinks=False)
            found[name] = base64.b64encode(value).decode("ascii")
    except OSError:
        return found
    return found


def snapshot(
    patterns: Sequence[str],
    pack: Pack,
    known: Manifest | None = None,
    owned: Container[str] = (),
) -> Manifest:
    """A copy of everything under the patterns. `known` is an earlier one in the same pack: what did not change is not copied again.

    `owned` are files of packages that are saved themselves: they come back with these, and are not copied.
    """
    manifest: Manifest = {}
    blobs: dict[str, bytes] = {}
    have = {entry["sha"]: entry["at"] for entry in (known or {}).values() if "at" in entry}
    for path in walk(patterns):
        try:
            entry = look(path, _before(path, known or {}, owned))
        except OSError:
            continue
        if entry is None:
            continue
        if entry["type"] == "file" and entry["size"] <= MAX_FILE and "owned" not in entry:
            if entry["sha"] in have:
                entry["at"] = have[entry["sha"]]
            elif entry["sha"] not in blobs:
                data = _read(path)
                entry["sha"] = hashlib.sha256(data).hexdigest()
                blobs[entry["sha"]] = data
        manifest[path] = entry
    places = dict(zip(list(blobs), pack.append(list(blobs.values()))))
    for entry in manifest.values():
        if entry["type"] == "file" and "at" not in entry and entry.get("sha") in places:
            entry["at"] = list(places[entry["sha"]])
    return manifest


def _before(path: str, known: Manifest, owned: Container[str]) -> Entry | None:
    """What an earlier copy tells of a path; that its package was saved then says nothing of now."""
    if path in owned:
        return {"owned": True}
    before = known.get(path)
    return None if before is not None and "owned" in before else before


def same(one: Entry | None, other: Entry | None) -> bool:
    """Whether two looks see the same thing."""
    if one is None or other is None:
        return one is other
    return all(one.get(key) == other.get(key) for key in SAME)


def changes(before: Manifest, patterns: Sequence[str]) -> list[dict[str, Any]]:
    """What is different now: path, how, and what is there now."""
    found = []
    present = set()
    for path in walk(patterns):
        present.add(path)
        now = look(path, before.get(path))
        if not same(before.get(path), now):
            kind = "changed" if path in before else "created"
            found.append({"path": path, "kind": kind, "after": now})
    for path in before:
        if path not in present:
            found.append({"path": path, "kind": "removed", "after": None})
    return _compact(sorted(found, key=lambda item: str(item["path"])))


def _compact(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A folder that came with many things is one change, with their number and newest time."""
    kept: list[dict[str, Any]] = []
    tree: dict[str, Any] | None = None
    for item in found:
        path, after = str(item["path"]), item["after"]
        if tree is not None and path.startswith(f"{tree['path']}/"):
            tree["inside"].append(item)
            continue
        tree = None
        kept.append(item)
        if item["kind"] == "created" and after["type"] == "dir":
            tree = item
            tree["inside"] = []
    flat: list[dict[str, Any]] = []
    for item in kept:
        inside = item.pop("inside", [])
        if len(inside) > TREE:
            newest = max(other["after"]["ctime"] for other in inside)
            item["tree"] = {"entries": len(inside), "newest": newest}
            flat.append(item)
        else:
            flat += [item, *inside]
    return flat


def _remove_tree(item: Mapping[str, Any], said: dict[str, list[dict[str, str]]]) -> None:
    """A whole folder, if nothing in it changed since."""
    path = str(item["path"])
    inside = [entry for entry in map(_quick, walk([path])) if entry is not None][1:]
    newest = max(inside, default=0)
    now = {"entries": len(inside), "newest": newest}
    if not item.get("unsure") and now != item["tree"]:
        said["left"].append({"path": path, "why": "somebody changed something in it since"})
        return
    shutil.rmtree(path)
    said["restored"].append({"path": path, "why": ""})


def _quick(path: str) -> int | None:
    try:
        return os.lstat(path).st_ctime_ns
    except OSError:
        return None


def restore(
    changed: Sequence[Mapping[str, Any]], before: Manifest, pack: Pack
) -> dict[str, list[dict[str, str]]]:
    """Put back what was there. Paths that somebody changed since are left. -> {"restored", "left", "failed": [{path, why}]}"""
    said: dict[str, list[dict[str, str]]] = {"restored": [], "left": [], "failed": []}
    gone = [item for item in changed if item["path"] not in before]
    back = [item for item in changed if item["path"] in before]
    for item in sorted(gone, key=lambda item: str(item["path"]), reverse=True):
        _one(item, None, pack, said)
    for item in sorted(back, key=lambda item: str(item["path"])):
        _one(item, before[item["path"]], pack, said)
    return said


def _one(
    item: Mapping[str, Any],
    was: Entry | None,
    pack: Pack,
    said: dict[str, list[dict[str, str]]],
) -> None:
    path = str(item["path"])
    try:
        now = look(path, {"owned": True} if was is not None and "owned" in was else None)
        if same(now, was):
            return
        if "tree" in item and now is not None:
            _remove_tree(item, said)
            return
        if not item.get("unsure") and not same(now, item["after"]):
            said["left"].append({"path": path, "why": "somebody changed it since"})
        elif was is None:
            _remove(path, now, said)
        elif was["type"] == "file" and "at" not in was:
            large = f"larger than {MAX_FILE >> 20} MiB: not copied"
            why = "it comes back with its package alone" if "owned" in was else large
            said["left"].append({"path": path, "why": why})
        else:
            _put(path, was, now, pack)
            said["restored"].append({"path": path, "why": ""})
    except OSError as error:
        said["failed"].append({"path": path, "why": error.strerror or str(error)})


def _remove(path: str, now: Entry | None, said: dict[str, list[dict[str, str]]]) -> None:
    if now is not None and now["type"] == "dir":
        try:
            os.rmdir(path)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
            said["left"].append({"path": path, "why": "somebody put something into it since"})
            return
    else:
        os.unlink(path)
    said["restored"].append({"path": path, "why": ""})


def _put(path: str, was: Entry, now: Entry | None, pack: Pack) -> None:
    """The old thing under a new name beside it, complete, then renamed over the new one. Nothing is reached by its name twice."""
    if was["type"] == "dir":
        if now is not None and now["type"] != "dir":
            os.unlink(path)
        if now is None or now["type"] != "dir":
            os.mkdir(path, 0o700)
        _dress(os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC), was)
        return
    if now is not None and now["type"] == "dir":
        os.rmdir(path)
    part = f"{path}.gpu-host-doctor"
    try:
        os.unlink(part)
    except FileNotFoundError:
        pass
    if was["type"] == "file":
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        _dress(os.open(part, flags, 0o600), was, pack.read(was["at"]))
    else:
        _make(part, was)
        os.chown(part, was["uid"], was["gid"], follow_symlinks=False)
        os.utime(part, ns=(was["mtime"], was["mtime"]), follow_symlinks=False)
    os.rename(part, path)


def _make(part: str, was: Entry) -> None:
    kinds = {"char": statmod.S_IFCHR, "block": statmod.S_IFBLK, "fifo": statmod.S_IFIFO}
    if was["type"] == "link":
        os.symlink(was["target"], part)
    elif was["type"] in kinds:
        mask = os.umask(0)
        try:
            os.mknod(part, kinds[was["type"]] | was["mode"], was.get("rdev", 0))
        finally:
            os.umask(mask)
    else:
        raise OSError(errno.ENOTSUP, f"a {was['type']} cannot be made again")


def _dress(fd: int, was: Entry, data: bytes = b"") -> None:
    """Content, owner, mode, labels and times of what was opened; it is on disk and closed afterwards."""
    try:
        _write(fd, data)
        os.fchown(fd, was["uid"], was["gid"])
        os.fchmod(fd, was["mode"])
        wanted = was.get("xattrs", {})
        for name in os.listxattr(fd):
            if name not in wanted and not name.startswith("security."):
                os.removexattr(fd, name)
        for name, value in wanted.items():
            os.setxattr(fd, name, base64.b64decode(value))
        os.utime(fd, ns=(was["mtime"], was["mtime"]))
        os.fsync(fd)
    finally:
        os.close(fd)
