"""What names a host: learnt from where it stands, so that it is renamed wherever it occurs."""

import hashlib
import json
import os
import re
from typing import Any, Dict, Iterable, List, Tuple

from doctor.probes.recordings import public
from doctor.probes.recordings.pseudonym import Pseudonyms, private_hosts

HOST_FILES = frozenset(
    ("/etc/hostname", "/proc/sys/kernel/hostname", "/proc/sys/kernel/domainname")
)
"""Files that hold nothing but a name of the host."""
SERIAL_FILES = re.compile(
    r"/sys/class/dmi/id/\w*(?:serial|asset_tag)\Z|/proc/device-tree/serial-number\Z"
)
Documents = Dict[str, Any]
"""files {path: bytes}, paths, process, cmds [records with bytes], nvml, cuda, http {key: record}, manifest."""


def texts(documents: Documents) -> Iterable[str]:
    """Every text of a recording."""
    for data in documents.get("files", {}).values():
        yield data.decode("utf-8", "replace")
    for record in documents.get("cmds", []):
        yield " ".join(map(str, record.get("argv", [])))
        yield _as_text(record.get("stdout", b""))
    for name in ("paths", "process", "nvml", "cuda", "manifest"):
        yield json.dumps(documents.get(name))
    for key, record in documents.get("http", {}).items():
        yield key
        yield _as_text(record.get("body", b""))


def _as_text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value or "")


def reserve(documents: Documents, names: Pseudonyms) -> None:
    """Ordinals that the recording already uses are not given again."""
    for text in texts(documents):
        names.reserve(text)


def learn(documents: Documents, names: Pseudonyms) -> None:
    """Everything that names the host somewhere, so that it is renamed everywhere."""
    files = documents.get("files", {})
    for path in sorted(HOST_FILES):
        _learn_host(names, files.get(path, b"").decode("utf-8", "replace"))
    for word in re.findall(r"(?m)^(?:search|domain)\s+(.*)$", _file(files, "/etc/resolv.conf")):
        for domain in word.split():
            if "." in domain and not public.is_public_host(domain):
                names.learn("host", domain)
    machine = _file(files, "/etc/machine-id").strip()
    if re.match(r"[0-9a-f]{32}\Z", machine):
        names.learn("machine", machine)
    for uuid in (documents.get("nvml", {}).get("devices") or {}).values():
        names.text(str(uuid))
    for path, data in files.items():
        if SERIAL_FILES.match(path):
            value = data.decode("utf-8", "replace").strip("\0 \n")
            if any(letter.isdigit() for letter in value):
                names.learn("serial", value)
        if path.endswith("/.docker/config.json"):
            _learn_context(names, data)
    for match in re.finditer(
        r"(?m)^([a-z_][\w.\-]*):[^:]*:(\d+):\d+:([^:]*):([^:]*)", _file(files, "/etc/passwd")
    ):
        if 1000 <= int(match.group(2)) < 60000:
            names.learn("user", match.group(1))
    env = documents.get("process", {}).get("env", {})
    for name in ("SUDO_USER", "USER", "LOGNAME", "USERNAME"):
        if env.get(name) and env[name] != "root":
            names.learn("user", env[name])
    home = re.match(r"/home/([^/]+)/?\Z", env.get("HOME", ""))
    if home:
        names.learn("user", home.group(1))
    for path, record in documents.get("paths", {}).items():
        if path in ("/home", "/Users"):
            for name in record.get("entries") or []:
                names.learn("user", name)
    for text in texts(documents):
        for host in private_hosts(text):
            names.learn("host", host)
    for record in documents.get("http", {}).values():
        _learn_host(names, str(json_object(record.get("body", b"")).get("Name") or ""))


def _file(files: Dict[str, bytes], path: str) -> str:
    return files.get(path, b"").decode("utf-8", "replace")


def _learn_host(names: Pseudonyms, text: str) -> None:
    name = text.strip()
    if not name or name in ("(none)", "localhost"):
        return
    names.learn("host", name)
    short, _, domain = name.partition(".")
    if domain:
        names.learn("host", short)
        if "." in domain:
            names.learn("host", domain)


def _learn_context(names: Pseudonyms, data: bytes) -> None:
    """A Docker context is found by the digest of its name: both are renamed together."""
    context = json_object(data).get("currentContext")
    if isinstance(context, str) and context and context != "default":
        name = names.name("container", context)
        names.replace(
            hashlib.sha256(context.encode("utf-8")).hexdigest(),
            hashlib.sha256(name.encode("utf-8")).hexdigest(),
        )


def json_object(data: Any) -> Dict[str, Any]:
    """A JSON object, empty when it is none."""
    try:
        value = json.loads(_as_text(data))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def of_this_host() -> List[Tuple[str, str]]:
    """(kind, value) of what names this host and its people, beyond what probes read."""
    found: List[Tuple[str, str]] = []
    try:
        found.append(("host", os.uname().nodename))
    except OSError:
        pass
    for path, kind in (
        ("/etc/hostname", "host"),
        ("/etc/machine-id", "machine"),
        ("/proc/sys/kernel/random/boot_id", "uuid"),
    ):
        found += [(kind, word) for word in _words(path)]
    for folder, name in (
        ("/sys/class/dmi/id", r"\w*serial|product_uuid"),
        ("/sys/class/net", r".*"),
    ):
        for entry in _listed(folder):
            if not re.match(name + r"\Z", entry):
                continue
            if folder.endswith("net"):
                found += [("mac", word) for word in _words("%s/%s/address" % (folder, entry))]
            else:
                kind = "uuid" if entry.endswith("uuid") else "serial"
                found += [
                    (kind, word)
                    for word in _words("%s/%s" % (folder, entry))
                    if re.search(r"\d", word)
                ]
    for line in _lines("/etc/passwd"):
        parts = line.split(":")
        if len(parts) > 5 and parts[2].isdigit() and 1000 <= int(parts[2]) < 60000:
            found.append(("user", parts[0]))
    found += [
        ("user", os.environ[name])
        for name in ("SUDO_USER", "USER", "LOGNAME")
        if name in os.environ
    ]
    found += [("addr4", word) for word in _own_addresses()]
    found += [
        ("addr6", ":".join(line[at : at + 4] for at in range(0, 32, 4)))
        for line in _lines("/proc/net/if_inet6")
    ]
    return [(kind, value) for kind, value in found if value not in ("root", "(none)", "localhost")]


def _own_addresses() -> List[str]:
    """Local IPv4 addresses: the lines before `host LOCAL` in the kernel's routing trie."""
    found: List[str] = []
    last = ""
    for line in _lines("/proc/net/fib_trie"):
        match = re.search(r"\|-- (\S+)", line)
        if match:
            last = match.group(1)
        elif "host LOCAL" in line and not last.startswith("127.") and last not in found:
            found.append(last)
    return found


def _words(path: str) -> List[str]:
    return [word for line in _lines(path) for word in line.split()]


def _lines(path: str) -> List[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(1 << 20).splitlines()
    except OSError:
        return []


def _listed(folder: str) -> List[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
