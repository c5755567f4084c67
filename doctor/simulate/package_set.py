"""Which packages a described host has, with versions spelt as its repositories spell them. Fillers, never rules."""

from __future__ import annotations

from doctor.simulate.host import Host
from doctor.simulate.kernel import releases, uses_dkms


def packages_of(host: Host) -> dict[str, str]:
    """name -> version; what the description names comes last and replaces, `none` takes away."""
    found = _debian(host) if host.family == "debian" else _rpm(host)
    found |= host.d.packages
    return {name: version for name, version in found.items() if version != "none"}


def held_packages(host: Host, found: dict[str, str]) -> list[str]:
    """What the description holds; left out, everything that could pull driver and kernel apart."""
    if host.d.holds is not None:
        return host.d.holds
    if host.driver.package is None:
        return []
    parts = (
        "nvidia",
        "libnvidia",
        "cuda-drivers",
        "libcuda1",
        "linux-image",
        "kernel",
        "kmod-nvidia",
        "linux-generic",
        "linux-modules-nvidia",
    )
    return sorted(name for name in found if name.startswith(parts) and "container" not in name)


def el_tag(host: Host) -> str:
    """el9, fc42, amzn2023."""
    if host.distro_id == "fedora":
        return f"fc{host.distro_version}"
    if host.distro_id == "amzn":
        return f"amzn{host.distro_version}"
    return f"el{host.distro_version.partition('.')[0]}"


def _there(version: str | None) -> bool:
    return version not in (None, "none", "")


def _debian(host: Host) -> dict[str, str]:
    found: dict[str, str] = {}
    if host.d.platform not in ("wsl2", "jetson"):
        for release in releases(host):
            found[f"linux-image-{release}"] = release.rpartition("-")[0] + ".1"
            if host.d.headers in (None, release):
                found[f"linux-headers-{release}"] = release.rpartition("-")[0] + ".1"
            if host.distro_id == "ubuntu":
                found[f"linux-modules-{release}"] = release.rpartition("-")[0] + ".1"
                if not host.d.no_modules_extra:
                    found[f"linux-modules-extra-{release}"] = release.rpartition("-")[0] + ".1"
        meta = "linux-image-generic" if host.distro_id == "ubuntu" else "linux-image-amd64"
        found[meta] = host.kernel.rpartition("-")[0]
    if host.driver.package:
        found |= _debian_driver(host, host.driver.package)
    if uses_dkms(host):
        found["dkms"] = "3.0.11-1ubuntu13" if host.distro_id == "ubuntu" else "3.0.10-8"
    if host.d.unattended_upgrades.enabled:
        found["unattended-upgrades"] = "2.9.1+nmu4ubuntu1"
    tail = "-0ubuntu1" if host.distro_id == "ubuntu" else "-1"
    manager = host.d.fabric_manager
    if manager and manager.state != "absent" and manager.version:
        found[f"nvidia-fabricmanager-{manager.version.partition('.')[0]}"] = manager.version + tail
    imex = host.d.imex
    if imex and imex.state != "absent" and imex.version:
        found[f"nvidia-imex-{imex.version.partition('.')[0]}"] = imex.version + tail
    if host.d.compat:
        found["cuda-compat-" + _dashed(host.d.toolkits[0] if host.d.toolkits else "13.0")] = (
            host.d.compat.version + tail
        )
    for toolkit in host.d.toolkits:
        found[f"cuda-toolkit-{_dashed(toolkit)}"] = f"{toolkit}.0-1"
    if host.d.nccl.system:
        found["libnccl2"] = f"{host.d.nccl.system}-1+cuda13.0"
    if host.d.cudnn.system:
        found["libcudnn9-cuda-13"] = f"{host.d.cudnn.system}-1"
    return found | _containers(host, "-1", "5:{v}-1~" + f"{host.distro_id}.{host.distro_version}")


