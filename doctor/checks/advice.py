"""Commands that differ by distribution family. Pure; a fact that was not seen gives the general form, never a guess of success."""

from __future__ import annotations

from doctor.facts.distribution import parse
from doctor.facts.model import Known
from doctor.facts.tree import Facts


def family(facts: Facts) -> str:
    """debian, rhel, suse, arch or other; other when os-release was not seen."""
    text = facts.host.os_release
    if not isinstance(text, Known):
        return "other"
    try:
        return parse(text.value).family
    except ValueError:
        return "other"


def by_family(facts: Facts, *, debian: str, rhel: str, suse: str | None = None) -> str:
    """The command of this host's family; on another family Debian's, with the others beside it."""
    kind = family(facts)
    if kind == "rhel":
        return rhel
    if kind == "suse" and suse:
        return suse
    return debian if kind == "debian" else f"{debian}   # RHEL family: {rhel}"


def in_container(facts: Facts) -> bool:
    """Whether this is known to be a container, so that a change of the host is made outside."""
    container = facts.host.container
    return isinstance(container, Known) and container.value != "none"


def where(facts: Facts) -> str:
    """`on the host, outside this container: ` in a container, else nothing."""
    return "on the host, outside this container: " if in_container(facts) else ""
