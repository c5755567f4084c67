"""rpm and dnf, read: one query of the database, configuration as files. dnf itself is never asked: it is slow and writes."""

import re
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Tuple

from doctor.probes.fact import Fact, absent, known, unknown
from doctor.probes.pattern import regex
from doctor.probes.source import Completed, Source

if TYPE_CHECKING:
    from configparser import RawConfigParser

PATTERNS = (
    "*nvidia*",
    "cuda*",
    "libnccl*",
    "libcudnn*",
    "cudnn*",
    "libnvidia*",
    "nvlsm*",
    "datacenter-gpu-manager*",
    "tensorrt*",
    "libnvinfer*",
    "dkms",
    "kernel*",
    "gcc",
    "docker*",
    "moby*",
    "containerd*",
    "podman",
    "crun",
    "runc",
    "epel-release",
    "dnf-automatic",
    "dnf5-plugin-automatic",
    "mokutil",
    "gpg-pubkey",
    "doca-ofed*",
    "mlnx-ofed*",
)
"""Packages that decide about GPUs, kernels and containers, and the imported keys."""
QUERY = [
    "rpm",
    "-qa",
    "--qf",
    "%{NAME}\t%|EPOCH?{%{EPOCH}:}|%{VERSION}-%{RELEASE}\t%{INSTALLTIME}\t%{VENDOR}\n",
] + list(PATTERNS)
_DRIVER = regex(
    r"^(nvidia-(driver|open|kmod|fabric)|kmod-nvidia|cuda-drivers|xorg-x11-drv-nvidia|akmod-nvidia)"
)


def rows(src: Source) -> Fact:
    """[(name, version, install time)] of the packages of interest."""
    return src.run(QUERY, ok=(0,)).map(parse_rows, "rpm -qa")


def parse_rows(done: Completed) -> List[Tuple[str, str, int]]:
    """Lines "name <tab> [epoch:]version-release <tab> install time <tab> vendor"."""
    found = []
    for line in filter(None, done.stdout.splitlines()):
        parts = line.split("\t")
        if len(parts) < 3:
            raise ValueError("not an rpm line: %r" % line[:80])
        found.append((parts[0], parts[1], int(parts[2]) if parts[2].isdigit() else 0))
    return found


def installed(src: Source) -> Fact:
    """name -> version; of a package that is there several times, as kernels are, the one installed last."""
    return rows(src).map(
        lambda found: {
            name: version
            for name, version, _ in sorted(found, key=lambda row: row[2])
            if name != "gpg-pubkey"
        }
    )


def keys(src: Source) -> Fact:
    """{"rpm": [short ids of imported keys, lower case]}."""
    return rows(src).map(
        lambda found: {
            "rpm": sorted(
                version.partition("-")[0] for name, version, _ in found if name == "gpg-pubkey"
            )
        }
    )


def last_upgrade(src: Source) -> Fact:
    """When the newest driver package was installed."""

    def newest(found: List[Tuple[str, str, int]]) -> Any:
        times = [when for name, _, when in found if _DRIVER.match(name) and when]
        return max(times) if times else absent("rpm -qa")

    return rows(src).map(newest)


def parse_ini(text: str) -> "RawConfigParser":
    """dnf's ini files: no interpolation, indented lines continue, a repeated option is taken last."""
    import configparser  # slow to load, and a host of another family has none of these files

    parser = configparser.RawConfigParser(
        strict=False, delimiters=("=",), comment_prefixes=("#", ";")
    )
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise ValueError(str(error).splitlines()[0]) from error
    return parser


def repositories(src: Source) -> Fact:
    """Every repository of yum.repos.d and zypp's repos.d."""
    files = src.glob("/etc/yum.repos.d/*.repo")
    more = src.glob("/etc/zypp/repos.d/*.repo")
    if not files.ok or not more.ok:
        return more if files.ok else files
    checked = _main_gpgcheck(src)
    found: List[Dict[str, Any]] = []
    for path in files.value + more.value:
        text = src.read(path)
        if not text.ok:
            return unknown(text.reason or "gone", path)
        try:
            found += [dict(row, file=path) for row in parse_repositories(text.value, checked)]
        except ValueError as error:
            return unknown(str(error), path)
    return known(found, "/etc/yum.repos.d")


def _main_gpgcheck(src: Source) -> Optional[bool]:
    main = src.read("/etc/dnf/dnf.conf").map(parse_ini)
    if main.ok and main.value.has_option("main", "gpgcheck"):
        return _true(main.value.get("main", "gpgcheck"))
    return None


