"""The NVIDIA Container Toolkit: is it there, does the engine know it, is it new enough and rightly set."""

from __future__ import annotations

from typing import Any

from doctor.checks.areas.advice import by_family, install
from doctor.checks.areas.presence import HAS_GPU, docker_answers, has_gpu
from doctor.checks.base import ERROR, WARN, Fix, Result, check, failed, passed, seen, skipped
from doctor.checks.knowledge import Knowledge
from doctor.facts.model import Absent, FactUnknown, Known, NotApplicable, known_or
from doctor.facts.tree import Facts
from doctor.facts.versions import Pep440Version
from doctor.matrix.model import ContainerCve, Statement

CONFIG = "/etc/nvidia-container-runtime/config.toml"
NO_TOOLKIT = "the NVIDIA Container Toolkit is not installed"
NO_DOCKER = "no Docker daemon runs here"
RESTART = "sudo systemctl restart docker"
CONFIGURE = "sudo nvidia-ctk runtime configure --runtime=docker && " + RESTART
MODE = ("container.toolkit_version", "container.toolkit_config")
"""What mode_in_use reads."""


def statement(k: Knowledge, id: str) -> Statement:
    """A rule of the container table; its absence is the matrix's fault."""
    found = k.matrix.statement("container_rules", id)
    if found is None:
        raise KeyError(f"the matrix has no rule {id}")
    return found


def version_of(text: str) -> Pep440Version:
    """A version as engines print it: 20.10.24+dfsg1, 1.7.28~ds1, v2.1.5."""
    found = Pep440Version.maybe(text.lstrip("v").partition("~")[0])
    if found is None:
        raise FactUnknown(f"{text!r} is not a version", "version")
    return found


def mode_in_use(f: Facts, k: Knowledge) -> str:
    """cdi or legacy: what the config says, else what `auto` means for this version."""
    said = str(
        known_or(f.container.toolkit_config, {}).get("nvidia-container-runtime.mode", "auto")
    )
    if said in ("cdi", "legacy", "csv"):
        return said
    jit = statement(k, "container.default-mode").versions or ">=0"
    return "cdi" if version_of(f.container.toolkit_version.value).satisfies(jit) else "legacy"


def setting(f: Facts, name: str) -> Any:
    """One value of config.toml; None when the file or the line is not there."""
    return known_or(f.container.toolkit_config, {}).get(name)


def upgrade(f: Facts) -> str:
    """Brings the toolkit's four packages to the repository's newest, together."""
    names = (
        "nvidia-container-toolkit nvidia-container-toolkit-base libnvidia-container-tools "
        "libnvidia-container1"
    )
    return by_family(
        f,
        debian=f"sudo apt-get update && sudo apt-get install -y --only-upgrade {names}",
        rhel=f"sudo dnf upgrade -y --refresh {names}",
        suse=f"sudo zypper --non-interactive update {names}",
    )


def nvidia_runtimes(names: Any) -> list[str]:
    """Runtimes that are NVIDIA's, by name."""
    return sorted(name for name in names if str(name).startswith("nvidia"))


@check(
    "container.toolkit-missing",
    title="A container engine on a GPU host has the NVIDIA Container Toolkit",
    severity=WARN,
    reads=(
        *HAS_GPU,
        "host.os_release",
        "container.docker_version",
        "container.podman_version",
        "container.containerd_version",
        "container.containerd_runtimes",
        "container.toolkit_version",
        "container.docker_from",
        "container.docker_runtimes",
    ),
    sources=("cloud-native-docs-install-guide", "nvidia-docker#1034"),
    fix=Fix(
        "install nvidia-container-toolkit from NVIDIA's repository, then register it with the engine",
        command="doctor fix --want container",
        disturbs="service",
        remedy="container_toolkit",
    ),
)
def toolkit_missing(f: Facts, k: Knowledge) -> Result:
    """Containers get GPUs through the toolkit, whichever engine runs them."""
    if isinstance(f.container.toolkit_version, NotApplicable):
        return skipped(f.container.toolkit_version.reason)
    engines = {
        "Docker": f.container.docker_version,
        "podman": f.container.podman_version,
    }
    if nvidia_runtimes(known_or(f.container.containerd_runtimes, [])):
        engines["containerd"] = f.container.containerd_version
    version = known_or(f.container.toolkit_version, "")
    if version:
        return passed(f"NVIDIA Container Toolkit {version} is installed")
    there = [f"{name} {known_or(fact, '')}" for name, fact in engines.items() if known_or(fact, "")]
    if not there:
        return skipped("no Docker or podman here, and no containerd that names an NVIDIA runtime")
    if not has_gpu(f):
        return skipped("no NVIDIA device for containers to use")
    if known_or(f.container.docker_from, "") in ("desktop", "snap") and nvidia_runtimes(
        known_or(f.container.docker_runtimes, [])
    ):
        return passed(f"{there[0]} brings its own NVIDIA runtime")
    return failed(
        f"{', '.join(there)} on a host with an NVIDIA device and no NVIDIA Container Toolkit: "
        "containers cannot get a GPU",
        want="nvidia-container-toolkit installed",
        command=install(f, "nvidia-container-toolkit")
        + (f" && {CONFIGURE}" if known_or(f.container.docker_version, "") else ""),
        rows=[statement(k, "container.repository")],
    )


