"""One report as a line: what did not pass, what it is compared by, which machine it was; and many lines as a fleet."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from doctor.checks.finding import Outcome
from doctor.facts.identity import host_name
from doctor.facts.tree import decode
from doctor.fleet.aggregate import Gathering
from doctor.fleet.line import MESSAGE, line_of
from doctor.fleet.model import HostLine, file_name
from doctor.fleet.trait_list import BY_PATH
from doctor.fleet.traits import LONGEST
from doctor.report.model import Report
from tests.fleet_reports import corpus
from tests.fleet_reports.sample import finish, fleet, line
from tests.report.sample import report


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Report:
    return corpus.judged(tmp_path_factory.mktemp("line") / "h", corpus.described())


def _live(report: Report, **facts: Any) -> Report:
    """As of a host, with some facts of it changed (`host__time={...}`)."""
    changed = {area: dict(names) for area, names in report.facts.items()}
    for path, fact in facts.items():
        area, _, name = path.partition("__")
        changed[area][name] = fact
    host = msgspec.structs.replace(report.host, source="live")
    return msgspec.structs.replace(report, host=host, facts=changed)


def test_a_simulated_host_shows_every_trait(healthy: Report) -> None:
    assert set(line_of(healthy, "h").traits) == set(BY_PATH)


@pytest.mark.parametrize("area", ["driver", "nvml", "limits", "python_env"])
def test_a_probe_that_failed_leaves_its_traits_out(healthy: Report, area: str) -> None:
    unseen = {**healthy.facts, area: {"": {"state": "unknown", "reason": "timeout"}}}
    traits = line_of(msgspec.structs.replace(healthy, facts=unseen), "h").traits
    assert not [path for path in traits if path.startswith(f"{area}.")]
    assert len(traits) > 20


@pytest.mark.parametrize(
    "lie", [None, [], "x", 7, {"state": "known"}, {"state": "known", "value": ["x"], "via": ""}]
)
def test_a_lie_in_a_fact_costs_its_trait_alone(healthy: Report, lie: Any) -> None:
    traits = line_of(_live(healthy, driver__loaded=lie), "h").traits
    assert "driver.loaded" not in traits
    assert traits["driver.package"] == "580.95.05"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('ID=rocky\nVERSION_ID="9.6"\nPRETTY_NAME=\'Rocky "Blue" 9.6\'\n', 'Rocky "Blue" 9.6'),
        ("ID=rocky\nNAME=Rocky\nVERSION_ID=9.6\n", "Rocky 9.6"),
        ("VERSION_ID=9.6\n", ""),
    ],
)
def test_a_distribution_has_one_name(healthy: Report, text: str, name: str) -> None:
    found = _live(healthy, host__os_release={"state": "known", "value": text, "via": "x"})
    assert host_name(decode(found.facts), "live").distribution == name
    assert line_of(found, "h").traits.get("host.distribution", "") == name


def test_absence_is_an_observation(healthy: Report) -> None:
    absent = {"state": "absent", "via": "/sys/module/nvidia"}
    assert (
        line_of(_live(healthy, driver__loaded=absent), "h").traits["driver.loaded"] == "not there"
    )


def test_one_gpu_that_was_not_seen_leaves_the_tally_unseen(healthy: Report) -> None:
    fact = msgspec.json.decode(msgspec.json.encode(healthy.facts["nvml"]["gpus"]))
    next(iter(fact["value"].values()))["vbios"] = {"state": "unknown", "reason": "no answer"}
    traits = line_of(_live(healthy, nvml__gpus=fact), "h").traits
    assert "nvml.gpus.vbios" not in traits
    assert traits["nvml.gpus.ecc"] == "8 x yes"


def test_one_gpu_with_another_vbios_shows(healthy: Report) -> None:
    fact = msgspec.json.decode(msgspec.json.encode(healthy.facts["nvml"]["gpus"]))
    next(iter(fact["value"].values()))["vbios"]["value"] = "96.00.74.00.01"
    traits = line_of(_live(healthy, nvml__gpus=fact), "h").traits
    assert traits["nvml.gpus.vbios"] == "7 x 96.00.A5.00.01, 1 x 96.00.74.00.01"


def test_a_long_value_and_a_long_message_are_cut(healthy: Report) -> None:
    long = {"state": "known", "value": "x" * 100_000, "via": ""}
    made = line_of(_live(healthy, driver__flavor=long), "h")
    assert len(made.traits["driver.flavor"]) == LONGEST
    assert max(len(item.message) for item in line_of(report("y" * 9999), "h").findings) == MESSAGE


@pytest.mark.parametrize(
    ("now", "ahead"), [(1000, 0), (995, 0), (1001, 0), (1060, 60), (900, -94), (994, 0), (993, -1)]
)
def test_a_clock_is_only_wrong_beyond_the_time_of_asking(
    healthy: Report, now: int, ahead: int
) -> None:
    """Asked at 995, answered at 1000."""
    fact = {"state": "known", "value": now, "via": "/proc/stat"}
    made = line_of(_live(healthy, host__time=fact), "h", seconds=5.0, answered=1000.0)
    assert made.identity is not None
    assert made.identity.ahead == ahead


def test_a_recording_has_no_identity_and_a_container_no_kernel_of_its_own(healthy: Report) -> None:
    assert line_of(healthy, "h", answered=1000.0).identity is None
    alone = line_of(_live(healthy), "h").identity
    inside = line_of(_live(healthy, host__container={"state": "known", "value": "docker"}), "h")
    assert alone is not None
    assert alone.boot
    assert alone.ahead is None
    assert inside.identity is not None
    assert inside.identity.boot == ""


def test_the_root_cause_stands_first() -> None:
    made = line_of(report(), "h")
    assert [item.id for item in made.findings] == [
        "driver.skew",
        "kernel.headers",
        "host.uptime",
        "cuda.init-failed",
        "driver.held",
        "nccl.cumem",
    ]
    assert (made.passed, made.skipped, made.unseen, made.next) == (1, 1, 1, "driver.skew")


def test_faults_are_told_by_the_hosts_on_which_nothing_explains_them() -> None:
    gathering = Gathering()
    for name in ("a", "b"):
        gathering.add(line_of(report(), name), report())
    blind = msgspec.structs.replace(
        report(),
        findings=[
            msgspec.structs.replace(item, outcome=Outcome.UNKNOWN, message="not seen here")
            for item in report().findings
            if item.id == "kernel.headers"
        ],
    )
    gathering.add(line_of(blind, "c"), blind)
    found = {item.id: item for item in finish(gathering).by_finding}
    headers = found["kernel.headers"]
    assert (headers.outcome, headers.roots, headers.unseen) == (Outcome.WARN, 2, 1)
    assert headers.hosts == ["a", "b", "c"]
    assert headers.message == "550.90.07 is loaded"
    assert found["cuda.init-failed"].roots == 0
    assert found["driver.held"].roots == 0  # waived
    assert found["nccl.cumem"].fix is None  # of a fault nobody has seen
    assert next(iter(found)) == "driver.skew"


def test_a_name_that_comes_twice_is_refused() -> None:
    gathering = Gathering()
    gathering.add(line("a"))
    with pytest.raises(ValueError, match="a came twice"):
        gathering.add(line("a"))


def _codes() -> Iterator[tuple[list[HostLine], str, int]]:
    well, late = line("well"), line("late", state="late", verdict="unknown", exit_code=3)
    broken = line("broken", verdict="broken", exit_code=1)
    unknown = line("unknown", verdict="unknown", exit_code=3)
    yield [], "unknown", 3
    yield [well], "healthy", 0
    yield [well, late], "partial", 3
    yield [late], "partial", 3
    yield [well, unknown], "unknown", 3
    yield [well, unknown, late], "partial", 3
    yield [well, late, broken], "broken", 1


@pytest.mark.parametrize(("lines", "verdict", "code"), list(_codes()))
def test_no_host_that_was_not_seen_passes(lines: list[HostLine], verdict: str, code: int) -> None:
    found = fleet(*lines)
    assert (found.verdict, found.exit_code) == (verdict, code)
    assert found.counts["hosts"] == len(lines)


def test_hosts_that_are_alike_share_memory() -> None:
    gathering = Gathering()
    for name in ("a", "b"):
        gathering.add(line_of(report(), name), report())
    one, other = finish(gathering).hosts
    assert one.findings[0] is other.findings[0]


@pytest.mark.parametrize("name", ["fleet", ".", "..", "a/b", "../x", "fleet.json", "\u2028", "a b"])
def test_no_host_s_file_leaves_the_folder_or_is_the_summary(name: str, tmp_path: Path) -> None:
    file = tmp_path / file_name(name)
    file.write_text("x", encoding="utf-8")
    assert [item.name for item in tmp_path.iterdir()] == [file.name]
    assert file.name != "fleet.json"
    assert not file.name.startswith(".")
