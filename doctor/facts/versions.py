"""Named version types, each with the total order of the world it comes from.

A driver, a CUDA release, a kernel, a Debian package, an RPM package, a glibc and a Python
distribution are all "versions", and comparing one with another's rules, or two kinds with each
other, is how wrong verdicts are made. Comparing different kinds therefore raises `TypeError`.
`str()` gives the text that was read, never a normal form.

The constructor does not look at the text; `parse` does. The matrix constructs what it validated
when it was built, so parsing happens only for versions that are compared.

Nothing here may import more than the standard library at import time: every command pays for it.
"""

from __future__ import annotations

import re
from functools import cached_property, lru_cache, total_ordering
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from packaging.specifiers import SpecifierSet
    from packaging.version import Version as PackagingVersion
    from typing_extensions import Self


@total_ordering
class Version:
    """A version's raw text, ordered by `key`. Abstract: each named kind supplies `_key_of`."""

    kind: ClassVar[str] = "version"
    example: ClassVar[str] = "1.0"

    def __init__(self, raw: str) -> None:
        """Keep the text as it is; `parse` is the constructor for text nobody has validated."""
        self.raw = raw

    @classmethod
    def parse(cls, text: str) -> Self:
        """The version, or `ValueError` with a sentence that names the text and a right one."""
        version = cls(text.strip())
        _ = version.key  # raises where the text is no version
        return version

    @classmethod
    def maybe(cls, text: str) -> Self | None:
        """The version, or None where the text is not one."""
        try:
            return cls.parse(text)
        except ValueError:
            return None

    @classmethod
    def _key_of(cls, raw: str) -> Any:
        raise NotImplementedError

    @classmethod
    def _refuse(cls, raw: str) -> ValueError:
        return ValueError(f'"{raw}" is not a {cls.kind}; an example is "{cls.example}"')

    @cached_property
    def key(self) -> Any:
        """What the order compares; equal keys are equal versions even where the texts differ."""
        return self._key_of(self.raw)

    def __str__(self) -> str:
        return self.raw

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.raw!r})"

    def __hash__(self) -> int:
        return hash((type(self).__name__, self.key))

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return bool(self.key == other.key)

    def __lt__(self, other: Any) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return bool(self.key < other.key)


def _numbers(parts: str) -> tuple[int, ...]:
    """Dotted numbers without trailing zeros, so that "13.0" and "13.0.0" are one version."""
    numbers = [int(part) for part in parts.split(".")]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


class DottedVersion(Version):
    """Dotted decimal numbers; trailing zeros do not count. Abstract."""

    pattern: ClassVar[re.Pattern[str]] = re.compile(r"\d+(?:\.\d+)*", re.ASCII)

    @classmethod
    def _key_of(cls, raw: str) -> tuple[int, ...]:
        if not cls.pattern.fullmatch(raw):
            raise cls._refuse(raw)
        return _numbers(raw)


class DriverVersion(DottedVersion):
    """An NVIDIA driver version such as 580.95.05 or 576.57 (Windows)."""

    kind = "driver version"
    example = "580.95.05"
    pattern = re.compile(r"\d{3,}(?:\.\d+){0,3}", re.ASCII)

    @property
    def branch(self) -> int:
        """The branch the driver belongs to: 580 of 580.95.05."""
        return int(self.raw.partition(".")[0])


class DriverBranch(Version):
    """A driver branch, "580" or "R580"; both texts name the same branch."""

    kind = "driver branch"
    example = "580"

    @classmethod
    def _key_of(cls, raw: str) -> int:
        if not re.fullmatch(r"[Rr]?\d{3,}", raw, re.ASCII):
            raise cls._refuse(raw)
        return int(raw.lstrip("Rr"))

    @property
    def number(self) -> int:
        """The branch as a number, comparable with `DriverVersion.branch`."""
        return int(self.key)


class CudaVersion(DottedVersion):
    """A CUDA toolkit or driver-API level such as 13.0 or 12.6.3."""

    kind = "CUDA version"
    example = "13.0"
    pattern = re.compile(r"\d{1,2}\.\d+(?:\.\d+){0,2}", re.ASCII)

    @property
    def major(self) -> int:
        """12 of 12.6.3: minor-version compatibility holds inside one major."""
        return int(self.raw.split(".")[0])

    @property
    def minor(self) -> int:
        """6 of 12.6.3."""
        return int(self.raw.split(".")[1])

    @property
    def release(self) -> CudaVersion:
        """The release without its update number: 12.6 of 12.6.3."""
        return CudaVersion(".".join(self.raw.split(".")[:2]))

    @classmethod
    def from_driver_api(cls, number: int) -> CudaVersion:
        """What cuDriverGetVersion means: 13000 is 13.0, 12040 is 12.4."""
        return cls(f"{number // 1000}.{number % 1000 // 10}")


