"""Lines of a capture file carry frames, connections and notes exactly."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpdesk.protocol.phases import Phases
from mcpdesk.recorder.capture.capture_lines import (
    connection_line,
    encoded,
    frame_lines,
    header_line,
    line_bytes,
    line_frame,
    lost_line,
    note_line,
    read_line,
    run_lines,
    run_pieces,
)
from mcpdesk.recorder.record import Direction, Frame, FrameRun, HttpNote
from tests.support.traffic import connection, frame_line


def frame(data: bytes, number: int = 4) -> Frame:
    return Frame(number, 1764000000.25, 3, Direction.OUT, data, len(data))


@given(st.binary(max_size=200))
def test_any_bytes_come_back_as_they_were(data: bytes) -> None:
    line = frame_line(frame(data), data)
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    assert line_bytes(read_line(line)) == data
    assert line_frame(read_line(line)) == frame(data)


def test_json_stays_json_and_other_bytes_are_text_or_base64() -> None:
    def written(data: bytes) -> Any:
        return orjson.loads(frame_line(frame(data), data))

    assert written('{"a":"ü"}'.encode())["json"] == {"a": "ü"}
    assert written(b'{"a":\n1}')["text"] == '{"a":\n1}'
    assert written(b' {"a":1}')["text"] == ' {"a":1}'
    assert written(b'{"a":01}')["text"] == '{"a":01}'
    assert written(b"")["text"] == ""
    assert written(b"\xff")["base64"] == "/w=="
    assert written(b'"\xff"')["base64"] == "Iv8i"


@given(
    st.lists(st.sampled_from([b"{}", b"[1,2]", b'"a,b"', b"[1", b"2]", b" 1", b"1 ", b'"', b"", b"\n", b"0"]))
)
def test_lines_made_at_once_are_those_made_one_by_one(datas: list[bytes]) -> None:
    frames = [frame(data, number) for number, data in enumerate(datas)]
    alone = [read_line(frame_line(each, each.data)) for each in frames]
    together = frame_lines(frames, range(len(frames)))
    if together is None:
        assert not all(line.json for line in alone)
    else:
        assert [read_line(line + b"\n") for line in together.split(b"\n")[:-1]] == alone
        assert [line_frame(line) for line in alone] == frames


def test_a_frame_deeper_than_a_parser_goes_comes_back_as_it_was() -> None:
    for depth in (500, 900, 990, 1_000, 5_000):
        data = b"[" * depth + b"]" * depth
        assert line_bytes(read_line(frame_line(frame(data), data))) == data


@given(st.text(max_size=40))
def test_lines_of_the_first_format_are_still_read(text: str) -> None:
    old = b'{"n":4,"t":1764000000.25,"c":3,"d":"out","text":%b}\n' % orjson.dumps(text)
    assert line_frame(read_line(old)) == frame(text.encode())


def test_a_frame_that_was_not_kept_whole_says_how_long_it_was() -> None:
    for begin in (b"begin", b"12"):
        for end in (b"", b"the end", "\u20ac".encode()):
            cut = Frame(0, 1.0, 1, Direction.IN, begin, 999, end)
            assert line_frame(read_line(frame_line(cut, begin))) == cut


def test_connections_notes_losses_and_headers_are_lines_too() -> None:
    info = connection(closed=5.0)
    note = HttpNote("POST /mcp HTTP/1.1", (("Host", "localhost"),))
    assert read_line(connection_line(info)).connection == info
    noted = read_line(note_line(3, encoded(note))).note
    assert noted is not None and (noted.frame, noted.line, noted.headers) == (3, note.line, note.headers)
    assert read_line(lost_line(7, 9)).lost == (7, 9)
    assert (read_line(header_line(2, 50, 1.5)).part, read_line(header_line(2, 50, 1.5)).first) == (2, 50)


@pytest.mark.parametrize("line", [b'{"n":1,"t":1.0,"c":1,"d":"in","te', b"", b"[]", b'{"n":"one"}'])
def test_a_damaged_line_is_refused(line: bytes) -> None:
    with pytest.raises(ValueError):
        read_line(line)


@given(
    st.lists(st.sampled_from([b"{}", b' {"a":\r1} ', b"[\n1]", b'"\xc3\xbc"', b"\n1", b"0\n"]), min_size=1)
)
def test_frames_known_to_be_json_come_back_as_they_were(datas: list[bytes]) -> None:
    frames = [frame(data, number) for number, data in enumerate(datas)]
    together = frame_lines(frames, ())
    assert (together is None) == any(b"\n" in data for data in datas)
    lines = [frame_line(each, each.data, True) for each in frames]
    if together is not None:
        assert [read_line(each + b"\n") for each in together.split(b"\n")[:-1]] == [*map(read_line, lines)]
    assert all(line.count(b"\n") == 1 for line in lines)
    assert [line_frame(read_line(line)) for line in lines] == frames


@given(st.lists(st.sampled_from([b"{}", b' {"a":\r1} ', b'"\xc3\xbc"', b"7"]), min_size=1))
def test_a_run_is_a_line_and_its_frames(datas: list[bytes]) -> None:
    run = FrameRun(4, 1764000000.25, 3, Direction.OUT, b"\n".join(datas), len(datas))
    first, *others = b"".join(run_pieces(run)).split(b"\n")
    assert others == [*datas, b""]
    assert read_line(first + b"\n").run == len(datas)
    frames = [line_frame(read_line(line)) for line in run_lines([first, *datas])]
    assert frames == run.frames(0, 99) == [frame(data, number) for number, data in enumerate(datas, 4)]


def test_frames_of_a_run_keep_the_phases_that_its_line_has() -> None:
    phases = Phases(1764000001.0, handler=5)
    run = FrameRun(4, 1764000000.25, 3, Direction.OUT, b"{}\n7\n[]", 3, (phases, None, None))
    first, *datas, _ = b"".join(run_pieces(run)).split(b"\n")
    frames = [line_frame(read_line(line)) for line in run_lines([first, *datas])]
    assert [each.phases for each in frames] == [phases, None, None]
    cut = first.replace(b",null,null]", b"]")
    assert cut != first
    assert [line_frame(read_line(line)).phases for line in run_lines([cut, *datas])] == [phases, None, None]