@check(
    "container.runtime-not-registered",
    title="The running Docker knows the NVIDIA runtime",
    severity=ERROR,
    needs=(
        "container.docker-snap",
        "container.daemon-not-restarted",
        "container.toolkit-too-old",
    ),
    reads=(
        "container.docker_socket",
        "container.docker_runtimes",
        "container.docker_cdi_dirs",
        "container.cdi_specs",
        "container.toolkit_version",
        "container.running",
    ),
    sources=(
        "cloud-native-docs-install-guide",
        "nvidia-docker#1034",
        "nvidia-container-toolkit#871",
    ),
    fix=Fix(
        "register the runtime in daemon.json and restart Docker",
        command=CONFIGURE,
        disturbs="service",
        remedy="container_toolkit",
    ),
)
def runtime_not_registered(f: Facts, k: Knowledge) -> Result:
    """With the toolkit installed, Docker must know its runtime or read a CDI specification."""
    if isinstance(f.container.toolkit_version, Absent):
        return skipped(NO_TOOLKIT)
    version = f.container.toolkit_version.value
    if not docker_answers(f):
        return skipped(NO_DOCKER)
    runtimes = f.container.docker_runtimes.value
    ours = nvidia_runtimes(runtimes)
    if ours:
        return passed(f"the running Docker knows the runtime {', '.join(ours)}")
    folders, specs = known_or(f.container.docker_cdi_dirs, []), known_or(f.container.cdi_specs, [])
    if folders and specs:
        return passed(
            f"no NVIDIA runtime, but Docker reads CDI and {specs[0].path} is there for --gpus"
        )
    served = [item.name for item in known_or(f.container.running, []) if item.gpus]
    if served:
        return passed(f"no NVIDIA runtime, but the container {served[0]} runs with GPUs")
    return failed(
        f"the running Docker knows {', '.join(runtimes)} and not nvidia, although toolkit "
        f"{version} is installed: --runtime nvidia is refused, and --gpus "
        "works only if dockerd was started after the toolkit came",
        want="the runtime nvidia in `docker info`",
        rows=[statement(k, "container.restart-after-configure")],
    )


@check(
    "container.daemon-not-restarted",
    title="The running Docker has read the runtimes of daemon.json",
    severity=ERROR,
    needs=("container.docker-snap",),
    reads=(
        "container.docker_socket",
        "container.daemon_json",
        "container.docker_runtimes",
        "container.daemon_json_mtime",
        "container.docker_since",
        "container.docker_from",
    ),
    sources=("cloud-native-docs-install-guide", "local-multimodal-ai-chat#31"),
    fix=Fix(
        "restart the daemon, or configure the file that this daemon reads",
        command=RESTART,
        disturbs="service",
        remedy="container_toolkit",
    ),
)
def daemon_not_restarted(f: Facts, k: Knowledge) -> Result:
    """A runtime in the file is no use until the daemon that answers has read it."""
    if not docker_answers(f):
        return skipped(NO_DOCKER)
    said = known_or(f.container.daemon_json, {}).get("runtimes")
    wanted = sorted(said) if isinstance(said, dict) else []
    knows = f.container.docker_runtimes.value
    missing = [name for name in wanted if name not in knows]
    if not wanted:
        return passed("daemon.json names no runtime that the daemon would have to know")
    if not missing:
        return passed(f"the running Docker knows {', '.join(wanted)}, as daemon.json says")
    file = f.container.daemon_json
    path = file.via if isinstance(file, Known) else "daemon.json"
    why = "it was not restarted, or another daemon reads another file"
    written, started = f.container.daemon_json_mtime, f.container.docker_since
    if isinstance(written, Known) and isinstance(started, Known) and written.value > started.value:
        why = f"the file was changed {written.value - started.value} s after the daemon started"
    desktop = known_or(f.container.docker_from, "") == "desktop"
    return failed(
        f"{path} names the runtime {', '.join(missing)}, the running Docker knows only "
        f"{', '.join(knows)}: {why}",
        want=f"{', '.join(missing)} among the daemon's runtimes",
        say="restart Docker Desktop; it reads its own settings and not this file"
        if desktop
        else None,
        command="docker info --format '{{json .Runtimes}}'" if desktop else None,
        rows=[statement(k, "container.restart-after-configure")],
    )


