"""One GET over a unix socket. http.client would do it too, and costs 15 ms to import."""

import errno
import time
from typing import Any, Dict

from doctor.probes import source as limits
from doctor.probes.child import os_error

HTTP_TIMEOUT = 3.0
"""Seconds for one whole answer of a local service, however slowly it trickles."""


def get(socket_path: str, target: str) -> Dict[str, Any]:
    """{"status", "body"} or {"error"}. HTTP/1.0, so that the answer ends when the service closes."""
    import socket  # 3 ms, and most hosts of a fleet have no socket to ask

    channel = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    end = time.monotonic() + HTTP_TIMEOUT
    data = bytearray()
    try:
        channel.settimeout(HTTP_TIMEOUT)
        channel.connect(socket_path)
        channel.sendall(("GET %s HTTP/1.0\r\nHost: localhost\r\n\r\n" % target).encode("ascii"))
        while True:
            left = end - time.monotonic()
            if left <= 0:
                return {"error": "no answer in time"}
            channel.settimeout(left)
            block = channel.recv(1 << 16)
            if not block:
                return parse_answer(bytes(data))
            data += block
            if len(data) > limits.MAX_OUTPUT:
                return {"error": "too-large"}
    except socket.timeout:
        return {"error": "no answer in time"}
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno == errno.ECONNREFUSED:
            return {"error": "the socket is there but nothing listens"}
        return {"error": os_error(error)}
    finally:
        channel.close()


def parse_answer(data: bytes) -> Dict[str, Any]:
    """The bytes of an HTTP answer -> {"status", "body"} or {"error"}."""
    head, blank, body = data.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    first = lines[0].split(None, 2)
    if not blank or len(first) < 2 or not first[0].startswith("HTTP/") or not first[1].isdigit():
        return {"error": "not HTTP"}
    headers = [line.lower().replace(" ", "") for line in lines[1:]]
    if "transfer-encoding:chunked" in headers:
        return {"status": int(first[1]), "body": _joined_chunks(body)}
    lengths = [line.partition(":")[2] for line in headers if line.startswith("content-length:")]
    if lengths and lengths[0].isdigit() and len(body) < int(lengths[0]):
        return {"error": "the answer was cut short"}
    return {"status": int(first[1]), "body": body}


def _joined_chunks(data: bytes) -> bytes:
    body = b""
    while data:
        size, _, rest = data.partition(b"\r\n")
        try:
            length = int(size.split(b";")[0], 16)
        except ValueError:
            break
        if length <= 0:
            break
        body += rest[:length]
        data = rest[length + 2 :]
    return body
