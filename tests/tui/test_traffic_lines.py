"""Lines of traffic fit their columns at every width and are complete without colour."""

from __future__ import annotations

from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.cells import cell_len
from textual.strip import Strip

from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.exchange_summary import Summary, summary
from mcpdesk.recorder.index.exchange import Exchange
from mcpdesk.recorder.record import BY_HAND, BY_MOCK, FAULT, HeldMark
from mcpdesk.tui.render.amounts import duration
from mcpdesk.tui.traffic.line_cells import Cell, preview
from mcpdesk.tui.traffic.line_columns import COLUMNS, columns_for
from mcpdesk.tui.traffic.traffic_lines import exchange_cells, frame_cells, heading
from tests.support.traffic import (
    IN,
    OPENED,
    OUT,
    asking_recording,
    asks,
    busy_recording,
    call,
    connection,
    error,
    request,
    result,
    settle,
    text,
)
from tests.tui.test_traffic_list import running


def joined(cells: list[Cell]) -> str:
    return "".join(text for text, _ in cells)


def names(width: int, *, raw: bool = False) -> list[str]:
    return [column.name for column in columns_for(width, raw=raw)]


def named(name: str) -> Exchange:
    return next(one for one in busy_recording().index.exchanges if one.name == name)


@given(st.integers(10, 300), st.booleans(), st.booleans())
def test_columns_fill_the_width_exactly(width: int, raw: bool, has_cores: bool) -> None:
    columns = columns_for(width, raw=raw, has_cores=has_cores)
    if width >= 24:
        assert sum(column.width for column in columns) + len(columns) - 1 == width
    assert cell_len(joined(heading(columns))) == sum(column.width + 1 for column in columns)


def test_columns_go_as_the_room_shrinks_and_the_message_stays() -> None:
    assert names(160)[-1] == "revision"
    assert [column.width for column in columns_for(160) if column.name == "revision"] == [20]
    assert "revision" not in names(90) and "revision" not in names(100, raw=True)
    assert [column.width for column in columns_for(150) if column.name == "revision"] == [10]
    assert {"id", "size"} < set(names(130))
    assert "id" not in names(118) and "size" in names(100)
    assert names(78) == ["mark", "peer", "way", "what", "status", "took"]
    assert names(30) == ["mark", "way", "what", "status"]
    assert names(100, raw=True) == ["mark", "time", "peer", "way", "bytes", "frame", "size"]


def test_a_peer_that_shows_the_core_stays_and_the_columns_beside_it_shrink() -> None:
    columns = {column.name: column.width for column in columns_for(62, has_cores=True)}
    assert columns["peer"] and columns["what"] >= 30
    assert "took" not in columns and columns["status"] == 2


def test_no_two_steps_of_shrinking_have_the_same_position() -> None:
    for raw in (False, True):
        shown = [column for column in COLUMNS if (column.frame if raw else column.exchange) is not None]
        steps = [step.position for column in shown for step in column.shrink_steps]
        assert len(steps) == len(set(steps)) and len(shown) == len({column.name for column in shown})
        for column in shown:
            widths = [
                column.width,
                *(step.width for step in sorted(column.shrink_steps, key=lambda one: one.position)),
            ]
            assert widths == sorted(widths, reverse=True)


def test_the_replica_has_a_column_or_stands_before_the_peer() -> None:
    exchange = replace(named("user-profile"), core="web-1")
    for width in (60, 78, 118, 160):
        columns = columns_for(width, has_cores=True)
        assert ("core" in [column.name for column in columns]) is (width > 100)
        line = joined(exchange_cells(exchange, columns, 0))
        assert "web-1" in line and ("web-1 desk" in line) is (width < 100)
        assert "✕ web-1" in joined(exchange_cells(exchange, columns, 0, ended_cores={"web-1"}))
    assert "web-1" not in joined(exchange_cells(exchange, columns_for(160), 0))
    pod = replace(exchange, core="mcpdesk-7d9f8b6c5-x2x4z")
    assert " …6c5-x2x4z " in joined(exchange_cells(pod, columns_for(160, has_cores=True), 0))
    assert " …c5-x2x4z desk" in joined(exchange_cells(pod, columns_for(78, has_cores=True), 0))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("user-profile", ["desk", "→", "tools/call user-profile", "#7", "✓ ok", "2026-07-28"]),
        ("slow-report", ["claude-code", "✗ tool error"]),
        ("file:///nowhere.txt", ["resources/read file:///nowhere.txt", "✗ protocol error"]),
        ("Bash", ["#six", "… pending", "3.0 s"]),
    ],
)
def test_a_line_says_what_happened(name: str, words: list[str]) -> None:
    exchange = named(name)
    line = joined(exchange_cells(exchange, columns_for(160), exchange.started + 3.0))
    assert all(word in line for word in words), line


