"""Repositories of the driver: the right one, one of them, signed, and able to give the packages. Part of the area packages."""

from __future__ import annotations

import re
import shlex

from doctor.checks.areas.advice import by_family, hold
from doctor.checks.areas.package_names import (
    driver_packages,
    enabled,
    is_cuda,
    locked,
    of_nvidia,
    offers_the_driver_too,
    origin,
)
from doctor.checks.areas.subject import elsewhere
from doctor.checks.base import ERROR, WARN, Fix, Result, check, failed, passed, seen, skipped
from doctor.checks.knowledge import Knowledge
from doctor.facts.areas.packages import Repository
from doctor.facts.distribution import Distribution, parse
from doctor.facts.model import known_or
from doctor.facts.tree import Facts
from doctor.facts.versions import RpmVersion

MACHINE = ("host.hardware", "host.container", "host.os_release")


def _folder(row: Repository) -> str:
    """The repository's folder: ubuntu2404 of .../repos/ubuntu2404/x86_64/."""
    found = re.search(r"/repos/([^/]+)/", row.url + "/")
    return found.group(1) if found else ""


@check(
    "packages.repository-key",
    title="The keys of NVIDIA's repositories are there and current",
    severity=WARN,
    reads=(*MACHINE, "packages.manager", "packages.repositories", "packages.keys"),
    sources=("cuda-repository-key-blog", "cuda-repo-management-signatures"),
    fix=Fix("install the keyring package of the repository", remedy="nvidia_repo"),
)
def repository_key(f: Facts, k: Knowledge) -> Result:
    """Without its key apt refuses the repository; the key of before 2022 is retired."""
    rows = [row for row in enabled(f) if of_nvidia(row)]
    if not rows:
        return skipped("no repository of NVIDIA's is enabled")
    if f.packages.manager.value != "apt":
        return _rpm_key(f, k, rows)
    retired = _retired(k)
    keys = f.packages.keys.value
    for row in rows:
        if row.key_found is False:
            return _without_key(f, k, row, f"{row.key} of {row.id} is not there")
        named = row.key if row.key and row.key.startswith("/") else None
        fingerprints = (
            keys.get(named, []) if named else [item for each in keys.values() for item in each]
        )
        known = [item for item in fingerprints if item in retired]
        if known and len(known) == len(fingerprints):
            return _without_key(
                f, k, row, f"the only key for {row.id} is the retired {known[0][-8:]}"
            )
        if row.key is None and row.signed is None and not fingerprints:
            return _without_key(f, k, row, f"no trusted keyring holds a key for {row.id}")
    return passed(f"{len(rows)} repositories of NVIDIA's, each with a key that is not retired")


def _retired(k: Knowledge) -> set[str]:
    from doctor.matrix.model import Repository as Row

    rows = k.matrix.rows(Row)
    return {row.fingerprint for row in rows if row.status == "retired" and row.fingerprint}


def _rpm_key(f: Facts, k: Knowledge, rows: list[Repository]) -> Result:
    imported = f.packages.keys.value.get("rpm", [])
    for row in rows:
        if row.signed is not False and not row.key and not imported:
            return _without_key(f, k, row, f"{row.id} names no gpgkey and rpm has no key imported")
    return passed(f"{len(rows)} repositories of NVIDIA's; rpm has {len(imported)} keys imported")


def _without_key(f: Facts, k: Knowledge, row: Repository, message: str) -> Result:
    from doctor.matrix.query import repository

    known = repository(k.matrix, _folder(row)) if is_cuda(row) else None
    if known and known.keyring_package and known.url:
        package = known.keyring_package
        command = (
            f"curl -fsSLO {shlex.quote(known.url + package)} && sudo dpkg -i {shlex.quote(package)}"
        )
    elif known and known.key_url:
        command = f"sudo rpm --import {shlex.quote(known.key_url)}"
    else:
        command = f"ls -l {shlex.quote(row.key or row.file)}"
    return failed(
        message,
        want="a keyring with the repository's current key",
        command=command,
        rows=[known] if known else [],
        evidence=[seen("packages.repositories", f"{row.id} ({row.file})")],
    )


