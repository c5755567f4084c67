"""CDI specifications of NVIDIA devices, read without a YAML library: only the few lines that the doctor needs."""

import json
from typing import Any, Dict, List, Optional

from doctor.probes.fact import Fact, known, unknown
from doctor.probes.pattern import regex
from doctor.probes.source import Source

FOLDERS = ("/etc/cdi", "/var/run/cdi")
MAX_SPECS = 16
MAX_PATHS = 120
"""Host paths of one specification that are looked for; a specification names about sixty."""

_LINE = regex(r"^(?P<indent>\s*)(?:-\s+)?(?P<key>[A-Za-z]+):\s*(?P<value>.*?)\s*$")
_DRIVER_LIBRARY = regex(r"/lib(?:cuda|nvidia-ml|nvidia-ptxjitcompiler)\.so\.(\d+\.\d+(?:\.\d+)?)$")


def specs(src: Source) -> Fact:
    """Every nvidia.com specification -> [{"path", "cdi_version", "kind", "driver_version", "devices", "mtime", "missing_paths"}]."""
    via = " ".join(folder + "/*" for folder in FOLDERS)
    found: List[Dict[str, Any]] = []
    for folder in FOLDERS:
        listed = src.listdir(folder)
        if listed.state == "absent":
            continue
        if not listed.ok:
            return unknown(listed.reason, folder)
        names = [name for name in listed.value if name.endswith((".yaml", ".yml", ".json"))]
        for name in names[:MAX_SPECS]:
            path = folder + "/" + name
            text = src.read(path)
            if text.state == "absent":
                continue
            if not text.ok:
                return unknown(text.reason, path)
            try:
                spec = parse_spec(text.value)
            except ValueError as error:
                return unknown("cannot parse: %s" % error, path)
            if (spec["kind"] or "").startswith("nvidia.com/"):
                found.append(_looked_at(src, path, spec))
    return known(found, via)


def _looked_at(src: Source, path: str, spec: Dict[str, Any]) -> Dict[str, Any]:
    stat = src.stat(path)
    missing = [item for item in spec["host_paths"][:MAX_PATHS] if src.stat(item).state == "absent"]
    return {
        "path": path,
        "cdi_version": spec["cdi_version"],
        "kind": spec["kind"],
        "driver_version": driver_version(spec["host_paths"]),
        "devices": spec["devices"],
        "mtime": stat.value.get("mtime") if stat.ok else None,
        "missing_paths": missing,
    }


def driver_version(paths: List[str]) -> Optional[str]:
    """The driver that wrote the specification, from the library names it mounts."""
    for path in paths:
        match = _DRIVER_LIBRARY.search(path)
        if match:
            return match.group(1)
    return None


def parse_spec(text: str) -> Dict[str, Any]:
    """JSON or YAML text -> {"cdi_version", "kind", "devices", "host_paths"}; ValueError when it is neither."""
    if text.lstrip().startswith("{"):
        return _from_json(json.loads(text))
    return _from_lines(text)


def _from_json(spec: Any) -> Dict[str, Any]:
    if not isinstance(spec, dict):
        raise ValueError("not an object")  # noqa: TRY004
    devices = [item for item in spec.get("devices") or [] if isinstance(item, dict)]
    edits = [spec.get("containerEdits") or {}]
    edits += [item.get("containerEdits") or {} for item in devices]
    paths: List[str] = []
    for edit in edits:
        for node in edit.get("deviceNodes") or []:
            paths.append(node.get("hostPath") or node.get("path") or "")
        for mount in edit.get("mounts") or []:
            paths.append(mount.get("hostPath") or "")
    return {
        "cdi_version": spec.get("cdiVersion"),
        "kind": spec.get("kind"),
        "devices": [str(item.get("name")) for item in devices],
        "host_paths": _unique(paths),
    }


def _from_lines(text: str) -> Dict[str, Any]:
    """The block style that nvidia-ctk writes, with its keys in any order and at any indentation."""
    spec: Dict[str, Any] = {"cdi_version": None, "kind": None, "devices": [], "host_paths": []}
    items: List[Dict[str, str]] = []
    section = ""
    inner = ""
    for line in text.splitlines():
        match = _LINE.match(line)
        if not match:
            continue
        key, value = match.group("key"), _plain(match.group("value"))
        if not match.group("indent") and not line.startswith("-"):
            section = key
        if key in ("deviceNodes", "mounts", "hooks", "env"):
            inner = key
            continue
        if key == "cdiVersion":
            spec["cdi_version"] = value
        elif key == "kind" and section == "kind":
            spec["kind"] = value
        elif key == "name" and section == "devices":
            spec["devices"].append(value)
        elif inner in ("deviceNodes", "mounts"):
            if line.lstrip().startswith("-") or not items:
                items.append({"in": inner})
            items[-1][key] = value
    if spec["cdi_version"] is None and spec["kind"] is None:
        raise ValueError("no cdiVersion and no kind")
    spec["host_paths"] = _unique([_host_path(item) for item in items])
    return spec


def _host_path(item: Dict[str, str]) -> str:
    """A device node without a host path has the same path on the host."""
    return item.get("hostPath") or (item.get("path", "") if item["in"] == "deviceNodes" else "")


def _plain(value: str) -> str:
    if value[:1] in ("'", '"'):
        return value[1 : value.find(value[0], 1)] if value.find(value[0], 1) > 0 else value
    return value.split(" #")[0].strip()


def _unique(paths: List[str]) -> List[str]:
    return list(dict.fromkeys(path for path in paths if path.startswith("/")))
