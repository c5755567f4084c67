"""Writes a recording: files, paths, commands, NVML, CUDA and HTTP answers. Used by the simulator and by tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any


class RecordingWriter:
    """Collects answers and writes the fixed format. Folders and entries follow from the files that are added."""

    def __init__(
        self,
        *,
        missing: str = "absent",
        recorded_at: str = "2026-11-30T12:00:00+00:00",
        host: str = "simulated",
        note: str = "",
    ) -> None:
        self.manifest = {
            "format": 1,
            "recorded_at": recorded_at,
            "host": host,
            "note": note,
            "redacted": True,
            "missing": missing,
        }
        self.files: dict[str, bytes] = {}
        self.paths: dict[str, dict[str, Any]] = {}
        self.commands: dict[
            tuple[tuple[str, ...], tuple[tuple[str, str], ...]], dict[str, Any]
        ] = {}
        self.nvml: dict[str, Any] = {
            "init": "NVML_ERROR_LIBRARY_NOT_FOUND",
            "devices": {},
            "calls": {},
        }
        self.cuda: list[dict[str, Any]] = []
        self.http: dict[str, dict[str, Any]] = {}
        self.process: dict[str, Any] = {
            "env": {},
            "euid": 0,
            "rlimits": {},
            "sudo": False,
            "scope": "shell",
        }
        self._now = 1796000000

    def file(
        self,
        path: str,
        content: str | bytes = "",
        *,
        mode: int = 0o644,
        uid: int = 0,
        gid: int = 0,
        mtime: int | None = None,
        size: int | None = None,
        keep: bool = True,
    ) -> None:
        """A regular file; keep=False records only that it is there."""
        data = content.encode() if isinstance(content, str) else content
        if keep:
            self.files[path] = data
        self._path(
            path,
            {
                "type": "file",
                "mode": mode,
                "uid": uid,
                "gid": gid,
                "size": len(data) if size is None else size,
                "mtime": self._now if mtime is None else mtime,
            },
        )

    def folder(
        self, path: str, *, mode: int = 0o755, uid: int = 0, gid: int = 0, mtime: int | None = None
    ) -> None:
        """A folder, empty so far."""
        record = self._path(
            path,
            {
                "type": "dir",
                "mode": mode,
                "uid": uid,
                "gid": gid,
                "size": 4096,
                "mtime": self._now if mtime is None else mtime,
            },
        )
        record.setdefault("entries", [])

    def link(self, path: str, target: str) -> None:
        """A symbolic link."""
        self._path(
            path,
            {
                "type": "link",
                "mode": 0o777,
                "uid": 0,
                "gid": 0,
                "size": len(target),
                "mtime": self._now,
                "target": target,
            },
        )

    def node(
        self,
        path: str,
        rdev: str,
        *,
        kind: str = "char",
        mode: int = 0o666,
        uid: int = 0,
        gid: int = 0,
    ) -> None:
        """A device node, socket or fifo."""
        record = {"type": kind, "mode": mode, "uid": uid, "gid": gid, "size": 0, "mtime": self._now}
        if kind in ("char", "block"):
            record["rdev"] = rdev
        self._path(path, record)

    def denied(self, path: str) -> None:
        """A path that may not be read."""
        self._path(path, {"type": "denied", "error": "denied"})

    def absent(self, path: str) -> None:
        """A path that is known not to be there, for recordings whose rest is unknown."""
        self.paths[path] = {"type": "absent"}

    def statvfs(self, path: str, *, total: int, avail: int, files: int = 1_000_000) -> None:
        """Size of the file system at an existing path."""
        self.folder(path) if path not in self.paths else None
        self.paths[path]["statvfs"] = {
            "total": total,
            "free": avail,
            "avail": avail,
            "files": files,
        }

    def command(
        self,
        argv: list[str],
        stdout: str = "",
        *,
        rc: int = 0,
        stderr: str = "",
        env: dict[str, str] | None = None,
        error: str | None = None,
        signal: int | None = None,
    ) -> None:
        """One command's answer; the last for the same argv and env wins."""
        record = {
            "argv": argv,
            "env": env or {},
            "rc": None if error or signal else rc,
            "signal": signal,
            "error": error,
            "stdout": stdout,
            "stderr": stderr,
            "ms": 1,
        }
        self.commands[(tuple(argv), tuple(sorted((env or {}).items())))] = record

    def get(self, socket_path: str, target: str, body: Any, *, status: int = 200) -> None:
        """A service's JSON answer on its unix socket."""
        self.http[f"unix://{socket_path} GET {target}"] = {
            "status": status,
            "body": json.dumps(body),
        }

    def nvml_call(
        self, function: str, *args: Any, value: Any = None, error: str | None = None
    ) -> None:
        """One NVML answer."""
        self.nvml["calls"].setdefault(function, {})[json.dumps(list(args))] = (
            {"error": error} if error else {"value": value}
        )

    def cuda_look(
        self,
        *,
        name: str = "scope",
        code: int | None = 0,
        count: int | None = None,
        driver_version: int | None = None,
        lib: str | None = "/usr/lib/x86_64-linux-gnu/libcuda.so.1",
        error: str | None = None,
        env: dict[str, str] | None = None,
    ) -> None:
        """What a disposable child saw; the last look of a name wins."""
        self.cuda = [look for look in self.cuda if look["name"] != name]
        self.cuda.append(
            {
                "name": name,
                "env": env or {},
                "lib": lib,
                "cuInit": code,
                "count": count,
                "driver_version": driver_version,
                "error": error,
            }
        )

    def write(self, folder: Path) -> Path:
        """Write the recording; the folder must not hold one."""
        folder.mkdir(parents=True, exist_ok=True)
        self._dump(folder / "manifest.json", self.manifest)
        self._dump(folder / "paths.json", dict(sorted(self.paths.items())))
        self._dump(folder / "process.json", self.process)
        self._dump(folder / "nvml.json", self.nvml)
        self._dump(folder / "cuda.json", self.cuda)
        self._dump(folder / "http.json", dict(sorted(self.http.items())))
        for path, data in self.files.items():
            where = folder / "files" / path.lstrip("/")
            where.parent.mkdir(parents=True, exist_ok=True)
            where.write_bytes(data)
        (folder / "cmds").mkdir(exist_ok=True)
        for number, record in enumerate(self.commands.values()):
            name = "".join(
                letter if letter.isalnum() else "-"
                for letter in record["argv"][0].rpartition("/")[2]
            )
            self._dump(folder / "cmds" / f"{number:03d}-{name}.json", record)
        return folder

    def _path(self, path: str, record: dict[str, Any]) -> dict[str, Any]:
        kept = self.paths.setdefault(path, {})
        entries = kept.get("entries")
        kept.clear()
        kept.update(record)
        if record["type"] == "dir" and entries is not None:
            kept["entries"] = entries
        self._list_in_parent(path)
        return kept

    def _list_in_parent(self, path: str) -> None:
        parent, _, name = path.rpartition("/")
        parent = parent or "/"
        if not name:
            return
        known = self.paths.get(parent)
        if known is None:
            self.folder(parent)
            known = self.paths[parent]
        if known["type"] == "dir" and name not in known.setdefault("entries", []):
            known["entries"] = sorted([*known["entries"], name])

    @staticmethod
    def _dump(path: Path, value: Any) -> None:
        path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
