"""What each document of a recording must look like. A recording is a stranger's data: nothing is assumed of it."""

import json
import os
from typing import Any, Callable, Dict, List, Tuple

MAX_PATH = 4096
"""Longest path or link target that Linux takes (PATH_MAX)."""
MAX_DIGITS = 40
"""Longest whole number: more is no size, time or id, and converting megabytes of digits takes minutes."""
PATH_TYPES = frozenset("file dir char block link socket fifo absent denied error".split())
_INTEGERS = frozenset(("mode", "uid", "gid", "size", "mtime"))
_TEXTS = frozenset(("rdev", "target", "error", "read_error", "entries_error", "statvfs_error"))


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
        _path(path)
        problem = _record_problem(record)
        if problem:
            raise ValueError("%s: %s" % (_shown(path), problem))


def _record_problem(record: Any) -> str:
    """What is wrong with one record; empty when nothing is. A recording has thousands: words are made only when needed."""
    if not isinstance(record, dict):
        return "must be an object"
    kind = record.get("type")
    if not isinstance(kind, str) or kind not in PATH_TYPES:
        return "unknown type"
    for name, item in record.items():
        if item is None or name == "type":
            continue
        if name in _INTEGERS:
            if not isinstance(item, int) or item is True or item is False:
                return "%s must be a whole number" % name
        elif name in _TEXTS:
            if not isinstance(item, str) or "\0" in item:
                return "%s must be text" % name
            if name == "target" and len(item) > MAX_PATH:
                return "target too long"
        elif name == "entries":
            if not isinstance(item, list):
                return "entries must be a list"
            if not all(isinstance(entry, str) and _is_name(entry) for entry in item):
                return "entries must be plain names"
        elif name == "statvfs" and not _is_statvfs(item):
            return "statvfs needs whole numbers: total, free, avail, files"
    return ""


def _is_name(text: str) -> bool:
    return (
        0 < len(text) <= MAX_PATH
        and "/" not in text
        and "\0" not in text
        and text not in (".", "..")
    )


def _is_statvfs(value: Any) -> bool:
    names = ("total", "free", "avail", "files")
    return isinstance(value, dict) and all(_is_int(value.get(name)) for name in names)


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
    import base64
    import binascii

    try:
        base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError, TypeError):
        raise ValueError("%s_b64 is not base64" % name) from None


def _path(path: str) -> None:
    good = path[:1] == "/" and "\0" not in path and len(path) <= MAX_PATH
    if good and ".." in path:
        good = ".." not in path.split("/")
    try:
        os.fsencode(path)
    except UnicodeEncodeError:
        good = False
    if not good:
        raise ValueError("%s is not a plain absolute path" % _shown(path))


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
