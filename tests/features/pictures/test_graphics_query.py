"""Graphics of an app, with and without a terminal."""

from __future__ import annotations

import pytest

from mcpdesk.features.pictures import graphics_query
from mcpdesk.features.pictures.graphics_query import graphics_of
from mcpdesk.features.pictures.terminal_graphics import QUERY, Graphics, GraphicsKind
from mcpdesk.tui.terminal import DeskDriver, driver_of
from tests.support.frame import running_frame


async def test_a_desk_without_a_terminal_draws_half_blocks() -> None:
    async with running_frame() as (app, _):
        assert driver_of(app) is None
        assert await graphics_of(app) == Graphics(GraphicsKind.HALF_BLOCKS)


async def test_a_desk_without_colour_draws_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with running_frame() as (app, _):
        assert (await graphics_of(app)).kind is GraphicsKind.WORDS


async def test_a_terminal_is_queried_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running_frame() as (app, _):
        driver, written = DeskDriver(app), list[str]()
        monkeypatch.setattr(graphics_query, "driver_of", lambda app: driver)

        def write(data: str) -> None:
            written.append(data)
            assert driver.without_replies is not None
            assert driver.without_replies("\x1b[6;24;12ta\x1b_Gi=31;OK\x1b\\\x1b[?62;4;22cb") == "ab"

        monkeypatch.setattr(driver, "write", write)
        monkeypatch.setattr(driver, "cell_size", lambda: None)
        for _ in range(2):
            assert await graphics_of(app) == Graphics(GraphicsKind.SIXEL, (12, 24))
        assert written == [QUERY]
