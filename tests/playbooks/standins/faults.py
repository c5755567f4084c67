"""Faults beside each other on one host that works: each makes its finding, and none explains another."""

from __future__ import annotations

import json

from tests.playbooks.standins import states
from tests.playbooks.standins.host import Host

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
    """An RDMA port is up; the session may lock 64 KiB."""
    host.run(PORT)
    return {"limits.memlock"}


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
    """A forward-compatibility library of an older driver comes first."""
    folder = "/usr/local/cuda-13.0/compat"
    old = states.driver_versions()["archive"][0]
    source = f"{states.LIB[host.family]}/libcuda.so.{states.newest()}"
    host.run(
        f"mkdir -p {folder} && cp {source} {folder}/libcuda.so.{old} && ln -s libcuda.so.{old} {folder}/libcuda.so.1"
    )
    host.write("/etc/ld.so.conf.d/00-cuda-compat.conf", folder + "\n")
    host.run("ldconfig")
    return {"cuda.libcuda-compat"}


def module_taken_out(host: Host) -> set[str]:
    """Somebody unloaded the driver."""
    host.run("systemctl disable -q --now nvidia-persistenced; modprobe -r nvidia_uvm nvidia")
    return {"driver.not-loaded"}


def node_taken_away(host: Host) -> set[str]:
    """A file lies where a device was: a container was started before the driver."""
    host.run("rm -f /dev/nvidia-uvm && touch /dev/nvidia-uvm")
    return {"driver.device-node-missing"}