@pytest.mark.parametrize(
    ("number", "width", "words"),
    [
        (0, 150, "tools/call book-flight 3 rounds · client "),
        (0, 30, "tools/call book-fli… ×3"),
        (3, 150, "tools/call plan-party ▸ 1 2 questions · client "),
        (7, 150, "tools/call paint-house 2 polls"),
        (7, 30, "tools/call paint-ho… ↻2"),
    ],
)
def test_what_belongs_to_an_operation_stands_behind_its_name(number: int, width: int, words: str) -> None:
    exchange = asking_recording().index.exchange(number)
    line = joined(exchange_cells(exchange, columns_for(width), 0))
    assert words in line, line
    assert cell_len(line) == width + 1


def test_a_held_message_is_told_in_its_line() -> None:
    held = partial(exchange_cells, named("user-profile"), now=0, is_held=True)
    assert "‖ held" in joined(held(columns_for(160))) and "✓" not in joined(held(columns_for(160)))
    narrow = joined(held(columns_for(40)))
    assert "‖" in narrow and "held" not in narrow


def test_a_call_that_waits_for_its_client_says_so_with_a_running_clock() -> None:
    recording = Recording(None)
    recording.connect(connection(1, revision="2026-07-28"))
    recording.frame(1, IN, call(1, "a"))
    recording.frame(1, OUT, asks(1, "s"))
    settle(recording)
    exchange = recording.index.exchange(0)
    assert exchange.asked_at is not None
    line = joined(exchange_cells(exchange, columns_for(160), exchange.asked_at + 3))
    assert "client 3.0 s" in line and "? asks" in line and "2026-07-28 stateless" in line
    assert " ?" in joined(exchange_cells(exchange, columns_for(30), exchange.asked_at))


def test_every_status_has_a_word_or_needs_none() -> None:
    lines = [joined(exchange_cells(one, columns_for(160), 0)) for one in busy_recording().index.exchanges]
    text = "\n".join(lines)
    for word in ("⊘ cancel", "! late", "✗ malformed", "not a JSON-RPC message", "⇢", "⇠"):
        assert word in text


def test_a_refused_opening_probe_is_grey_and_says_negotiation() -> None:
    recording = Recording(None)
    recording.connect(connection(1))
    recording.frame(1, IN, request(1, "server/discover", {}))
    recording.frame(1, OUT, error(1, -32601, "Method not found"))
    settle(recording)
    exchange = recording.index.exchange(0)
    for width in (60, 150):
        cells = exchange_cells(exchange, columns_for(width), 0, texts=summary(recording.index, exchange))
        assert "server/discover negotiation" in joined(cells) and "✗" not in joined(cells)
        assert {style for _, style in cells} == {"traffic--muted"}


def test_at_a_width_of_120_arguments_and_result_have_40_cells() -> None:
    said = Summary("a=" + "1" * 90, "2" * 90)
    line = joined(exchange_cells(named("user-profile"), columns_for(118), 0, texts=said))
    assert len(line.partition("user-profile ")[2].partition("✓")[0].rstrip()) >= 40


def test_the_checks_of_a_connection_are_grey_unless_they_fail() -> None:
    recording = Recording(None)
    recording.connect(connection(1))
    for number, method in enumerate(("initialize", "server/discover", "ping", "tools/list", "ping")):
        recording.frame(1, IN, request(number, method, {}))
        recording.frame(1, OUT, error(4, -32603, "no") if number == 4 else result(number))
    settle(recording)
    for exchange in recording.index.exchanges:
        styles = {style for _, style in exchange_cells(exchange, columns_for(118), 0)}
        assert (styles == {"traffic--muted"}) is (exchange.number < 3), exchange.method


def test_strangers_text_is_made_harmless_and_wide_letters_are_counted() -> None:
    recording = Recording(None)
    recording.connect(connection(1, "\x1b[31mred"))
    recording.frame(1, IN, call(1, "漢字" * 20 + "\x07[/b]"))
    settle(recording)
    for width in (30, 80, 150):
        line = joined(exchange_cells(recording.index.exchange(0), columns_for(width), 0, is_marked=True))
        assert line.isprintable() and "\x1b" not in line
        assert cell_len(line) == width + 1
        assert line.startswith("●")


def test_a_peer_loses_its_version_before_it_is_cut() -> None:
    line = joined(exchange_cells(named("slow-report"), columns_for(78), 0))
    assert "claude-code →" in line


