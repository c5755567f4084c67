"""Container engines: what answers, where it comes from and how it is set. Toolkit, CDI, devices, images and running
containers are in the modules beside this one.
"""

from __future__ import annotations

from doctor.checks.areas.advice import by_family
from doctor.checks.areas.container_toolkit import CONFIGURE, NO_DOCKER, nvidia_runtimes
from doctor.checks.areas.presence import HAS_GPU, docker_answers, has_gpu, in_container
from doctor.checks.base import ERROR, INFO, WARN, Fix, Result, check, failed, passed, skipped
from doctor.checks.base import unseen as not_seen
from doctor.checks.knowledge import Knowledge
from doctor.facts.model import Absent, NotApplicable, known_or
from doctor.facts.tree import Facts


@check(
    "container.daemon-unreachable",
    title="The Docker that is installed answers",
    severity=WARN,
    reads=("container.docker_from", "container.docker_socket"),
    sources=("docker-protect-access",),
    fix=Fix(
        "start Docker",
        command="sudo systemctl enable --now docker",
        disturbs="service",
        remedy="container_engine",
    ),
)
def daemon_unreachable(f: Facts, k: Knowledge) -> Result:
    """An installed Docker that does not answer runs no container."""
    socket = f.container.docker_socket
    if isinstance(socket, NotApplicable):
        return skipped(socket.reason)
    state = known_or(socket, "absent")
    if state == "answers":
        return passed("Docker answers on its socket")
    origin = known_or(f.container.docker_from, "")
    if not origin:
        return skipped("Docker is not installed")
    if state == "denied":
        return not_seen(
            "permission denied on Docker's socket; run with sudo or join the docker group"
        )
    said = {
        "asleep": "does not run (systemd would start it with the first request)",
        "refused": "does not answer: its socket is there and nothing listens",
        "absent": "does not run: it has no socket",
    }
    return failed(f"Docker ({origin}) {said.get(state, state)}", want="a Docker that answers")


@check(
    "container.docker-snap",
    title="The Docker that answers can use the installed toolkit",
    severity=ERROR,
    reads=(
        "container.snap_docker",
        "container.docker_from",
        "container.docker_socket",
        "container.docker_runtimes",
        "host.os_release",
        *HAS_GPU,
    ),
    sources=("nvidia-docker#1637", "nvidia-docker#1642"),
    fix=Fix(
        "remove the snap, install Docker from packages, then register the runtime",
        command="sudo snap remove docker && sudo apt-get install -y docker.io && "
        "sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl restart docker",
        disturbs="service",
    ),
)
def docker_snap(f: Facts, k: Knowledge) -> Result:
    """The snap is confined: it reads its own daemon.json and cannot run the toolkit of the host."""
    if isinstance(f.container.snap_docker, NotApplicable):
        return skipped(f.container.snap_docker.reason)
    if (
        not known_or(f.container.snap_docker, False)
        or known_or(f.container.docker_from, "") != "snap"
    ):
        return passed(
            f"Docker is not a snap ({known_or(f.container.docker_from, 'not installed')})"
        )
    if not has_gpu(f):
        return skipped("no NVIDIA device for containers to use")
    if docker_answers(f):
        ours = nvidia_runtimes(f.container.docker_runtimes.value)
        if ours:
            return passed(f"Docker is a snap and brings the runtime {', '.join(ours)} itself")
    return failed(
        "Docker is the snap package: it reads /var/snap/docker/current/config/daemon.json, is confined "
        "and knows no NVIDIA runtime",
        want="docker-ce or docker.io from packages",
        command="sudo snap remove docker && "
        + by_family(
            f,
            debian="sudo apt-get install -y docker.io",
            rhel="sudo dnf install -y docker-ce",
            suse="sudo zypper install -y docker",
        )
        + f" && {CONFIGURE}",
    )


@check(
    "container.docker-desktop",
    title="The Docker that answers can reach the GPU",
    severity=WARN,
    reads=("container.docker_from", *HAS_GPU),
    sources=("docker-desktop-gpu",),
    fix=Fix(
        "use Docker Engine on the host: Docker Desktop gives GPUs to containers on Windows with WSL2 only",
        command="docker context use default && sudo systemctl enable --now docker",
    ),
)
def docker_desktop(f: Facts, k: Knowledge) -> Result:
    """Docker Desktop for Linux runs containers in a virtual machine that has no GPU."""
    origin = f.container.docker_from
    if isinstance(origin, Absent):
        return skipped("Docker is not installed")
    if origin.value != "desktop":
        return passed(f"Docker comes from {origin.value}, not Docker Desktop")
    if f.host.hardware.value == "wsl2":
        return passed("Docker Desktop with WSL2, which gives containers the GPU")
    if not has_gpu(f):
        return skipped("no NVIDIA device for containers to use")
    return failed(
        "Docker Desktop answers on a Linux host with an NVIDIA device: its virtual machine has none",
        want="Docker Engine",
    )


