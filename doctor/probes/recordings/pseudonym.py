"""Ordinal names for what identifies a host: the same value gets the same name everywhere in one recording, no hashes.

Names keep the shape that parsers accept, and are left alone when met again, so naming twice changes nothing.
"""

import ipaddress
import re
from typing import Any, Dict, Iterable, List, Match, Optional, Pattern, Set, Tuple

from doctor.probes.recordings import secret
from doctor.probes.recordings.public import FOLDERS, is_public_host, public_path

SHAPES = {
    "host": "host-%d",
    "user": "user-%d",
    "serial": "serial-%d",
    "volume": "volume-%d",
    "path": "path-%d",
    "file": "file-%d",
    "image": "image-%d",
    "container": "container-%d",
    "email": "user-%d@example.com",
    "uuid": "%08x-0000-4000-8000-000000000000",
    "mac": "02:00:00:00:%s",
    "guid": "feed:0000:0000:%04x",
    "id": "%012d" + "0" * 52,
    "machine": "%08d" + "0" * 24,
    "addr6": "2001:db8::%x",
}
_WORD_NAMES = re.compile(r"\b(host|user|serial|volume|path|file|image|container)-(\d{1,6})\b")
_MADE = {
    "uuid": re.compile(r"(?i)[0-9a-f]{8}-0000-4000-8000-000000000000\Z"),
    "mac": re.compile(r"02:00:00:00:"),
    "guid": re.compile(r"feed:0000:0000:[0-9a-f]{4}\Z"),
    "id": re.compile(r"\d{12}(?:0{52})?\Z"),
    "machine": re.compile(r"\d{8}0{24}\Z"),
    "email": re.compile(r"user-\d+@example\.com\Z"),
    "addr6": re.compile(r"2001:db8:"),
}
_WELL_KNOWN = frozenset(
    (
        "8be4df61-93ca-11d2-aa0d-00e098032b8c",
        "d719b2cb-3d3a-4596-a3bc-dad00e67656f",
        "605dab50-e046-4300-abb6-3dd810dd8b23",
        "00000000-0000-0000-0000-000000000000",
    )
)
"""EFI global variables, the image security database, shim: the same on every machine (UEFI specification, shim)."""
COMMON = frozenset(
    "localhost localdomain local host server node vm guest docker podman ubuntu debian rocky centos fedora rhel almalinux "
    "linux nvidia cuda gpu root admin user nobody daemon runner builder build test data home default container kernel "
    "none unknown systemd ec2-user cloud-user opc azureuser vagrant main master worker model models python".split()
)
"""Words that name nobody: never replaced where they merely occur."""

