"""Bars on one time axis show the phases of each exchange."""

from __future__ import annotations

import pytest
from textual.app import App, ComposeResult

from mcpdesk.protocol.phases import Phases
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.tui.traffic.traffic_list import TrafficList
from mcpdesk.tui.traffic.waterfall import phases_in_words
from tests.support.driven import driven
from tests.support.traffic import IN, OPENED, OUT, call, connection, notification, settle, text


def measured() -> Recording:
    """Ten seconds: a call of the first eight, one of the last two that waited for its client, one outside."""
    recording = Recording(None)
    recording.connect(connection(1))
    recording.frame(1, IN, call(1, "long", {"for": "tea"}), at=OPENED)
    phases = Phases(OPENED + 8, 4_000_000, 0, 2_000_000, 1_000_000)
    recording.frame(1, OUT, text(1, "x"), at=OPENED + 8, phases=phases)
    recording.frame(1, IN, call(2, "asks"), at=OPENED + 8)
    recording.frame(1, OUT, text(2, "x"), at=OPENED + 10, phases=Phases(OPENED + 9, 0, 1_000_000))
    recording.frame(1, IN, call(3, "outside"), at=OPENED + 8)
    recording.frame(1, OUT, text(3, "x"), at=OPENED + 9)
    recording.frame(1, OUT, notification("notifications/message"), at=OPENED + 5)
    settle(recording)
    return recording


class BarsApp(App[None]):
    def __init__(self, recording: Recording) -> None:
        super().__init__()
        self.recording = recording

    def compose(self) -> ComposeResult:
        yield TrafficList(self.recording.index)

    def lines(self) -> list[str]:
        listing = self.query_one(TrafficList)
        return [listing.render_line(y).text.rstrip() for y in range(5)]


@pytest.mark.parametrize("width", [80, 120, 200])
async def test_bars_share_an_axis_and_are_split_into_phases(width: int) -> None:
    app = BarsApp(measured())
    async with driven(app, size=(width, 12)) as pilot:
        app.query_one(TrafficList).action_waterfall()
        await pilot.pause()
        head, long, asks, outside, message = app.lines()
        assert head.endswith("+10.0 s") and "tea" in long
        bar = long[long.index("·") :]
        assert [bar.count(glyph) / len(bar) for glyph in "·█▒▓"] == pytest.approx(
            [1 / 8, 4 / 8, 2 / 8, 1 / 8], abs=0.08
        )
        assert asks.index("░") >= len(long) - 1 and asks.count("░") == pytest.approx(asks.count("▪"), abs=1)
        assert outside.index("▬") == asks.index("░") and message.endswith("╷")
        assert all(len(line) <= width - 1 for line in app.lines())


async def test_the_axis_is_zoomed_around_the_line_and_back() -> None:
    app = BarsApp(measured())
    async with driven(app, size=(100, 12)) as pilot:
        app.query_one(TrafficList).action_waterfall()
        await pilot.press("home", "j", "plus")
        head, long, asks, *_ = app.lines()
        assert head.endswith("+2.5 s") and long.count("▓") and not long.count("█") and asks.count("░") > 15
        await pilot.press("plus", "plus", "home", "equals_sign")
        assert app.lines()[2].endswith("›")
        await pilot.press(*["minus"] * 5)
        assert app.lines()[0].endswith("+10.0 s")
        app.query_one(TrafficList).action_waterfall()
        assert not any("▒" in line for line in app.lines())


def test_the_phases_stand_in_words_with_their_times() -> None:
    index = measured().index
    words = [phases_in_words(index, index.exchange(row), OPENED) for row in range(4)]
    first = ["· parse and queue 1.0 s", "█ handler 4.0 s", "▒ waiting for a person 2.0 s", "▓ shaping 1.0 s"]
    assert words == [first, ["░ waiting for the client 1.0 s", "▪ write 1.0 s"], [], []]
