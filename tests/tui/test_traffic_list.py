"""The list follows, stays, pauses, marks and filters as asked, whatever arrives at the same time."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from textual.app import App, ComposeResult
from textual.events import MouseScrollDown, MouseScrollUp
from textual.message import Message
from textual.pilot import Pilot
from textual.scrollbar import ScrollBar

from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.index import sorted_lines
from mcpdesk.recorder.index.exchange import Exchange
from mcpdesk.recorder.index.query import parse
from mcpdesk.tui.traffic import traffic_list
from mcpdesk.tui.traffic.line_jumps import next_mark, next_of_kind
from mcpdesk.tui.traffic.pane_texts import counts_text, mode_text
from mcpdesk.tui.traffic.traffic_list import TrafficList
from mcpdesk.tui.widgets.menu import Menu
from tests.support.driven import driven
from tests.support.patience import until
from tests.support.traffic import (
    IN,
    OUT,
    busy_recording,
    call,
    connection,
    error,
    notification,
    progress,
    settle,
    text,
)


class ListApp(App[None]):
    """Only the list; stores its messages."""

    def __init__(self, recording: Recording, *, compact: bool = False) -> None:
        super().__init__()
        self.recording = recording
        self.compact = compact
        self.heard: list[Message] = []

    def compose(self) -> ComposeResult:
        yield TrafficList(self.recording.index, compact=self.compact)

    def on_traffic_list_picked(self, event: TrafficList.Picked) -> None:
        self.heard.append(event)

    def on_traffic_list_opened(self, event: TrafficList.Opened) -> None:
        self.heard.append(event)

    @property
    def listing(self) -> TrafficList:
        return self.query_one(TrafficList)

    def shown(self) -> list[str]:
        """The lines in sight, as text."""
        return [self.listing.render_line(y).text.rstrip() for y in range(self.listing.size.height)]

    def told(self) -> list[str]:
        """Messages of its notifications, oldest first."""
        return [notice.message for notice in self._notifications]

    def picked(self) -> list[int | None]:
        return [event.exchange for event in self.heard if isinstance(event, TrafficList.Picked)]


def many(count: int) -> Recording:
    """A recording of calls `tool-0`, `tool-1` ..., all answered."""
    recording = Recording(None)
    more(recording, count)
    return recording


def more(recording: Recording, count: int, tool: str = "tool") -> None:
    for number in range(count):
        recording.frame(1, IN, call(number, f"{tool}-{number}"))
        recording.frame(1, OUT, text(number, "x"))
    settle(recording)


@asynccontextmanager
async def running(
    recording: Recording, *, size: tuple[int, int] = (80, 12), compact: bool = False
) -> AsyncIterator[tuple[ListApp, Pilot[None]]]:
    app = ListApp(recording, compact=compact)
    async with driven(app, size=size) as pilot:
        app.listing.focus()
        app.listing.update_lines(1)
        await pilot.pause()
        yield app, pilot


async def test_it_follows_the_newest_line() -> None:
    async with running(many(50)) as (app, _):
        assert "tool-49" in app.shown()[-1]
        more(app.recording, 5, "new")
        app.listing.update_lines(1)
        assert "new-4" in app.shown()[-1] and app.listing.selected == 54
        assert app.picked() == []


async def test_moving_ends_following_and_nothing_jumps() -> None:
    async with running(many(50)) as (app, pilot):
        await pilot.press("k", "k")
        assert not app.listing.following and app.picked() == [48, 47]
        before = app.shown()
        more(app.recording, 20, "new")
        app.listing.update_lines(1)
        assert app.shown() == before and app.listing.selected == 47
        await pilot.press("f")
        assert "new-19" in app.shown()[-1]


async def test_keys_move_as_everywhere() -> None:
    async with running(many(50)) as (app, pilot):
        for key, selected in (
            ("home", 0),
            ("j", 1),
            ("down", 2),
            ("pagedown", 12),
            ("pageup", 2),
            ("up", 1),
            ("G", 49),
        ):
            await pilot.press(key)
            assert app.listing.selected == selected, key
        await pilot.press("home", "k")
        assert app.listing.selected == 0 and "tool-0" in app.shown()[1]


async def test_a_pause_takes_nothing_in_and_loses_nothing() -> None:
    async with running(many(20)) as (app, pilot):
        await pilot.press("p")
        before = app.shown()
        more(app.recording, 7, "new")
        app.listing.update_lines(1)
        assert app.shown() == before and app.listing.view.held_back == 7
        await pilot.press("p")
        assert "new-6" in app.shown()[-1] and app.listing.view.held_back == 0


async def test_following_again_ends_a_pause() -> None:
    async with running(many(20)) as (app, pilot):
        await pilot.press("p", "k", "f")
        assert (app.listing.paused, app.listing.following) == (False, True)


async def test_a_filter_keeps_the_selected_line() -> None:
    async with running(many(50)) as (app, pilot):
        await pilot.press("k", "k", "k")
        chosen = app.listing.selected
        app.listing.filter(parse("tool:tool-4", 0.0))
        await app.workers.wait_for_complete()
        assert app.listing.selected == chosen == 46
        assert len(app.listing.view.lines) == 11
        app.listing.filter(parse("tool:tool-12", 0.0))
        await app.workers.wait_for_complete()
        assert app.listing.selected == 12
        app.listing.filter(parse("", 0.0))
        await app.workers.wait_for_complete()
        assert app.listing.selected == 12


async def test_a_line_that_leaves_the_filter_leaves_the_selection_nearby() -> None:
    recording = Recording(None)
    for number in range(5):
        recording.frame(1, IN, call(number, f"tool-{number}"))
    async with running(recording) as (app, pilot):
        app.listing.filter(parse("status:pending", 0.0))
        await app.workers.wait_for_complete()
        await pilot.press("home", "j")
        assert app.listing.selected == 1
        recording.frame(1, OUT, text(1, "x"))
        app.listing.update_lines(1)
        assert app.listing.selected == 2


async def test_marks_toggle_and_are_found_again() -> None:
    async with running(many(50)) as (app, pilot):
        await pilot.press("home", "m", "j", "m")
        assert app.listing.marks == {0, 2}
        assert [line[0] == "●" for line in app.shown()[1:4]] == [True, False, True]
        await pilot.press("G")
        next_mark(app.listing, -1)
        assert app.listing.selected == 2
        next_mark(app.listing, -1)
        assert app.listing.selected == 0 and app.told() == []
        next_mark(app.listing, -1)
        await pilot.pause()
        assert app.listing.selected == 0 and app.told() == ["No mark above."]
        next_mark(app.listing, 1)
        await pilot.press("m")
        assert app.listing.marks == {0}
        await pilot.press("m")
        assert len(app.listing.marks) == 2 and app.listing.check_action("clear_marks", ())
        app.listing.action_clear_marks()
        assert not app.listing.marks and not app.listing.check_action("clear_marks", ())
        await pilot.pause()
        assert not any(line.startswith("●") for line in app.shown())


async def test_raw_frames_and_back_keep_the_place() -> None:
    async with running(many(50)) as (app, pilot):
        await pilot.press("home", "j", "j")
        app.listing.action_raw()
        await app.workers.wait_for_complete()
        assert app.listing.view.raw and app.listing.selected == 2
        assert '{"jsonrpc"' in app.shown()[1]
        await pilot.press("j")
        assert app.listing.selected == 2
        await pilot.press("j")
        app.listing.action_raw()
        await app.workers.wait_for_complete()
        assert not app.listing.view.raw and app.listing.selected == 3


async def test_raw_frames_show_the_revision_of_their_exchange_or_of_their_connection() -> None:
    recording = Recording(None)
    recording.connect(connection(1))
    recording.connect(connection(2, revision=""))
    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
    recording.frame(1, IN, call(1, "a", _meta=meta))
    recording.frame(1, IN, call(2, "b"))
    recording.frame(1, OUT, b"no JSON")
    recording.frame(2, IN, call(1, "c"))
    settle(recording)
    async with running(recording, size=(160, 12)) as (app, pilot):
        await pilot.press("b")
        await app.workers.wait_for_complete()
        revisions = [re.findall(r"20\d\d-\d\d-\d\d \w+", line) for line in app.shown()[1:5]]
    old = ["2025-11-25 handshake"]
    assert revisions == [["2026-07-28 stateless"], old, old, []]


async def test_enter_and_a_second_click_open() -> None:
    async with running(many(20)) as (app, pilot):
        await pilot.press("enter")
        await pilot.click(TrafficList, offset=(5, 3))
        await pilot.click(TrafficList, offset=(5, 3), times=2)
        opened = [event.exchange for event in app.heard if isinstance(event, TrafficList.Opened)]
        assert opened[0] == 19 and app.listing.selected == opened[-1] == 11
        assert not app.listing.following


async def test_a_click_below_the_lines_selects_nothing() -> None:
    async with running(many(3)) as (app, pilot):
        await pilot.click(TrafficList, offset=(5, 9))
        assert app.picked() == [] and app.listing.following


async def test_the_wheel_scrolls_without_selecting() -> None:
    async with running(many(50)) as (app, pilot):
        await pilot._post_mouse_events([MouseScrollUp], TrafficList, offset=(5, 5))
        assert not app.listing.following and app.listing.selected == 49
        assert "tool-46" in app.shown()[-1]
        await pilot._post_mouse_events([MouseScrollDown], TrafficList, offset=(5, 5))
        assert "tool-49" in app.shown()[-1]


async def test_the_scroll_bar_is_there_when_it_is_needed() -> None:
    async with running(many(3)) as (app, _):
        bar = app.listing.query_one("ScrollBar")
        assert not bar.visible
        more(app.recording, 50, "new")
        app.listing.update_lines(1)
        assert bar.visible


@pytest.mark.slow
async def test_the_scroll_bar_is_where_the_lines_are() -> None:
    async with running(many(50)) as (app, pilot):
        bar, rows = app.listing.query_one(ScrollBar), app.listing.rows_visible

        def look(count: int, offset: float, window: int) -> list[str]:
            drawn = ScrollBar.renderer.render_bar(bar.size.height, count, window, offset)
            return [str(segment) for segment in drawn.segments]

        for count in range(50, 2_000, 137):
            more(app.recording, count - len(app.listing.lines))
            app.listing.update_lines(1)
            for keys, first in ((["home"], 0), (["pagedown", "pagedown"], rows - 1), (["G"], count - rows)):
                await pilot.press(*keys)
                shown = look(bar.window_virtual_size, bar.position, bar.window_size)
                assert shown == look(count, first, rows), (count, keys)


async def test_a_pending_line_has_a_running_clock() -> None:
    recording = busy_recording()
    async with running(recording, size=(80, 20)) as (app, _):
        [pending] = [at for at, line in enumerate(app.shown()) if "… pending" in line]
        recording.frame(1, OUT, text("six", "done"))
        app.listing.update_lines(1)
        assert "✓ ok" in app.shown()[pending]


async def test_nothing_is_drawn_anew_while_nothing_changes() -> None:
    async with running(many(20)) as (app, _):
        app.listing.update_lines(1)
        assert not app.listing.update_lines(1)
        more(app.recording, 1)
        assert app.listing.update_lines(1)


async def test_an_empty_list_teaches() -> None:
    async with running(Recording(None)) as (app, pilot):
        app.listing.empty_text = [("connect a client:", ""), ("claude mcp add", "traffic--peer")]
        assert app.shown()[1:3] == ["connect a client:", "claude mcp add"]
        await pilot.press("j", "G", "home", "enter", "m", "p", "f", "pagedown")
        assert app.heard == []


@pytest.mark.slow
async def test_a_compact_list_has_no_titles() -> None:
    async with running(many(20), size=(100, 4), compact=True) as (app, _):
        assert ["tool-16" in app.shown()[0], "tool-19" in app.shown()[3]] == [True, True]


@pytest.mark.slow
async def test_a_hundred_thousand_frames_draw_only_what_is_seen() -> None:
    async with running(many(50_000)) as (app, pilot):
        drawn: list[int] = []
        exchange = app.recording.index.exchange

        def noted(number: int) -> Exchange:
            drawn.append(number)
            return exchange(number)

        app.recording.index.exchange = noted  # type: ignore[method-assign]
        await pilot.press("home")
        app.shown()
        assert max(drawn) < 100


def noisy() -> Recording:
    """Three calls of two tools, of which the first reports progress, and the last fails."""
    recording = Recording(None)
    recording.connect(connection())
    recording.frame(1, IN, call(1, "paint", _meta={"progressToken": "t"}))
    for amount in range(4):
        recording.frame(1, OUT, progress("t", amount))
    recording.frame(1, IN, call(2, "count"))
    recording.frame(1, OUT, text(2, "two"))
    recording.frame(1, OUT, text(1, "done"))
    recording.frame(1, OUT, notification("notifications/tools/list_changed"))
    recording.frame(1, IN, call(3, "paint"))
    recording.frame(1, OUT, error(3, -32603, "no paint"))
    settle(recording)
    return recording


async def test_notifications_are_folded_under_their_call_and_unfolded_below_it() -> None:
    async with running(noisy()) as (app, pilot):
        assert len(app.listing.lines) == 4
        await pilot.press("home")
        assert "paint ▸ 4 → done" in app.shown()[1] and "list_changed" in app.shown()[3]
        await pilot.press("right")
        shown = app.shown()
        assert (
            "paint ▾ 4" in shown[1] and "└ notifications/progress 0 of 10" in shown[2] and "count" in shown[6]
        )
        await pilot.press("down", "down")
        assert "1 of 10" in shown[3] and app.listing.selected == 2
        await pilot.press("G")
        assert app.listing.selected == 7
        await pilot.press("left")
        assert len(app.listing.lines) == 4 and app.listing.selected == 7
        await pilot.press("home", "right", "down", "left")
        assert len(app.listing.lines) == 4 and app.listing.selected == 0


async def test_a_call_is_found_by_what_its_notifications_say() -> None:
    async with running(noisy()) as (app, pilot):
        app.listing.filter(parse("method:notifications/progress", 0))
        await pilot.pause()
        assert list(app.listing.lines) == [0]
        more(app.recording, 1)
        app.listing.update_lines(1)
        assert list(app.listing.lines) == [0]


async def test_a_running_call_says_what_its_newest_notification_says() -> None:
    recording = Recording(None)
    recording.connect(connection())
    recording.frame(1, IN, call(1, "paint", {"wall": 2}, _meta={"progressToken": "t"}))
    recording.frame(1, OUT, progress("t", 3))
    settle(recording)
    async with running(recording) as (app, _):
        assert "paint ▸ 1 wall=2 → 3 of 10" in app.shown()[1]


async def test_keys_lead_to_the_next_of_a_kind() -> None:
    async with running(noisy()) as (app, pilot):
        await pilot.press("home")
        for what, by, selected in (
            ("same", 1, 7),
            ("same", -1, 0),
            ("error", 1, 7),
            ("error", 1, 7),
            ("error", -1, 7),
            ("slow", 1, 7),
        ):
            next_of_kind(app.listing, what, by)
            assert app.listing.selected == selected, what
        await pilot.pause()
        assert app.told() == ["No other error"] * 2 + ["No slow calls"]


async def test_after_the_last_of_a_kind_the_first_follows_and_that_is_said() -> None:
    recording = many(6)
    for number in (6, 7):
        recording.frame(1, IN, call(number, "late"))
        recording.frame(1, OUT, text(number, "no", is_error=True))
        more(recording, 1)
    async with running(recording) as (app, pilot):
        assert app.listing.following
        next_of_kind(app.listing, "error", 1)
        await pilot.pause()
        assert app.listing.selected == 6 and not app.listing.following
        assert app.told() == ["No error below: continued from the top · [ e goes up"]
        next_of_kind(app.listing, "error", 1)
        await pilot.pause()
        assert app.listing.selected == 8 and len(app.told()) == 1
        await pilot.press("home")
        next_of_kind(app.listing, "error", -1)
        await pilot.pause()
        assert app.listing.selected == 8
        assert app.told()[1:] == ["No error above: continued from the bottom · ] e goes down"]
        app.listing.action_raw()
        next_of_kind(app.listing, "error", 1)
        await pilot.pause()
        assert app.told()[-1] == "Raw frames have no kind: v r shows exchanges again."


def taking(seconds: list[float]) -> Recording:
    """A recording of calls `tool-0`, `tool-1` ..., begun a second after each other, that took so long."""
    recording = Recording(None)
    recording.connect(connection())
    for number, took in enumerate(seconds):
        recording.frame(1, IN, call(number, f"tool-{number}"), at=100.0 + number)
        answer = text(number, "x" * 100 * number)
        recording.frame(1, OUT, answer, at=100.0 + number + took)
    settle(recording)
    return recording


def tools(app: ListApp) -> list[str]:
    """The names of the tools in sight, from the top."""
    return [found[0] for line in app.shown() if (found := re.findall(r"tool-\d+", line))]


async def sort_by(pilot: Pilot[None], app: ListApp, letter: str) -> None:
    """Choose a column in the menu of columns."""
    await pilot.press("s")
    await until(lambda: isinstance(app.screen, Menu), pilot)
    await pilot.press(letter)
    await app.workers.wait_for_complete()
    await pilot.pause()


@pytest.mark.slow
async def test_a_menu_of_columns_sorts_and_the_same_column_again_reverses_the_order() -> None:
    app = ListApp(taking([0.2, 5.0, 0.1, 3.0]))
    async with driven(app, size=(160, 12)) as pilot:
        app.listing.update_lines()
        await pilot.pause()
        columns = [*zip("pmi", ("peer", "message", "id"), strict=True)]
        columns += [*zip("stz", ("status", "took", "size"), strict=True)]
        for letter, title in columns:
            first, second = "↓↑" if title in ("took", "size") else "↑↓"
            for sign in (first, second):
                await sort_by(pilot, app, letter)
                assert f"{title}{sign}" in app.shown()[0]
                assert f"sorted by {title} {sign} · s changes it" in mode_text(app.listing)
        await sort_by(pilot, app, "a")
        assert tools(app) == [f"tool-{number}" for number in range(4)] and "↑" not in app.shown()[0]


async def test_lines_are_sorted_by_a_column_and_stay_in_their_order() -> None:
    recording = taking([0.2, 5.0, 0.1, 3.0])
    app = ListApp(recording)
    async with driven(app, size=(120, 12)) as pilot:
        app.listing.update_lines()
        await sort_by(pilot, app, "t")
        assert tools(app) == ["tool-1", "tool-3", "tool-0", "tool-2"]
        await sort_by(pilot, app, "t")
        await pilot.press("down")
        assert tools(app) == ["tool-2", "tool-0", "tool-3", "tool-1"] and "took↑" in app.shown()[0]
        assert app.listing.selected == 0
        more(recording, 1, "late")
        app.listing.update_lines()
        assert app.listing.selected == 0 and app.shown()[2].lstrip(" →").count("tool-0") == 1
        await sort_by(pilot, app, "z")
        assert "size↓" in app.shown()[0] and tools(app)[0] == "tool-3"
        await pilot.press("f")
        assert tools(app) == ["tool-0", "tool-1", "tool-2", "tool-3"] and app.listing.following


async def test_another_order_is_reported() -> None:
    async with running(taking([0.2, 5.0, 0.1])) as (app, _):
        app.listing.action_cursor(-1)  # following ends, which is reported as well
        orders: list[bool] = []
        app.listing.state_changed = lambda: orders.append(app.listing.sorted_lines is not None)
        app.listing.sort_by("took")
        app.listing.sort_by(None)
        assert orders == [True, False]


@pytest.mark.parametrize("width", [80, 120])
async def test_the_server_is_named_where_there_are_several_and_room(width: int) -> None:
    recording = Recording(None)
    recording.connect(connection(1, server="weather"))
    recording.frame(1, IN, call(1, "tool-1"))
    app = ListApp(recording)
    async with driven(app, size=(width, 12)) as pilot:
        app.listing.update_lines()
        assert "server" not in app.shown()[0] and "weather" not in app.shown()[1]
        recording.connect(connection(2, server="shop"))
        recording.frame(2, IN, call(1, "tool-2"))
        app.listing.update_lines()
        is_named = width == 120
        assert ("server" in app.shown()[0], "shop" in app.shown()[2]) == (is_named, is_named)
        if is_named:
            await sort_by(pilot, app, "v")
            assert tools(app) == ["tool-2", "tool-1"]


async def test_a_click_on_a_title_sorts_and_on_it_again_turns_the_order() -> None:
    app = ListApp(taking([0.2, 5.0, 0.1, 3.0]))
    async with driven(app, size=(120, 12)) as pilot:
        app.listing.update_lines()
        await pilot.pause()
        title = app.shown()[0].index("took")
        await pilot.click(TrafficList, offset=(title, 0))
        assert tools(app)[0] == "tool-1"
        await pilot.click(TrafficList, offset=(title, 0))
        assert tools(app)[0] == "tool-2"
        await pilot.click(TrafficList, offset=(app.shown()[0].index("time"), 0))
        assert tools(app)[0] == "tool-0" and app.listing.sorted_lines is None


async def test_a_filter_and_a_choice_from_elsewhere_go_with_an_order() -> None:
    app = ListApp(taking([0.2, 5.0, 0.1, 3.0]))
    async with driven(app, size=(120, 12)) as pilot:
        app.listing.update_lines()
        await sort_by(pilot, app, "t")
        app.listing.filter(parse(">1s", 0.0))
        await pilot.pause()
        assert tools(app) == ["tool-1", "tool-3"]
        app.listing.select(2)
        assert app.listing.sorted_lines is None
        app.listing.action_raw()
        await pilot.press("s")
        assert app.listing.sorted_lines is None and len(app.screen_stack) == 1


async def test_the_line_of_a_time_is_gone_to() -> None:
    recording = taking([0.001, 0.002, 0.001, 0.002])
    app = ListApp(recording)
    async with driven(app, size=(120, 12)):
        app.listing.update_lines()
        app.listing.sort_by("peer")
        started = [recording.index.exchange(number).started for number in range(4)]
        for number, moment in enumerate(started):
            app.listing.select_moment(moment)
            assert app.listing.selected == number and app.listing.sorted_lines is None
        app.listing.select_moment(started[0] - 9)
        assert app.listing.selected == 0 and not app.listing.following
        app.listing.select_moment(started[3] + 9)
        assert app.listing.selected == 3
        app.listing.action_raw()
        app.listing.select_moment(started[2])
        assert app.listing.selected == 2


@pytest.fixture
def slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sort two lines at a time, and show each time how far that has come."""
    monkeypatch.setattr(sorted_lines, "_BLOCK_LINES", 2)
    for name in ("_FIRST_SORT_S", "_SLICE_S", "_PROGRESS_UPDATE_S"):
        monkeypatch.setattr(traffic_list, name, 0.0)