class ComputeCapability(DottedVersion):
    """A compute capability such as 9.0 or 12.1."""

    kind = "compute capability"
    example = "9.0"
    pattern = re.compile(r"\d{1,2}\.\d", re.ASCII)

    @property
    def sm(self) -> str:
        """The compiler's name of it: sm_90 of 9.0."""
        return "sm_" + self.raw.replace(".", "")


class GlibcVersion(DottedVersion):
    """A glibc version such as 2.39."""

    kind = "glibc version"
    example = "2.39"
    pattern = re.compile(r"\d+\.\d+(?:\.\d+)?", re.ASCII)


_KERNEL = re.compile(r"(\d+(?:\.\d+){1,3})(.*)", re.DOTALL)
_CHUNK = re.compile(r"(\d+)|([^\d]+)", re.ASCII)


class KernelRelease(Version):
    """A kernel's `uname -r`, such as 6.8.0-45-generic: numbers, then the rest by chunks."""

    kind = "kernel release"
    example = "6.8.0-45-generic"

    @classmethod
    def _key_of(cls, raw: str) -> Any:
        match = _KERNEL.fullmatch(raw)
        if not match or any(c.isspace() or c == "/" for c in raw) or not raw.isascii():
            raise cls._refuse(raw)
        return _numbers(match[1]), tuple(_chunks(match[2]))

    @property
    def upstream(self) -> str:
        """The version of the kernel itself: 6.8.0 of 6.8.0-45-generic."""
        match = _KERNEL.fullmatch(self.raw)
        return match[1] if match else self.raw


def _chunks(text: str) -> Iterator[tuple[int, int, str]]:
    """Chunks in kernel order: "-rc" is below no suffix at all, numbers are above words."""
    release_candidate = text.startswith("-rc")
    yield (0, 0, "") if release_candidate else (1, 0, "")
    for number, word in _CHUNK.findall(text):
        yield (3, int(number), "") if number else (2, 0, word)


def _debian_part(text: str) -> tuple[tuple[tuple[int, ...], int], ...]:
    """One upstream or revision part as dpkg's verrevcmp walks it: non-digits, digits, ...

    `~` sorts before the end of a part, letters before everything else; so characters map to
    -1 for `~`, 0 for the end, their code for letters and their code + 256 for the rest.
    """
    key: list[tuple[tuple[int, ...], int]] = []
    rest = text
    while rest:
        match = re.match(r"(\D*)(\d*)", rest, re.ASCII)
        if match is None:  # pragma: no cover - the pattern matches every text
            break
        rest = rest[match.end() :]
        order = tuple(-1 if c == "~" else ord(c) if c.isalpha() else ord(c) + 256 for c in match[1])
        key.append(((*order, 0), int(match[2] or 0)))
    # dpkg reads an exhausted part as an endless run of "end, 0".
    while key and key[-1] == ((0,), 0):
        key.pop()
    return (*key, ((0,), 0))


_DEB = re.compile(r"(?:(\d+):)?([0-9A-Za-z.+:~-]*?)(?:-([0-9A-Za-z.+~]+))?", re.ASCII)


class DebVersion(Version):
    """A Debian package version, in dpkg's order: epoch, upstream with `~`, revision."""

    kind = "Debian package version"
    example = "1:24.0.7-0ubuntu2~22.04.1"

    @classmethod
    def _key_of(cls, raw: str) -> Any:
        match = _DEB.fullmatch(raw)
        if not match or not match[2]:
            raise cls._refuse(raw)
        return int(match[1] or 0), _debian_part(match[2]), _debian_part(match[3] or "0")

    @property
    def upstream(self) -> str:
        """The version without epoch and Debian revision: 24.0.7 of 1:24.0.7-0ubuntu2."""
        match = _DEB.fullmatch(self.raw)
        return match[2] if match else self.raw


_RPM_SEGMENT = re.compile(r"~|\^|\d+|[A-Za-z]+", re.ASCII)


