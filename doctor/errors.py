"""Errors of the user or of an input file; a host's fault is a Finding, never one of these. Each says what to do."""

from __future__ import annotations


class DoctorError(Exception):
    """Something the person at the command line can put right. Exit 2 unless a subclass says otherwise."""

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class UsageError(DoctorError):
    """The command line asks for something that cannot be."""


class SourceError(DoctorError):
    """A recording or facts file cannot be used."""


class MatrixError(DoctorError):
    """A matrix file is wrong at a known place."""

    def __init__(
        self, message: str, hint: str = "", *, file: str = "", line: int = 0, col: int = 0
    ) -> None:
        where = f"{file}:{line}" + (f":{col}" if col else "") if file else ""
        super().__init__(f"{where}: {message}" if where else message, hint)
        self.file = file
        self.line = line
        self.col = col


class RemedyError(DoctorError):
    """A playbook run could not be made or understood."""


class SmokeError(DoctorError):
    """A smoke stage could not be run."""
