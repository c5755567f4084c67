"""Read OpenPGP public keys: out of their armor, with their fingerprints. No Ansible and no gpg in here: gpg makes a home folder for whoever calls it."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re

BLOCK = re.compile(
    rb"-----BEGIN PGP PUBLIC KEY BLOCK-----\r?\n(.*?)-----END PGP PUBLIC KEY BLOCK-----", re.S
)
PUBLIC_KEY = 6


class NotAKey(Exception):
    """The bytes are not OpenPGP public keys."""


def binary(data):
    """The packets, whether the file is armored or not; several blocks are joined."""
    if data[:1] and data[0] & 0x80:
        return data
    blocks = BLOCK.findall(data)
    if not blocks:
        raise NotAKey("there is no public key in it")
    return b"".join(_unarmored(block.replace(b"\r\n", b"\n")) for block in blocks)


def _unarmored(block):
    _headers, blank, body = block.partition(b"\n\n")
    if block.startswith(b"\n"):
        body = block[1:]
    elif not blank:
        raise NotAKey("its armor has no empty line before the data")
    lines = body.strip().splitlines()
    check = lines.pop()[1:] if lines and lines[-1].startswith(b"=") else None
    try:
        packets = base64.b64decode(b"".join(line.strip() for line in lines), validate=True)
        wanted = base64.b64decode(check, validate=True) if check is not None else None
    except binascii.Error as error:
        raise NotAKey(f"its armor is damaged: {error}") from None
    if wanted is not None and wanted != crc24(packets):
        raise NotAKey("its armor is damaged: the checksum differs")
    return packets


def crc24(data):
    """The checksum of RFC 4880, 6.1."""
    crc = 0xB704CE
    for octet in data:
        crc ^= octet << 16
        for _ in range(8):
            crc <<= 1
            if crc & 0x1000000:
                crc ^= 0x1864CFB
    return (crc & 0xFFFFFF).to_bytes(3, "big")


def fingerprints(data):
    """Fingerprints of the primary keys in binary packets, in capitals, in order."""
    found = []
    for tag, body in _packets(data):
        if tag != PUBLIC_KEY:
            continue
        if body[:1] != b"\x04":
            raise NotAKey(f"a key of version {body[0] if body else 'none'} is not understood")
        head = b"\x99" + len(body).to_bytes(2, "big")
        found.append(hashlib.sha1(head + body).hexdigest().upper())  # noqa: S324 - what a version 4 fingerprint is
    if not found:
        raise NotAKey("there is no public key in it")
    return found


def _packets(data):
    at = 0
    while at < len(data):
        try:
            tag, start, length = _header(data, at)
        except IndexError:
            raise NotAKey("it ends within a packet") from None
        if start + length > len(data):
            raise NotAKey("it ends within a packet")
        yield tag, data[start : start + length]
        at = start + length


def _header(data, at):
    """Tag, start of the body and its length."""
    first = data[at]
    if not first & 0x80:
        raise NotAKey("what should be a packet is none")
    if not first & 0x40:
        width = first & 3
        if width == 3:
            raise NotAKey("a packet without a length is not understood")
        size = 1 << width
        if at + 1 + size > len(data):
            raise IndexError
        return first >> 2 & 15, at + 1 + size, int.from_bytes(data[at + 1 : at + 1 + size], "big")
    tag, one = first & 63, data[at + 1]
    if one < 192:
        return tag, at + 2, one
    if one < 224:
        return tag, at + 3, (one - 192 << 8) + data[at + 2] + 192
    if one == 255:
        return tag, at + 6, int.from_bytes(data[at + 2 : at + 6], "big")
    raise NotAKey("a packet in parts is not understood")
