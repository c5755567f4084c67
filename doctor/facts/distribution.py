"""The text of os-release -> which distribution this is, how its packages work and which NVIDIA repository is its own."""

from __future__ import annotations

from functools import lru_cache

import msgspec

FAMILIES = {
    "debian": "debian",
    "ubuntu": "debian",
    "linuxmint": "debian",
    "pop": "debian",
    "rhel": "rhel",
    "centos": "rhel",
    "rocky": "rhel",
    "almalinux": "rhel",
    "ol": "rhel",
    "fedora": "rhel",
    "amzn": "rhel",
    "azurelinux": "rhel",
    "sles": "suse",
    "suse": "suse",
    "opensuse": "suse",
    "arch": "arch",
}
"""ID or ID_LIKE -> family."""

_SHELL = (frozenset(" \t\r\"'\\$`#"), frozenset('"\\$`'))
"""What a shell reads otherwise than as it stands, outside and inside double quotes."""

ENTERPRISE = frozenset({"rhel", "centos", "rocky", "almalinux", "ol"})
"""Rebuilds of Red Hat Enterprise Linux: one repository and one set of rules per major release."""


class Distribution(msgspec.Struct, frozen=True, kw_only=True):
    """One release of a distribution."""

    id: str
    version: str
    """VERSION_ID, for example 24.04 or 9.6; empty on a rolling distribution."""
    major: str
    codename: str
    like: tuple[str, ...]
    family: str
    """debian, rhel, suse, arch or other."""
    pretty: str

    @property
    def is_enterprise(self) -> bool:
        """Whether this is RHEL or rebuilt from it."""
        return self.id in ENTERPRISE

    @property
    def repository(self) -> str:
        """The folder of NVIDIA's repositories that such a release would have: ubuntu2404, debian12, rhel9, fedora44, ..."""
        if self.is_enterprise:
            return f"rhel{self.major}"
        if self.id == "ubuntu":
            return "ubuntu" + self.version.replace(".", "")
        names = {"sles": "sles", "opensuse-leap": "opensuse", "azurelinux": "azl"}
        if self.id in ("sles", "opensuse-leap") and self.major == "16":
            return "suse16"
        return names.get(self.id, self.id) + self.major

    def matches(self, row_id: str, row_like: tuple[str, ...], row_version: str) -> bool:
        """Whether a row of the distributions table is this release: by its id or those that share it, and its version."""
        named = self.id == row_id or self.id in row_like
        return named and row_version in (self.version, self.major)


@lru_cache(maxsize=64)
def parse(os_release: str) -> Distribution:
    """Parse the text of /etc/os-release. ValueError when it names no distribution."""
    fields = _plain_fields(os_release)
    if fields is None:
        fields = _shell_fields(os_release)
    ident = fields.get("id", "").lower()
    if not ident:
        raise ValueError("os-release has no ID")
    like = tuple(fields.get("id_like", "").lower().split())
    version = fields.get("version_id", "")
    return Distribution(
        id=ident,
        version=version,
        major=version.partition(".")[0],
        codename=fields.get("version_codename") or fields.get("ubuntu_codename") or "",
        like=like,
        family=_family(ident, like),
        pretty=fields.get("pretty_name") or f"{fields.get('name', ident)} {version}".strip(),
    )


def _plain_fields(os_release: str) -> dict[str, str] | None:
    """Fields by name in lower case; None where it takes a shell's rules to read a line, which few distributions need."""
    fields: dict[str, str] = {}
    for line in os_release.split("\n"):
        line = line.strip(" \t\r")
        if not line or line.startswith("#"):
            continue
        name, equals, value = line.partition("=")
        quoted = len(value) > 1 and value[0] == value[-1] == '"'
        value = value[1:-1] if quoted else value
        if not equals or not name.isidentifier() or not _SHELL[quoted].isdisjoint(value):
            return None
        fields[name.lower()] = value
    return fields


def _shell_fields(os_release: str) -> dict[str, str]:
    """Fields as the `distro` package reads them; loading it takes longer than to judge the host."""
    from io import StringIO

    from distro import LinuxDistribution

    reader = LinuxDistribution(
        include_lsb=False, os_release_file="", distro_release_file="", include_uname=False
    )
    # the package reads files only; its parser of the text is the part that is wanted
    return reader._parse_os_release_content(StringIO(os_release))


def _family(ident: str, like: tuple[str, ...]) -> str:
    for name in (ident, ident.partition("-")[0], *like):
        if name in FAMILIES:
            return FAMILIES[name]
    return "other"
