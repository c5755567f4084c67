"""Pasted errors: the right finding first, nothing where nothing fits, and the host has the last word."""

from __future__ import annotations

from datetime import date

import pytest

from doctor.checks.finding import Finding, Outcome, Severity
from doctor.checks.knowledge import Knowledge
from doctor.diagnose import LIKELY, explain

KNOWLEDGE = Knowledge(date(2026, 11, 30))

PASTED = [
    (
        "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 580.95",
        "driver.library-mismatch",
    ),
    (
        'docker: Error response from daemon: could not select device driver "" with capabilities: [[gpu]].',
        "container.runtime-not-registered",
    ),
    (
        "docker: Error response from daemon: unknown or invalid runtime name: nvidia.",
        "container.runtime-not-registered",
    ),
    (
        "modprobe: ERROR: could not insert 'nvidia': Key was rejected by service",
        "driver.module-refused",
    ),
    (
        "RuntimeError: CUDA driver initialization failed\nError 803: system has unsupported display driver / cuda driver combination",
        "cuda.libcuda-compat",
    ),
    ("torch.AcceleratorError: CUDA error: system not yet initialized (802)", "fabric.not-ready"),
    (
        "RuntimeError: CUDA error: no kernel image is available for execution on the device",
        "cuda.arch-not-in-build",
    ),
    (
        "Error! Your kernel headers for kernel 6.8.0-45-generic cannot be found at /lib/modules/6.8.0-45-generic/build",
        "kernel.headers-missing",
    ),
    (
        "ImportError: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.34' not found (required by vllm/_C.abi3.so)",
        "python.glibc-too-old",
    ),
    (
        "nvidia-container-cli: initialization error: load library failed: libnvidia-ml.so.1: cannot open shared object file",
        "container.host-driver-missing",
    ),
    ("NVRM: Xid (PCI:0000:18:00): 79, pid=1234, GPU has fallen off the bus.", "gpu.xid-79"),
]


@pytest.mark.parametrize(("text", "finding"), PASTED, ids=[finding for _, finding in PASTED])
def test_the_right_finding_comes_first(text: str, finding: str) -> None:
    found = explain(text, KNOWLEDGE)
    assert found, "nothing fits"
    assert found[0].finding == finding, [(item.finding, item.score) for item in found]
    assert found[0].sources
    assert all(source.url for source in found[0].sources)


@pytest.mark.parametrize(
    "text",
    [
        "Segmentation fault (core dumped)",
        "ConnectionRefusedError: [Errno 111] Connection refused",
        "KeyError: 'hidden_size'",
        "the quick brown fox jumps over the lazy dog",
        "HTTP/1.1 500 Internal Server Error",
        "GET /health 200 in 803 ms",
    ],
)
def test_nothing_fits_and_it_says_so(text: str) -> None:
    assert explain(text, KNOWLEDGE) == []


def host_says(id: str, outcome: Outcome) -> dict[str, Finding]:
    return {id: Finding(id=id, title="t", outcome=outcome, severity=Severity.ERROR, message="m")}


def test_the_host_confirms_contradicts_or_was_not_seen() -> None:
    text = PASTED[0][0]
    alone = explain(text, KNOWLEDGE)[0]
    id = alone.finding
    confirmed = explain(text, KNOWLEDGE, host_says(id, Outcome.FAIL))[0]
    refuted = {item.finding: item for item in explain(text, KNOWLEDGE, host_says(id, Outcome.PASS))}
    unseen = explain(text, KNOWLEDGE, host_says(id, Outcome.UNKNOWN))[0]
    assert alone.host == "not judged"
    assert confirmed.score > alone.score >= LIKELY
    assert confirmed.host == "confirmed"
    assert refuted[id].score < alone.score
    assert refuted[id].host == "contradicted"
    assert (unseen.host, unseen.score) == ("not seen", alone.score)


def test_a_long_log_is_read_from_its_end_and_escapes_do_not_hide_words() -> None:
    log = (
        "INFO all is well\n" * 200_000
        + "\x1b[31mFailed to initialize NVML\x1b[0m: Driver/library version mismatch"
    )
    assert explain(log, KNOWLEDGE)[0].finding == "driver.library-mismatch"


def test_every_symptom_of_the_matrix_finds_its_own_issue() -> None:
    from doctor.matrix.model import KnownIssue

    rows = KNOWLEDGE.matrix.rows(KnownIssue)
    missed = []
    for row in rows:
        for symptom in row.symptoms:
            found = {item.finding for item in explain(f"12:00 ERROR worker: {symptom}", KNOWLEDGE)}
            if row.finding not in found:
                missed.append((row.id, symptom))
    assert missed == []
