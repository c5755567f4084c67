"""What the package manager knows: files and one query, never a refresh, never a lock, never a written cache."""

import re
from typing import Callable, Dict, Tuple

from doctor.probes.areas.host import IN_CONTAINER, in_container
from doctor.probes.fact import NOT_APPLICABLE, Fact, absent, known, not_applicable, unknown
from doctor.probes.reading import apt, openpgp, rpm
from doctor.probes.source import Source

Answer = Callable[[Source], Fact]

_APT: Tuple[Tuple[str, Answer], ...] = (
    ("installed", apt.installed),
    ("broken", apt.broken),
    ("repositories", apt.repositories),
    ("pins", apt.pins),
    ("holds", apt.holds),
    ("unattended", apt.unattended),
    ("pending", apt.pending),
    ("last_upgrade", apt.last_upgrade),
    ("keys", openpgp.apt_keys),
)
_RPM: Tuple[Tuple[str, Answer], ...] = (
    ("installed", rpm.installed),
    ("repositories", rpm.repositories),
    ("holds", rpm.holds),
    ("unattended", rpm.unattended),
    ("modules", rpm.modules),
    ("last_upgrade", rpm.last_upgrade),
    ("keys", rpm.keys),
)
PACKAGED = frozenset(
    "debian ubuntu rhel fedora centos suse sles opensuse amzn ol rocky almalinux azurelinux".split()
)
"""Names in os-release of distributions whose packages are dpkg's or rpm's."""
_FIELDS = tuple(name for name, _ in _APT) + ("modules",)


def probe(src: Source) -> Dict[str, Fact]:
    """Installed NVIDIA, kernel and container packages, repositories, locks and what waits."""
    manager = manager_of(src)
    facts: Dict[str, Fact] = {"manager": manager}
    if in_container(src):
        return dict(facts, **{name: not_applicable(IN_CONTAINER) for name in _FIELDS})
    if not manager.ok:
        missing = without_database(src, manager)
        return dict(facts, **dict.fromkeys(_FIELDS, missing))
    facts.update({name: ask(src) for name, ask in (_APT if manager.value == "apt" else _RPM)})
    if manager.value == "apt":
        facts["modules"] = not_applicable("apt has no module streams")
        return facts
    facts["broken"] = not_applicable("rpm installs a package whole or not at all")
    facts["pins"] = not_applicable("pins are apt's")
    facts["pending"] = unknown(
        "dnf answers in seconds and may write its cache; ask it: dnf -C check-update", "dnf"
    )
    return facts


def manager_of(src: Source) -> Fact:
    """apt or dnf, by the database that is there; Absent when neither."""
    for path, name in (
        ("/var/lib/dpkg/status", "apt"),
        ("/usr/lib/sysimage/rpm", "dnf"),
        ("/var/lib/rpm", "dnf"),
    ):
        fact = src.stat(path)
        if fact.ok:
            return known(name, path)
        if fact.state == "unknown":
            return fact
    return absent("/var/lib/dpkg/status, /var/lib/rpm")


def without_database(src: Source, manager: Fact) -> Fact:
    """Unknown where dpkg or rpm belongs; NotApplicable on a distribution that has neither."""
    release = src.read("/etc/os-release")
    names = re.findall(r"^ID(?:_LIKE)?=(.*)$", release.value, re.MULTILINE) if release.ok else []
    words = " ".join(names).replace('"', "").split()
    if manager.state != "absent" or not words or PACKAGED.intersection(words):
        return unknown(manager.reason or "neither dpkg nor rpm is here", manager.via)
    return not_applicable("%s manages its packages with neither dpkg nor rpm" % words[0])


def installed_packages(src: Source) -> Fact:
    """Names and versions of the packages of interest, of whichever manager is here."""
    manager = manager_of(src)
    if not manager.ok:
        missing = without_database(src, manager)
        return missing if missing.state == NOT_APPLICABLE else manager
    return apt.installed(src) if manager.value == "apt" else rpm.installed(src)
