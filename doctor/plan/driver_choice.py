"""Which packages of which origin bring a driver to a host: one answer for the plan's words and for the roles' variables."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from doctor.checks.areas.package_names import driver_packages as installed_driver_packages
from doctor.checks.areas.package_names import origin as origin_of
from doctor.facts.model import known_or
from doctor.facts.versions import DriverVersion
from doctor.matrix import query
from doctor.plan.driver_picks import flavor_for
from doctor.plan.host_state import HostState, read_host
from doctor.plan.pick import DRIVER, Pick
from doctor.plan.role_vars import ByHandError, UndecidedError

if TYPE_CHECKING:
    from doctor.facts.tree import Facts
    from doctor.matrix.matrix import Matrix
    from doctor.matrix.model import DriverPackages
    from doctor.plan.model import Target


class DriverChoice(msgspec.Struct, frozen=True, kw_only=True):
    """A driver, decided."""

    version: str
    flavor: str
    origin: str
    """distribution or nvidia."""
    packages: list[str]
    branch: str
    stream: str | None
    replaces: list[str]
    """Installed packages of another origin or branch."""
    before: list[str]


def package_row(
    state: HostState, matrix: Matrix, flavor: str, branch: object
) -> DriverPackages | None:
    """The row of the matrix to install from: the archive that the host's driver comes from, else NVIDIA's."""
    if state.distribution is None:
        return None
    found = query.driver_packages(
        matrix, state.distribution, flavor="open" if flavor == "open" else "proprietary"
    )
    own = [
        row
        for row in found
        if row.branch == branch and row.archive == "distribution" and row.purpose != "desktop"
    ]
    nvidia = [row for row in found if row.archive == "nvidia"]
    order = [*own, *nvidia] if state.driver_origin == "distribution" else [*nvidia, *own]
    return order[0] if order else None


def choose(facts: Facts, target: Mapping[str, Target], matrix: Matrix) -> DriverChoice:
    """The driver of the target. UndecidedError where the target or the packages are not known."""
    version = driver_version(target)
    state = read_host(facts, matrix)
    if "gpus" in state.unseen:
        raise UndecidedError(f"the GPUs were not seen: {state.unseen['gpus']}")
    branch = query.branch(matrix, version)
    flavor = flavor_for(
        Pick(thing=DRIVER, version=version.raw, data=(version, branch)), state, matrix
    )
    if flavor is None:
        raise UndecidedError("no kernel module of this driver fits all GPUs")
    row = package_row(state, matrix, flavor, branch.branch if branch else None)
    if row is None:
        raise UndecidedError(f"the matrix names no {flavor} driver packages for {state.os_name}")
    number = version.raw.partition(".")[0]
    return DriverChoice(
        version=version.raw,
        flavor=flavor,
        origin=row.archive,
        packages=list(row.packages),
        branch=number,
        stream=_stream(state, row, number, flavor),
        replaces=_replaces(facts, row.archive, number),
        before=_before(facts, state, row),
    )


def driver_version(target: Mapping[str, Target]) -> DriverVersion:
    """The driver's version in the target. UndecidedError when there is none."""
    row = target.get(DRIVER)
    if row is None:
        raise ByHandError("no driver is wanted of this host: --want driver")
    version = DriverVersion.maybe(row.want)
    if version is None:
        raise UndecidedError("the target names no exact driver version")
    return version


def _stream(state: HostState, row: DriverPackages, branch: str, flavor: str) -> str | None:
    """The module stream that keeps the branch, where the release has streams."""
    if row.archive != "nvidia" or state.distribution is None or not state.distribution.dnf_modules:
        return None
    return f"{branch}-open" if flavor == "open" else f"{branch}-dkms"


def _replaces(facts: Facts, origin: str, branch: str) -> list[str]:
    found = []
    for name, version in installed_driver_packages(facts).items():
        builder = origin_of(name, version)
        theirs = "distribution" if builder == "archive" else builder
        named = re.search(r"-(\d{3})(?:-|$)", name)
        other_branch = named is not None and named[1] != branch
        if theirs != origin or other_branch:
            found.append(name)
    return sorted(found)


def _before(facts: Facts, state: HostState, row: DriverPackages) -> list[str]:
    """What NVIDIA's rpm packages need from elsewhere: DKMS, which EPEL has."""
    if state.package_manager != "dnf" or row.archive != "nvidia" or state.distribution is None:
        return []
    have = known_or(facts.packages.installed, {})
    red_hat = "ID=rhel" in known_or(facts.host.os_release, "").replace('"', "").splitlines()
    wanted = ["dkms"] if red_hat else ["epel-release", "dkms"]
    return [name for name in wanted if name not in have]