def _rpm_part(text: str) -> tuple[tuple[int, int, str], ...]:
    """One version or release as rpmvercmp walks it, segment by segment.

    Rank at each place: `~` below the end of the text, the end below `^`, `^` below letters,
    letters below numbers.
    """
    key: list[tuple[int, int, str]] = []
    for segment in _RPM_SEGMENT.findall(text):
        if segment == "~":
            key.append((0, 0, ""))
        elif segment == "^":
            key.append((2, 0, ""))
        elif segment.isdigit():
            key.append((4, int(segment), ""))
        else:
            key.append((3, 0, segment))
    return (*key, (1, 0, ""))


_RPM = re.compile(r"(?:(\d+):)?([^\s:-]+)(?:-([^\s:-]+))?", re.ASCII)


class RpmVersion(Version):
    """An RPM epoch:version-release, in rpmvercmp's order with `~` and `^`."""

    kind = "RPM package version"
    example = "3:580.95.05-1.el9"

    @classmethod
    def _key_of(cls, raw: str) -> Any:
        match = _RPM.fullmatch(raw)
        if not match or not raw.isascii():
            raise cls._refuse(raw)
        return int(match[1] or 0), _rpm_part(match[2]), _rpm_part(match[3] or "")

    @property
    def upstream(self) -> str:
        """The version without epoch and release: 580.95.05 of 3:580.95.05-1.el9."""
        match = _RPM.fullmatch(self.raw)
        return match[2] if match else self.raw


class Pep440Version(Version):
    """A Python distribution's version, ordered by `packaging`, "+cu128" included."""

    kind = "PEP 440 version"
    example = "2.11.0+cu130"

    @classmethod
    def _key_of(cls, raw: str) -> PackagingVersion:
        from packaging.version import InvalidVersion
        from packaging.version import Version as Packaging

        try:
            return Packaging(raw)
        except InvalidVersion:
            raise cls._refuse(raw) from None

    @property
    def public(self) -> Pep440Version:
        """The version without its local label: 2.11.0 of 2.11.0+cu130."""
        return Pep440Version(self.raw.partition("+")[0])

    @property
    def local(self) -> str:
        """The local label, cu130 of 2.11.0+cu130, or an empty text."""
        return self.raw.partition("+")[2]

    @property
    def is_prerelease(self) -> bool:
        """Whether an ordinary specifier should pass it over."""
        return bool(self.key.is_prerelease)

    def satisfies(self, specifier: str, *, prereleases: bool = True) -> bool:
        """Whether the version lies in a range such as ">=1.2,<1.3"; an empty text admits all."""
        return Specifier(specifier).contains(self, prereleases=prereleases)


@lru_cache(4096)
def specifier_set(text: str) -> SpecifierSet:
    """The `packaging` specifier set of a text, or `ValueError`; parsed once per text."""
    from packaging.specifiers import InvalidSpecifier, SpecifierSet

    try:
        return SpecifierSet(text)
    except InvalidSpecifier:
        raise ValueError(f'"{text}" is not a version range; an example is ">=1.2,<1.3"') from None


class Specifier:
    """A range as PEP 440 writes it, such as ">=1.2,<1.3"; an empty text admits all."""

    kind: ClassVar[str] = "version range"
    example: ClassVar[str] = ">=1.2,<1.3"

    def __init__(self, raw: str) -> None:
        """Keep the text as it is; `parse` is the constructor for text nobody has validated."""
        self.raw = raw

    @classmethod
    def parse(cls, text: str) -> Specifier:
        """The range, or `ValueError` with one sentence."""
        specifier_set(text)
        return cls(text)

    def contains(self, version: Pep440Version | str, *, prereleases: bool = True) -> bool:
        """Whether a version lies in the range; a local label (+cu128) does not take it out."""
        key = (
            version.key if isinstance(version, Pep440Version) else Pep440Version.parse(version).key
        )
        return bool(specifier_set(self.raw).contains(key, prereleases=prereleases))

    @property
    def exact(self) -> Pep440Version | None:
        """The one version of "==2.18.1", or None where the range is wider."""
        text = self.raw
        return (
            Pep440Version(text[2:])
            if text.startswith("==") and "," not in text and "*" not in text
            else None
        )

    def __str__(self) -> str:
        return self.raw

    def __repr__(self) -> str:
        return f"Specifier({self.raw!r})"

    def __hash__(self) -> int:
        return hash(self.raw)

    def __eq__(self, other: object) -> bool:
        return self.raw == other.raw if isinstance(other, Specifier) else NotImplemented
