"""An index without its oldest exchanges agrees with a full one on all others, and does not grow."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterable
from pathlib import Path

import pytest

from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.index.exchange import Exchange, Status
from mcpdesk.recorder.index.query import EVERYTHING, parse
from mcpdesk.recorder.index.traffic_index import Index
from mcpdesk.recorder.index.view import View
from tests.support.traffic import (
    IN,
    OUT,
    call,
    connection,
    mixed_traffic,
    request,
    settle,
    text,
)

MOST = 400
QUERIES = ("", "status:error", "tool:b", "kind:notification", "status:pending", "words", "not tool:a", ">1kb")


@pytest.fixture(autouse=True)
def few_exchanges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcpdesk.recorder.capture.recording._MIN_KEPT_EXCHANGES", MOST)
    monkeypatch.setattr("mcpdesk.recorder.index.view._MAX_CACHED_LABELS", 500)


def recorded(count: int = 6 * MOST) -> tuple[Recording, Index]:
    """A recording, and an index that keeps all exchanges."""
    recording = Recording(None)
    for number in (1, 2, 3):
        recording.connect(connection(number))
    every = Index(recording._store)
    for seed in range(8):
        mixed_traffic(recording, count // 8, seed)
        settle(recording)
    while every.catch_up():
        pass
    return recording, every


def face(one: Exchange) -> tuple[object, ...]:
    named = (one.kind, one.method, one.name, one.id, one.status)
    return (*named, one.request, one.response, one.size, one.started, one.ended, one.notifications)


def faces(index: Index, numbers: Iterable[int], first: int) -> list[tuple[object, ...]]:
    """Views of exchanges that began at frame `first` or later."""
    ones = map(index.exchange, numbers)
    return sorted((face(one) for one in ones if _began(one) >= first), key=repr)


def _began(one: Exchange) -> int:
    return min(frame for frame in (one.request, one.response) if frame is not None)


@pytest.mark.slow
def test_what_is_kept_is_what_an_index_of_everything_says() -> None:
    recording, every = recorded()
    index = recording.index
    assert MOST <= len(index.table) - index.table.base <= 1.25 * MOST + 100
    kept = faces(index, range(index.table.base, len(index.table)), index.first_frame)
    assert len(kept) > MOST / 2
    assert kept == faces(every, range(len(every.table)), index.first_frame)
    for frame in range(index.first_frame, index.paired):
        mine = [face(index.exchange(row)) for row in index.rows_of(frame)]
        full = [every.exchange(row) for row in every.rows_of(frame)]
        assert mine == [face(one) for one in full if mine or _began(one) >= index.first_frame]


@pytest.mark.slow
@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("raw", [False, True])
def test_a_view_that_watched_all_along_shows_the_same_lines_as_a_fresh_one(query: str, raw: bool) -> None:
    recording = Recording(None)
    view = View(recording.index, parse(query, 0.0) if query else EVERYTHING, raw=raw)
    for seed in range(20):
        mixed_traffic(recording, 150, seed)
        settle(recording)
        while view.advance(5):
            pass
    fresh = View(recording.index, parse(query, 0.0) if query else EVERYTHING, raw=raw)
    while fresh.advance(5):
        pass
    first = recording.index.first_frame if raw else recording.index.table.base
    known = [line for line in view.lines if not raw or recording.index.rows_of(line)]
    assert first > 0 and known == [line for line in fresh.lines if not raw or recording.index.rows_of(line)]
    assert view.position(first) == 0 and view.done == 1


def test_a_request_that_waits_stays_in_sight_until_it_is_answered() -> None:
    recording = Recording(None)
    recording.frame(7, IN, call("slow", "z"))
    for seed in range(8):
        mixed_traffic(recording, 200, seed)
        settle(recording)
    index = recording.index
    (row,) = [one for one in index.pending() if index.exchange(one).id == "slow"]
    assert row >= index.table.base > 0 and index.exchange(row).status is Status.PENDING
    recording.frame(7, OUT, text("slow", "done"))
    settle(recording)
    ended = index.exchange(row)
    assert (ended.status, ended.request, ended.name) == (Status.OK, 0, "z") and ended.elapsed(0) > 0


@pytest.mark.slow
def test_an_exchange_that_was_dropped_is_nothing_but_its_number() -> None:
    recording, _ = recorded()
    gone = recording.index.exchange(0)
    assert (gone.number, gone.request, gone.response, gone.parts) == (0, None, None, ())
    assert recording.index.rows_of(0) == () and recording.index.revision(0) == ""
    with pytest.raises(IndexError):
        recording.index.exchange(len(recording.index.exchanges))


@pytest.mark.slow
def test_memory_does_not_grow_with_the_calls_once_what_is_kept_is_full(tmp_path: Path) -> None:
    """New names and ids, filters, a file: all tables that are known to have grown."""
    recording = Recording(tmp_path / "c.jsonl", 1 << 20)
    recording.start()
    views = [View(recording.index, parse(query, 0.0)) for query in QUERIES if query]

    def calls(start: int, stop: int) -> None:
        for number in range(start, stop):
            said = f"b resource://{number}" if number % 3 else "b"
            recording.frame(1, IN, request(f"id {number}", "resources/read", {"uri": said}))
            recording.frame(1, OUT, text(f"id {number}", f"words {number}"))
            if number % 500 == 0:
                settle(recording)
                for view in views:
                    view.advance(5)
        settle(recording)
        gc.collect()

    tracemalloc.start()
    try:
        calls(0, 4000)
        before = tracemalloc.get_traced_memory()[0]
        calls(4000, 16000)
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
        recording.close()
    # 32 bytes a call say where in the file its frames are; without bounds it would be some 1,500.
    assert grown < 12_000 * 32 + 600_000, f"{grown / 12_000:.0f} bytes a call"
