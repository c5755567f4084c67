"""The reboot: who would lose work by it, the one-shot unit that goes on afterwards, and the order to do it."""

from __future__ import annotations

import os
import re
from typing import Any

from doctor.remedy.host import packages
from doctor.remedy.host.command import run

UNIT = "gpu-host-doctor-resume.service"
FOLDER = "/etc/systemd/system"
BOOT_ID = "/proc/sys/kernel/random/boot_id"
RUN_ID = re.compile(r"\d{8}T\d{6}-[0-9a-f]{6}")
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
    return found


def people(own: str) -> list[str]:
    """Other people's sessions, by logind where it answers, else by terminals."""
    ran = run(["loginctl", "list-sessions", "--no-legend", "--no-pager"], timeout=10)
    if ran.ok:
        return others(ran.out, own)
    return _terminals(own)


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


def _terminals(own: str) -> list[str]:
    """Where logind is not there: terminals on which a process runs that is not a login prompt."""
    found: dict[int, str] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="ascii", errors="replace") as file:
                text = file.read()
        except OSError:
            continue
        command = text[text.find("(") + 1 : text.rfind(")")]
        terminal = int(text[text.rfind(")") + 2 :].split()[4])
        if terminal and command not in ("agetty", "getty") and str(terminal) != own:
            found.setdefault(terminal, command)
    return [f"somebody ({command} on terminal {number})" for number, command in found.items()]


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
