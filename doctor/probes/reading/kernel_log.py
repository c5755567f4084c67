"""The kernel's log of this boot and the lines that speak of GPUs: Xids, driver lines, refused modules."""

import re
from typing import Any, Dict, List

from doctor.probes.fact import Fact, unknown
from doctor.probes.pattern import regex
from doctor.probes.source import Source

KEEP = 80
"""Driver lines that are kept, the last ones."""
_DRIVER = regex(r"NVRM|\bnvidia|nouveau|nova.?core|NovaCore", re.I)
_XID = regex(r"NVRM: Xid \(PCI:([0-9a-fA-F:.]+)\): (\d+)")
_REFUSED = regex(
    r"Loading of (unsigned module|module with unavailable key) is rejected"
    r"|Lockdown: .*(unsigned module|module load)"
    r"|module .*nvidia.* (key|signature).*reject"
    r"|nvidia.*: (Key was rejected|Required key not available)",
    re.I,
)
"""What the kernel says when it refuses; "module verification failed ... tainting kernel" is not a refusal."""


def kernel_log(src: Source) -> Fact:
    """Text of the log, from dmesg, else the journal, else the file a syslog daemon writes; Unknown without permission."""
    ring = src.run(["dmesg"], timeout=3.0)
    if ring.ok and ring.value.stdout.strip():
        return ring.map(lambda done: done.stdout, "dmesg")
    argv = ["journalctl", "-k", "-b", "-q", "-o", "short-monotonic", "--no-pager", "-n", "8000"]
    journal = src.run(argv, timeout=3.0)
    if journal.ok and journal.value.stdout.strip():
        return journal.map(lambda done: done.stdout, "journalctl -k -b")
    written = src.read("/var/log/kern.log")
    if written.ok and written.value.strip():
        return written
    reason = ring.reason if ring.state == "unknown" else "empty"
    if "not permitted" in reason or "ermission" in reason:
        reason = "only root may read the kernel log"
    return unknown(reason, "dmesg, journalctl -k, /var/log/kern.log")


def driver_lines(text: str) -> List[str]:
    """The last lines that name the NVIDIA driver or another that takes its devices."""
    return [line.strip()[:300] for line in text.splitlines() if _DRIVER.search(line)][-KEEP:]


def refused_lines(text: str) -> List[str]:
    """Lines in which the kernel refused a module for its signature."""
    return [line.strip()[:300] for line in text.splitlines() if _REFUSED.search(line)][-10:]


def xids(text: str) -> List[Dict[str, Any]]:
    """Every Xid: {"code", "pci", "text", "seconds"}."""
    found = []
    for line in text.splitlines():
        event = _XID.search(line)
        if event:
            code, pci = int(event.group(2)), event.group(1).lower()
            row = {"code": code, "pci": pci, "text": line[event.start() :].strip()[:300]}
            found.append(dict(row, seconds=seconds_of(line)))
    return found[-200:]


def suspends(text: str) -> int:
    """How often the host came back from a suspend since it started."""
    return len(re.findall(r"PM: suspend exit", text))


def seconds_of(line: str) -> Any:
    """ "[   12.345678]" or journalctl's "[   12.345] host kernel:" -> 12.345678; None without a stamp."""
    stamp = re.match(r"\s*\[\s*(\d+\.\d+)\]", line)
    return float(stamp.group(1)) if stamp else None