_UUID = re.compile(
    r"(?i)(?<![0-9a-f])[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}(?![0-9a-f])"
)
_PART_UUID = re.compile(
    r"\b(?P<head>GPU|MIG)-(?P<part>[0-9a-f]{6,8}(?:-[0-9a-f]{1,4}){0,3})(?![\w-])"
)
_MAC = re.compile(r"(?i)(?<![0-9a-f:.\-])(?:[0-9a-f]{2}:){5}[0-9a-f]{2}(?![0-9a-f:\-])")
_LONG_HEX = re.compile(
    r"(?i)(?<![0-9a-f:])(?:[0-9a-f]{2}:){7,}(?:\s*(?:[0-9a-f]{2}:)+)*[0-9a-f]{2}(?![0-9a-f:])"
)
_GUID = re.compile(r"(?i)(?<![0-9a-f:])[0-9a-f]{4}(?::[0-9a-f]{4}){3}(?![0-9a-f:])")
_HEX_GUID = re.compile(r"(?i)(?P<head>\b[\w ]*guid\w*\"?\s*[:=]?\s*\"?)0x(?P<value>[0-9a-f]{16})\b")
_ID = re.compile(r"(?<![0-9a-f:])[0-9a-f]{64}(?![0-9a-f])")
_V6 = re.compile(r"(?i)(?<![\w:.])(?:[0-9a-f]{0,4}:){2,7}[0-9a-f]{0,4}(?![\w:])")
_FOUR = r"\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}"
_V4 = re.compile(
    r"(?i)(?P<head>\b(?:inet|addr|address|nameserver|server|host|from|to|via|src|dst|gateway|peer|listen|bind|ip|remote|"
    r"local|endpoint|serveraddr|clientaddr|mountaddr)[\"']?(?:\s*[:=]\s*|\s+)[\"']?|://|@|(?<![\w:])//)(?P<v4>"
    + _FOUR
    + r")(?![\w.+~]|-\d)"
)
_V4_PRIVATE = re.compile(
    r"(?P<head>(?<![\w.+~\-])(?<!==))(?P<v4>(?:192\.168|172\.(?:1[6-9]|2\d|3[01])|169\.254|100\.(?:6[4-9]|[7-9]\d|1[01]\d|12[0-7]))"
    r"\.\d{1,3}\.\d{1,3})(?![\w.+~]|-\d)"
)
_V4_PORT = re.compile(
    r"(?P<head>(?<![\w.+~\-])(?<!==))(?P<v4>" + _FOUR + r")(?=:\d{2,5}\b|/\d{1,2}\b)"
)
_V4_ANY = re.compile(r"(?P<head>(?<![\w.]))(?P<v4>" + _FOUR + r")(?![\w.])")
_EMAIL = re.compile(
    r"(?<![\w.+\-/@])[A-Za-z0-9][\w.+\-]*@(?:[A-Za-z0-9\-]+\.)+(?P<top>[A-Za-z]{2,12})\b(?![.@\-]?\w)"
)
_BUILDER = re.compile(
    r"(?P<head>Linux version \S+ |Release Build +)\([A-Za-z][^()@\s]*@[^()@\s]*\)"
)
"""Who compiled the kernel or its module, and where."""
_UNIT_ENDS = frozenset(
    "service socket target timer mount automount slice scope path device swap conf".split()
)
_URL = re.compile(
    r"(?P<scheme>\b[A-Za-z][A-Za-z0-9+.\-]*://)(?P<host>[A-Za-z0-9][A-Za-z0-9._\-]*)(?P<port>:\d+)?(?P<path>/[^\s\"'<>\\,|]*)?"
)
_HOME = re.compile(r"(?P<head>/home/|/Users/)(?P<user>[^/\s:\"'=,;()<>|*?\[\]\\\0]+)")
_OWNED = re.compile(
    r"(?P<head>(?<![\w.\-])/(?:opt|srv|mnt|media|data|scratch|nfs|workspace)/)(?P<name>[^/\s:\"'=,;()<>|*?\[\]\\\0]+)"
)
_SERIAL = re.compile(
    r"(?i)(?P<head>\b(?:\w*[ _-])?(?:serial(?:[ _-]?(?:number|no\.?))?|asset[ _-]tag)\"?(?:[ \t]*[:=][ \t]*|[ \t]{2,})\"?"
    r"|<\w*serial\w*>)(?P<value>[A-Za-z0-9][A-Za-z0-9._\-/]{4,})"
)
_MAPPER = re.compile(r"(?P<head>/dev/mapper/)(?P<name>(?!control\b)[^\s/:,\"']+)")


