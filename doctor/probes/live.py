"""The host this process runs on. Reads and asks; writes nothing, loads nothing, starts no container."""

import errno
import json
import os
import posixpath
import signal
import socket
import stat as statmod
import subprocess
import sys
import time
from typing import Any, Dict, List, Optional, Sequence

from doctor.probes import source as limits
from doctor.probes.source import Source

SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin:/usr/lib/wsl/lib:/usr/local/nvidia/bin:/snap/bin"
"""Where commands are looked for: the system's own folders, whatever PATH the caller has (sudo drops /usr/lib/wsl/lib)."""

DRIVER_ENVIRONMENT = ("LD_LIBRARY_PATH", "LD_PRELOAD", "LD_AUDIT")
"""Variables of the loader that a clean CUDA child does not get."""

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


class LiveSource(Source):
    """Asks this host. `scope` is shell, service:NAME or pid:N: whose environment and limits are judged."""

    def __init__(self, scope: str = "shell") -> None:
        super().__init__()
        self.scope = scope

    def _read(self, path: str) -> Dict[str, Any]:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            return {"error": _os_error(error)}
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
            return {"error": _os_error(error)}
        finally:
            os.close(fd)

    def _path(self, path: str, entries: bool, statvfs: bool) -> Dict[str, Any]:
        try:
            found = os.lstat(path)
        except OSError as error:
            kind = _os_error(error)
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
            record["error"] = _os_error(error)
        return record

    def _run(self, argv: Sequence[str], env: Dict[str, str], timeout: float) -> Dict[str, Any]:
        program = argv[0] if argv[0].startswith("/") else _which(argv[0])
        if program is None:
            return {"error": "not-found"}
        full = dict(os.environ)
        full.update({"LC_ALL": "C", "LANG": "C", "PATH": SYSTEM_PATH})
        full.update(env)
        return run_child([program] + list(argv[1:]), full, timeout)

    def _http(self, socket_path: str, target: str) -> Dict[str, Any]:
        import http.client

        connection = http.client.HTTPConnection("localhost", timeout=3.0)
        channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        channel.settimeout(3.0)
        try:
            channel.connect(socket_path)
            connection.sock = channel
            connection.request("GET", target)
            answer = connection.getresponse()
            body = answer.read(limits.MAX_OUTPUT + 1)
            if len(body) > limits.MAX_OUTPUT:
                return {"error": "too-large"}
            return {"status": answer.status, "body": body}
        except socket.timeout:
            return {"error": "no answer in time"}
        except OSError as error:
            if error.errno == errno.ECONNREFUSED:
                return {"error": "the socket is there but nothing listens"}
            return {"error": _os_error(error)}
        except http.client.HTTPException as error:
            return {"error": "not HTTP: %s" % type(error).__name__}
        finally:
            channel.close()

    def _nvml(self) -> Dict[str, Any]:
        record = self._child("doctor.probes.nvml_child", [], dict(os.environ), limits.NVML_TIMEOUT)
        document: Dict[str, Any] = {"init": None, "devices": None, "calls": {}}
        for line in record.get("stdout", b"").decode("utf-8", "replace").splitlines():
            try:
                item = json.loads(line)
            except ValueError:
                continue
            if "fn" in item:
                answer = (
                    {"error": item["error"]} if "error" in item else {"value": item.get("value")}
                )
                document["calls"].setdefault(item["fn"], {})[json.dumps(item["args"])] = answer
            else:
                document.update(item)
        problem = _child_problem(record)
        if problem:
            document["error"] = problem
        return document

    def _cuda(self, name: str) -> Dict[str, Any]:
        env = self._process().get("env", {}) if self.scope != "shell" else dict(os.environ)
        if name == "clean":
            env = {
                key: value
                for key, value in env.items()
                if key not in DRIVER_ENVIRONMENT and not key.startswith("CUDA_")
            }
        record = self._child("doctor.probes.cuda_child", [], env, limits.CUDA_TIMEOUT)
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
        for line in record.get("stdout", b"").decode("utf-8", "replace").splitlines():
            try:
                answer.update(json.loads(line))
            except ValueError:
                continue
        problem = _child_problem(record)
        if problem and not answer["error"]:
            answer["error"] = problem
        return answer

    def _child(
        self, module: str, args: List[str], env: Dict[str, str], timeout: float
    ) -> Dict[str, Any]:
        """Our own module in a bare interpreter: no site packages, nothing of the caller's PYTHON* variables."""
        places = [_root_of("doctor")]
        if module.endswith("nvml_child"):
            places.append(_root_of("pynvml"))
        argv = [
            sys.executable,
            "-I",
            "-S",
            "-B",
            "-c",
            _BOOT,
            module,
            "|".join(filter(None, places)),
        ] + args
        return run_child(argv, env, timeout)

    def _process(self) -> Dict[str, Any]:
        if self.scope == "shell":
            return _own_process()
        return _other_process(self.scope)


