"""The envelope as one marked line, compressed and bounded: what a host of a fleet says to whoever sent the probe."""

import base64
import json
import zlib
from typing import Any, Dict

MARK = "doctor-probe/1"
"""First word of the line. The second is the word that the asker chose, so that no text of the host passes for an answer."""
LARGEST = 16 * 1024 * 1024
"""Bytes of the envelope: forty kilobytes on a host with two GPUs, twenty times that with thousands of packages in question."""
LARGEST_LINE = 4 * 1024 * 1024
"""Bytes of the line; a line that is longer is not what a probe says."""


def line(document: Dict[str, Any], word: str) -> str:
    """The line; of an envelope that is too large, that it is."""
    said = _line(document, word)
    if said is None:
        short = {name: document.get(name) for name in ("schema", "doctor", "host", "recorded_at")}
        short["error"] = "what the probe saw is too large to be sent"
        said = _line(short, word)
    assert said is not None  # noqa: S101
    return said


def _line(document: Dict[str, Any], word: str) -> "str | None":
    data = json.dumps(document, separators=(",", ":")).encode("ascii")
    if len(data) > LARGEST:
        return None
    packed = base64.b64encode(zlib.compress(data, 6)).decode("ascii")
    found = "%s %s %s" % (MARK, word, packed)
    return found if len(found) <= LARGEST_LINE else None
