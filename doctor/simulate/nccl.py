"""NCCL of the system, its configuration, logind and the scope's right to NUMA calls."""

from __future__ import annotations

import posixpath

from doctor.simulate.fabric import runs_systemd
from doctor.simulate.host import Host
from doctor.simulate.writer import RecordingWriter

DOCKER_CAPABILITIES = 0xA80425FB
"""CapEff of a container with Docker's default capabilities."""
ALL_CAPABILITIES = 0x1FFFFFFFFFF
SYS_NICE = 1 << 23


def write(host: Host, out: RecordingWriter) -> None:
    """Libraries are named by version; a copy elsewhere is a link to its versioned file."""
    if host.d.nccl.system:
        library(out, f"{host.libdir}/libnccl.so.2", host.d.nccl.system)
    for path, version in host.d.nccl.copies.items():
        library(out, path, version)
    if host.d.nccl_conf:
        lines = [f"{name}={value}" for name, value in host.d.nccl_conf.items()]
        out.file("/etc/nccl.conf", "\n".join(lines) + "\n")
    if runs_systemd(host):
        line = "RemoveIPC=yes" if host.d.remove_ipc else "#RemoveIPC=no"
        out.file("/etc/systemd/logind.conf", f"[Login]\n#NAutoVTs=6\n{line}\n")
    out.file("/proc/self/status", status(host))


def library(out: RecordingWriter, path: str, version: str) -> None:
    """libnccl.so.2 -> libnccl.so.2.28.3, the file itself not kept."""
    base = version.partition("-")[0].partition("+")[0]
    real = f"libnccl.so.{base}"
    out.file(f"{posixpath.dirname(path)}/{real}", keep=False, size=189646136)
    out.link(path, real)


def status(host: Host) -> str:
    """The lines of /proc/self/status that tell what the kernel allows."""
    capabilities = ALL_CAPABILITIES if host.d.root else 0
    if host.in_container:
        names = {name.upper().removeprefix("CAP_") for name in host.d.container_caps}
        capabilities = DOCKER_CAPABILITIES | (SYS_NICE if names & {"SYS_NICE", "ALL"} else 0)
    seccomp = 2 if host.in_container else 0
    uid = 0 if host.d.root else 1000
    return (
        f"Name:\tpython3\nUmask:\t0022\nState:\tR (running)\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n"
        f"CapEff:\t{capabilities:016x}\nNoNewPrivs:\t0\nSeccomp:\t{seccomp}\n"
    )
