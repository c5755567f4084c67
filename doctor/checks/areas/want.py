"""What the host is for, against the host: the whole stack, images, and drift from a locked stack. Skips where nothing was asked for."""

from __future__ import annotations

import shlex
from typing import Any

from doctor.checks.areas.want_subject import Problem, concluded, wants
from doctor.checks.base import ERROR, WARN, Fix, Result, check, failed, passed, skipped, unseen
from doctor.checks.knowledge import Knowledge
from doctor.facts.model import FactUnknown
from doctor.facts.tree import Facts
from doctor.plan.want import ImageWant, LaunchWant, LockWant, PackageWant, StackWant

STATE = (
    "nvml.gpus",
    "nvml.driver_version",
    "pci.gpus",
    "pci.nvswitches",
    "host.os_release",
    "host.machine",
    "host.glibc",
    "host.hardware",
    "host.container",
    "wsl.windows_driver",
    "driver.loaded",
    "driver.library",
    "driver.disk",
    "driver.package",
    "driver.package_name",
    "driver.runfile",
    "driver.flavor",
    "driver.flavor_disk",
    "fabric.manager_version",
    "packages.manager",
    "packages.installed",
    "packages.repositories",
    "packages.holds",
    "container.docker_version",
    "container.podman_version",
    "container.toolkit_version",
    "container.images",
    "cuda.toolkits",
    "python_env.environments",
    "python_env.system_python",
    "kernel.modules",
    "kernel.headers",
)
"""What the solver looks at."""

NOTHING = "nothing was asked for with --want"


def _asked(k: Knowledge) -> str:
    return " ".join(
        f"--want {shlex.quote(item.spec)}" for item in k.wants if not isinstance(item, StackWant)
    )


@check(
    "want.stack",
    title="The host has a stack that serves what it is for",
    severity=ERROR,
    reads=STATE,
    sources=("driver-branches-r620", "cuda-13.2.2-release-notes"),
    fix=Fix("see the ordered steps", command="doctor plan --want SPEC"),
)
def stack(f: Facts, k: Knowledge) -> Result:
    """Driver, CUDA, engine, Python and toolkit together, by the solver; a conflict is said in words."""
    if not any(isinstance(item, (PackageWant, ImageWant)) for item in k.wants):
        return skipped(NOTHING)
    from doctor.facts.identity import HostName
    from doctor.plan.make import make_plan

    asked = [item for item in k.wants if not isinstance(item, StackWant)]
    plan = make_plan(f, [], asked, k, host=HostName(name=""), roles={})
    command = f"doctor plan {_asked(k)}"
    if plan.status == "satisfied":
        return passed(
            "; ".join(f"{row.thing} {row.want}" for row in plan.target) + ": all in place"
        )
    if plan.status == "unknown":
        return unseen("; ".join(f"{item.fact}: {item.reason}" for item in plan.unseen))
    if plan.conflict is not None:
        say = "; ".join(item.say for item in plan.conflict)
        instead = "; ".join(item.say for item in plan.instead)
        return failed(
            say,
            want=instead or "wants that can hold together",
            say="ask for what works",
            command=command,
        )
    changed = [
        f"{row.thing} {row.have or 'none'} -> {row.want}" for row in plan.target if row.change
    ]
    return failed(
        "what is asked for needs " + "; ".join(changed), want="; ".join(changed), command=command
    )


@check(
    "want.image-require",
    title="The driver meets what the image requires",
    severity=ERROR,
    reads=STATE,
    sources=("cloud-native-docs-docker-specialized",),
    fix=Fix(
        "use a driver that the image accepts, or an older image",
        command="doctor plan --want image:REF",
        remedy="nvidia_driver",
    ),
)
def image_require(f: Facts, k: Knowledge) -> Result:
    """The whole NVIDIA_REQUIRE_* of each image, read without starting it, then the CUDA inside."""
    asked = wants(k, ImageWant) + [
        item for want in wants(k, LaunchWant) for item in want.launch.image_wants(want.spec)
    ]
    if not asked:
        return skipped("no image was asked for")
    from doctor.plan import image
    from doctor.plan.host_state import read_host

    state = read_host(f, k.matrix)
    if state.driver is None:
        if "driver" in state.unseen:
            raise FactUnknown(state.unseen["driver"], "driver.loaded")
        named = ", ".join(item.ref for item in asked)
        return failed(
            f"{named}: no NVIDIA driver is here",
            want="a driver that runs the image",
            command=f"doctor plan {_asked(k)}",
        )
    problems: list[Problem] = []
    holes: list[str] = []
    fine: list[str] = []
    rows: list[Any] = []
    for item in asked:
        look = image.look_at(item, state, k.matrix)
        if look is None:
            holes.append(
                f"{item.ref}: neither the local engine nor the matrix knows it; pull it or give a saved docker image inspect"
            )
            continue
        judged = image.judge(look, state.driver, state.gpus, k.matrix)
        if judged.satisfied is False:
            problems.append(
                Problem(
                    f"{item.ref}: {judged.say}",
                    f"a driver that runs CUDA {look.cuda or ''}".strip(),
                    f"doctor plan --want {shlex.quote('image:' + item.ref)}",
                    judged.rows,
                )
            )
        elif judged.satisfied is None:
            holes.append(f"{item.ref}: {judged.say}")
        else:
            fine.append(f"{item.ref}: {judged.say} ({judged.mode})")
            rows += judged.rows
    return concluded(problems, "; ".join(fine), holes, rows)


@check(
    "want.kernel-locked",
    title="The kernel is held, as asked",
    severity=WARN,
    reads=("packages.holds", "packages.manager"),
    sources=("cloud-native-docs-platform-support",),
    fix=Fix(
        "hold the kernel packages",
        command='sudo apt-mark hold "linux-image-$(uname -r)" linux-image-generic',
        remedy="driver_lock",
    ),
)
def kernel_locked(f: Facts, k: Knowledge) -> Result:
    """--want lock:kernel: an automatic kernel upgrade brings a kernel without a module."""
    if not wants(k, LockWant):
        return skipped("no lock of the kernel was asked for")
    held = [
        item
        for item in f.packages.holds.value
        if item.startswith(("linux-image", "linux-generic", "kernel"))
    ]
    if held:
        return passed(f"held: {', '.join(held)}")
    dnf = f.packages.manager.value == "dnf"
    return failed(
        "no kernel package is held",
        want="the kernel held at its version",
        command="sudo dnf versionlock add kernel kernel-core kernel-modules" if dnf else None,
    )


@check(
    "want.lock-drift",
    title="The host still has the locked stack",
    severity=WARN,
    reads=STATE,
    sources=("tesla-driver-installation-guide",),
    fix=Fix("see what would bring the stack back", command="doctor plan --want SPEC"),
)
def lock_drift(f: Facts, k: Knowledge) -> Result:
    """Every thing of the lock file at the version that it had when the stack was solved."""
    locks = wants(k, StackWant)
    if not locks:
        return skipped("no --lock FILE was given")
    from doctor.plan.drift import drifted
    from doctor.plan.host_state import read_host

    state = read_host(f, k.matrix)
    problems, holes = [], []
    for want in locks:
        found, missing = drifted(want.lock, state)
        command = "doctor plan " + " ".join(
            f"--want {shlex.quote(item)}" for item in want.lock.want
        )
        problems += [Problem(item, f"as locked: {want.lock.summary()}", command) for item in found]
        holes += missing
    return concluded(
        problems, "; ".join(f"as locked: {item.lock.summary()}" for item in locks), holes
    )
