"""Times what a check does after start-up, and a bare YAML load of the same files: `inside.py RECORDING` prints seconds."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
WANTS = ("vllm", "tensorrt-llm", "torch==2.9.0", "cuda>=13.0")


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds and what the work gave."""
    started = time.perf_counter()
    found = work()
    return time.perf_counter() - started, found


def bare_yaml() -> None:
    """Every file of matrices/, by PyYAML in C where it is there."""
    import yaml

    loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    for file in sorted((ROOT / "matrices").rglob("*.yml")):
        yaml.load(file.read_text(encoding="utf-8"), Loader=loader)


def main(recording: str) -> None:
    """Judge once, plan each want once, load the YAML once."""
    from doctor import engine
    from doctor.checks.evaluate import evaluate
    from doctor.checks.knowledge import Knowledge
    from doctor.cli.sources import open_source
    from doctor.facts.tree import decode
    from doctor.plan.make import make_plan
    from doctor.plan.want import parse_all
    from doctor.probes import registry

    opened = open_source(recording)
    assert opened.source is not None
    facts = registry.run(opened.source)["facts"]
    options = engine.Options(as_of=opened.as_of)
    checks = engine.chosen(options)
    found: dict[str, float] = {}

    def judge() -> Any:
        knowledge = Knowledge(opened.as_of)
        knowledge.preload()
        return evaluate(checks, decode(facts), knowledge)

    found["matrix and checks"], findings = timed(judge)
    for spec in WANTS:
        wants = tuple(parse_all([spec], None))
        known = Knowledge(opened.as_of, wants=wants)
        plan = partial(make_plan, decode(facts), findings, wants, known, checks=checks)
        plan()  # what a first plan loads belongs to start-up
        found[f"want {spec}"], _ = timed(plan)
    found["bare YAML"], _ = timed(bare_yaml)
    print(json.dumps(found))


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main(sys.argv[1])
