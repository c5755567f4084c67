"""The machine itself: architecture, distribution, C library, clock, and what could not be seen for lack of rights."""

from __future__ import annotations

from doctor.checks.areas.advice import by_family
from doctor.checks.base import ERROR, INFO, WARN, Fix, Result, check, failed, passed, seen, skipped
from doctor.checks.knowledge import Knowledge
from doctor.facts.distribution import parse
from doctor.facts.model import Unknown, known_or
from doctor.facts.tree import Facts

MACHINE = ("host.hardware", "host.container", "host.os_release")
ARCHITECTURES = ("x86_64", "aarch64")
"""What NVIDIA's data-centre drivers are built for; the guide in `sources` lists them per distribution."""
NEEDS_ROOT = {
    "kernel.driver_log": "the kernel log",
    "kernel.next_boot": "the boot loader's entries",
    "pci.acs": "the extended configuration space of PCI bridges",
    "packages.broken": "dpkg's audit",
}


@check(
    "host.architecture",
    title="NVIDIA's driver exists for this architecture",
    severity=ERROR,
    reads=("host.machine",),
    sources=("driver-guide-r610-introduction",),
    fix=Fix(
        "use an x86_64 or aarch64 machine",
        command="uname -m",
        kind="hardware",
    ),
)
def architecture(f: Facts, k: Knowledge) -> Result:
    """x86_64 or aarch64; POWER left with the branches before 560."""
    machine = f.host.machine.value
    if machine in ARCHITECTURES:
        return passed(f"{machine}: supported")
    return failed(
        f"current NVIDIA drivers are not built for {machine}", want=" or ".join(ARCHITECTURES)
    )


@check(
    "host.distribution-unsupported",
    title="The distribution release is one NVIDIA's driver guide lists",
    severity=WARN,
    reads=("host.os_release", "host.hardware"),
    sources=("driver-guide-r610-introduction",),
    fix=Fix(
        "move to a listed release, or run engines in containers on a host that is listed",
        command="cat /etc/os-release",
    ),
)
def distribution_unsupported(f: Facts, k: Knowledge) -> Result:
    """A row in the table of distributions, by id and version or by what it is like."""
    from doctor.matrix.query import distribution

    if f.host.hardware.value == "jetson":
        return skipped("Jetson Linux is NVIDIA's own")
    here = parse(f.host.os_release.value)
    row = distribution(k.matrix, here.id, here.version)
    if row is not None and row.last_cuda is not None:
        return skipped("current CUDA has dropped it: another check's")
    if row is not None and row.supported:
        return passed(f"{here.pretty} is listed", rows=[row])
    return failed(
        f"{here.pretty} is in no current list of NVIDIA's",
        want="a listed distribution release",
        rows=[row] if row else [],
    )


@check(
    "host.distribution-dropped",
    title="Current CUDA supports the distribution release",
    severity=WARN,
    reads=("host.os_release", "host.hardware"),
    sources=("cuda-13.2.2-release-notes",),
    fix=Fix("upgrade the distribution", command="cat /etc/os-release"),
)
def distribution_dropped(f: Facts, k: Knowledge) -> Result:
    """The last toolkit that supports the release is the current one, not an old one."""
    from doctor.matrix.query import distribution

    if f.host.hardware.value == "jetson":
        return skipped("Jetson Linux has its own CUDA")
    here = parse(f.host.os_release.value)
    row = distribution(k.matrix, here.id, here.version)
    if row is None:
        return skipped("the release is not in the table of distributions")
    if row.last_cuda is None:
        return passed(f"{here.pretty}: CUDA goes on", rows=[row])
    return failed(
        f"CUDA {row.last_cuda} was the last that supports {here.pretty}",
        want="a release that current CUDA supports",
        command=by_family(
            f, debian="sudo do-release-upgrade", rhel="sudo dnf install -y leapp-upgrade"
        ),
        rows=[row],
    )


@check(
    "host.glibc",
    title="The C library is glibc",
    severity=ERROR,
    reads=("host.glibc",),
    sources=("nvidia-docker#509",),
    fix=Fix(
        "use a distribution or image with glibc",
        command="ldd --version",
    ),
)
def glibc(f: Facts, k: Knowledge) -> Result:
    """NVIDIA's libraries are built for glibc; with musl they do not load."""
    version = known_or(f.host.glibc, None)
    if version is not None:
        return passed(f"glibc {version}")
    return failed("the C library is not glibc: libcuda and libnvidia-ml do not load", want="glibc")


@check(
    "host.clock-unsynchronized",
    title="A time service keeps the clock right",
    severity=INFO,
    reads=(*MACHINE, "host.clock_synchronized"),
    sources=("wsl#4114",),
    fix=Fix("turn a time service on", command="sudo timedatectl set-ntp true"),
)
def clock(f: Facts, k: Knowledge) -> Result:
    """A wrong clock makes TLS and package signatures fail: "Release file is not valid yet"."""
    synchronized = known_or(f.host.clock_synchronized, None)
    if f.host.container.value != "none":
        return skipped("the host keeps the clock")
    if f.host.hardware.value == "wsl2":
        return skipped("Windows keeps the clock")
    if synchronized:
        return passed("the clock is synchronized")
    what = "no time service runs" if synchronized is None else "the clock is not synchronized"
    return failed(
        what,
        want="a clock that a time service keeps right",
        command=by_family(
            f,
            debian="sudo timedatectl set-ntp true",
            rhel="sudo systemctl enable --now chronyd",
        ),
    )


@check(
    "host.not-privileged",
    title="Everything could be seen",
    severity=INFO,
    reads=("host.euid", *NEEDS_ROOT),
    sources=("dmesg-restrict",),
    fix=Fix(
        "look again as root: a check changes nothing",
        command='sudo "$(command -v doctor)" check',
    ),
)
def not_privileged(f: Facts, k: Knowledge) -> Result:
    """What stays unseen without root, in one finding."""
    if f.host.euid.value == 0:
        return passed("looked as root")
    unseen = []
    for path, words in NEEDS_ROOT.items():
        area, _, name = path.partition(".")
        if isinstance(getattr(getattr(f, area), name), Unknown):
            unseen.append(words)
    if not unseen:
        return passed("looked as an ordinary user, and nothing was hidden for that")
    return failed(
        f"not root: {', '.join(unseen)} could not be seen",
        want="a look as root",
        evidence=[seen("host.euid", f.host.euid.value)],
    )


@check(
    "host.sudo-environment",
    title="The environment that is judged is the one programs have",
    severity=INFO,
    reads=("host.sudo", "host.scope"),
    sources=("sudo-env-reset",),
    fix=Fix(
        "say whose environment to judge: a running engine, a service, or your shell without sudo",
        command='sudo "$(command -v doctor)" check --scope pid:N   # or: doctor check',
        kind="needs-argument",
    ),
)
def sudo_environment(f: Facts, k: Knowledge) -> Result:
    """sudo resets LD_LIBRARY_PATH, CUDA_VISIBLE_DEVICES and the rest, so they are unknown, not absent."""
    if not f.host.sudo.value or f.host.scope.value != "shell":
        return passed(f"judged: {f.host.scope.value}")
    return failed(
        "under sudo the caller's variables (LD_LIBRARY_PATH, CUDA_VISIBLE_DEVICES, NCCL_*) are not seen",
        want="the environment of a named scope",
    )
