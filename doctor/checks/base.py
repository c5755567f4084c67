"""How a check is written, found and evaluated. Exactly one finding per check, whatever the facts are."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cache
from typing import Any

import msgspec

from doctor.checks.finding import Citation, Evidence, Finding, FixAdvice, Outcome, Severity
from doctor.checks.knowledge import Knowledge
from doctor.facts.model import Absent, FactUnknown, Known, NotApplicable, Unknown
from doctor.facts.tree import Facts, lookup

ERROR, WARN, INFO = Severity.ERROR, Severity.WARN, Severity.INFO


class Fix(msgspec.Struct, frozen=True):
    """What cures a violation. `remedy` names a role; the class is auto exactly when that role is here and answers the check."""

    say: str
    command: str | None = None
    disturbs: str = "none"
    kind: str = "manual"
    """manual, needs-argument or hardware, when no role answers."""
    remedy: str | None = None
    debian: str | None = None
    """The role on Debian's family, where another one cures it there."""

    def role(self, family: str | None) -> str | None:
        """The role that cures it on a family of distributions."""
        return self.debian if self.debian is not None and family == "debian" else self.remedy


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What a check function returns; made with passed, failed, skipped or unseen."""

    state: str
    message: str
    want: str | None = None
    say: str | None = None
    command: str | None = None
    disturbs: str | None = None
    evidence: tuple[Evidence, ...] = ()
    rows: tuple[Any, ...] = ()
    """Matrix rows that decided it; their sources are cited before the check's own."""


def passed(
    message: str,
    *,
    evidence: Sequence[Evidence] = (),
    rows: Sequence[Any] = (),
    want: str | None = None,
) -> Result:
    """The claim holds; say what was checked, values first."""
    return Result(
        state="pass", message=message, evidence=tuple(evidence), rows=tuple(rows), want=want
    )


def failed(
    message: str,
    *,
    want: str,
    say: str | None = None,
    command: str | None = None,
    disturbs: str | None = None,
    evidence: Sequence[Evidence] = (),
    rows: Sequence[Any] = (),
) -> Result:
    """The claim is known not to hold. `say`, `command` and `disturbs` replace the check's own fix where the case decides."""
    return Result(
        state="fail",
        message=message,
        want=want,
        say=say,
        command=command,
        disturbs=disturbs,
        evidence=tuple(evidence),
        rows=tuple(rows),
    )


def skipped(reason: str) -> Result:
    """Known not to apply to this host."""
    return Result(state="skip", message=reason)


def unseen(reason: str, *, evidence: Sequence[Evidence] = ()) -> Result:
    """Applies, or may, and could not be seen."""
    return Result(state="unknown", message=reason, evidence=tuple(evidence))


def seen(path: str, value: Any, via: str = "") -> Evidence:
    """One piece of evidence beyond the facts the check declares."""
    return Evidence(fact=path, value=value, via=via)


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """A claim about a host with the id of its fault."""

    id: str
    title: str
    severity: Severity
    reads: tuple[str, ...]
    needs: tuple[str, ...]
    sources: tuple[str, ...]
    fix: Fix
    judge: Callable[[Facts, Knowledge], Result]
    wants: tuple[str, ...] = ()
    """Kinds of --want without which the check does not apply."""

    @property
    def area(self) -> str:
        """The part of the id before the dot: the module that holds it."""
        return self.id.partition(".")[0]


_REGISTERED: dict[str, Check] = {}


def check(
    id: str,
    *,
    title: str,
    severity: Severity,
    reads: Sequence[str],
    sources: Sequence[str],
    fix: Fix,
    needs: Sequence[str] = (),
) -> Callable[[Callable[[Facts, Knowledge], Result]], Callable[[Facts, Knowledge], Result]]:
    """Register a judging function. `needs` are ids of checks, at least as severe, whose failure would explain this one's."""

    def register(
        judge: Callable[[Facts, Knowledge], Result],
    ) -> Callable[[Facts, Knowledge], Result]:
        if id in _REGISTERED and _REGISTERED[id].judge.__module__ != judge.__module__:
            raise ValueError(f"two checks are called {id}")
        _REGISTERED[id] = Check(
            id=id,
            title=title,
            severity=severity,
            reads=tuple(reads),
            needs=tuple(needs),
            sources=tuple(sources),
            fix=fix,
            judge=judge,
        )
        return judge

    return register


def check_modules(area: str | None = None) -> list[str]:
    """Modules of doctor.checks.areas; those of one area are `<area>` and `<area>_<part>`."""
    names = _module_names()
    return [name for name in names if area is None or name == area or name.startswith(f"{area}_")]


@cache
def _module_names() -> list[str]:
    import doctor.checks.areas as package

    return sorted(item.name for item in pkgutil.iter_modules(package.__path__))


def _load(area: str | None = None, without: Sequence[str] = ()) -> None:
    for name in check_modules(area):
        if name.partition("_")[0] not in without:
            importlib.import_module(f"doctor.checks.areas.{name}")


def all_checks(rules: Iterable[Check] = (), *, without: Sequence[str] = ()) -> dict[str, Check]:
    """Every check by id: Python checks and the given YAML rules in one id space; `without` names areas left out."""
    _load(without=without)
    found = {id: item for id, item in _REGISTERED.items() if item.area not in without}
    return _joined(found, rules)


