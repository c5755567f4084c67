"""Builds doctor-probe.pyz: the probes and pynvml in one file that runs on a host with nothing installed but Python.

The same sources give the same bytes: names are sorted, times are fixed, nothing is compressed or compiled; what is sent to the
hosts of a fleet is both.
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
import io
import marshal
import sys
import types
import zipfile
from pathlib import Path

from doctor.errors import DoctorError

NAME = "doctor-probe.pyz"
PACKAGE = Path(__file__).resolve().parent
FLOOR = (3, 9)
"""Oldest Python that the probes run on."""
TOO_OLD = 75
"""Exit status of an older one that was sent."""
SHEBANG = b"#!/usr/bin/env python3\n"
ENTRY = """\
# Runs on every Python: an old one must get a JSON answer, not a syntax error.
import json
import sys

if sys.version_info < ({major}, {minor}):
    if "--answer" in sys.argv:
        sys.exit({too_old})  # the shell that asks has other Pythons to try
    said = "doctor-probe needs Python {major}.{minor} or newer; this is %d.%d (%s)" % (
        sys.version_info[0], sys.version_info[1], sys.executable)
    print(json.dumps({{"schema": "doctor.facts/1", "doctor": "{version}", "error": said}}))
    sys.exit(2)

sys.dont_write_bytecode = True
from doctor.probes.__main__ import main

sys.exit(main())
"""
FINDER = """\
#!/bin/sh
# The probe follows in this file; the first Python that is new enough runs it.
found=
for python in python3 {newer} /usr/libexec/platform-python; do
  command -v "$python" >/dev/null 2>&1 || continue
  found="$found $python"
  "$python" -I -S -B "$0" "$@"
  code=$?
  case $code in {too_old} | 126 | 127) ;; *) exit $code ;; esac
done
echo "doctor-probe: needs Python {major}.{minor} or newer; there is${{found:- none}}" >&2
exit 3
"""
"""Before the zip that is sent to hosts: not every host has a python3, and not every python3 is new enough."""
NEWER = range(16, FLOOR[1] - 1, -1)
_WHEN = (1980, 1, 1, 0, 0, 0)


def build(path: Path) -> Path:
    """Write the zipapp, executable, and return its path."""
    data = content()
    path.write_bytes(data)
    path.chmod(0o755)
    return path


def content() -> bytes:
    """The zipapp's bytes."""
    return SHEBANG + _zipped(_sources(), zipfile.ZIP_STORED)


def shipped() -> bytes:
    """The same as it is sent to hosts: packed, behind a shell's search for a Python that can run it.

    Beside each source lies its bytecode for this very Python version: hosts that have it, as most have that are of the
    controller's distribution, need half the time. Others take the source.
    """
    newer = " ".join(f"python3.{minor}" for minor in NEWER)
    finder = FINDER.format(major=FLOOR[0], minor=FLOOR[1], newer=newer, too_old=TOO_OLD)
    members = _sources()
    for name, source in list(members.items()):
        if name != "__main__.py":
            members[f"{name}c"] = _bytecode(name, _path(name), source)
    return finder.encode() + _zipped(members, zipfile.ZIP_DEFLATED)


def _sources() -> dict[str, bytes]:
    from doctor import __version__

    entry = ENTRY.format(major=FLOOR[0], minor=FLOOR[1], version=__version__, too_old=TOO_OLD)
    members = {"__main__.py": entry.encode(), "doctor/__init__.py": _read(PACKAGE / "__init__.py")}
    for file in sorted((PACKAGE / "probes").rglob("*.py")):
        members[f"doctor/{file.relative_to(PACKAGE).as_posix()}"] = _read(file)
    members["pynvml.py"] = _read(_pynvml())
    return members


def _path(name: str) -> Path:
    return _pynvml() if name == "pynvml.py" else PACKAGE.parent / name


def _bytecode(name: str, path: Path, source: bytes) -> bytes:
    """Found by its source's hash and not checked against it, as PEP 552 has it: a zip has no times to go by."""
    code = importlib.machinery.SourceFileLoader(path.stem, str(path)).get_code(path.stem)
    assert code is not None  # noqa: S101 - only extension modules have none
    flags = 0b01
    return (
        importlib.util.MAGIC_NUMBER
        + flags.to_bytes(4, "little")
        + importlib.util.source_hash(source)
        + marshal.dumps(_named(code, name))
    )


def _named(code: types.CodeType, name: str) -> types.CodeType:
    """Hosts learn nothing of where this program is installed."""
    inside = tuple(
        _named(item, name) if isinstance(item, types.CodeType) else item for item in code.co_consts
    )
    return code.replace(co_filename=name, co_consts=inside)


def _zipped(members: dict[str, bytes], method: int) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in sorted(members):
            info = zipfile.ZipInfo(name, _WHEN)
            info.external_attr = 0o644 << 16
            info.create_system = 3
            archive.writestr(info, members[name], method, 6)
    return buffer.getvalue()


def digest() -> str:
    """SHA-256 of the zipapp."""
    return hashlib.sha256(content()).hexdigest()


def _read(path: Path) -> bytes:
    return path.read_bytes()


def _pynvml() -> Path:
    spec = importlib.util.find_spec("pynvml")
    if spec is None or spec.origin is None:
        raise DoctorError("pynvml is not installed", "pip install nvidia-ml-py")
    return Path(spec.origin)


def main() -> None:
    """`python -m doctor.bundle [PATH]`: build the zipapp and print its path."""
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(NAME)
    sys.stdout.write(f"{build(target)}\n")


if __name__ == "__main__":
    main()
