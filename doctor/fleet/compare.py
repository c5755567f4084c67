"""What is different from an earlier audit: hosts, verdicts, findings, traits; for the worse or for the better.

Something that was not seen is not gone: a finding that can no longer be seen, on a host that no longer answers, is no improvement.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from doctor.checks.finding import Outcome
from doctor.fleet.model import Brief, Change, HostLine

ORDER = ("healthy", "degraded", "unknown", "broken")
"""From good to bad, for a host; what was not audited stands beside unknown."""
UNSEEN = "not seen"


def changes(before: Mapping[str, HostLine], after: Mapping[str, HostLine]) -> list[Change]:
    """Host by host, by name: first whether it is there, then its verdict, findings and traits."""
    found: list[Change] = []
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name), after.get(name)
        if old is None or new is None:
            found.append(_came_or_went(name, old, new))
        else:
            found += _of_host(old, new)
    return found


def _rank(line: HostLine) -> int:
    return ORDER.index(line.verdict if line.state == "audited" else "unknown")


def _came_or_went(name: str, old: HostLine | None, new: HostLine | None) -> Change:
    """A host that vanished is worse: nobody looks at it any more. A new one is as good as its verdict."""
    return Change(
        host=name,
        kind="host",
        subject="",
        before=old.standing if old else "",
        after=new.standing if new else "",
        worse=new is None or _rank(new) > 0,
    )


def _of_host(old: HostLine, new: HostLine) -> Iterator[Change]:
    was, is_ = old.standing, new.standing
    if was != is_:
        worse = _rank(new) > _rank(old) or (
            _rank(new) == _rank(old) and old.state == "audited" and new.state != "audited"
        )
        yield Change(host=new.name, kind="verdict", subject="", before=was, after=is_, worse=worse)
    if old.state != "audited" or new.state != "audited":
        return
    yield from _findings(old, new)
    yield from _traits(old, new)


def _findings(old: HostLine, new: HostLine) -> Iterator[Change]:
    """Those that nothing else explains: what a root cause brings with it comes and goes with it."""
    earlier = {item.id: item for item in old.findings if item.blocked_by is None}
    later = {item.id: item for item in new.findings if item.blocked_by is None}
    explained = {item.id for item in new.findings if item.blocked_by is not None}
    for id in sorted(earlier.keys() | later.keys()):
        before, after = _said(earlier.get(id)), _said(later.get(id))
        if id not in later and id in explained:
            after = "explained"
        if before != after:
            yield Change(
                host=new.name,
                kind="finding",
                subject=id,
                before=before,
                after=after,
                worse=_badness(after) > _badness(before),
            )


def _said(item: Brief | None) -> str:
    if item is None:
        return ""
    if item.waived is not None:
        return "waived"
    return item.outcome.value


def _badness(said: str) -> int:
    order = (
        "",
        "waived",
        Outcome.WARN.value,
        Outcome.UNKNOWN.value,
        "explained",
        Outcome.FAIL.value,
    )
    return order.index(said)


def _traits(old: HostLine, new: HostLine) -> Iterator[Change]:
    """A trait that can no longer be seen is worse, one that can be is better; another value is neither, and so not called worse."""
    for path in sorted(old.traits.keys() | new.traits.keys()):
        before, after = old.traits.get(path, UNSEEN), new.traits.get(path, UNSEEN)
        if before != after:
            yield Change(
                host=new.name,
                kind="trait",
                subject=path,
                before=before,
                after=after,
                worse=after == UNSEEN,
            )