def selected_checks(
    pattern: str, rules: Iterable[Check] = (), *, needs: bool = True
) -> dict[str, Check]:
    """Checks whose id matches the glob, with all they need; imports only the modules these are in, and those tried before."""
    first = pattern.partition(".")[0]
    given = list(rules)
    ruled = {rule.id: rule for rule in given}
    if _is_glob(first):
        _load()
    elif _is_glob(pattern):
        _load(first)
    else:
        _load_until(pattern, ruled)
    found = _joined(dict(_REGISTERED), given)
    pending = [id for id in found if fnmatchcase(id, pattern)]
    seen: set[str] = set()
    while pending:
        id = pending.pop()
        if id in seen:
            continue
        seen.add(id)
        if id not in found:
            _load_until(id, ruled)
            found = {**_REGISTERED, **found}
        if id in found and needs:
            pending += list(found[id].needs)
    return {id: found[id] for id in sorted(seen) if id in found}


def _is_glob(text: str) -> bool:
    return any(mark in text for mark in "*?[")


def _load_until(id: str, ruled: Mapping[str, Check]) -> None:
    """Import the modules of the area one by one until one has registered the check."""
    for name in check_modules(id.partition(".")[0]):
        if id in _REGISTERED or id in ruled:
            return
        importlib.import_module(f"doctor.checks.areas.{name}")


def _joined(found: dict[str, Check], rules: Iterable[Check]) -> dict[str, Check]:
    for rule in rules:
        if rule.id in found:
            raise ValueError(f"the rule {rule.id} has the id of a check")
        found[rule.id] = rule
    return found


def judge(check: Check, facts: Facts, knowledge: Knowledge) -> Finding:
    """Evaluate one check alone; blocking is decided over all findings by `evaluate`."""
    try:
        result = check.judge(facts, knowledge)
    except FactUnknown as missing:
        if missing.state == "not-applicable":
            result = skipped(missing.reason)
        else:
            what = "not seen" if missing.state == "unknown" else "not there"
            result = unseen(
                f"{missing.via or check.id}: {missing.reason}"
                if missing.state == "unknown"
                else f"{missing.via}: {what}"
            )
    except ValueError as malformed:
        # a host may hold anything where a version belongs; what has not its form was not seen
        result = unseen(f"cannot judge: {malformed}")
    return Finding(
        id=check.id,
        title=check.title,
        outcome=_outcome(check, result),
        severity=check.severity,
        message=result.message,
        evidence=_evidence(check, facts, result),
        want=result.want,
        sources=_sources(check, result, knowledge),
        fix=_fix(check, result) if result.state in ("fail", "unknown") else None,
    )


def _outcome(check: Check, result: Result) -> Outcome:
    if result.state == "fail":
        return Outcome.FAIL if check.severity is ERROR else Outcome.WARN
    return Outcome(result.state)


def _evidence(check: Check, facts: Facts, result: Result) -> list[Evidence]:
    shown = list(result.evidence)
    named = {item.fact for item in shown}
    for path in check.reads:
        if path in named:
            continue
        fact = lookup(facts, path)
        if isinstance(fact, Known):
            shown.append(Evidence(fact=path, value=_short(fact.value), via=fact.via))
        elif isinstance(fact, Absent):
            shown.append(Evidence(fact=path, value=None, via=fact.via, reason="not there"))
        elif isinstance(fact, Unknown):
            shown.append(
                Evidence(fact=path, value=None, via=fact.via, reason=f"not seen: {fact.reason}")
            )
        elif isinstance(fact, NotApplicable):
            shown.append(Evidence(fact=path, value=None, reason=f"does not apply: {fact.reason}"))
    return shown


def _short(value: Any) -> Any:
    """Scalars as they are, short lists of scalars too; longer or nested values by their size."""
    if isinstance(value, str):
        return value if len(value) <= 400 else value[:400] + "..."
    if isinstance(value, (int, float, bool)) or value is None:
        return value
    if isinstance(value, list):
        plain = all(isinstance(item, (str, int, float)) for item in value)
        return value if plain and len(value) <= 12 else f"{len(value)} entries"
    if isinstance(value, dict):
        plain = all(isinstance(item, (str, int, float)) for item in value.values())
        return value if plain and len(value) <= 12 else f"{len(value)} entries"
    return msgspec.to_builtins(value)


def _sources(check: Check, result: Result, knowledge: Knowledge) -> list[Citation]:
    cited = [citation for row in result.rows for citation in knowledge.citations_of(row)]
    cited += [knowledge.citation(id) for id in check.sources]
    return list({citation.id: citation for citation in reversed(cited)}.values())[::-1]


def fix_class(check: Check) -> str:
    """auto when the role that the check names is here and answers it, else what the check says."""
    from doctor.plan.remedy import answers

    named = [role for role in (check.fix.remedy, check.fix.debian) if role is not None]
    auto = bool(named) and all(answers(role, check.id) for role in named)
    return "auto" if auto else check.fix.kind


def _fix(check: Check, result: Result) -> FixAdvice:
    return FixAdvice(
        kind=fix_class(check),
        say=result.say or check.fix.say,
        command=result.command or check.fix.command,
        disturbs=result.disturbs or check.fix.disturbs,
    )
