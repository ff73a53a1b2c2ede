"""The traffic pane in its frame: list, filter, details, copy and export."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import orjson
import pytest
from textual.pilot import Pilot
from textual.widgets import Input, Static

from mcpdesk.recorder.capture import Recording
from mcpdesk.recorder.masking import MASK
from mcpdesk.tui.app import DeskApp
from mcpdesk.tui.panes import PANES
from mcpdesk.tui.screens.traffic import TrafficPane
from tests.support.frame import STUBS, quiet_link, running_frame, toasts
from tests.support.traffic import IN, OUT, busy_recording, call, settle, text

WITH_TRAFFIC = {**STUBS, "traffic": PANES["traffic"]}


@asynccontextmanager
async def running(
    recording: Recording | None = None, size: tuple[int, int] = (120, 40)
) -> AsyncIterator[tuple[DeskApp, Pilot[None], TrafficPane]]:
    link = quiet_link()
    link.traffic = (recording or busy_recording()).index
    async with running_frame(link, size, panes=WITH_TRAFFIC) as (app, pilot):
        await pilot.press("2")
        pane = app.main.pane
        assert isinstance(pane, TrafficPane)
        pane.look(link.view())
        await pilot.pause()
        yield app, pilot, pane


async def typed(pilot: Pilot[None], pane: TrafficPane, query: str) -> None:
    """Type a filter and wait until all is filtered."""
    await pilot.press("slash", *("space" if char == " " else char for char in query))
    await pane.workers.wait_for_complete()
    await pilot.pause()


def status(pane: TrafficPane) -> str:
    pane.look(pane.link.view())
    return str(pane.query_one(".status", Static).content)


async def test_it_opens_following_with_counts() -> None:
    async with running() as (app, _, pane):
        assert app.focused is pane.listing
        assert status(pane).split() == ["13", "exchanges", "following"]


async def test_moving_shows_details_beside_where_there_is_room() -> None:
    async with running() as (_, pilot, pane):
        await pilot.press("g", "j", "j")
        await pilot.pause()
        assert pane.detail.shown is not None and pane.detail.shown.name == "user-profile"
        assert pane.detail.region.x > pane.listing.region.x


async def test_enter_shows_details_below_where_there_is_not_and_esc_closes_them() -> None:
    async with running(size=(80, 24)) as (app, pilot, pane):
        assert not pane.detail.display
        await pilot.press("g", "enter")
        await pilot.pause()
        assert pane.detail.region.y > pane.listing.region.y and pane.listing.size.height >= 5
        await pilot.press("enter")
        await pilot.pause()
        assert pane.detail.has_focus_within
        await pilot.press("escape")
        assert app.focused is pane.listing and pane.detail.display
        await pilot.press("escape")
        assert not pane.detail.display


async def test_a_filter_narrows_while_it_is_typed_and_esc_drops_it() -> None:
    async with running() as (app, pilot, pane):
        await typed(pilot, pane, "status:error")
        assert status(pane).startswith("2 of 13 exchanges")
        await pilot.press("enter")
        assert app.focused is pane.listing and pane.query_one(Input).display
        await pilot.press("escape")
        await pane.workers.wait_for_complete()
        assert status(pane).startswith("13 exchanges") and not pane.query_one(Input).display


async def test_what_is_wrong_with_a_filter_stands_under_it_and_the_last_right_one_holds() -> None:
    async with running() as (_, pilot, pane):
        await typed(pilot, pane, "tool:Bash (")
        wrong = pane.query_one(".wrong", Static)
        assert wrong.display and str(wrong.content) == " " * 11 + "↑ something to look for is missing here"
        assert len(pane.listing.view.lines) == 1
        await pilot.press("backspace")
        assert not wrong.display


async def test_nothing_found_says_how_to_see_all() -> None:
    async with running() as (_, pilot, pane):
        await typed(pilot, pane, "nothing-has-this")
        pane.look(pane.link.view())
        assert any("Esc drops it" in cell for cell, _ in pane.listing.lesson)


async def test_another_pane_can_set_the_filter() -> None:
    async with running() as (_, pilot, pane):
        pane.set_filter('peer:"desk"')
        await pilot.pause()
        await pane.workers.wait_for_complete()
        assert len(pane.listing.view.lines) == 1 and pane.query_one(Input).display


async def test_an_exchange_can_be_opened_from_elsewhere() -> None:
    async with running(size=(80, 24)) as (_, pilot, pane):
        pane.open_exchange(2)
        await pilot.pause()
        assert pane.detail.shown is not None and pane.detail.shown.number == 2
        assert pane.listing.selected == 2 and not pane.listing.following


async def test_an_empty_pane_teaches_how_to_connect() -> None:
    async with running(Recording(None)) as (_, __, pane):
        words = " ".join(cell for cell, _ in pane.listing.lesson)
        assert "No message has passed yet" in words and "http://127.0.0.1:3333/mcp/profiles" in words


async def test_a_pause_counts_what_waits() -> None:
    recording = busy_recording()
    async with running(recording) as (_, pilot, pane):
        await pilot.press("p")
        recording.frame(1, IN, call(50, "new"))
        recording.frame(1, IN, call(51, "new"))
        assert "paused · 2 waiting" in status(pane)


@pytest.mark.parametrize(("key", "words"), [("t", "password"), ("j", '"took_ms"'), ("c", "curl -X POST")])
async def test_an_exchange_is_copied_masked(key: str, words: str) -> None:
    async with running() as (app, pilot, _):
        await pilot.press("g", "j", "j", "y", key)
        await app.workers.wait_for_complete()
        assert words in app.clipboard and MASK in app.clipboard and "hunter2" not in app.clipboard
        assert toasts(app)[-1].startswith("copied exchange 2 as")


@pytest.mark.parametrize(("key", "suffix", "count"), [("j", "jsonl", 13), ("m", "md", 13), ("J", "jsonl", 1)])
async def test_exchanges_are_exported_masked(
    key: str, suffix: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with running() as (app, pilot, _):
        await pilot.press("g", "j", "j", "m", "x", key)
        await app.workers.wait_for_complete()
        (file,) = tmp_path.iterdir()
        written = file.read_text()
        assert file.suffix == f".{suffix}" and "hunter2" not in written
        if suffix == "jsonl":
            assert len([orjson.loads(line) for line in written.splitlines()]) == count
        assert f"{count} exchanges written" in toasts(app)[-1]


async def test_an_export_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    monkeypatch.setattr(Path, "cwd", lambda: gone)
    async with running() as (app, pilot, _):
        await pilot.press("x", "j")
        await app.workers.wait_for_complete()
        assert "Not exported: No such file" in toasts(app)[-1]


async def test_a_value_of_a_message_is_copied() -> None:
    async with running() as (app, pilot, pane):
        await pilot.press("g", "j", "j", "enter", "enter")
        await pilot.pause()
        assert pane.detail.has_focus_within
        await pilot.press("y")
        await pilot.pause()
        assert app.clipboard == "2.0"


async def test_a_called_tools_secret_arguments_are_known_by_its_schema() -> None:
    async with running() as (_, __, pane):
        profile = next(one for one in pane.link.traffic.exchanges if one.name == "user-profile")
        schema = pane._schema_of(profile)
        assert schema is not None and "userId" in schema["properties"]
        assert pane._schema_of(pane.link.traffic.exchange(0)) is None


async def test_a_hundred_thousand_frames_are_opened_filtered_and_jumped_through() -> None:
    recording = Recording(None)
    for number in range(50_000):
        recording.frame(1, IN, call(number, f"tool-{number % 20}"))
        recording.frame(1, OUT, text(number, "x"))
    settle(recording)
    async with running(recording) as (_, pilot, pane):
        await pilot.press("g", "G")
        assert pane.listing.selected == 49_999
        await typed(pilot, pane, "tool-7")
        assert len(pane.listing.view.lines) == 2500
