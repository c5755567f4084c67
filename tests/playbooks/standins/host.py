"""One running stand-in: commands, files, ssh, reboots and what the kernel side shows."""

from __future__ import annotations

import io
import json
import shlex
import subprocess
import tarfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from tests.playbooks.standins.engine import Engine
from tests.playbooks.standins.image import HERE, digest

BOOT_S = 60
H100 = ("2330", "10de:16c1", 85520809984, "NVIDIA H100 80GB HBM3")
B300 = ("3182", "10de:20e6", 288400343040, "NVIDIA B300 SXM6 AC")
RTX_4090 = ("2684", "10de:16f3", 25757220864, "NVIDIA GeForce RTX 4090")
B200 = ("2901", "10de:1999", 191503532032, "NVIDIA B200")
NETWORK = "standin-" + digest(HERE / "mirror", HERE / "mock")
"""One for each content of the mirror, so that checkouts that share an engine do not take each other's away."""
DOCTOR = "/opt/gpu-host-doctor/bin/doctor"


def gpu_table(count: int, model: tuple[str, str, int, str] = H100) -> str:
    """/etc/standin/gpus: what is on the bus."""
    device, subsystem, memory, name = model
    rows = []
    for number in range(count):
        uuid = f"GPU-00000000-0000-4000-8000-{number:012d}"
        address = f"0000:{0x17 + number:02x}:00.0"
        rows.append("\t".join((address, device, subsystem, uuid, str(memory), name)))
    return "".join(row + "\n" for row in rows)


