"""Hosts broken on purpose: a recipe changes one stand-in so that one finding is the first that matters."""

from __future__ import annotations

import json

from tests.playbooks.standins.host import Host
from tests.playbooks.standins.image import driver_versions

LIB = {"debian": "/usr/lib/x86_64-linux-gnu", "rhel": "/usr/lib64"}
CODES = {
    "ubuntu2204": "ubuntu2204",
    "ubuntu2404": "ubuntu2404",
    "wsl2": "wsl-ubuntu",
    "rocky9": "rhel9",
    "rocky10": "rhel10",
}


def repository(host: Host) -> str:
    """Address of NVIDIA's repository for a host."""
    return f"https://developer.download.nvidia.com/compute/cuda/repos/{CODES[host.flavor]}/x86_64"


def fetch(host: Host, url: str, path: str) -> None:
    """A file of the mirror."""
    host.run(["curl", "-fsSL", "--create-dirs", "-o", path, url])


def add_cuda_repository(host: Host) -> None:
    """NVIDIA's repository as its guide adds it."""
    url = repository(host)
    if host.family == "debian":
        fetch(host, f"{url}/cuda-keyring_1.1-1_all.deb", "/tmp/keyring.deb")
        host.run("dpkg -i /tmp/keyring.deb && apt-get -qq update")
        return
    code = CODES[host.flavor]
    fetch(host, f"{url}/cuda-{code}.repo", f"/etc/yum.repos.d/cuda-{code}.repo")
    host.run(f"rpm --import {url}/{'D42D0685' if code == 'rhel9' else 'CDF6BA43'}.pub")
    host.install("epel-release")


def add_toolkit_repository(host: Host) -> None:
    """The container toolkit's repository as its guide adds it."""
    base = "https://nvidia.github.io/libnvidia-container"
    if host.family == "rhel":
        fetch(
            host,
            f"{base}/stable/rpm/nvidia-container-toolkit.repo",
            "/etc/yum.repos.d/nvidia-container-toolkit.repo",
        )
        return
    ring = "/usr/share/keyrings/nvidia-container-toolkit-keyring.gpg"
    host.run(f"curl -fsSL {base}/gpgkey | gpg --dearmor -o {ring}")
    host.write(
        "/etc/apt/sources.list.d/nvidia-container-toolkit.list",
        f"deb [signed-by={ring}] {base}/stable/deb/$(ARCH) /\n",
    )
    host.run("apt-get -qq update")


def add_rpm_fusion(host: Host) -> None:
    """Its repository, which has a driver too."""
    url = f"https://download1.rpmfusion.org/nonfree/el/updates/{host.flavor[5:]}/x86_64"
    host.write(
        "/etc/yum.repos.d/rpmfusion-nonfree-updates.repo",
        f"[rpmfusion-nonfree-updates]\nname=RPM Fusion\nbaseurl={url}\nenabled=1\ngpgcheck=0\n",
    )


def newest() -> str:
    """The newest driver of the mirror."""
    return driver_versions()["drivers"][-1]


def install_driver(host: Host, version: str | None = None, *, reboot: bool = True) -> str:
    """A driver from NVIDIA's repository, running after a reboot."""
    version = version or newest()
    add_cuda_repository(host)
    if host.family == "debian":
        _apt_at(host, version)
    else:
        if host.flavor == "rocky9":
            host.run(f"dnf -q -y module enable nvidia-driver:{version.split('.')[0]}-open")
        host.run(f"dnf -q -y install nvidia-open-3:{version} kmod-nvidia-open-dkms-3:{version}")
        host.run("systemctl enable -q nvidia-persistenced")
    if reboot:
        host.reboot()
    return version


def _apt_at(host: Host, version: str) -> None:
    """nvidia-open and all that it needs in one version, whatever is newer."""
    pins = "/run/standin/pins"
    host.write(pins, f"Package: *nvidia*\nPin: version {version}-*\nPin-Priority: 1001\n")
    host.run(
        f"DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o Dir::Etc::preferences={pins} install nvidia-open"
    )


