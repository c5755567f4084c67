"""Commands that put a driver right, per family of distributions. Pure: facts and rows in, a shell line out. No check lives here."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Literal

from doctor.checks.areas.advice import family
from doctor.facts.distribution import Distribution, parse
from doctor.facts.model import Known
from doctor.facts.tree import Facts

if TYPE_CHECKING:
    from doctor.checks.knowledge import Knowledge

INSTALL = {
    "debian": "sudo apt-get install -y",
    "rhel": "sudo dnf install -y",
    "suse": "sudo zypper install -y",
    "arch": "sudo pacman -S",
}
REMOVE = {
    "debian": "sudo apt-get purge -y",
    "rhel": "sudo dnf remove -y",
    "suse": "sudo zypper remove -y",
    "arch": "sudo pacman -R",
}
INITRAMFS = {"debian": "sudo update-initramfs -u -k all", "arch": "sudo mkinitcpio -P"}
PLAN = "doctor plan --want driver"
"""What to run where no single line is right: the ordered steps for this host."""


def distribution_of(f: Facts) -> Distribution | None:
    """The release, for wording advice; None where it was not seen. Judgements ask the fact itself."""
    text = f.host.os_release
    if not isinstance(text, Known):
        return None
    try:
        return parse(text.value)
    except ValueError:
        return None


def install(f: Facts, *packages: str) -> str:
    """The line that installs packages; the plan for a family whose tool is not known."""
    tool = INSTALL.get(family(f))
    return f"{tool} {shlex.join(packages)}" if tool else PLAN


def remove(f: Facts, *packages: str) -> str:
    """The line that removes packages with their configuration; the plan for an unknown family."""
    tool = REMOVE.get(family(f))
    return f"{tool} {shlex.join(packages)}" if tool else PLAN


def rebuild_initramfs(f: Facts) -> str:
    """The line that rebuilds the initramfs of every kernel."""
    return INITRAMFS.get(family(f), "sudo dracut -f --regenerate-all")


def install_driver(
    f: Facts, k: Knowledge, branch: str | None, flavor: Literal["open", "proprietary"]
) -> str:
    """The line that installs a driver of a branch from the archive that has it, the distribution's own first."""
    from doctor.matrix.query import distribution, driver_packages

    release = distribution_of(f)
    where = distribution(k.matrix, release.id, release.version) if release else None
    if where is None:
        return PLAN
    rows = driver_packages(k.matrix, where, flavor=flavor)
    own = [
        row
        for row in rows
        if row.archive == "distribution" and row.purpose != "desktop" and str(row.branch) == branch
    ]
    row = next(iter(own or [row for row in rows if row.archive == "nvidia"]), None)
    if row is None:
        return PLAN
    if row.dnf_stream:
        return f"sudo dnf module install -y {shlex.quote(row.dnf_stream)}"
    return install(f, *row.packages)
