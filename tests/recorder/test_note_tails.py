"""Notes with the headers of an earlier one read like any other."""

from __future__ import annotations

from mcpdesk.recorder import note_tails
from mcpdesk.recorder.lines import encoded
from mcpdesk.recorder.note_tails import NoteTails
from mcpdesk.recorder.record import HttpNote

LINE = "POST /mcp/echo HTTP/1.1"
HEADERS = (("Host", "127.0.0.1"), ("Accept", 'a,"b"'))


def test_every_note_is_encoded_as_if_it_were_alone() -> None:
    tails = NoteTails()
    same = (HEADERS[0], HEADERS[1])
    for frame, line, headers in (
        (0, LINE, HEADERS),
        (7, LINE, HEADERS),
        (8, LINE, same),
        (9, "GET / HTTP/1.1", HEADERS),
        (10, LINE, HEADERS),
        (11, LINE, ()),
        (12, LINE, ()),
    ):
        note = HttpNote(frame, line, headers)
        assert tails.encode(note)[0] == encoded(note)


def test_shared_headers_are_counted_once_and_then_cost_nothing() -> None:
    tails = NoteTails()
    costs = [tails.encode(HttpNote(frame, LINE, HEADERS))[1] for frame in range(4)]
    assert costs[0] is None
    assert costs[1]
    assert costs[2:] == [0, 0]


def test_headers_with_an_id_that_was_used_before_are_not_taken_for_others() -> None:
    tails = NoteTails()
    for frame in range(3 * note_tails.MOST_KEPT):
        note = HttpNote(frame, LINE, (("Number", str(frame)),))
        data, cost = tails.encode(note)
        assert data == encoded(note)
        assert cost is None


def test_large_headers_are_not_kept() -> None:
    tails = NoteTails()
    headers = (("Large", "x" * note_tails.LARGEST_KEPT),)
    assert [tails.encode(HttpNote(frame, LINE, headers))[1] for frame in range(3)] == [None] * 3


def test_bytes_that_were_no_text_stay_replaced() -> None:
    tails = NoteTails()
    headers = (("Odd", "\udcff"),)
    for frame in range(3):
        assert "�".encode() in tails.encode(HttpNote(frame, LINE, headers))[0]