@check(
    "container.toolkit-too-old",
    title="The container toolkit is new enough for this host's cgroups and driver",
    severity=ERROR,
    reads=(
        "container.toolkit_version",
        "container.toolkit_packages",
        "container.cgroup_version",
        "host.hardware",
        "host.os_release",
        "wsl.lib_dir",
    ),
    sources=("nvidia-container-toolkit#7", "nvidia-container-toolkit#520"),
    fix=Fix(
        "upgrade nvidia-container-toolkit from NVIDIA's current repository",
        command="doctor fix --want container",
        disturbs="service",
        remedy="container_toolkit",
    ),
)
def toolkit_too_old(f: Facts, k: Knowledge) -> Result:
    """cgroup v2 and newer Windows drivers each have a first toolkit that can handle them."""
    if isinstance(f.container.toolkit_version, Absent):
        return skipped(NO_TOOLKIT)
    packages = known_or(f.container.toolkit_packages, {})
    version = packages.get("libnvidia-container1") or f.container.toolkit_version.value
    have = version_of(version)
    asked: list[tuple[Statement, str]] = []
    if f.container.cgroup_version.value == "v2":
        asked.append((statement(k, "container.cgroup-v2"), "cgroup v2"))
    if f.host.hardware.value == "wsl2" and "libnvdxgdmal.so.1" in known_or(f.wsl.lib_dir, []):
        asked.append((statement(k, "container.wsl-driver-555"), "this Windows driver"))
    for row, what in asked:
        if row.minimum and have < Pep440Version.parse(row.minimum):
            return failed(
                f"libnvidia-container {version} is older than {row.minimum}, which {what} needs",
                want=f"{row.minimum} or newer",
                command=upgrade(f),
                rows=[row],
            )
    reasons = ", ".join(f"{what} needs {row.minimum}" for row, what in asked)
    return passed(
        f"toolkit {version} is new enough ({reasons or 'nothing here asks for a newer one'})",
        rows=[row for row, _ in asked],
    )


@check(
    "container.toolkit-cve",
    title="The container toolkit has no known vulnerability in the mode in use",
    severity=WARN,
    reads=(*MODE, "host.os_release"),
    sources=("nvidia-bulletin-5850", "cloud-native-docs-release-notes"),
    fix=Fix(
        "upgrade nvidia-container-toolkit and its libraries together",
        command="doctor fix --want container",
        disturbs="service",
        remedy="container_toolkit",
    ),
)
def toolkit_cve(f: Facts, k: Knowledge) -> Result:
    """Each record is judged with the mode: some are in CDI mode only, others never."""
    if isinstance(f.container.toolkit_version, Absent):
        return skipped(NO_TOOLKIT)
    version = f.container.toolkit_version.value
    have, mode = version_of(version), mode_in_use(f, k)
    rows = k.matrix.rows(ContainerCve)
    hit = [row for row in rows if _affected(row, have, mode) and not _switched_off(row, f)]
    if not hit:
        return passed(
            f"toolkit {version} in {mode} mode is in none of {len(rows)} records", rows=rows[-1:]
        )
    hit.sort(key=lambda row: -(row.cvss or 0))
    fixed = max((row.fixed_in for row in hit), key=lambda v: v.key)
    names = ", ".join(row.cve for row in hit[:4]) + (", ..." if len(hit) > 4 else "")
    return failed(
        f"toolkit {version} in {mode} mode has {names}: {hit[0].what}",
        want=f"nvidia-container-toolkit {fixed} or newer",
        command=upgrade(f),
        evidence=[seen(f"cve.{row.cve}", f"CVSS {row.cvss}", "matrix") for row in hit],
        rows=hit,
    )


def _affected(row: ContainerCve, have: Pep440Version, mode: str) -> bool:
    if row.only_if is not None or mode in row.not_affected_modes:
        return False
    span = row.affected_in_legacy if mode == "legacy" and row.affected_in_legacy else row.affected
    return span.contains(have)


def _switched_off(row: ContainerCve, f: Facts) -> bool:
    """A feature flag that the record names as its workaround is set."""
    flag = (row.workaround or "").partition("feature flag ")[2].strip()
    return bool(flag) and setting(f, f"features.{flag}") is True


@check(
    "container.toolkit-version-skew",
    title="The toolkit's packages are of one version",
    severity=WARN,
    reads=("container.toolkit_packages", "host.os_release"),
    sources=("cloud-native-docs-release-notes",),
    fix=Fix(
        "install all of the toolkit's packages in one version",
        command="doctor fix --want container",
        disturbs="service",
        remedy="container_toolkit",
    ),
)
def version_skew(f: Facts, k: Knowledge) -> Result:
    """The runtime and the library it calls are released and tested together."""
    row = statement(k, "container.one-version")
    packages = known_or(f.container.toolkit_packages, {})
    named = {name: packages[name] for name in row.names if name in packages}
    if len(named) < 2:
        return skipped("fewer than two of the toolkit's packages are installed")
    if len(set(named.values())) == 1:
        return passed(f"{len(named)} packages of the toolkit are {next(iter(named.values()))}")
    shown = ", ".join(f"{name} {version}" for name, version in sorted(named.items()))
    newest = max(named.values(), key=lambda text: version_of(text).key)
    return failed(
        f"the toolkit is mixed: {shown}", want=f"all at {newest}", command=upgrade(f), rows=[row]
    )
