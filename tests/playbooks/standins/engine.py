"""A Docker engine of the tests' own: own socket, own data in the cache folder, gone when the last session that uses it ends."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

CACHE = Path(
    os.environ.get("DOCTOR_TESTS_CACHE")
    or Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "gpu-host-doctor-tests"
)
"""Images live here between runs; nothing in it is needed again."""
BRIDGE = "doctor-tests0"
"""Not docker0: that belongs to whichever engine of this machine was there first."""
START_S = 40


class Engine:
    """The docker client, bound to the tests' own engine."""

    def __init__(self, socket: Path) -> None:
        self.socket = socket
        self.environment = {
            **{k: v for k, v in os.environ.items() if not k.startswith("DOCKER_")},
            "DOCKER_HOST": f"unix://{socket}",
            "DOCKER_BUILDKIT": "0",
            "DOCKER_CONFIG": str(CACHE / "client"),
        }

    def run(
        self,
        *argv: str,
        check: bool = True,
        input: str | bytes | None = None,
        timeout: float = 600,
    ) -> subprocess.CompletedProcess[str]:
        """`docker ARGV`; raises with what it said."""
        data = input.encode() if isinstance(input, str) else input
        done = subprocess.run(
            ["docker", *argv],
            env=self.environment,
            input=data,
            stdin=subprocess.DEVNULL if data is None else None,
            capture_output=True,
            timeout=timeout,
        )
        text = subprocess.CompletedProcess(
            done.args,
            done.returncode,
            done.stdout.decode(errors="replace"),
            done.stderr.decode(errors="replace"),
        )
        if check and done.returncode:
            raise AssertionError(
                f"docker {' '.join(argv)[:300]} -> {done.returncode}\n{text.stdout[-3000:]}\n{text.stderr[-3000:]}"
            )
        return text

    def has_image(self, name: str) -> bool:
        """Whether the engine has an image."""
        return self.run("image", "inspect", name, check=False).returncode == 0

    def inspect(self, name: str) -> dict[str, object]:
        """What the engine says of a container."""
        found: dict[str, object] = json.loads(self.run("inspect", name).stdout)[0]
        return found


def missing() -> str | None:
    """Why no engine can be started here, or None."""
    if os.geteuid() != 0:
        return "needs root for a Docker engine of its own"
    for tool in ("dockerd", "docker", "debootstrap", "ip", "setsid"):
        if shutil.which(tool) is None:
            return f"needs {tool}: apt-get install docker.io debootstrap iproute2 util-linux"
    return None


@contextlib.contextmanager
def engine() -> Iterator[Engine]:
    """The engine of this machine's test sessions: started by the first, stopped by the last."""
    CACHE.mkdir(parents=True, exist_ok=True)
    run = CACHE / "run"
    run.mkdir(exist_ok=True)
    mine = run / f"user-{os.getpid()}"
    with _locked():
        pid = _alive(run)
        if pid is None:
            _start(run)
        mine.write_text("")
    try:
        yield Engine(run / "docker.sock")
    finally:
        with _locked():
            mine.unlink(missing_ok=True)
            if not _users(run):
                _stop(run)


@contextlib.contextmanager
def _locked(name: str = "engine") -> Iterator[None]:
    with (CACHE / f"{name}.lock").open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def locked(name: str) -> contextlib.AbstractContextManager[None]:
    """One session at a time builds one thing."""
    return _locked(name)


def _users(run: Path) -> list[Path]:
    found = []
    for path in run.glob("user-*"):
        if Path(f"/proc/{path.name[5:]}").exists():
            found.append(path)
        else:
            path.unlink(missing_ok=True)
    return found


def _alive(run: Path) -> int | None:
    try:
        pid = int((run / "docker.pid").read_text())
        name = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (OSError, ValueError):
        return None
    return pid if str(run).encode() in name else None


def _runs(pid: int) -> bool:
    """Whether a process is there and more than a child of ours that nobody waited for."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _start(run: Path) -> None:
    for leftover in ("docker.pid", "docker.sock"):
        (run / leftover).unlink(missing_ok=True)
    _forget_state(run)
    state = Path(tempfile.mkdtemp(prefix="doctor-standins-"))
    (run / "exec").symlink_to(state)
    _bridge()
    with (run / "dockerd.log").open("wb") as log:
        # It outlives this session when another one uses it too.
        subprocess.run(
            [
                "setsid",
                "--fork",
                "dockerd",
                f"--host=unix://{run}/docker.sock",
                f"--data-root={CACHE}/docker",
                f"--exec-root={state}",
                f"--pidfile={run}/docker.pid",
                f"--bridge={BRIDGE}",
                "--default-address-pool=base=10.214.0.0/16,size=24",
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            check=True,
        )
    client = Engine(run / "docker.sock")
    until = time.monotonic() + START_S
    while client.run("version", check=False).returncode:
        if time.monotonic() > until:
            raise AssertionError(
                "dockerd does not start: " + (run / "dockerd.log").read_text()[-3000:]
            )
        time.sleep(0.3)
    _clear(client)


def _forget_state(run: Path) -> None:
    """An engine's mounts too: a killed one's network namespaces go on answering for the addresses of its containers."""
    state = (run / "exec").resolve()
    (run / "exec").unlink(missing_ok=True)
    if not state.name.startswith("doctor-standins-"):
        return
    for line in reversed(Path("/proc/self/mountinfo").read_text().splitlines()):
        if line.split()[4].startswith(f"{state}/"):
            subprocess.run(["umount", "-l", line.split()[4]], check=False)
    shutil.rmtree(state, ignore_errors=True)


def _bridge() -> None:
    if Path("/sys/class/net", BRIDGE).exists():
        return
    for words in (
        f"link add {BRIDGE} type bridge",
        f"addr add 10.213.0.1/24 dev {BRIDGE}",
        f"link set {BRIDGE} up",
    ):
        subprocess.run(["ip", *words.split()], check=True)


def _clear(client: Engine) -> None:
    """Containers that a killed session left."""
    left = client.run("ps", "-aq", "--filter", "label=standin").stdout.split()
    if left:
        client.run("rm", "-fv", *left)


def _stop(run: Path) -> None:
    pid = _alive(run)
    if pid is None:
        return
    with contextlib.suppress(AssertionError, subprocess.TimeoutExpired):
        _clear(Engine(run / "docker.sock"))
    os.kill(pid, signal.SIGTERM)
    until = time.monotonic() + 30
    while _runs(pid) and time.monotonic() < until:
        time.sleep(0.1)
    subprocess.run(["ip", "link", "del", BRIDGE], check=False, stderr=subprocess.DEVNULL)
    _forget_state(run)
