"""Starts and ends stand-ins: the network with the mirror in it, the doctor's installation, one container per host."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import re
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

from tests.playbooks.standins import image, installation
from tests.playbooks.standins.engine import Engine, locked
from tests.playbooks.standins.host import NETWORK, Host, gpu_table

VENDORS = (
    "archive.ubuntu.com",
    "security.ubuntu.com",
    "developer.download.nvidia.com",
    "nvidia.github.io",
    "download.docker.com",
    "dl.rockylinux.org",
    "dl.fedoraproject.org",
    "download1.rpmfusion.org",
)
"""Host names that the mirror answers for."""
RUNTIME = (
    "--cap-add=SYS_ADMIN",
    "--cap-add=NET_ADMIN",
    "--cap-add=SYS_BOOT",
    "--cgroupns=private",
    "--security-opt=seccomp=unconfined",
    "--security-opt=apparmor=unconfined",
    "--tmpfs=/run:exec,mode=755",
    "--tmpfs=/run/lock",
    "--tmpfs=/tmp:exec",
    "--volume=/var/lib/docker",
    "--volume=/var/lib/containerd",
)
"""What systemd and an engine inside a container need; privileged is more than that."""
USERS = ("ops", "asked", "guest")
"""Of the image, from 1000 on: sudo without a password, sudo with one, no rights."""
_numbers = itertools.count(1)


class Fleet:
    """Everything a test session starts."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self.engine = engine
        self.key = folder / "id_ed25519"
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.key)], check=True
        )
        self._forget_dead()
        self._mirror()

    def _forget_dead(self) -> None:
        """Hosts of a session that was killed: the session's process is in their names."""
        names = self.engine.run("ps", "-a", "--filter", "label=standin", "--format", "{{.Names}}")
        for name in names.stdout.split():
            found = re.fullmatch(r"\w+-(\d+)-\d+", name)
            if found and not Path(f"/proc/{found.group(1)}").exists():
                self.engine.run("rm", "-fv", name, check=False)

    def _mirror(self) -> None:
        with locked("mirror"):
            label = ("--label", "standin")
            self.engine.run("network", "prune", "-f", "--filter", "label=standin")
            if self.engine.run("network", "inspect", NETWORK, check=False).returncode:
                self.engine.run("network", "create", "--internal", *label, NETWORK)
            source = image.mirror(self.engine)
            state = self.engine.run(
                "inspect",
                "-f",
                "{{.Config.Image}} {{.State.Running}}",
                NETWORK + "-mirror",
                check=False,
            )
            if state.stdout.strip() == f"{source} true":
                return
            self.engine.run("rm", "-fv", NETWORK + "-mirror", check=False)
            aliases = [word for host in VENDORS for word in ("--network-alias", host)]
            self.engine.run(
                "run", "-d", "--name", NETWORK + "-mirror", *label, "--network", NETWORK, *aliases, source
            )  # fmt: skip

    @contextlib.contextmanager
    def host(
        self,
        flavor: str,
        *,
        gpus: int = 1,
        with_doctor: bool = True,
        files: dict[str, str] | None = None,
    ) -> Iterator[Host]:
        """A fresh host of a distribution; `files` are there before its first boot."""
        name = f"{flavor}-{os.getpid()}-{next(_numbers)}"
        source = image.host(self.engine, flavor)
        volumes = []
        if with_doctor:
            volumes.append(f"--volume={installation.volume(self.engine)}:/opt/gpu-host-doctor:ro")
        self.engine.run(
            "create", "--name", name, "--hostname", flavor, "--label", "standin", "--network", NETWORK,
            "--dns", "127.0.0.1", *RUNTIME, *volumes, source,
        )  # fmt: skip
        host = Host(self.engine, flavor, name, self.key)
        try:
            self._seed(host, {"/etc/standin/gpus": gpu_table(gpus), **(files or {})})
            host.start()
            yield host
        finally:
            self.engine.run("rm", "-fv", name, check=False)

    def _seed(self, host: Host, files: dict[str, str]) -> None:
        """Files and nothing but files, so that no folder of the image changes its owner."""
        public = self.key.with_suffix(".pub").read_text()
        owned = {"/root": 0, **{f"/home/{name}": 1000 + n for n, name in enumerate(USERS)}}
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            for path, text in files.items():
                _add(tar, path, 0o644, 0, text)
            for home, user in owned.items():
                _add(tar, f"{home}/.ssh", 0o700, user, None)
                _add(tar, f"{home}/.ssh/authorized_keys", 0o600, user, public)
        self.engine.run("cp", "-", f"{host.name}:/", input=buffer.getvalue())


def _add(tar: tarfile.TarFile, path: str, mode: int, user: int, text: str | None) -> None:
    info = tarfile.TarInfo(path.lstrip("/"))
    info.mode, info.uid, info.gid = mode, user, user
    if text is None:
        info.type = tarfile.DIRTYPE
        tar.addfile(info)
        return
    data = text.encode()
    info.size = len(data)
    tar.addfile(info, io.BytesIO(data))
