"""Logs of engines that broke, on hosts that explain it: the fault is named, and the finding points at the host's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from doctor.checks.knowledge import Knowledge
from doctor.engine import Options as CheckOptions
from doctor.engine import check
from doctor.facts.tree import decode
from doctor.simulate.memory import MemorySource
from doctor.simulate.simulator import simulate
from doctor.smoke import engine_log
from doctor.smoke.context import Context, Options
from doctor.smoke.engines.vllm import Vllm
from tests.checks.harness import CASES, description_of
from tests.smoke.recorded_context import DAY

LOGS = Path(__file__).parent / "logs"


def failing_host(id: str) -> dict[str, Any]:
    """The first host on which the suite shows this check failing."""
    for file in sorted(CASES.glob("*.yml")):
        for item in yaml.safe_load(file.read_text(encoding="utf-8")) or []:
            if item["check"] == id and not item.get("want"):
                return description_of(item.get("base"), item["fails"])
    raise LookupError(id)


def on_host(folder: Path, description: dict[str, Any]) -> Context:
    """A context over a simulated host, with a GPU engine."""
    source = MemorySource(simulate(description))
    report = check(source, CheckOptions(as_of=DAY, label="simulated"))
    made = Context(
        folder=folder,
        source=source,
        facts=decode(report.facts),
        report=report,
        knowledge=Knowledge(DAY),
        options=Options(),
        emit=[].append,
    )
    made.engine = Vllm()
    return made


def read(ctx: Context, log: str) -> Any:
    broke = engine_log.broken(
        ctx,
        "serve",
        "exited",
        "The engine serves",
        "the server ended after 20 s (exit 1)",
        (LOGS / log).read_text(),
        "server.log",
        want="a server",
    )
    return broke.finding


CONFIRMED = {
    "no-nvcc.log": ("engine.flashinfer-jit", "Could not find nvcc"),
    "no-ninja.log": ("engine.flashinfer-jit", "'ninja'"),
    "glibc.log": ("python.glibc-too-old", "GLIBC_2.34"),
    "no-kernel-image.log": ("cuda.arch-not-in-build", "no kernel image"),
    "undefined-symbol.log": ("python.torch-pin", "undefined symbol: _ZN3c104cuda9SetDeviceEab"),
    "nvjitlink.log": ("python.library-shadowed", "__nvJitLinkComplete_12_4"),
    "nccl-symbol.log": ("nccl.wrong-library", "ncclCommWindowRegister"),
    "memory-taken.log": ("gpu.memory-in-use", "free 38.1, total 79.19, unit GiB"),
    "out-of-memory.log": ("gpu.memory-in-use", "tried to allocate 1.02 GiB, total 79.19 GiB, free 871.06 MiB"),
    "wheel-pins.log": ("python.engine-pins-broken", "extra_lib_paths"),
    "torchvision.log": ("python.requirements-unmet", "torchvision::nms"),
}  # fmt: skip
"""Log -> the host's finding behind it, and what of the log the finding shows."""


@pytest.mark.parametrize("log", CONFIRMED)
def test_a_log_is_explained_by_the_hosts_finding(tmp_path: Path, log: str) -> None:
    id, words = CONFIRMED[log]
    ctx = on_host(tmp_path, failing_host(id))
    host = ctx.finding(id)
    assert host is not None
    assert host.violated, "the host does not have this fault"
    finding = read(ctx, log)
    assert finding.id == f"smoke.serve-{id.partition('.')[2]}"
    assert finding.blocked_by == id
    assert f"behind it is {id}: {host.message}" in finding.message
    assert words in " ".join([finding.message, *(str(item.value) for item in finding.evidence)])
    facts = {item.fact for item in finding.evidence if not item.fact.startswith("log.")}
    assert facts >= {item.fact for item in host.evidence}
    assert finding.sources
    assert host.fix is not None
    assert (finding.fix.say, finding.fix.command) == (host.fix.say, host.fix.command)


ELSEWHERE = ["port-in-use.log", "wrong-layout.log", *CONFIRMED]


@pytest.mark.parametrize("log", ELSEWHERE)
def test_on_a_host_without_that_fault_the_log_is_explained_and_no_finding_is_blamed(
    tmp_path: Path, log: str
) -> None:
    finding = read(on_host(tmp_path, description_of(None, {})), log)
    assert finding.blocked_by is None
    assert "the log fits" in finding.message
    assert finding.id != "smoke.serve-exited"
    assert finding.sources
    assert finding.fix.command == f"doctor diagnose - < {tmp_path / 'server.log'}"


@pytest.mark.parametrize("log", sorted(path.name for path in LOGS.iterdir()))
def test_the_telling_lines_are_few_and_hold_no_traceback(tmp_path: Path, log: str) -> None:
    lines = engine_log.telling_lines((LOGS / log).read_text())
    assert 1 <= len(lines) <= engine_log.SHOWN_LINES
    assert not any(line.startswith(("File ", "Traceback", "raise ")) for line in lines)