def run_child(argv: Sequence[str], env: Dict[str, str], timeout: float) -> Dict[str, Any]:
    """Run to the end or to the deadline, then kill the whole process group; never waits for what cannot be killed."""
    import selectors

    started = time.monotonic()
    try:
        child = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            cwd="/",
            start_new_session=True,
            close_fds=True,
        )
    except OSError as error:
        kind = _os_error(error)
        return {"error": "not-found" if kind == "absent" else kind}
    assert child.stdout is not None and child.stderr is not None
    streams = {child.stdout.fileno(): bytearray(), child.stderr.fileno(): bytearray()}
    order = list(streams)
    error_name: Optional[str] = None
    with selectors.DefaultSelector() as selector:
        for fd in order:
            selector.register(fd, selectors.EVENT_READ)
        while selector.get_map():
            left = started + timeout - time.monotonic()
            if left <= 0:
                error_name = "timeout"
                break
            for key, _ in selector.select(left):
                block = os.read(key.fd, 1 << 16)
                if not block:
                    selector.unregister(key.fd)
                    continue
                streams[key.fd] += block
                if len(streams[key.fd]) > limits.MAX_OUTPUT:
                    error_name = "too-large"
            if error_name:
                break
    rc = _reap(child, error_name, started + timeout)
    if error_name is None and rc is None:
        error_name = "timeout"
    child.stdout.close()
    child.stderr.close()
    record: Dict[str, Any] = {
        "rc": rc if rc is not None and rc >= 0 else None,
        "signal": -rc if rc is not None and rc < 0 and error_name is None else None,
        "error": error_name,
        "stdout": bytes(streams[order[0]]),
        "stderr": bytes(streams[order[1]]),
        "ms": int((time.monotonic() - started) * 1000),
    }
    if error_name == "too-large":
        record["stdout"], record["stderr"] = b"", b""
    return record


def _reap(
    child: "subprocess.Popen[bytes]", error_name: Optional[str], deadline: float
) -> Optional[int]:
    if error_name is None:
        try:
            return child.wait(max(0.05, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            pass
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except OSError:
        pass
    try:
        child.wait(0.5)
    except subprocess.TimeoutExpired:
        pass  # stuck in the kernel: it costs this probe, not the run
    return None


def _child_problem(record: Dict[str, Any]) -> Optional[str]:
    if record.get("error") == "timeout":
        return "no answer in time"
    if record.get("error"):
        return str(record["error"])
    if record.get("signal"):
        return "killed by signal %s" % record["signal"]
    if record.get("rc"):
        said = record["stderr"].decode("utf-8", "replace").strip().splitlines()
        return "exit %s%s" % (record["rc"], ": " + said[-1][:200] if said else "")
    return None


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


def _os_error(error: OSError) -> str:
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return "absent"
    if error.errno in (errno.EACCES, errno.EPERM):
        return "denied"
    return error.strerror or str(error)


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
        shown = LiveSource()._run(["systemctl", "show", "-p", "MainPID", "--value", name], {}, 3.0)
        pid = shown.get("stdout", b"").decode("ascii", "replace").strip()
        if not pid.isdigit() or pid == "0":
            return dict(base, error="%s has no running main process" % scope)
    try:
        with open("/proc/%s/environ" % pid, "rb") as file:
            pairs = [item.partition(b"=") for item in file.read().split(b"\0") if b"=" in item]
        base["env"] = {
            key.decode("utf-8", "replace"): value.decode("utf-8", "replace")
            for key, _, value in pairs
        }
        with open("/proc/%s/limits" % pid) as text:
            base["rlimits"] = parse_limits(text.read())
    except OSError as error:
        return dict(base, error="cannot read %s: %s" % (scope, _os_error(error)))
    return base


def parse_limits(text: str) -> Dict[str, List[int]]:
    """/proc/PID/limits -> {"memlock": [soft, hard], ...} in bytes or counts, -1 for unlimited."""
    rows = {
        "Max locked memory": "memlock",
        "Max stack size": "stack",
        "Max open files": "nofile",
        "Max processes": "nproc",
    }
    found: Dict[str, List[int]] = {}
    for line in text.splitlines():
        for label, name in rows.items():
            if line.startswith(label):
                parts = line[len(label) :].split()
                found[name] = [-1 if part == "unlimited" else int(part) for part in parts[:2]]
    return found