@check(
    "packages.repository-unsigned",
    title="Packages of NVIDIA and Docker are checked against a signature",
    severity=WARN,
    reads=(*MACHINE, "packages.repositories"),
    sources=("apt-secure-manual",),
    fix=Fix("check signatures again: the repository has a key", remedy="nvidia_repo"),
)
def repository_unsigned(f: Facts, k: Knowledge) -> Result:
    """trusted=yes and gpgcheck=0 install as root whatever the network gives."""
    rows = [row for row in enabled(f) if of_nvidia(row) or "download.docker.com" in row.url]
    if not rows:
        return skipped("no repository of NVIDIA's or Docker's is enabled")
    wrong = [row for row in rows if row.signed is False]
    if not wrong:
        return passed(f"{len(rows)} repositories, none with signatures switched off")
    path = shlex.quote(wrong[0].file)
    return failed(
        f"signatures are not checked for {', '.join(row.id for row in wrong)}",
        want="gpgcheck=1, and no trusted=yes",
        command=by_family(
            f,
            debian=f"sudo sed -i 's/ *trusted=yes//' {path} && sudo apt-get update",
            rhel=f"sudo sed -i 's/^gpgcheck *=.*/gpgcheck=1/' {path}",
        ),
        evidence=[seen("packages.repositories", f"{row.id} ({row.file})") for row in wrong],
    )


@check(
    "packages.repository-conflict",
    title="No repository is configured twice with different keys",
    severity=WARN,
    reads=(*MACHINE, "packages.manager", "packages.repositories"),
    sources=("cloud-native-docs-troubleshooting",),
    fix=Fix("delete the older file", remedy="container_toolkit"),
)
def repository_conflict(f: Facts, k: Knowledge) -> Result:
    """apt then stops with "Conflicting values set for option Signed-By" and updates nothing at all."""
    if f.packages.manager.value != "apt":
        return skipped("only apt minds a repository that is configured twice")
    places: dict[tuple[str, str], list[Repository]] = {}
    for row in enabled(f):
        places.setdefault((row.url.rstrip("/"), row.suite or ""), []).append(row)
    for (url, _), rows in places.items():
        if len({row.key for row in rows}) < 2:
            continue
        files = sorted({row.file for row in rows})
        old = [
            path for path in files if not path.endswith("nvidia-container-toolkit.list")
        ] or files
        return failed(
            f"{url} is configured with different keys in {', '.join(files)}: apt-get update fails",
            want="one file for each repository",
            command=f"sudo rm {shlex.join(old[:3])} && sudo apt-get update",
            evidence=[seen("packages.repositories", f"{row.file}: {row.key}") for row in rows],
        )
    return passed(f"{len(places)} repositories, each configured once or with one key")


@check(
    "packages.repository-other-release",
    title="NVIDIA's repository is that of this distribution",
    severity=WARN,
    reads=(*MACHINE, "packages.repositories"),
    sources=("driver-guide-r610-introduction",),
    fix=Fix("replace the repository by the one of this release", remedy="nvidia_repo"),
)
def repository_other_release(f: Facts, k: Knowledge) -> Result:
    """Packages for another release bring libraries and kernels' modules that do not fit."""
    from doctor.matrix.query import distribution

    rows = [row for row in enabled(f) if is_cuda(row)]
    if not rows:
        return skipped("NVIDIA's CUDA repository is not enabled")
    here = parse(f.host.os_release.value)
    known = distribution(k.matrix, here.id, here.version)
    if known is None:
        return skipped(f"no repository is known for {here.pretty}")
    right = {known.repository}
    if f.host.hardware.value == "wsl2":
        right.add("wsl-ubuntu")
    wrong = [row for row in rows if _folder(row) not in right]
    if not wrong:
        return passed(f"{here.pretty} uses {', '.join(_folder(row) for row in rows)}", rows=[known])
    return failed(
        f"{here.pretty} uses NVIDIA's repository for {_folder(wrong[0])}",
        want=f"the repository {known.repository}",
        command=f"sudo sed -i 's#/repos/{_folder(wrong[0])}/#/repos/{known.repository}/#' {shlex.quote(wrong[0].file)}",
        rows=[known],
        evidence=[seen("packages.repositories", f"{row.url} ({row.file})") for row in wrong],
    )


