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
    data = _encoded(document)
    said = _line(data, word)
    if len(data) <= LARGEST and len(said) <= LARGEST_LINE:
        return said
    short = {name: document.get(name) for name in ("schema", "doctor", "host", "recorded_at")}
    short["error"] = "what the probe saw is too large to be sent"
    return _line(_encoded(short), word)


def _encoded(document: Dict[str, Any]) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode("ascii")


def _line(data: bytes, word: str) -> str:
    packed = base64.b64encode(zlib.compress(data, 6)).decode("ascii")
    return "%s %s %s" % (MARK, word, packed)
