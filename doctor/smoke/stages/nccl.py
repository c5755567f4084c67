"""Rung `nccl`: an all-reduce over all GPUs with the copy of NCCL that the engine would load; sums checked on every rank,
bus bandwidth against a sourced floor for that topology, which only warns, and with the reason when it is low.
"""

from __future__ import annotations

from typing import Any

from doctor.checks.finding import Evidence, Finding, Severity
from doctor.facts.model import Known
from doctor.smoke.bus_bandwidth import Expected, Reason, bus_bandwidth, expected, reasons
from doctor.smoke.child_answer import Answer, finish, start, words
from doctor.smoke.context import Context, StageFailed, StageUnseen
from doctor.smoke.host_cause import broken, cause_of
from doctor.smoke.model import StageResult, fault, passed, skipped
from doctor.smoke.nccl_copy import Copy, copy_to_load
from doctor.smoke.nccl_log import Transports, read_log

LARGEST = 1 << 30
CHILD_S = 180.0
SPACE = "No space left on device"
TITLE = "An all-reduce over all GPUs gives the right sums"


class NcclStage:
    """One all-reduce over every GPU."""

    name = "nccl"
    needs = (
        "python_env.environments",
        "nccl.loader",
        "nccl.environment",
        "nccl.conf",
        "nvml.gpus",
        "pci.gpus",
        "pci.nvswitches",
    )
    timeout = 240.0

    def run(self, ctx: Context) -> StageResult:
        """Choose the copy, run the child, judge sums and then speed."""
        copy = copy_to_load(ctx)
        if copy is None:
            return skipped(
                "nccl", "no copy of NCCL is here: the engine brings its own in its environment"
            )
        ctx.progress(f"all-reduce with {copy.path}")
        answer, transports = self._ask(ctx, copy)
        evidence = [Evidence(fact="smoke.nccl.library", value=copy.path, via=copy.why)]
        evidence += answer.evidence("smoke.nccl")
        if transports.kinds:
            evidence.append(
                Evidence(fact="smoke.nccl.transports", value=transports.text, via="nccl-debug.log")
            )
        if answer.broke is not None:
            raise self._failed(ctx, copy, answer, transports, evidence)
        sums, loaded = answer.step("sums"), answer.step("load")
        if sums is None or loaded is None:
            raise StageUnseen("the child ended without an answer about the sums")
        ranks = int(sums["ranks"])
        numbers: dict[str, Any] = {"ranks": ranks, "sums_bytes": sums["bytes"]}
        message = f"NCCL {loaded['version']} over {ranks} GPU{'s' * (ranks > 1)}: sums right"
        warnings: list[Finding] = []
        files = [answer.log, *transports.files]
        if ranks == 1:
            message += "; bandwidth needs two GPUs"
        else:
            said, warnings = self._speed(ctx, answer, ranks, transports, numbers, evidence)
            message += said
        return passed(
            "nccl", message, evidence=evidence, warnings=warnings, numbers=numbers, files=files
        )

    def cleanup(self, ctx: Context) -> None:
        """The child has ended and gave its memory back; segments are the registry's."""

    def _ask(self, ctx: Context, copy: Copy) -> tuple[Answer, Transports]:
        log = ctx.scratch / "nccl-debug.log"
        env = _conf(ctx) | {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": str(log)}
        child = start(ctx, "nccl_probe", [copy.path, str(LARGEST)], "nccl", env)
        answer = finish(ctx, child, CHILD_S)
        return answer, read_log(log, ctx.folder / "nccl-debug.log")

    def _failed(
        self,
        ctx: Context,
        copy: Copy,
        answer: Answer,
        transports: Transports,
        evidence: list[Evidence],
    ) -> StageFailed:
        broke = answer.broke or {"step": "start", "state": "crash"}
        step, state = broke["step"], broke["state"]
        kind = {"wrong": "wrong-sums", "hang": "hang", "crash": "crash"}.get(
            state, "library" if step == "load" else "failed"
        )
        said = words(broke)
        ids: tuple[str, ...] = ("nccl.wrong-library", "nccl.version-for-gpu")
        if state in ("hang", "wrong"):
            ids = ("pci.acs", "nccl.known-bad-version", *ids)
        if SPACE in transports.tail or SPACE in said:
            ids = ("nccl.cumem-host", "shm.full", "shm.size", *ids)
            said += f"; its log says: {SPACE}"
        elif transports.warning:
            said += f"; its log says: {transports.warning}"
        return broken(
            "nccl",
            kind,
            TITLE,
            f"all-reduce with {copy.path}, {step}: {said}",
            want="right sums on every GPU",
            cause=cause_of(ctx, ids, ("fabric",)),
            say="NCCL's own log names the call that failed; the answer is checked against this host",
            command=f"doctor diagnose - < {ctx.folder / (transports.files or [answer.log])[0]}",
            evidence=evidence,
            files=[answer.log, *transports.files],
        )

    def _speed(
        self,
        ctx: Context,
        answer: Answer,
        ranks: int,
        transports: Transports,
        numbers: dict[str, Any],
        evidence: list[Evidence],
    ) -> tuple[str, list[Finding]]:
        timed = answer.step("bandwidth") or {}
        if not timed.get("bytes"):
            return f"; bandwidth not measured: {timed.get('note', 'no answer')}", []
        size = int(timed["bytes"])
        busbw = bus_bandwidth(ctx.knowledge.matrix, "all_reduce", ranks, timed["algbw_gb_s"])
        if busbw is None:
            return "; bandwidth not judged: the matrix has no formula for it", []
        numbers |= {
            "message_bytes": size,
            "algbw_gb_s": round(timed["algbw_gb_s"], 1),
            "busbw_gb_s": round(busbw, 1),
        }
        said = f", {busbw:.1f} GB/s bus bandwidth at {size >> 20} MiB"
        want = expected(ctx, ranks, size)
        if want is None:
            return f"{said}; no floor is published for this topology", []
        numbers["floor_gb_s"] = round(want.gb_s, 1)
        if busbw >= want.gb_s:
            return f"{said}, not below {want.text}", []
        why = reasons(ctx, transports)
        return f"{said}, below {want.text}", [_slow(ctx, busbw, size, want, why, evidence)]


def _slow(
    ctx: Context,
    busbw: float,
    size: int,
    want: Expected,
    why: list[Reason],
    evidence: list[Evidence],
) -> Finding:
    first = why[0] if why else None
    because = f": {'; '.join(reason.text for reason in why)}" if why else ""
    return fault(
        "nccl",
        "slow",
        "The bandwidth between GPUs is that of their links",
        f"{busbw:.1f} GB/s at {size >> 20} MiB, {want.text} expected{because}",
        want=want.text,
        say=first.say if first else "see which way NCCL took and what the links are",
        command=first.command if first else "nvidia-smi topo -m && nvidia-smi nvlink -s",
        severity=Severity.WARN,
        evidence=[*evidence, *(item for reason in why for item in reason.evidence)],
        sources=[item for row in want.rows for item in ctx.knowledge.citations_of(row)],
        blocked_by=first.cause if first else None,
    )


def _conf(ctx: Context) -> dict[str, str]:
    """What /etc/nccl.conf and the caller's ~/.nccl.conf set: the child has another home and must not lose it."""
    conf, own = ctx.facts.nccl.conf, ctx.facts.nccl.environment
    if not isinstance(conf, Known):
        return {}
    set_already = own.value if isinstance(own, Known) else {}
    return {
        key: value
        for key, value in conf.value.items()
        if key.startswith("NCCL_") and key not in set_already
    }


STAGE = NcclStage()