def install_docker(host: Host) -> None:
    """The engine: Ubuntu's own, Docker's on the EL family."""
    if host.family == "debian":
        host.install("docker.io")
        return
    fetch(
        host,
        "https://download.docker.com/linux/rhel/docker-ce.repo",
        "/etc/yum.repos.d/docker-ce.repo",
    )
    host.run("rpm --import https://download.docker.com/linux/rhel/gpg")
    host.install("docker-ce", "docker-ce-cli", "containerd.io")
    host.run("systemctl enable -q --now docker")


def install_toolkit(host: Host, version: str | None = None, *, register: bool = True) -> None:
    """The container toolkit, registered with the running engine."""
    add_toolkit_repository(host)
    names = [
        "nvidia-container-toolkit",
        "nvidia-container-toolkit-base",
        "libnvidia-container-tools",
        "libnvidia-container1",
    ]
    sign = "=" if host.family == "debian" else "-"
    host.install(*(f"{name}{sign}{version}-1" if version else name for name in names))
    if register:
        host.run("nvidia-ctk runtime configure --runtime=docker && systemctl restart docker")


def hold_driver(host: Host) -> None:
    """The driver's packages kept at their version."""
    if host.family == "debian":
        host.run(
            "apt-mark hold $(dpkg-query -W -f '${db:Status-Abbrev} ${Package}\\n' '*nvidia*' | awk '/^.i/ {print $2}' | grep -v -e keyring -e container) >/dev/null"
        )
    else:
        host.install("python3-dnf-plugin-versionlock")
        host.run(
            "dnf -q versionlock add $(rpm -qa --qf '%{NAME}\\n' '*nvidia*' | grep -v container)"
        )


# broken on purpose ----------------------------------------------------------------------------------------------


def nouveau_bound(host: Host) -> str:
    """The driver is installed, but nouveau has the board: its blacklist and the loader's arguments are gone."""
    install_driver(host, reboot=False)
    host.run("rm -f /lib/modprobe.d/nvidia-graphics-drivers.conf /usr/lib/modprobe.d/nvidia.conf")
    if host.family == "debian":
        host.run("update-initramfs -u -k all")
    else:
        host.run(
            "grubby --update-kernel=ALL --remove-args='rd.driver.blacklist=nouveau modprobe.blacklist=nouveau'; dracut -f --regenerate-all"
        )
    host.reboot()
    return "driver.gpu-held-by-other-module"


def no_driver(host: Host) -> str:
    """A bare host."""
    return "driver.not-installed"


def library_mismatch(host: Host) -> str:
    """Packages were upgraded under a loaded module."""
    old, new = driver_versions()["archive"][0], driver_versions()["archive"][-1]
    install_driver(host, old)
    if host.family == "debian":
        _apt_at(host, new)
    else:
        host.run(f"dnf -q -y upgrade nvidia-open-3:{new}")
    return "driver.library-mismatch"


def no_headers(host: Host) -> str:
    """The driver came without the kernel's headers, so that DKMS built nothing."""
    release = host.out("uname -r")
    if host.family == "debian":
        host.run(f"apt-get -qq -y purge linux-headers-{release}")
    else:
        host.run("dnf -q -y remove kernel-devel kernel-devel-matched")
    install_driver(host)
    return "kernel.headers-missing"


def no_toolkit(host: Host) -> str:
    """Driver and Docker, but nothing that gives a GPU to a container."""
    install_driver(host)
    install_docker(host)
    return "container.toolkit-missing"


def not_registered(host: Host) -> str:
    """The toolkit is installed, and the running engine does not know it. The owner has settings of their own."""
    install_driver(host)
    install_docker(host)
    host.write(
        "/etc/docker/daemon.json",
        json.dumps({"log-opts": {"max-size": "10m"}, "live-restore": True}, indent=2) + "\n",
    )
    host.run("systemctl restart docker")
    install_toolkit(host, register=False)
    return "container.runtime-not-registered"


def unattended(host: Host) -> str:
    """Unattended upgrades that would change the driver under a running engine: Ubuntu's look at its own archive, dnf's at everything."""
    if host.family == "debian":
        host.install("nvidia-driver-580-server-open", "unattended-upgrades")
    else:
        install_driver(host, reboot=False)
        host.install("dnf-automatic")
        host.run("systemctl enable -q dnf-automatic-install.timer")
    host.reboot()
    return "packages.unattended-driver-upgrades"
