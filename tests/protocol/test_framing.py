"""The same frames come out however the bytes are split."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpdesk.protocol.framing import Event, EventFramer, LineFramer

STREAM = b'{"a":1}\n\r\n{"b":"\xc3\xa4"}\r\n\n\n[1,2]\n'
FRAMES = [b'{"a":1}', b'{"b":"\xc3\xa4"}', b"[1,2]"]


def feed_all(framer: LineFramer, pieces: list[bytes]) -> list[bytes]:
    return [frame for piece in pieces for frame in framer.feed(piece)]


@pytest.mark.parametrize("at", range(len(STREAM) + 1))
def test_every_split_in_two_yields_the_same_frames(at: int) -> None:
    assert feed_all(LineFramer(), [STREAM[:at], STREAM[at:]]) == FRAMES


def test_random_bytes_yield_the_same_frames_in_every_split() -> None:
    chance = random.Random(7)
    for _ in range(200):
        stream = bytes(chance.choices(b"ab{}\n\r \x00\xff", k=chance.randrange(60)))
        cuts = sorted(chance.choices(range(len(stream) + 1), k=4))
        pieces = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
        whole, split = LineFramer(8), LineFramer(8)
        assert feed_all(split, pieces) == whole.feed(stream)
        assert split.close() == whole.close()
        assert split.dropped == whole.dropped


def test_unfinished_line_is_held_back_and_returned_at_the_close() -> None:
    framer = LineFramer()
    assert framer.feed(b"one\ntwo") == [b"one"]
    assert framer.close() == b"two"
    assert framer.close() == b""


def test_oversized_line_yields_an_empty_frame_in_its_place() -> None:
    framer = LineFramer(4)
    assert framer.feed(b"1234\n12345\n12\n") == [b"1234", b"", b"12"]
    assert framer.dropped == 1


def test_oversized_line_in_pieces_is_not_kept() -> None:
    framer = LineFramer(4)
    assert feed_all(framer, [b"ok\n123", b"45", b"6789" * 1000, b"0\nend\n"]) == [b"ok", b"", b"end"]
    assert framer.dropped == 1


def test_oversized_unfinished_line_leaves_nothing_at_the_close() -> None:
    framer = LineFramer(4)
    assert framer.feed(b"123456") == []
    assert framer.close() == b""


EVENT_STREAM = (
    "\ufeff: hello\n\ndata: one\n\nid: a7:0\ndata:\n\nretry: 20\n\nevent: endpoint\ndata: /x\r\n\r\n"
    "data: two\r\ndata:  lines\r\rid: a7:1\ndata: é日\nunknown: x\n\ndata: never ended"
).encode()
EVENTS = [Event(b"one"), Event(b"/x", "endpoint"), Event(b"two\n lines"), Event("é日".encode())]


def read(pieces: list[bytes], limit: int = 1000) -> tuple[list[Event], EventFramer]:
    framer = EventFramer(limit)
    return [event for piece in pieces for event in framer.feed(piece)], framer


def test_whole_stream_gives_its_events_id_and_retry() -> None:
    events, framer = read([EVENT_STREAM])
    assert events == EVENTS
    assert (framer.last_id, framer.retry_ms) == ("a7:1", 20)


NEWLINES = [b"\r", b"\n", b"\r\n"]
LINES = [b"data", b"data: a", b"id: 1", b"event:b", b"retry: 7", b":", b" ", b"\0", b"\xff", b"\xef\xbb\xbf"]
PIECES = NEWLINES + LINES
"""Parts of a stream, in every order."""


def whole_and_apart(data: bytes, cuts: list[int]) -> None:
    """Check that a stream gives the same events, id and delay in any pieces."""
    events, framer = read([data])
    ways = [range(1, len(data)), sorted(cut for cut in cuts if cut < len(data))]
    for places in ways:
        again, other = read([data[a:b] for a, b in pairwise([0, *places, len(data)])])
        assert (again, other.last_id, other.retry_ms) == (events, framer.last_id, framer.retry_ms), data


@given(st.lists(st.sampled_from(PIECES) | st.binary(max_size=4)).map(b"".join), st.lists(st.integers(0, 99)))
def test_any_bytes_are_the_same_events_in_every_split(data: bytes, cuts: list[int]) -> None:
    whole_and_apart(data, cuts)


def test_an_empty_line_behind_a_newline_that_came_in_two_pieces_ends_its_event() -> None:
    assert read([b"data: x\r", b"", b"\n", b"\n"])[0] == [Event(b"x")]


def test_id_counts_once_its_event_ended() -> None:
    _, framer = read([b"id: 1\ndata: x\n"])
    assert framer.last_id == ""
    framer.feed(b"\n")
    assert framer.last_id == "1"


@pytest.mark.parametrize("line", ["id: a\0b", "retry: soon", "retry: 99999999999999999999", "retry: -1"])
def test_bad_ids_and_delays_are_passed_over(line: str) -> None:
    events, framer = read([f"{line}\ndata: x\n\n".encode()])
    assert events == [Event(b"x")]
    assert (framer.last_id, framer.retry_ms) == ("", None)


@pytest.mark.parametrize("piece", [b"data: " + b"x" * 95 + b"\n", b"x" * 101, b"data: 12345678\n" * 13])
def test_event_over_the_limit_is_refused(piece: bytes) -> None:
    with pytest.raises(ValueError, match="more than 90 bytes"):
        read([piece], 90)


@pytest.mark.parametrize("text", [b"x" * 90, b"x" * 40 + b"\n" + b"x" * 49, b"\n" * 90])
@pytest.mark.parametrize("field", [b"data: ", b"data:"])
def test_event_of_just_the_limit_is_taken_in_any_split_and_one_byte_more_in_none(
    text: bytes, field: bytes
) -> None:
    for more, count in ((b"", 1), (b"x", 0)):
        stream = b"".join(field + line + b"\n" for line in (text + more).split(b"\n")) + b"\n"
        for at in range(1, len(stream)):
            try:
                found = len(read([stream[:at], stream[at:]], 90)[0])
            except ValueError:
                found = 0
            assert found == count, at


def test_what_is_no_data_counts_for_its_line_alone() -> None:
    pings = [b": pi", b"ng\n"] * 100
    assert read([*pings, b"data: ", b"x" * 90, b"\n\n"], 90)[0] == [Event(b"x" * 90)]


def test_mark_of_the_byte_order_is_left_out_at_the_beginning_alone() -> None:
    mark = "\ufeff".encode()
    events = [b"data: a\n\n", mark + b"data: b\n\n", b"data: " + mark + b"c\n\n"]
    assert read([mark, *events])[0] == [Event(b"a"), Event(mark + b"c")]
