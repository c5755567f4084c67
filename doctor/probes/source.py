"""The one seam between probes and a host.

A probe asks a Source; a live host, a recording and a simulated host answer alike. Every answer is a Fact:
a file that cannot be read, a command that is missing, hangs, prints megabytes or dies is Unknown or Absent
with the reason, never an exception and never a default.
"""

import fnmatch
import json
import posixpath
import threading
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from doctor.probes.fact import Fact, absent, known, not_applicable, unknown

MAX_FILE = 4 * 1024 * 1024
"""Bytes of one file that a probe reads at most; a longer file is Unknown."""
MAX_OUTPUT = 4 * 1024 * 1024
"""Bytes of standard output or error of one command; more is Unknown (too-large)."""
COMMAND_TIMEOUT = 5.0
"""Seconds a command may take unless the call says otherwise."""
NVML_TIMEOUT = 15.0
"""Seconds for the whole NVML child."""
CUDA_TIMEOUT = 20.0
"""Seconds for one cuInit child; without persistence mode a host of eight GPUs takes several."""


_SAID = {"denied": "permission denied", "too-large": "too large to read"}
"""Error codes of a record, as a person reads them."""


class Completed:
    """What a finished command left: exit status and text of both streams."""

    __slots__ = ("rc", "stderr", "stdout")

    def __init__(self, rc: int, stdout: str, stderr: str) -> None:
        self.rc = rc
        self.stdout = stdout
        self.stderr = stderr


