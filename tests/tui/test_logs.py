"""The log pane: filter, level, source, whole text, copy."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from itertools import count
from pathlib import Path

import msgspec
import pytest
from rich.cells import cell_len
from textual.app import App, ComposeResult
from textual.pilot import Pilot
from textual.widgets import Static

from mcpdesk.link.values import LogLine
from mcpdesk.paths import sample_servers
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.tui.app import DeskApp
from mcpdesk.tui.render.amounts import clock
from mcpdesk.tui.screens import log_list
from mcpdesk.tui.screens.frame_lines import DeskFooter
from mcpdesk.tui.screens.log_histogram import CLOCK_CELLS, Bar, LogHistogram, bars_of
from mcpdesk.tui.screens.log_list import LEVELS, MAX_UNFOLDED_ROWS, LogFilter, LogList, as_text, rank
from mcpdesk.tui.screens.logs import LogDetail, LogsPane
from mcpdesk.tui.screens.main_screen import PANES
from mcpdesk.tui.traffic.traffic_pane import TrafficPane
from mcpdesk.tui.widgets.menu import Menu
from mcpdesk.tui.widgets.path_prompt import PathPrompt
from tests.support.desk import running_desk
from tests.support.driven import driven
from tests.support.frame import STUBS, quiet_link, running_frame, toasts
from tests.support.patience import screen_lines, until
from tests.support.traffic import IN, OUT, call, connection, text


async def shown(app: DeskApp, pilot: Pilot[None]) -> LogsPane:
    await pilot.press("5")
    await pilot.pause()
    app.main.refresher.refresh()
    await pilot.pause()
    pane: LogsPane = app.main.query_one(LogsPane)
    return pane


def status(pane: LogsPane) -> str:
    return str(pane.query_one(".status", Static).content)


async def choose_level(pilot: Pilot[None], pane: LogsPane, level: str) -> None:
    await pilot.press("v", "l")
    await until(lambda: isinstance(pane.app.screen, Menu) and pane.app.screen.is_mounted, pilot)
    await pilot.press(str(LEVELS.index(level) + 1))
    await until(lambda: f"level {level}+" in status(pane) and pane.app.screen is pane.app.main, pilot)


@pytest.mark.slow
async def test_on_a_small_screen_the_text_takes_the_place_of_the_list() -> None:
    async with running_frame(quiet_link(), size=(80, 24)) as (app, pilot):
        pane = await shown(app, pilot)
        await pilot.press("home", "j")
        before = pane.listing.cursor
        await pilot.press("enter")
        await until(lambda: isinstance(app.focused, LogDetail), pilot)
        assert not pane.query_one(".rows").display and app.focused.size.height > 15  # type: ignore[union-attr]
        footer = app.main.query_one(DeskFooter)
        await until(lambda: "esc to the list" in footer.render().plain, pilot)
        await pilot.press("escape")
        await until(lambda: app.focused is pane.listing, pilot)
        assert pane.listing.cursor == before and not pane.query_one(LogDetail).display
        await until(lambda: "to the list" not in footer.render().plain, pilot)


@pytest.mark.slow
async def test_words_and_levels_narrow_the_log_and_escape_shows_all() -> None:
    link = quiet_link()
    async with running_frame(link) as (app, pilot):
        pane = await shown(app, pilot)
        for _ in range(3):
            app.main.refresher.refresh()
        assert pane.listing.match_count == len(link.log_lines), "each line arrives once"
        assert status(pane) == "following · 6 lines · level debug+ · source all"
        await pilot.press("slash", *"orders.py", "enter")
        await pilot.pause()
        assert pane.listing.match_count == 2 and app.focused is pane.listing
        assert "2 of 6 lines" in status(pane) and status(pane).endswith("with orders.py")
        await pilot.press("escape")
        await pilot.pause()
        assert not pane.has_class("-filtering")
        counts = []
        for level in ("debug", "info", "notice", "warning", "error"):
            await choose_level(pilot, pane, level)
            counts.append(pane.listing.match_count)
        assert counts == [6, 5, 3, 3, 1]
        pane.query_one(LogList).lines = [line for line in link.log_lines if rank(line.level) < rank("notice")]
        await choose_level(pilot, pane, "notice")
        assert "level notice+" in status(pane) and not pane.listing.match_count
        assert "level notice and above.\nEsc shows all" in str(pane.query_one(".empty", Static).content)
        assert "v l level" in app.main.query_one(DeskFooter).render().plain
        await choose_level(pilot, pane, "debug")
        assert "level debug+" in status(pane) and pane.listing.match_count


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keys", "lines", "said"), [("/zzz\n", 6, "Esc shows all"), ("", 0, "print(), logging")]
)
async def test_where_nothing_is_shown_it_says_why(keys: str, lines: int, said: str) -> None:
    link = quiet_link()
    link.log_lines = link.log_lines[:lines]
    async with running_frame(link) as (app, pilot):
        pane = await shown(app, pilot)
        await pilot.press(*({"/": "slash", "\n": "enter"}.get(key, key) for key in keys))
        await pilot.pause()
        empty = pane.query_one(".empty", Static)
        assert empty.display and said in str(empty.content)


@pytest.mark.slow
async def test_one_source_can_be_picked() -> None:
    async with running_frame() as (app, pilot):
        pane = await shown(app, pilot)
        await pilot.press("v", "s")
        assert isinstance(app.screen, Menu)
        assert [choice.label for choice in app.screen.choices] == [
            "all sources", "orders", "print", "server", "stderr",
        ]  # fmt: skip
        await pilot.press("down", "enter")
        await pilot.pause()
        assert pane.listing.match_count == 2
        await pilot.press("v", "s", "enter")
        await pilot.pause()
        assert pane.listing.match_count == 6


@pytest.mark.slow
async def test_enter_shows_the_whole_text_and_escape_hides_it() -> None:
    async with running_frame() as (app, pilot):
        pane = await shown(app, pilot)
        await pilot.press("enter")
        await pilot.pause()
        text = str(pane.query_one("VerticalScroll Static", Static).content)
        assert pane.has_class("-detail") and "KeyError: 'sku'" in text and "tools/orders.py:52" in text
        await pilot.press("k")
        await pilot.pause()
        assert "left-pad" in str(pane.query_one("VerticalScroll Static", Static).content)
        await pilot.press("escape")
        assert not pane.has_class("-detail") and "not following" in status(pane)
        await pilot.press("f")
        assert pane.listing.following


@pytest.mark.slow
async def test_details_are_empty_while_a_filter_hides_every_line() -> None:
    async with running_frame() as (app, pilot):
        pane = await shown(app, pilot)
        await pilot.press("enter", "slash", *"zzz", "enter")
        await pilot.pause()
        detail = pane.query_one("VerticalScroll Static", Static)
        assert not pane.listing.match_count and pane.has_class("-detail") and str(detail.content) == ""
        await pilot.press("slash", *["backspace"] * 3, "enter")
        await pilot.pause()
        assert pane.listing.match_count and "orders.py" in str(detail.content)


@pytest.mark.slow
async def test_secrets_are_masked_in_the_list_in_full_and_when_copied() -> None:
    link = quiet_link()
    link.log_lines = [entry(0, text="said nothing"), entry(1, text="the password: hunter2\napi_key: s3cret")]
    async with running_frame(link) as (app, pilot):
        pane = await shown(app, pilot)
        await pilot.press("enter", "y", "t")
        await pilot.pause()
        text = str(pane.query_one("VerticalScroll Static", Static).content)
        drawn = "".join(screen_lines(app))
        assert "password" in drawn and "api_key" in text and "password" in app.clipboard
        for told in (drawn, text, app.clipboard):
            assert "hunter2" not in told and "s3cret" not in told


@pytest.mark.slow
async def test_shown_lines_are_exported_masked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    link = quiet_link()
    link.log_lines = [entry(0, text="nothing"), entry(1, text="the password: hunter2\nand more")]
    async with running_frame(link) as (app, pilot):
        await shown(app, pilot)
        await pilot.press("slash", *"password", "enter")
        for key, ending in (("t", "log"), ("j", "jsonl")):
            await pilot.press("w", key)
            await until(lambda: isinstance(app.screen, PathPrompt) and app.screen.is_mounted, pilot)
            await pilot.press("enter")
            await until(lambda: app.screen is app.main, pilot)
            await app.workers.wait_for_complete()
            (file,) = tmp_path.glob(f"mcpdesk-log-*.{ending}")
            assert f"1 line written to {file}" in toasts(app)[-1]
            written = file.read_text()
            assert "password" in written and "hunter2" not in written and "nothing" not in written
            assert file.stat().st_mode & 0o077 == 0
        assert json.loads(written)["message"].endswith("\nand more")


@pytest.mark.slow
async def test_only_new_lines_are_shown_until_escape() -> None:
    link = quiet_link()
    link.log_lines = [entry(0, text="an old line")]
    async with running_frame(link) as (app, pilot):
        pane = await shown(app, pilot)
        await pilot.press("v", "n")
        await until(lambda: "No new lines yet. Esc shows all." in "".join(screen_lines(app)), pilot)
        assert "only new lines" in status(pane)
        link.log_lines.append(entry(1, text="a fresh line"))
        app.main.refresher.refresh()
        await until(lambda: "a fresh line" in "".join(screen_lines(app)), pilot)
        assert [line.number for line in pane.listing.entries] == [1]
        await pilot.press("escape")
        await until(lambda: "an old line" in "".join(screen_lines(app)), pilot)


@pytest.mark.slow
async def test_all_shown_lines_are_copied_or_paged(monkeypatch: pytest.MonkeyPatch) -> None:
    pages: list[tuple[str, str]] = []
    threads: list[threading.Thread] = []

    def text_of(lines: list[LogLine]) -> str:
        threads.append(threading.current_thread())
        return as_text(lines)

    monkeypatch.setattr("mcpdesk.tui.screens.logs.page", lambda _, text, name: pages.append((text, name)))
    monkeypatch.setattr("mcpdesk.tui.screens.logs.as_text", text_of)
    link = quiet_link()
    link.log_lines = [entry(0, text="one"), entry(1, text="two")]
    async with running_frame(link) as (app, pilot):
        await shown(app, pilot)
        await pilot.press("y")
        await until(lambda: "shown lines" in "".join(screen_lines(app)), pilot)
        assert not threads, "many lines take seconds"
        await pilot.press("a")
        await until(lambda: [line[-3:] for line in app.clipboard.splitlines()] == ["one", "two"], pilot)
        await pilot.press("o")
        await until(lambda: pages == [(app.clipboard, "log.txt")], pilot)
    assert len(threads) == 2 and threading.main_thread() not in threads


@pytest.mark.slow
async def test_copy_menu_offers_text_line_and_place() -> None:
    async with running_frame() as (app, pilot):
        await shown(app, pilot)
        for key, end in (("t", "KeyError: 'sku'"), ("p", "tools/orders.py:52"), ("l", "KeyError: 'sku'")):
            await pilot.press("y", key)
            await pilot.pause()
            assert app.clipboard.endswith(end)


def entry(
    number: int, level: str = "info", source: str = "server", text: str = "said", where: str = ""
) -> LogLine:
    return LogLine(number, 1_700_000_000.5 + number, level, source, text, where)


class ListApp(App[None]):
    """A list alone."""

    def compose(self) -> ComposeResult:
        yield LogList(lambda connection: f"client-{connection}")


@pytest.mark.parametrize(
    ("wanted", "admitted"),
    [
        (LogFilter(), [0, 1, 2, 3]),
        (LogFilter(level="warning"), [1, 3]),
        (LogFilter(source="print"), [2]),
        (LogFilter(words=("tools/a.py",)), [1]),
        (LogFilter(words=("oops", "stderr")), [3]),
        (LogFilter(level="critical"), []),
    ],
)
def test_filter_admits(wanted: LogFilter, admitted: list[int]) -> None:
    lines = [
        entry(0),
        entry(1, "warning", where="tools/a.py:3"),
        entry(2, "strange", "print"),
        entry(3, "error", "stderr", "OOPS"),
    ]
    assert [line.number for line in lines if wanted.admits(line)] == admitted
    assert rank("strange") == rank("info")


async def test_new_lines_are_followed_until_one_goes_up() -> None:
    app = ListApp()
    async with driven(app, size=(80, 10)) as pilot:
        rows = app.query_one(LogList)
        rows.focus()
        rows.extend([entry(n) for n in range(30)])
        await pilot.pause()
        assert rows.following and rows.cursor == 29 and rows.scroll_offset.y == 20
        await pilot.press("k", "k")
        assert not rows.following
        rows.extend([entry(n) for n in range(30, 60)])
        await pilot.pause()
        assert rows.cursor == 27 and rows.scroll_offset.y == 20
        await pilot.press("G")
        assert rows.following
        rows.extend([entry(60)])
        assert rows.cursor == 60


def number_of(rows: LogList) -> int:
    return rows.selected.number if rows.selected else -1


async def test_selected_line_stays_selected_when_the_filter_changes() -> None:
    app = ListApp()
    async with driven(app, size=(80, 10)) as pilot:
        rows = app.query_one(LogList)
        rows.focus()
        rows.extend([entry(n, "error" if n % 3 == 0 else "info") for n in range(30)])
        await pilot.press("home", "j", "j", "j")
        assert number_of(rows) == 3
        rows.set_filter(LogFilter(level="error"))
        assert number_of(rows) == 3 and rows.row_count == 10
        rows.set_filter(LogFilter())
        assert number_of(rows) == 3 and rows.row_count == 30
        rows.set_filter(LogFilter(words=("nothing",)))
        assert rows.selected is None


async def test_the_oldest_go_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_list, "MAX_LINES", 100)
    app = ListApp()
    async with driven(app, size=(80, 10)) as pilot:
        rows = app.query_one(LogList)
        rows.focus()
        rows.extend([entry(n) for n in range(100)])
        await pilot.press("k")
        rows.extend([entry(n) for n in range(100, 105)])
        assert len(rows.lines) == 80 and rows.rows[0].number == 25 and number_of(rows) == 98


async def test_lines_of_several_replicas_are_in_order_of_time_whenever_they_come() -> None:
    """Replicas are joined one after the other, each with its past, and report a moment late."""

    def said(number: int, second: float, replica: str, level: str = "info") -> LogLine:
        return LogLine(number, 1_700_000_000 + second, level, "server", f"{replica}-{second:g}", core=replica)

    app = ListApp()
    async with driven(app, size=(80, 10)) as pilot:
        rows = app.query_one(LogList)
        rows.focus()
        rows.set_filter(LogFilter(level="warning"))
        rows.extend([said(n, n, "a", "warning" if n % 2 else "info") for n in range(10)])
        rows.extend([said(n, n - 9.5, "b", "error") for n in range(10, 20)])
        assert [line.time for line in rows.lines] == sorted(line.time for line in rows.lines)
        assert [row.text for row in rows.entries[:4]] == ["b-0.5", "a-1", "b-1.5", "b-2.5"]
        assert rows.match_count == len(rows.entries) == 15 and rows.following
        await pilot.press("k")
        chosen = rows.selected
        assert chosen is not None and chosen.text == "a-9"
        rows.extend([said(20, 3.2, "c", "error"), said(21, 30, "a", "warning")])
        assert rows.selected is chosen
        rows.set_filter(LogFilter())
        assert len(rows.entries) == rows.match_count == 22 and rows.selected is chosen
        assert [row.text for row in rows.entries][-3:] == ["a-9", "b-9.5", "a-30"]


@pytest.mark.parametrize("width", [20, 40, 69, 70, 90, 200])
async def test_lines_fit_and_say_level_with_a_glyph(width: int) -> None:
    app = ListApp()
    async with driven(app, size=(width, 5)):
        rows = app.query_one(LogList)
        rows.extend([entry(1, "error", "a long logger's name", "first\nsecond\nthird [b]語", "tools/x.py:3")])
        rows.fold(True)
        text = "".join(part for part, _ in rows.spans(0, width))
        assert "✕ error" in text
        assert rows.render_line(0).cell_length == width
        if width >= 90:
            assert text.endswith("tools/x.py:3 ") and "(+2 lines)" in text


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("\x1b[31mred\x07", "␛[31mred␇"),
        ("one\ntwo\n", "one (+1 line)"),
        (
            '  File "/s/a.py", line 3, in pay\n    fail()\nHandlerError: no money',
            "HandlerError: no money (+2 lines)",
        ),
        ('  File "/s/a.py", line 3', 'File "/s/a.py", line 3'),
        (
            "╭─ Traceback (most recent call last) ─╮\n│ weather.py:30 │\n╰───╯\nKeyError: 'Ys'",
            "KeyError: 'Ys' (+3 lines)",
        ),
    ],
)
async def test_of_a_stack_the_row_says_what_happened(words: str, told: str) -> None:
    app = ListApp()
    async with driven(app, size=(80, 10)):
        rows = app.query_one(LogList)
        rows.extend([entry(0, "error", text=words)])
        rows.fold(True)
        assert "".join(part for part, _ in rows.spans(0, 80)).split(maxsplit=4)[-1].rstrip() == told


async def test_the_lines_of_an_error_are_unfolded_and_the_cursor_passes_over_them() -> None:
    app = ListApp()
    async with driven(app, size=(80, 12)) as pilot:
        rows = app.query_one(LogList)
        rows.focus()
        stack = 'File "/s/a.py", line 3, in pay\n    fail()\nHandlerError: no money'
        rows.extend([entry(0), entry(1, "error", text=stack), entry(2, text="one\ntwo")])
        shown = ["".join(part for part, _ in rows.spans(at, 80)).rstrip() for at in range(rows.row_count)]
        assert shown[1].endswith("HandlerError: no money") and shown[2].endswith("line 3, in pay")
        assert shown[3].endswith("│     fail()") and shown[4].endswith("one (+1 line)") and len(shown) == 5
        await pilot.press("k")
        assert number_of(rows) == 1 and not rows.following
        rows.fold(True)
        assert rows.row_count == 3 and number_of(rows) == 1
        await pilot.press("j")
        rows.fold(False)
        assert rows.row_count == 4
        await pilot.press("k", "j")
        assert rows.following
        await pilot.press("k", "k")
        assert number_of(rows) == 0
        await pilot.press("k")
        assert number_of(rows) == 0


async def test_equal_tracebacks_are_one_folded_entry_with_their_number() -> None:
    app = ListApp()
    async with driven(app, size=(80, 12)) as pilot:
        rows = app.query_one(LogList)
        rows.focus()
        stack = 'File "/s/a.py", line 3, in pay\n    fail()\nHandlerError: no money'

        def shown() -> list[str]:
            return ["".join(part for part, _ in rows.spans(at, 80)).rstrip() for at in range(rows.row_count)]

        rows.extend([entry(0, "error", text=stack), entry(1), entry(2, "error", "other", stack)])
        assert rows.row_count == 5, "two sources have two entries, of which the newest is unfolded"
        assert shown()[0].endswith("(+2 lines)") and shown()[-1].endswith("│     fail()")
        rows.extend([entry(3), entry(4, "error", text=stack), entry(5, "error", text=stack)])
        assert len(shown()) == 6 and shown()[-3].endswith("×3 HandlerError: no money")
        assert "other" in shown()[1] and shown()[1].endswith("(+2 lines)"), "the older one is folded"
        assert rows.match_count == 6 and len(rows.entries) == 6 and number_of(rows) == 5
        rows.fold(True)
        assert len(shown()) == 4 and shown()[-1].endswith("(+2 lines)")
        rows.extend([entry(6, "error", text=stack)])
        assert len(shown()) == 4 and "×4 HandlerError" in shown()[-1], "the person's choice is kept"
        assert number_of(rows) == 6, "the cursor goes with the entry"
        rows.set_filter(LogFilter(source="other"))
        assert rows.row_count == 3 and "×" not in "".join(shown())
        await pilot.press("G")
        assert rows.following


async def test_a_traceback_that_a_person_reads_stays_unfolded() -> None:
    app = ListApp()
    async with driven(app, size=(80, 12)) as pilot:
        rows = app.query_one(LogList)
        rows.focus()
        stack = 'File "/s/a.py", line 3, in pay\n    fail()\nHandlerError: '
        rows.extend([entry(0), entry(1, "error", text=stack + "first"), entry(2)])
        await pilot.press("k")
        assert not rows.following and rows.row_count == 5
        rows.extend([entry(3, "error", text=stack + "second")])
        assert rows.row_count == 6, "the new one is folded"
        await pilot.press("G")
        rows.extend([entry(4, "error", text=stack + "third")])
        assert rows.row_count == 7 and number_of(rows) == 4, "while following, only the newest is unfolded"


async def test_a_failure_that_is_logged_and_raised_has_one_entry() -> None:
    app = ListApp()
    async with driven(app, size=(80, 12)):
        rows, number = app.query_one(LogList), count()
        stack = 'File "/s/a.py", line 3, in pay\n    fail()\nValueError: no money'

        def failure(identifier: int) -> list[LogLine]:
            logged = f"it failed\nTraceback (most recent call last):\n{stack}"
            made = [
                entry(next(number), "error", "root", logged),
                entry(next(number), "error", "pay", "failed: no money"),
                entry(next(number), "error", "pay", "something else"),
                entry(next(number), "error", "pay", stack),
            ]
            return [msgspec.structs.replace(each, call=(1, identifier)) for each in made]

        def heads() -> list[str]:
            rowed = ["".join(part for part, _ in rows.spans(at, 80)).rstrip() for at in range(rows.row_count)]
            return [each for each in rowed if "│" not in each]

        first = failure(1)
        rows.extend(first)
        assert len(heads()) == 2 and heads()[-1].endswith("ValueError: no money")
        assert rows.reports[first[-1].number] == first[:2], "the details have the other reports"
        assert rows.entry_of(first[0]) is first[-1] and rows.match_count == 4
        second, third = failure(2), failure(3)
        rows.extend([*second[:3], *third[:3]])
        rows.extend([second[3], third[3]])
        assert len(heads()) == 4 and "×3 ValueError" in heads()[-1], "each call is counted once"
        rows.set_filter(LogFilter(source="root"))
        assert len(heads()) == 1 and "×3" in heads()[0]


async def test_a_line_names_its_server_and_its_caller_if_there_are_several() -> None:
    app = ListApp()
    async with driven(app, size=(160, 12)):
        rows = app.query_one(LogList)
        mine = msgspec.structs.replace(entry(0), server="orders", call=(7, 42))
        rows.extend([mine])
        assert " orders " not in "".join(part for part, _ in rows.spans(0, 160)), "it is the only server"
        rows.extend([msgspec.structs.replace(entry(1), server="billing-with-a-very-long-name")])
        line = "".join(part for part, _ in rows.spans(0, 160))
        assert " orders " in line and "client-7 #42" in line
        narrow = "".join(part for part, _ in rows.spans(0, 80))
        assert " orders " in narrow and "client-7" not in narrow and cell_len(narrow.rstrip()) <= 80


async def test_of_a_long_error_its_first_lines_and_the_last_are_shown() -> None:
    app = ListApp()
    async with driven(app, size=(80, 12)):
        rows = app.query_one(LogList)
        rows.extend([entry(0, "error", text="\n".join(f"line {n}" for n in range(100)))])
        shown = ["".join(part for part, _ in rows.spans(at, 80)).rstrip() for at in range(rows.row_count)]
        assert len(shown) == 1 + MAX_UNFOLDED_ROWS and shown[-3].endswith("│ line 28")
        assert shown[-2].endswith("│ … 70 more lines: enter") and shown[-1].endswith("│ line 99")


@pytest.mark.slow
async def test_a_rejected_call_is_logged_as_its_own() -> None:
    async with running_desk(sample_servers() / "hello") as desk:
        called = desk.request("hello", "tools/call", {"name": "greet", "arguments": {}})
        assert (await asyncio.wrap_future(called.outcome)).result is not None
        [line] = [line for line in desk.logs() if line.call is not None]
        assert (line.level, line.source, line.server) == ("notice", "greet", "hello")
        assert re.match(r"Invalid arguments for greet: .*\bname\b", line.text)


@pytest.mark.slow
async def test_from_a_line_to_its_call_and_back() -> None:
    """A line that names its call leads to it; any other leads to the exchange that ran at its time."""
    link = quiet_link()
    recording = Recording(None)
    recording.connect(connection(1))
    recording.frame(1, IN, call(1, "echo"), at=100.0)
    recording.frame(1, OUT, text(1, "x"), at=101.0)
    recording.frame(1, IN, call("two", "pay"), at=102.0)
    recording.frame(1, OUT, text("two", "x"), at=104.0)
    link.traffic = recording.index
    link.log_lines = [
        LogLine(0, 100.5, "info", "print", "early", server="profiles"),
        LogLine(1, 103.0, "info", "pay", "late", server="profiles", call=(1, "two")),
        LogLine(2, 110.0, "info", "server", "later", server="profiles"),
    ]
    async with running_frame(link, panes={**STUBS, "traffic": PANES["traffic"]}) as (app, pilot):
        pane = await shown(app, pilot)
        for cursor, number in ((1, 1), (0, 0)):
            await pilot.press("escape")
            pane.listing.cursor = cursor
            await pilot.press("g", "t")
            await pilot.pause()
            traffic = app.main.query_one(TrafficPane)
            assert app.main.shown == "traffic" and traffic.detail.shown_exchange is not None
            assert traffic.detail.shown_exchange.number == number
            await pilot.press("g", "l")
            await pilot.pause()
            assert app.main.shown == "logs" and pane.listing.selected is link.log_lines[cursor]
            assert pane.listing.match_count == (1 if number else 3)
        pane.listing.cursor = 2
        await pilot.press("g", "t")
        await pilot.pause()
        assert app.main.shown == "logs" and "no client's call ran then" in toasts(app)[-1]
        link.log_lines.clear()
        await pilot.press("2", "g", "l")
        await pilot.pause()
        assert app.main.shown == "traffic" and "Nothing was logged" in toasts(app)[-1]


@pytest.mark.slow
async def test_what_was_logged_when_is_drawn_by_level_and_a_click_goes_there() -> None:
    async with running_frame(size=(120, 40)) as (app, pilot):
        pane = await shown(app, pilot)
        chart = pane.query_one(LogHistogram)
        await until(lambda: " a bar" in chart.render().plain, pilot)
        drawn = chart.render()
        bars = drawn.plain[CLOCK_CELLS : -len(" 12:03:40 · 450 ms a bar")]
        assert len(bars) - bars.count(" ") == 6 and drawn.plain.endswith(" a bar")
        styles = [str(span.style) for span in drawn.spans]
        assert sum("warning" in style for style in styles) == 2
        assert sum("error" in style for style in styles) == 1
        place = CLOCK_CELLS + bars.index("█", 1)
        await pilot.click(chart, offset=(place, 0))
        await pilot.pause()
        assert pane.listing.selected is not None and pane.listing.selected.number == 1
        assert not pane.listing.following
        await pilot.resize_terminal(80, 24)
        await pilot.pause()
        assert not chart.display, "a low screen has no row for it"


def test_the_bars_of_a_histogram_count_every_entry_and_know_the_worst() -> None:
    lines = [
        LogLine(at, 100.0 + at, level, "s", "t") for at, level in enumerate(["info", "error", "warning"])
    ]
    assert bars_of(lines, LogHistogram.severities, 2) == [Bar(1, 0), Bar(2, 2)]
    assert bars_of(lines[:1], LogHistogram.severities, 3) == [Bar(1, 0), Bar(), Bar()]
    assert bars_of([], LogHistogram.severities, 3) == []


@pytest.mark.slow
async def test_errors_words_and_times_are_gone_to_without_hiding_the_others() -> None:
    async with running_frame() as (app, pilot):
        pane = await shown(app, pilot)

        def number() -> int:
            return pane.listing.selected.number if pane.listing.selected else -1

        await pilot.press("home", "right_square_bracket", "e")
        assert number() == 5
        await pilot.press("left_square_bracket", "e")
        assert number() == 5 and toasts(app)[-1] == "No other error."
        await pilot.press("home", "n")
        assert number() == 0 and "Filter by some words first" in toasts(app)[-1]
        await pilot.press(
            "slash", *"profiles:", "enter", "escape", "home", "slash", *"tools", "enter", "escape"
        )
        await pilot.pause()
        assert pane.listing.match_count == 6
        await pilot.press("home")
        visited = []
        for key in ("n", "n", "n", "n", "N"):
            await pilot.press(key)
            visited.append(number())
        assert visited == [1, 2, 3, 5, 3]
        await pilot.press("n", "n")
        assert number() == 0 and toasts(app)[-1] == "No line with these words below: continued from the top."
        times = [clock(line.time)[:8] for line in pane.listing.lines]
        for text, found in ((times[2], 2), (times[5], 5), ("2h", 0)):
            await pilot.press("g", "n", *("colon" if char == ":" else char for char in text), "enter")
            await pilot.pause()
            assert number() == found, text
        await pilot.press("g", "n", *"later", "enter")
        await pilot.pause()
        assert "a time is a span like 30s" in toasts(app)[-1] and number() == 0
