"""Fingerprints of the public keys in a keyring file, so that a retired repository key is seen without running gpg."""

import importlib
import re
from typing import Any, Dict, List, Tuple

from doctor.probes.fact import Fact, known
from doctor.probes.reading import apt
from doctor.probes.source import Source

PUBLIC_KEY, SUBKEY = 6, 14
_TRUSTED = "/etc/apt/trusted.gpg"


def apt_keys(src: Source) -> Fact:
    """keyring file -> fingerprints, for the keyrings that NVIDIA's sources name; if one names none, those apt trusts for all."""
    sources = apt.repositories(src)
    if not sources.ok:
        return sources
    named = [row["key"] for row in sources.value if "nvidia" in row["url"] and row["enabled"]]
    wanted = {key for key in named if key and key.startswith("/")}
    if None in named:
        trusted = src.glob(_TRUSTED + ".d/*")
        if not trusted.ok:
            return trusted
        wanted.update(path for path in trusted.value if path.endswith((".gpg", ".asc")))
        wanted.add(_TRUSTED)
    found: Dict[str, List[str]] = {}
    for path in sorted(wanted):
        fact = src.read_bytes(path).map(fingerprints)
        if fact.ok:
            found[path] = fact.value
        elif fact.state != "absent":
            return fact
    return known(found, "keyrings of " + (", ".join(sorted(wanted)) or "no NVIDIA source"))


def fingerprints(data: bytes) -> List[str]:
    """Fingerprints, upper case hex, of the primary keys and subkeys of version 4."""
    sha1 = _sha1()
    body = unarmored(data)
    found = []
    offset = 0
    while offset < len(body):
        tag, start, end = _packet(body, offset)
        packet = body[start:end]
        if tag in (PUBLIC_KEY, SUBKEY) and packet[:1] == b"\x04":
            material = b"\x99" + len(packet).to_bytes(2, "big") + packet
            digest = sha1(material, usedforsecurity=False)  # RFC 4880 defines it so
            found.append(digest.hexdigest().upper())
        offset = end
    return found


def _sha1() -> Any:
    """Python's own: hashlib loads OpenSSL first, which takes longer than all of this, and which may forbid SHA-1."""
    for module in ("_sha1", "hashlib"):
        try:
            return importlib.import_module(module).sha1
        except ImportError:
            continue
    raise ImportError("no SHA-1")


def unarmored(data: bytes) -> bytes:
    """The packets of an ASCII-armored file; other data as it is."""
    if b"-----BEGIN PGP" not in data:
        return data
    import base64

    out = b""
    for block in re.findall(rb"-----BEGIN PGP[^\n]*-----\r?\n(.*?)-----END PGP", data, re.S):
        text = re.split(rb"\r?\n[ \t]*\r?\n", block, maxsplit=1)[-1]
        lines = [line.strip() for line in text.splitlines() if not line.startswith(b"=")]
        out += base64.b64decode(b"".join(lines))
    return out


def _packet(body: bytes, offset: int) -> Tuple[int, int, int]:
    """(tag, start, end) of the packet at an offset; partial lengths do not occur in keys."""
    head = body[offset]
    if not head & 0x80:
        raise ValueError("not an OpenPGP keyring")
    if head & 0x40:
        return _new_packet(body, offset, head & 0x3F)
    size = (1, 2, 4, 0)[head & 3]
    if not size:
        return (head >> 2) & 0xF, offset + 1, len(body)
    start = offset + 1 + size
    length = int.from_bytes(body[offset + 1 : start], "big")
    return _bounded(body, (head >> 2) & 0xF, start, start + length)


def _new_packet(body: bytes, offset: int, tag: int) -> Tuple[int, int, int]:
    first = body[offset + 1]
    if first < 192:
        return _bounded(body, tag, offset + 2, offset + 2 + first)
    if first < 224:
        length = ((first - 192) << 8) + body[offset + 2] + 192
        return _bounded(body, tag, offset + 3, offset + 3 + length)
    if first == 255:
        length = int.from_bytes(body[offset + 2 : offset + 6], "big")
        return _bounded(body, tag, offset + 6, offset + 6 + length)
    raise ValueError("a keyring with partial lengths")


def _bounded(body: bytes, tag: int, start: int, end: int) -> Tuple[int, int, int]:
    if end > len(body):
        raise ValueError("the keyring is truncated")
    return tag, start, end
