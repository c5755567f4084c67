"""A recording that was never written: the same answers as reading it back from a folder, for tests and demos."""

from __future__ import annotations

from typing import Any

import msgspec
from typing_extensions import override

from doctor.probes.recordings.recorded import RecordedSource
from doctor.probes.source import Source
from doctor.simulate.writer import RecordingWriter


class MemorySource(RecordedSource):
    """Answers from what a writer collected. A test holds it to what RecordedSource says of the written folder."""

    def __init__(self, recording: RecordingWriter) -> None:
        Source.__init__(self)
        self.folder = "/"
        self._contents = {"files" + path: data for path, data in recording.files.items()}
        self._files = {name: len(data) for name, data in self._contents.items()}
        self.manifest = recording.manifest
        self.missing = str(recording.manifest["missing"])
        self._paths = recording.paths
        self._http_answers = recording.http
        self._nvml_answer = _through_json(recording.nvml)
        self._cuda_looks = _through_json(recording.cuda)
        self._process_answer = _through_json(recording.process)
        self._commands = recording.commands

    @override
    def _bytes(self, name: str) -> bytes:
        return self._contents[name]


def _through_json(value: Any) -> Any:
    """Lists for tuples and text for numeric keys, as reading a file would give."""
    return msgspec.json.decode(msgspec.json.encode(value))
