"""A site's decisions: which hosts they are for, when they end, what they cannot touch, and what they make worse."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import Any

import msgspec
import pytest

from doctor import engine
from doctor.checks import waivers
from doctor.checks.finding import Outcome, Severity
from doctor.checks.verdict import verdict
from doctor.checks.waivers import NEVER, Raised, Waivers
from doctor.errors import UsageError
from doctor.matrix.row import Waiver
from tests.report.sample import report

DAY = date(2026, 11, 30)
FINDINGS = report().findings


def _waiver(id: str = "kernel.headers", **said: Any) -> Waiver:
    values = {"id": id, "reason": "old boards", "owner": "ops", "expires": date(2027, 1, 1), **said}
    return Waiver(**values)


def _waived(found: Waivers, *names: str) -> dict[str, str]:
    done = found.apply(FINDINGS, DAY, names)
    return {item.id: item.waived for item in done if item.waived and item.id != "driver.held"}


@pytest.mark.parametrize(
    ("hosts", "names", "applies"),
    [
        ([], ("gpu-1", "rack1"), True),
        (["gpu-*"], ("gpu-1", "rack1"), True),
        (["rack1"], ("gpu-1", "rack1"), True),
        (["rack2", "gpu-2"], ("gpu-1", "rack1"), False),
        (["*"], (), False),
    ],
)
def test_a_waiver_is_for_hosts_and_groups(
    hosts: list[str], names: tuple[str, ...], applies: bool
) -> None:
    found = _waived(Waivers([_waiver(hosts=hosts)]), *names)
    assert found == ({"kernel.headers": "old boards (ops, until 2027-01-01)"} if applies else {})


def test_of_several_for_a_host_the_longest_holds() -> None:
    entries = [
        _waiver(expires=date(2028, 1, 1), hosts=["gpu-*"]),
        _waiver(hosts=["rack1"]),
        _waiver(expires=date(2029, 1, 1), hosts=["other"]),
    ]
    assert _waived(Waivers(entries), "gpu-1", "rack1")["kernel.headers"].endswith("2028-01-01)")


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        (_waiver(expires=date(2026, 11, 29)), "expired on 2026-11-29"),
        (_waiver(expires=date(2026, 11, 29), hosts=["other"]), "expired"),
        (_waiver("no.such-check"), "no check is called"),
        *((_waiver(id), "cannot be waived") for id in sorted(NEVER)),
    ],
)
def test_a_bad_waiver_is_an_error_whomever_it_is_for(entry: Waiver, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        Waivers([entry]).apply(FINDINGS, DAY, ("gpu-1",))


def test_a_check_that_was_not_run_may_be_waived() -> None:
    entry = _waiver("shm.size")
    assert Waivers([entry]).apply(FINDINGS, DAY, (), lambda: ["shm.size"]) == FINDINGS


def test_it_holds_on_its_last_day() -> None:
    assert _waived(Waivers([_waiver(expires=DAY)]))


def test_a_site_makes_a_warning_an_error() -> None:
    raised = Raised(id="kernel.*", reason="policy 7", owner="security", hosts=["prod"])
    warned = [item for item in FINDINGS if item.id in ("kernel.headers", "host.uptime")]
    there = Waivers([], [raised]).apply(warned, DAY, ("gpu-1", "prod"))
    elsewhere = Waivers([], [raised]).apply(warned, DAY, ("gpu-1", "lab"))
    assert (verdict(there), verdict(elsewhere)) == ("broken", "degraded")
    (found,) = [item for item in there if item.id == "kernel.headers"]
    assert (found.severity, found.outcome) == (Severity.ERROR, Outcome.FAIL)


def test_what_was_not_seen_of_a_raised_rule_is_unknown() -> None:
    unseen = msgspec.structs.replace(FINDINGS[-3], outcome=Outcome.UNKNOWN, severity=Severity.WARN)
    raised = Waivers([], [Raised(id=unseen.id, reason="r", owner="o")])
    assert verdict([unseen]) == "healthy"
    assert verdict(raised.apply([unseen], DAY)) == "unknown"


def _file(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "waivers.yml"
    file.write_text(text, encoding="utf-8")
    return file


ENTRY = "{id: kernel.headers, reason: r, owner: o, expires: 2027-01-01, hosts: ['gpu-*']}"


@pytest.mark.parametrize("text", [f"- {ENTRY}\n", f"waivers:\n- {ENTRY}\n", ""])
def test_a_file_is_a_list_or_has_waivers_and_errors(text: str, tmp_path: Path) -> None:
    found = _waived(waivers.read(_file(tmp_path, text)), "gpu-1")
    assert list(found) == (["kernel.headers"] if text else [])


@pytest.mark.parametrize(
    "text",
    [
        "- {id: x, reason: r, owner: o}\n",
        "- {id: x, reason: r, owner: o, expires: soon}\n",
        "- {id: x, reason: '', owner: o, expires: 2027-01-01}\n",
        "- {id: x, reason: r, owner: ' ', expires: 2027-01-01}\n",
        "- {id: x, reason: r, owner: o, expires: 2027-01-01, host: a}\n",
        "waiver: []\n",
        "errors: [{id: x, reason: r}]\n",
        "errors: [{id: x, reason: ' ', owner: o}]\n",
        "[\n",
        "7\n",
    ],
)
def test_a_malformed_file_is_an_error(text: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="waivers"):
        waivers.read(_file(tmp_path, text))


def test_waivers_of_an_overlay_and_names_of_the_inventory_count(tmp_path: Path) -> None:
    """Through the engine, as a fleet's hosts are judged: what the host calls itself does not."""
    from doctor.probes.recordings.recorded import RecordedSource
    from tests.fleet_reports import corpus

    judged = corpus.judged(tmp_path / "h", corpus.described())
    (warned, *_) = [item.id for item in judged.findings if item.outcome is Outcome.WARN]
    site = tmp_path / "site"
    site.mkdir()
    (site / "site.yml").write_text(
        f"waivers:\n- {{id: {warned}, reason: r, owner: o, expires: 2027-01-01, hosts: [rack1]}}\n",
        encoding="utf-8",
    )

    def waived(*names: str) -> bool:
        options = engine.Options(as_of=DAY, overlays=(site,), names=names)
        found = engine.check(RecordedSource(str(tmp_path / "h")), options).findings
        return any(item.waived for item in found if item.id == warned)

    assert waived("gpu-1", "rack1")
    assert not waived("gpu-1", "rack2")
    assert not waived()  # it calls itself "simulated"