@check(
    "packages.two-driver-repositories",
    title="One repository alone offers the driver",
    severity=WARN,
    needs=("packages.mixed-repositories",),
    reads=(
        *MACHINE,
        "packages.repositories",
        "packages.installed",
        "packages.holds",
        "packages.pins",
        "packages.modules",
    ),
    sources=("aws-deep-learning-ami-ubuntu-dcv-desktop#18", "tesla-driver-installation-guide"),
    fix=Fix(
        "leave the driver to one repository: exclude it in the other, or hold it where it is",
        remedy="nvidia_repo",
        debian="driver_lock",
    ),
)
def two_driver_repositories(f: Facts, k: Knowledge) -> Result:
    """The next upgrade would mix the two: the trap before packages.mixed-repositories."""
    skip = elsewhere(f)
    if skip:
        return skip
    rows = enabled(f)
    cuda = [row for row in rows if is_cuda(row)]
    if not cuda:
        return skipped("NVIDIA's CUDA repository is not enabled")
    others = [row for row in rows if offers_the_driver_too(row)]
    if others and not any("nvidia" in item for item in cuda[0].excludes):
        return failed(
            f"{cuda[0].id} and {others[0].id} both offer the driver",
            want="the driver from one repository",
            command=f"sudo dnf config-manager --save --setopt={shlex.quote(others[0].id + '.excludepkgs')}='*nvidia*'",
            evidence=[seen("packages.repositories", row.id) for row in (cuda[0], others[0])],
        )
    found = driver_packages(f)
    archive = [name for name in sorted(found) if origin(name, found[name]) == "archive"]
    free = [name for name in archive if not locked(f, name)]
    if free:
        return failed(
            f"{free[0]} comes from the distribution, and {cuda[0].id}, which apt prefers by its pin, offers it too",
            want="the driver held, or from the repository that apt prefers",
            command=hold(f, *free),
            evidence=[seen("packages.repositories", cuda[0].id)],
        )
    return passed(f"{cuda[0].id} alone offers the driver, or the driver is held")


def _wanted_from_cuda(f: Facts) -> tuple[Distribution, Repository] | Result:
    """The release and its CUDA repository where a GPU waits for a driver on RHEL's family; else why not."""
    skip = elsewhere(f)
    if skip:
        return skip
    here = parse(f.host.os_release.value)
    if not here.is_enterprise:
        return skipped(f"{here.pretty} is not of RHEL's family")
    cuda = [row for row in enabled(f) if is_cuda(row)]
    if not cuda:
        return skipped("NVIDIA's CUDA repository is not enabled")
    return here, cuda[0]


def _no_driver_yet(f: Facts) -> bool:
    return bool(f.pci.gpus.value) and known_or(f.driver.package, None) is None


