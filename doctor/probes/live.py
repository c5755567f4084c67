"""The host this process runs on. Reads and asks; writes nothing, loads nothing, starts no container."""

import json
import os
import posixpath
import stat as statmod
import sys
from typing import Any, Dict, Iterator, List, Optional, Sequence

from doctor.probes import source as limits
from doctor.probes import unix_http
from doctor.probes.child import Started, child_problem, finish_child, os_error, run_child
from doctor.probes.reading.rlimits import parse_limits
from doctor.probes.source import ThisHost

SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin:/usr/lib/wsl/lib:/usr/local/nvidia/bin:/snap/bin"
"""Where commands are looked for: the system's own folders, whatever PATH the caller has (sudo drops /usr/lib/wsl/lib)."""

DRIVER_ENVIRONMENT = ("LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT")
"""Variables of the loader that a clean CUDA child does not get."""

_CALLERS_ONLY = ("LD_", "PYTHON", "BASH_", "PERL", "MALLOC_")
"""Starts of variables that change how any program runs: the system's own commands do not get the caller's."""
_TYPES = (
    (statmod.S_ISREG, "file"),
    (statmod.S_ISDIR, "dir"),
    (statmod.S_ISLNK, "link"),
    (statmod.S_ISCHR, "char"),
    (statmod.S_ISBLK, "block"),
    (statmod.S_ISSOCK, "socket"),
    (statmod.S_ISFIFO, "fifo"),
)

_BOOT = (
    "import sys; sys.path[:0] = sys.argv[2].split('|'); "
    "import importlib; importlib.import_module(sys.argv[1]).main(sys.argv[3:])"
)


CUDA_CHILD = "doctor.probes.children.cuda_child"
NVML_CHILD = "doctor.probes.children.nvml_child"


class LiveSource(ThisHost):
    """Asks this host. `early` are looks with this process's own environment that are at work already, by their modules."""

    def __init__(self, scope: str = "shell", early: Optional[Dict[str, Started]] = None) -> None:
        super().__init__(scope)
        self._early = dict(early or {})

    def _read(self, path: str) -> Dict[str, Any]:
        try:
            # looked at before it is opened: opening a device can do something
            if not statmod.S_ISREG(os.stat(path).st_mode):
                return {"error": "not a regular file"}
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except (OSError, ValueError) as error:
            return {"error": os_error(error)}
        try:
            if not statmod.S_ISREG(os.fstat(fd).st_mode):
                return {"error": "not a regular file"}
            data = bytearray()
            while True:
                block = os.read(fd, 1 << 16)
                if not block:
                    return {"data": bytes(data)}
                data += block
                if len(data) > limits.MAX_FILE:
                    return {"error": "too-large"}
        except OSError as error:
            return {"error": os_error(error)}
        finally:
            os.close(fd)

    def _path(self, path: str, entries: bool, statvfs: bool) -> Dict[str, Any]:
        try:
            found = os.lstat(path)
        except (OSError, ValueError) as error:
            kind = os_error(error)
            return {"type": kind if kind in ("absent", "denied") else "error", "error": kind}
        kind = next((name for test, name in _TYPES if test(found.st_mode)), "error")
        record: Dict[str, Any] = {
            "type": kind,
            "mode": statmod.S_IMODE(found.st_mode),
            "uid": found.st_uid,
            "gid": found.st_gid,
            "size": found.st_size,
            "mtime": int(found.st_mtime),
        }
        try:
            if kind in ("char", "block"):
                record["rdev"] = "%d:%d" % (os.major(found.st_rdev), os.minor(found.st_rdev))
            if kind == "link":
                record["target"] = os.readlink(path)
            if entries and (kind == "dir" or (kind == "link" and os.path.isdir(path))):
                record["entries"] = sorted(os.listdir(path))
            if statvfs:
                info = os.statvfs(path)
                record["statvfs"] = {
                    "total": info.f_blocks * info.f_frsize,
                    "free": info.f_bfree * info.f_frsize,
                    "avail": info.f_bavail * info.f_frsize,
                    "files": info.f_files,
                }
        except OSError as error:
            record["error"] = os_error(error)
        return record

    def _run(self, argv: Sequence[str], env: Dict[str, str], timeout: float) -> Dict[str, Any]:
        program = argv[0] if argv[0].startswith("/") else _which(argv[0])
        if program is None:
            return {"error": "not-found"}
        full = {
            key: value for key, value in os.environ.items() if not key.startswith(_CALLERS_ONLY)
        }
        full.update({"LC_ALL": "C", "LANG": "C", "PATH": SYSTEM_PATH})
        full.update(env)
        return run_child([program] + list(argv[1:]), full, timeout)

    def _http(self, socket_path: str, target: str) -> Dict[str, Any]:
        return unix_http.get(socket_path, target)

    def _nvml(self) -> Dict[str, Any]:
        early = self._early.pop(NVML_CHILD, None)
        record = (
            finish_child(early, limits.NVML_TIMEOUT)
            if early
            else self._child(NVML_CHILD, dict(os.environ), limits.NVML_TIMEOUT)
        )
        document: Dict[str, Any] = {"init": None, "devices": None, "calls": {}}
        for item in _said(record):
            if "fn" in item:
                answer = (
                    {"error": item["error"]} if "error" in item else {"value": item.get("value")}
                )
                document["calls"].setdefault(item["fn"], {})[json.dumps(item["args"])] = answer
            else:
                document.update(item)
        problem = child_problem(record)
        if problem:
            document["error"] = problem
        return document

    def _cuda(self, name: str) -> Dict[str, Any]:
        env = dict(os.environ)
        uid: Optional[int] = None
        if self.scope != "shell":
            judged = self.process().value
            if judged.get("error"):
                return {"name": name, "env": {}, "cuInit": None, "error": judged["error"]}
            env, uid = dict(judged["env"]), judged.get("uid")
        if name == "clean":
            env = {
                key: value
                for key, value in env.items()
                if key not in DRIVER_ENVIRONMENT and not key.startswith("CUDA_")
            }
        record = self._look_at_cuda(name, env, uid)
        shown = {
            key: env[key]
            for key in sorted(env)
            if key in DRIVER_ENVIRONMENT or key.startswith("CUDA_")
        }
        answer: Dict[str, Any] = {
            "name": name,
            "env": shown,
            "lib": None,
            "cuInit": None,
            "count": None,
        }
        answer.update({"driver_version": None, "error": None})
        for item in _said(record):
            answer.update(item)
        problem = child_problem(record)
        if problem and not answer["error"]:
            answer["error"] = problem
        return answer

    def _look_at_cuda(self, name: str, env: Dict[str, str], uid: Optional[int]) -> Dict[str, Any]:
        """Another user's environment can name libraries of that user: root looks as that user."""
        if name == "scope" and self.scope == "shell" and CUDA_CHILD in self._early:
            return finish_child(self._early.pop(CUDA_CHILD), limits.CUDA_TIMEOUT)
        user = uid if uid is not None and uid != os.geteuid() and os.geteuid() == 0 else None
        return self._child(CUDA_CHILD, env, limits.CUDA_TIMEOUT, user)

    def _child(
        self, module: str, env: Dict[str, str], timeout: float, user: Optional[int] = None
    ) -> Dict[str, Any]:
        return run_child(_own_module(module), env, timeout, user)

    def _process(self) -> Dict[str, Any]:
        if self.scope == "shell":
            return _own_process()
        return _other_process(self.scope)


