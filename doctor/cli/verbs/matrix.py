"""`doctor matrix lint|show|why|refresh`: what is known, from where, and what has moved since."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from doctor.cli import console

if TYPE_CHECKING:
    from collections.abc import Iterator

    from doctor.matrix.matrix import Matrix
    from doctor.matrix.model import Row
    from doctor.matrix.refresh import Step

STALE_DAYS = 180
"""Age from which `lint` lists a row as stale; a vendor's tables change about twice a year."""

overlay_option = click.option(
    "--matrix",
    "overlays",
    multiple=True,
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="A site's own rows on top.",
)
json_option = click.option(
    "--format", "format_", type=click.Choice(["text", "json"]), default="text"
)


@click.group()
def matrix() -> None:
    """Look into the tables that every verdict cites."""


@matrix.command()
@overlay_option
@json_option
@click.option("--as-of", metavar="DATE", help="Judge staleness on that day.")
def lint(overlays: tuple[Path, ...], format_: str, as_of: str | None) -> int:
    """Check every table; count rows and list stale ones. Exit 2 on the first mistake."""
    from doctor.matrix.load import load

    loaded = load(overlays, use_cache=False)
    today = _day(as_of)
    counts = {name: len(loaded.table(name)) for name in loaded.names}
    stale = [
        (name, row)
        for name in loaded.names
        for row in loaded.table(name)
        if (today - row.as_of).days > STALE_DAYS
    ]
    if format_ == "json":
        _json(
            {
                "tables": counts,
                "rows": sum(counts.values()),
                "sources": len(loaded.sources),
                "waivers": len(loaded.waivers),
                "stale": [
                    {"table": name, "key": row.key, "as_of": row.as_of} for name, row in stale
                ],
            }
        )
        return 0
    width = max(map(len, counts))
    lines = [f"{name:<{width}}  {count:>5}" for name, count in counts.items()]
    lines.append(
        f"{'rows':<{width}}  {sum(counts.values()):>5}  from {len(loaded.sources)} sources"
    )
    lines += [f"stale  {name} {row.key}: as of {row.as_of}" for name, row in stale]
    console.data("\n".join(lines))
    return 0


@matrix.command()
@click.argument("table")
@click.argument("key", required=False)
@overlay_option
@json_option
def show(table: str, key: str | None, overlays: tuple[Path, ...], format_: str) -> int:
    """Print a table, or one row of it."""
    from doctor.matrix.load import load

    loaded = load(overlays)
    rows = _rows(loaded, table, key)
    if format_ == "json":
        _json([_plain(row) for row in rows])
        return 0
    from doctor.matrix.write import format_row, row_values

    console.data("".join(format_row(row_values(row)) for row in rows) or f"# {table} has no rows")
    return 0


@matrix.command()
@click.argument("keys", nargs=-1, required=True, metavar="[TABLE] KEY...")
@overlay_option
@json_option
def why(keys: tuple[str, ...], overlays: tuple[Path, ...], format_: str) -> int:
    """Say what rows claim, by which sources, and whose word it is."""
    from doctor.errors import UsageError
    from doctor.matrix.load import load
    from doctor.matrix.read import nearest

    loaded = load(overlays)
    tables: tuple[str, ...] = loaded.names
    if keys[0] in tables and len(keys) > 1:
        tables, keys = (keys[0],), keys[1:]
    found: list[tuple[str, Row]] = []
    for key in keys:
        rows = [(n, row) for n in tables if (row := loaded.index(n).get(key)) is not None]
        if not rows:
            known = {key for name in tables for key in loaded.index(name)}
            raise UsageError(f'no row is called "{key}"', _near(nearest(key, known)))
        found += rows
    if format_ == "json":
        _json([{"table": name, **_plain(row), "cited": _cited(loaded, row)} for name, row in found])
        return 0
    console.data("\n\n".join(_explain(loaded, name, row) for name, row in found))
    return 0


