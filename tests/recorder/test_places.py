"""Lines are read back from where they were said to be."""

from __future__ import annotations

from pathlib import Path

from mcpdesk.recorder.places import Places, part_path


def test_lines_of_any_length_are_read_from_several_parts(tmp_path: Path) -> None:
    lines = [b"a" * 10 + b"\n", b"b" * 50_000 + b"\n"]
    places = Places()
    for part, line in enumerate(lines):
        path = tmp_path / f"{part}.jsonl"
        path.write_bytes(b"header\n" + line)
        places.parts.append(path)
        places.add_frame(part, 7)
    assert [places.frame_line(number) for number in (0, 1, 0)] == [*lines, lines[0]]
    places.close()


def test_lines_of_a_group_are_told_apart(tmp_path: Path) -> None:
    lines = [b"{%d}\n" % number for number in range(3)] + [b"z" * 100_000 + b"\n", b"\r\x0b\n"]
    path = tmp_path / "a.jsonl"
    path.write_bytes(b"header\n" + b"".join(lines[:3]) + b"between\n" + b"".join(lines[3:]) + b"after\n")
    places = Places()
    places.parts.append(path)
    places.add_group(3, 0, 7)
    places.add_group(2, 0, 7 + 12 + 8)
    assert [places.frame_line(number) for number in range(5)] == lines
    assert [places.frame_line(number) for number in (4, 0, 3, 2)] == [lines[4], lines[0], lines[3], lines[2]]
    assert places.frame_line(5) is None
    places.close()


def test_a_group_whose_end_is_missing_is_none(tmp_path: Path) -> None:
    places = Places()
    places.parts.append(tmp_path / "cut.jsonl")
    places.parts[0].write_bytes(b"header\n{}\n{")
    places.add_group(2, 0, 7)
    assert [places.frame_line(number) for number in (0, 1)] == [None, None]
    places.close()


def test_what_is_nowhere_is_none(tmp_path: Path) -> None:
    places = Places()
    places.parts.append(tmp_path / "gone.jsonl")
    places.skip_frames(2)
    places.add_frame(0, 7)
    places.set_note(99, 0, 7)
    assert [places.frame_line(number) for number in (-1, 0, 2, 3)] == [None] * 4
    assert places.note_line(2) is None


def test_a_line_without_an_end_is_none(tmp_path: Path) -> None:
    places = Places()
    places.parts.append(tmp_path / "cut.jsonl")
    places.parts[0].write_bytes(b"header\n{cut off")
    places.add_frame(0, 7)
    assert places.frame_line(0) is None
    places.close()


def test_parts_are_numbered_before_the_suffix(tmp_path: Path) -> None:
    assert part_path(tmp_path / "a.jsonl", 1) == tmp_path / "a.jsonl"
    assert part_path(tmp_path / "a.jsonl", 3) == tmp_path / "a.3.jsonl"
