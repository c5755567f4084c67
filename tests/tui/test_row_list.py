"""The cursor of a list: on the first row until a person leads it, then on its row, whatever comes and goes around it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from textual.app import App, ComposeResult
from textual.pilot import Pilot

from doctor.tui.row import Row, keep
from doctor.tui.widgets.row_list import RowList


class Listing(App[None]):
    def compose(self) -> ComposeResult:
        yield RowList(id="rows")


def rows(*keys: str) -> list[Row]:
    """A row a key; a key in capitals is a heading."""
    return [Row(key, ((key, ""),), key.lower(), selectable=key.islower()) for key in keys]


def listing(then: Callable[[Pilot[None], RowList], Awaitable[None]]) -> None:
    async def whole() -> None:
        app = Listing()
        async with app.run_test(size=(40, 10)) as pilot:
            found = app.query_one(RowList)
            found.focus()
            await then(pilot, found)

    asyncio.run(whole())


def test_what_comes_above_takes_the_cursor_until_it_is_led() -> None:
    async def then(pilot: Pilot[None], found: RowList) -> None:
        found.set_rows(rows("HEAD", "b"))
        found.set_rows(rows("HEAD", "a", "b", "c"))
        assert found.row is not None
        assert found.row.key == "a"
        await pilot.press("down")
        found.set_rows(rows("HEAD", "0", "a", "b", "c"))
        assert found.row.key == "b"
        found.set_rows(rows("HEAD", "a", "c"))
        assert found.row.key == "c", "its row is gone: the one in its place"
        found.to_top()
        found.set_rows(rows("HEAD", "x", "a", "c"))
        assert found.row.key == "x"

    listing(then)


def test_it_follows_what_is_at_work_until_it_is_led() -> None:
    async def then(pilot: Pilot[None], found: RowList) -> None:
        found.set_rows(rows("a", "b", "c"), lead="b")
        assert found.row is not None
        assert found.row.key == "b"
        found.set_rows(rows("a", "b", "c"), lead="c")
        assert found.row.key == "c"
        await pilot.press("home")
        found.set_rows(rows("a", "b", "c"), lead="c")
        assert found.row.key == "a"

    listing(then)


def test_no_rows_and_only_headings_stand() -> None:
    async def then(pilot: Pilot[None], found: RowList) -> None:
        for some in ([], rows("HEAD"), rows("HEAD", "OTHER")):
            found.set_rows(some)
            for key in ("down", "up", "pagedown", "end", "home", "enter", "space"):
                await pilot.press(key)
            assert (found.rows, found.row) == (some, None)

    listing(then)


def test_a_filter_keeps_headings_of_something() -> None:
    some = rows("ONE", "apple", "pear", "TWO", "plum", "THREE")
    assert [row.key for row in keep(some, "PL")] == ["ONE", "apple", "TWO", "plum"]
    assert [row.key for row in keep(some, "pear")] == ["ONE", "pear"]
    assert keep(some, "nothing") == []
    assert keep([], "anything") == []
