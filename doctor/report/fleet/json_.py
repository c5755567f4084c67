"""The audit as JSON (doctor.fleet/1): the contract for programs. A host a line, so that ten thousand can be read and compared."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from doctor.fleet.folder import Audit
from doctor.report.text import Look


def write(audit: Audit, _: Look) -> Iterator[str]:
    """The keys of FleetReport, in its order."""
    fleet = audit.fleet
    opener = "{\n"
    for name in fleet.__struct_fields__:
        yield f"{opener}{_encode(name)}: "
        opener = ",\n"
        if name == "hosts":
            yield from _list(audit.lines())
        elif isinstance(value := getattr(fleet, name), list):
            yield from _list(value)
        else:
            yield _encode(value)
    yield "\n}\n"


def _list(items: Iterable[object]) -> Iterator[str]:
    opener = "["
    for item in items:
        yield f"{opener}\n{_encode(item)}"
        opener = ","
    yield "[]" if opener == "[" else "\n]"


def _encode(value: object) -> str:
    return msgspec.json.encode(value).decode()
