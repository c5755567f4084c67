"""dpkg and apt, read: the status database by one query, configuration and lists as files."""

import re
from typing import Any, Dict, Iterable, List, Optional, Tuple

from doctor.probes.fact import Fact, absent, known, unknown
from doctor.probes.pattern import regex
from doctor.probes.source import Completed, Source

PATTERNS = (
    "*nvidia*",
    "cuda*",
    "libcuda*",
    "libnccl*",
    "libcudnn*",
    "libxnvctrl*",
    "libnvsdm*",
    "libnvinfer*",
    "nvlsm*",
    "datacenter-gpu-manager*",
    "tensorrt*",
    "dkms",
    "linux-image*",
    "linux-headers*",
    "linux-modules*",
    "linux-generic*",
    "linux-aws*",
    "linux-azure*",
    "linux-gcp*",
    "docker*",
    "containerd*",
    "podman",
    "crun",
    "runc",
    "unattended-upgrades",
    "mokutil",
    "shim-signed",
    "doca-ofed*",
    "mlnx-ofed*",
)
"""Packages that decide about GPUs, kernels and containers."""
QUERY = [
    "dpkg-query",
    "-W",
    "-f",
    "${db:Status-Abbrev}\t${Package}\t${Version}\t${Architecture}\n",
] + list(PATTERNS)
_WATCHED = regex(
    r"^(nvidia-(driver|open|dkms|headless|fabricmanager|imex|kernel|firmware|utils|compute-utils|container-toolkit)"
    r"|cuda-drivers|libnvidia-(compute|gl|nscq|container)|linux-(image|modules-nvidia|generic|aws|azure|gcp)"
    r"|docker-ce$|docker\.io$|containerd)"
)
"""Packages whose waiting upgrade changes driver, kernel or container runtime."""
_DRIVER = regex(
    r"^(nvidia-(driver|dkms|kernel|open|utils)|libnvidia-compute|libcuda1|cuda-drivers)"
)
_SOURCES = "/etc/apt/sources.list.d"


def rows(src: Source) -> Fact:
    """[(status, name, version)] of the packages of interest; a pattern without a match makes dpkg-query say 1."""
    return src.run(QUERY, ok=(0, 1)).map(parse_rows, "dpkg-query")


def parse_rows(done: Completed) -> List[Tuple[str, str, str]]:
    """Lines "ii <tab> name <tab> version <tab> architecture"."""
    found = []
    for line in filter(None, done.stdout.splitlines()):
        parts = line.split("\t")
        if len(parts) < 3:
            raise ValueError("not a dpkg-query line: %r" % line[:80])
        found.append((parts[0].strip(), parts[1], parts[2]))
    return found


def installed(src: Source) -> Fact:
    """name -> version of what is unpacked or further."""
    return rows(src).map(
        lambda found: {name: version for state, name, version in found if state[1:2] in "iUFHWt"}
    )


def broken(src: Source) -> Fact:
    """Packages that are not fully installed, of all packages, and an interrupted dpkg run."""
    return src.run(["dpkg", "--audit"], ok=(0, 1)).map(parse_audit)


def parse_audit(done: Completed) -> List[str]:
    """Names in dpkg --audit, without the section on missing md5sums or list files, which breaks nothing."""
    names: List[str] = []
    counts = True
    for line in done.stdout.splitlines():
        if line and not line[0].isspace():
            counts = counts if line[0].islower() else "missing" not in line
        elif counts and re.match(r" \S", line):
            names.append(line.split()[0])
    return sorted(set(names))


def holds(src: Source) -> Fact:
    """Packages of interest that dpkg holds."""
    return rows(src).map(
        lambda found: sorted({name for state, name, _ in found if state.startswith("h")})
    )


def last_upgrade(src: Source) -> Fact:
    """When the newest driver package was unpacked: the time of its file list."""
    names = installed(src)
    if not names.ok:
        return names
    newest: Optional[int] = None
    for name in names.value:
        if not _DRIVER.match(name):
            continue
        for path in (
            "/var/lib/dpkg/info/%s.list" % name,
            "/var/lib/dpkg/info/%s:amd64.list" % name,
        ):
            record = src.stat(path)
            if record.ok and record.value.get("mtime"):
                newest = max(newest or 0, record.value["mtime"])
    return known(newest, "/var/lib/dpkg/info") if newest else absent("/var/lib/dpkg/info")


# repositories ---------------------------------------------------------------------------------------------------


