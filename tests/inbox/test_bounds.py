"""The bounds of a flat field, in words for a person."""

from __future__ import annotations

import math
from typing import Any

import pytest

from mcpdesk.inbox.answers import bounds_problem, link_problem, parsed_number
from mcpdesk.inbox.question import host_of

HEAVY = "(?=a)(?:(?:(?:a(?=a|)){100}){100}){100}"
"""Pattern that takes half a minute for a long text, although its steps back are limited."""


@pytest.mark.sampled(10)
@pytest.mark.parametrize(
    ("rules", "given", "said"),
    [
        ({}, "anything", ""),
        ({"type": "string", "minLength": 3}, "ab", "at least 3 characters"),
        ({"type": "string", "maxLength": 1}, "ab", "at most 1 characters"),
        ({"type": "string", "maxLength": 2}, "ab", ""),
        ({"type": "integer"}, "old", "write a number"),
        ({"type": "integer"}, "1.5", "write a whole number"),
        ({"type": "integer"}, "1e3", ""),
        ({"type": "number"}, "1e999", "write a number"),
        ({"type": "number", "minimum": 0.5}, "0.4", "at least 0.5"),
        ({"type": "number", "maximum": 2}, "2", ""),
        ({"type": "number", "maximum": "two"}, "3", ""),
        ({"type": "string", "format": "email"}, "ada", "write an address like ada@example.org"),
        ({"type": "string", "format": "email"}, "ada@example.org", ""),
        ({"type": "string", "format": "uri"}, "no uri", "write a URI like https://example.org/"),
        ({"type": "string", "format": "uri"}, "urn:a:b", ""),
        ({"type": "string", "format": "date"}, "2026-02-30", "write a date like 2026-07-28"),
        ({"type": "string", "format": "date"}, "20260228", "write a date like 2026-07-28"),
        ({"type": "string", "format": "date"}, "2026-02-28", ""),
        ({"format": "date-time"}, "2026-02-28T10:00:00", "write a date and time like 2026-07-28T12:00:00Z"),
        ({"type": "string", "format": "date-time"}, "2026-02-28T10:00:00Z", ""),
        ({"type": "string", "pattern": "^[A-Z]{3}$"}, "LISB", "the text must match ^[A-Z]{3}$"),
        ({"type": "string", "pattern": "^[A-Z]{3}$"}, "LIS", ""),
        ({"type": "string", "pattern": "^(?!x)"}, "xyz", "the text must match ^(?!x)"),
        ({"type": "string", "pattern": "("}, "any text: this is no pattern", ""),
        ({"type": "string", "pattern": "^(a+)+$", "maxLength": 3}, "aaab", "at most 3 characters"),
        ({"type": "string", "pattern": "^(a+)+$"}, "a" * 60_000 + "b", "the text must match ^(a+)+$"),
        ({"type": "string", "pattern": HEAVY}, "a" * 1_000, f"the text must match {HEAVY}"),
        ({"type": "string", "pattern": HEAVY}, "a" * 60_000, ""),
        ({"type": "string", "pattern": "[ab]*a[ab]{9000}z"}, "ab" * 30_000, ""),
        ({"type": "string", "pattern": "(?=a)" * 100_000}, "b", ""),
        ({"type": "number"}, "1" * 60_000 + "x", "write a number"),
        ({"type": "number", "multipleOf": True}, "3", ""),
        ({"type": "number", "multipleOf": math.inf}, "3", ""),
        ({"type": "number", "minimum": True, "maximum": 10**400}, "0", ""),
        ({"type": "number", "exclusiveMinimum": 0}, "0", "more than 0"),
        ({"type": "number", "exclusiveMaximum": 1}, "1", "less than 1"),
        ({"type": "number", "multipleOf": 0.1}, "0.3", ""),
        ({"type": "integer", "multipleOf": 5}, "12", "a multiple of 5"),
        ({"type": "array", "minItems": 2}, 1, "choose at least 2"),
        ({"type": "array", "maxItems": 2}, 3, "choose at most 2"),
        ({"type": "string", "minLength": 9}, None, ""),
    ],
)  # fmt: skip
def test_what_is_out_of_bounds_is_said(rules: dict[str, Any], given: str | int | None, said: str) -> None:
    assert bounds_problem(rules, given) == said


@pytest.mark.parametrize(
    ("text", "value"),
    [("3", 3), ("-3", -3), ("1.5", 1.5), (".5", 0.5), ("1e-2", 0.01), ("", None), ("1_0", None)],
)
def test_numbers_are_read_as_json_would(text: str, value: float | None) -> None:
    assert parsed_number(text) == value


@pytest.mark.parametrize(
    ("link", "host"),
    [
        ("https://example.org/in?x=1", "example.org"),
        ("HTTP://user@Example.org:8080/", "example.org"),
        ("javascript:alert(1)", ""),
        ("file:///etc/passwd", ""),
        ("https:///nowhere", ""),
        ("https://[broken", ""),
    ],
)
def test_only_links_of_the_web_have_a_host(link: str, host: str) -> None:
    assert host_of(link) == host
    assert bool(link_problem(link)) == (not host)