class Source:
    """What every source can be asked. Subclasses answer the underscored primitives.

    Primitives return plain records as they are written to a recording:
      _read(path)    {"data": bytes} or {"error": absent|denied|too-large|<text>}
      _path(path)    the paths.json record: {"type", "mode", "uid", "gid", "rdev", "size", "mtime", "target"?, "entries"?, "error"?}
      _run(...)      the cmds/*.json record with "stdout" and "stderr" as bytes
      _http(...)     {"status", "body": bytes} or {"error": ...}
      _nvml()        the nvml.json record        _cuda(name)  one cuda.json record        _process()  process.json
    """

    may_wait = True
    """Whether an answer can take its time, so that several are asked for at once."""

    def __init__(self) -> None:
        self._memo: Dict[Tuple[Any, ...], Any] = {}
        self._locks: Dict[Tuple[Any, ...], threading.Lock] = {}
        self._guard = threading.Lock()

    def _once(self, key: Tuple[Any, ...], ask: Callable[[], Any]) -> Any:
        with self._guard:
            if key in self._memo:
                return self._memo[key]
            lock = self._locks.setdefault(key, threading.Lock())
        with lock:
            if key not in self._memo:
                self._memo[key] = ask()
            return self._memo[key]

    # primitives -------------------------------------------------------------------------------------------------

    def _read(self, path: str) -> Dict[str, Any]:
        raise NotImplementedError

    def _path(self, path: str, entries: bool, statvfs: bool) -> Dict[str, Any]:
        raise NotImplementedError

    def _run(self, argv: Sequence[str], env: Dict[str, str], timeout: float) -> Dict[str, Any]:
        raise NotImplementedError

    def _http(self, socket_path: str, target: str) -> Dict[str, Any]:
        raise NotImplementedError

    def _nvml(self) -> Dict[str, Any]:
        raise NotImplementedError

    def _cuda(self, name: str) -> Dict[str, Any]:
        raise NotImplementedError

    def _process(self) -> Dict[str, Any]:
        raise NotImplementedError

    # files --------------------------------------------------------------------------------------------------------

    def read_bytes(self, path: str) -> Fact:
        """The bytes of a regular file."""
        record = self._once(("read", path), lambda: self._read(path))
        error = record.get("error")
        if error == "absent":
            return absent(path)
        if error:
            return unknown(_SAID.get(error, str(error)), path)
        return known(record["data"], path)

    def read(self, path: str) -> Fact:
        """The text of a file; bytes that are not UTF-8 are Unknown."""

        def decode(data: bytes) -> Any:
            try:
                return data.decode("utf-8")
            except UnicodeDecodeError:
                return unknown("not UTF-8", path)

        return self.read_bytes(path).map(decode)

    def stat(self, path: str) -> Fact:
        """The path itself, links not followed: {"type", "mode", "uid", "gid", "rdev", "size", "mtime", "target"?}."""
        return self._path_fact(path, False, False)

    def listdir(self, path: str) -> Fact:
        """Sorted names in a folder."""
        fact = self._path_fact(path, True, False)
        if fact.ok and fact.value.get("type") == "link" and fact.value.get("entries") is None:
            real = self.realpath(path)
            return (
                self.listdir(real.value) if real.ok else Fact(real.state, None, real.reason, path)
            )
        return fact.map(
            lambda record: (
                record["entries"]
                if record.get("entries") is not None
                else unknown("not a folder", path)
            )
        )

    def statvfs(self, path: str) -> Fact:
        """The file system that holds the path: {"total", "free", "avail", "files"} in bytes and inodes."""
        fact = self._path_fact(path, False, True)
        return fact.map(
            lambda record: (
                record["statvfs"] if record.get("statvfs") else unknown("statvfs failed", path)
            )
        )

    def _path_fact(self, path: str, entries: bool, statvfs: bool) -> Fact:
        record = self._once(
            ("path", path, entries, statvfs), lambda: self._path(path, entries, statvfs)
        )
        kind = record.get("type")
        if kind == "absent":
            return absent(path)
        if kind == "denied":
            return unknown("permission denied", path)
        if kind == "error" or kind is None:
            return unknown(str(record.get("error") or "could not look"), path)
        if record.get("error"):
            return unknown(_SAID.get(record["error"], str(record["error"])), path)
        return known(record, path)

    def realpath(self, path: str) -> Fact:
        """The path with every link followed, asked link by link so that a recording can answer."""
        seen = 0
        done = "/"
        rest = [part for part in path.split("/") if part]
        while rest:
            part = rest.pop(0)
            if part == "..":
                done = posixpath.dirname(done)
                continue
            here = posixpath.join(done, part)
            fact = self.stat(here)
            if not fact.ok:
                return Fact(fact.state, None, fact.reason, here)
            if fact.value.get("type") != "link":
                done = here
                continue
            seen += 1
            if seen > 40:
                return unknown("too many links", path)
            target = fact.value.get("target") or ""
            if target.startswith("/"):
                done = "/"
            rest = [item for item in target.split("/") if item and item != "."] + rest
        return known(done, path)

    def exists(self, path: str) -> Fact:
        """Known(True), Absent or Unknown for the path, links followed."""
        return self.realpath(path).map(lambda _: True)

    def first(self, paths: Sequence[str]) -> Fact:
        """The first path that is there; Unknown when one before it, or all, could not be looked at; else Absent."""
        unseen: Optional[Fact] = None
        for path in paths:
            fact = self.stat(path)
            if fact.ok:
                return known(path, path)
            if fact.state == "unknown" and unseen is None:
                unseen = unknown(fact.reason, path)
        return unseen or absent(", ".join(paths))

    def glob(self, pattern: str) -> Fact:
        """Sorted paths that match, `*` and `?` within one folder level. Unknown if a folder could not be listed."""
        found = [""]
        parts = pattern.strip("/").split("/")
        for number, part in enumerate(parts):
            nxt: List[str] = []
            for base in found:
                if not any(mark in part for mark in "*?["):
                    candidate = base + "/" + part
                    if number == len(parts) - 1:
                        fact = self.stat(candidate)
                        if fact.ok:
                            nxt.append(candidate)
                        elif fact.state != "absent":
                            return Fact(fact.state, None, fact.reason, candidate)
                    else:
                        nxt.append(candidate)
                    continue
                names = self.listdir(base or "/")
                if names.ok:
                    nxt += [
                        base + "/" + name for name in names.value if fnmatch.fnmatchcase(name, part)
                    ]
                elif names.state != "absent" and names.reason != "not a folder":
                    return Fact(names.state, None, names.reason, base or "/")
            found = nxt
        return known(sorted(found), pattern)

    # commands and sockets -------------------------------------------------------------------------------------------

    def run(
        self,
        argv: Sequence[str],
        timeout: float = COMMAND_TIMEOUT,
        ok: Optional[Sequence[int]] = (0,),
        env: Optional[Dict[str, str]] = None,
    ) -> Fact:
        """Known(Completed), Absent (no such command) or Unknown (timeout, signal, denied, status not in `ok`, not UTF-8).

        `ok=None` accepts every exit status. The command runs without a shell, with LC_ALL=C and no standard input.
        """
        extra = dict(env or {})
        key = ("run", tuple(argv), tuple(sorted(extra.items())))
        record = self._once(key, lambda: self._run(list(argv), extra, timeout))
        via = " ".join(argv)
        error = record.get("error")
        if error == "not-found":
            return absent(via)
        if error:
            reasons = {
                "timeout": "no answer in time",
                "denied": "permission denied",
                "too-large": "output too large",
            }
            return unknown(reasons.get(error, str(error)), via)
        if record.get("signal"):
            return unknown("killed by signal %s" % record["signal"], via)
        try:
            out, err = record["stdout"].decode("utf-8"), record["stderr"].decode("utf-8", "replace")
        except UnicodeDecodeError:
            return unknown("output is not UTF-8", via)
        rc = record.get("rc")
        if rc is None:
            return unknown("no exit status", via)
        if ok is not None and rc not in ok:
            said = (err.strip() or out.strip()).splitlines()
            return unknown("exit %d%s" % (rc, ": " + said[0][:200] if said else ""), via)
        return known(Completed(rc, out, err), via)

    def http(self, socket_path: str, target: str) -> Fact:
        """JSON that a local service answers to GET over its unix socket. Absent: no socket."""
        via = "unix://%s GET %s" % (socket_path, target)
        record = self._once(("http", socket_path, target), lambda: self._http(socket_path, target))
        error = record.get("error")
        if error == "absent":
            return absent(via)
        if error:
            return unknown(_SAID.get(error, str(error)), via)
        if record["status"] != 200:
            return unknown("status %s" % record["status"], via)

        def parse(body: bytes) -> Any:
            return json.loads(body.decode("utf-8"))

        return known(record["body"], via).map(parse)

    # NVML and CUDA ----------------------------------------------------------------------------------------------------

    def nvml_init(self) -> Fact:
        """Known("ok") or Known("NVML_ERROR_..."); Absent when there is no NVML library; Unknown when the child did not end well."""
        record = self._once(("nvml",), self._nvml)
        init = record.get("init")
        via = "nvmlInit"
        if init == "NVML_ERROR_LIBRARY_NOT_FOUND":
            return absent(via)
        if init is None:
            return unknown(str(record.get("error") or "NVML did not answer"), via)
        return known(init, via)

    def nvml_devices(self) -> Fact:
        """Known({"0": uuid, ...}) in NVML's order."""
        init = self.nvml_init()
        if not init.ok or init.value != "ok":
            return (
                Fact(init.state, None, init.reason, init.via)
                if not init.ok
                else unknown(init.value, init.via)
            )
        devices = self._once(("nvml",), self._nvml).get("devices")
        if devices is None:
            return unknown("NVML did not list its devices", "nvmlDeviceGetCount")
        return known(devices, "nvmlDeviceGetCount")

    def nvml(self, function: str, *args: Any) -> Fact:
        """One NVML answer; a device handle is its index. NVML_ERROR_NOT_SUPPORTED is NotApplicable."""
        via = function
        init = self.nvml_init()
        if not init.ok:
            return Fact(init.state, None, init.reason, via)
        if init.value != "ok":
            return unknown(init.value, via)
        calls = self._once(("nvml",), self._nvml).get("calls", {})
        answer = calls.get(function, {}).get(json.dumps(list(args)))
        if answer is None:
            return unknown(str(self._once(("nvml",), self._nvml).get("error") or "not asked"), via)
        if "error" in answer:
            if answer["error"] in ("NVML_ERROR_NOT_SUPPORTED", "NVML_ERROR_FUNCTION_NOT_FOUND"):
                return not_applicable("%s: %s" % (function, answer["error"]))
            if answer["error"] == "NVML_ERROR_NOT_FOUND":
                return absent(via)
            return unknown(answer["error"], via)
        return known(answer["value"], via)

    def cuda(self, name: str = "scope") -> Fact:
        """What a disposable child saw: {"env", "lib", "cuInit", "count", "driver_version", "error"}.

        `scope` has the caller's environment, `clean` has no LD_LIBRARY_PATH, LD_PRELOAD or CUDA_* variable.
        """
        record = self._once(("cuda", name), lambda: self._cuda(name))
        via = "cuInit (%s environment)" % name
        error = record.get("error")
        if error == "not-found":
            return absent(via)
        if error and record.get("cuInit") is None:
            return unknown(str(error), via)
        return known(record, via)

    # the process -----------------------------------------------------------------------------------------------------

    def process(self) -> Fact:
        """{"env", "euid", "rlimits", "sudo", "scope"} of the scope that is judged."""
        return known(self._once(("process",), self._process), "process")

    def env(self, name: str) -> Fact:
        """An environment variable of the scope; Unknown under sudo, which resets it."""
        process = self._once(("process",), self._process)
        via = "$" + name
        if process.get("error"):
            return unknown(str(process["error"]), via)
        if name in process.get("env", {}):
            return known(process["env"][name], via)
        if process.get("sudo") and process.get("scope", "shell") == "shell":
            return unknown("sudo resets the caller's environment (host.sudo-environment)", via)
        return absent(via)


class ThisHost(Source):
    """The host this process runs on. `scope` is shell, service:NAME or pid:N: whose environment and limits are judged."""

    def __init__(self, scope: str = "shell") -> None:
        super().__init__()
        self.scope = scope