@check(
    "packages.dkms-too-old",
    title="dkms is new enough for NVIDIA's open modules",
    severity=ERROR,
    needs=("gpu.not-on-bus", "packages.modular-filtering"),
    reads=(*MACHINE, "packages.repositories", "packages.installed", "pci.gpus", "driver.package"),
    sources=("ansible-slurm-appliance#703",),
    fix=Fix("take dkms from a current EPEL", remedy="nvidia_driver"),
)
def dkms_too_old(f: Facts, k: Knowledge) -> Result:
    """A GPU waits for its driver and kmod-nvidia-open-dkms cannot be installed: dkms is too old, or EPEL is missing."""
    wanted = _wanted_from_cuda(f)
    if isinstance(wanted, Result):
        return wanted
    here, _ = wanted
    rule = k.matrix.statement("distribution_rules", "distribution.dkms-floor")
    floor = rule.minimum if rule and rule.minimum else ""
    rows = [rule] if rule else []
    installed = f.packages.installed.value
    dkms = installed.get("dkms")
    if dkms is not None:
        version = RpmVersion.parse(dkms).upstream
        if RpmVersion.parse(version) >= RpmVersion.parse(floor):
            return passed(f"dkms {version}, {floor} is enough", rows=rows)
        if not _no_driver_yet(f):
            return passed(f"dkms {version}; the driver is installed with it", rows=rows)
        return failed(
            f"dkms {version} is older than {floor}, so NVIDIA's open modules cannot be installed",
            want=f"dkms {floor} or later",
            command="sudo dnf install -y --refresh epel-release && sudo dnf upgrade -y dkms",
            rows=rows,
        )
    if not _no_driver_yet(f):
        return skipped("the driver is installed without dkms")
    if any("epel" in f"{row.id} {row.url}".lower() for row in enabled(f)):
        return passed("dkms is not installed and EPEL, which has it, is enabled", rows=rows)
    return failed(
        f"EPEL is not enabled, so dkms {floor}, which NVIDIA's open modules need, cannot be installed",
        want="EPEL enabled",
        command=_enable_epel(here),
        rows=rows,
    )


def _enable_epel(here: Distribution) -> str:
    if here.id in ("rhel", "ol"):
        return f"sudo dnf install -y https://dl.fedoraproject.org/pub/epel/epel-release-latest-{here.major}.noarch.rpm"
    extra = "powertools" if here.major == "8" else "crb"
    return f"sudo dnf install -y epel-release && sudo dnf config-manager --set-enabled {extra}"


@check(
    "packages.modular-filtering",
    title="dnf shows the driver's packages",
    severity=ERROR,
    needs=("gpu.not-on-bus",),
    reads=(*MACHINE, "packages.repositories", "packages.modules", "pci.gpus", "driver.package"),
    sources=("rockylinux.org#201", "dnf-modularity-manual"),
    fix=Fix("turn modular filtering off for the CUDA repository", remedy="nvidia_repo"),
)
def modular_filtering(f: Facts, k: Knowledge) -> Result:
    """A GPU waits for its driver on a release without module streams, and dnf hides what belongs to one."""
    from doctor.matrix.query import distribution

    wanted = _wanted_from_cuda(f)
    if isinstance(wanted, Result):
        return wanted
    here, cuda = wanted
    known = distribution(k.matrix, here.id, here.version)
    rule = k.matrix.statement("distribution_rules", "distribution.modular-filtering")
    rows = [row for row in (known, rule) if row]
    stream = known_or(f.packages.modules, {}).get("nvidia-driver")
    if cuda.module_hotfixes:
        return passed(f"{cuda.id} has module_hotfixes=1", rows=rows)
    if not _no_driver_yet(f):
        return passed("the driver is installed: dnf shows its packages", rows=rows)
    if known is not None and known.dnf_modules is not False:
        what = f"stream {stream} is enabled" if stream else "the install enables a stream first"
        return passed(f"{here.pretty} has module streams: {what}", rows=rows)
    beside = f", and nvidia-driver:{stream} is enabled" if stream else ""
    return failed(
        f"{here.pretty} has no module streams for the driver{beside}, and {cuda.id} has no module_hotfixes=1: "
        "dnf hides nvidia-open and cuda-drivers",
        want="module_hotfixes=1 for the repository",
        command=f"sudo dnf config-manager --save --setopt={shlex.quote(cuda.id)}.module_hotfixes=1"
        + (" && sudo dnf module reset -y nvidia-driver" if stream else ""),
        rows=rows,
    )