def _said(record: Dict[str, Any]) -> Iterator[Dict[str, Any]]:
    """The lines of a look, without the one that ends it; a line that was cut short is none."""
    for line in record.get("stdout", b"").decode("utf-8", "replace").splitlines():
        try:
            item = json.loads(line)
        except ValueError:
            continue
        if isinstance(item, dict) and "done" not in item:
            yield item


def _own_module(module: str) -> List[str]:
    """The command of one of our modules in a bare interpreter: no site packages, nothing of PYTHON* variables."""
    places = [_root_of("doctor")]
    if module.endswith("nvml_child"):
        places.append(_root_of("pynvml"))
    where = "|".join(filter(None, places))
    return [sys.executable, "-I", "-S", "-B", "-c", _BOOT, module, where]


def _root_of(module: str) -> str:
    """The sys.path entry (folder or zip) that holds a module; empty when there is none."""
    if module == "doctor":
        return posixpath.dirname(posixpath.dirname(posixpath.dirname(os.path.abspath(__file__))))
    import importlib.util

    spec = importlib.util.find_spec(module)
    return posixpath.dirname(os.path.abspath(spec.origin)) if spec and spec.origin else ""


def _which(name: str) -> Optional[str]:
    for folder in SYSTEM_PATH.split(":"):
        candidate = posixpath.join(folder, name)
        if os.access(candidate, os.X_OK) and not os.path.isdir(candidate):
            return candidate
    return None


def _own_process() -> Dict[str, Any]:
    import resource

    names = {"memlock": "MEMLOCK", "stack": "STACK", "nofile": "NOFILE", "nproc": "NPROC"}
    rlimits = {
        name: list(resource.getrlimit(getattr(resource, "RLIMIT_" + key)))
        for name, key in names.items()
    }
    sudo = os.geteuid() == 0 and "SUDO_UID" in os.environ
    env = dict(os.environ)
    if sudo:
        # what sudo resets is not the caller's: only what it passed on is known to be meant
        env = {
            key: value
            for key, value in env.items()
            if key.startswith("SUDO_") or key in ("TERM", "PATH", "HOME")
        }
    return {"env": env, "euid": os.geteuid(), "rlimits": rlimits, "sudo": sudo, "scope": "shell"}


def _other_process(scope: str) -> Dict[str, Any]:
    base: Dict[str, Any] = {
        "env": {},
        "euid": os.geteuid(),
        "rlimits": {},
        "sudo": False,
        "scope": scope,
    }
    kind, _, name = scope.partition(":")
    pid = name
    if kind == "service":
        argv = ["systemctl", "show", "-p", "MainPID", "--value", "--", name]
        shown = LiveSource().run(argv, timeout=3.0)
        if not shown.ok:
            return dict(
                base, error="cannot ask for %s: %s" % (scope, shown.reason or "no systemctl")
            )
        pid = shown.value.stdout.strip()
        if not pid.isdigit() or pid == "0":
            return dict(base, error="%s has no running main process" % scope)
    if not pid.isdigit():
        return dict(base, error="%s is no scope: say shell, service:NAME or pid:N" % scope)
    try:
        with open("/proc/%s/environ" % pid, "rb") as file:
            pairs = [item.partition(b"=") for item in file.read().split(b"\0") if b"=" in item]
        base["env"] = {
            key.decode("utf-8", "replace"): value.decode("utf-8", "replace")
            for key, _, value in pairs
        }
        base["uid"] = os.stat("/proc/%s" % pid).st_uid
        with open("/proc/%s/limits" % pid) as text:
            base["rlimits"] = parse_limits(text.read())
    except OSError as error:
        return dict(base, error="cannot read %s: %s" % (scope, os_error(error)))
    return base
