"""Commands that differ by distribution family. Pure; a fact that was not seen gives the general form, never a guess of success."""

from __future__ import annotations

import shlex

from doctor.facts.distribution import Distribution, parse
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


def release(facts: Facts) -> Distribution | None:
    """The distribution, for wording advice; None where it was not seen.

    Judgements ask the fact itself.
    """
    text = facts.host.os_release
    if not isinstance(text, Known):
        return None
    try:
        return parse(text.value)
    except ValueError:
        return None


def install(facts: Facts, *packages: str) -> str:
    """Install packages by the family's own tool."""
    names = shlex.join(packages)
    return by_family(
        facts,
        debian=f"sudo apt-get install -y {names}",
        rhel=f"sudo dnf install -y {names}",
        suse=f"sudo zypper install -y {names}",
    )


def remove(facts: Facts, *packages: str) -> str:
    """Remove packages by the family's own tool, never by deleting files."""
    names = shlex.join(packages)
    return by_family(
        facts,
        debian=f"sudo apt-get purge -y {names}",
        rhel=f"sudo dnf remove -y {names}",
        suse=f"sudo zypper remove -y {names}",
    )


def hold(facts: Facts, *packages: str) -> str:
    """Keep packages at their version."""
    names = shlex.join(packages)
    return by_family(
        facts,
        debian=f"sudo apt-mark hold {names}",
        rhel=f"sudo dnf versionlock add {names}",
        suse=f"sudo zypper addlock {names}",
    )


def headers_package(facts: Facts, kernel: str) -> list[str]:
    """The packages with the headers of one kernel release."""
    found = release(facts)
    if family(facts) != "rhel":
        return [f"linux-headers-{kernel}"]
    if "uek" in kernel:
        return [f"kernel-uek-devel-{kernel}"]
    if found is not None and found.id == "amzn" and not kernel.startswith("6.1."):
        return [f"kernel{'.'.join(kernel.split('.')[:2])}-devel-{kernel}"]
    return [f"kernel-devel-{kernel}", "kernel-headers"]


def install_headers(facts: Facts, kernel: str) -> str:
    """Install the headers of one kernel release."""
    return install(facts, *headers_package(facts, kernel))


def build_module(kernel: str) -> str:
    """Let DKMS build what it knows for one kernel."""
    return f"sudo dkms autoinstall -k {shlex.quote(kernel)}"


def rebuild_initramfs(facts: Facts, kernel: str | None = None) -> str:
    """Rebuild the initramfs of one kernel, or of all."""
    if kernel is None:
        return by_family(
            facts,
            debian="sudo update-initramfs -u -k all",
            rhel="sudo dracut -f --regenerate-all",
            suse="sudo dracut -f --regenerate-all",
        )
    name = shlex.quote(kernel)
    return by_family(
        facts,
        debian=f"sudo update-initramfs -u -k {name}",
        rhel=f"sudo dracut -f --kver {name}",
        suse=f"sudo dracut -f --kver {name}",
    )


def blacklist(*modules: str) -> str:
    """Write a modprobe.d file that keeps modules from loading."""
    lines = [f"blacklist {name}" for name in modules]
    if "nouveau" in modules:
        lines.append("options nouveau modeset=0")
    words = " ".join(shlex.quote(line) for line in lines)
    return f"printf '%s\\n' {words} | sudo tee /etc/modprobe.d/nvidia-only.conf"
