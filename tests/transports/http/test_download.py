"""Ranges and names of what is downloaded."""

from __future__ import annotations

import time

import pytest

from mcpdesk.transports.http.download import Span, disposition, wanted
from tests.support.patience import WITHIN_S


@pytest.mark.parametrize(
    ("header", "span"),
    [
        ("bytes=0-9", Span(0, 10)),
        ("bytes=90-", Span(90, 10)),
        ("bytes=90-1000", Span(90, 10)),
        ("bytes=-10", Span(90, 10)),
        ("bytes=-1000", Span(0, 100)),
        ("Bytes = 5 - 5", Span(5, 1)),
        ("bytes=100-", Span(100, 0)),
        ("bytes=500-600", Span(500, 0)),
        ("bytes=-0", Span(100, 0)),
    ],
)
def test_a_range_is_cut_to_what_there_is(header: str, span: Span) -> None:
    assert wanted(header, 100) == span


@pytest.mark.parametrize(
    "header",
    [
        "",
        "bytes=-",
        "bytes=9-5",
        "bytes=a-b",
        "items=0-5",
        "bytes=0-1,5-6",
        "bytes=0-" + "9" * 40,
        "bytes=٣-",
    ],
)
def test_what_is_no_single_range_is_answered_by_the_whole(header: str) -> None:
    assert wanted(header, 100) is None


def test_a_range_of_nothing_but_room_is_read_over_once() -> None:
    began = time.process_time()
    assert wanted(f"bytes={' ' * 100_000}x", 100) is None
    assert time.process_time() - began < WITHIN_S


@pytest.mark.parametrize("size", [0, 1])
def test_nothing_is_taken_of_an_empty_file(size: int) -> None:
    assert wanted("bytes=0-0", size) == Span(0, size)
    assert wanted("bytes=-5", size) == Span(0, size)


@pytest.mark.parametrize(
    ("name", "header"),
    [
        ("heat.png", 'attachment; filename="heat.png"'),
        ("heat map (1).png", 'attachment; filename="heat map (1).png"'),
        ("wärme.png", "attachment; filename=\"w_rme.png\"; filename*=UTF-8''w%C3%A4rme.png"),
        ('a"b\r\nX: y', "attachment; filename=\"a_b__X_ y\"; filename*=UTF-8''a%22b%0D%0AX%3A%20y"),
        ("..\\a", "attachment; filename=\".._a\"; filename*=UTF-8''..%5Ca"),
        ("", "attachment; filename=\"file\"; filename*=UTF-8''"),
    ],
)
def test_a_name_cannot_leave_its_header(name: str, header: str) -> None:
    assert disposition(name) == header
