"""Hosts behind a real sshd: the stand-ins' images without systemd, so that twenty of them start in seconds."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.playbooks.standins import image, states
from tests.playbooks.standins.engine import locked
from tests.playbooks.standins.fleet import Fleet
from tests.playbooks.standins.host import NETWORK, Host, gpu_table

BOOT = (
    "import os, sys; sys.path.insert(0, '/usr/lib/standin'); import lay_out;"
    "[os.unlink(mark) for mark in ('/.dockerenv', '/run/.containerenv') if os.path.exists(mark)];"
    "os.makedirs(lay_out.RUN, exist_ok=True); lay_out.boot()"
)
START = f"python3 -I -c {shlex.quote(BOOT)} && mkdir -p /run/sshd && exec env -u container /usr/sbin/sshd -D -e"
RUNTIME = (
    "--cap-add=SYS_ADMIN",
    "--cgroupns=private",
    "--security-opt=seccomp=unconfined",
    "--security-opt=apparmor=unconfined",
    "--tmpfs=/run:exec,mode=755",
)
"""What the stand-in's kernel side needs."""
_numbers = itertools.count(1)


@dataclass
class Plan:
    """One host to start."""

    name: str
    flavor: str
    finding: str = ""
    """What an audit must say of it; empty: it has no error."""
    gpus: int = 1
    driver: bool = False
    files: dict[str, str] = field(default_factory=dict)
    before: str = ""
    """A command before its kernel side is laid out."""
    after: str = ""
    """A command once it runs, by nobody who is there through ssh."""


def with_driver(fleet: Fleet, flavor: str) -> str:
    """The distribution's image with the mirror's newest driver, made once."""
    below = image.host(fleet.engine, flavor)
    name = (
        f"standin-{flavor}-driver:{image.digest(below, states.newest(), image.HERE / 'states.py')}"
    )
    with locked(f"driver-{flavor}"):
        if not fleet.engine.has_image(name):
            with fleet.host(flavor, with_doctor=False) as host:
                states.install_driver(host, reboot=False)
                host.run("rm -rf /var/cache/* /var/lib/apt/lists/* /etc/standin/gpus")
                fleet.engine.run("commit", "-c", f"CMD {json.dumps(['/bin/sh'])}", host.name, name)
    return name


@contextlib.contextmanager
def started(fleet: Fleet, plans: list[Plan], folder: Path) -> Iterator[dict[str, Host]]:
    """All of them, and inventory.json and known_hosts in the folder."""
    hosts: dict[str, Host] = {}
    try:
        for plan in plans:
            hosts[plan.name] = _start(fleet, plan)
        for plan in plans:
            _wait(hosts[plan.name])
            if plan.after:
                hosts[plan.name].run(plan.after)
        _inventory(hosts, plans, folder)
        yield hosts
    finally:
        names = [host.name for host in hosts.values()]
        if names:
            fleet.engine.run("rm", "-fv", *names, check=False)


def _start(fleet: Fleet, plan: Plan) -> Host:
    source = (
        with_driver(fleet, plan.flavor) if plan.driver else image.host(fleet.engine, plan.flavor)
    )
    name = f"fleet-{os.getpid()}-{next(_numbers)}"
    command = f"{plan.before}\n{START}" if plan.before else START
    fleet.engine.run(
        "create", "--name", name, "--hostname", plan.name, "--label", "standin", "--network", NETWORK,
        *RUNTIME, "--entrypoint", "/bin/sh", source, "-c", command,
    )  # fmt: skip
    host = Host(fleet.engine, plan.flavor, name, fleet.key)
    fleet._seed(host, {"/etc/standin/gpus": gpu_table(plan.gpus), **plan.files})
    fleet.engine.run("start", name)
    return host


def _wait(host: Host) -> None:
    import time

    until = time.monotonic() + 60
    while host.run("ss -Hltn sport = :22 | grep -q . || exit 1", check=False).returncode:
        if time.monotonic() > until or not host.running():
            logs = host.engine.run("logs", "--tail", "20", host.name, check=False)
            raise AssertionError(f"{host.name}: no sshd\n{logs.stdout}{logs.stderr}")
        time.sleep(0.2)


def _inventory(hosts: dict[str, Host], plans: list[Plan], folder: Path) -> None:
    key = next(iter(hosts.values())).key
    known = folder / "known_hosts"
    lines: list[str] = []
    listed: dict[str, dict[str, str]] = {}
    groups: dict[str, dict[str, None]] = {}
    public: dict[str, str] = {}
    for plan in plans:
        host = hosts[plan.name]
        if plan.flavor not in public:
            public[plan.flavor] = " ".join(
                host.read("/etc/ssh/ssh_host_ed25519_key.pub").split()[:2]
            )
        lines.append(f"{host.address} {public[plan.flavor]}\n")
        listed[plan.name] = {"ansible_host": host.address}
        groups.setdefault(plan.flavor, {})[plan.name] = None
    known.write_text("".join(lines))
    variables = {
        "ansible_user": "root",
        "ansible_ssh_private_key_file": str(key),
        "ansible_ssh_common_args": f"-F none -o UserKnownHostsFile={known} -o BatchMode=yes",
    }
    document: dict[str, Any] = {
        "all": {
            "hosts": listed,
            "vars": variables,
            "children": {name: {"hosts": members} for name, members in groups.items()},
        }
    }
    (folder / "inventory.json").write_text(json.dumps(document))
