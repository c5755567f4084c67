"""Packages of the driver: whole, from one source, and kept from being swapped under a running module."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from doctor.checks.areas.advice import by_family, hold, install
from doctor.checks.areas.kernel_module import dkms_entries
from doctor.checks.areas.package_names import (
    KERNEL,
    branch_stream,
    by_version,
    driver_packages,
    holds,
    is_held,
    locked,
    origin,
    upstream,
)
from doctor.checks.areas.subject import elsewhere
from doctor.checks.base import ERROR, WARN, Fix, Result, check, failed, passed, seen, skipped
from doctor.checks.knowledge import Knowledge
from doctor.facts.model import known_or
from doctor.facts.tree import Facts

MACHINE = ("host.hardware", "host.container", "host.os_release")


def _nothing(f: Facts) -> Result | None:
    """A skip where no driver package is installed."""
    skip = elsewhere(f)
    if skip:
        return skip
    f.packages.installed.value  # noqa: B018 - a container or an unread database ends here
    return None if driver_packages(f) else skipped("no driver package is installed")


@check(
    "packages.mixed-repositories",
    title="The driver's packages come from one repository",
    severity=ERROR,
    reads=(*MACHINE, "packages.installed"),
    sources=("aws-deep-learning-ami-ubuntu-dcv-desktop#18",),
    fix=Fix(
        "choose one origin: purge the other one's packages, pin the driver to the one that stays, install one version",
        disturbs="reboot",
        remedy="nvidia_driver",
    ),
)
def mixed_repositories(f: Facts, k: Knowledge) -> Result:
    """Parts of two origins with different versions cannot be configured together."""
    skip = _nothing(f)
    if skip:
        return skip
    found = driver_packages(f)
    by_origin: dict[str, dict[str, str]] = {}
    for name, version in sorted(found.items()):
        by_origin.setdefault(origin(name, version), {})[name] = version
    versions = {upstream(version) for version in found.values()}
    if len(by_origin) == 1 or ("rpmfusion" not in by_origin and len(versions) == 1):
        return passed(
            f"{len(found)} driver packages, all {', '.join(sorted(versions))} from one origin"
        )
    least = min(by_origin.values(), key=len)
    shown = [f"{next(iter(rows))} {rows[next(iter(rows))]}" for rows in by_origin.values()]
    return failed(
        f"driver packages of {len(by_origin)} origins: {', '.join(shown)}",
        want="every driver package from one repository at one version",
        command=by_family(
            f,
            debian=f"sudo apt-get purge -y {' '.join(least)} && sudo apt-get -f install",
            rhel=f"sudo dnf remove -y {' '.join(least)}",
        ),
        evidence=[
            seen(f"packages.installed.{name}", version)
            for name, version in list(found.items())[:12]
        ],
    )


@check(
    "packages.version-skew",
    title="The driver's packages have one version",
    severity=WARN,
    needs=("packages.mixed-repositories",),
    reads=(*MACHINE, "packages.installed"),
    sources=("tesla-driver-installation-guide",),
    fix=Fix("bring all driver packages to one version", disturbs="reboot", remedy="nvidia_driver"),
)
def version_skew(f: Facts, k: Knowledge) -> Result:
    """A half-done upgrade, or two branches side by side, leaves libraries that do not fit the module."""
    skip = _nothing(f)
    if skip:
        return skip
    found = driver_packages(f)
    found = {name: version for name, version in found.items() if not by_version(name)} or found
    versions: dict[str, list[str]] = {}
    for name, version in sorted(found.items()):
        versions.setdefault(upstream(version), []).append(name)
    if len(versions) == 1:
        return passed(f"{len(found)} driver packages at {next(iter(versions))}")
    odd = min(versions.values(), key=len)
    shown = ", ".join(f"{version} ({', '.join(names[:2])})" for version, names in versions.items())
    return failed(
        f"driver packages of {len(versions)} versions: {shown}",
        want="one version",
        command=by_family(
            f,
            debian=f"sudo apt-get install --only-upgrade {' '.join(sorted(found))}",
            rhel=f"sudo dnf distro-sync {' '.join(sorted(found))}",
        ),
        evidence=[seen(f"packages.installed.{name}", found[name]) for name in odd[:6]],
    )


@check(
    "packages.not-locked",
    title="An ordinary upgrade leaves the driver alone",
    severity=WARN,
    reads=(
        *MACHINE,
        "packages.installed",
        "packages.holds",
        "packages.pins",
        "packages.modules",
    ),
    sources=("driver-guide-version-locking", "shine-cluster#30"),
    fix=Fix("hold the driver's packages, and fabric manager with them", remedy="driver_lock"),
)
def not_locked(f: Facts, k: Knowledge) -> Result:
    """A new library beside the old loaded module stops every CUDA program until the next reboot."""
    skip = _nothing(f)
    if skip:
        return skip
    found = sorted(driver_packages(f))
    stream = branch_stream(f)
    if stream:
        return passed(f"module stream nvidia-driver:{stream} keeps one branch")
    free = [name for name in found if not locked(f, name)]
    if not free:
        return passed(f"{len(found)} driver packages are held")
    return failed(
        f"{len(free)} of {len(found)} driver packages may be upgraded at any time: {', '.join(free[:3])}",
        want="the driver's packages held at their version",
        command=hold(f, *free),
    )


@check(
    "packages.pending-driver-upgrade",
    title="No driver upgrade waits to swap the libraries under the loaded module",
    severity=WARN,
    reads=(
        *MACHINE,
        "packages.installed",
        "packages.pending",
        "packages.holds",
        "packages.pins",
        "driver.loaded",
    ),
    sources=("driver-guide-version-locking", "shine-cluster#30"),
    fix=Fix(
        "hold the driver now, or upgrade it in a window that ends with a reboot",
        remedy="driver_lock",
    ),
)
def pending_driver_upgrade(f: Facts, k: Knowledge) -> Result:
    """Works now, breaks at the next apt upgrade: a newer driver is known and nothing holds the present one."""
    skip = _nothing(f)
    if skip:
        return skip
    names = driver_packages(f)
    waiting = [
        row for row in f.packages.pending.value if row.name in names and not locked(f, row.name)
    ]
    if not waiting:
        held = [row for row in f.packages.pending.value if row.name in names]
        what = f"{len(held)} newer driver packages, all held" if held else "no newer driver package"
        return passed(f"{what} in the package lists on this host")
    row = waiting[0]
    loaded = known_or(f.driver.loaded, None)
    beside = f" under the loaded module {loaded}" if loaded else ""
    return failed(
        f"the next upgrade replaces {row.name} {row.installed} by {row.candidate}{beside}",
        want="no unattended swap: the driver held, or upgraded with a reboot",
        command=hold(f, *sorted(row.name for row in waiting)),
        evidence=[
            seen("packages.pending", f"{row.name} {row.installed} -> {row.candidate}")
            for row in waiting[:8]
        ],
    )


def _left_alone(patterns: list[str], name: str, tool: str) -> bool:
    """Whether the automatic tool skips a package: regular expressions for apt, shell patterns for dnf."""
    if tool == "dnf-automatic":
        return any(fnmatchcase(name, pattern) for pattern in patterns)
    for pattern in patterns:
        try:
            if re.match(pattern, name):
                return True
        except re.error:
            continue
    return False


def _taken(f: Facts, names: list[str], from_archive: bool) -> list[str]:
    """Packages that the automatic tool would upgrade by itself."""
    row = f.packages.unattended.value
    if row.tool == "unattended-upgrades" and not from_archive:
        reached = any(
            "nvidia" in item.lower() or item.strip() in ("*", "*:*", "origin=*")
            for item in row.origins
        )
        if not reached:
            return []
    held = holds(f)
    return [
        name
        for name in names
        if not is_held(name, held) and not _left_alone(row.excluded, name, row.tool)
    ]


def _exclude(f: Facts, pattern: str) -> str:
    line = f'Unattended-Upgrade::Package-Blacklist {{ "{pattern}"; }};'
    return by_family(
        f,
        debian=f"echo '{line}' | sudo tee /etc/apt/apt.conf.d/52-no-{pattern.strip('^-.*')}",
        rhel=f"sudo dnf config-manager --save --setopt=excludepkgs='*{pattern.strip('^-.*')}*'",
    )


@check(
    "packages.unattended-driver-upgrades",
    title="Automatic upgrades leave the driver alone",
    severity=WARN,
    reads=(*MACHINE, "packages.installed", "packages.unattended", "packages.holds"),
    sources=("unattended-upgrades-readme", "shine-cluster#30"),
    fix=Fix("take the driver out of the automatic upgrades, or hold it", remedy="driver_lock"),
)
def unattended_driver(f: Facts, k: Knowledge) -> Result:
    """An automatic upgrade swaps the libraries at night, and every CUDA program fails until the reboot."""
    skip = _nothing(f)
    if skip:
        return skip
    row = f.packages.unattended.value
    if not row.enabled:
        return passed(f"{row.tool} installs nothing by itself")
    found = driver_packages(f)
    archive = any(origin(name, version) == "archive" for name, version in found.items())
    taken = _taken(f, sorted(found), archive or row.tool == "dnf-automatic")
    if not taken:
        return passed(f"{row.tool} is on and leaves {len(found)} driver packages alone")
    return failed(
        f"{row.tool} is on and may upgrade {', '.join(taken[:3])} by itself",
        want="the driver held or excluded",
        command=_exclude(f, "^(lib)?nvidia-"),
    )


@check(
    "packages.unattended-kernel-upgrades",
    title="Automatic upgrades leave the kernel alone",
    severity=WARN,
    reads=(*MACHINE, "packages.installed", "packages.unattended", "packages.holds"),
    sources=("cloud-native-docs-platform-support",),
    fix=Fix("take the kernel out of the automatic upgrades, or hold it"),
)
def unattended_kernel(f: Facts, k: Knowledge) -> Result:
    """NVIDIA: disable unattended kernel upgrades on GPU hosts; the next boot may have no module."""
    skip = _nothing(f)
    if skip:
        return skip
    row = f.packages.unattended.value
    if not row.enabled:
        return passed(f"{row.tool} installs nothing by itself")
    kernels = sorted(name for name in f.packages.installed.value if KERNEL.match(name))
    taken = _taken(f, kernels, True)
    if not taken:
        return passed(f"{row.tool} is on and leaves {len(kernels)} kernel packages alone")
    return failed(
        f"{row.tool} is on and may replace the kernel ({', '.join(taken[:2])}) by itself",
        want="kernel packages held or excluded on a GPU host",
        command=_exclude(f, "^linux-" if row.tool == "unattended-upgrades" else "kernel"),
    )


@check(
    "packages.broken",
    title="Every package is fully installed",
    severity=WARN,
    reads=(*MACHINE, "packages.broken"),
    sources=("aws-deep-learning-ami-ubuntu-dcv-desktop#18",),
    fix=Fix(
        "finish what was interrupted", command="sudo dpkg --configure -a && sudo apt-get -f install"
    ),
)
def broken(f: Facts, k: Knowledge) -> Result:
    """A half-configured package stops apt from installing or upgrading anything else."""
    names = f.packages.broken.value
    if not names:
        return passed("dpkg --audit names no package")
    return failed(
        f"not fully installed: {', '.join(names[:6])}",
        want="dpkg --audit says nothing",
        evidence=[seen("packages.broken", names)],
    )


@check(
    "packages.precompiled-kmod-lags",
    title="A kernel update waits for the precompiled nvidia module",
    severity=WARN,
    reads=(*MACHINE, "packages.installed", "packages.holds", "kernel.dkms"),
    sources=(
        "driver-packaging-guide-rhel8",
        "almalinux-technical-incident-report-nvidia-driver-almalinux-",
    ),
    fix=Fix("lock the kernel together with the driver, or take the DKMS packages"),
)
def precompiled_kmod_lags(f: Facts, k: Knowledge) -> Result:
    """EL's precompiled kmod fits one kernel; nothing else holds the kernel back until its successor is there."""
    skip = _nothing(f)
    if skip:
        return skip
    installed = f.packages.installed.value
    kmods = [name for name in installed if name.startswith("kmod-nvidia") and "dkms" not in name]
    if not kmods:
        return skipped("no precompiled kmod is installed")
    if dkms_entries(f):
        return passed(f"{kmods[0]}, and DKMS builds the module for other kernels")
    if any(name.startswith("dnf-plugin-nvidia") for name in installed):
        return passed(f"{kmods[0]}, and dnf-plugin-nvidia holds kernels back that have no module")
    if is_held("kernel-core", holds(f)):
        return passed(f"{kmods[0]}, and kernel-core is locked")
    return failed(
        f"{kmods[0]} {installed[kmods[0]]} fits one kernel, and nothing keeps dnf from installing the next",
        want="kernel-core locked, dnf-plugin-nvidia, or DKMS",
        command=hold(f, "kernel-core", "kernel-modules", "kernel-modules-core"),
    )


