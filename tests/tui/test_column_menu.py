"""The choice of columns: hidden, shown again, stored across restarts, and reset."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from textual.pilot import Pilot

from mcpdesk.tui.app import DeskApp
from mcpdesk.tui.column_choices import ColumnChoices
from mcpdesk.tui.screens.main_screen import PANES
from mcpdesk.tui.traffic.line_columns import HIDEABLE, columns_for
from mcpdesk.tui.traffic.sort_menu import COLUMN_LETTERS
from mcpdesk.tui.widgets.column_menu import RESET_LETTER, ColumnMenu
from tests.support.frame import STUBS, quiet_link, running_frame, toasts
from tests.support.patience import screen_lines, until
from tests.support.traffic import busy_recording

SIZES = [(80, 24), (120, 40)]
SCREENS = {"2": "took", "4": "last seen", "6": "errors", "g s": "tools"}
"""Keys of each list with columns, and the title of a column that the list shows at every size."""


@asynccontextmanager
async def desk(
    state: Path, keys: str = "2", size: tuple[int, int] = (120, 40)
) -> AsyncIterator[tuple[DeskApp, Pilot[None]]]:
    """A desk with its state in a folder, on one of its screens."""
    link = quiet_link()
    link.traffic = busy_recording().index
    async with running_frame(link, size, panes={**STUBS, "traffic": PANES["traffic"]}) as (app, pilot):
        app.history_path = state / "calls.jsonl"
        await pilot.press(*keys.split())
        app.main.refresher.refresh()
        await until(lambda: SCREENS[keys] in head(app) or (state / "columns.json").exists(), pilot)
        await pilot.pause()
        yield app, pilot


def head(app: DeskApp) -> str:
    """The line with the titles of the columns."""
    title = re.compile(r"(^|\s)(message|bytes|name|server)[↑↓]?(\s|$)")
    return next((line for line in screen_lines(app) if title.search(line)), "")


async def open_menu(app: DeskApp, pilot: Pilot[None]) -> ColumnMenu:
    await pilot.press("v", "c")
    await until(lambda: isinstance(app.screen, ColumnMenu), pilot)
    assert isinstance(app.screen, ColumnMenu)
    return app.screen


async def toggle(app: DeskApp, pilot: Pilot[None], *letters: str) -> None:
    """Press letters in the menu of columns, and close it."""
    await open_menu(app, pilot)
    await pilot.press(*letters, "escape")
    await until(lambda: not isinstance(app.screen, ColumnMenu), pilot)
    await pilot.pause()


def menu_lines(app: DeskApp) -> dict[str, str]:
    """Title of each column in the open menu, and its mark with its hint."""
    found = (re.search(r"│ (\[.\]) (\w+) +(.*) \w +│", line) for line in screen_lines(app))
    return {one[2]: f"{one[1]} {one[3].strip()}".strip() for one in found if one}


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
async def test_a_hidden_column_gives_its_room_to_the_message(tmp_path: Path, size: tuple[int, int]) -> None:
    async with desk(tmp_path, size=size) as (app, pilot):
        before = head(app)
        await toggle(app, pilot, "s")
        after = head(app)
        assert "status" in before and "status" not in after and len(after) == len(before)
        assert [after.index(title) for title in ("message", "took")] == [
            before.index(title) for title in ("message", "took")
        ]
        assert json.loads((tmp_path / "columns.json").read_text()) == {"traffic": ["status"]}
        await toggle(app, pilot, "s")
        assert head(app) == before and json.loads((tmp_path / "columns.json").read_text()) == {}


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
async def test_the_menu_names_hidden_columns_and_those_without_room(
    tmp_path: Path, size: tuple[int, int]
) -> None:
    async with desk(tmp_path, size=size) as (app, pilot):
        menu = await open_menu(app, pilot)
        await pilot.press("t")
        lines = menu_lines(app)
        assert app.screen is menu, "it stays open"
        assert lines["took"] == "[ ] hidden" and lines["status"] == "[x]"
        assert lines["revision"] == "[-] no room at this width"
        assert lines["size"] == ("[-] no room at this width" if size[0] == 80 else "[x]")
        assert "message" not in lines and "replica" not in lines and "frame" not in lines
        await pilot.press("home", "down", "enter")
        assert menu_lines(app)["peer"] == "[ ] hidden"
        await pilot.press("enter", "escape")
        await until(lambda: app.screen is app.main, pilot)
        await until(lambda: "peer" in head(app) and "took" not in head(app), pilot)


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("keys", SCREENS)
async def test_the_choice_is_kept_after_a_restart_until_it_is_reset(
    tmp_path: Path, keys: str, size: tuple[int, int]
) -> None:
    title = SCREENS[keys]
    async with desk(tmp_path, keys, size) as (app, pilot):
        choices = (await open_menu(app, pilot)).choices
        letters = [choice.key for choice in choices]
        assert "" not in letters and len({*letters, *"gjk"}) == len(letters) + 3
        await pilot.press(next(choice.key for choice in choices if choice.label.endswith(title)), "escape")
        await until(lambda: app.screen is app.main, pilot)
        await pilot.pause()
        assert title not in head(app)
    async with desk(tmp_path, keys, size) as (app, pilot):
        await until(lambda: head(app), pilot)
        assert title not in head(app) and not toasts(app)
        await toggle(app, pilot, RESET_LETTER)
        assert title in head(app)
        assert json.loads((tmp_path / "columns.json").read_text()) == {}


@pytest.mark.slow
@pytest.mark.parametrize("keys", SCREENS)
async def test_without_all_other_columns_the_name_or_message_remains(tmp_path: Path, keys: str) -> None:
    async with desk(tmp_path, keys) as (app, pilot):
        menu = await open_menu(app, pilot)
        for _ in menu.choices[:-1]:
            await pilot.press("enter", "down")
        await pilot.press("escape")
        await until(lambda: app.screen is app.main, pilot)
        await pilot.pause()
        assert head(app).strip(" ↑↓") in ("message", "name", "server")


@pytest.mark.slow
@pytest.mark.parametrize("data", ["{", "[]", '{"traffic": "status"}', '{"traffic": [1]}', "\udcff"])
async def test_an_invalid_file_is_reported_and_ignored(tmp_path: Path, data: str) -> None:
    path = tmp_path / "columns.json"
    path.write_bytes(data.encode(errors="surrogateescape"))
    async with desk(tmp_path) as (app, pilot):
        await until(lambda: toasts(app), pilot)
        assert "columns.json is invalid and ignored" in toasts(app)[0]
        assert "status" in head(app)
        await toggle(app, pilot, "s")
        assert json.loads(path.read_text()) == {"traffic": ["status"]}, "a choice replaces the invalid file"


@pytest.mark.slow
async def test_stored_columns_that_cannot_be_hidden_are_reported(tmp_path: Path) -> None:
    (tmp_path / "columns.json").write_text('{"traffic": ["what", "status", "weather"], "clients": ["p95"]}')
    async with desk(tmp_path) as (app, pilot):
        await until(lambda: toasts(app), pilot)
        assert "traffic cannot hide the column what, weather" in toasts(app)[0]
        assert "status" not in head(app) and "message" in head(app)


@pytest.mark.slow
async def test_raw_frames_and_the_waterfall_have_the_same_choice(tmp_path: Path) -> None:
    async with desk(tmp_path, size=(160, 40)) as (app, pilot):
        await toggle(app, pilot, "z", "d", "t")
        await pilot.press("v", "r")
        await pilot.pause()
        assert "bytes" in head(app) and "frame" in head(app) and "size" not in head(app)
        await open_menu(app, pilot)
        assert "frame" in menu_lines(app) and "status" not in menu_lines(app)
        await pilot.press("escape", "v", "r", "v", "w")
        await pilot.pause()
        menu = await open_menu(app, pilot)
        labels = [one.label for one in menu.choices]
        assert labels == ["[ ] direction", "[x] status", "[ ] took", "as the width allows"]


@pytest.mark.slow
async def test_a_hidden_time_is_shown_while_times_are_relative(tmp_path: Path) -> None:
    async with desk(tmp_path) as (app, pilot):
        await toggle(app, pilot, "e")
        assert "time" not in head(app)
        await pilot.press("home", "v", "z")
        await pilot.pause()
        assert "elapsed" in head(app)
        await open_menu(app, pilot)
        assert menu_lines(app)["time"] == "[x] hidden, but needed now"


@pytest.mark.parametrize("width", [40, 62, 78, 96, 118, 160, 200])
@pytest.mark.parametrize("has_cores", [False, True])
def test_other_columns_keep_their_width_if_one_is_hidden(width: int, has_cores: bool) -> None:
    columns = columns_for(width, has_cores=has_cores)
    total = sum(column.width + 1 for column in columns)
    for name in HIDEABLE:
        rest = columns_for(width, has_cores=has_cores, hidden={name})
        assert name not in {column.name for column in rest} and "what" in {column.name for column in rest}
        assert sum(column.width + 1 for column in rest) == total
        widths = {column.name: column.width for column in columns if column.name not in ("what", "peer")}
        assert all(widths[column.name] == column.width for column in rest if column.name in widths), (
            "only the message has more room"
        )


def test_a_narrow_line_shows_the_replica_without_the_peer_and_the_peer_without_the_replica() -> None:
    narrow = columns_for(78, has_cores=True)
    assert any(column.has_core for column in narrow)
    without_peer = columns_for(78, has_cores=True, hidden={"peer"})
    assert "core" in {column.name for column in without_peer}
    without_core = columns_for(78, has_cores=True, hidden={"core"})
    assert {column.name for column in without_core} == {column.name for column in narrow}
    assert not any(column.has_core for column in without_core)
    neither = {column.name for column in columns_for(78, has_cores=True, hidden={"core", "peer"})}
    assert not neither & {"core", "peer"}


def test_each_column_has_a_letter_of_its_own() -> None:
    assert COLUMN_LETTERS.keys() >= HIDEABLE
    letters = [*COLUMN_LETTERS.values(), RESET_LETTER, "a"]
    assert len(set(letters)) == len(letters)


def test_choices_of_another_desk_for_other_lists_are_kept(tmp_path: Path) -> None:
    problems: list[str] = []
    first, second = ColumnChoices(tmp_path / "columns.json"), ColumnChoices(tmp_path / "columns.json")
    first.hide("traffic", {"id"})
    second.hide("clients", {"p95", "era"})
    assert first.hidden("clients", ["era", "p95"], problems.append) == {"era", "p95"}
    first.hide("traffic", ())
    assert json.loads((tmp_path / "columns.json").read_text()) == {"clients": ["era", "p95"]}
    in_memory = ColumnChoices()
    in_memory.hide("traffic", {"id"})
    assert in_memory.hidden("traffic", ["id"], problems.append) == {"id"} and not problems
