"""What checks of Python environments and engines share: which environments there are, versions
that may be malformed, commands.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TypeVar

from doctor.checks.base import seen
from doctor.checks.finding import Evidence
from doctor.facts.areas.nvml import Gpu
from doctor.facts.areas.python_env import Environment
from doctor.facts.model import FactUnknown, known_or
from doctor.facts.tree import Facts
from doctor.facts.versions import Pep440Version, Specifier, Version

V = TypeVar("V", bound=Version)
ENGINES = ("vllm", "tensorrt-llm", "sglang")
"""Packages that serve models on a GPU."""


def version(kind: type[V], text: str, via: str) -> V:
    """A version out of a fact; text that is none was not seen as a version."""
    found = kind.maybe(text)
    if found is None:
        raise FactUnknown(f"{text[:60]!r} is not a {kind.kind}", via)
    return found


def holds(specifier: str, text: str) -> bool | None:
    """Whether a version lies in a range; None where either is malformed."""
    found = Pep440Version.maybe(text)
    if found is None:
        return None
    try:
        return Specifier.parse(specifier).contains(found)
    except ValueError:
        return None


def environments(facts: Facts) -> list[Environment]:
    """Those seen; none where the look found none."""
    return known_or(facts.python_env.environments, [])


def having(facts: Facts, package: str) -> list[tuple[Environment, str]]:
    """Environments with a package, and its version."""
    return [
        (item, item.packages[package]) for item in environments(facts) if package in item.packages
    ]


def engine_of(environment: Environment) -> str | None:
    """`vllm 0.24.0`, or None where no engine is installed."""
    for name in ENGINES:
        if name in environment.packages:
            return f"{name} {environment.packages[name]}"
    return None


def gpus(facts: Facts) -> dict[str, Gpu]:
    """GPUs that NVML lists; none where there is no NVML."""
    return known_or(facts.nvml.gpus, {})


def packages(environment: Environment, *names: str) -> list[Evidence]:
    """Versions of packages as evidence."""
    return [
        seen(f"python_env.environments.{name}", environment.packages[name], environment.path)
        for name in names
        if name in environment.packages
    ]


def pip(environment: Environment, *requirements: str, index: str | None = None) -> str:
    """`/opt/venv/bin/python3 -m pip install ...`, every word quoted."""
    words = [f"{environment.path}/bin/python3", "-m", "pip", "install", *requirements]
    words += ["--index-url", index] if index else []
    return shlex.join(words)


def each(problems: list[str]) -> str:
    """Problems in one sentence, the first three in full."""
    more = f"; and {len(problems) - 3} more" if len(problems) > 3 else ""
    return "; ".join(problems[:3]) + more


def unmet(environment: Environment, package: str) -> Iterator[tuple[str, str, str]]:
    """(name, installed, wanted) of each requirement of a package that an installed package does
    not meet.
    """
    from packaging.requirements import InvalidRequirement, Requirement
    from packaging.utils import canonicalize_name

    for line in environment.requires.get(package, []):
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            continue
        name = canonicalize_name(requirement.name)
        installed = environment.packages.get(name)
        if installed is None or not str(requirement.specifier):
            continue
        if requirement.marker and not requirement.marker.evaluate(_marker(environment)):
            continue
        if holds(str(requirement.specifier), installed) is False:
            yield name, installed, str(requirement.specifier)


def _marker(environment: Environment) -> dict[str, str]:
    full = environment.python or "3.12"
    machine = next(iter(environment.architectures.values()), "x86_64")
    return {
        "python_version": ".".join(full.split(".")[:2]),
        "python_full_version": full,
        "platform_machine": machine,
        "platform_system": "Linux",
        "sys_platform": "linux",
        "os_name": "posix",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
        "extra": "",
    }
