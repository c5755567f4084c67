"""CDI specifications: do they describe this driver, can the engines here read them, will they stay right."""

from __future__ import annotations

import shlex
from typing import NamedTuple

from doctor.checks.areas.container_toolkit import statement, version_of
from doctor.checks.areas.presence import DRIVER_LADDER
from doctor.checks.base import ERROR, WARN, Fix, Result, check, failed, passed, seen, skipped
from doctor.checks.knowledge import Knowledge
from doctor.facts.areas.container import CdiSpec
from doctor.facts.model import Absent, known_or
from doctor.facts.tree import Facts
from doctor.facts.versions import Pep440Version
from doctor.matrix.model import ContainerEngine

NO_SPEC = "there is no CDI specification for NVIDIA devices"
PERSISTENCED = "nvidia-persistenced/socket"
ENGINES = (
    "container.podman_version",
    "container.docker_version",
    "container.docker_cdi_dirs",
    "container.containerd_version",
)
"""What readers reads."""
REGENERATE = "sudo nvidia-ctk cdi generate --output={path}"
REFRESH = "sudo systemctl restart nvidia-cdi-refresh.service"


class Reader(NamedTuple):
    """An engine here that reads specifications."""

    name: str
    version: str
    row: ContainerEngine | None


def readers(f: Facts, k: Knowledge) -> list[Reader]:
    """Engines that would read /etc/cdi and /var/run/cdi; Docker only when it says so."""
    rows = k.matrix.index("container_engines")
    found = []
    podman = known_or(f.container.podman_version, "")
    if podman:
        found.append(Reader("podman", podman, rows.get("podman")))
    docker = known_or(f.container.docker_version, "")
    if docker and known_or(f.container.docker_cdi_dirs, []):
        found.append(Reader("docker", docker, rows.get("docker")))
    containerd = known_or(f.container.containerd_version, "")
    if containerd and not docker:
        found.append(Reader("containerd", containerd, rows.get("containerd")))
    return found


def regenerate(spec: CdiSpec) -> str:
    """The command that writes this specification anew."""
    return REGENERATE.format(path=shlex.quote(spec.path))


@check(
    "container.cdi-stale",
    title="CDI specifications describe the installed driver",
    severity=ERROR,
    needs=DRIVER_LADDER,
    reads=("container.cdi_specs", "driver.library", *ENGINES),
    sources=("cloud-native-docs-cdi-support", "nvidia-container-toolkit#1828"),
    fix=Fix(
        "write the specification anew",
        command=REGENERATE.format(path="/etc/cdi/nvidia.yaml"),
        remedy="cdi_spec",
    ),
)
def cdi_stale(f: Facts, k: Knowledge) -> Result:
    """A specification names libraries of one driver version; after an upgrade containers do not start."""
    specs = f.container.cdi_specs.value
    if not specs:
        return skipped(NO_SPEC)
    engines = readers(f, k)
    if not engines:
        return passed(f"{len(specs)} specification(s), and no engine here reads them")
    if isinstance(f.driver.library, Absent):
        spec = specs[0]
        return failed(
            f"{spec.path} is left from driver {spec.driver_version}, and no driver is installed",
            want="no specification, or a driver",
            command=f"sudo rm {shlex.quote(spec.path)}",
            rows=[statement(k, "container.cdi-refresh-blind-spots")],
        )
    driver = f.driver.library.value
    old = [spec for spec in specs if spec.driver_version and spec.driver_version != driver]
    if old:
        return failed(
            f"{old[0].path} describes driver {old[0].driver_version}, the installed libraries are "
            f"{driver}: {', '.join(e.name for e in engines)} cannot start GPU containers from it",
            want=f"a specification for {driver}",
            command=regenerate(old[0]),
            evidence=[seen(f"cdi.{spec.path}", spec.driver_version, spec.path) for spec in old],
            rows=[statement(k, "container.cdi-refresh")],
        )
    return passed(f"{len(specs)} specification(s) describe driver {driver}")


