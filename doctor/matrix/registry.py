"""A package registry's metadata: asked over HTTPS, or read from a folder where it was saved.

Never a wheel: the index lists files, PEP 658 serves a wheel's METADATA beside it, and where that is
missing a few range requests read it out of the archive.
"""

from __future__ import annotations

import io
import re
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urljoin

import msgspec

from doctor.errors import DoctorError

if TYPE_CHECKING:
    import httpx

INDEX = "https://pypi.org/simple/"
ACCEPT = {"Accept": "application/vnd.pypi.simple.v1+json"}
TIMEOUT_S = 60.0
TAIL_BYTES = 256 * 1024
"""How much of a wheel's end is asked for first: its directory and, mostly, its METADATA."""

_WHEEL = re.compile(
    r"(?P<name>[^-]+)-(?P<version>[^-]+)(?:-(?P<build>\d[^-]*))?"
    r"-(?P<python>[^-]+)-(?P<abi>[^-]+)-(?P<platform>[^-]+)\.whl"
)


class IndexFile(msgspec.Struct, frozen=True, rename="kebab"):
    """One file of a package in the index."""

    filename: str
    url: str = ""
    requires_python: str | None = None
    yanked: bool | str = False
    core_metadata: bool | dict[str, str] = False

    @property
    def wheel(self) -> re.Match[str] | None:
        """The parts of a wheel's name, or None for another kind of file."""
        return _WHEEL.fullmatch(self.filename)

    @property
    def version(self) -> str | None:
        """The version that the file's name carries."""
        if match := self.wheel:
            return match["version"]
        match = re.fullmatch(r".+-(\d[^-]*)\.tar\.gz", self.filename)
        return match[1] if match else None


class Index(msgspec.Struct, frozen=True):
    """What the index says of one package."""

    files: tuple[IndexFile, ...]

    def wheels(self, version: str | None = None) -> list[IndexFile]:
        """The wheels for Linux x86-64 that are not withdrawn, of one version if asked."""
        return [
            file
            for file in self.files
            if (match := file.wheel)
            and "x86_64" in match["platform"]
            and "linux" in match["platform"]
            and not file.yanked
            and version in (None, match["version"])
        ]


class Registry(Protocol):
    """Where package metadata comes from."""

    def index(self, package: str) -> Index:
        """What files a package has."""

    def metadata(self, package: str, file: IndexFile) -> bytes:
        """The METADATA of one wheel."""


class SavedRegistry:
    """Metadata saved in a folder: <package>/index.json and <package>/<wheel>.metadata."""

    def __init__(self, folder: Path) -> None:
        if not folder.is_dir():
            raise DoctorError(f"{folder} is not a folder of saved metadata", "name one with --from")
        self.folder = folder

    def index(self, package: str) -> Index:
        """What files a package had; none for a package that was not saved."""
        path = self.folder / package / "index.json"
        return _index(path.read_bytes(), str(path)) if path.is_file() else Index(())

    def metadata(self, package: str, file: IndexFile) -> bytes:
        """The METADATA that was saved for a wheel."""
        path = self.folder / package / f"{file.filename}.metadata"
        try:
            return path.read_bytes()
        except OSError:
            raise DoctorError(f"{path} was not saved", "save the wheel's METADATA there") from None


class HttpRegistry:
    """A registry with the JSON simple API, such as PyPI."""

    def __init__(self, client: httpx.Client, index_url: str = INDEX) -> None:
        self.client = client
        self.index_url = index_url.rstrip("/") + "/"

    def index(self, package: str) -> Index:
        """What files a package has; addresses are made absolute."""
        url = urljoin(self.index_url, f"{package}/")
        found = _index(self._get(url, ACCEPT).content, url)
        return Index(
            tuple(msgspec.structs.replace(f, url=urljoin(url, f.url)) for f in found.files)
        )

    def metadata(self, package: str, file: IndexFile) -> bytes:
        """The METADATA beside a wheel, or the one inside it by range requests."""
        if file.core_metadata:
            return self._get(f"{file.url}.metadata").content
        with zipfile.ZipFile(io.BufferedReader(_Ranged(self, file.url), 64 * 1024)) as archive:
            name = next(n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
            return archive.read(name)

    def _get(self, url: str, headers: dict[str, str] | None = None) -> httpx.Response:
        import httpx

        try:
            response = self.client.get(url, headers=headers, follow_redirects=True)
            response.raise_for_status()
        except httpx.HTTPError as error:
            raise DoctorError(
                f"{url}: {str(error) or type(error).__name__}", "without network, use --from DIR"
            ) from None
        return response

    def part(self, url: str, start: int, end: int | None) -> tuple[bytes, int]:
        """Bytes of a file and its whole length; a negative start counts from the end."""
        span = f"bytes={start}" if start < 0 else f"bytes={start}-{'' if end is None else end - 1}"
        response = self._get(url, {"Range": span})
        if response.status_code != 206:
            raise DoctorError(f"{url} does not serve ranges", "save its METADATA and use --from")
        total = response.headers["content-range"].rpartition("/")[2]
        return response.content, int(total)


class _Ranged(io.RawIOBase):
    """A remote file that reads what is asked of it; its end is fetched once."""

    def __init__(self, registry: HttpRegistry, url: str) -> None:
        self.registry = registry
        self.url = url
        self.tail, self.size = registry.part(url, -TAIL_BYTES, None)
        self.place = 0

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self.place, io.SEEK_END: self.size}[whence]
        self.place = base + offset
        return self.place

    def readinto(self, buffer: Any) -> int:
        start, end = self.place, min(self.size, self.place + len(buffer))
        if start >= end:
            return 0
        tail_at = self.size - len(self.tail)
        if start >= tail_at:
            data = self.tail[start - tail_at : end - tail_at]
        else:
            data, _ = self.registry.part(self.url, start, end)
        buffer[: len(data)] = data
        self.place = start + len(data)
        return len(data)


def _index(content: bytes, where: str) -> Index:
    try:
        return msgspec.json.decode(content, type=Index)
    except msgspec.DecodeError as error:
        raise DoctorError(
            f"{where} is not a package index: {error}", "use an index with the JSON simple API"
        ) from None