@check(
    "container.rootless",
    title="Docker runs as root",
    severity=INFO,
    reads=("container.docker_socket", "container.docker_rootless"),
    sources=("docker-rootless", "cloud-native-docs-install-guide"),
    fix=Fix(
        "nothing, if rootless is meant: the runtime goes into ~/.config/docker/daemon.json and "
        "no-cgroups must be true",
        command="nvidia-ctk runtime configure --runtime=docker --config=$HOME/.config/docker/daemon.json",
    ),
)
def rootless(f: Facts, k: Knowledge) -> Result:
    """A rootless daemon has its own file and cannot give containers more than its user has."""
    if not docker_answers(f):
        return skipped(NO_DOCKER)
    if f.container.docker_rootless.value:
        return failed(
            "Docker is rootless: it reads ~/.config/docker/daemon.json, and containers get at most its "
            "user's memlock and nofile limits",
            want="known and meant",
        )
    return passed("Docker is rootful")


@check(
    "container.remote-endpoint",
    title="The docker command of this shell talks to this host",
    severity=WARN,
    reads=("container.docker_host",),
    sources=("docker-contexts",),
    fix=Fix(
        "use the local daemon for this host's containers",
        command="unset DOCKER_HOST && docker context use default",
    ),
)
def remote_endpoint(f: Facts, k: Knowledge) -> Result:
    """With an endpoint elsewhere, docker commands look at and change another machine."""
    where = f.container.docker_host
    if not known_or(where, ""):
        return passed("docker commands go to the local socket")
    if where.value.startswith("unix://"):
        return passed(f"docker commands go to the local socket {where.value}")
    return failed(
        f"docker commands of this shell go to {where.value}, not to this host",
        want="the local socket",
    )


@check(
    "container.docker-tcp",
    title="Docker does not listen on the network without TLS",
    severity=WARN,
    reads=("container.docker_socket", "container.daemon_json"),
    sources=("docker-protect-access",),
    fix=Fix(
        "remove the tcp:// host from daemon.json or require client certificates, then restart Docker",
        command="sudo systemctl restart docker",
        disturbs="service",
    ),
)
def docker_tcp(f: Facts, k: Knowledge) -> Result:
    """Whoever reaches an open Docker port is root on the host."""
    if not docker_answers(f):
        return skipped(NO_DOCKER)
    settings = known_or(f.container.daemon_json, {})
    hosts = settings.get("hosts") or []
    open_hosts = [
        str(host)
        for host in (hosts if isinstance(hosts, list) else [hosts])
        if str(host).startswith("tcp://") and not _loopback(str(host))
    ]
    if open_hosts and settings.get("tlsverify") is not True:
        return failed(
            f"daemon.json lets Docker listen on {open_hosts[0]} without tlsverify: whoever reaches it "
            "is root here",
            want="no tcp host, or tlsverify",
        )
    return passed(f"daemon.json opens {len(open_hosts)} network port(s) without TLS checks")


def _loopback(host: str) -> bool:
    return host.removeprefix("tcp://").startswith(("127.", "localhost", "[::1]"))


@check(
    "container.storage-driver",
    title="Docker's storage driver suits images of many gigabytes",
    severity=WARN,
    reads=("container.docker_socket", "container.docker_storage_driver"),
    sources=("docker-storage-drivers", "docker-deprecated"),
    fix=Fix(
        'set "storage-driver": "overlay2" in daemon.json and restart; images are then pulled again',
        command="sudo systemctl restart docker",
        disturbs="service",
    ),
)
def storage_driver(f: Facts, k: Knowledge) -> Result:
    """vfs copies every layer whole; devicemapper, aufs and overlay are deprecated or gone."""
    if not docker_answers(f):
        return skipped(NO_DOCKER)
    driver = f.container.docker_storage_driver.value
    if driver in ("vfs", "devicemapper", "aufs", "overlay"):
        why = "copies every layer whole" if driver == "vfs" else "is deprecated"
        return failed(f"Docker stores images with {driver}, which {why}", want="overlay2")
    return passed(f"Docker stores images with {driver}")


@check(
    "container.cgroup-v1",
    title="The host has cgroup v2",
    severity=INFO,
    reads=("host.container", "host.os_release", "container.cgroup_version"),
    sources=("docker-deprecated-support-for-cgroup-v1",),
    fix=Fix(
        "boot with systemd.unified_cgroup_hierarchy=1",
        command="sudo grubby --update-kernel=ALL --args=systemd.unified_cgroup_hierarchy=1",
        disturbs="reboot",
    ),
)
def cgroup_v1(f: Facts, k: Knowledge) -> Result:
    """Engines are leaving cgroup v1."""
    if in_container(f):
        return skipped("inside a container; look on the host")
    version = f.container.cgroup_version.value
    if version == "v2":
        return passed("cgroup v2")
    setting = "systemd.unified_cgroup_hierarchy=1"
    grub = (
        f"sudo sed -i 's/^GRUB_CMDLINE_LINUX=\"/&{setting} /' /etc/default/grub && sudo update-grub"
    )
    return failed(
        f"cgroup {version}: engines deprecate v1",
        want="cgroup v2",
        command=by_family(f, debian=grub, rhel=f"sudo grubby --update-kernel=ALL --args={setting}"),
    )
