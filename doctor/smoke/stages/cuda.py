"""Rung `cuda`: on each GPU a context, memory, byte-checked copies and a compiled kernel with checked sums; between each
pair a byte-checked copy and, where P2P is there, a kernel that reads the other's memory. Driver API only.

A child per GPU, so that one that hangs or kills its process leaves the others' answers. Run as the engine's user: what
root may open says nothing about the engine.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Any

import msgspec

from doctor.checks.finding import Evidence, Finding, Severity
from doctor.facts.model import Known
from doctor.smoke.child_answer import Answer, ask, finish, start, words
from doctor.smoke.context import Context, StageFailed, StageUnseen
from doctor.smoke.host_cause import broken, cause_of
from doctor.smoke.model import StageResult, fault, passed

AREAS = ("gpu", "wsl", "kernel", "driver", "fabric", "cuda", "container")
"""Areas of the checks that explain why CUDA does not start."""
PEER_AREAS = ("pci", "fabric", "gpu")
AT_ONCE = 8
LIST_S, GPU_S, PEERS_S = 60.0, 60.0, 120.0
TITLES = {
    "context": "A program gets a context on every GPU",
    "memory": "GPU memory can be allocated",
    "copy": "Bytes come back from every GPU as they were",
    "kernel": "Every GPU compiles and runs a kernel, and its sums are right",
    "release": "GPU memory and contexts are given back",
}


class CudaGpu(msgspec.Struct, frozen=True, kw_only=True):
    """A GPU as the driver API lists it."""

    index: int
    name: str
    uuid: str
    pci: str
    capability: str


class CudaStage:
    """The driver API on every GPU."""

    name = "cuda"
    needs = ("cuda.scope", "nvml.gpus", "host.container")
    timeout = 300.0

    def run(self, ctx: Context) -> StageResult:
        """List, then each GPU, then each pair."""
        listed = ask(ctx, "cuda_probe", ["list"], "cuda-list", LIST_S)
        gpus = self._listed(ctx, listed)
        ctx.shared["cuda"] = gpus
        answers = self._each(ctx, gpus)
        evidence = listed.evidence("smoke.cuda")
        for gpu, answer in zip(gpus, answers, strict=True):
            evidence += answer.evidence(f"smoke.cuda.gpu[{gpu.uuid}]")
        files = [listed.log, *(answer.log for answer in answers)]
        for gpu, answer in zip(gpus, answers, strict=True):
            if answer.broke is not None:
                raise self._gpu_failed(ctx, gpu, answer, evidence, files)
        warnings: list[Finding] = []
        numbers: dict[str, Any] = {"gpus": len(gpus)}
        pairs = ""
        if len(gpus) > 1:
            peers = ask(ctx, "cuda_probe", ["peers"], "cuda-peers", PEERS_S)
            evidence += peers.evidence("smoke.cuda.peers")
            files.append(peers.log)
            pairs, warnings = self._peers(ctx, gpus, peers, evidence, files, numbers)
        init = listed.step("init") or {}
        message = (
            f"{len(gpus)} of {len(gpus)} GPUs: context, memory, copies and kernel right{pairs}; "
            f"driver API {init.get('driver_cuda')}"
        )
        return passed(
            "cuda", message, evidence=evidence, warnings=warnings, numbers=numbers, files=files
        )

    def cleanup(self, ctx: Context) -> None:
        """Children have ended; what did not end is in the registry."""

    def _listed(self, ctx: Context, answer: Answer) -> list[CudaGpu]:
        evidence = answer.evidence("smoke.cuda")
        broke = answer.broke
        if broke is not None:
            raise self._not_started(ctx, broke, evidence, [answer.log])
        gpus = [
            CudaGpu(
                index=line["gpu"],
                name=line["name"],
                uuid=line["uuid"] or f"gpu-{line['gpu']}",
                pci=line["pci"],
                capability=line["capability"],
            )
            for line in answer.lines
            if "gpu" in line and "name" in line
        ]
        if not gpus:
            raise broken(
                "cuda",
                "no-device",
                "CUDA counts at least one device",
                "CUDA starts and counts no device",
                want="at least one device",
                cause=cause_of(ctx, ("cuda.no-device", "cuda.visible-devices-empty"), AREAS),
                evidence=evidence,
            )
        self._all_counted(ctx, gpus, evidence)
        return gpus

    def _not_started(
        self, ctx: Context, broke: dict[str, Any], evidence: list[Evidence], files: list[str]
    ) -> StageFailed:
        ids = ("cuda.init-failed", "cuda.libcuda-not-found")
        cause = cause_of(ctx, ids, AREAS)
        said = words(broke)
        if broke["step"] == "load" and broke["state"] == "failed":
            return broken(
                "cuda",
                "library",
                "A program loads libcuda.so.1",
                f"libcuda.so.1 does not load: {said}",
                want="libcuda.so.1 of the driver",
                cause=cause,
                evidence=evidence,
                files=files,
            )
        name = {"hang": "hang", "crash": "crash"}.get(broke["state"], "init-failed")
        root_only = cause is None and _scope_code(ctx) == 0 and ctx.user.uid is not None
        if root_only:
            said += f" for user {ctx.user.name}, though not for root"
        return broken(
            "cuda",
            name,
            "The driver API starts",
            f"CUDA does not start: {said}",
            want="CUDA_SUCCESS from cuInit",
            cause=cause,
            say="let the engine's user open the device nodes" if root_only else _LOOK_UP,
            command="ls -l /dev/nvidia*" if root_only else None,
            evidence=evidence,
            files=files,
        )

    def _all_counted(self, ctx: Context, gpus: list[CudaGpu], evidence: list[Evidence]) -> None:
        """As many as NVML has, unless the environment or MIG chooses some."""
        nvml = ctx.facts.nvml.gpus
        if not isinstance(nvml, Known) or isinstance(ctx.facts.cuda.visible_devices, Known):
            return
        if any(isinstance(gpu.mig, Known) and gpu.mig.value for gpu in nvml.value.values()):
            return
        missing = [uuid for uuid in nvml.value if uuid not in {gpu.uuid for gpu in gpus}]
        if missing and len(gpus) < len(nvml.value):
            raise broken(
                "cuda",
                "gpu-missing",
                "CUDA has every GPU that NVML has",
                f"CUDA has {len(gpus)} of NVML's {len(nvml.value)} GPUs; not {', '.join(missing)}",
                want="every GPU of NVML",
                cause=cause_of(ctx, ("cuda.no-device",), ("gpu", "fabric", "container")),
                evidence=evidence,
            )

    def _each(self, ctx: Context, gpus: list[CudaGpu]) -> list[Answer]:
        answers: list[Answer] = []
        for first in range(0, len(gpus), AT_ONCE):
            some = gpus[first : first + AT_ONCE]
            ctx.progress(f"{len(some)} GPUs: context, memory, copies, kernel", first, len(gpus))
            children = [
                start(ctx, "cuda_probe", ["gpu", str(gpu.index)], f"cuda-gpu{gpu.index}")
                for gpu in some
            ]
            answers += [finish(ctx, child, GPU_S) for child in children]
        return answers

    def _gpu_failed(
        self,
        ctx: Context,
        gpu: CudaGpu,
        answer: Answer,
        evidence: list[Evidence],
        files: Sequence[str],
    ) -> StageFailed:
        broke = answer.broke or {"step": "start", "state": "crash"}
        step = broke["step"]
        state = broke["state"]
        kind = {"wrong": "wrong", "hang": "hang", "crash": "crash"}.get(state, "failed")
        name = f"{step}-{kind}" if step in TITLES else f"gpu-{kind}"
        message = f"GPU {gpu.index} ({gpu.name}, {gpu.pci}), {step}: {words(broke)}"
        say, command = _LOOK_UP, None
        if broke.get("error") == "CUDA_ERROR_OUT_OF_MEMORY":
            say = "free the GPU's memory: these processes hold it"
            command = f"nvidia-smi -i {shlex.quote(gpu.pci)} --query-compute-apps=pid,name,used_memory --format=csv"
        elif broke.get("code") == BUSY:
            say = "end the process that has the GPU for itself, or set the compute mode back"
            command = f"sudo nvidia-smi -i {shlex.quote(gpu.pci)} -c DEFAULT"
        elif state == "wrong":
            say = "take the GPU out of service and test it: it answers without an error and wrong"
            command = f"nvidia-smi -q -d ECC,ROW_REMAPPER,PAGE_RETIREMENT -i {shlex.quote(gpu.pci)}"
        return broken(
            "cuda",
            name,
            TITLES.get(step, "Every GPU computes"),
            message,
            want="every step right on every GPU",
            cause=cause_of(ctx, (), ("gpu", "fabric")),
            say=say,
            command=command,
            evidence=evidence,
            files=files,
        )

    def _peers(
        self,
        ctx: Context,
        gpus: list[CudaGpu],
        answer: Answer,
        evidence: list[Evidence],
        files: Sequence[str],
        numbers: dict[str, Any],
    ) -> tuple[str, list[Finding]]:
        broke = answer.broke
        if broke is not None:
            where = f"GPU {broke['from']} -> GPU {broke['to']}: " if "from" in broke else ""
            kind = {"wrong": "wrong", "hang": "hang", "crash": "crash"}
            raise broken(
                "cuda",
                f"peer-{kind.get(broke['state'], 'failed')}",
                "Bytes copied between GPUs arrive as they were",
                f"{where}{words(broke)}",
                want="every pair copies every byte right",
                cause=cause_of(ctx, ("pci.acs",), PEER_AREAS),
                say="look at the way between the two GPUs: ACS, IOMMU, NVLink",
                command="nvidia-smi topo -p2p r && nvidia-smi topo -m",
                evidence=evidence,
                files=files,
            )
        pairs = [line for line in answer.lines if line.get("step") == "peer" and "access" in line]
        wanted = len(gpus) * (len(gpus) - 1)
        if len(pairs) < wanted:
            raise StageUnseen(f"{len(pairs)} of {wanted} pairs of GPUs answered")
        direct = [line for line in pairs if line["access"]]
        numbers["peer_pairs"] = len(pairs)
        numbers["peer_pairs_p2p"] = len(direct)
        numbers["peer_slowest_gb_s"] = min(line["gb_s"] for line in pairs)
        text = f"; {len(pairs)} pairs copy right, {len(direct)} of them by P2P"
        ctx.shared["cuda-p2p"] = len(direct) == len(pairs)
        warnings = []
        if len(direct) < len(pairs) and _nvlink(ctx):
            warnings.append(self._no_p2p(ctx, len(pairs) - len(direct), len(pairs), evidence))
        return text, warnings

    def _no_p2p(
        self, ctx: Context, without: int, pairs: int, evidence: Sequence[Evidence]
    ) -> Finding:
        cause = cause_of(ctx, ("pci.acs", "nccl.p2p-disabled"), PEER_AREAS)
        return fault(
            "cuda",
            "peer-off",
            "GPUs joined by NVLink reach each other's memory",
            f"{without} of {pairs} pairs have no P2P although NVLinks are up",
            want="P2P between all GPUs that NVLink joins",
            say=cause.fix.say
            if cause and cause.fix
            else "see which pairs, and the driver's reason",
            command=(cause.fix.command if cause and cause.fix else None)
            or "nvidia-smi topo -p2p r",
            severity=Severity.WARN,
            evidence=[item for item in evidence if ".peers" in item.fact],
            blocked_by=cause.id if cause else None,
        )


BUSY = 46
"""CUDA_ERROR_DEVICE_UNAVAILABLE: busy, or compute mode exclusive or prohibited."""
_LOOK_UP = "look the error up; the answer is checked against this host"


def _scope_code(ctx: Context) -> int | None:
    """What cuInit said to the check, run as the caller."""
    look = ctx.facts.cuda.scope
    return look.value.code if isinstance(look, Known) else None


def _nvlink(ctx: Context) -> bool:
    """Whether NVML sees a link that is up."""
    gpus = ctx.facts.nvml.gpus
    return isinstance(gpus, Known) and any(
        isinstance(gpu.nvlink_up, Known) and gpu.nvlink_up.value > 0 for gpu in gpus.value.values()
    )


STAGE = CudaStage()