@dataclass
class Host:
    """A container that stands in for a host."""

    engine: Engine
    flavor: str
    name: str
    key: Path
    extra: dict[str, str] = field(default_factory=dict)
    logs_in: bool = False
    """Whether root calls the doctor from a login session, whose limits PAM sets, and not from nowhere."""

    # commands and files

    def run(
        self,
        command: str | Sequence[str],
        *,
        check: bool = True,
        user: str = "root",
        input: str | bytes | None = None,
        env: dict[str, str] | None = None,
        timeout: float = 300,
    ) -> subprocess.CompletedProcess[str]:
        """A command as that user, with a login's environment."""
        argv = ["bash", "-c", command] if isinstance(command, str) else list(command)
        home = "/root" if user == "root" else f"/home/{user}"
        flags = ["-e", f"HOME={home}", "-e", "LC_ALL=C.UTF-8", "-e", "container="]
        for name, value in (env or {}).items():
            flags += ["-e", f"{name}={value}"]
        if input is not None:
            flags.append("-i")
        done = self.engine.run(
            "exec", *flags, "-u", user, self.name, *argv, check=False, input=input, timeout=timeout
        )
        if check and done.returncode:
            raise AssertionError(
                f"{self.flavor}: {command} -> {done.returncode}\n{done.stdout[-6000:]}\n{done.stderr[-3000:]}"
            )
        return done

    def out(self, command: str | Sequence[str]) -> str:
        """What a command prints."""
        return self.run(command).stdout.strip()

    def read(self, path: str) -> str:
        """The text of a file."""
        return self.run(["cat", path]).stdout

    def exists(self, path: str) -> bool:
        """Whether a path is there, dangling links included."""
        return (
            self.run(
                f"[ -e {shlex.quote(path)} ] || [ -L {shlex.quote(path)} ]", check=False
            ).returncode
            == 0
        )

    def write(self, path: str, text: str, mode: int = 0o644, owner: str = "root:root") -> None:
        """Write a file, folders included."""
        quoted = shlex.quote(path)
        self.run(
            f"mkdir -p $(dirname {quoted}) && cat > {quoted} && chmod {mode:o} {quoted} && chown {owner} {quoted}",
            input=text,
        )

    def put(self, files: dict[str, bytes], folder: str) -> None:
        """Many files at once, through a tar archive."""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            for name, data in files.items():
                info = tarfile.TarInfo(name)
                info.size, info.mode = len(data), 0o644
                tar.addfile(info, io.BytesIO(data))
        self.run(
            f"mkdir -p {shlex.quote(folder)} && tar -C {shlex.quote(folder)} -x",
            input=buffer.getvalue(),
        )

    # life

    def start(self) -> None:
        """Start or start again, and wait until systemd has finished."""
        self.engine.run("start", self.name)
        self.wait()

    def wait(self) -> str:
        """Until systemd says running or degraded."""
        until = time.monotonic() + BOOT_S
        while True:
            done = self.run("systemctl is-system-running", check=False)
            state = done.stdout.strip()
            if state in ("running", "degraded"):
                return state
            if time.monotonic() > until:
                logs = self.engine.run("logs", "--tail", "40", self.name, check=False)
                raise AssertionError(
                    f"{self.name} does not boot: {state} {done.stderr}\n{logs.stdout}{logs.stderr}"
                )
            time.sleep(0.2)

    def reboot(self) -> None:
        """As from outside: stop, start, a new boot id."""
        self.engine.run("restart", "-t", "20", self.name)
        self.wait()

    def wait_for_reboot(self, seconds: float = 60, *, booted: bool = True) -> None:
        """The host rebooted itself: its container ends, and this starts it again; `booted`: until what it starts has ended."""
        until = time.monotonic() + seconds
        while self.running():
            if time.monotonic() > until:
                raise AssertionError(f"{self.name} did not go down")
            time.sleep(0.2)
        self.engine.run("start", self.name)
        if booted:
            self.wait()

    def running(self) -> bool:
        """Whether the container runs."""
        return (
            self.engine.run("inspect", "-f", "{{.State.Running}}", self.name).stdout.strip()
            == "true"
        )

    @property
    def boot_id(self) -> str:
        """The laid-out boot id."""
        return self.out(["cat", "/proc/sys/kernel/random/boot_id"])

    @property
    def address(self) -> str:
        """Where sshd listens."""
        template = "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}"
        return self.engine.run("inspect", "-f", template, self.name).stdout.strip()

    @property
    def family(self) -> str:
        """debian or rhel."""
        return "rhel" if self.flavor.startswith("rocky") else "debian"

    @contextmanager
    def offline(self) -> Iterator[None]:
        """No network while this lasts; commands still reach it."""
        self.engine.run("network", "disconnect", NETWORK, self.name)
        try:
            yield
        finally:
            self.engine.run("network", "connect", NETWORK, self.name)

    # ssh

    def known_hosts(self, folder: Path) -> Path:
        """A known_hosts file with this host's own key: checking is never switched off."""
        path = folder / "known_hosts"
        key = " ".join(self.read("/etc/ssh/ssh_host_ed25519_key.pub").split()[:2])
        path.write_text(f"{self.address} {key}\n")
        return path

    def ssh(
        self, command: str, folder: Path, user: str = "root"
    ) -> subprocess.CompletedProcess[str]:
        """A command over ssh, from outside."""
        return subprocess.run(
            [
                "ssh", "-F", "none", "-i", str(self.key), "-o", f"UserKnownHostsFile={self.known_hosts(folder)}",
                "-o", "BatchMode=yes", f"{user}@{self.address}", command,
            ],
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip

    def inventory(self, folder: Path, user: str = "root") -> dict[str, object]:
        """An Ansible inventory of this one host."""
        options = f"-F none -o UserKnownHostsFile={self.known_hosts(folder)} -o BatchMode=yes"
        variables = {
            "ansible_host": self.address,
            "ansible_user": user,
            "ansible_ssh_private_key_file": str(self.key),
            "ansible_ssh_common_args": options,
            "ansible_python_interpreter": "/usr/bin/python3",
        }
        return {"all": {"children": {"targets": {"hosts": {self.name: variables}}}}}

    # packages and units

    def install(self, *packages: str) -> None:
        """By the distribution's own tool, from the mirror."""
        names = shlex.join(packages)
        if self.family == "rhel":
            self.run(f"dnf -q -y install {names}")
        else:
            self.run(f"DEBIAN_FRONTEND=noninteractive apt-get -qq -y install {names}")

    def packages(self) -> dict[str, str]:
        """Every installed package: name -> version."""
        if self.family == "rhel":
            text = self.out(
                "rpm -qa --qf '%{NAME}.%{ARCH}\\t%{EPOCHNUM}:%{VERSION}-%{RELEASE}\\n' | sort"
            )
        else:
            text = self.out("dpkg-query -W -f '${Package}\\t${Status} ${Version}\\n'")
        return dict(line.split("\t", 1) for line in text.splitlines())

    def units(self) -> dict[str, str]:
        """Every service, timer, socket and path: enabled and active state."""
        kinds = "--type=service,timer,socket,path --all --no-legend --plain"
        enabled = self.out(
            "systemctl list-unit-files --type=service,timer,socket,path --no-legend --plain"
        )
        active = self.out(f"systemctl list-units {kinds}")
        states = {
            line.split()[0]: line.split()[1]
            for line in enabled.splitlines()
            if len(line.split()) > 1
        }
        found = dict(states)
        for line in active.splitlines():
            parts = line.split()
            if len(parts) > 3:
                found[parts[0]] = f"{found.get(parts[0], '-')} {parts[2]}"
        return found

    # the doctor inside

    def doctor(
        self,
        *argv: str,
        check: bool = False,
        user: str = "root",
        timeout: float = 300,
        env: dict[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """`doctor ARGV` from the installation that root owns."""
        command = [DOCTOR, *argv]
        if self.logs_in:
            command = ["su", "-l", "-s", "/bin/bash", "root", "-c", shlex.join(command)]
        return self.run(command, check=check, user=user, timeout=timeout, env=env)

    def report(self, *argv: str) -> dict[str, object]:
        """`doctor check` as JSON."""
        done = self.doctor("check", "--format", "json", *argv)
        try:
            found: dict[str, object] = json.loads(done.stdout)
        except json.JSONDecodeError:
            raise AssertionError(
                f"doctor check -> {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
            ) from None
        return found

    def findings(self, *argv: str) -> dict[str, dict[str, object]]:
        """Findings by id, blocked ones included."""
        report = self.report(*argv)
        rows = report["findings"]
        assert isinstance(rows, list)
        return {row["id"]: row for row in rows}

    def failing(self, *argv: str) -> set[str]:
        """Ids that fail or warn."""
        return {
            name for name, row in self.findings(*argv).items() if row["outcome"] in ("fail", "warn")
        }
