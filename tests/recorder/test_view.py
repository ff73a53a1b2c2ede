"""A view stays right while exchanges come, change, and are held back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.index.query import parse
from mcpdesk.recorder.index.view import View
from tests.support.traffic import (
    IN,
    OUT,
    asking_recording,
    asks,
    busy_recording,
    call,
    progress,
    request,
    retry,
    settle,
    text,
)


def view_of(recording: Recording, query: str = "", *, raw: bool = False) -> View:
    view = View(recording.index, parse(query, 0.0), raw=raw)
    grow(recording, view)
    return view


def grow(recording: Recording, view: View) -> list[int]:
    settle(recording)
    while view.advance(5):
        pass
    return list(view.lines)


def test_without_a_filter_all_exchanges_are_lines_at_once() -> None:
    recording = busy_recording()
    view = view_of(recording)
    folded = {row for line in view.lines for row in recording.index.folded_in(line)}
    assert sorted({*view.lines, *folded}) == list(range(len(recording.index.exchanges)))
    assert len(folded) == 4 and view.done == 1 and not view.advance()


def test_an_exchange_comes_and_goes_with_its_status() -> None:
    recording = Recording(None)
    recording.frame(1, IN, call(1, "a"))
    recording.frame(1, IN, call(2, "b"))
    pending, failed = view_of(recording, "status:pending"), view_of(recording, "status:error")
    assert (list(pending.lines), list(failed.lines)) == ([0, 1], [])
    recording.frame(1, OUT, text(1, "x", is_error=True))
    assert (grow(recording, pending), grow(recording, failed)) == ([1], [0])


def test_an_exchange_matches_by_a_response_that_comes_much_later() -> None:
    recording = Recording(None)
    recording.frame(1, IN, call(1, "a"))
    for number in range(2, 400):
        recording.frame(1, IN, call(number, "b"))
    view = view_of(recording, "needle")
    assert not view.lines
    recording.frame(1, OUT, text(1, "a NEEDLE in it"))
    assert grow(recording, view) == [0]


@pytest.mark.parametrize("query", ["since:1m", "not since:1m"])
@pytest.mark.parametrize("raw", [False, True])
def test_what_began_within_a_span_moves_on_with_time(
    query: str, raw: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1_000.0
    monkeypatch.setattr("mcpdesk.recorder.index.view.time", lambda: now)
    recording = Recording(None)
    for number in range(6):
        recording.frame(1, IN, call(number, "a", _meta={"progressToken": number}), at=900.0 + 20 * number)
        recording.frame(1, OUT, progress(number, 1), at=901.0 + 20 * number)
        recording.frame(1, OUT, text(number, "x"), at=902.0 + 20 * number)
    view = view_of(recording, query, raw=raw)
    table = recording.index.table
    frames = range(recording.index.frame_count)

    def shown(since: float) -> list[int]:
        rows = [frame // 3 * 2 + (frame % 3 == 1) for frame in frames] if raw else range(0, 12, 2)
        lines = frames if raw else rows
        inside = query.startswith("since")
        return [
            line for line, row in zip(lines, rows, strict=True) if (table.started[row] >= since) is inside
        ]

    assert list(view.lines) == shown(940.0)
    for now in (1_010.0, 1_030.0, 1_100.0):
        view.advance(5)
        assert list(view.lines) == shown(now - 60), now


def test_what_is_slow_is_so_among_all_there_are_now() -> None:
    recording = Recording(None)

    def answered(count: int, took: float) -> None:
        for _ in range(count):
            number = recording.frames
            recording.frame(1, IN, call(number, "inventory"), at=100.0 + number)
            recording.frame(1, OUT, text(number, "x"), at=100.0 + number + took)

    answered(30, 0.001)
    answered(1, 0.6)
    view = view_of(recording, "status:slow")
    assert list(view.lines) == [30] and recording.index.exchange(30).is_slow
    answered(20, 0.601)
    assert grow(recording, view) == [] and not any(one.is_slow for one in recording.index.exchanges)


def test_a_pending_call_becomes_long_by_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = Recording(None)
    recording.frame(1, IN, call(1, "a"))
    view = view_of(recording, ">5s")
    assert not view.lines
    monkeypatch.setattr("mcpdesk.recorder.index.view.time", lambda: recording.index.exchange(0).started + 6)
    view.advance()
    assert list(view.lines) == [0]


def test_held_views_take_nothing_in_and_count_it() -> None:
    recording = busy_recording()
    for query, raw in (("", False), ("tool:e", False), ("tool:e", True)):
        view = view_of(recording, query, raw=raw)
        before = list(view.lines)
        view.hold()
        recording.frame(1, IN, call(900, "late-one"))
        recording.frame(1, OUT, text(900, "x"))
        assert grow(recording, view) == before
        assert view.held_back == (2 if view.raw else 1)
        view.release()
        after = grow(recording, view)
        assert len(after) > len(before) and after[: len(before)] == before


def test_raw_lines_are_frames() -> None:
    recording = busy_recording()
    every = view_of(recording, raw=True)
    assert list(every.lines) == list(range(recording.index.frame_count))
    grace = view_of(recording, "tool:user-profile", raw=True)
    profile = next(one for one in recording.index.exchanges if one.name == "user-profile")
    assert list(grace.lines) == [profile.request, profile.response]


def test_a_search_is_done_in_slices_and_says_how_far_it_is() -> None:
    recording = Recording(None)
    for number in range(5000):
        recording.frame(1, IN, call(number, "a", {"x": "y" * 50}))
    settle(recording)
    view = View(recording.index, parse("needle", 0.0))
    view.advance(0.0)
    assert 0 < view.done < 1
    while view.done < 1:
        assert view.advance(0.001)
    assert not view.lines


def test_frames_that_left_memory_are_searched_on_disk(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "a.jsonl", ring_bytes=50_000)
    recording.start()
    recording.frame(1, IN, call(0, "a", {"x": 'a "quoted" needle'}))
    for number in range(1, 2000):
        recording.frame(1, IN, call(number, "a"))
    recording.close()
    assert recording.index.frame(0) is not None
    assert list(view_of(recording, "needle").lines) == [0]


@pytest.mark.parametrize(
    ("query", "shown"),
    [
        ("vegan", [0]),
        ("id:12", [0]),
        ("method:elicitation", [3]),
        ("method:tasks/get", [7]),
        ("garden dir:out", [3]),
        ("status:error", []),
        ("status:ok kind:request", [0, 3, 7]),
        ("not tool:book-flight", [3, 7]),
    ],
)
def test_a_part_that_matches_shows_its_whole(query: str, shown: list[int]) -> None:
    recording = asking_recording()
    assert list(view_of(recording, query).lines) == shown
    late = View(recording.index, parse(query, 0.0))
    while late.advance(0.0):
        pass
    assert list(late.lines) == shown


def test_raw_lines_are_the_frames_of_every_part() -> None:
    recording = asking_recording()
    assert list(view_of(recording, "id:12", raw=True).lines) == [2, 3]


def test_an_operation_leaves_a_filter_when_a_later_round_ends_otherwise() -> None:
    recording = Recording(None)
    recording.frame(1, IN, call(1, "a"))
    recording.frame(1, OUT, asks(1, "s"))
    asking, failed = view_of(recording, "status:asks"), view_of(recording, "status:error")
    assert (list(asking.lines), list(failed.lines)) == ([0], [])
    recording.frame(1, IN, retry(2, "a", "s"))
    assert grow(recording, asking) == []
    recording.frame(1, OUT, text(2, "x", is_error=True))
    assert (grow(recording, asking), grow(recording, failed)) == ([], [0])


def test_raw_frames_of_a_question_go_with_the_status_of_its_call() -> None:
    recording = Recording(None)
    recording.frame(1, IN, call(1, "a"))
    recording.frame(1, OUT, request(0, "roots/list"))
    view = view_of(recording, "status:pending", raw=True)
    assert list(view.lines) == [0, 1]
    recording.frame(1, OUT, text(1, "x"))
    assert grow(recording, view) == []


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("ask"), st.integers(0, 4), st.sampled_from(["x", "y"])),
        st.tuples(st.just("answer"), st.integers(0, 4), st.sampled_from(["x", "y"])),
        st.tuples(st.just("progress"), st.integers(0, 4), st.just("")),
        st.tuples(st.just("round"), st.integers(0, 4), st.sampled_from(["x", "y"])),
        st.tuples(st.just("question"), st.integers(0, 4), st.just("")),
        st.tuples(st.just("look"), st.integers(0, 1), st.just("")),
        st.tuples(st.just("hold"), st.integers(0, 1), st.just("")),
        st.tuples(st.just("noise"), st.integers(1, 200), st.just("")),
    ),
    max_size=25,
)
DEEDS: dict[str, Callable[[Recording, View, int, str], object]] = {
    "ask": lambda recording, _, n, word: recording.frame(1, IN, call(n, word)),
    "answer": lambda recording, _, n, word: recording.frame(1, OUT, text(n, word, is_error=n == 1)),
    "progress": lambda recording, _, n, __: recording.frame(1, OUT, progress(n, 1)),
    "round": lambda recording, _, n, word: (
        recording.frame(1, OUT, asks(n, f"state of {word}")),
        recording.frame(1, IN, retry(n, word, f"state of {word}")),
    ),
    "question": lambda recording, _, n, __: recording.frame(1, OUT, request(n, "roots/list")),
    "look": lambda recording, view, n, _: (recording.index.catch_up(0), view.advance(n / 1000)),
    "hold": lambda _, view, n, __: view.hold() if n else view.release(),
    "noise": lambda recording, _, n, __: [recording.frame(1, IN, request(9, "ping")) for _ in range(n)],
}


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(STEPS, st.sampled_from(["x", "tool:x", "status:pending", "status:error or y", "not x"]), st.booleans())
def test_however_it_came_about_a_view_shows_what_a_fresh_one_would(
    steps: list[tuple[str, int, str]], query: str, raw: bool
) -> None:
    recording = Recording(None)
    view = View(recording.index, parse(query, 0.0), raw=raw)
    for deed, number, word in steps:
        DEEDS[deed](recording, view, number, word)
    view.release()
    assert grow(recording, view) == list(view_of(recording, query, raw=raw).lines)