def parse_repositories(text: str, checked: Optional[bool] = None) -> List[Dict[str, Any]]:
    """Sections of a .repo file. `checked` is what dnf.conf says of gpgcheck for those that do not."""
    parser = parse_ini(text)
    found = []
    for name in parser.sections():
        section = dict(parser.items(name))
        url = section.get("baseurl") or section.get("metalink") or section.get("mirrorlist") or ""
        signed = _true(section["gpgcheck"]) if "gpgcheck" in section else checked
        if _true(section.get("repo_gpgcheck", "0")):
            # the signed list has the digest of every package: NVIDIA signs its container repository in this way alone
            signed = True
        hotfixes = section.get("module_hotfixes")
        found.append(
            {
                "id": name,
                "url": re.sub(r"//[^/@]*@", "//", url.split()[0] if url.split() else ""),
                "enabled": _true(section.get("enabled", "1")),
                "signed": signed,
                "key": section.get("gpgkey", "").split()[0]
                if section.get("gpgkey", "").split()
                else None,
                "module_hotfixes": None if hotfixes is None else _true(hotfixes),
                "excludes": (section.get("exclude", "") + " " + section.get("excludepkgs", ""))
                .replace(",", " ")
                .split(),
            }
        )
    return found


def _true(text: str) -> bool:
    return text.strip().lower() in ("1", "yes", "true", "on")


def holds(src: Source) -> Fact:
    """Entries of versionlock and excludes of dnf.conf."""
    found: List[str] = []
    for path, parse in (
        ("/etc/dnf/plugins/versionlock.list", parse_versionlock),
        ("/etc/yum/pluginconf.d/versionlock.list", parse_versionlock),
        ("/etc/dnf/versionlock.toml", parse_versionlock_toml),
        ("/etc/dnf/dnf.conf", parse_excludes),
    ):
        fact = src.read(path).map(parse)
        if fact.ok:
            found += fact.value
        elif fact.state != "absent":
            return fact
    return known(
        sorted(set(found)),
        "/etc/dnf/plugins/versionlock.list, /etc/dnf/versionlock.toml, /etc/dnf/dnf.conf",
    )


def parse_versionlock(text: str) -> List[str]:
    """One pattern a line; `!` marks an exclusion, which does not lock."""
    lines = [line.split("#", 1)[0].strip() for line in text.splitlines()]
    return [line for line in lines if line and not line.startswith("!")]


def parse_versionlock_toml(text: str) -> List[str]:
    """dnf5: name = "..." of every [[packages]]."""
    return re.findall(r'^\s*name\s*=\s*"([^"]+)"', text, re.M)


def parse_excludes(text: str) -> List[str]:
    """exclude= and excludepkgs= of [main]."""
    parser = parse_ini(text)
    found: List[str] = []
    for option in ("exclude", "excludepkgs"):
        if parser.has_option("main", option):
            found += parser.get("main", option).replace(",", " ").split()
    return found


def modules(src: Source) -> Fact:
    """Enabled module streams: name -> stream."""
    files = src.glob("/etc/dnf/modules.d/*.module")
    if not files.ok:
        return files
    found: Dict[str, str] = {}
    for path in files.value:
        fact = src.read(path).map(parse_modules)
        if not fact.ok:
            return unknown(fact.reason or "gone", path)
        found.update(fact.value)
    return known(found, "/etc/dnf/modules.d")


def parse_modules(text: str) -> Dict[str, str]:
    """Sections with state=enabled."""
    parser = parse_ini(text)
    return {
        name: parser.get(name, "stream", fallback="")
        for name in parser.sections()
        if parser.get(name, "state", fallback="") == "enabled"
    }


def unattended(src: Source) -> Fact:
    """dnf-automatic: a timer that is enabled and installs."""
    timers = src.glob("/etc/systemd/system/timers.target.wants/dnf*automatic*.timer")
    if not timers.ok:
        return timers
    names = [path.rpartition("/")[2] for path in timers.value]
    excluded = src.read("/etc/dnf/dnf.conf").map(parse_excludes)
    if excluded.state == "unknown":
        return excluded
    row: Dict[str, Any] = {
        "tool": "dnf-automatic",
        "enabled": False,
        "excluded": excluded.value or [],
    }
    if not names:
        return known(row, "/etc/systemd/system/timers.target.wants")
    if any("install" in name for name in names):
        return known(dict(row, enabled=True), timers.via)
    for path in ("/etc/dnf/automatic.conf", "/etc/dnf/dnf5-plugins/automatic.conf"):
        fact = src.read(path).map(parse_ini)
        if fact.ok:
            return known(
                dict(
                    row, enabled=_true(fact.value.get("commands", "apply_updates", fallback="no"))
                ),
                path,
            )
        if fact.state != "absent":
            return fact
    return known(row, timers.via)
