"""The capture file is private and append-only, and continues in parts."""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from mcpdesk.recorder.capture.capture_file import CaptureFile
from mcpdesk.recorder.capture.capture_lines import Group, read_line
from mcpdesk.recorder.record import Direction, Frame
from tests.support.traffic import connection, frame_line


def line(number: int, data: bytes = b"{}") -> bytes:
    return frame_line(Frame(number, 1.0, 1, Direction.IN, data, len(data)), data)


def alone(line: bytes) -> Group:
    return Group(1, (line,))


def test_file_and_folder_belong_to_the_user_alone(tmp_path: Path) -> None:
    file = CaptureFile(tmp_path / "captures" / "a.jsonl", None, 1.0)
    file.close()
    assert stat.S_IMODE(file.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.path.parent.stat().st_mode) == 0o700


def test_an_existing_capture_is_never_written_into(tmp_path: Path) -> None:
    first = CaptureFile(tmp_path / "a.jsonl", None, 1.0)
    second = CaptureFile(tmp_path / "a.jsonl", None, 1.0)
    assert [first.path.name, second.path.name] == ["a.jsonl", "a-2.jsonl"]
    first.close()
    second.close()


def test_a_full_part_is_followed_by_another_that_stands_for_itself(tmp_path: Path) -> None:
    file = CaptureFile(tmp_path / "a.jsonl", 600, 1.0)
    file.add_connection(connection(1))
    file.add_connection(connection(2, closed=9.0))
    for number in range(20):
        file.add(alone(line(number)))
    file.close()
    parts = file.positions.parts
    assert len(parts) > 1 and all(part.stat().st_size <= 600 for part in parts)
    second = [read_line(raw) for raw in parts[1].read_bytes().splitlines(keepends=True)]
    assert (second[0].part, second[0].first) == (2, second[2].n)
    assert second[1].connection == connection(1)
    read = [read_line(file.positions.frame_line(number) or b"").n for number in range(20)]
    assert read == list(range(20))
    file.positions.close()


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
def test_a_removed_part_is_closed_and_its_space_is_free(tmp_path: Path) -> None:
    file = CaptureFile(tmp_path / "a.jsonl", 600, 1.0)
    for number in range(20):
        file.add(alone(line(number)))
    file.write(file.drain())
    assert file.positions.frame_line(0) is not None  # its part is open now
    file.remove(file.positions.parts[0])
    targets = []
    for each in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            targets.append(os.readlink(each))
    assert not [each for each in targets if each.startswith(str(tmp_path)) and each.endswith("(deleted)")]
    assert file.positions.frame_line(0) is None
    file.close()
    file.positions.close()
