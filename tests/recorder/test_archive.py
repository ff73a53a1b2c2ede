"""A capture opened from disk shows all that was recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcpdesk.errors import DeskUserError
from mcpdesk.recorder.archive import Archive
from mcpdesk.recorder.capture.capture_lines import run_pieces
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.exchange_text import as_text
from mcpdesk.recorder.index.query import parse
from mcpdesk.recorder.index.view import View
from mcpdesk.recorder.record import Frame, FrameRun, HttpNote
from tests.support.traffic import IN, OUT, call, connection, text


def recorded(path: Path, exchanges: int = 50, **options: Any) -> Recording:
    recording = Recording(path, **options)
    recording.start()
    recording.connect(connection(1, "somebody"))
    for number in range(exchanges):
        note = HttpNote(f"POST /{number} HTTP/1.1", ())
        recording.frame(1, IN, call(number, "echo", {"n": number}), note=note)
        recording.frame(1, OUT, text(number, "ü"))
    recording.close()
    return recording


@pytest.mark.parametrize("options", [{}, {"max_file_bytes": 3000}])
def test_everything_is_found_again(tmp_path: Path, options: dict[str, int]) -> None:
    recorded(tmp_path / "a.jsonl", **options)
    index = Archive(tmp_path / "a.jsonl").index
    while index.catch_up(1):
        pass
    assert [one.id for one in index.exchanges] == list(range(50))
    assert {(one.status, one.peer, one.name) for one in index.exchanges} == {("ok", "somebody", "echo")}
    note = index.note(98)
    assert note is not None and note.line == "POST /49 HTTP/1.1"
    view = View(index, parse("id:33", 0.0))
    view.advance(5)
    assert list(view.lines) == [33]


def test_damage_in_the_middle_costs_only_itself(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    recorded(path, exchanges=3)
    lines = path.read_bytes().splitlines(keepends=True)
    lines.insert(3, b"\x00\xff garbage\n")
    lines.insert(4, b'{"n":99999999999999,"t":1.0,"c":1,"d":"in","text":"far too high"}\n')
    lines.insert(5, b'{"n":2,"t":1.0,"c":1,"d":"in","base64":"!"}\n')
    path.write_bytes(b"".join(lines))
    archive = Archive(path)
    assert (archive.count, archive.unreadable) == (6, 3)
    archive.close()


@pytest.mark.parametrize("moment", ["1e300", "-5", "253402300800", "1e999"])
def test_a_frame_of_a_time_no_calendar_has_is_damage(tmp_path: Path, moment: str) -> None:
    path = tmp_path / "a.jsonl"
    recorded(path, exchanges=1)
    with path.open("a") as file:
        file.write(
            f'{{"n":2,"t":{moment},"c":1,"d":"in","json":{{"jsonrpc":"2.0","id":9,"method":"ping"}}}}\n'
        )
    archive = Archive(path)
    while archive.index.catch_up(1):
        pass
    assert (archive.count, archive.unreadable) == (2, 1)
    assert "tools/call echo" in as_text(archive.index, 0)
    archive.close()


@pytest.mark.slow
def test_a_run_that_was_cut_off_keeps_the_frames_that_are_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    recording = recorded(path, exchanges=1)
    run = FrameRun(2, 5.0, 1, OUT, b"\n".join(text(number, "late") for number in range(3)), 3)
    whole = path.read_bytes()
    written = b"".join(run_pieces(run))
    ends = [len(whole) + at + 1 for at, byte in enumerate(written) if byte == ord("\n")]
    for size in range(len(whole), len(whole) + len(written) + 1):
        path.write_bytes((whole + written)[:size])
        archive = Archive(path)
        came = sum(end <= size for end in ends[1:])
        assert archive.count == 2 + came
        assert archive.unreadable == (size not in (len(whole), *ends, ends[0] - 1))
        assert [archive.frame_bytes(2 + at) for at in range(came)] == [text(at, "late") for at in range(came)]
        archive.close()
    assert recording.index.frame(2) is None


def test_captures_of_earlier_formats_are_read_as_before(tmp_path: Path) -> None:
    lines = [
        b'{"capture":2,"part":1,"first":0,"started":1.000}\n',
        b'{"n":0,"t":1.000000,"c":1,"d":"in","text":"{}"}\n',
        b'{"n":1,"t":2.500000,"c":1,"d":"out","json":[1]}\n',
    ]
    (tmp_path / "a.jsonl").write_bytes(b"".join(lines))
    archive = Archive(tmp_path / "a.jsonl")
    assert archive.frames(0, 2) == [Frame(0, 1.0, 1, IN, b"{}", 2), Frame(1, 2.5, 1, OUT, b"[1]", 3)]
    archive.close()


def test_a_later_part_can_be_opened_alone(tmp_path: Path) -> None:
    recorded(tmp_path / "a.jsonl", max_file_bytes=3000)
    index = Archive(tmp_path / "a.2.jsonl").index
    while index.catch_up(1):
        pass
    assert index.missing_frames > 0 and len(index.exchanges) > 0
    assert {one.peer for one in index.exchanges} == {"somebody"}


def test_what_is_no_capture_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text("hello\n")
    for path in (tmp_path / "missing.jsonl", tmp_path / "x.txt", tmp_path):
        with pytest.raises(DeskUserError) as caught:
            Archive(path)
        assert str(path) in str(caught.value) and caught.value.hint


def test_what_was_open_when_the_file_ends_is_closed_there(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "a.jsonl")
    recording.start()
    recording.connect(connection(1))
    recording.frame(1, IN, call(1, "never-answered"))
    recording.close()
    index = Archive(tmp_path / "a.jsonl").index
    while index.catch_up():
        pass
    (one,) = index.exchanges
    assert one.status == "lost" and one.ended == one.started
