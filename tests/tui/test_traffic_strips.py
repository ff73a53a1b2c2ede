"""Strips are drawn once while nothing about a line changes."""

from __future__ import annotations

from textual.strip import Strip

from tests.support.traffic import OUT, busy_recording, connection, settle, text
from tests.tui.test_traffic_list import running


async def test_a_finished_line_is_drawn_once_and_anew_when_its_peer_has_a_name() -> None:
    recording = busy_recording()
    async with running(recording, size=(90, 20)) as (app, _):
        strips = app.listing._strips

        def draw() -> Strip:
            return strips.exchange(0, cursor=False, marked=False)

        strips.fit(90, False)
        first = draw()
        assert draw() is first and first.cell_length == 90
        recording.connect(connection(1, "renamed"))
        assert "renamed" in draw().text
        assert strips.exchange(0, cursor=True, marked=False) is not draw()


async def test_a_pending_line_is_drawn_every_time() -> None:
    recording = busy_recording()
    async with running(recording) as (app, _):
        strips, number = app.listing._strips, recording.index.exchanges[-1].number
        strips.has_clock = False
        strips.exchange(number, cursor=False, marked=False)
        assert strips.has_clock
        recording.frame(1, OUT, text("six", "done"))
        settle(recording)
        strips.has_clock = False
        strips.exchange(number, cursor=False, marked=False)
        assert not strips.has_clock


async def test_another_theme_draws_everything_anew() -> None:
    async with running(busy_recording(), size=(80, 20)) as (app, pilot):
        before = app.listing.render_line(1)
        app.theme = "textual-light"
        await pilot.pause()
        after = app.listing.render_line(1)
        assert before.text == after.text and list(before) != list(after)


async def test_strips_kept_are_bounded() -> None:
    async with running(busy_recording()) as (app, _):
        strips = app.listing._strips
        for _ in range(100):
            for number in range(12):
                strips.exchange(number, cursor=False, marked=bool(number % 2))
        assert len(strips._strips) <= 300