@check(
    "packages.linux-modules-extra",
    title="Ubuntu's kernel has the modules that RDMA adapters need",
    severity=WARN,
    reads=(*MACHINE, "pci.infiniband", "kernel.running", "kernel.modules", "packages.installed"),
    sources=("gpu-operator#2781",),
    fix=Fix("install the rest of the kernel's modules"),
)
def linux_modules_extra(f: Facts, k: Knowledge) -> Result:
    """Cloud images leave out linux-modules-extra, and mlx5_ib and ib_umad with it."""
    skip = elsewhere(f)
    if skip:
        return skip
    adapters = f.pci.infiniband.value
    if not adapters:
        return skipped("no RDMA adapter on the bus")
    running = f.kernel.running.value
    installed = f.packages.installed.value
    if f"linux-modules-{running}" not in installed:
        return skipped("this kernel is not packaged in parts as Ubuntu's is")
    if f"linux-modules-extra-{running}" in installed:
        return passed(f"linux-modules-extra-{running} is installed")
    if "mlx5_ib" in f.kernel.modules.value:
        return passed("mlx5_ib is loaded")
    return failed(
        f"{len(adapters)} RDMA adapters, and linux-modules-extra-{running} is not installed: no mlx5_ib, no ib_umad",
        want="mlx5_ib and ib_umad loadable",
        command=f"{install(f, f'linux-modules-extra-{running}')} && sudo modprobe -a mlx5_ib ib_umad",
    )
