"""Lines of a capture file carry frames, connections and notes exactly."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpdesk.recorder.lines import (
    connection_line,
    frame_line,
    header_line,
    line_bytes,
    line_frame,
    lost_line,
    note_line,
    read_line,
)
from mcpdesk.recorder.record import KEPT_BYTES, Direction, Frame, HttpNote
from tests.support.traffic import connection


def frame(data: bytes, number: int = 4) -> Frame:
    return Frame(number, 1764000000.25, 3, Direction.OUT, data, len(data))


@given(st.binary(max_size=200))
def test_any_bytes_come_back_as_they_were(data: bytes) -> None:
    line = frame_line(frame(data), data)
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    assert line_bytes(read_line(line)) == data
    assert line_frame(read_line(line)) == frame(data)


def test_text_stays_legible_and_other_bytes_are_base64() -> None:
    assert orjson.loads(frame_line(frame('{"a":"ü"}'.encode()), '{"a":"ü"}'.encode()))["text"] == '{"a":"ü"}'
    assert orjson.loads(frame_line(frame(b"\xff"), b"\xff"))["base64"] == "/w=="


def test_a_large_frame_is_written_whole_and_read_back_cut() -> None:
    data = b"x" * (KEPT_BYTES + 10)
    cut = Frame(0, 1.0, 1, Direction.IN, data[:KEPT_BYTES], len(data))
    line = read_line(frame_line(cut, data))
    assert line_bytes(line) == data
    assert line_frame(line) == cut


def test_a_frame_that_was_not_kept_whole_says_how_long_it_was() -> None:
    cut = Frame(0, 1.0, 1, Direction.IN, b"begin", 999)
    assert line_frame(read_line(frame_line(cut, b"begin"))).size == 999


def test_connections_notes_losses_and_headers_are_lines_too() -> None:
    info = connection(closed=5.0)
    note = HttpNote(3, "POST /mcp HTTP/1.1", (("Host", "localhost"),))
    assert read_line(connection_line(info)).connection == info
    assert (
        read_line(
            note_line(orjson.dumps({"frame": 3, "line": note.line, "headers": [["Host", "localhost"]]}))
        ).note
        == note
    )
    assert read_line(lost_line(7, 9)).lost == (7, 9)
    assert (read_line(header_line(2, 50, 1.5)).part, read_line(header_line(2, 50, 1.5)).first) == (2, 50)


@pytest.mark.parametrize("line", [b'{"n":1,"t":1.0,"c":1,"d":"in","te', b"", b"[]", b'{"n":"one"}'])
def test_a_damaged_line_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError):
        read_line(line)