def repositories(src: Source) -> Fact:
    """Every source of sources.list and sources.list.d, in either format."""
    files = src.glob(_SOURCES + "/*")
    if not files.ok:
        return files
    found: List[Dict[str, Any]] = []
    for path in ["/etc/apt/sources.list"] + files.value:
        if not path.endswith((".list", ".sources")):
            continue
        text = src.read(path)
        if text.state == "absent":
            continue
        if not text.ok:
            return text
        parse = parse_deb822 if path.endswith(".sources") else parse_one_line
        found += [dict(row, file=path) for row in parse(text.value)]
    for row in found:
        if row["key"] and row["key"].startswith("/"):
            here = src.exists(row["key"])
            row["key_found"] = False if here.state == "absent" else (True if here.ok else None)
    return known(found, "/etc/apt/sources.list, " + _SOURCES)


def parse_one_line(text: str) -> List[Dict[str, Any]]:
    """deb [signed-by=/path trusted=yes] URL SUITE COMPONENT...; deb-src lines bring no binaries and are left out."""
    found = []
    for line in text.splitlines():
        match = re.match(r"\s*deb\s+(?:\[([^\]]*)\]\s*)?(\S+)\s+(\S+)([^#]*)", line)
        if match:
            options = dict(
                item.split("=", 1) for item in (match.group(1) or "").split() if "=" in item
            )
            lower = {key.lower(): value for key, value in options.items()}
            found.append(
                _repository(match.group(2), match.group(3), match.group(4).split(), True, lower)
            )
    return found


def parse_deb822(text: str) -> List[Dict[str, Any]]:
    """Stanzas of a .sources file; an inline key block counts as a key of its own."""
    found = []
    for stanza in re.split(r"\n\s*\n", text):
        fields = _fields(stanza)
        if "uris" not in fields or "deb" not in fields.get("types", "deb").split():
            continue
        enabled = fields.get("enabled", "yes").lower() not in ("no", "false", "0")
        options = {"signed-by": fields["signed-by"]} if "signed-by" in fields else {}
        if fields.get("trusted"):
            options["trusted"] = fields["trusted"]
        for url in fields["uris"].split():
            for suite in fields.get("suites", "").split() or [""]:
                components = fields.get("components", "").split()
                found.append(_repository(url, suite, components, enabled, options))
    return found


def _fields(stanza: str) -> Dict[str, str]:
    fields: Dict[str, str] = {}
    last = ""
    for line in stanza.splitlines():
        if line.startswith("#"):
            continue
        if line[:1].isspace() and last:
            fields[last] += "\n" + line.strip()
        elif ":" in line:
            name, _, value = line.partition(":")
            last = name.strip().lower()
            fields[last] = value.strip()
    return fields


def _repository(
    url: str, suite: str, components: List[str], enabled: bool, options: Dict[str, str]
) -> Dict[str, Any]:
    key = options.get("signed-by", "").strip()
    if "BEGIN PGP" in key:
        key = "(inline)"
    signed: Optional[bool] = True if key else None
    if options.get("trusted", "").lower() in ("yes", "true", "1"):
        signed = False
    return {
        "id": " ".join([_site(url), suite] + components),
        "url": _without_credentials(url),
        "enabled": enabled,
        "signed": signed,
        "key": key or None,
        "suite": suite,
    }


def _without_credentials(url: str) -> str:
    return re.sub(r"//[^/@]*@", "//", url)


def _site(url: str) -> str:
    return re.sub(r"^[a-z+]+:/*", "", _without_credentials(url)).rstrip("/")


def pins(src: Source) -> Fact:
    """Records of /etc/apt/preferences and preferences.d."""
    files = src.glob("/etc/apt/preferences.d/*")
    if not files.ok:
        return files
    found: List[Dict[str, Any]] = []
    for path in ["/etc/apt/preferences"] + files.value:
        if "." in path.rpartition("/")[2] and not path.endswith(".pref"):
            continue
        text = src.read(path)
        if text.state == "absent":
            continue
        if not text.ok:
            return text
        for stanza in re.split(r"\n\s*\n", text.value):
            fields = _fields(stanza)
            if "package" in fields and "pin" in fields:
                priority = fields.get("pin-priority", "")
                row = {"package": fields["package"], "pin": fields["pin"], "file": path}
                row["priority"] = int(priority) if re.match(r"-?\d+$", priority) else None
                found.append(row)
    return known(found, "/etc/apt/preferences.d")


# automatic upgrades ---------------------------------------------------------------------------------------------


def unattended(src: Source) -> Fact:
    """unattended-upgrades: whether it is on, what it may take and what it leaves alone."""
    names = installed(src)
    if names.ok and "unattended-upgrades" not in names.value:
        return known({"enabled": False, "tool": "unattended-upgrades"}, "dpkg-query")
    files = src.glob("/etc/apt/apt.conf.d/*")
    if not files.ok:
        return files
    text = ""
    for path in files.value + ["/etc/apt/apt.conf"]:
        if "." in path.rpartition("/")[2] and not path.endswith(".conf"):
            continue
        part = src.read(path)
        if part.state == "absent":
            continue
        if not part.ok:
            return part
        text += part.value + "\n"
    return known(parse_unattended(text), "/etc/apt/apt.conf.d")


