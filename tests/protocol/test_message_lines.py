"""Numbered lines of a dialogue become groups: a message over several lines is one."""

from __future__ import annotations

import json

import pytest

from mcpdesk.protocol.reading import message_framer
from mcpdesk.protocol.reading.message_framer import LineGroup, MessageLines

MESSAGE = {"jsonrpc": "2.0", "id": 1, "params": {"text": "}{", "list": [{"a": 1}, []]}}
PRETTY = json.dumps(MESSAGE, indent=2).encode() + b"\r\n"
PLAIN = json.dumps(MESSAGE).encode() + b"\n"


def groups(lines: MessageLines, data: bytes, first: int = 0) -> list[LineGroup]:
    """The groups that lines with numbers from `first` on complete."""
    numbered = enumerate(data.splitlines(keepends=True), first)
    return [group for number, line in numbered for group in lines.feed(number, line)]


def test_a_message_over_several_lines_is_one_group_between_others() -> None:
    lines, count = MessageLines(10_000), PRETTY.count(b"\n")
    found = groups(lines, PLAIN + b"starting [1]\n\n" + PRETTY + PLAIN)
    assert [numbers for numbers, _ in found] == [(0,), (1,), (2,), tuple(range(3, 3 + count)), (3 + count,)]
    assert b"".join(data for _, data in found) == PLAIN + b"starting [1]\n\n" + PRETTY + PLAIN
    assert not lines.is_within_message


def test_a_whole_message_ends_one_that_does_not_go_on() -> None:
    lines = MessageLines(10_000)
    assert groups(lines, b'{\n "a":\n') == [] and lines.is_within_message
    assert groups(lines, PLAIN, 2) == [((0,), b"{\n"), ((1,), b' "a":\n'), ((2,), PLAIN)]
    assert groups(lines, b"{\n") == [] and lines.give_up() == [((0,), b"{\n")]
    assert not lines.is_within_message and lines.give_up() == []


def test_a_line_whose_bytes_are_not_known_ends_a_message() -> None:
    lines = MessageLines(10_000)
    assert lines.feed(0, b"{\n") == []
    assert lines.feed(1, b"") == [((0,), b"{\n"), ((1,), b"")]


def test_each_message_may_have_the_maximum_size() -> None:
    lines, message = MessageLines(len(b"{\n1\n")), b"{\n1\n}\n"
    assert groups(lines, message * 3) == [((at, at + 1, at + 2), message) for at in (0, 3, 6)]


def test_a_message_that_is_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = MessageLines(100)
    assert groups(lines, b"[\n" + b"1,\n" * 31) == []
    assert len(groups(lines, b"1,\n" * 2, 32)) == 34 and not lines.is_within_message
    monkeypatch.setattr(message_framer, "MAX_LINES", 3)
    lines = MessageLines(100)
    assert [numbers for numbers, _ in groups(lines, b"{\n\n\n\n")] == [(0,), (1,), (2,), (3,)]
