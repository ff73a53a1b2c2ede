"""Lines are read back from where they were said to be."""

from __future__ import annotations

from pathlib import Path

from mcpdesk.recorder.capture.capture_file import Places, part_path
from mcpdesk.recorder.capture.capture_lines import run_pieces
from mcpdesk.recorder.record import Direction, FrameRun
from tests.support.traffic import frame_line


def test_lines_of_any_length_are_read_from_several_parts(tmp_path: Path) -> None:
    lines = [b"a" * 10 + b"\n", b"b" * 50_000 + b"\n"]
    places = Places()
    for part, line in enumerate(lines):
        path = tmp_path / f"{part}.jsonl"
        path.write_bytes(b"header\n" + line)
        places.parts.append(path)
        places.add(1, part, 7)
    assert [places.frame_line(number) for number in (0, 1, 0)] == [*lines, lines[0]]
    places.close()


def test_what_lies_in_a_part_that_was_not_begun_is_nowhere() -> None:
    places = Places()
    places.add(1, 1, 7)
    places.set_note(0, 1, 9)
    assert places.frame_line(0) is None and places.note_line(0) is None


def test_lines_of_a_group_are_told_apart(tmp_path: Path) -> None:
    lines = [b"{%d}\n" % number for number in range(3)] + [b"z" * 100_000 + b"\n", b"\r\x0b\n"]
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"header\n" + b"".join(lines[:3]) + b"between\n" + b"".join(lines[3:]) + b"after\n")
    places = Places()
    places.parts.append(path)
    places.add(3, 0, 7)
    places.add(2, 0, 7 + 12 + 8)
    assert [places.frame_line(number) for number in range(5)] == lines
    assert [places.frame_line(number) for number in (4, 0, 3, 2)] == [lines[4], lines[0], lines[3], lines[2]]
    assert places.frame_line(5) is None
    places.close()


def test_frames_of_a_run_have_lines_as_if_they_stood_alone(tmp_path: Path) -> None:
    runs = [
        FrameRun(4, 1.5, 3, Direction.OUT, b'{"a":1}\n[2]\n"three"', 3),
        FrameRun(7, 2.5, 3, Direction.IN, b"{}", 1),
    ]
    places = Places()
    places.parts += [tmp_path / "empty.jsonl", tmp_path / "a.jsonl"]
    places.skip_frames(4)
    written = b"header\n"
    for run in runs:
        places.add(run.count, 1, len(written), is_run=True)
        written += b"".join(run_pieces(run))
    places.parts[1].write_bytes(written + b'{"more":1}\n')
    lines = [frame_line(frame, frame.data) for run in runs for frame in run.frames(0, 99)]
    assert [places.frame_line(number) for number in range(4, 8)] == lines
    assert [places.frame_line(number) for number in (7, 5, 3)] == [lines[3], lines[1], None]
    places.close()


def test_a_group_whose_end_is_missing_is_none(tmp_path: Path) -> None:
    places = Places()
    places.parts.append(tmp_path / "cut.jsonl")
    places.parts[0].write_bytes(b"header\n{}\n{")
    places.add(2, 0, 7)
    assert [places.frame_line(number) for number in (0, 1)] == [None, None]
    places.close()


def test_what_is_nowhere_is_none(tmp_path: Path) -> None:
    places = Places()
    places.parts.append(tmp_path / "gone.jsonl")
    places.skip_frames(2)
    places.add(1, 0, 7)
    places.set_note(99, 0, 7)
    assert [places.frame_line(number) for number in (-1, 0, 2, 3)] == [None] * 4
    assert places.note_line(2) is None


def test_a_line_without_an_end_is_none(tmp_path: Path) -> None:
    places = Places()
    places.parts.append(tmp_path / "cut.jsonl")
    places.parts[0].write_bytes(b"header\n{cut off")
    places.add(1, 0, 7)
    assert places.frame_line(0) is None
    places.close()


def test_parts_are_numbered_before_the_suffix(tmp_path: Path) -> None:
    assert part_path(tmp_path / "a.jsonl", 1) == tmp_path / "a.jsonl"
    assert part_path(tmp_path / "a.jsonl", 3) == tmp_path / "a.3.jsonl"