DURATIONS = [float(number * 7 % 40 + 1) for number in range(40)]
LONGEST_FIRST = sorted(range(40), key=lambda number: -DURATIONS[number])


@pytest.mark.usefixtures("slowly")
@pytest.mark.parametrize("key", ["home", "G"])
async def test_very_many_lines_are_sorted_behind_the_screen(key: str) -> None:
    app = ListApp(taking(DURATIONS))
    async with driven(app, size=(120, 12)) as pilot:
        app.listing.update_lines(1)
        app.listing.sort_by("took")
        assert "sorting 5%" in counts_text(app.listing) and "took↓" in app.shown()[0] and tools(app)
        (app.listing.action_first if key == "home" else app.listing.action_last)()
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert "sorting" not in counts_text(app.listing)
        names = [f"tool-{number}" for number in LONGEST_FIRST]
        assert tools(app) == (names[:11] if key == "home" else names[-11:])
        assert app.listing.selected == LONGEST_FIRST[0 if key == "home" else -1] == app.picked()[-1]
        await pilot.press("home" if key == "G" else "end", "pageup" if key == "home" else "pagedown")
        assert app.listing.selected == LONGEST_FIRST[29 if key == "home" else 10]


@pytest.mark.usefixtures("slowly")
async def test_another_order_ends_a_sort_and_a_chosen_line_stays_chosen() -> None:
    recording = taking(DURATIONS)
    app = ListApp(recording)
    async with driven(app, size=(120, 12)) as pilot:
        app.listing.update_lines(1)
        app.listing.sort_by("took")
        app.listing.sort_by("size")
        app.listing.action_cursor(1)
        chosen = app.listing.selected
        await app.workers.wait_for_complete([one for one in app.workers if not one.is_cancelled])
        assert "size↓" in app.shown()[0] and app.listing.selected == chosen
        await pilot.press("home")
        assert tools(app) == [f"tool-{number}" for number in range(39, 28, -1)]
        recording.frame(1, IN, call(99, "tool-99", {"long": "x" * 9_000}))
        settle(recording)
        app.listing.update_lines(1)
        assert app.listing.selected == 39
        await pilot.press("up")
        assert tools(app)[0] == "tool-99"


@pytest.mark.parametrize("width", [60, 120])
async def test_times_count_from_a_chosen_exchange(width: int) -> None:
    app = ListApp(taking([0.2, 5.0, 0.1, 3.0]))
    async with driven(app, size=(width, 12)) as pilot:
        app.listing.update_lines()
        before = app.shown()
        await pilot.press("home", "down")
        app.listing.action_zero()
        lines = app.shown()
        assert "elapsed" in lines[0]
        assert [line.split()[0] for line in lines[1:5]] == ["-1.0", "+0", "+1.0", "+2.0"]
        app.listing.action_zero()
        assert app.shown() == before
