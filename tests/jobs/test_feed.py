"""A feed: bounded ends of two streams, the newest progress, and readers that come when they like."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import pytest

from mcpdesk.jobs import feed as feeds
from mcpdesk.jobs.feed import CallFeed, ProgressReport


def test_a_reader_gets_what_came_since_its_last_look_and_nothing_twice() -> None:
    feed = CallFeed()
    feed.stdout("one ")
    first = feed.since()
    feed.stdout("two")
    feed.stderr("oops")
    second = feed.since(first.cursor)
    assert (first.stdout, first.stderr) == ("one ", "")
    assert (second.stdout, second.stderr) == ("two", "oops")
    assert first and second and not feed.since(second.cursor)
    assert feed.size == len("one two") + len("oops")


def test_who_falls_behind_misses_the_middle_and_is_told_how_much() -> None:
    feed = CallFeed(tail=10)
    seen = feed.since().cursor
    for number in range(100):
        feed.stdout(f"{number:05}")
    late = feed.since(seen)
    assert sum(late.missed) + len(late.stdout) == 500
    assert late.stdout.endswith("0009800099")
    assert not feed.since(late.cursor)


@pytest.mark.parametrize(("tail", "size"), [(1000, 997), (100_000, 2)])
def test_memory_stays_level_where_nobody_looks(tail: int, size: int) -> None:
    feed = CallFeed(tail)
    tracemalloc.start()
    try:
        for _ in range(4_000):
            feed.stdout("x" * size)
        assert tracemalloc.get_traced_memory()[0] < 100_000
    finally:
        tracemalloc.stop()
    assert feed.size == 4_000 * size


def test_only_the_newest_progress_is_told() -> None:
    feed = CallFeed()
    feed.progress(1, 4, "reading")
    feed.progress(2, 4, "drawing")
    news = feed.since()
    assert news.progress == ProgressReport(2, 4, "drawing")
    assert news.progress.share == 0.5
    assert feed.since(news.cursor).progress is None


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_progress_that_is_no_number_is_left_out(value: float) -> None:
    feed = CallFeed()
    feed.progress(value, 10)
    assert feed.latest is None
    feed.progress(3, value)
    assert feed.latest == ProgressReport(3, None, "")


def test_a_file_is_listed_once_and_not_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "MAX_FILES", 10)
    feed = CallFeed()
    for _ in range(2):
        feed.add_file(Path("/tmp/a.png"))
    assert feed.files == feed.since().files == (Path("/tmp/a.png"),)
    for number in range(20):
        feed.add_file(Path(f"/tmp/{number}"))
    assert len(feed.files) == 10


def test_halves_of_characters_become_something_that_can_be_sent() -> None:
    feed = CallFeed()
    feed.stdout("ü\udc80")
    feed.progress(1, 2, "\ud800")
    assert feed.since().stdout == "ü?"
    assert feed.latest == ProgressReport(1, 2, "?")


def test_both_streams_are_read_in_the_order_they_came() -> None:
    feed = CallFeed(tail=4)
    feed.stdout("one ")
    feed.stderr("two ")
    assert feed.combined_output(-1) == ("one two ", 0, 8)
    assert feed.combined_output(4) == ("two ", 4, 8)
    feed.stdout("three")
    text, start, end = feed.combined_output(0)
    assert (text, start, end) == ("hree", 9, 13)


def test_after_a_call_only_the_ends_of_its_streams_are_kept() -> None:
    feed = CallFeed(tail=10)
    feed.stdout("a" * 15)
    feed.stderr("b" * 15)
    assert feed.since().stdout == "a" * 15
    assert feed.shrink() == 30
    assert (feed.since().stdout, feed.since().stderr) == ("a" * 10, "b" * 10)
    assert feed.since().missed == (5, 5)
    assert feed.ends(8) == (feeds.OMISSION_NOTE, feeds.OMISSION_NOTE)
    assert feed.ends(100) == (f"{feeds.OMISSION_NOTE}{'a' * 10}", f"{feeds.OMISSION_NOTE}{'b' * 10}")


def test_a_long_message_of_progress_is_cut() -> None:
    feed = CallFeed()
    feed.progress(1, message="x" * (feeds.MAX_MESSAGE_LENGTH + 1))
    assert feed.latest is not None and feed.latest.message == "x" * feeds.MAX_MESSAGE_LENGTH
