"""What every matrix row has: its sources, its date, how it is known, where it was read.

A row without a source cannot be made. Tables hold no logic; a row's methods only answer about the
row itself. In files of row types annotations are not postponed: msgspec would evaluate each string
in every run.
"""

import datetime
from typing import ClassVar, Literal

import msgspec

Basis = Literal["stated", "derived", "measured", "field"]
"""The vendor states it; registry metadata implies it; a host showed it; the field reports it."""

Layer = Literal["vendor", "registry", "field", "site"]
"""Who a row speaks for. A later layer adds to an earlier one, never against the vendor's."""

LAYER_OF: dict[str, Layer] = {
    "stated": "vendor",
    "derived": "registry",
    "measured": "field",
    "field": "field",
}

CITATION_FIELDS = frozenset({"sources", "as_of", "basis", "note", "layer", "origin"})
"""Fields that say how a row is known, not what it claims: two rows that differ only here agree."""


class Row(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """One row: a key, what is claimed of it, and who says so.

    `layer` and `origin` ("gpus.yml:12") are filled in by the loader and refused in a file.
    """

    KEY: ClassVar[tuple[str, ...]] = ()
    """The fields that name the row; unique in its table."""

    RANGE: ClassVar[tuple[str, ...]] = ()
    """The field with a version specifier, or the pair of fields with the first and the last
    version. Rows alike in the rest of their key must not overlap with different claims."""

    SITE_MAY_ADD: ClassVar[bool] = True
    """Whether an overlay may add rows. False for repositories, keys and anything that is run."""

    SITE_MAY_NOT_SET: ClassVar[frozenset[str]] = frozenset()
    """Fields that an overlay's row must leave alone: commands and addresses."""

    sources: tuple[str, ...]
    as_of: datetime.date
    basis: Basis
    note: str | None = None
    layer: Layer = "vendor"
    origin: str = ""

    def __hash__(self) -> int:
        """By key, for columns may hold what cannot be hashed; equal rows have equal keys."""
        return hash((self.key, self.origin))

    @property
    def key(self) -> str:
        """The key as `doctor matrix show TABLE KEY` takes it; several fields are joined by "/"."""
        return "/".join(
            str(value) for name in self.KEY if (value := getattr(self, name)) is not None
        )

    def claims(self) -> dict[str, object]:
        """What the row says, without how it is known."""
        return {
            name: getattr(self, name)
            for name in self.__struct_fields__
            if name not in CITATION_FIELDS
        }


class Source(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Where rows come from: a page, a place in a public repository, or a package's registry
    metadata.

    A `path` without `repo` is a file of this repository, for what was measured here.
    """

    title: str
    publisher: str
    retrieved: datetime.date
    url: str | None = None
    repo: str | None = None
    path: str | None = None
    commit: str | None = None
    issue: int | None = None
    package: str | None = None
    note: str | None = None

    @property
    def link(self) -> str:
        """An address a person can open."""
        if self.url:
            return self.url
        if self.repo:
            base = f"https://github.com/{self.repo}"
            return (
                f"{base}/blob/{self.commit or 'HEAD'}/{self.path}"
                if self.path
                else f"{base}/issues/{self.issue}"
            )
        return f"https://pypi.org/project/{self.package}/" if self.package else str(self.path)

    @property
    def is_citable(self) -> bool:
        """Whether somebody else could look it up."""
        in_repository = bool(self.path or (self.repo and self.issue))
        return (
            bool(self.url and self.url.startswith("https://"))
            or in_repository
            or bool(self.package)
        )


class Waiver(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A site's decision to live with one finding until a day."""

    id: str
    reason: str
    owner: str
    expires: datetime.date
    hosts: list[str] = []
    """Globs over inventory names and groups, or over the name of the one host that is checked; empty: all."""


class Statement(Row, frozen=True, kw_only=True):
    """A sentence with a source, for rules that are text and not a table's column.

    The optional columns carry what a check needs from the sentence, so that no check repeats a
    number.
    """

    KEY: ClassVar = ("id",)
    SITE_MAY_NOT_SET: ClassVar = frozenset({"workaround"})

    id: str
    rule: str
    versions: str | None = None
    minimum: str | None = None
    values: dict[str, str] = {}
    error: int | None = None
    error_name: str | None = None
    message: str | None = None
    env: str | None = None
    file: str | None = None
    setting: str | None = None
    names: tuple[str, ...] = ()
    platforms: tuple[str, ...] = ()
    workaround: str | None = None
