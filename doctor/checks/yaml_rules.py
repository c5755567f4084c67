"""YAML rules of matrices/rules/ as checks: for claims that compare one fact, or one field of each record, with a value or a row."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from doctor.checks.base import Check, Fix, Result, failed, passed, seen, skipped, unseen
from doctor.checks.finding import Evidence, Severity
from doctor.checks.knowledge import Knowledge
from doctor.checks.operators import COMPARE, STATES, TYPES, parse
from doctor.errors import MatrixError
from doctor.facts.model import Absent, FactUnknown, Known, NotApplicable, Unknown
from doctor.facts.tree import Facts, lookup, paths


class Condition(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One fact and one operator. `present`/`absent: true` compare its state."""

    fact: str
    present: bool | None = None
    absent: bool | None = None
    op: str | None = None
    value: Any = None


class Claim(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What must hold. `field` looks into each record of a list or mapping; `row` takes the wanted value from a statement."""

    fact: str
    field: str | None = None
    op: str
    value: Any = None
    row: dict[str, str] | None = None
    """{"table", "id", "column"}."""
    kind: str | None = msgspec.field(name="as", default=None)
    if_absent: str = "skip"
    """What an absent fact means: skip, pass or fail."""


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One entry of matrices/rules/<area>.yml."""

    id: str
    title: str
    severity: Severity
    claim: Claim
    applies: list[Condition] = []
    not_here: str = "does not apply to this host"
    """Said when `applies` does not hold."""
    passes: str = msgspec.field(name="pass")
    fails: str = msgspec.field(name="fail")
    want: str
    fix: Fix
    needs: list[str] = []
    sources: list[str]


class _Compiled(msgspec.Struct, frozen=True):
    rules: list[Rule]


def rules(overlays: Sequence[Path] = ()) -> list[Check]:
    """Every rule that ships, as checks; an overlay brings none. MatrixError with file and line for a wrong rule."""
    from doctor.matrix import cache
    from doctor.resources import matrices_dir

    folder = matrices_dir() / "rules"
    if not folder.is_dir():
        return []
    contents = [(file, file.read_bytes()) for file in sorted(folder.glob("*.yml"))]
    digest = cache.digesting(Path(__file__).read_bytes())
    for file, content in contents:
        digest.update(file.name.encode() + b"\0" + content)
    name = f"rules-{digest.hexdigest()}"
    stored = cache.read(name)
    if stored is not None:
        try:
            return [_check(rule) for rule in msgspec.json.decode(stored, type=_Compiled).rules]
        except msgspec.MsgspecError:
            pass
    loaded = [rule for file, _ in contents for rule in read_rules(file)]
    cache.write(name, msgspec.json.encode(_Compiled(loaded)))
    return [_check(rule) for rule in loaded]


def read_rules(file: Path) -> list[Rule]:
    """The rules of one file, strictly."""
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)(file.read_text(encoding="utf-8"))
    try:
        whole = loader.get_single_node()
        entries = None if whole is None else loader.construct_document(whole)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 0
        raise MatrixError(
            f"not YAML: {error.problem}", "mend the line", file=file.name, line=line
        ) from None
    finally:
        loader.dispose()
    if entries is None:
        return []
    if not isinstance(entries, list):
        raise MatrixError(
            "a rule file is a list of rules", "begin it with `- id:`", file=file.name, line=1
        )
    found = []
    for entry, node in zip(entries, whole.value, strict=True):
        line = node.start_mark.line + 1
        try:
            rule = msgspec.convert(entry, Rule)
        except msgspec.ValidationError as error:
            raise MatrixError(
                str(error), "see matrices/README.md", file=file.name, line=line
            ) from None
        problem = _problem(rule)
        if problem:
            raise MatrixError(
                f"{rule.id}: {problem}", "see matrices/README.md", file=file.name, line=line
            )
        found.append(rule)
    return found


def _problem(rule: Rule) -> str | None:
    known = set(paths())
    for condition in rule.applies:
        if condition.fact not in known:
            return f"no fact is called {condition.fact}"
        if condition.op is not None and condition.op not in COMPARE:
            return f"no operator is called {condition.op}"
        if condition.op is None and condition.present is None and condition.absent is None:
            return "a condition needs present, absent or op"
    if rule.claim.fact not in known:
        return f"no fact is called {rule.claim.fact}"
    if rule.claim.op not in COMPARE and rule.claim.op not in STATES:
        return f"no operator is called {rule.claim.op}"
    if rule.claim.kind is not None and rule.claim.kind not in TYPES:
        return f"no type is called {rule.claim.kind}"
    if rule.claim.if_absent not in ("skip", "pass", "fail"):
        return "if_absent is skip, pass or fail"
    if rule.fix.command is None or not rule.sources:
        return "a rule needs fix.command and sources"
    return None


