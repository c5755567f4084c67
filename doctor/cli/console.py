"""The only module that writes to stdout and stderr. Data goes out as it is; talk is redacted on one line."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from doctor.exit_codes import ExitCode

if TYPE_CHECKING:
    from rich.progress import Progress, ProgressColumn

    from doctor.report.text import Look


def data(text: str, output: Path | None = None) -> None:
    """Write a result to stdout, or to a file by an atomic rename."""
    stream([text if text.endswith("\n") else text + "\n"], output)


def stream(pieces: Iterable[str], output: Path | None = None) -> None:
    """Write a result as it is made. A file is there when it is whole, and not before: a collector may read it at any time."""
    if output is None:
        for piece in pieces:
            _to_stdout(piece)
        sys.stdout.flush()
        return
    from doctor.errors import UsageError

    part = output.with_name(f".{output.name}.{os.getpid()}.part")
    try:
        with part.open("w", encoding="utf-8") as file:
            file.writelines(pieces)
        part.replace(output)
    except OSError as error:
        raise UsageError(
            f"cannot write {output}: {error.strerror}", "name a writable file"
        ) from None
    finally:
        with contextlib.suppress(OSError):  # where it could not be made there is none
            part.unlink()


def _to_stdout(text: str) -> None:
    try:
        sys.stdout.write(text)
    except UnicodeEncodeError:
        encoding = sys.stdout.encoding or "ascii"
        sys.stdout.write(text.encode(encoding, "replace").decode(encoding))


def talk(text: str) -> None:
    """A sentence for the person; never part of the data."""
    with contextlib.suppress(OSError):
        sys.stderr.write(text + "\n")


def problem(message: str, hint: str = "") -> None:
    """What the person can put right, in one sentence, and how."""
    talk(f"doctor: {message}" + (f"\n  {hint}" if hint else ""))


def crash(error: BaseException) -> ExitCode:
    """A defect of ours: one line, and the traceback where --debug or DOCTOR_DEBUG asks for it."""
    talk(f"doctor: a defect of the doctor itself: {type(error).__name__}: {error}")
    if os.environ.get("DOCTOR_DEBUG"):
        import traceback

        talk("".join(traceback.format_exception(error)))
    else:
        talk("  run again with DOCTOR_DEBUG=1 for the traceback, and report it")
    return ExitCode.CRASH


def look(output: Path | None = None, *, verbose: bool = False) -> Look:
    """How text can look where it goes: a file has no colours, takes every glyph, and is 80 columns wide."""
    from doctor.report.text import Look

    return Look(
        color=output is None and wants_color(),
        unicode=output is not None or wants_unicode(),
        width=80 if output is not None else width(),
        verbose=verbose,
    )


def wants_color(stream: object = None) -> bool:
    """Colour only on a terminal, never against NO_COLOR or TERM=dumb."""
    out = stream or sys.stdout
    is_terminal = getattr(out, "isatty", lambda: False)()
    return bool(is_terminal) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def can_draw() -> bool:
    """Whether stderr is a terminal in which a bar can be drawn."""
    return sys.stderr.isatty() and os.environ.get("TERM") not in (None, "", "dumb")


def bar(*columns: ProgressColumn) -> Progress:
    """A bar on stderr that goes when it is stopped; nothing that is printed above it is markup."""
    from rich.console import Console
    from rich.progress import Progress

    stderr = Console(
        stderr=True, markup=False, highlight=False, no_color=not wants_color(sys.stderr)
    )
    return Progress(*columns, console=stderr, transient=True)


def wants_unicode() -> bool:
    """Whether the output can carry the glyphs."""
    return (sys.stdout.encoding or "").lower().replace("-", "") in ("utf8", "utf16")


def width() -> int:
    """Columns: the terminal's, at most 100; 80 in a pipe."""
    if not sys.stdout.isatty():
        return 80
    import shutil

    return max(40, min(100, shutil.get_terminal_size((80, 24)).columns))
