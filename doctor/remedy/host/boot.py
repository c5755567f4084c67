"""The reboot: who would lose work by it, the one-shot unit that goes on afterwards, and the order to do it."""

from __future__ import annotations

import os
import re
from collections.abc import Container
from typing import Any

from doctor.remedy.host import locks, packages
from doctor.remedy.host.command import run
from doctor.remedy.host.run_id import RUN_ID

UNIT = "gpu-host-doctor-resume.service"
FOLDER = "/etc/systemd/system"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
NO_SESSION = "4294967295"
"""What /proc/<pid>/sessionid says outside of any session."""
DELAY = 5
"""Seconds between the order and the reboot, so that whoever gave it can end."""

TEXT = """\
[Unit]
Description=gpu-host-doctor goes on with run {run} after the reboot
After=multi-user.target network-online.target
Wants=network-online.target

[Service]
Type=oneshot
ExecStart={doctor} fix --after-reboot {run}

[Install]
WantedBy=multi-user.target
"""


def boot_id() -> str:
    """Of the kernel that runs now; empty when it cannot be read."""
    try:
        with open(BOOT_ID, encoding="ascii") as file:
            return file.read().strip()
    except (OSError, ValueError):
        return ""


def obstacles(manager: str, session: str) -> list[str]:
    """Why nobody should reboot now. `session` is the audit session or terminal of the person who asks."""
    found = [f"{who} is logged in" for who in people(session)]
    half = packages.half_configured(manager)
    if half:
        found.append(f"half-configured packages: {', '.join(half)}")
    busy = locks.holder(manager)
    if busy:
        found.append(f"packages are being changed by {busy['name']} (pid {busy['pid']})")
    return found


def people(own: str) -> list[str]:
    """Other people's sessions, by logind where it answers, and terminals that it does not know."""
    ran = run(["loginctl", "list-sessions", "--no-legend", "--no-pager"], timeout=10)
    known = others(ran.out, own) if ran.ok else []
    return known + terminals(_own_terminals(), registered=ran.ok)


def others(text: str, own: str) -> list[str]:
    """Lines of loginctl -> "user (session N)" for sessions that are not the asker's and not a greeter or manager."""
    found = []
    for line in text.splitlines():
        fields = line.split()
        if len(fields) < 3 or fields[0] == own:
            continue
        if any(
            word in ("greeter", "manager", "manager-early", "background") for word in fields[3:]
        ):
            continue
        if "closing" in fields[3:]:
            continue
        found.append(f"{fields[2]} (session {fields[0]})")
    return found


def terminals(own: Container[int], registered: bool) -> list[str]:
    """Terminals on which a process runs that is not a login prompt. `registered`: without those of logind's sessions.

    A container's terminals are nobody's: what runs in it is a workload, and counted as one.
    """
    found: dict[int, str] = {}
    here = _space("self")
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        command, _, terminal = _stat(name)
        if not terminal or command in ("agetty", "getty") or terminal in own:
            continue
        if _space(name) != here:
            continue
        if registered and _text(f"/proc/{name}/sessionid") not in ("", NO_SESSION):
            continue
        found.setdefault(terminal, command)
    return [f"somebody ({command} on terminal {number})" for number, command in found.items()]


def own_session() -> str:
    """The login session in which this was asked for, as logind names it: by its scope, which containers have too."""
    scope = re.search(r"/session-([^/\s]+)\.scope", _text("/proc/self/cgroup"))
    if scope:
        return scope[1]
    number = _text("/proc/self/sessionid")
    return "" if number == NO_SESSION else number


def _space(pid: str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return ""


def _own_terminals() -> set[int]:
    """Of this process and those that started it: the asker's."""
    found, pid = set(), str(os.getpid())
    while pid not in ("0", "1", ""):
        _, pid, terminal = _stat(pid)
        found.add(terminal)
    return found


def _stat(pid: str) -> tuple[str, str, int]:
    """(command, parent, terminal) of a process; empty where it has ended."""
    text = _text(f"/proc/{pid}/stat")
    fields = text[text.rfind(")") + 2 :].split()
    if len(fields) < 5:
        return "", "", 0
    return text[text.find("(") + 1 : text.rfind(")")], fields[1], int(fields[4])


def _text(path: str) -> str:
    try:
        with open(path, encoding="ascii", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def schedule(run_id: str, doctor: str) -> dict[str, Any]:
    """Write and enable the one-shot unit, then order the reboot. -> {"ok", "why"}"""
    if (
        not RUN_ID.fullmatch(run_id)
        or not doctor.startswith("/")
        or any(c.isspace() for c in doctor)
    ):
        return {"ok": False, "why": f"{doctor} cannot be written into a unit"}
    path = os.path.join(FOLDER, UNIT)
    part = f"{path}.part"
    with open(part, "w", encoding="ascii") as file:
        file.write(TEXT.format(run=run_id, doctor=doctor))
        file.flush()
        os.fsync(file.fileno())
    os.chmod(part, 0o644)
    os.replace(part, path)
    for command in (["systemctl", "daemon-reload"], ["systemctl", "--quiet", "enable", UNIT]):
        ran = run(command)
        if not ran.ok:
            withdraw()
            return {"ok": False, "why": ran.why}
    os.sync()
    order = ["systemd-run", "--quiet", f"--on-active={DELAY}", "--timer-property=AccuracySec=1s"]
    ran = run([*order, "/usr/bin/systemctl", "reboot"])
    if not ran.ok:
        withdraw()
    return {"ok": ran.ok, "why": "" if ran.ok else ran.why}


def withdraw() -> dict[str, Any]:
    """Take the one-shot unit away, so that it can never run twice."""
    path = os.path.join(FOLDER, UNIT)
    run(["systemctl", "--quiet", "disable", UNIT])
    try:
        os.unlink(path)
    except FileNotFoundError:
        return {"ok": True, "why": "it was not there"}
    except OSError as error:
        return {"ok": False, "why": f"{path}: {error.strerror}"}
    run(["systemctl", "daemon-reload"])
    return {"ok": True, "why": ""}
