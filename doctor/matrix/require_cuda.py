"""Evaluate the NVIDIA_REQUIRE_* variables of an image, whole, against a host.

Inside one variable a space is OR and a comma is AND; several variables are ANDed. Terms are
`cuda`, `driver`, `arch` and `brand` with =, !=, <, <=, > and >=. A term about something nobody
knows makes the answer unknown, unless the rest of the expression decides without it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from doctor.facts.versions import ComputeCapability, CudaVersion, DriverVersion, Version

if TYPE_CHECKING:
    from collections.abc import Mapping

_TERM = re.compile(
    r"(?P<name>cuda|driver|driverversion|arch|brand)(?P<op>!=|<=|>=|=|<|>)(?P<value>[^\s,]+)"
)

_BY_VERSION: dict[str, type[Version]] = {
    "cuda": CudaVersion,
    "driver": DriverVersion,
    "driverversion": DriverVersion,
    "arch": ComputeCapability,
}


class Requirement(msgspec.Struct, frozen=True):
    """The verdict on one or more NVIDIA_REQUIRE_* expressions.

    `satisfied` is None where a needed fact is unknown or a term is not understood. `unmet` holds,
    for a refusal, the terms that failed: one alternative each, the nearest first. `disabled` is
    NVIDIA_DISABLE_REQUIRE.
    """

    satisfied: bool | None
    unmet: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    disabled: bool = False


def require_cuda(
    expression: str | Mapping[str, str],
    driver: DriverVersion | None = None,
    cuda: CudaVersion | None = None,
    brand: str | None = None,
    arch: ComputeCapability | None = None,
) -> Requirement:
    """Whether a host meets an image's requirement.

    `expression` is the text of one variable, or an image's environment: every NVIDIA_REQUIRE_* of
    it is then ANDed. `cuda` is the driver's own CUDA level, `brand` what NVML calls the product
    line (tesla, geforce, ...).
    """
    if isinstance(expression, str):
        texts = [expression]
    else:
        if expression.get("NVIDIA_DISABLE_REQUIRE", "").lower() in {"1", "true", "t", "yes"}:
            return Requirement(True, disabled=True)
        texts = [
            text for name, text in sorted(expression.items()) if name.startswith("NVIDIA_REQUIRE_")
        ]
    host = {"cuda": cuda, "driver": driver, "driverversion": driver, "arch": arch, "brand": brand}
    results = [_any(text, host) for text in texts if text.strip()]
    unmet = tuple(term for result in results if result.satisfied is False for term in result.unmet)
    unknown = tuple(term for result in results for term in result.unknown)
    if unmet:
        return Requirement(False, unmet, unknown)
    return (
        Requirement(None, (), unknown)
        if any(r.satisfied is None for r in results)
        else Requirement(True)
    )


def _any(text: str, host: Mapping[str, object]) -> Requirement:
    """One variable: alternatives by space."""
    refused: list[tuple[str, ...]] = []
    unknown: list[str] = []
    for alternative in text.split():
        failed, unseen = [], []
        for term in filter(None, alternative.split(",")):
            verdict = _term(term, host)
            if verdict is None:
                unseen.append(term)
            elif not verdict:
                failed.append(term)
        if failed:
            refused.append(tuple(failed))
        elif unseen:
            unknown.extend(unseen)
        else:
            return Requirement(True)
    if unknown:
        return Requirement(None, unknown=tuple(dict.fromkeys(unknown)))
    refused.sort(key=len)
    return Requirement(False, tuple(dict.fromkeys(",".join(terms) for terms in refused)))


def _term(term: str, host: Mapping[str, object]) -> bool | None:
    match = _TERM.fullmatch(term)
    if match is None:
        return None
    name, operator, text = match["name"], match["op"], match["value"]
    have = host[name]
    if have is None:
        return None
    if name == "brand":
        same = str(have).lower().replace(" ", "") == text.lower()
        return {"=": same, "!=": not same}.get(operator)
    want = _BY_VERSION[name].maybe(_padded(name, text))
    if want is None or not isinstance(have, Version):
        return None
    return _compare(have, operator, want)


def _padded(name: str, text: str) -> str:
    """`cuda>=12` and `arch>=9` are written without a minor number too."""
    return f"{text}.0" if name in {"cuda", "arch"} and text.isdigit() else text


def _compare(have: Version, operator: str, want: Version) -> bool:
    if operator in {"=", "!="}:
        return (have == want) == (operator == "=")
    if operator in {"<", "<="}:
        return have < want or (operator == "<=" and have == want)
    return have > want or (operator == ">=" and have == want)