def _check(rule: Rule) -> Check:
    reads = [condition.fact for condition in rule.applies] + [rule.claim.fact]
    return Check(
        id=rule.id,
        title=rule.title,
        severity=rule.severity,
        reads=tuple(dict.fromkeys(reads)),
        needs=tuple(rule.needs),
        sources=tuple(rule.sources),
        fix=rule.fix,
        judge=_Judge(rule),
    )


class _Judge:
    """The judging function of one rule."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule

    def __call__(self, facts: Facts, knowledge: Knowledge) -> Result:
        rule, claim = self.rule, self.rule.claim
        for condition in rule.applies:
            if not _holds(condition, facts):
                return skipped(rule.not_here)
        wanted, rows = self._wanted(knowledge)
        fact = lookup(facts, claim.fact)
        if claim.op in STATES:
            return self._state(fact)
        if isinstance(fact, Absent):
            return self._absent(wanted, rows)
        value = fact.value
        if claim.field is None:
            return self._result([("", value)], wanted, rows)
        records = value.items() if isinstance(value, dict) else enumerate(value)
        return self._fields(
            [(str(key), getattr(record, claim.field)) for key, record in records], wanted, rows
        )

    def _wanted(self, knowledge: Knowledge) -> tuple[Any, tuple[Any, ...]]:
        claim = self.rule.claim
        if claim.row is None:
            return claim.value, ()
        row = knowledge.matrix.statement(claim.row["table"], claim.row["id"])
        if row is None:
            raise FactUnknown(
                f"the matrix has no {claim.row['table']} row {claim.row['id']}", self.rule.id
            )
        value = row.values.get(claim.row["column"]) or getattr(row, claim.row["column"], None)
        return value, (row,)

    def _state(self, fact: Any) -> Result:
        if isinstance(fact, Unknown):
            raise FactUnknown(fact.reason, fact.via)
        if isinstance(fact, NotApplicable):
            return skipped(fact.reason)
        if isinstance(fact, Known) == (self.rule.claim.op == "present"):
            return passed(
                _say(
                    self.rule.passes,
                    fact=getattr(fact, "value", None) if isinstance(fact, Known) else "",
                )
            )
        return failed(
            _say(self.rule.fails, fact=fact.value if isinstance(fact, Known) else ""),
            want=self.rule.want,
        )

    def _absent(self, wanted: Any, rows: tuple[Any, ...]) -> Result:
        meaning = self.rule.claim.if_absent
        if meaning == "skip":
            return skipped(self.rule.not_here)
        if meaning == "pass":
            return passed(_say(self.rule.passes, fact="not set", want=wanted), rows=rows)
        want = _say(self.rule.want, want=wanted)
        return failed(_say(self.rule.fails, fact="not there", want=wanted), want=want, rows=rows)

    def _fields(self, items: list[tuple[str, Any]], wanted: Any, rows: tuple[Any, ...]) -> Result:
        """Fields that are facts: one that was not seen keeps the claim from passing, not from failing."""
        known: list[tuple[str, Any]] = []
        missing: list[str] = []
        for key, item in items:
            if isinstance(item, Known):
                known.append((key, item.value))
            elif isinstance(item, Unknown):
                missing.append(f"{key}: {item.reason}")
            elif not isinstance(item, (Absent, NotApplicable)):
                known.append((key, item))
        if not known:
            return unseen("; ".join(missing)) if missing else skipped(self.rule.not_here)
        result = self._result(known, wanted, rows)
        return unseen("; ".join(missing)) if missing and result.state == "pass" else result

    def _result(self, items: list[tuple[str, Any]], wanted: Any, rows: tuple[Any, ...]) -> Result:
        rule, claim = self.rule, self.rule.claim
        holds = COMPARE[claim.op]
        bad: list[tuple[str, Any]] = []
        for key, value in items:
            try:
                if not holds(parse(claim.kind, value), parse(claim.kind, wanted)):
                    bad.append((key, value))
            except ValueError as error:
                raise FactUnknown(str(error), claim.fact) from None
        shown = ", ".join(f"{key} {value}".strip() for key, value in bad or items[:1])
        want = _say(rule.want, want=wanted)
        if not bad:
            return passed(_say(rule.passes, fact=shown, want=wanted), rows=rows, want=want)
        evidence: list[Evidence] = [
            seen(f"{claim.fact}.{key}.{claim.field}", value) for key, value in bad if key
        ]
        return failed(
            _say(rule.fails, fact=shown, want=wanted), want=want, rows=rows, evidence=evidence
        )


def _holds(condition: Condition, facts: Facts) -> bool:
    fact = lookup(facts, condition.fact)
    if isinstance(fact, Unknown):
        raise FactUnknown(fact.reason, fact.via)
    if condition.present is not None and isinstance(fact, Known) != condition.present:
        return False
    if condition.absent is not None and isinstance(fact, Absent) != condition.absent:
        return False
    if condition.op is None:
        return True
    return isinstance(fact, Known) and COMPARE[condition.op](fact.value, condition.value)


def _say(template: str, **values: Any) -> str:
    return template.format_map({"fact": "", "want": "", **values})