def parse_unattended(text: str) -> Dict[str, Any]:
    """apt.conf text: the last setting wins, lists add up, `#clear` empties one."""
    bare = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    bare = re.sub(r"^\s*//.*$|^\s*#(?!clear).*$", "", bare, flags=re.M)
    switches = re.findall(r'APT::Periodic::Unattended-Upgrade\s+"?(\w+)"?\s*;', bare)
    enabled = bool(switches) and switches[-1].lower() not in ("0", "false", "no")
    return {
        "enabled": enabled,
        "tool": "unattended-upgrades",
        "excluded": _apt_list(bare, "Unattended-Upgrade::Package-Blacklist"),
        "origins": _apt_list(bare, "Unattended-Upgrade::Allowed-Origins")
        + _apt_list(bare, "Unattended-Upgrade::Origins-Pattern"),
    }


def _apt_list(text: str, name: str) -> List[str]:
    found: List[str] = []
    marker = r"(#clear\s+%s\s*;)|%s::\s*\"([^\"]*)\"|%s\s*\{((?:\"[^\"]*\"|[^\"}])*)\}" % (
        (re.escape(name),) * 3
    )
    for clear, single, block in re.findall(marker, text):
        if clear:
            found = []
        elif block:
            found += re.findall(r'^[^"/]*"([^"]*)"', block, re.M)
        elif single:
            found.append(single)
    return found


# what waits -----------------------------------------------------------------------------------------------------


def pending(src: Source) -> Fact:
    """Newer versions of installed packages in the lists that were fetched last; apt itself is not asked (it writes)."""
    names = installed(src)
    if not names.ok:
        return names
    lists = src.glob("/var/lib/apt/lists/*_Packages")
    if not lists.ok:
        return lists
    wanted = watched(names.value)
    if not wanted:
        return known([], "dpkg-query")
    if not lists.value:
        packed = src.glob("/var/lib/apt/lists/*_Packages.*")
        compressed = packed.ok and packed.value
        reason = (
            "the package lists are compressed" if compressed else "no package lists were fetched"
        )
        return unknown(reason, "/var/lib/apt/lists")
    done = src.run(pending_query(wanted, lists.value), ok=(0, 1), timeout=3.0)
    return done.map(
        lambda out: newer(parse_candidates(out.stdout), names.value), "/var/lib/apt/lists"
    )


def watched(names: Iterable[str]) -> List[str]:
    """Those of the installed packages whose waiting upgrade matters."""
    return sorted(name for name in names if _WATCHED.match(name))


def pending_query(names: List[str], lists: List[str]) -> List[str]:
    """One grep over the fetched lists for the stanzas of some packages."""
    argv = ["grep", "-A", "30", "-x", "-F"]
    for name in names:
        argv += ["-e", "Package: " + name]
    return argv + ["--"] + lists + ["/dev/null"]


def parse_candidates(text: str) -> List[Tuple[str, str, str]]:
    """(name, version, origin) of grep -A over package lists: "file:Package: x" then "file-Version: y"."""
    found = []
    name = ""
    for line in text.splitlines():
        head = re.match(r"(\S+?)[:-](Package|Version): (\S+)$", line)
        if not head:
            continue
        if head.group(2) == "Package":
            name = head.group(3)
        elif name:
            found.append((name, head.group(3), _origin(head.group(1))))
            name = ""
    return found


def _origin(path: str) -> str:
    return path.rpartition("/")[2].partition("_")[0]


def newer(candidates: Iterable[Tuple[str, str, str]], have: Dict[str, str]) -> List[Dict[str, Any]]:
    """The newest candidate above the installed version, per package."""
    best: Dict[str, Tuple[str, str]] = {}
    for name, version, origin in candidates:
        floor = best[name][0] if name in best else have.get(name)
        if floor is not None and deb_key(version) > deb_key(floor):
            best[name] = (version, origin)
    return [
        {"name": name, "installed": have[name], "candidate": version, "origin": origin}
        for name, (version, origin) in sorted(best.items())
    ]


def deb_key(version: str) -> Any:
    """A key that orders as dpkg --compare-versions: epoch, then runs of non-digits and digits, tilde first."""
    epoch, colon, rest = version.partition(":")
    if not colon:
        epoch, rest = "0", version
    upstream, _, revision = rest.rpartition("-") if "-" in rest else (rest, "", "")
    return (int(epoch) if epoch.isdigit() else 0, _part(upstream), _part(revision))


def _part(text: str) -> Any:
    key = []
    for word, number in re.findall(r"(\D*)(\d*)", text):
        if word or number:
            letters = tuple(
                -1 if sign == "~" else ord(sign) + (0 if sign.isalpha() else 256) for sign in word
            )
            key.append((letters + (0,), int(number or 0)))
    return tuple(key) + (((0,), 0),)
