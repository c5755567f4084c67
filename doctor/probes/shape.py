"""What each document of a recording must look like. A recording is a stranger's data: nothing is assumed of it."""

import base64
import binascii
import json
import os
from typing import Any, Callable, Dict, List, Tuple

MAX_PATH = 4096
"""Longest path or link target that Linux takes (PATH_MAX)."""
MAX_DIGITS = 40
"""Longest whole number: more is no size, time or id, and converting megabytes of digits takes minutes."""
PATH_TYPES = frozenset("file dir char block link socket fifo absent denied error".split())
_INTEGERS = ("mode", "uid", "gid", "size", "mtime")
_TEXTS = ("rdev", "target", "error", "read_error", "entries_error", "statvfs_error")


def parse(data: bytes) -> Any:
    """JSON -> value; ValueError with the reason for anything that is not plain, finite JSON without duplicate keys."""
    text = data.decode("utf-8")
    try:
        return json.loads(
            text,
            object_pairs_hook=_unique,
            parse_constant=_constant,
            parse_float=_finite,
            parse_int=_integer,
        )
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _unique(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    value = dict(pairs)
    if len(value) != len(pairs):
        raise ValueError("a key stands twice")
    return value


def _constant(name: str) -> Any:
    raise ValueError("%s is not JSON" % name)


def _finite(text: str) -> float:
    if len(text) > MAX_DIGITS:
        raise ValueError("a number is too long")
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError("a number is too large")
    return value


def _integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError("a number is too long")
    return int(text)


def manifest(value: Any) -> None:
    """manifest.json, its format number aside."""
    _want(isinstance(value, dict), "must hold a JSON object")
    for name in ("recorded_at", "host", "note"):
        _want(isinstance(value.get(name, ""), str), "%s must be text" % name)
    _want(value.get("missing") in ("unknown", "absent"), "missing must be unknown or absent")


def paths(value: Any) -> None:
    """paths.json."""
    _want(isinstance(value, dict), "must hold a JSON object")
    for path, record in value.items():
        _path(path, path)
        _want(isinstance(record, dict), "%s must be an object" % _shown(path))
        kind = record.get("type")
        _want(isinstance(kind, str) and kind in PATH_TYPES, "%s: unknown type" % _shown(path))
        for name in _INTEGERS:
            _want(
                record.get(name) is None or _is_int(record[name]),
                "%s: %s must be a whole number" % (_shown(path), name),
            )
        for name in _TEXTS:
            _want(
                record.get(name) is None or _is_text(record[name]),
                "%s: %s must be text" % (_shown(path), name),
            )
        _want(len(record.get("target") or "") <= MAX_PATH, "%s: target too long" % _shown(path))
        if record.get("entries") is not None:
            _entries(path, record["entries"])
        if record.get("statvfs") is not None:
            sizes = record["statvfs"]
            _want(isinstance(sizes, dict), "%s: statvfs must be an object" % _shown(path))
            for name in ("total", "free", "avail", "files"):
                _want(
                    _is_int(sizes.get(name)), "%s: statvfs needs a whole %s" % (_shown(path), name)
                )


def _entries(path: str, names: Any) -> None:
    _want(isinstance(names, list), "%s: entries must be a list" % _shown(path))
    for name in names:
        good = _is_text(name) and name not in ("", ".", "..") and "/" not in name
        _want(good and len(name) <= MAX_PATH, "%s: entries must be plain names" % _shown(path))


def process(value: Any) -> None:
    """process.json."""
    _want(isinstance(value, dict), "must hold a JSON object")
    _want(_texts(value.get("env", {})), "env must map names to text")
    _want(value.get("euid") is None or _is_int(value["euid"]), "euid must be a whole number")
    _want(isinstance(value.get("sudo", False), bool), "sudo must be true or false")
    _want(_is_text(value.get("scope", "shell")), "scope must be text")
    _want(value.get("error") is None or _is_text(value["error"]), "error must be text")
    rlimits = value.get("rlimits", {})
    _want(isinstance(rlimits, dict), "rlimits must be an object")
    for name, pair in rlimits.items():
        good = isinstance(pair, list) and len(pair) == 2 and all(_is_int(item) for item in pair)
        _want(good, "rlimits: %s must be [soft, hard]" % _shown(name))


def command(value: Any) -> None:
    """One file of cmds/."""
    _want(isinstance(value, dict), "must hold a JSON object")
    argv = value.get("argv")
    _want(
        isinstance(argv, list) and bool(argv) and all(_is_text(item) for item in argv),
        "argv must be a list of texts",
    )
    _want(_texts(value.get("env", {})), "env must map names to text")
    for name in ("rc", "signal"):
        _want(value.get(name) is None or _is_int(value[name]), "%s must be a whole number" % name)
    _want(value.get("error") is None or _is_text(value["error"]), "error must be text")
    for stream in ("stdout", "stderr"):
        _stream(value, stream)


def http(value: Any) -> None:
    """http.json."""
    _want(isinstance(value, dict), "must hold a JSON object")
    for key, answer in value.items():
        _want(isinstance(answer, dict), "%s must be an object" % _shown(key))
        _want(answer.get("error") is None or _is_text(answer["error"]), "error must be text")
        if not answer.get("error"):
            _want(_is_int(answer.get("status")), "%s: status must be a number" % _shown(key))
        _stream(answer, "body")


def nvml(value: Any) -> None:
    """nvml.json."""
    _want(isinstance(value, dict), "must hold a JSON object")
    for name in ("init", "error"):
        _want(value.get(name) is None or _is_text(value[name]), "%s must be text" % name)
    devices = value.get("devices")
    _want(devices is None or _texts(devices), "devices must map an index to a UUID")
    calls = value.get("calls", {})
    _want(isinstance(calls, dict), "calls must be an object")
    for function, answers in calls.items():
        _want(isinstance(answers, dict), "%s must be an object" % _shown(function))
        for answer in answers.values():
            good = isinstance(answer, dict) and ("value" in answer or _is_text(answer.get("error")))
            _want(good, "%s: an answer has a value or an error" % _shown(function))


def cuda(value: Any) -> None:
    """cuda.json."""
    _want(isinstance(value, list), "must hold a JSON array")
    for look in value:
        _want(isinstance(look, dict), "each look must be an object")
        _want(_texts(look.get("env", {})), "env must map names to text")
        for name in ("name", "lib", "error"):
            _want(look.get(name) is None or _is_text(look[name]), "%s must be text" % name)
        for name in ("cuInit", "count", "driver_version"):
            _want(look.get(name) is None or _is_int(look[name]), "%s must be a whole number" % name)


SHAPES: Dict[str, Callable[[Any], None]] = {
    "manifest.json": manifest,
    "paths.json": paths,
    "process.json": process,
    "nvml.json": nvml,
    "cuda.json": cuda,
    "http.json": http,
}


def _stream(record: Dict[str, Any], name: str) -> None:
    encoded = record.get(name + "_b64")
    _want(record.get(name) is None or isinstance(record[name], str), "%s must be text" % name)
    if encoded is None:
        return
    try:
        base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise ValueError("%s_b64 is not base64" % name) from None


def _path(path: str, shown: str) -> None:
    good = path.startswith("/") and "\0" not in path and len(path) <= MAX_PATH
    _want(good and ".." not in path.split("/"), "%s is not a plain absolute path" % _shown(shown))
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        raise ValueError("%s is not a plain absolute path" % _shown(shown)) from None


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and "\0" not in value


def _texts(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(item, str) for item in value.values())


def _shown(text: str) -> str:
    return ascii(text[:120])


def _want(good: bool, reason: str) -> None:
    if not good:
        raise ValueError(reason)
