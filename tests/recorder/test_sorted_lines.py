"""Lines stay sorted by a column while others arrive, change or are removed."""

from __future__ import annotations

from itertools import pairwise

import pytest

from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.index import sorted_lines
from mcpdesk.recorder.index.query import parse
from mcpdesk.recorder.index.sorted_lines import SortedLines
from mcpdesk.recorder.index.traffic_index import Index
from mcpdesk.recorder.index.view import View
from mcpdesk.tui.traffic.line_columns import SORT_KEYS, sorted_by
from tests.support.patience import wait_until
from tests.support.traffic import IN, OUT, call, connection, mixed_traffic, settle, text


def value(index: Index, line: int, column: str) -> object:
    """A value by column; lines with equal values are equal in that column."""
    exchange = index.exchange(line)
    if column == "took":
        return exchange.elapsed(0.0)
    if column == "what":
        return exchange.method, exchange.name
    return str(exchange.id) if column == "id" else getattr(exchange, column)


NOW = 4e9
"""Unix time in seconds of the test's clock; later than all frames."""


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorted_lines, "_BLOCK_LINES", 16)
    monkeypatch.setattr(sorted_lines, "_MIN_MOVE_PERIOD_S", 0.0)
    monkeypatch.setattr(sorted_lines, "time", lambda: NOW)


def recorded(count: int, seed: int = 1) -> Recording:
    recording = Recording(None)
    for number in (1, 2, 3):
        revision = ("2025-06-18", "2025-11-25")[number % 2]
        recording.connect(connection(number, f"client {number % 2}", revision=revision))
    mixed_traffic(recording, count, seed)
    settle(recording)
    return recording


def finish(lines: SortedLines) -> list[int]:
    """The lines in order, once all of them are."""
    while lines.advance(0.0) and lines.done < 1:
        pass
    lines.advance(5.0)
    return list(lines.lines)


def check(recording: Recording, view: View, column: str, is_descending: bool, lines: SortedLines) -> None:
    """The lines are those of the view, in the order a sort of all of them at once gives."""
    got = finish(lines)
    fresh = finish(sorted_by(column, view, recording.index, is_descending))
    assert sorted(got) == list(view.lines)
    assert got == fresh
    assert [lines.position(line) for line in got] == list(range(len(got)))
    assert [lines.lines[at] for at in range(len(got))] == got and lines.lines[-1] == got[-1]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("is_descending", [True, False])
@pytest.mark.parametrize("column", SORT_KEYS)
def test_lines_are_in_order_and_equal_ones_as_they_came(column: str, is_descending: bool) -> None:
    recording = recorded(400)
    index, view = recording.index, View(recording.index)
    got = finish(sorted_by(column, view, recording.index, is_descending))
    assert sorted(got) == list(view.lines)
    seen = set[object]()
    for before, line in pairwise(got):
        here, earlier = value(index, line, column), value(index, before, column)
        if earlier == here:
            assert before < line
        else:
            assert here not in seen  # equal lines are adjacent
        seen.add(earlier)
    if column in ("size", "what", "peer", "revision"):
        assert [value(index, line, column) for line in got] == sorted(
            (value(index, line, column) for line in got),
            reverse=is_descending,  # type: ignore[type-var]
        )


@pytest.mark.sampled(4)
@pytest.mark.parametrize("query", ["", "status:error", "status:pending", "words", "not tool:a"])
@pytest.mark.parametrize("column", ["took", "size", "status", "id"])
def test_what_comes_changes_or_leaves_finds_its_place(column: str, query: str) -> None:
    recording = recorded(60)
    view = View(recording.index, parse(query, 0.0))
    lines = sorted_by(column, view, recording.index)
    for seed in range(2, 8):
        for _ in range(3):  # some of it while the lines are still being dealt out
            lines.advance(0.0)
            view.advance(0.0)
        mixed_traffic(recording, 60, seed)
        settle(recording)
        while view.advance(5.0):
            pass
        check(recording, view, column, SORT_KEYS[column].largest_first, lines)


def test_dropped_lines_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcpdesk.recorder.capture.recording._MIN_KEPT_EXCHANGES", 200)
    recording = recorded(150)
    view = View(recording.index)
    lines = sorted_by("size", view, recording.index)
    for seed in range(2, 8):
        mixed_traffic(recording, 150, seed)
        settle(recording)
        check(recording, view, "size", True, lines)
    assert recording.index.table.base > 200


def test_a_name_that_is_told_late_sorts_anew() -> None:
    recording = Recording(None)
    for number, peer in ((1, ""), (2, "middle"), (3, "zebra")):
        recording.connect(connection(number, peer))
    for number in range(300):
        recording.frame(number % 3 + 1, IN, call(number, "a"))
    settle(recording)
    lines = sorted_by("peer", View(recording.index), recording.index)
    assert finish(lines)[0] == 0
    recording.connect(connection(1, "yak"))
    order = finish(lines)
    assert order[:100] == list(range(1, 300, 3)) and order[100:200] == list(range(0, 300, 3))


def test_nothing_new_comes_in_during_a_pause_and_everything_after_it() -> None:
    recording = recorded(50)
    view = View(recording.index)
    lines = sorted_by("size", view, recording.index)
    before = finish(lines)
    view.hold()
    recording.frame(1, IN, call("last", "a", {"long": "x" * 100_000}))
    settle(recording)
    assert finish(lines) == before
    view.release()
    assert finish(lines)[1:] == before


def test_until_all_are_dealt_out_the_share_is_told_and_a_new_order_keeps_the_old_one_up() -> None:
    recording = recorded(100)
    view = View(recording.index)
    lines = sorted_by("size", view, recording.index)
    assert lines.done == 0 and not lines.lines
    lines.advance(0.0)
    assert 0 < lines.done < 1 and len(lines.lines) == 16
    assert lines.position(view.lines[-1]) == len(lines.lines)
    count = len(finish(lines))
    for seed in range(2, 12):  # far more than there were: they are dealt out by other bounds
        mixed_traffic(recording, 100, seed)
    settle(recording)
    while lines.done < 1:
        assert len(lines.lines) >= count
        lines.advance(0.0)
    check(recording, view, "size", True, lines)


def test_what_waits_for_an_answer_moves_as_time_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = Recording(None)
    recording.frame(1, IN, call(1, "a"), at=NOW - 10)
    recording.frame(1, OUT, text(1, "x"), at=NOW - 5)
    recording.frame(1, IN, call(2, "a"), at=NOW - 1)
    settle(recording)
    lines = sorted_by("took", View(recording.index), recording.index)
    assert finish(lines) == [0, 1]
    monkeypatch.setattr(sorted_lines, "time", lambda: NOW + 60)
    wait_until(lambda: finish(lines) == [1, 0])


def test_a_call_moves_when_it_is_answered() -> None:
    recording = Recording(None)
    for number in range(3):
        recording.frame(1, IN, call(number, "a"))
    settle(recording)
    lines = sorted_by("status", View(recording.index), recording.index)
    assert finish(lines) == [0, 1, 2]
    recording.frame(1, OUT, text(2, "no", is_error=True))
    recording.frame(1, OUT, text(0, "yes"))
    settle(recording)
    assert finish(lines) == [2, 1, 0]
