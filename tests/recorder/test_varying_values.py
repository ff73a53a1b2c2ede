"""Values that vary from run to run are found by their shape; a pattern matches values of the same shape."""

from __future__ import annotations

from typing import Any

import pytest

from mcpdesk.recorder.varying_values import fits, longest_part, pattern_of

TEXT = (
    "built for Ada in 12.3 ms at 2026-11-26T12:00:00.123Z by pid 4711 in /tmp/x/y.txt "
    "(3f9a0c1b2d4e5f60, 0b6e3a52-5d3c-4b7a-9f43-0c2f9d1e8a77) token=••••, 3 cups, 5/7 and/or http://a.test/x/y"
)
PATTERN = (
    "built for Ada in {{duration}} at {{time}} by pid {{number}} in {{path}} "
    "({{id}}, {{uuid}}) token={{any}}, 3 cups, 5/7 and/or http://a.test/x/y"
)


def test_texts_keep_what_is_the_same_each_time() -> None:
    assert pattern_of(TEXT, frozenset()) == PATTERN
    assert fits(PATTERN, TEXT) and fits(PATTERN, TEXT.replace("4711", "8").replace("12.3", "900"))
    assert not fits(PATTERN, TEXT.replace("Ada", "Eve")) and not fits(PATTERN, TEXT.replace("4711", "no"))
    assert longest_part("in {{duration}}: no such tea {{id}}") == ": no such tea"


def test_what_was_asked_for_is_expected_as_it_is() -> None:
    assert (
        pattern_of("at 2026-01-01 for 5 min", frozenset({"2026-01-01", "5 min"})) == "at 2026-01-01 for 5 min"
    )
    assert pattern_of({"id": 7}, frozenset({"7"})) == {"id": 7}


@pytest.mark.parametrize(
    ("value", "pattern"),
    [
        ({"pid": 12, "total": 5}, {"pid": "{{number}}", "total": 5}),
        ({"startedAt": 1764000000.5, "took_ms": 3}, {"startedAt": "{{number}}", "took_ms": "{{number}}"}),
        ({"order-id": "A-77", "name": "tea-2"}, {"order-id": "{{id}}", "name": "tea-2"}),
        ({"list": [{"path": "/srv/a/b"}], "ok": True}, {"list": [{"path": "{{path}}"}], "ok": True}),
        ({"message": "cat", "note": None}, {"message": "cat", "note": None}),
    ],
)
def test_numbers_and_ids_are_told_by_the_name_of_their_member(value: Any, pattern: Any) -> None:
    assert pattern_of(value, frozenset()) == pattern and fits(pattern, value)


@pytest.mark.parametrize(
    ("pattern", "value", "expected"),
    [
        ("{{number}}", 5, True),
        ("{{number}}", "5", True),
        ("{{number}}", True, False),
        ("{{path}}", 5, False),
        ("{{any}}", None, True),
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": 1}, {"a": True}, False),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ([1, "{{time}}"], [1, "12:30:01"], True),
        ([1], [1, 2], False),
        ("a.c", "abc", False),
    ],
)
def test_a_pattern_is_as_strict_as_what_it_says(pattern: Any, value: Any, expected: bool) -> None:
    assert fits(pattern, value) is expected
