"""Rung `container`: a container that is started as an engine's is gets every GPU, by --gpus and by CDI, and the shared
memory and limits that were asked for. In the engine's image, or in a tiny one that is made here and removed again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from doctor.checks.finding import Evidence, Finding, Outcome, Severity
from doctor.facts.model import Known
from doctor.smoke import tiny_image
from doctor.smoke.child_answer import Answer, words
from doctor.smoke.container_limits import (
    SHM_BYTES,
    amount,
    limits_asked,
    limits_refused,
)
from doctor.smoke.container_limits import TITLE as LIMITS
from doctor.smoke.container_run import run_probe, run_smi
from doctor.smoke.context import Context, StageFailed, StageUnseen
from doctor.smoke.docker_engine import (
    Refused,
    client,
    missing_for_gpus,
    why_no_cdi,
    why_not_tried,
)
from doctor.smoke.host_cause import broken, cause_of
from doctor.smoke.model import StageResult, fault, passed, skipped

if TYPE_CHECKING:
    from docker import DockerClient

REPOSITORY = "gpu-host-doctor-smoke"
HOW = {"gpus": "--gpus all", "cdi": "CDI device nvidia.com/gpu=all"}
GPUS = "A container that asks for GPUs gets every GPU"
CAUSES = (
    "container.runtime-not-registered",
    "container.daemon-not-restarted",
    "container.toolkit-missing",
    "container.cdi-stale",
    "container.cdi-missing-paths",
    "container.no-cgroups",
    "container.selinux",
    "container.docker-snap",
    "container.rootless",
    "container.docker-desktop",
    "container.host-driver-missing",
)


class ContainerStage:
    """A container as an engine gets it."""

    name = "container"
    needs = ("container.docker_socket", "container.docker_host", "container.cdi_specs", "nvml.gpus")
    timeout = 240.0

    def run(self, ctx: Context) -> StageResult:
        """Find Docker, make or find the image, start it, read what it saw."""
        reason = why_not_tried(ctx)
        if reason is not None:
            return skipped("container", reason)
        docker = self._client(ctx)
        with_gpus = ctx.uses_gpus
        image, python, shown = self._image(ctx, docker)
        evidence = [Evidence(fact="smoke.container.image", value=shown, via="docker")]
        warnings: list[Finding] = []
        if with_gpus:
            said = self._with_gpus(ctx, docker, image, python, evidence, warnings)
        else:
            answer = self._answer(ctx, docker, image, python, None, evidence, warnings)
            said = self._limits(ctx, answer, evidence)
        return passed(
            "container",
            f"{shown}: {said}",
            evidence=evidence,
            warnings=warnings,
            files=sorted(path.name for path in ctx.folder.glob("container-*.log")),
        )

    def _with_gpus(
        self,
        ctx: Context,
        docker: DockerClient,
        image: str,
        python: str,
        evidence: list[Evidence],
        warnings: list[Finding],
    ) -> str:
        """By --gpus and by CDI. Either will do for the engine, which is then started by the one that worked."""
        try:
            limits, gives = self._by(ctx, docker, image, python, "gpus", evidence, warnings)
        except StageFailed as broke:
            if why_no_cdi(ctx, docker) is not None:
                raise
            try:
                limits, gives = self._by(ctx, docker, image, python, "cdi", evidence, warnings)
            except StageFailed as by_cdi:
                raise _neither(broke, by_cdi.finding) from None
            ctx.shared["container-gpus"] = "cdi"
            warnings.append(_as_warning("gpus-option", broke.finding))
            return f"{limits}; {gives}; --gpus all does not work"
        said = f"{limits}; {gives}"
        reason = why_no_cdi(ctx, docker)
        if reason is not None:
            return f"{said}; {reason}, so CDI was not tried"
        try:
            _, gives = self._by(ctx, docker, image, python, "cdi", evidence, warnings)
        except StageFailed as broke:
            warnings.append(_as_warning("cdi", broke.finding))
            gives = "CDI does not work"
        return f"{said}; {gives}"

    def _by(
        self,
        ctx: Context,
        docker: DockerClient,
        image: str,
        python: str,
        how: str,
        evidence: list[Evidence],
        warnings: list[Finding],
    ) -> tuple[str, str]:
        """(its memory and limits, the GPUs that it was given), in words."""
        answer = self._answer(ctx, docker, image, python, how, evidence, warnings)
        limits = self._limits(ctx, answer, evidence)
        return limits, f"{HOW[how]} gives {self._gpus(ctx, answer, HOW[how], evidence)}"

    def cleanup(self, ctx: Context) -> None:
        """Containers, the image and the connection are callbacks of the registry."""

    def _client(self, ctx: Context) -> DockerClient:
        try:
            return client(ctx)
        except Refused as refused:
            raise broken(
                "container",
                "no-daemon",
                "Docker answers",
                f"Docker does not answer: {refused}",
                want="a Docker daemon that answers on its local socket",
                cause=cause_of(ctx, ("container.daemon-unreachable",)),
                say="start Docker",
                command="sudo systemctl start docker && docker info",
            ) from None

    def _image(self, ctx: Context, docker: DockerClient) -> tuple[str, str, str]:
        """(id, its Python, for a person)."""
        from docker.errors import DockerException, ImageNotFound

        asked = ctx.options.image
        if asked is not None:
            try:
                found = docker.images.get(asked)
            except ImageNotFound:
                raise self._no_image(asked) from None
            except DockerException as error:
                raise StageUnseen(f"Docker did not say whether it has {asked}: {error}") from None
            return str(found.id), "python3", f"image {asked}"
        ctx.progress("making a tiny image of this host's Python")
        tar = ctx.scratch / "image.tar"
        python = tiny_image.write(ctx, tar)
        try:
            docker.api.import_image_from_file(str(tar), repository=REPOSITORY, tag=ctx.run)
        except DockerException as error:
            raise broken(
                "container",
                "image-not-made",
                "Docker takes an image",
                f"docker import of {tar.stat().st_size >> 20} MiB: {error}",
                want="a daemon that stores an image",
                cause=cause_of(ctx, (), ("disk",)),
            ) from None
        finally:
            tar.unlink(missing_ok=True)
        reference = f"{REPOSITORY}:{ctx.run}"
        ctx.resources.on_release(
            f"image {reference}", lambda: docker.images.remove(reference, force=True)
        )
        return reference, python, "a tiny image of this host's Python"

    def _no_image(self, asked: str) -> StageFailed:
        import shlex

        return StageFailed(
            fault(
                "container",
                "image-missing",
                "The engine's image is on this host",
                f"Docker has no image {asked}; the smoke downloads nothing",
                want=asked,
                say="bring the image here first",
                command=f"docker pull {shlex.quote(asked)}",
            )
        )

    def _answer(
        self,
        ctx: Context,
        docker: DockerClient,
        image: str,
        python: str,
        how: str | None,
        evidence: list[Evidence],
        warnings: list[Finding],
    ) -> Answer:
        """Run the probe in a container; without a limit that the daemon refuses."""
        while True:
            try:
                return run_probe(ctx, docker, image, python, how)
            except Refused as refused:
                if refused.limit in limits_asked(ctx):
                    warnings.append(limits_refused(ctx, refused))
                    del limits_asked(ctx)[refused.limit]
                elif refused.without_program("python3") and how is not None:
                    return self._by_smi(ctx, docker, image, how, evidence)
                else:
                    raise self._not_started(ctx, refused, how, evidence) from None

    def _by_smi(
        self, ctx: Context, docker: DockerClient, image: str, how: str, evidence: list[Evidence]
    ) -> Answer:
        """An image without a Python has at least the nvidia-smi that the toolkit brings."""
        try:
            return run_smi(ctx, docker, image, how)
        except Refused as refused:
            if refused.without_program("nvidia-smi"):
                message = (
                    f"{HOW[how]}: the image has no python3, and got no nvidia-smi from the toolkit"
                )
                raise self._no_gpus(ctx, message, evidence) from None
            raise self._not_started(ctx, refused, how, evidence) from None

    def _not_started(
        self, ctx: Context, refused: Refused, gpus: str | None, evidence: list[Evidence]
    ) -> StageFailed:
        message = f"the container does not start: {refused}"
        want = "a container that starts"
        cause, say, command = None, "read what the daemon says", None
        name, title = "not-started", "A container starts"
        if gpus is not None:
            missing, say, command = missing_for_gpus(ctx)
            name, title = "no-gpu-device", GPUS
            want = "every GPU of the host in the container"
            message = f"{HOW[gpus]}: {refused}"
            if missing:
                message += f"; missing: {'; '.join(missing)}"
                evidence = [
                    *evidence,
                    *(Evidence(fact="smoke.container.missing", value=item) for item in missing),
                ]
            cause = cause_of(ctx, CAUSES, ("gpu", "driver"))
        return broken(
            "container",
            name,
            title,
            message,
            want=want,
            cause=cause,
            say=say,
            command=command or "sudo journalctl -u docker --since -5min",
            evidence=evidence,
        )

    def _limits(self, ctx: Context, answer: Answer, evidence: list[Evidence]) -> str:
        """Judge what the container has against what was asked."""
        found = answer.step("limits")
        if found is None and answer.step("nvml") is not None:
            return "shared memory and limits not seen: it has no python3"
        if found is None:
            raise self._silent(ctx, answer, evidence)
        evidence += [
            Evidence(fact=f"smoke.container.{key}", value=found[key], via=answer.log)
            for key in ("shm", "memlock", "stack", "nofile", "uid", "nodes", "visible")
        ]
        wanted = {"shm": SHM_BYTES, **limits_asked(ctx)}
        wrong = [
            f"{key} is {found[key]}, not {value}"
            for key, value in wanted.items()
            if found[key] != value
        ]
        if wrong:
            raise broken(
                "container",
                "limits",
                LIMITS,
                "; ".join(wrong),
                want=", ".join(f"{key} {value}" for key, value in wanted.items()),
                cause=cause_of(ctx, ("limits.memlock", "limits.stack", "shm.size")),
                say="see what the daemon and its unit limit",
                command="systemctl show docker -p LimitMEMLOCK -p LimitSTACK && docker info",
                evidence=evidence,
            )
        return ", ".join(f"{key} {amount(found[key])}" for key in wanted) + " as asked"

    def _silent(self, ctx: Context, answer: Answer, evidence: list[Evidence]) -> StageFailed:
        broke = answer.broke or {"step": "start", "error": "no answer", "state": "crash"}
        text = (ctx.folder / answer.log).read_text(errors="replace").strip()[-400:]
        return broken(
            "container",
            "no-answer",
            "A program runs in the container",
            f"the probe in the container gave no answer: {words(broke)}{': ' + text if text else ''}",
            want="an image whose python3 starts",
            cause=None,
            say="name an image that has python3, or none: then a tiny one is made",
            command="doctor smoke --level container",
            evidence=evidence,
            files=[answer.log],
        )

    def _gpus(self, ctx: Context, answer: Answer, how: str, evidence: list[Evidence]) -> str:
        """NVML and CUDA in the container have every GPU of the host."""
        host = ctx.facts.nvml.gpus
        wanted = list(host.value) if isinstance(host, Known) else []
        apis = ("nvml", "cuda") if answer.step("limits") else ("nvml",)
        for api in apis:
            found = answer.step(api)
            broke = answer.broke
            if found is None or found["state"] != "ok":
                said = words(found or broke or {"error": "no answer"})
                raise self._no_gpus(ctx, f"{how}: {api} in the container: {said}", evidence)
            evidence.append(
                Evidence(fact=f"smoke.container.{api}", value=found["uuids"], via=answer.log)
            )
            missing = [uuid for uuid in wanted if uuid not in found["uuids"]]
            if missing and not _mig(ctx):
                message = f"{how}: {api} in the container has {len(found['uuids'])} of {len(wanted)} GPUs; not {', '.join(missing)}"
                raise self._no_gpus(ctx, message, evidence)
        return f"{len(wanted)} of {len(wanted)} GPUs to {' and '.join(api.upper() for api in apis)}"

    def _no_gpus(self, ctx: Context, message: str, evidence: list[Evidence]) -> StageFailed:
        _, say, command = missing_for_gpus(ctx)
        return broken(
            "container",
            "gpus",
            GPUS,
            message,
            want="every GPU of the host in the container",
            cause=cause_of(ctx, CAUSES, ("container",)),
            say=say,
            command=command,
            evidence=evidence,
        )


def _as_warning(name: str, found: Finding) -> Finding:
    """One of two ways does not work; the other does."""
    return msgspec.structs.replace(
        found,
        id=f"smoke.container-{name}",
        outcome=Outcome.WARN,
        severity=Severity.WARN,
    )


def _neither(broke: StageFailed, by_cdi: Finding) -> StageFailed:
    """What broke by --gpus, with what CDI said when it was tried instead."""
    said = f"{broke.finding.message}; tried instead, {by_cdi.message}"
    return StageFailed(msgspec.structs.replace(broke.finding, message=said), **broke.extra)


def _mig(ctx: Context) -> bool:
    gpus = ctx.facts.nvml.gpus
    return isinstance(gpus, Known) and any(
        isinstance(gpu.mig, Known) and gpu.mig.value for gpu in gpus.value.values()
    )


STAGE = ContainerStage()
