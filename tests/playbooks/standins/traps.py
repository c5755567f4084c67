"""Traps on a host that works: it breaks at the next boot, reload or upgrade. Each makes its finding."""

from __future__ import annotations

from tests.playbooks.standins import states
from tests.playbooks.standins.host import Host

LISTS = {
    "debian": "/etc/apt/sources.list.d/cuda-{}-x86_64.list",
    "rhel": "/etc/yum.repos.d/cuda-{}.repo",
}
NEXT_KERNEL = {
    "ubuntu2404": "linux-image-6.8.0-62-generic",
    "rocky9": "kernel-5.14.0-570.17.1.el9_6",
}
"""The mirror's newer kernel, without its headers."""


def cuda_list(host: Host) -> str:
    """The file that names NVIDIA's repository."""
    return LISTS[host.family].format(states.CODES[host.flavor])


def signatures_off(host: Host) -> set[str]:
    """Packages are taken unchecked."""
    edit = (
        "s/signed-by=[^]]*/trusted=yes/" if host.family == "debian" else "s/gpgcheck=1/gpgcheck=0/"
    )
    host.run(["sed", "-i", edit, cuda_list(host)])
    return {"packages.repository-unsigned"}


def repository_of_another_release(host: Host) -> set[str]:
    """The lines of a guide for another release."""
    code = states.CODES[host.flavor]
    other = {"ubuntu2404": "ubuntu2204", "rhel9": "rhel10"}[code]
    host.run(["sed", "-i", f"/^deb\\|^baseurl/s#/{code}/#/{other}/#", cuda_list(host)])
    return {"packages.repository-other-release"}


def key_taken_away(host: Host) -> set[str]:
    """The key is not there: apt refuses the repository."""
    host.run("rm /usr/share/keyrings/cuda-archive-keyring.gpg")
    return {"packages.repository-key"}


def kernel_without_module(host: Host) -> set[str]:
    """An upgrade brought a kernel and not its headers."""
    host.install(NEXT_KERNEL[host.flavor])
    return {"kernel.next-boot-no-module"}


def nouveau_allowed(host: Host) -> set[str]:
    """The driver's blacklist is gone: nouveau takes the GPUs at the next boot."""
    host.run("rm /lib/modprobe.d/nvidia-graphics-drivers.conf")
    return {"kernel.nouveau-returns"}


def driver_offered_twice(host: Host) -> set[str]:
    """Ubuntu's driver with NVIDIA's repository beside it, which a hold keeps apart; RPM Fusion beside NVIDIA's driver."""
    if host.family == "debian":
        host.install("nvidia-driver-580-server-open")
        states.add_cuda_repository(host)
    else:
        states.install_driver(host, reboot=False)
        states.add_rpm_fusion(host)
    host.reboot()
    return {"packages.two-driver-repositories"}
