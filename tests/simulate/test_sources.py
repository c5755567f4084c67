"""Whatever a probe can ask is written by the simulator for some host, or declared absent with a reason."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest

from doctor.facts.tree import AREAS
from doctor.probes import registry
from doctor.probes.live import LiveSource
from doctor.probes.recordings.recording import RecordingSource
from doctor.simulate.absent import ABSENT, reason
from doctor.simulate.memory import MemorySource
from doctor.simulate.simulator import simulate
from tests.simulate.hosts import hosts, hosts_of_checks

TEMPLATES = [
    (r"^/(usr/)?lib/modules/[^/]+", "/lib/modules/*"),
    (r"^/boot/((initrd|initramfs|vmlinuz|config|System\.map)[.a-z]*)-.*", r"/boot/\1-*"),
    (r"^/sys/bus/pci/devices/[^/]+", "/sys/bus/pci/devices/*"),
    (r"^/sys/devices/.*", "/sys/devices/*"),
    (r"^/sys/module/(?!nvidia)[^/]+", "/sys/module/*"),
    (r"^/sys/class/(net|infiniband)/[^/]+", r"/sys/class/\1/*"),
    (r"^/proc/\d+", "/proc/*"),
    (r"^/var/lib/dkms/[^/]+/[^/]+", "/var/lib/dkms/*/*"),
    (r"^/var/lib/dkms/\*/\*/[^/]+/[^/]+/log", "/var/lib/dkms/*/*/*/*/log"),
    (r"^/var/lib/dpkg/info/.*", "/var/lib/dpkg/info/*"),
    (r"^/usr/local/cuda(-[^/]+)?/(?=.)", "/usr/local/cuda/"),
    (r"^/usr/local/cuda-[^/]+$", "/usr/local/cuda-*"),
    (r"/python3(\.\d+)?/", "/python3.*/"),
    (r"/(site|dist)-packages/.*", "/site-packages/*"),
    (r"/(site|dist)-packages$", "/site-packages"),
    (r"/lib(cuda|cudart|cudnn|nccl|nvJitLink|nvidia-ml)\.so[.\d]*$", "/lib*.so"),
    (r"^(/[^ ]*)?/s?bin/(?=[^/]+$)", "/bin/"),
    (r"/gcc-\d+$", "/gcc-*"),
    (r"^(/etc/[^ ]*\.d|/usr/lib/[^ ]*\.d|/usr/share/keyrings)/[^/]+$", r"\1/*"),
    (r"^/(usr/)?lib/systemd/", "/lib/systemd/"),
    (r"^/etc/systemd/system/.+", "/etc/systemd/system/*"),
    (r"^/lib(64)?/", "/usr/lib/"),
    (r"^/usr/lib64/", "/usr/lib/"),
    (r"-linux-gnu(?=/|$)", "-linux-gnu"),
    (r"/(x86_64|aarch64)-linux", "/MACHINE-linux"),
]
"""Names that differ from host to host: a kernel release, an address, a version, a folder on PATH."""
PREFIXES = re.compile(r"^/(opt|srv|root|home)/.+")
PREFIX_PARTS = re.compile(
    r"/(bin/[^/]+|lib/python3[^ ]*|lib|lib64|[.]?venv|conda-meta|pyvenv[.]cfg|envs)$"
)


def template(asked: str) -> str:
    """The question with the names of one host taken out."""
    for pattern, general in TEMPLATES:
        asked = re.sub(pattern, general, asked)
    if PREFIXES.match(asked):
        part = PREFIX_PARTS.search(asked)
        return "PREFIX" + (part.group(0) if part else "")
    return asked


class Asked(MemorySource):
    """Keeps what was asked, apart by whether the recording answered."""

    def __init__(self, recording: Any) -> None:
        super().__init__(recording)
        self.answered: set[str] = set()
        self.unanswered: set[str] = set()

    def _note(self, asked: str, known: bool) -> None:
        (self.answered if known else self.unanswered).add(asked)

    def _read(self, path: str) -> dict[str, Any]:
        answer = super()._read(path)
        self._note(path, "data" in answer or path in self._paths)
        return answer

    def _path(self, path: str, entries: bool, statvfs: bool) -> dict[str, Any]:
        answer = super()._path(path, entries, statvfs)
        self._note(path, path in self._paths)
        if path in self._paths:
            wants = [what for what, asked in (("entries", entries), ("statvfs", statvfs)) if asked]
            for what in wants:
                if answer["type"] == "dir" or what == "statvfs":
                    self._note(f"{what} of {path}", answer.get(what) is not None)
        return answer

    def _run(self, argv: Sequence[str], env: dict[str, str], timeout: float) -> dict[str, Any]:
        answer = super()._run(argv, env, timeout)
        self._note(" ".join(argv), "argv" in answer)
        return answer

    def _http(self, socket_path: str, target: str) -> dict[str, Any]:
        answer = super()._http(socket_path, target)
        self._note(f"unix://{socket_path} GET {target}", answer.get("error") is None)
        return answer


@cache
def survey() -> tuple[frozenset[str], dict[str, str]]:
    """What the simulator answers on some host, and what stayed unanswered (with the host that asked)."""
    answered: set[str] = set()
    unanswered: dict[str, str] = {}
    for name, description in {**hosts(), **hosts_of_checks()}.items():
        source = Asked(simulate(description))
        for area in AREAS:
            registry.load(area)(source)
        answered |= source.answered
        for asked in source.unanswered:
            unanswered.setdefault(asked, f"{name}")
    return frozenset(answered), unanswered


@cache
def live() -> frozenset[str]:
    """What the probes ask of the machine that runs the tests."""
    source = RecordingSource(LiveSource())
    for area in AREAS:
        registry.load(area)(source)
    asked = set(source.reads) | set(source.paths) | set(source.answers)
    asked |= {" ".join(argv) for argv, _, _ in source.commands.values()}
    return frozenset(asked)


def missing(asked: set[str]) -> list[str]:
    answered, _ = survey()
    known = {template(item) for item in answered}
    return sorted(item for item in asked if template(item) not in known and reason(item) is None)


def test_what_simulated_hosts_are_asked_is_written_or_declared() -> None:
    _, unanswered = survey()
    found = missing(set(unanswered))
    assert not found, "\n".join(f"{item}    (asked of {unanswered[item]})" for item in found)


def test_what_this_machine_is_asked_is_written_or_declared() -> None:
    found = missing(set(live()))
    assert not found, "\n".join(found)


def test_declared_patterns_have_reasons_and_are_asked() -> None:
    _, unanswered = survey()
    asked = set(unanswered) | set(live())
    idle = [pattern for pattern, _ in ABSENT if not any(reason(item) for item in asked)]
    assert all(why for _, why in ABSENT)
    assert not idle


@pytest.mark.parametrize("area", list(AREAS))
def test_probe_gives_exactly_the_fields_of_its_area(area: str) -> None:
    source = MemorySource(simulate(hosts()["h100"]))
    assert set(registry.load(area)(source)) == set(AREAS[area].__struct_fields__)
