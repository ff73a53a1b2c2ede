"""Tests that the end of an HTTP answer is found, however the answer is split."""

from __future__ import annotations

import pytest

from tests.bench.answer import AnswerReader, session_of

WITH_LENGTH = b"HTTP/1.1 200 OK\r\nMcp-Session-Id: s1\r\nContent-Length: 2\r\n\r\n{}"
IN_CHUNKS = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
EMPTY = b"HTTP/1.1 204 No Content\r\n\r\n"


@pytest.mark.parametrize("answer", [WITH_LENGTH, IN_CHUNKS, EMPTY])
def test_answers_are_whole_in_every_split(answer: bytes) -> None:
    reader = AnswerReader()
    for at in range(1, len(answer)):
        assert reader.feed(answer[:at]) is None
        assert reader.feed(answer[at:]) == answer
    pieces = [reader.feed(answer[at : at + 1]) for at in range(len(answer))]
    assert pieces == [None] * (len(answer) - 1) + [answer]
    assert [reader.feed(answer), reader.feed(answer)] == [answer, answer]


def test_session_is_read_from_the_head() -> None:
    assert session_of(WITH_LENGTH) == "s1"
    assert session_of(EMPTY) == ""


def test_of_a_large_answer_that_tells_its_length_the_beginning_will_do() -> None:
    head, body = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", b"x" * 1_000_000
    reader = AnswerReader()
    for _ in range(2):
        assert reader.feed(head + body[:10]) is None
        assert reader.feed(body[10:999_999]) is None
        assert reader.feed(body[999_999:]) == head + body[:10]
    assert reader.feed(WITH_LENGTH) == WITH_LENGTH
