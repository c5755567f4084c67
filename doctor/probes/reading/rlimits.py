"""Resource limits as /proc tells them."""

from typing import Dict, List


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
