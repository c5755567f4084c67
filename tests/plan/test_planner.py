"""The planner's laws, over roles and findings that never were."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from doctor.checks.finding import Finding, FixAdvice, Outcome, Severity
from doctor.errors import DoctorError
from doctor.plan.model import Step, digest
from doctor.plan.planner import Setting, plan_steps
from doctor.plan.remedy import Remedy, Touches, before, read_one, remedies
from doctor.plan.role_vars import UndecidedError

NAMES = ["a", "b", "c", "d", "e", "nvidia_driver", "kernel_headers"]
DISTURBS = ["none", "service", "gpu", "reboot"]


@st.composite
def role_sets(draw: st.DrawFn) -> dict[str, Remedy]:
    """Roles without circles: each needs only such as come before it."""
    names = draw(st.permutations(NAMES))[: draw(st.integers(1, len(NAMES)))]
    found = {}
    for number, name in enumerate(names):
        found[name] = Remedy(
            name=name,
            say=f"does {name}",
            answers=[f"x.{name}", f"y.{name}"],
            needs=draw(st.lists(st.sampled_from(names[:number]), unique=True, max_size=2))
            if number
            else [],
            conflicts=draw(st.lists(st.sampled_from(names), unique=True, max_size=1)),
            disturbs=draw(st.sampled_from(DISTURBS)),  # type: ignore[arg-type]
            families=draw(st.sampled_from([("debian", "rhel"), ("rhel",), ("wsl2",)])),
        )
    return found


findings_of = st.lists(
    st.builds(
        lambda area, name, outcome, severity, blocked: finding(
            f"{area}.{name}", outcome, severity, "x.root" if blocked else None
        ),
        st.sampled_from("xyz"),
        st.sampled_from(NAMES),
        st.sampled_from(list(Outcome)),
        st.sampled_from(list(Severity)),
        st.booleans(),
    ),
    max_size=12,
    unique_by=lambda item: item.id,
)


def finding(
    id: str,
    outcome: Outcome = Outcome.FAIL,
    severity: Severity = Severity.ERROR,
    blocked_by: str | None = None,
) -> Finding:
    if outcome in (Outcome.FAIL, Outcome.WARN):
        outcome = Outcome.FAIL if severity is Severity.ERROR else Outcome.WARN
    return Finding(
        id=id,
        title=id,
        outcome=outcome,
        severity=severity,
        message=f"{id} is wrong",
        blocked_by=blocked_by,
        fix=FixAdvice(kind="manual", say="do it", command=f"do {id}", disturbs="none"),
    )


def setting(roles: dict[str, Remedy], family: str | None = "debian", **more: Any) -> Setting:
    return Setting(remedies=roles, family=family, **more)


def no_values(remedy: Remedy) -> dict[str, Any]:
    return {}


def planned(roles: dict[str, Remedy], findings: list[Finding], **more: Any) -> list[Step]:
    return plan_steps([], findings, setting(roles, **more), no_values)


@settings(max_examples=300, deadline=None)
@given(role_sets(), findings_of)
def test_laws(roles: dict[str, Remedy], findings: list[Finding]) -> None:
    steps = planned(roles, findings)
    places = {step.id: number for number, step in enumerate(steps)}
    assert len(places) == len(steps)
    by_id = {step.id: step for step in steps}
    violated = {item.id for item in findings if item.violated and item.counts}
    for step in steps:
        # needs come first, also the needs of needs
        assert all(
            places[need] < places[step.id] for need in before(step.id, roles) if need in places
        )
        # nothing without a finding that is there and known
        assert step.findings
        assert set(step.findings) <= violated
        assert step.changes and step.undo
        if step.remedy is None:
            continue
        # no two that exclude each other, only roles for this family
        assert "debian" in roles[step.id].families
        assert not [
            o for o in steps if o.remedy and o.id != step.id and o.id in roles[step.id].conflicts
        ]
        # after a reboot comes another wave, and only then
        for need in step.needs:
            waits = by_id[need].remedy and by_id[need].disturbs == "reboot"
            later = waits and step.disturbs != "reboot"
            assert step.wave >= by_id[need].wave + (1 if later else 0)
    waves = [step.wave for step in steps]
    assert waves == sorted(waves)
    assert set(waves) == set(range(1, max(waves, default=0) + 1))
    # every error that is known is in the plan
    errors = {
        item.id for item in findings if item.id in violated and item.severity is Severity.ERROR
    }
    assert errors <= {id for step in steps for id in step.findings}


@settings(max_examples=100, deadline=None)
@given(role_sets(), findings_of)
def test_planning_on_the_promised_state_is_empty(
    roles: dict[str, Remedy], findings: list[Finding]
) -> None:
    promised = {id for step in planned(roles, findings) for id in step.findings}
    after = [
        msgspec.structs.replace(item, outcome=Outcome.PASS) if item.id in promised else item
        for item in findings
    ]
    assert [step for step in planned(roles, after) if set(step.findings) & promised] == []
    assert [step.id for step in planned(roles, after)] == []


@settings(max_examples=60, deadline=None)
@given(role_sets(), findings_of)
def test_unknown_findings_never_change_anything(
    roles: dict[str, Remedy], findings: list[Finding]
) -> None:
    blind = [msgspec.structs.replace(item, outcome=Outcome.UNKNOWN) for item in findings]
    assert planned(roles, blind) == []


@settings(max_examples=60, deadline=None)
@given(role_sets(), findings_of)
def test_a_plan_depends_on_nothing_but_its_arguments(
    roles: dict[str, Remedy], findings: list[Finding]
) -> None:
    one = planned(roles, findings)
    other = planned(dict(reversed(roles.items())), findings)
    assert [step.id for step in one] == [step.id for step in other]
    assert digest(one) == digest(other)


ROLES = {
    "a": Remedy(name="a", say="does a", answers=["x.a"], disturbs="reboot"),
    "b": Remedy(name="b", say="does b", answers=["x.b"], needs=["a"]),
    "c": Remedy(name="c", say="does c", answers=["x.c"], needs=["a"], disturbs="reboot"),
}


def test_reboots_of_one_wave_are_shared() -> None:
    steps = planned(ROLES, [finding("x.a"), finding("x.b"), finding("x.c")])
    assert [(step.id, step.wave) for step in steps] == [("a", 1), ("c", 1), ("b", 2)]


def test_only_takes_what_it_needs_along_and_nothing_else() -> None:
    steps = planned(ROLES, [finding("x.a"), finding("x.b"), finding("x.c")], only=("x.b",))
    assert [step.id for step in steps] == ["a", "b"]


def test_info_is_only_done_when_it_is_asked_for() -> None:
    info = finding("x.a", severity=Severity.INFO)
    assert planned(ROLES, [info]) == []
    assert [step.id for step in planned(ROLES, [info], only=("x.a",))] == ["a"]


@pytest.mark.parametrize(
    "more", [{"family": None}, {"family": "wsl2"}, {"outside": "this is a docker container"}]
)
def test_without_a_role_for_this_host_a_person_gets_the_command(more: dict[str, Any]) -> None:
    [step] = planned(ROLES, [finding("x.a")], **more)
    assert (step.remedy, step.command) == (None, "do x.a")


def test_what_cannot_be_told_is_not_done_by_a_role() -> None:
    def values(remedy: Remedy) -> dict[str, Any]:
        raise UndecidedError("not seen: the driver")

    [step] = plan_steps([], [finding("x.a")], setting(ROLES), values)
    assert step.remedy is None
    assert step.command == "do x.a"
    assert step.changes[-1] == "not decided: not seen: the driver"


def test_the_digest_is_of_what_is_done() -> None:
    steps = planned(ROLES, [finding("x.a"), finding("x.b")])
    other = [msgspec.structs.replace(steps[0], vars={"a_version": "2"}), *steps[1:]]
    assert digest(steps) != digest(other)


def test_a_remedy_is_read_strictly(tmp_path: Any) -> None:
    def write(text: str) -> Any:
        meta = tmp_path / "roles" / "r" / "meta" / "remedy.yml"
        meta.parent.mkdir(parents=True, exist_ok=True)
        meta.write_text(text)
        return meta

    good = "say: s\nanswers: [x.a]\ndisturbs: gpu\ntouches: {paths: [/etc/x], packages: ['n*'], units: [u.service]}\n"
    remedy = read_one(write(good))
    assert (remedy.name, remedy.disturbs, remedy.touches) == (
        "r",
        "gpu",
        Touches(paths=["/etc/x"], packages=["n*"], units=["u.service"]),
    )
    for wrong in (
        "say: s\ndisturbs: much\n",
        "say: s\nwhy: x\n",
        "say: s\ncheck_mode: sometimes\n",
        "say: s\ntouches: {paths: [etc/x]}\n",
        "[",
        "",
    ):
        with pytest.raises(DoctorError):
            read_one(write(wrong))


def test_shipped_roles_are_sound() -> None:
    shipped = remedies()
    for name, remedy in shipped.items():
        assert name not in before(name, shipped)
        assert remedy.say
        assert all(var.startswith(f"{name}_") for var in remedy.vars), name


def test_the_order_of_the_stack_agrees_with_what_roles_need() -> None:
    from doctor.plan.planner import ORDER

    shipped = remedies()
    for name, remedy in shipped.items():
        assert all(ORDER.index(need) < ORDER.index(name) for need in remedy.needs), name
