"""The line of a host of a fleet: whole where it fits, and where it does not, that it is too large."""

from __future__ import annotations

import base64
import json
import zlib
from typing import Any

import pytest

from doctor.probes import answer

HEAD = {"schema": "doctor.facts/1", "doctor": "1", "host": "a", "recorded_at": "today"}
WHOLE = {**HEAD, "facts": {"host": {"x": "y" * 100}}, "errors": {}}


def said(line: str) -> Any:
    mark, word, packed = line.split(" ")
    assert (mark, word) == (answer.MARK, "word")
    return json.loads(zlib.decompress(base64.b64decode(packed)))


def test_an_envelope_comes_whole() -> None:
    assert said(answer.line(WHOLE, "word")) == WHOLE


@pytest.mark.parametrize("bound", ["LARGEST", "LARGEST_LINE"])
def test_one_that_is_too_large_is_said_to_be(monkeypatch: pytest.MonkeyPatch, bound: str) -> None:
    monkeypatch.setattr(answer, bound, 20)
    found = said(answer.line(WHOLE, "word"))
    assert found == {**HEAD, "error": "what the probe saw is too large to be sent"}
