"""What installed packages require of each other, by their metadata and by pairs known not to
work.
"""

from __future__ import annotations

from doctor.checks.areas.environments import (
    ENGINES,
    each,
    environments,
    having,
    holds,
    packages,
    pip,
    unmet,
)
from doctor.checks.base import ERROR, WARN, Fix, Result, check, failed, passed, skipped
from doctor.checks.knowledge import Knowledge
from doctor.facts.areas.python_env import Environment
from doctor.facts.tree import Facts
from doctor.facts.versions import Pep440Version, Specifier
from doctor.matrix import query
from doctor.matrix.model import Row, Statement

ENVIRONMENTS = "python_env.environments"
JUDGED = (*ENGINES, "torch", "torchvision", "torchaudio", "xgrammar", "flashinfer-python")
"""Packages whose requirements are judged."""


@check(
    "python.torch-pin",
    title="torch is of the series that the engine is built against",
    severity=ERROR,
    reads=(ENVIRONMENTS,),
    sources=("python-pypi-vllm",),
    fix=Fix(
        say="install the torch that the engine pins, in an environment of its own",
        command="python3 -m pip check",
        kind="needs-argument",
    ),
)
def _torch_pin(f: Facts, k: Knowledge) -> Result:
    """An engine's binaries are linked against one torch; another series has other symbols.

    A patch release does not matter.
    """
    good: list[str] = []
    problems: list[str] = []
    rows: list[Row] = []
    commands: list[str] = []
    for name in ENGINES:
        for item, text in having(f, name):
            if "torch" not in item.packages:
                continue
            wanted, row = _pin(k, item, name)
            if wanted is None:
                continue
            answer = _same_series(wanted, item.packages["torch"])
            if answer is None:
                continue
            shown = (
                f"{name} {text} is built against torch {wanted}, {item.path} has "
                f"{item.packages['torch']}"
            )
            (good if answer else problems).append(shown)
            rows += [row] if row else []
            if not answer:
                commands.append(pip(item, f"torch{wanted}"))
    if problems:
        return failed(
            each(problems),
            want="the pinned torch",
            command=commands[0],
            evidence=[e for item in environments(f) for e in packages(item, *ENGINES, "torch")],
            rows=rows,
        )
    if good:
        return passed(each(good), rows=rows)
    return skipped("no engine whose torch pin is known")


def _pin(k: Knowledge, item: Environment, name: str) -> tuple[Specifier | None, Row | None]:
    """The engine's own metadata, else the row of its release; a build from source has neither."""
    for line in item.requires.get(name, []):
        head = line.partition(";")[0].replace("(", "").replace(")", "").strip()
        if head.startswith("torch") and head[5:6] in "=<>~! ":
            try:
                return Specifier.parse(head[5:].strip()), None
            except ValueError:
                return None, None
    text = item.packages[name]
    label = text.partition("+")[2]
    if (
        name != "vllm"
        or Pep440Version.maybe(text) is None
        or (label and not label.startswith("cu"))
    ):
        return None, None
    row = query.vllm(k.matrix, text)
    return (row.torch, row) if row else (None, None)


def _same_series(wanted: Specifier, installed: str) -> bool | None:
    """Whether a torch lies in the range, or in the series of an exact pin; None where a version
    is malformed.
    """
    found = Pep440Version.maybe(installed)
    if found is None:
        return None
    exact = wanted.exact
    if exact is not None:
        return bool(exact.key.release[:2] == found.key.release[:2])
    return holds(str(wanted), installed)


@check(
    "python.engine-pins-broken",
    title="No two installed packages are known not to work together",
    severity=ERROR,
    reads=(ENVIRONMENTS,),
    sources=("engine-measured-vllm",),
    fix=Fix(
        say="install the version that was seen to work",
        command="python3 -m pip check",
        kind="needs-argument",
    ),
)
def _pairs(f: Facts, k: Knowledge) -> Result:
    """Pairs that were tried on a host and kept an engine from starting, though their metadata
    admits them.
    """
    rows = [
        row
        for row in k.matrix.statements("vllm_rules")
        if {"package", "with", "broken"} <= set(row.values)
    ]
    looked: list[str] = []
    problems: list[str] = []
    hit: list[Statement] = []
    command: str | None = None
    for item in environments(f):
        for row in rows:
            name, other = row.values["package"], row.values["with"]
            if name not in item.packages or other not in item.packages:
                continue
            text = (
                f"{name} {item.packages[name]} with {other} {item.packages[other]} in {item.path}"
            )
            looked.append(text)
            here = holds(row.values["versions"], item.packages[name])
            if here and holds(row.values["broken"], item.packages[other]):
                problems.append(text)
                hit.append(row)
                command = command or pip(item, f"{other}>={row.values['works']}")
    if problems:
        return failed(
            f"{each(problems)}: {hit[0].rule}",
            want=f"{hit[0].values['with']} {hit[0].values['works']} or newer",
            command=command,
            rows=hit,
        )
    if looked:
        return passed(each(looked), rows=rows)
    return skipped("no environment has a pair that is known not to work")


@check(
    "python.requirements-unmet",
    title="Installed packages meet what the engines require of them",
    severity=WARN,
    reads=(ENVIRONMENTS,),
    needs=("python.torch-pin", "python.engine-pins-broken"),
    sources=("python-pep-345", "engine-flashinfer-packages"),
    fix=Fix(
        say="install what the engine requires, in an environment of its own",
        command="python3 -m pip check",
        kind="needs-argument",
    ),
)
def _requirements(f: Facts, k: Knowledge) -> Result:
    """By Requires-Dist, as `pip check`; torch has a check of its own.

    FlashInfer's parts must be of one version.
    """
    problems: list[str] = []
    commands: list[str] = []
    looked = 0
    for item in environments(f):
        for name in JUDGED:
            if name not in item.packages:
                continue
            looked += name in item.requires
            for needed, installed, wanted in unmet(item, name):
                if needed == "torch" and name in ENGINES:
                    continue
                problems.append(
                    f"{name} {item.packages[name]} wants {needed}{wanted}, {item.path} has "
                    f"{installed}"
                )
                commands.append(pip(item, f"{needed}{wanted}"))
        for problem, command in _companions(k, item):
            problems.append(problem)
            commands.append(command)
    if problems:
        return failed(each(problems), want="requirements met", command=commands[0])
    if not looked:
        return skipped("no engine or torch whose metadata was seen")
    return passed(f"the requirements of {looked} packages are met by what is installed")


def _companions(k: Knowledge, item: Environment) -> list[tuple[str, str]]:
    row = k.matrix.statement("vllm_rules", "vllm.flashinfer-companions")
    main = item.packages.get("flashinfer-python")
    if row is None or main is None:
        return []
    found = []
    for name in row.names:
        other = item.packages.get(name)
        if other is not None and other.partition("+")[0] != main.partition("+")[0]:
            found.append(
                (
                    f"{name} {other} is not of flashinfer-python's version {main} in {item.path}",
                    pip(item, f"{name}=={main.partition('+')[0]}"),
                )
            )
    return found
