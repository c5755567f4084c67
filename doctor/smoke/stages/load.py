"""The rung `load`: many requests at once for a while; green, yellow or red against what this host showed before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from doctor.checks.finding import Evidence, Finding, Severity
from doctor.facts.model import Known
from doctor.smoke import baseline as baselines
from doctor.smoke import load
from doctor.smoke.context import StageFailed
from doctor.smoke.model import StageResult, fault, passed, skipped
from doctor.smoke.watch import GpuUse, Watch

if TYPE_CHECKING:
    from doctor.smoke.baseline import Baseline, Judgement
    from doctor.smoke.context import Context
    from doctor.smoke.load import Measured
    from doctor.smoke.server import Server

CLIENTS = {True: 16, False: 4}
"""Clients on a GPU, and on a CPU: enough that requests are batched, few enough to bound the run."""
MAX_SECONDS = 3600.0
TITLE = "The engine serves many requests as this host did before"


class Load:
    """Loads the server for the duration asked for."""

    name = "load"
    needs: tuple[str, ...] = ("nvml.gpus",)
    timeout = MAX_SECONDS + 300.0

    def run(self, ctx: Context) -> StageResult:
        """Measure, judge, learn."""
        server: Server | None = ctx.shared.get("server")
        model = ctx.shared["model"]
        if server is None:
            return skipped(self.name, "this version has no server to load")
        if model.embeds:
            return skipped(
                self.name, "the load asks for completions; this model class has embeddings"
            )
        measured, memory, growth, gpus = self._measure(ctx, server, model.vocabulary)
        if (code := server.running.returncode) is not None:
            raise server.died(code, self.name)
        host, what = _host(ctx), _what(ctx, measured.clients)
        known = baselines.load(_folder(ctx), host, what)
        grown = max([g.memory_growth for g in gpus if g.memory_growth is not None], default=growth)
        judged = baselines.judge(
            measured, known, grown if growth is None else max(growth, grown or 0)
        )
        numbers = _numbers(measured, memory, growth, gpus, judged)
        (ctx.folder / "load.json").write_text(
            json.dumps(numbers, indent=1) + "\n", encoding="utf-8"
        )
        evidence = _evidence(measured, known, gpus)
        if measured.errors or not measured.requests:
            broke = server.no_answer(self.name, "; ".join(judged.reasons), TITLE, "requests-failed")
            broke.extra = {"numbers": numbers, "files": ["load.json", server.running.log.name]}
            raise broke
        if judged.colour == "red":
            raise StageFailed(_fault(judged, known, evidence), numbers=numbers, files=["load.json"])
        learned = _learn(ctx, measured, host, what)
        warnings = [_slow(judged, known, evidence)] if judged.colour == "yellow" else []
        how: str = judged.colour
        if how == "not judged":  # a rung that passes says what it saw
            how = "every request was answered, how fast was not judged"
        return passed(
            self.name,
            f"{how}: {_in_words(measured, gpus)}; {_compared(known, learned)}",
            evidence=evidence,
            warnings=warnings,
            numbers=numbers,
            files=["load.json"],
        )

    def _measure(
        self, ctx: Context, server: Server, vocabulary: int
    ) -> tuple[Measured, int, float | None, list[GpuUse]]:
        seconds = min(ctx.options.duration, MAX_SECONDS)
        watch = Watch(ctx, {server.running.pid} if server.running.pid else set())
        clients = CLIENTS[ctx.uses_gpus]

        def is_over() -> bool:
            watch.sample()
            ctx.check()
            return not server.is_alive()

        try:
            measured = load.generate(
                lambda: server.client(120.0),
                clients=clients,
                seconds=seconds,
                vocabulary=range(4, vocabulary),
                is_over=is_over,
                tick=lambda done: ctx.progress(f"{clients} clients", min(done, seconds), seconds),
                abort=server.running.end,
            )
        finally:
            memory, growth, gpus = watch.stop()
        return measured, memory, growth, gpus

    def cleanup(self, ctx: Context) -> None:
        """The clients ended with the load, the watcher too."""


def _folder(ctx: Context) -> Path:
    """In the state folder, so that later runs find it, also those after a fix."""
    return ctx.state / "baselines"


def _host(ctx: Context) -> str:
    """What the numbers depend on: the GPUs, or the CPUs."""
    if ctx.engine is not None and ctx.engine.gpu:
        gpus = ctx.facts.nvml.gpus
        names = [
            gpu.name.value
            for gpu in (gpus.value.values() if isinstance(gpus, Known) else [])
            if isinstance(gpu.name, Known)
        ]
        return ", ".join(sorted(names)) or "GPUs not seen"
    import os

    model = "CPU"
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    except OSError:
        pass
    return f"{model}, {len(os.sched_getaffinity(0))} CPUs"


def _what(ctx: Context, clients: int) -> str:
    place, model = ctx.shared["place"], ctx.shared["model"]
    name = ctx.engine.name if ctx.engine else ""
    return f"{name}-{place.version}-{model.model_class}-{model.dtype}-{clients}-clients"


def _learn(ctx: Context, measured: Measured, host: str, what: str) -> str | None:
    if not ctx.options.learn:
        return None
    found = baselines.learn(measured, host, what, ctx.knowledge.as_of.isoformat())
    return str(baselines.save(_folder(ctx), found))


def _in_words(measured: Measured, gpus: list[GpuUse]) -> str:
    first, whole = measured.first_token_ms, measured.request_ms
    text = (
        f"{measured.requests} requests of {measured.clients} clients in {measured.seconds:.0f} s,"
        f" {measured.tokens_per_s:.1f} tokens/s; first token P50 {first.p50:.0f}, P95 {first.p95:.0f}, P99 {first.p99:.0f} ms;"
        f" whole P50 {whole.p50:.0f}, P95 {whole.p95:.0f}, P99 {whole.p99:.0f} ms"
    )
    for gpu in gpus:
        use = f", SMs busy {gpu.sm_percent_mean:.0f} %" if gpu.sm_percent_mean is not None else ""
        text += f"; GPU {gpu.index} memory {gpu.memory_share:.0%}{use}"
    return text


def _compared(known: Baseline | None, learned: str | None) -> str:
    if learned is not None:
        return "kept as this host's baseline"
    if known is None:
        return "no baseline of this host to judge by; --learn keeps one"
    return f"learned on {known.learned}: {known.tokens_per_s:.1f} tokens/s"


def _numbers(
    measured: Measured, memory: int, growth: float | None, gpus: list[GpuUse], judged: Judgement
) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(measured)
    found["errors"] = measured.errors[:20]
    found |= {
        "verdict": judged.colour,
        "host_memory_bytes": memory,
        "host_memory_growth": growth,
        "gpus": msgspec.to_builtins(gpus),
    }
    return found


def _evidence(measured: Measured, known: Baseline | None, gpus: list[GpuUse]) -> list[Evidence]:
    found = [
        Evidence(fact="load.tokens-per-s", value=measured.tokens_per_s, via="/v1/completions"),
        Evidence(
            fact="load.first-token-p95-ms", value=measured.first_token_ms.p95, via="/v1/completions"
        ),
        Evidence(fact="load.errors", value=len(measured.errors), via="/v1/completions"),
    ]
    if known is not None:
        found.append(
            Evidence(
                fact="baseline.tokens-per-s",
                value=known.tokens_per_s,
                via=f"learned on {known.learned} on {known.host}",
            )
        )
    found += [
        Evidence(fact=f"gpu.{gpu.index}.memory-share", value=gpu.memory_share, via="NVML")
        for gpu in gpus
    ]
    return found


def _fault(judged: Judgement, known: Baseline | None, evidence: list[Evidence]) -> Finding:
    return fault(
        "load",
        "too-slow",
        TITLE,
        "; ".join(judged.reasons),
        want=f"at least {baselines.RED_SHARE:.0%} of {known.tokens_per_s:.1f} tokens/s"
        if known
        else "requests that are answered",
        say="look what else runs on this host and whether the GPU is throttled, then load again",
        command="doctor check --only 'gpu.*' -v",
        evidence=evidence,
    )


def _slow(judged: Judgement, known: Baseline | None, evidence: list[Evidence]) -> Finding:
    return fault(
        "load",
        "slower-than-learned" if known is not None else "memory-grows",
        TITLE,
        "; ".join(judged.reasons),
        want=f"about {known.tokens_per_s:.1f} tokens/s" if known else "memory that stays",
        say="look what else runs on this host, load again for longer, or learn anew if the host changed",
        command="doctor smoke --duration 120",
        severity=Severity.WARN,
        evidence=evidence,
    )


STAGE = Load()