@check(
    "container.cdi-mig",
    title="CDI specifications know the MIG devices",
    severity=WARN,
    reads=("container.cdi_specs", "nvml.gpus", *ENGINES),
    sources=("cloud-native-docs-cdi-support", "nvidia-container-toolkit#1828"),
    fix=Fix(
        "write the specification anew after each MIG change", command=REFRESH, remedy="cdi_spec"
    ),
)
def cdi_mig(f: Facts, k: Knowledge) -> Result:
    """The refresh service does not react to a MIG change."""
    specs = f.container.cdi_specs.value
    if not specs:
        return skipped(NO_SPEC)
    if not readers(f, k):
        return passed("no engine here reads the specification")
    sliced = {
        gpu.index: known_or(gpu.mig_instances, 0)
        for gpu in known_or(f.nvml.gpus, {}).values()
        if known_or(gpu.mig, False)
    }
    devices = {name for spec in specs for name in spec.devices}
    lost = [
        index
        for index, count in sliced.items()
        if count and not any(name.startswith(f"{index}:") for name in devices)
    ]
    slices = [name for name in sorted(devices) if ":" in name and name.partition(":")[0].isdigit()]
    stale = [name for name in slices if int(name.partition(":")[0]) not in sliced]
    if lost or stale:
        what = (
            f"GPU {lost[0]} has {sliced[lost[0]]} MIG instances that {specs[0].path} does not name"
            if lost
            else f"{specs[0].path} names the MIG device {stale[0]}, and that GPU is not in MIG mode"
        )
        return failed(
            what,
            want="the MIG devices of now",
            command=regenerate(specs[0]),
            rows=[statement(k, "container.cdi-refresh-blind-spots")],
        )
    return passed(f"{specs[0].path} agrees with {len(sliced)} GPU(s) in MIG mode")


@check(
    "container.cdi-spec-too-new",
    title="Engines here can read the CDI version of the specifications",
    severity=ERROR,
    reads=("container.cdi_specs", *ENGINES),
    sources=("nvidia-container-toolkit#1860", "cloud-native-docs-release-notes"),
    fix=Fix(
        "write the specification in the older CDI version, or install a newer engine",
        command="sudo nvidia-ctk cdi generate --feature-flag no-additional-gids-for-device-nodes "
        "--output=/etc/cdi/nvidia.yaml",
        remedy="cdi_spec",
    ),
)
def cdi_spec_too_new(f: Facts, k: Knowledge) -> Result:
    """A plain upgrade of the toolkit writes a CDI version that an older engine refuses whole."""
    specs = f.container.cdi_specs.value
    if not specs:
        return skipped(NO_SPEC)
    engines = readers(f, k)
    if not engines:
        return passed("no engine here reads the specification")
    new = Pep440Version.parse("0.7.0")
    for spec in specs:
        if spec.cdi_version is None or version_of(spec.cdi_version) < new:
            continue
        for engine in engines:
            since = engine.row.cdi_spec_0_7_since if engine.row else None
            if since is not None and version_of(engine.version) < since:
                return failed(
                    f"{spec.path} is CDI {spec.cdi_version}, which {engine.name} {engine.version} "
                    f'cannot read (from {since}): every nvidia.com/gpu device is "unresolvable"',
                    want=f"CDI below {new}, or {engine.name} {since} or newer",
                    command="sudo nvidia-ctk cdi generate --feature-flag "
                    f"no-additional-gids-for-device-nodes --output={shlex.quote(spec.path)}",
                    rows=[engine.row, statement(k, "container.cdi-spec-0-7")]
                    if engine.row
                    else [statement(k, "container.cdi-spec-0-7")],
                )
    versions = ", ".join(sorted({spec.cdi_version or "unknown" for spec in specs}))
    return passed(
        f"CDI {versions} is read by {', '.join(f'{e.name} {e.version}' for e in engines)}",
        rows=[engine.row for engine in engines if engine.row],
    )


@check(
    "container.cdi-missing-paths",
    title="Everything the CDI specifications mount is there",
    severity=ERROR,
    needs=("container.cdi-stale", *DRIVER_LADDER),
    reads=("container.cdi_specs", *ENGINES),
    sources=("cloud-native-docs-cdi-support",),
    fix=Fix(
        "write the specification anew",
        command=REGENERATE.format(path="/etc/cdi/nvidia.yaml"),
        remedy="cdi_spec",
    ),
)
def cdi_missing_paths(f: Facts, k: Knowledge) -> Result:
    """A container with a mount whose source is gone does not start."""
    specs = f.container.cdi_specs.value
    if not specs:
        return skipped(NO_SPEC)
    if not readers(f, k):
        return passed("no engine here reads the specification")
    gone = [
        (spec, [path for path in spec.missing_paths if not path.endswith(PERSISTENCED)])
        for spec in specs
    ]
    gone = [(spec, paths) for spec, paths in gone if paths]
    if gone:
        spec, paths = gone[0]
        return failed(
            f"{spec.path} mounts {len(paths)} path(s) that are not there, {paths[0]} first",
            want="only paths that exist",
            command=regenerate(spec),
            evidence=[seen(f"cdi.{spec.path}", paths[:8], spec.path)],
        )
    return passed(f"every host path of {len(specs)} specification(s) is there")


