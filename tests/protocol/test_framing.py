"""The same frames come out however the bytes are split."""

from __future__ import annotations

import random

import pytest

from mcpdesk.protocol.framing import LineFramer

STREAM = b'{"a":1}\n\r\n{"b":"\xc3\xa4"}\r\n\n\n[1,2]\n'
FRAMES = [b'{"a":1}', b'{"b":"\xc3\xa4"}', b"[1,2]"]


def feed_all(framer: LineFramer, pieces: list[bytes]) -> list[bytes]:
    return [frame for piece in pieces for frame in framer.feed(piece)]


def test_one_chunk_yields_every_frame_without_newlines_and_blank_lines() -> None:
    assert LineFramer().feed(STREAM) == FRAMES


@pytest.mark.parametrize("at", range(len(STREAM) + 1))
def test_every_split_in_two_yields_the_same_frames(at: int) -> None:
    assert feed_all(LineFramer(), [STREAM[:at], STREAM[at:]]) == FRAMES


def test_single_bytes_yield_the_same_frames() -> None:
    assert feed_all(LineFramer(), [STREAM[at : at + 1] for at in range(len(STREAM))]) == FRAMES


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


def test_large_line_in_small_pieces_is_joined_once() -> None:
    framer = LineFramer()
    piece = b"x" * 4096
    for _ in range(2048):
        assert framer.feed(piece) == []
    assert framer.feed(b"\n") == [piece * 2048]
