"""The matrix' screen: rows with their sources, and what this host would need for one."""

from __future__ import annotations

from textual.pilot import Pilot

from doctor.tui.widgets.row_list import RowList
from tests.tui.play import (
    host,
    play,
    text,
)


def test_the_matrix_is_browsed_with_its_sources() -> None:
    app = host()

    async def then(pilot: Pilot[int]) -> None:
        await pilot.press("5")
        for _ in range(200):
            await pilot.pause(0.05)
            if app.screen.query_one("#rows", RowList).rows:
                break
        await pilot.press("slash", *"vllm 0.27.1", "enter")
        await pilot.pause(0.2)
        assert "Sources" in text(app)
        assert "retrieved" in text(app)
        await pilot.press("w")
        await pilot.pause(0.2)
        assert "What would this host need for" in text(app)
        assert "vllm==" in text(app)

    play(app, then)