class Pseudonyms:
    """What was met so far, and its name. First collect (`learn`), then rename (`text`, `path`)."""

    def __init__(self, known: Iterable[Tuple[str, str]] = ()) -> None:
        self._given: Dict[Tuple[str, str], int] = {}
        self._last: Dict[str, int] = {}
        self._literal: Dict[str, str] = {}
        self._pattern: Optional[Pattern[str]] = None
        self._fixed: Set[str] = set()
        self.uuids: Dict[str, str] = {}
        for kind, value in known:
            self.learn(kind, value)

    def reserve(self, text: str) -> None:
        """Ordinals that a text already uses are not given to something else."""
        for kind, number in _WORD_NAMES.findall(text):
            self._last[kind] = max(self._last.get(kind, 0), int(number))
        for match in _UUID.finditer(text):
            if _MADE["uuid"].match(match.group(0)):
                self._last["uuid"] = max(self._last.get("uuid", 0), int(match.group(0)[:8], 16))

    def learn(self, kind: str, value: str) -> str:
        """Name a value, and rename it wherever it occurs as a word, if it is a word that can only mean it."""
        value = value.strip()
        if not value or (kind in ("host", "user") and _WORD_NAMES.match(value)):
            return value
        name = self.name(kind, value)
        if name != value and is_distinct(value):
            self._literal[value] = name
            self._pattern = None
        return name

    def replace(self, value: str, name: str) -> None:
        """Rename a value to a given name wherever it occurs as a word."""
        self._literal[value] = name
        self._literal.setdefault(name, name)
        self._fixed.add(name)
        self._pattern = None

    def name(self, kind: str, value: str) -> str:
        """The ordinal name of a value."""
        if kind == "addr4":
            return self._address4(value)
        if kind == "addr6":
            return self._address6(value)
        key = value.lower() if kind in ("uuid", "mac", "guid", "id", "machine") else value
        made = _MADE.get(kind)
        if (
            key in self._fixed
            or (made and made.match(key))
            or (kind in SHAPES and _word_name(kind, value))
        ):
            return value
        number = self._number(kind, key)
        if kind == "mac":
            return SHAPES[kind] % ("%02x:%02x" % (number >> 8 & 255, number & 255))
        name = SHAPES[kind] % number
        if kind == "uuid":
            self.uuids[key] = name
        return name

    def _number(self, kind: str, key: str) -> int:
        if (kind, key) not in self._given:
            self._last[kind] = self._last.get(kind, 0) + 1
            self._given[(kind, key)] = self._last[kind]
        return self._given[(kind, key)]

    def _address4(self, value: str) -> str:
        try:
            address = ipaddress.IPv4Address(value)
        except ValueError:
            return value
        if address.is_loopback or address.is_unspecified or int(address) == 0xFFFFFFFF:
            return value
        if value.startswith(("203.0.113.", "198.18.", "198.19.", "255.")) or address.is_multicast:
            return value
        number = self._number("addr4", value)
        if number < 255:
            return "203.0.113.%d" % number
        return "198.%d.%d.%d" % (18 + (number >> 16 & 1), number >> 8 & 255, number & 255)

    def _address6(self, value: str) -> str:
        try:
            address = ipaddress.IPv6Address(value)
        except ValueError:
            return value
        if address.is_loopback or address.is_unspecified or address.is_multicast:
            return value
        text = str(address)
        return (
            value if _MADE["addr6"].match(text) else SHAPES["addr6"] % self._number("addr6", text)
        )

    def is_made(self, kind: str, value: str) -> bool:
        """Whether a value is such a name already."""
        return _word_name(kind, value)

    def text(self, text: str, addresses: bool = False) -> str:
        """The text with every identity renamed. `addresses`: every dotted quad here is an address, none a version."""
        text = self._literals(text)
        if "-" in text:
            text = _UUID.sub(self._uuid, text)
            text = _PART_UUID.sub(self._part_uuid, text)
        text = _ID.sub(lambda match: self.name("id", match.group(0)), text)
        if ":" in text:
            text = _LONG_HEX.sub(
                lambda match: re.sub(r"[0-9A-Fa-f]{2}", "00", match.group(0)), text
            )
            text = _MAC.sub(self._mac, text)
            text = _GUID.sub(self._guid, text)
            text = _V6.sub(lambda match: self._address6(match.group(0)), text)
        text = _HEX_GUID.sub(self._hex_guid, text)
        for pattern in (_V4_ANY,) if addresses else (_V4, _V4_PRIVATE, _V4_PORT):
            text = pattern.sub(
                lambda match: match.group("head") + self._address4(match.group("v4")), text
            )
        if "://" in text:
            text = _URL.sub(self._url, text)
        if "@" in text:
            text = _BUILDER.sub(r"\g<head>(build@build)", text)
            text = _EMAIL.sub(self._email, text)
        text = _HOME.sub(
            lambda match: match.group("head") + self.name("user", match.group("user")), text
        )
        text = _OWNED.sub(self._owned, text)
        text = _MAPPER.sub(
            lambda match: match.group("head") + self.name("volume", match.group("name")), text
        )
        return _SERIAL.sub(self._serial, text)

    def _literals(self, text: str) -> str:
        if not self._literal:
            return text
        if self._pattern is None:
            words = sorted(self._literal, key=len, reverse=True)
            self._pattern = re.compile(
                r"(?<![A-Za-z0-9])(?:%s)(?![A-Za-z0-9])" % "|".join(map(re.escape, words))
            )
        return self._pattern.sub(lambda match: self._literal[match.group(0)], text)

    def blank(self, data: bytes) -> bytes:
        """Binary content with known words overwritten in place: its layout stays."""
        for word in self._literal:
            raw = word.encode("utf-8", "surrogateescape")
            if raw in data:
                data = data.replace(raw, b"x" * len(raw))
        return data

    def _uuid(self, match: Match[str]) -> str:
        value = match.group(0)
        return value if value.lower() in _WELL_KNOWN else self.name("uuid", value)

    def _part_uuid(self, match: Match[str]) -> str:
        """CUDA_VISIBLE_DEVICES takes the start of a UUID: it becomes the start of that UUID's name."""
        part = match.group("part")
        if part.startswith("0000") and "-0000-4000-8000-000000000000".startswith(part[8:]):
            return match.group(0)
        whole = next((uuid for uuid in self.uuids if uuid.startswith(part)), None)
        name = self.uuids[whole] if whole else self.name("uuid", part)
        return "%s-%s" % (match.group("head"), name[: max(8, len(part))])

    def _mac(self, match: Match[str]) -> str:
        value = match.group(0)
        same = set(value.lower().split(":"))
        return value if same in ({"00"}, {"ff"}) else self.name("mac", value)

    def _guid(self, match: Match[str]) -> str:
        value = match.group(0)
        return value if set(value) <= {"0", ":"} else self.name("guid", value)

    def _hex_guid(self, match: Match[str]) -> str:
        value = match.group("value").lower()
        if set(value) == {"0"}:
            return match.group(0)
        name = self.name("guid", ":".join(value[at : at + 4] for at in range(0, 16, 4)))
        return match.group("head") + "0x" + name.replace(":", "")

    def _url(self, match: Match[str]) -> str:
        host, path = match.group("host"), match.group("path") or ""
        head, port = match.group("scheme"), match.group("port") or ""
        if re.match(_FOUR + r"\Z", host) or host in ("localhost", "127.0.0.1"):
            return head + host + port + path
        if is_public_host(host):
            if host.endswith(".archive.ubuntu.com"):
                host = "archive.ubuntu.com"  # the rest is a region or a provider
            return head + host + port + path
        return head + self.name("host", host) + port + public_path(path, self)

    def _owned(self, match: Match[str]) -> str:
        name = match.group("name")
        return (
            match.group(0) if FOLDERS.match(name) else match.group("head") + self.name("path", name)
        )

    def _email(self, match: Match[str]) -> str:
        return (
            match.group(0)
            if match.group("top").lower() in _UNIT_ENDS
            else self.name("email", match.group(0))
        )

    def _serial(self, match: Match[str]) -> str:
        value = match.group("value")
        if set(value.lower()) <= {"0", "x", "."} or not any(letter.isdigit() for letter in value):
            return match.group(0)
        return match.group("head") + self.learn("serial", value)

    def tree(self, value: Any) -> Any:
        """Nested JSON values, keys too."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {
                self.text(key) if isinstance(key, str) else key: self.tree(item)
                for key, item in value.items()
            }
        if isinstance(value, (list, tuple)):
            return [self.tree(item) for item in value]
        return value

    def words(self) -> List[str]:
        """Every literal that is renamed where it occurs."""
        return sorted(self._literal)

    def kinds(self) -> Set[str]:
        """Kinds that were met."""
        return {kind for kind, _ in self._given}


def private_hosts(text: str) -> List[str]:
    """Host names in URLs that are no distribution's or vendor's."""
    found = (
        [match.group("host") for match in _URL.finditer(secret.cut(text))] if "://" in text else []
    )
    return [
        host for host in found if not re.match(_FOUR + r"\Z", host) and not is_public_host(host)
    ]


def is_distinct(value: str) -> bool:
    """Whether a word can only mean this host or person: not a common word, not too short to occur by chance."""
    return (len(value) >= 4 and value.lower() not in COMMON and not value.isdigit()) or len(
        value
    ) >= 10


def _word_name(kind: str, value: str) -> bool:
    match = _WORD_NAMES.match(value)
    return bool(match and match.group(0) == value and match.group(1) == kind)