def _debian_driver(host: Host, version: str) -> dict[str, str]:
    branch = version.partition(".")[0]
    is_open = host.driver.flavor == "open"
    archive = host.driver.origin == "distro"
    if host.distro_id != "ubuntu":
        spelt = version + (f"-1~deb{host.distro_version}u1" if archive else "-1")
        kernel = "nvidia-open-kernel-dkms" if archive else "nvidia-kernel-open-dkms"
        names = [
            "nvidia-driver",
            "libcuda1",
            "libnvidia-ml1",
            "nvidia-smi",
            "nvidia-kernel-support",
            "nvidia-modprobe",
        ]
        return dict.fromkeys([*names, kernel if is_open else "nvidia-kernel-dkms"], spelt)
    spelt = version + (f"-0ubuntu0.{host.distro_version}.1" if archive else "-0ubuntu1")
    tail = f"{branch}-open" if is_open else branch
    names = [
        f"nvidia-driver-{tail}",
        f"nvidia-kernel-common-{branch}",
        f"libnvidia-compute-{branch}",
    ]
    names += [
        f"nvidia-utils-{branch}",
        f"nvidia-compute-utils-{branch}",
        f"nvidia-firmware-{branch}-{version}",
    ]
    if uses_dkms(host):
        names.append(f"nvidia-dkms-{tail}")
    else:
        names += [f"linux-modules-nvidia-{tail}-{release}" for release in releases(host)]
    return dict.fromkeys(names, spelt)


def _rpm(host: Host) -> dict[str, str]:
    tag = el_tag(host)
    found: dict[str, str] = {}
    version = host.next_kernel.rpartition(".")[0]
    if host.d.platform not in ("wsl2", "jetson"):
        found |= dict.fromkeys(["kernel-core", "kernel-modules-core", "kernel-modules"], version)
        if host.d.headers in (None, host.next_kernel):
            found |= dict.fromkeys(["kernel-devel", "kernel-headers"], version)
    if host.driver.package:
        found |= _rpm_driver(host, host.driver.package, tag)
    if uses_dkms(host):
        found["dkms"] = f"3.2.2-1.{tag}"
        found["epel-release"] = f"9-10.{tag}"
    if host.d.unattended_upgrades.enabled:
        found["dnf-automatic"] = f"4.14.0-25.{tag}"
    manager = host.d.fabric_manager
    if manager and manager.state != "absent" and manager.version:
        found["nvidia-fabricmanager"] = f"{manager.version}-1"
    for toolkit in host.d.toolkits:
        found[f"cuda-toolkit-{_dashed(toolkit)}"] = f"{toolkit}.0-1"
    if host.d.nccl.system:
        found["libnccl"] = f"{host.d.nccl.system}-1+cuda13.0"
    return found | _containers(host, "-1", "3:{v}-1." + tag)


def _rpm_driver(host: Host, version: str, tag: str) -> dict[str, str]:
    if host.driver.origin == "distro" and host.distro_id == "fedora":
        return dict.fromkeys(
            ["akmod-nvidia", "xorg-x11-drv-nvidia", "xorg-x11-drv-nvidia-cuda"],
            f"3:{version}-1.{tag}",
        )
    is_open = host.driver.flavor == "open"
    if uses_dkms(host):
        kmod = "kmod-nvidia-open-dkms" if is_open else "kmod-nvidia-latest-dkms"
    else:
        kmod = "kmod-nvidia-open" if is_open else "kmod-nvidia"
    names = [
        "nvidia-driver",
        "nvidia-driver-cuda",
        "nvidia-driver-cuda-libs",
        "nvidia-kmod-common",
        "nvidia-modprobe",
    ]
    return dict.fromkeys(
        [*names, kmod, "nvidia-open" if is_open else "cuda-drivers"], f"3:{version}-1.{tag}"
    )


def _containers(host: Host, tail: str, docker: str) -> dict[str, str]:
    part = host.d.containers
    found: dict[str, str] = {}
    if _there(part.toolkit):
        names = [
            "nvidia-container-toolkit",
            "nvidia-container-toolkit-base",
            "libnvidia-container1",
            "libnvidia-container-tools",
        ]
        found |= dict.fromkeys(names, f"{part.toolkit}{tail}")
    for name, version in part.toolkit_packages.items():
        found[name] = version if version == "none" else version + tail
    if _there(part.docker) and part.origin not in ("snap", "desktop"):
        found["docker-ce"] = docker.format(v=part.docker)
        found["containerd.io"] = f"{part.containerd or '1.7.27'}{tail}"
    elif _there(part.containerd):
        found["containerd.io"] = f"{part.containerd}{tail}"
    if _there(part.podman):
        found["podman"] = f"{part.podman}{tail}"
    return found


def _dashed(version: str) -> str:
    return "-".join(version.split(".")[:2])