def test_raw_frames_show_masked_bytes() -> None:
    recording = Recording(None)
    recording.frame(1, IN, b'{"password":"hunter2"}\n\x00\xff')
    frame = recording.index.frame(0)
    line = joined(frame_cells(frame, connection(), columns_for(140, raw=True), "2026-07-28"))
    assert "2026-07-28" in line
    assert "hunter2" not in line and "••••" in line and "⏎␀" in line
    assert "no longer" in joined(frame_cells(None, None, columns_for(120, raw=True)))


def test_a_preview_is_short_however_long_the_frame() -> None:
    assert len(preview(b"x" * 10_000_000)) < 1000


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 µs"),
        (0.00085, "850 µs"),
        (0.0031, "3.1 ms"),
        (0.0421, "42 ms"),
        (0.9994, "999 ms"),
        (1.24, "1.2 s"),
        (59.94, "59.9 s"),
        (125, "2:05 min"),
        (11_220, "3:07 h"),
    ],
)
def test_durations_are_short(seconds: float, text: str) -> None:
    assert duration(seconds) == text


async def test_a_line_shows_the_new_name_of_its_peer_and_the_cursor() -> None:
    recording = busy_recording()
    async with running(recording, size=(90, 20)) as (app, _):
        strips = app.listing._strips

        def draw() -> Strip:
            return strips.exchange(0, has_cursor=False, is_marked=False)

        strips.fit(90, False)
        assert draw().cell_length == 90
        recording.connect(connection(1, "renamed"))
        assert "renamed" in draw().text
        assert list(strips.exchange(0, has_cursor=True, is_marked=False)) != list(draw())


@pytest.mark.parametrize(
    ("how", "sign"), [("changed", "✎"), (f"delayed {FAULT} 3", "↯"), (BY_HAND, "✎"), (BY_MOCK, "M")]
)
async def test_a_line_begins_with_the_sign_of_what_changed_its_message(how: str, sign: str) -> None:
    recording = Recording(None)
    recording.connect(connection(1))
    recording.frame(1, IN, call(1, "refund"), at=OPENED)
    recording.mark(HeldMark(1, IN, 1, OPENED, 0.0, how, "{}"))
    settle(recording)
    async with running(recording) as (app, _):
        assert app.listing._strips.exchange(0, has_cursor=False, is_marked=False).text.startswith(sign)


async def test_a_pending_line_is_drawn_every_time() -> None:
    recording = busy_recording()
    async with running(recording) as (app, _):
        strips, number = app.listing._strips, recording.index.exchanges[-1].number
        strips.has_clock = False
        strips.exchange(number, has_cursor=False, is_marked=False)
        assert strips.has_clock
        recording.frame(1, OUT, text("six", "done"))
        settle(recording)
        strips.has_clock = False
        strips.exchange(number, has_cursor=False, is_marked=False)
        assert not strips.has_clock


@pytest.mark.slow
async def test_another_theme_draws_everything_anew() -> None:
    async with running(busy_recording(), size=(80, 20)) as (app, pilot):
        before = app.listing.render_line(1)
        app.theme = "textual-light"
        await pilot.pause()
        after = app.listing.render_line(1)
        assert before.text == after.text and list(before) != list(after)


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    ("said", "width", "shown"),
    [
        (Summary("a=1", "fine"), 140, " a=1 → fine "),
        (Summary("", "fine"), 140, " → fine "),
        (Summary("a=1", ""), 140, " a=1 "),
        (Summary("a=" + "1" * 90, "fine"), 78, "▸ 2 → fine "),
        (Summary("a=" + "1" * 90, "2" * 90), 100, "▸ 2 a=11111… → 22222222… "),
        (Summary("a=" + "1" * 90, "2" * 90), 140, "a=1111111111…11111 → 222222222222…"),
        (Summary("a=" + "1" * 90, "2" * 90), 190, "11 → 2222"),
        (Summary("a=" + "1" * 90, "KeyError: " + "2" * 90, True), 100, "→ KeyError: 22… "),
        (Summary("a=\x1b[2J", "b\nc"), 140, " a=␛[2J → b⏎c "),
        (Summary("a=1", "fine"), 24, "tools/call slow-… ✗ "),
        (Summary('article="lamp"', "4", values="lamp"), 140, ' article="lamp" → 4 '),
        (Summary('article="lamp"', "2" * 90, True, "lamp"), 110, " lamp → 222222222222"),
        (Summary('article="lamp"', "2" * 90, values="lamp"), 78, " lamp → 2"),
        (Summary('article="lamp"', "4", values="lamp"), 64, " lamp → 4 "),
    ],
)
def test_arguments_and_result_stand_in_what_is_left(said: Summary, width: int, shown: str) -> None:
    line = joined(exchange_cells(named("slow-report"), columns_for(width), 0, texts=said))
    assert shown in line, line
    assert cell_len(line) == width + 1
