"""A recording that was never written: the same answers as reading it back from a folder, for tests and demos."""

from __future__ import annotations

import posixpath
from typing import Any

import msgspec
from typing_extensions import override

from doctor.probes.recorded import RecordedSource
from doctor.probes.source import Source
from doctor.simulate.writer import RecordingWriter


class MemorySource(RecordedSource):
    """Answers from what a writer collected. A test holds it to what RecordedSource says of the written folder."""

    def __init__(self, recording: RecordingWriter) -> None:
        Source.__init__(self)
        self.folder = "/"
        self.manifest = recording.manifest
        self.missing = str(recording.manifest["missing"])
        self._files = recording.files
        self._documents = {
            "nvml.json": _through_json(recording.nvml),
            "cuda.json": _through_json(recording.cuda),
            "process.json": _through_json(recording.process),
        }
        self._paths = recording.paths
        self._http_answers = recording.http
        self._commands = recording.commands

    @override
    def _document(self, name: str, kind: type, default: Any = None) -> Any:
        return self._documents[name]

    @override
    def _holds(self, path: str) -> bool:
        return posixpath.normpath(path) in self._files

    @override
    def _stored(self, path: str) -> bytes | None:
        return self._files.get(posixpath.normpath(path))


def _through_json(value: Any) -> Any:
    """Lists for tuples and text for numeric keys, as reading a file would give."""
    return msgspec.json.decode(msgspec.json.encode(value))