@matrix.command()
@click.option(
    "--from",
    "saved",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Use metadata saved in a folder instead of the network.",
)
@click.option("--index", "index_url", metavar="URL", help="A registry with the JSON simple API.")
@click.option("--write", is_flag=True, help="Change the files of this checkout as well.")
@click.option("--format", "format_", type=click.Choice(["patch", "text"]), default="patch")
def refresh(saved: Path | None, index_url: str | None, write: bool, format_: str) -> int:
    """Re-derive registry rows from package metadata and print the difference for review."""
    from doctor.matrix.load import load
    from doctor.matrix.refresh import check_patched, derive_changes, patched, unified
    from doctor.resources import matrices_dir

    folder = matrices_dir()
    loaded = load()
    with _registry(saved, index_url) as registry, _progress() as step:
        changes = derive_changes(loaded, registry, _day(None), step)
    files = patched(folder, changes)
    check_patched(folder, files)
    if format_ == "patch":
        said = unified(folder, files)
    else:
        said = "\n".join(f"{c.table} {c.key}: {_what(c)}" for c in changes)
    if said:
        console.data(said)
    if write:
        for path, (_, after) in files.items():
            console.data(after, path)
    console.talk(_summary(changes, write))
    return 0


def _what(change: Any) -> str:
    return "new" if change.old is None else ", ".join(change.columns)


def _summary(changes: list[Any], write: bool) -> str:
    new = sum(change.old is None for change in changes)
    said = f"{new} new, {len(changes) - new} changed rows"
    if not changes:
        return "the registry says what the matrix says"
    return f"{said}; written" if write else f"{said}; --write changes the files"


def _rows(loaded: Matrix, table: str, key: str | None) -> tuple[Row, ...]:
    from doctor.errors import UsageError
    from doctor.matrix.read import nearest

    if table not in loaded.names:
        raise UsageError(f'no table is called "{table}"', nearest(table, loaded.names))
    if key is None:
        return loaded.table(table)
    row = loaded.index(table).get(key)
    if row is None:
        raise UsageError(f'{table} has no row "{key}"', _near(nearest(key, loaded.index(table))))
    return (row,)


def _near(hint: str) -> str:
    return hint if hint.startswith("did") else "doctor matrix show TABLE lists what there is"


def _plain(row: Row) -> dict[str, Any]:
    import msgspec

    plain: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(row, enc_hook=str))
    return plain


def _cited(loaded: Matrix, row: Row) -> list[dict[str, str]]:
    return [
        {
            "id": ident,
            "title": (source := loaded.sources[ident]).title,
            "publisher": source.publisher,
            "url": source.link,
            "retrieved": str(source.retrieved),
        }
        for ident in row.sources
    ]


def _explain(loaded: Matrix, table: str, row: Row) -> str:
    from doctor.matrix.write import row_values, scalar

    values = row_values(row)
    cited = ("sources", "as_of", "basis")
    lines = [f"{table} {row.key}"]
    lines += [f"  {name}: {scalar(value)}" for name, value in values.items() if name not in cited]
    lines.append(f"  {_BASIS[row.basis]}, as of {row.as_of}, {row.layer} layer, {row.origin}")
    for item in _cited(loaded, row):
        lines.append(f"  {item['title']} ({item['publisher']}, retrieved {item['retrieved']})")
        lines.append(f"    {item['url']}")
    return "\n".join(lines)


_BASIS = {
    "stated": "stated by its publisher",
    "derived": "derived from registry metadata",
    "measured": "measured",
    "field": "reported from the field",
}


def _registry(saved: Path | None, index_url: str | None) -> Any:
    from contextlib import contextmanager, nullcontext

    from doctor.matrix import registry

    if saved is not None:
        return nullcontext(registry.SavedRegistry(saved))

    @contextmanager
    def over_http() -> Iterator[registry.HttpRegistry]:
        import httpx

        with httpx.Client(timeout=registry.TIMEOUT_S) as client:
            yield registry.HttpRegistry(client, index_url or registry.INDEX)

    return over_http()


def _progress() -> Any:
    from contextlib import contextmanager

    @contextmanager
    def bar() -> Iterator[Step]:
        from rich.console import Console
        from rich.progress import Progress

        console_ = Console(stderr=True)
        quiet = not console_.is_terminal
        with Progress(console=console_, transient=True, disable=quiet) as progress:
            tasks: dict[str, Any] = {}

            def step(what: str, done: int, of: int) -> None:
                if what not in tasks:
                    tasks[what] = progress.add_task(what, total=of)
                progress.update(tasks[what], completed=done, total=of)

            yield step

    return bar()


def _day(text: str | None) -> datetime.date:
    from doctor.errors import UsageError

    if text is None:
        return datetime.datetime.now(tz=datetime.timezone.utc).date()
    try:
        return datetime.date.fromisoformat(text)
    except ValueError:
        raise UsageError(f'"{text}" is not a day', "write it as 2026-11-30") from None


def _json(value: Any) -> None:
    import msgspec

    encoded = msgspec.json.encode(value, enc_hook=str)
    console.data(msgspec.json.format(encoded, indent=2).decode())
