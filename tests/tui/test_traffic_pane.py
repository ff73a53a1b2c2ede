"""The traffic pane in its frame: list, filter, details, copy and export."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import cast

import orjson
import pytest
from msgspec.structs import replace
from textual.pilot import Pilot
from textual.widgets import Input, Static

from mcpdesk.link.link import finished
from mcpdesk.link.values import LogLine, RunningCall
from mcpdesk.protocol.reading.remark import Remark, RemarkKind
from mcpdesk.recorder.capture import recording as recording_module
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.index.exchange import FAILED
from mcpdesk.recorder.index.query import parse
from mcpdesk.recorder.masking import MASK
from mcpdesk.recorder.record import Direction, RecordedRemark
from mcpdesk.tui.app import DeskApp
from mcpdesk.tui.core_answers import ClientConfigs
from mcpdesk.tui.results.long_text import LongText
from mcpdesk.tui.screens.compare import CompareScreen, DifferenceList
from mcpdesk.tui.screens.frame_lines import DeskFooter
from mcpdesk.tui.screens.main_screen import PANES
from mcpdesk.tui.screens.workbench import WorkbenchPane
from mcpdesk.tui.traffic.pane_texts import connect_instructions, counts_text, pointed_message
from mcpdesk.tui.traffic.traffic_pane import TrafficPane
from mcpdesk.tui.widgets import menu
from mcpdesk.tui.widgets.path_prompt import PathPrompt
from tests.support.fake_link import FakeLink
from tests.support.frame import STUBS, quiet_link, running_frame, toasts
from tests.support.patience import until
from tests.support.picture import shows
from tests.support.traffic import (
    IN,
    OUT,
    asking_recording,
    busy_recording,
    call,
    connection,
    notification,
    request,
    settle,
    text,
)
from tests.tui.test_traffic_list import running as running_list


def footer(app: DeskApp) -> list[str]:
    """Keys and titles of the footer."""
    return [" ".join(str(part.text).split()) for part in app.main.query_one(DeskFooter).parts]


WITH_TRAFFIC = {**STUBS, "traffic": PANES["traffic"], "workbench": PANES["workbench"]}


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
        pane.show_view(link.view())
        await pilot.pause()
        yield app, pilot, pane


async def typed(pilot: Pilot[None], pane: TrafficPane, query: str) -> None:
    """Type a filter and wait until all is filtered."""
    await pilot.press("slash", *("space" if char == " " else char for char in query))
    await pane.workers.wait_for_complete()
    await pilot.pause()


def status(pane: TrafficPane) -> str:
    pane.show_view(pane.link.view())
    return str(pane.query_one(".status", Static).content)


@pytest.mark.slow
async def test_it_opens_following_with_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = busy_recording()
    async with running(recorded) as (app, _, pane):
        assert app.focused is pane.listing
        assert status(pane).split() == ["9", "exchanges", "following"]
        monkeypatch.setattr(recording_module, "MAX_REMARKS", 0)
        recorded.remark(RecordedRemark(1, None, 1.0, Remark(RemarkKind.STDOUT, "text")))
        assert status(pane).startswith("9 exchanges · 1 remark left out")


@pytest.mark.slow
async def test_moving_shows_other_details_while_they_are_open() -> None:
    async with running() as (_, pilot, pane):
        await pilot.press("home", "j")
        assert not pane.detail.display and pane.listing.size.width == pane.size.width
        await pilot.press("enter", "j")
        await pilot.pause()
        assert pane.detail.shown_exchange is not None and pane.detail.shown_exchange.name == "user-profile"
        assert pane.detail.region.y > pane.listing.region.y
        await pilot.press("escape")
        assert not pane.detail.display


@pytest.mark.slow
async def test_enter_shows_details_below_where_there_is_not_and_esc_closes_them() -> None:
    async with running(size=(80, 40)) as (app, pilot, pane):
        assert not pane.detail.display
        await pilot.press("home", "enter")
        await pilot.pause()
        assert pane.detail.region.y > pane.listing.region.y and pane.listing.size.height >= 5
        assert "⏎ into the details" in footer(app)
        await pilot.press("shift+right")
        await until(lambda: pane.detail._tab == "http", pilot)
        await pilot.press("enter")
        await pilot.pause()
        assert pane.detail.has_focus_within
        await pilot.press("escape")
        assert app.focused is pane.listing and pane.detail.display
        await pilot.press("escape")
        assert not pane.detail.display and "⏎ details" in footer(app)
        await pilot.press("shift+right")
        assert toasts(app)[-1] == "Enter opens the details, which have tabs."


@pytest.mark.slow
def sixty_calls() -> Recording:
    recording = Recording(None)
    recording.connect(connection(1))
    for number in range(60):
        recording.frame(1, IN, call(number, "price", {"article": number}))
        recording.frame(1, OUT, text(number, f"{number} coins"))
    settle(recording)
    return recording


async def test_on_a_small_screen_list_and_details_take_turns() -> None:
    async with running(sixty_calls(), size=(80, 24)) as (app, pilot, pane):
        await pilot.press("home", *["j"] * 30, *["k"] * 5)
        before = (pane.listing.selected, pane.listing._offset)
        assert before[0] == 25 and before[1] > 0
        await pilot.press("enter")
        await until(lambda: pane.detail.has_focus_within and not pane.listing.display, pilot)
        assert pane.detail.size.height > 15 and shows(pilot, "25 coins")
        await until(lambda: "esc to the list" in footer(app), pilot)
        await pilot.press("escape")
        await until(lambda: app.focused is pane.listing and pane.listing.display, pilot)
        await until(lambda: (pane.listing.selected, pane.listing._offset) == before, pilot)
        assert not pane.detail.display


@pytest.mark.slow
async def test_a_list_that_is_shown_again_keeps_its_lines_until_it_is_laid_out() -> None:
    async with running(sixty_calls(), size=(80, 24)) as (_, pilot, pane):
        await pilot.press("home", *["j"] * 30, *["k"] * 5)
        before = (pane.listing.selected, pane.listing._offset)
        await pilot.press("enter")
        await until(lambda: pane.detail.has_focus_within and not pane.listing.display, pilot)
        pane.listing.styles.display = "block"
        pane.listing.on_resize()
        assert (pane.listing.selected, pane.listing._offset) == before


@pytest.mark.slow
async def test_a_small_screen_shows_why_a_call_failed_with_what_and_where() -> None:
    recording = Recording(None)
    recording.connect(connection(1))
    recording.frame(1, IN, call(1, "price", arguments={"article": "desk", "pieces": 7}))
    recording.frame(1, OUT, text(1, "price failed: ValueError: 'n/a'", is_error=True))
    settle(recording)
    async with running(recording, size=(80, 24)) as (_, pilot, pane):
        frames = (f'  File "shop.py", line {at}, in step\n    return step({at})\n' for at in range(12))
        said = "".join(frames) + "    return float(price)\nValueError: the last line"
        began = recording.index.exchange(0).started
        line = LogLine(99, began, "error", "tool", said, "shop.py:11", call=(1, 1))
        cast("FakeLink", pane.link).log_lines.append(line)
        await pilot.press("enter")
        seen = ("article", "pieces", "price failed: ValueError", "shop.py:11", "the last line")
        await until(lambda: all(shows(pilot, words) for words in seen), pilot)
        assert not pane.listing.display and pane.detail.query_one(".facts").size.height <= 2


@pytest.mark.slow
async def test_the_code_is_edited_where_the_traceback_on_stderr_says_the_call_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[tuple[Path, int]] = []
    monkeypatch.setattr("mcpdesk.tui.traffic.traffic_pane.edit", lambda _, *place: opened.append(place))
    code = tmp_path / "server.py"
    code.touch()
    recording = Recording(None)
    recording.connect(connection(1))
    for number, is_error in enumerate((True, False, True)):
        recording.frame(1, IN, call(number, "price"))
        recording.frame(1, OUT, text(number, "Error executing tool price", is_error=is_error))
    settle(recording)
    async with running(recording) as (app, pilot, pane):
        began = recording.index.exchange(0).started
        said = f'Traceback (most recent call last):\n  File "{code}", line 3, in price\nKeyError: 1'
        line = LogLine(99, began, "error", "stderr", said, server="profiles")
        logs = cast("FakeLink", pane.link).log_lines
        logs.append(line)
        await pilot.press("home", "enter", "enter")
        await until(lambda: shows(pilot, "server.py:3") and shows(pilot, "g c opens it"), pilot)
        await pilot.press("g", "c")
        await until(lambda: opened == [(code, 3)], pilot)
        await pilot.press("escape", "g", "c")
        await until(lambda: opened == [(code, 3)] * 2, pilot)
        await until(lambda: footer(app)[0] == "g c edit the code", pilot)
        await pilot.press("j", "g", "c")
        await until(lambda: any("g c has no action here" in each for each in toasts(app)), pilot)
        logs.remove(line)
        await pilot.press("j", "g", "c")
        await until(lambda: len([each for each in toasts(app) if "g c has no action" in each]) == 2, pilot)
        assert opened == [(code, 3)] * 2 and "edit the code" not in " ".join(footer(app))


@pytest.mark.slow
async def test_a_raw_frame_is_shown_whole_paged_and_copied_without_secrets(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    paged: list[str] = []
    monkeypatch.setattr("mcpdesk.tui.traffic.traffic_pane.page", lambda _, said, __: paged.append(said))
    recording = Recording(None)
    recording.connect(connection(1))
    words = " ".join(f"word{number}" for number in range(900))
    frames = call(1, "echo", {"token": "ghp_secret", "words": words}), text(1, words), call(2, "last")
    for frame, way in zip(frames, (IN, OUT, IN), strict=True):
        recording.frame(1, way, frame)
    settle(recording)
    whole = frames[0].decode().replace("ghp_secret", MASK)
    async with running(recording) as (app, pilot, pane):
        await pilot.press("v", "r", "home", "enter")
        await until(lambda: [each.text for each in pane.detail.query(LongText)] == [whole], pilot)
        await pilot.press("enter", "z", "G")
        await until(lambda: shows(pilot, "word899"), pilot)
        await pilot.press("z", "o", "y", "f")
        await until(lambda: app.clipboard == whole, pilot)
        assert paged == [whole]
        await pilot.press("escape", "j")
        await until(
            lambda: [each.text for each in pane.detail.query(LongText)] == [frames[1].decode()], pilot
        )
        await until(lambda: shows(pilot, "word1 ") and not shows(pilot, "word899"), pilot)
        await pilot.press("v", "r")
        await until(lambda: pane.detail.frame is None and not shows(pilot, "as it passed"), pilot)
        await pilot.press("o")
        await until(lambda: len(paged) == 2, pilot)
        assert "request:" in paged[1]


@pytest.mark.slow
async def test_any_part_of_the_details_gives_all_of_them_the_screen_and_says_how_to_get_back() -> None:
    async with running(size=(80, 40)) as (app, pilot, pane):
        await pilot.press("home", "enter", "enter")
        pages = [pane.detail.query_one(".request JsonTree"), pane.detail.query_one("#http")]
        for page, back in zip(pages, ("z", "escape"), strict=True):
            app.main.set_focus(page)
            await pilot.press("z")
            await until(lambda: pane.detail.size.height > 30 and shows(pilot, "z: back to the list"), pilot)
            assert app.main.maximized is pane.detail and shows(pilot, "initialize")
            await pilot.press(back)
            await until(lambda: pane.detail.size.height < 30, pilot)
            pane.detail.action_show_tab(1)
            await pilot.pause()
        assert not shows(pilot, "z: back to the list") and pane.detail.display


@pytest.mark.slow
async def test_nothing_is_opened_while_the_filter_lets_nothing_pass() -> None:
    async with running() as (app, pilot, pane):
        await pilot.press("home")
        await typed(pilot, pane, "nothing-like-it")
        await pilot.press("enter", "enter", "y")
        await pilot.pause()
        assert app.focused is pane.listing and not pane.detail.display and app.screen is app.main


@pytest.mark.slow
async def test_a_filter_narrows_while_it_is_typed_and_esc_drops_it() -> None:
    async with running() as (app, pilot, pane):
        await typed(pilot, pane, "status:error")
        assert status(pane).startswith("2 of 9 exchanges")
        await pilot.press("enter")
        assert app.focused is pane.listing and pane.query_one(Input).display
        await pilot.press("slash", "space")
        assert pane.query_one(Input).value == "status:error ", "it is continued, not replaced"
        await pilot.press("backspace", "enter")
        await pane.workers.wait_for_complete()
        await pilot.press("escape")
        await pane.workers.wait_for_complete()
        assert status(pane).startswith("9 exchanges") and not pane.query_one(Input).display


@pytest.mark.slow
async def test_a_filter_is_kept_and_used_again(tmp_path: Path) -> None:
    async with running() as (app, pilot, pane):
        app.history_path = tmp_path / "calls.jsonl"
        await typed(pilot, pane, "status:error")
        await pilot.press("enter", "v", "f", "w")
        await app.workers.wait_for_complete()
        assert (tmp_path / "filters.txt").read_text() == "status:error\n"
        await pilot.press("escape", "v", "f", "enter")
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert pane.query_one(Input).value == "status:error" and pane.query_one(Input).display
        await pilot.press("v", "f", "x")
        await app.workers.wait_for_complete()
        assert (tmp_path / "filters.txt").read_text() == ""


@pytest.mark.slow
async def test_what_is_wrong_with_a_filter_stands_under_it_and_the_last_right_one_holds() -> None:
    async with running() as (_, pilot, pane):
        await typed(pilot, pane, "tool:Bash (")
        wrong = pane.query_one(".wrong", Static)
        assert wrong.display and str(wrong.content) == " " * 11 + "↑ a search term is missing here"
        assert len(pane.listing.view.lines) == 1
        await pilot.press("backspace")
        assert not wrong.display
        await pilot.press(*"status:zz")
        assert wrong.display
        await pilot.press("backspace", "backspace")
        assert not wrong.display, "completions take the place of the message"


@pytest.mark.parametrize("before", [0, 11, 40, 70, 78])
@pytest.mark.parametrize("words", [3, 8, 12, 24])
def test_what_is_wrong_stays_below_its_place_or_left_of_it(before: int, words: int) -> None:
    message = " ".join(["words"] * words)
    lines = pointed_message(before, message, 80).split("\n")
    assert len(lines) <= 3 and all(len(line) <= 80 for line in lines)
    assert " ".join(" ".join(lines).replace("↑", "").split()) == message
    if len(lines) == 1:
        assert lines[0].index("↑") == before
    else:
        lead = lines[0].index("↑") + 2
        assert all(line[:lead].isspace() and not line[lead].isspace() for line in lines[1:])


@pytest.mark.slow
async def test_nothing_found_says_how_to_see_all() -> None:
    async with running() as (_, pilot, pane):
        await typed(pilot, pane, "nothing-has-this")
        pane.show_view(pane.link.view())
        assert any("Esc clears it" in cell for cell, _ in pane.listing.empty_text)


@pytest.mark.slow
async def test_another_pane_can_set_the_filter() -> None:
    async with running() as (app, pilot, pane):
        pane.open_exchange(2)
        await pilot.pause()
        pane.detail.focus_first()
        await pilot.pause()
        assert pane.detail.has_focus_within
        pane.show_only('peer:"desk"')
        await pilot.pause()
        assert not pane.detail.display and app.focused is pane.listing
        await pane.workers.wait_for_complete()
        assert len(pane.listing.view.lines) == 1 and pane.query_one(Input).display


@pytest.mark.slow
async def test_an_exchange_can_be_opened_from_elsewhere() -> None:
    async with running(size=(80, 24)) as (_, pilot, pane):
        pane.open_exchange(2)
        await pilot.pause()
        assert pane.detail.shown_exchange is not None and pane.detail.shown_exchange.number == 2
        assert pane.listing.selected == 2 and not pane.listing.following


@pytest.mark.slow
async def test_an_empty_pane_teaches_how_to_connect() -> None:
    async with running(Recording(None)) as (_, __, pane):
        words = " ".join(cell for cell, _ in pane.listing.empty_text)
        assert "No messages yet" in words and "http://127.0.0.1:3333/mcp/profiles" in words


@pytest.mark.slow
async def test_a_pause_counts_what_waits() -> None:
    recording = busy_recording()
    async with running(recording) as (_, pilot, pane):
        await pilot.press("p")
        recording.frame(1, IN, call(50, "new"))
        recording.frame(1, IN, call(51, "new"))
        assert "paused · 2 waiting" in status(pane)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("t", "password"),
        ("j", '"took_ms"'),
        ("c", "curl -X POST"),
        ("m", "mcpdesk call '~/servers/profiles' user-profile userId=123"),
    ],
)
async def test_an_exchange_is_copied_masked(key: str, words: str) -> None:
    async with running() as (app, pilot, _):
        await pilot.press("home", "j", "j", "y", key)
        await app.workers.wait_for_complete()
        assert words in app.clipboard and MASK in app.clipboard and "hunter2" not in app.clipboard
        assert toasts(app)[-1].startswith("copied tools/call user-profile #7 as")


@pytest.mark.slow
@pytest.mark.parametrize(("key", "suffix", "count"), [("j", "jsonl", 1), ("m", "md", 1)])
async def test_exchanges_are_exported_masked(
    key: str, suffix: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with running() as (app, pilot, _):
        await pilot.press("home", "j", "j", "m", "w", key)
        await until(lambda: isinstance(app.screen, PathPrompt) and app.screen.is_mounted, pilot)
        assert not list(tmp_path.iterdir())
        assert app.screen.query_one(Input).value.startswith(str(tmp_path / "mcpdesk-"))
        await pilot.press("enter")
        await app.workers.wait_for_complete()
        (file,) = tmp_path.iterdir()
        written = file.read_text()
        assert file.suffix == f".{suffix}" and "hunter2" not in written
        if suffix == "jsonl":
            assert len([orjson.loads(line) for line in written.splitlines()]) == count
        assert f"{count} exchange written" in toasts(app)[-1]


@pytest.mark.slow
async def test_two_marked_exchanges_are_compared_or_one_with_the_selected() -> None:
    recording = busy_recording()
    recording.frame(2, IN, call(8, "user-profile", {"userId": "456", "password": "sesame"}))
    recording.frame(2, OUT, text(8, "Grace"))
    settle(recording)
    async with running(recording) as (app, pilot, pane):
        await pilot.press("home", "d")
        assert "Mark two exchanges with m" in toasts(app)[-1]
        pane.listing.select(2)
        await pilot.press("m", "G", "d")
        screen = app.screen
        assert isinstance(screen, CompareScreen)
        rows = screen.query_one(DifferenceList)
        texts = ("".join(text for text, _ in rows.spans(at, rows.size.width)) for at in range(rows.row_count))
        said = [" ".join(text.split()) for text in texts]
        assert said == [
            "request params.arguments.userId",
            '"123" │ "456"',
            "response result.content[0].text",
            '"Ada" │ "Grace"',
        ]
        await pilot.press("escape", "m", "d")
        assert isinstance(app.screen, CompareScreen)


@pytest.mark.slow
async def test_without_a_mark_an_exchange_is_compared_with_the_previous_one_of_its_kind() -> None:
    recording = Recording(None)
    recording.connect(connection(1))
    for number, tool in enumerate(("price", "order", "price")):
        recording.frame(1, IN, call(number, tool, {"article": f"lamp {number}"}))
        recording.frame(1, OUT, text(number, "fine"))
    settle(recording)
    async with running(recording) as (app, pilot, _):
        await pilot.press("G", "d")
        await until(lambda: isinstance(app.screen, CompareScreen), pilot)
        rows = app.screen.query_one(DifferenceList)
        texts = ["".join(text for text, _ in rows.spans(at, rows.size.width)) for at in range(rows.row_count)]
        assert " ".join(texts[-1].split()) == '"lamp 0" │ "lamp 2"'


@pytest.mark.slow
async def test_x_cancels_the_running_call_of_a_client_after_a_question() -> None:
    recording = Recording(None)
    recording.connect(connection(1))
    recording.frame(1, IN, call(4, "slow-report"))
    recording.frame(1, IN, call(5, "user-profile"))
    recording.frame(1, OUT, text(5, "Ada"))
    settle(recording)
    async with running(recording) as (app, pilot, pane):
        link = cast("FakeLink", pane.link)
        link.details[1] = replace(
            link.details[1], running=(RunningCall("tools/call", "slow-report", 1, id=4),)
        )
        await until(lambda: "cancel" not in " ".join(footer(app)), pilot)
        await pilot.press("home")
        await until(lambda: footer(app)[0] == "x cancel the call", pilot)
        await pilot.press("x")
        await until(lambda: shows(pilot, "Cancel tools/call slow-report of claude-code 2.1?"), pilot)
        await pilot.press("n")
        await app.workers.wait_for_complete()
        assert not link.cancelled_calls
        await pilot.press("enter", "enter", "x")
        await until(lambda: shows(pilot, "Cancel tools/call slow-report"), pilot)
        await pilot.press("y")
        await app.workers.wait_for_complete()
        assert link.cancelled_calls == [(1, 4)] and toasts(app)[-1] == "tools/call slow-report: cancelled"
        await pilot.press("x")
        await until(lambda: shows(pilot, "Cancel tools/call slow-report"), pilot)
        another = RunningCall("tools/call", "another", 1, id=4, started=2.0)
        link.details[1] = replace(link.details[1], running=(another,))
        await pilot.press("y")
        await app.workers.wait_for_complete()
        assert link.cancelled_calls == [(1, 4)], "the id belongs to another call by now"
        assert toasts(app)[-1] == "tools/call slow-report: it has already ended"


@pytest.mark.slow
async def test_jumps_work_from_the_details_too_and_are_shown_there() -> None:
    async with running() as (app, pilot, pane):
        await pilot.press("home", "enter", "enter")
        await until(lambda: pane.detail.has_focus_within, pilot)
        await pilot.press("right_square_bracket", "e")
        await until(
            lambda: pane.detail.shown_exchange is not None and pane.detail.shown_exchange.status in FAILED,
            pilot,
        )
        assert pane.detail.has_focus_within
        await until(lambda: "r repeat" in footer(app)[:2], pilot)
        first = pane.detail.shown_exchange
        await pilot.press("right_square_bracket", "e", "left_square_bracket", "e")
        await until(lambda: pane.detail.shown_exchange == first, pilot)


@pytest.mark.slow
async def test_the_next_line_is_shown_from_the_details_where_they_hide_the_list() -> None:
    async with running(size=(80, 24)) as (app, pilot, pane):
        await pilot.press("home", "enter")
        await until(lambda: pane.detail.has_focus_within and not pane.listing.display, pilot)
        first, second = pane.listing.lines[:2]
        for keys, number in (("] l", second), ("[ l", first), ("[ l", first)):
            await pilot.press("right_square_bracket" if keys[0] == "]" else "left_square_bracket", "l")
            await until(
                lambda n=number: (
                    pane.detail.shown_exchange is not None  # type: ignore[misc]
                    and pane.detail.shown_exchange.number == n
                ),
                pilot,
            )
            assert pane.detail.has_focus_within
        await until(lambda: toasts(app)[-1:] == ["No line above."], pilot)


@pytest.mark.slow
async def test_only_new_exchanges_are_shown_until_escape() -> None:
    recording = busy_recording()
    async with running(recording) as (_, pilot, pane):
        old_count = len(pane.listing.lines)
        await typed(pilot, pane, "slow or failing")
        await pilot.press("enter", "v", "n")
        await until(lambda: "since:" in pane.filter_field.value and not pane.listing.lines, pilot)
        assert pane.filter_field.value.startswith("(slow or failing) since:") and pane.listing.following
        await pilot.press("v", "n")
        assert pane.filter_field.value.count("since:") == pane.filter_field.value.count("(") == 1
        recording.frame(1, IN, call(977, "slow-one"))
        recording.frame(1, IN, call(978, "other"))
        pane.show_view(pane.link.view())
        await until(lambda: len(pane.listing.lines) == 1, pilot)
        await pilot.press("escape")
        await until(lambda: len(pane.listing.lines) == old_count + 2, pilot)


@pytest.mark.slow
async def test_only_new_exchanges_are_shown_although_the_list_was_paused() -> None:
    recording = busy_recording()
    async with running(recording) as (_, pilot, pane):
        await pilot.press("p", "v", "n")
        await until(lambda: "since:" in pane.filter_field.value and not pane.listing.lines, pilot)
        recording.frame(1, IN, call(977, "new"))
        pane.show_view(pane.link.view())
        await until(lambda: len(pane.listing.lines) == 1, pilot)


@pytest.mark.slow
async def test_an_empty_list_offers_only_keys_that_do_something() -> None:
    async with running(Recording(None)) as (app, _, _):
        own = [each for each in footer(app) if each.split()[0] not in ("space", "^p", "?", "^o", "^q", "a")]
        assert own == ["f follow", "/ filter"]


@asynccontextmanager
async def sending(
    recording: Recording, number: int
) -> AsyncIterator[tuple[DeskApp, Pilot[None], TrafficPane, FakeLink]]:
    """The pane with a selected exchange, and the link that receives the request to send."""
    async with running(recording) as (app, pilot, pane):
        pane.listing.select(number)
        await pilot.pause()
        link = pane.link
        assert isinstance(link, FakeLink)
        yield app, pilot, pane, link


@pytest.mark.slow
async def test_a_request_is_sent_again_as_it_was_without_what_held_once() -> None:
    recording = Recording(None)
    recording.connect(connection(1))
    meta = {"progressToken": 1}
    recording.frame(1, IN, call(1, "user-profile", {"userId": "1", "password": "hunter2"}, _meta=meta))
    settle(recording)
    async with sending(recording, 0) as (app, pilot, _, link):
        await pilot.press("r")
        await app.workers.wait_for_complete()
        (sent,) = link.calls
        assert (sent.method, sent.params) == (
            "tools/call",
            {"name": "user-profile", "arguments": {"userId": "1", "password": "hunter2"}},
        )
        assert toasts(app)[-1] == "sent again as desk: tools/call user-profile"


@pytest.mark.slow
async def test_a_destructive_tool_runs_again_only_when_it_is_meant(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(menu, "KEY_PAUSE_S", 0.0)
    recording = Recording(None)
    recording.connect(connection(1))
    recording.frame(1, IN, call(1, "send-mail"))
    settle(recording)
    async with sending(recording, 0) as (app, pilot, _, link):
        items = link.catalogues["profiles"].items
        danger = {"annotations": {"destructiveHint": True}}
        link.catalogues["profiles"] = replace(
            link.catalogues["profiles"],
            items=tuple(replace(one, definition=danger) if one.name == "send-mail" else one for one in items),
        )
        await pilot.press("r", "n")
        await app.workers.wait_for_complete()
        assert not link.calls
        await pilot.press("r", "y")
        await app.workers.wait_for_complete()
        assert [one.params["name"] for one in link.calls] == ["send-mail"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("direction", "frame", "server", "reason"),
    [
        (IN, notification("notifications/initialized"), "profiles", "only requests of a client"),
        (OUT, request(1, "roots/list"), "profiles", "only requests of a client"),
        (IN, request(1, "initialize", {}), "profiles", "initialize opens a session or stream"),
        (IN, request(1, "tools/list"), "elsewhere", "no server called 'elsewhere'"),
        (IN, b'{"jsonrpc":"2.0","id":1,"method":"m","params":[1]}', "profiles", "must be an object"),
    ],
)
async def test_what_cannot_be_sent_again_says_why(
    direction: Direction, frame: bytes, server: str, reason: str
) -> None:
    recording = Recording(None)
    recording.connect(connection(1, server=server))
    recording.frame(1, direction, frame)
    settle(recording)
    async with sending(recording, 0) as (app, pilot, _, link):
        await pilot.press("r")
        await app.workers.wait_for_complete()
        assert not link.calls and reason in toasts(app)[-1]


@pytest.mark.slow
async def test_a_call_is_edited_in_the_form_of_the_workbench() -> None:
    async with sending(busy_recording(), 2) as (app, pilot, _, link):
        link.catalogues["profiles"] = replace(link.catalogues["profiles"])
        await pilot.press("e")
        await app.workers.wait_for_complete()
        await pilot.pause()
        bench = app.main.pane
        assert isinstance(bench, WorkbenchPane) and bench.item is not None
        assert bench.item.name == "user-profile"
        assert bench.arguments.value() == {"userId": "123", "password": "hunter2"}
        assert bench.arguments.has_focus_within


@pytest.mark.slow
async def test_a_value_of_a_message_is_copied() -> None:
    async with running() as (app, pilot, pane):
        await pilot.press("home", "j", "j", "enter", "enter")
        await pilot.pause()
        assert pane.detail.has_focus_within
        await pilot.press("G", "enter", "G", "y")
        await pilot.pause()
        assert app.clipboard == "tools/call"
        await pilot.press("space")
        await until(lambda: app.screen is not app.main, pilot)
        await pilot.press(*"path", "enter")
        await until(lambda: app.clipboard == "method", pilot)


@pytest.mark.slow
async def test_a_called_tools_secret_arguments_are_known_by_its_schema() -> None:
    async with running() as (_, __, pane):
        profile = next(one for one in pane.link.traffic.exchanges if one.name == "user-profile")
        schema = pane.detail._schema_of(profile)
        assert schema is not None and "userId" in schema["properties"]
        assert pane.detail._schema_of(pane.link.traffic.exchange(0)) is None


async def test_counts_are_of_operations_and_of_what_the_filter_lets_pass() -> None:
    async with running_list(asking_recording()) as (app, pilot):
        app.listing.action_mark()
        assert counts_text(app.listing) == "3 exchanges · 1 marked"
        app.listing.filter(parse("tool:book-flight", 0))
        await app.workers.wait_for_complete()
        assert counts_text(app.listing).startswith("1 of 3 exchanges")
        app.listing.action_raw()
        await app.workers.wait_for_complete()
        await pilot.pause()
        assert counts_text(app.listing).startswith("6 of 19 frames")


def test_the_key_is_not_shown() -> None:
    link = FakeLink()
    link.client_config = lambda *_, **__: finished("curl -H 'X-API-Key: secret-key'")  # type: ignore[method-assign]
    view = replace(link.core, api_key="secret-key")
    text = " ".join(text for text, _ in connect_instructions(ClientConfigs(link), view, 80))
    assert "secret-key" not in text and "X-API-Key: ••••" in text


def test_commands_are_as_wide_as_the_pane() -> None:
    link = FakeLink()
    command = "claude mcp add --transport http profiles http://127.0.0.1:3333/mcp"
    link.client_config = lambda *_, **__: finished(command)  # type: ignore[method-assign]
    texts = [
        [text for text, _ in connect_instructions(ClientConfigs(link), link.core, width)]
        for width in (90, 50)
    ]
    wide, narrow = (sum("mcp" in text for text in lines) for lines in texts)
    assert narrow == 2 * wide


def test_without_a_server_there_is_nothing_to_connect_to() -> None:
    link = FakeLink()
    assert any("curl" in text for text, _ in connect_instructions(ClientConfigs(link), link.core, 80))
    alone = connect_instructions(ClientConfigs(link), replace(link.core, servers=()), 80)
    assert [text.strip() for text, _ in alone if text] == ["No messages yet."]
