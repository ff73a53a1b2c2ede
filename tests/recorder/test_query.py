"""The filter language: its meaning, and the position of its errors."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpdesk.recorder.index.query import (
    EVERYTHING,
    All,
    AnyOf,
    Field,
    Limit,
    Node,
    Not,
    QueryError,
    StartedSince,
    StartedWithin,
    Word,
    moment_of,
    parse,
    quoted,
)

NOW = 1_764_000_000.0


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("", EVERYTHING),
        ("   ", EVERYTHING),
        ("Bash", Word("bash")),
        ('"hello  world"', Word("hello  world")),
        (r'"say \"hi\""', Word('say "hi"')),
        ('"took>5"', Word("took>5")),
        ("a=b", Word("a=b")),
        ("ab==", Word("ab==")),
        ("x->y", Word("x->y")),
        ("method:tools/call", Field("method", ("tools/call",))),
        ("TOOL:Bash", Field("tool", ("bash",))),
        ('peer:"claude code"', Field("peer", ("claude code",))),
        ("status:pending|late", Field("status", ("pending", "late"))),
        ("status:error", Field("status", ("error", "tool-error"))),
        ("kind:notification", Field("kind", ("notification",))),
        ("is:changed|mocked", Field("is", ("changed", "mocked"))),
        ("dir:in", Field("dir", ("in",))),
        ("id:42", Field("id", ("42",))),
        ('id:"42"', Field("id", ('"42',))),
        (">200ms", Limit("elapsed", ">", 0.2)),
        ("<=1.5s", Limit("elapsed", "<=", 1.5)),
        (">10kb", Limit("size", ">", 10_000)),
        (">=1MiB", Limit("size", ">=", 1024**2)),
        ("since:5m", StartedWithin(300)),
        ("a b", All((Word("a"), Word("b")))),
        ("a and b", All((Word("a"), Word("b")))),
        ("a or b c", AnyOf((Word("a"), All((Word("b"), Word("c")))))),
        ("not a b", All((Not(Word("a")), Word("b")))),
        ("not (a or b)", Not(AnyOf((Word("a"), Word("b"))))),
        ("(tool:a)(b)", All((Field("tool", ("a",)), Word("b")))),
        ("http://x", None),
    ],
)
def test_what_a_filter_means(text: str, node: Node | None) -> None:
    if node is None:
        with pytest.raises(QueryError):
            parse(text, NOW)
    else:
        assert parse(text, NOW) == node


def test_a_moment_is_a_time_ago_or_a_time_of_day() -> None:
    now = time.mktime((2026, 3, 4, 12, 30, 0, 0, 0, -1))
    assert moment_of("5m", now) == moment_of(" -300s ", now) == now - 300
    assert moment_of("12:03:40", now) == now - 27 * 60 + 40
    assert moment_of("12:30", now) == now
    assert moment_of("12:31", now) == now - 24 * 3600 + 60
    with pytest.raises(QueryError, match="a time is a span"):
        moment_of("noon", now)


def test_since_a_time_of_day_is_never_in_the_future() -> None:
    for text in ("since:00:00", "since:23:59", "since:12:03:30"):
        node = parse(text, NOW)
        assert isinstance(node, StartedSince) and NOW - 90_000 < node.time <= NOW
    exact, whole = parse("since:12:03:30.250", NOW), parse("since:12:03:30", NOW)
    assert isinstance(exact, StartedSince) and isinstance(whole, StartedSince)
    assert exact.time == whole.time + 0.25
    noon = parse("since:12:00", NOW)
    assert isinstance(noon, StartedSince) and time.localtime(noon.time)[3:6] == (12, 0, 0)


@pytest.mark.parametrize(
    ("text", "position", "word"),
    [
        ("a (b", 2, "never closed"),
        ("a )", 2, "has no opening one"),
        ("a or", 4, "missing here"),
        ("or a", 0, "before 'or'"),
        ("not", 3, "missing here"),
        ("()", 1, "missing before"),
        ('"open', 0, "quote"),
        ("colour:red", 0, "unknown field"),
        ("a status:fine", 9, "'fine'"),
        ("status:ok|fine", 10, "'fine'"),
        ("tool:", 5, "needs a value"),
        (">fast", 0, "unit"),
        (">200", 0, "unit"),
        (">", 0, "unit"),
        ("a took>5", 2, "'took' cannot be compared: >5s compares the time, >5kb the size; use quotes"),
        ("duration<=200ms", 0, "<=5s compares the time"),
        ("status=error", 0, "write status:error; use quotes"),
        ("since:soon", 6, "span"),
        ("since:25:00", 6, "span"),
        ("(" * 200 + "a" + ")" * 200, 100, "deeply"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(text: str, position: int, word: str) -> None:
    with pytest.raises(QueryError) as caught:
        parse(text, NOW)
    assert caught.value.position == position
    assert word in caught.value.message


WORDS = 'a not or and ( ) " tool:x status:ok status: >1ms < since:5m id:1|2 | :'
PIECES = st.sampled_from(WORDS.split(" ")) | st.text(max_size=20)


@given(st.lists(PIECES, max_size=12))
def test_any_order_of_pieces_is_a_filter_or_an_error(pieces: list[str]) -> None:
    try:
        parse(" ".join(pieces), NOW)
    except QueryError as error:
        assert 0 <= error.position <= len(" ".join(pieces))


@pytest.mark.parametrize("text", ["plain", 'say "x"', "back\\slash", '\\"', "a b (c) or d", "\x1b\\"])
def test_a_quoted_text_is_one_value_whatever_it_holds(text: str) -> None:
    assert parse(f"peer:{quoted(text)}", 0.0) == Field("peer", (text,))