@check(
    "container.persistenced-socket",
    title="The socket of nvidia-persistenced that CDI mounts is there",
    severity=ERROR,
    reads=("container.cdi_specs", *ENGINES),
    sources=("nvidia-docker#1690", "nvidia-docker#1300", "nvidia-container-toolkit-v1.18.2"),
    fix=Fix(
        "start nvidia-persistenced, order the engine after it, then refresh the specification",
        command="sudo systemctl enable --now nvidia-persistenced && " + REFRESH,
        remedy="persistence",
    ),
)
def persistenced_socket(f: Facts, k: Knowledge) -> Result:
    """A specification written while persistenced ran mounts its socket; without the socket containers do not start."""
    specs = f.container.cdi_specs.value
    if not specs:
        return skipped(NO_SPEC)
    if not readers(f, k):
        return passed("no engine here reads the specification")
    for spec in specs:
        for path in spec.missing_paths:
            if path.endswith(PERSISTENCED):
                return failed(
                    f"{spec.path} mounts {path}, which is not there: GPU containers do not start "
                    "until nvidia-persistenced runs",
                    want=f"{path}, or a specification without it",
                )
    return passed("no specification mounts a persistenced socket that is not there")


@check(
    "container.cdi-refresh",
    title="The CDI specification follows driver upgrades",
    severity=WARN,
    reads=("container.cdi_specs", "container.cdi_refresh", "container.toolkit_version", *ENGINES),
    sources=("cloud-native-docs-cdi-support",),
    fix=Fix(
        "enable the refresh units",
        command="sudo systemctl enable --now nvidia-cdi-refresh.path nvidia-cdi-refresh.service",
        remedy="cdi_spec",
    ),
)
def cdi_refresh(f: Facts, k: Knowledge) -> Result:
    """Without the refresh unit the next driver upgrade leaves a stale specification: works now, breaks then."""
    specs = f.container.cdi_specs.value
    if not specs:
        return skipped(NO_SPEC)
    if not readers(f, k):
        return passed("no engine here reads the specification")
    row = statement(k, "container.cdi-refresh")
    state = known_or(f.container.cdi_refresh, "absent")
    if state == "active":
        return passed("nvidia-cdi-refresh.path is active", rows=[row])
    if state == "absent":
        return failed(
            f"{specs[0].path} is kept by hand: no nvidia-cdi-refresh unit is installed (toolkit "
            f"{known_or(f.container.toolkit_version, 'none')}), so the next driver upgrade makes it stale",
            want=f"a toolkit {row.versions} with its refresh units",
            command=regenerate(specs[0]),
            say="write the specification anew after each driver upgrade, or upgrade the toolkit",
            rows=[row],
        )
    return failed(
        f"nvidia-cdi-refresh.path is {state}: the next driver upgrade makes {specs[0].path} stale",
        want="nvidia-cdi-refresh.path active",
        rows=[row],
    )


@check(
    "container.cdi-duplicate",
    title="Each NVIDIA device is declared by one CDI specification",
    severity=WARN,
    reads=("container.cdi_specs",),
    sources=("cloud-native-docs-cdi-support",),
    fix=Fix(
        "keep the specification that the refresh service writes and remove the other",
        command="sudo rm /etc/cdi/nvidia.yaml && " + REFRESH,
    ),
)
def cdi_duplicate(f: Facts, k: Knowledge) -> Result:
    """Two files that declare the same devices drift apart with the next upgrade."""
    specs = f.container.cdi_specs.value
    if not specs:
        return skipped(NO_SPEC)
    row = statement(k, "container.cdi-spec-places")
    for number, spec in enumerate(specs):
        for other in specs[number + 1 :]:
            both = sorted(set(spec.devices) & set(other.devices))
            if spec.kind == other.kind and both:
                return failed(
                    f"{spec.path} and {other.path} both declare {spec.kind}={both[0]}",
                    want="one specification",
                    command=f"sudo rm {shlex.quote(spec.path)} && {REFRESH}",
                    rows=[row],
                )
    return passed(f"{len(specs)} specification(s), no device twice", rows=[row])


@check(
    "container.cdi-and-hook",
    title="podman does not use CDI and the old OCI hook at once",
    severity=WARN,
    reads=("container.cdi_specs", "container.podman_version", "container.podman_hook"),
    sources=("cloud-native-docs-cdi-support",),
    fix=Fix(
        "remove the hook file, which injects the devices a second time",
        command="sudo rm /usr/share/containers/oci/hooks.d/oci-nvidia-hook.json",
    ),
)
def cdi_and_hook(f: Facts, k: Knowledge) -> Result:
    """With CDI the hook of older toolkits is to be deleted."""
    if not known_or(f.container.podman_version, ""):
        return skipped("podman is not installed")
    specs: list[CdiSpec] = known_or(f.container.cdi_specs, [])
    hook: bool = known_or(f.container.podman_hook, False)
    row = statement(k, "container.cdi-vs-hook")
    if specs and hook:
        return failed(
            f"podman has {specs[0].path} and {row.file}: devices are injected twice",
            want=f"no {row.file}",
            rows=[row],
        )
    return passed("podman has either a specification or the hook, not both", rows=[row])
