"""Faults beside each other on one host that works: each makes its finding, and none explains another."""

from __future__ import annotations

import json
import shlex

from tests.playbooks.standins import states
from tests.playbooks.standins.host import Host

GCC_14 = "x86_64-linux-gnu-gcc-14 (Ubuntu 14.2.0-4ubuntu2~24.04) 14.2.0"
SPEC = "/etc/cdi/nvidia.yaml"
SOCKET = "/run/nvidia-persistenced/socket"
PODMAN = "#!/bin/sh\necho 'podman version 4.3.1'\n"
"""Older than what reads CDI 0.7 (matrices/container_engines.yml)."""
PORT = """
cp -a /sys/class /run/standin/class 2>/dev/null || true # some files there can only be written
set -e
mkdir -p /run/standin/class/infiniband/mlx5_0/ports/1
cd /run/standin/class/infiniband/mlx5_0/ports/1
echo '4: ACTIVE' >state; echo 'InfiniBand' >link_layer; echo '400 Gb/sec (4X NDR)' >rate
mount --bind /run/standin/class /sys/class
"""


def podman(host: Host) -> None:
    """An engine that reads CDI specifications."""
    host.write("/usr/bin/podman", PODMAN, 0o755)


def cdi_of_another_driver(host: Host) -> set[str]:
    """A specification that a newer toolkit wrote for an older driver."""
    podman(host)
    host.run(
        "systemctl disable -q --now nvidia-cdi-refresh.path nvidia-cdi-refresh.service; rm -f /var/run/cdi/nvidia.yaml"
    )
    host.run(f"nvidia-ctk cdi generate --output={SPEC}")
    old = states.driver_versions()["archive"][0]
    text = host.read(SPEC).replace(states.newest(), old).replace("0.5.0", "0.7.0")
    host.write(SPEC, text)
    return {"container.cdi-stale", "container.cdi-spec-too-new"}


def cdi_of_files_that_went(host: Host) -> set[str]:
    """It mounts a library that is gone and the socket of a daemon that does not run."""
    host.run("systemctl disable -q --now nvidia-persistenced")
    mount = "  - hostPath: {0}\n    containerPath: {0}\n"
    more = "  mounts:\n" + mount.format(SOCKET) + mount.format("/usr/lib/libnvidia-gone.so.1")
    host.write(SPEC, host.read(SPEC).replace("  mounts:\n", more, 1))
    return {"container.cdi-missing-paths", "container.persistenced-socket"}


def docker_of_before(host: Host) -> set[str]:
    """daemon.json was written and Docker not restarted; a setting for rootless Docker beside it."""
    host.write("/etc/docker/daemon.json", json.dumps({"log-opts": {"max-size": "10m"}}) + "\n")
    host.run("systemctl restart docker && nvidia-ctk runtime configure --runtime=docker")
    host.run("nvidia-ctk config --set nvidia-container-cli.no-cgroups=true --in-place")
    return {"container.daemon-not-restarted", "container.no-cgroups"}


def systemd_without_links(host: Host) -> set[str]:
    """systemd keeps the containers' device rules, by a mode that makes no links for it."""
    own = json.loads(host.read("/etc/docker/daemon.json"))
    own["exec-opts"] = ["native.cgroupdriver=systemd"]
    host.write("/etc/docker/daemon.json", json.dumps(own) + "\n")
    host.run("nvidia-ctk config --set nvidia-container-runtime.mode=legacy --in-place")
    host.run("systemctl restart docker; rm -rf /dev/char")
    return {"container.device-cgroup-lost"}


def small_shared_memory(host: Host) -> set[str]:
    """Docker's 64 MiB, and an NCCL from before memory of the host by cuMem."""
    base = f"{states.LIB[host.family]}/libnccl.so.2"
    host.run(f"touch {base}.21.5 && ln -sfn libnccl.so.2.21.5 {base}")
    host.run("mount -o remount,size=64m /dev/shm")
    return {"shm.too-small-for-nccl"}


def locked_memory(host: Host) -> set[str]:
    """An RDMA port is up; an administrator wrote down that sessions may lock 64 KiB."""
    host.run(PORT)
    who = ("* soft", "* hard", "root soft", "root hard")
    host.write(
        "/etc/security/limits.d/10-site.conf", "".join(f"{item} memlock 64\n" for item in who)
    )
    return {"limits.memlock"}


