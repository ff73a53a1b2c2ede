"""A stream of any length costs bounded memory and keeps both ends."""

from __future__ import annotations

import random

from mcpdesk.jobs.output import END_BYTES, WHOLE_BYTES, Excerpt


def taken(*pieces: bytes) -> Excerpt:
    excerpt = Excerpt()
    for piece in pieces:
        excerpt.add(piece)
    return excerpt


def test_a_small_stream_is_kept_as_it_is() -> None:
    assert taken(b"one ", b"two").text() == "one two"


def test_bytes_that_are_no_text_are_replaced() -> None:
    assert taken(b"\xff\xfe ok \xc3").text() == "\ufffd\ufffd ok \ufffd"


def test_a_large_stream_keeps_its_ends_and_says_what_is_missing() -> None:
    text = taken(b"start" + b"x" * (2 * WHOLE_BYTES), b"finish").text(", see elsewhere")
    assert text.startswith("start") and text.endswith("finish")
    left_out = 2 * WHOLE_BYTES + 11 - 2 * END_BYTES
    assert f"[... {left_out:,} bytes left out, see elsewhere ...]" in text


def test_memory_is_bounded_however_the_pieces_come() -> None:
    pieces = random.Random(7)
    excerpt, everything = Excerpt(), bytearray()
    while len(everything) < 3 * WHOLE_BYTES:
        piece = pieces.randbytes(pieces.choice((1, 500, 65_536)))
        everything += piece
        excerpt.add(piece)
    assert len(excerpt.head) == END_BYTES
    assert len(excerpt._tail) <= 3 * END_BYTES
    assert excerpt.head == everything[:END_BYTES]
    assert excerpt._tail[-END_BYTES:] == everything[-END_BYTES:]


def test_a_cut_never_shows_half_a_character() -> None:
    text = taken(b"x" + "€".encode() * WHOLE_BYTES + b"yz").text()
    assert "\ufffd" not in text


def test_the_end_of_what_came_so_far() -> None:
    assert taken(b"abcdef").end(3) == "def"
    assert taken("a€".encode()).end(2) == ""
    assert taken(b"x" * 2 * WHOLE_BYTES, b"last").end(4) == "last"
