"""What processors of this machine did, so that a measurement can say how much of it went to others."""

from __future__ import annotations

import os
import resource
from pathlib import Path


def busy() -> float:
    """Seconds in which processors were at work; the fourth field is idle, the fifth waits for disks."""
    fields = Path("/proc/stat").read_text().partition("\n")[0].split()[1:9]
    ticks = [int(field) / os.sysconf("SC_CLK_TCK") for field in fields]
    return sum(ticks) - ticks[3] - ticks[4]


def of_children() -> float:
    """Seconds that children of this process took which it has waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def of_tests() -> float:
    """Those of this process too."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime + of_children()