def daemons_off(host: Host) -> set[str]:
    """Docker, the persistence daemon and the watch over CDI specifications, switched off."""
    podman(host)
    host.run(f"nvidia-ctk cdi generate --output={SPEC}")
    units = "docker.socket docker.service nvidia-persistenced.service nvidia-cdi-refresh.path"
    host.run(f"systemctl disable -q --now {units}")
    return {
        "container.daemon-unreachable",
        "container.cdi-refresh",
        "service.persistenced",
        "driver.persistence-off",
    }


def nccl_of_another_version(host: Host) -> set[str]:
    """The system's is older than the one that a wheel brought."""
    names = ("libnccl2", "libnccl-dev") if host.family == "debian" else ("libnccl", "libnccl-devel")
    sign, tail = ("=", "-1+cuda13.0") if host.family == "debian" else ("-", "")
    host.install(*(f"{name}{sign}2.27.7{tail}" for name in names))
    _environment(host, "nvidia-nccl-cu13", "2.29.7")
    host.write(
        "/opt/nvidia-nccl-cu13/lib/python3.11/site-packages/nvidia/nccl/lib/libnccl.so.2", ""
    )
    return {"nccl.copies-differ"}


def flashinfer_without_kernels(host: Host) -> set[str]:
    """vLLM would compile FlashInfer's kernels, and there is no nvcc."""
    _environment(host, "vllm", "0.20.0", prefix="engine")
    _environment(host, "flashinfer-python", "0.6.8", prefix="engine")
    return {"toolkit.missing-nvcc"}


def headers_gone(host: Host) -> set[str]:
    """The module was built, and somebody removed the headers."""
    release = host.out("uname -r")
    host.run(
        f"apt-get -qq -y purge linux-headers-{release}"
        if host.family == "debian"
        else "dnf -q -y remove kernel-devel kernel-devel-matched"
    )
    return {"kernel.headers-gone"}


def stub_before_the_driver(host: Host) -> set[str]:
    """The toolkit's stub is in the loader's cache before the driver's library."""
    folder = "/usr/local/cuda-13.0/targets/x86_64-linux/lib/stubs"
    host.run(
        f"mkdir -p {folder} && cp -L {states.LIB[host.family]}/libcuda.so.1 {folder}/libcuda.so.1"
    )
    host.write("/etc/ld.so.conf.d/00-cuda-stubs.conf", folder + "\n")
    host.run("ldconfig")
    return {"cuda.libcuda-stub"}


def compat_before_the_driver(host: Host) -> set[str]:
    """A forward-compatibility library of another version comes first; a GeForce refuses it for what it is."""
    folder = "/usr/local/cuda-13.0/compat"
    driver = states.newest()
    other = driver[:-1] + ("1" if driver[-1] != "1" else "2")
    source = f"{states.LIB[host.family]}/libcuda.so.{driver}"
    host.run(
        f"mkdir -p {folder} && sed 's/{driver}/{other}/g' {source} >{folder}/libcuda.so.{other} && ln -s libcuda.so.{other} {folder}/libcuda.so.1"
    )
    host.write("/etc/ld.so.conf.d/00-cuda-compat.conf", folder + "\n")
    host.run("ldconfig")
    geforce = "GeForce" in host.read("/etc/standin/gpus")
    return {"cuda.compat-on-unsupported-gpu" if geforce else "cuda.libcuda-compat"}


def link_taken_away(host: Host) -> set[str]:
    """libcuda.so.1 is gone: somebody cleaned up links."""
    host.run(f"rm {states.LIB[host.family]}/libcuda.so.1")
    return {"cuda.libcuda-not-found"}


def module_taken_out(host: Host) -> set[str]:
    """Somebody unloaded the driver."""
    host.run("systemctl disable -q --now nvidia-persistenced; modprobe -r nvidia_uvm nvidia")
    return {"driver.not-loaded"}


def node_taken_away(host: Host) -> set[str]:
    """A file lies where a device was: a container was started before the driver."""
    host.run("rm -f /dev/nvidia-uvm && touch /dev/nvidia-uvm")
    return {"driver.device-node-missing"}


def _unbuilt(host: Host) -> None:
    version = states.newest()
    host.run(f"dkms remove -m nvidia -v {version} --all && dkms add -m nvidia -v {version}")


def module_not_built(host: Host) -> set[str]:
    """DKMS knows the source and has built nothing."""
    _unbuilt(host)
    host.reboot()
    return {"kernel.dkms-failed"}


def compiler_not_here(host: Host) -> set[str]:
    """An Ubuntu kernel built by a newer gcc than the default one; a Rocky without any."""
    _unbuilt(host)
    if host.family == "debian":
        facts = json.loads(host.read("/etc/standin/host.json"))
        facts["compiler"] = GCC_14
        host.write("/etc/standin/host.json", json.dumps(facts) + "\n")
    else:
        host.run("rpm -e --nodeps gcc")
    host.reboot()
    return {"kernel.compiler-mismatch"}


def libraries_alone(host: Host) -> set[str]:
    """The module's package was removed; the libraries stayed."""
    if host.family == "debian":
        host.run("apt-get -qq -y remove nvidia-dkms-open")
    else:
        host.run(
            "dnf -q -y --setopt=clean_requirements_on_remove=False remove kmod-nvidia-open-dkms"
        )
    host.reboot()
    return {"driver.no-module-for-kernel"}


def module_of_another_origin(host: Host) -> set[str]:
    """NVIDIA's module under Ubuntu's libraries; RPM Fusion's libraries beside NVIDIA's driver."""
    if host.family == "debian":
        states.add_cuda_repository(host)
        tail = "580-server"
        archive = f"version {states.driver_versions()['archive'][-1]}-0ubuntu0*"
        host.write("/run/standin/pins", f"Package: *{tail}*\nPin: {archive}\nPin-Priority: 1001\n")
        host.run(
            f"DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o Dir::Etc::preferences=/run/standin/pins install nvidia-utils-{tail} nvidia-compute-utils-{tail} nvidia-dkms-open"
        )
    else:
        states.install_driver(host, reboot=False)
        states.add_rpm_fusion(host)
        host.install("xorg-x11-drv-nvidia-cuda-libs")
    host.reboot()
    return {"packages.mixed-repositories"}


def toolkit_of_before_cgroup_v2(host: Host) -> set[str]:
    """A host with cgroup v2, as far as its files say, and a toolkit that does not know it."""
    mark = "/sys/fs/cgroup/cgroup.controllers"
    host.run(f"[ -e {mark} ] || {{ mount -o remount,rw /sys/fs/cgroup && touch {mark}; }}")
    states.add_toolkit_repository(host)
    sign = "=" if host.family == "debian" else "-"
    version = "1.5.1" + ("-1" if host.family == "debian" else "")
    names = ("nvidia-container-toolkit", "libnvidia-container-tools", "libnvidia-container1")
    host.install(*(f"{name}{sign}{version}" for name in names))
    return {"container.toolkit-too-old"}


# on a driver that runs no CUDA 13 -------------------------------------------------------------------------------


def _environment(host: Host, name: str, version: str, local: str = "", prefix: str = "") -> None:
    """A package of a Python environment, by its metadata."""
    site = f"/opt/{prefix or name}/lib/python3.11/site-packages"
    host.write(
        f"{site}/{name.replace('-', '_')}-{version}{local}.dist-info/METADATA",
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}{local}\n",
    )


def torch_of_cuda_13(host: Host) -> set[str]:
    """A build for CUDA 13."""
    _environment(host, "torch", "2.11.0", "+cu130")
    return {"cuda.driver-too-old"}


def vllm_of_cuda_13(host: Host) -> set[str]:
    """A release that is built for CUDA 13."""
    _environment(host, "vllm", "0.20.0")
    return {"engine.vllm-cuda-vs-driver"}


def tensorrt_llm_of_cuda_13(host: Host) -> set[str]:
    """A release that is built for CUDA 13."""
    _environment(host, "tensorrt-llm", "1.2.1")
    return {"engine.trtllm-driver"}


def _image(host: Host, name: str, variable: str) -> None:
    host.run(
        f"tar -C /etc/standin -c host.json | docker import --change {shlex.quote('ENV ' + variable)} - {name} >/dev/null"
    )


def image_that_requires_cuda_13(host: Host) -> set[str]:
    """As NVIDIA's own images say what they require."""
    _image(host, "nvidia/requires:1", "NVIDIA_REQUIRE_CUDA=cuda>=13.0")
    return {"container.require-cuda"}


def image_with_cuda_13(host: Host) -> set[str]:
    """It requires nothing and has CUDA 13 in it."""
    _image(host, "nvidia/has:1", "CUDA_VERSION=13.0.0")
    return {"container.image-cuda"}
