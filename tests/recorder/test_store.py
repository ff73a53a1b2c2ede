"""Frames are read from wherever they are at the moment."""

from __future__ import annotations

from pathlib import Path

from mcpdesk.recorder.capture.capture_file import CaptureFile
from mcpdesk.recorder.capture.capture_lines import Group
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.capture.ring import Store
from mcpdesk.recorder.record import Direction, Frame
from tests.support.traffic import IN, frame_line


def test_frames_partly_in_memory_and_partly_on_disk_are_one_row(tmp_path: Path) -> None:
    file = CaptureFile(tmp_path / "a.jsonl", None, 1.0)
    store = Store(1 << 20)
    store.places, store.count = file.places, 200
    for number in range(200):
        frame = Frame(number, 1.0, 1, Direction.IN, b"%d" % number, len(b"%d" % number))
        file.add(Group(1, (frame_line(frame, frame.data),)))
        if number >= 128:
            segment = store.ring.segment(number) or store.ring.open(number)
            segment.entries.append(frame)
    file.close()
    assert store.data(120, 136) == [b"%d" % number for number in range(120, 136)]
    assert [frame.number for frame in store.frames(120, 136) if frame] == list(range(120, 136))
    file.places.close()


def test_without_a_file_what_left_memory_is_none() -> None:
    store = Store(1 << 20)
    assert (store.frame(0), store.whole(0), store.note(0)) == (None, b"", None)
    assert store.data(0, 2) == [b"", b""]


def test_a_large_frame_is_searched_whole_while_it_waits() -> None:
    recording = Recording(None)
    recording.frame(1, IN, b"a" * 100_000 + b"needle")
    assert recording.index.data(0, 1)[0].endswith(b"needle")
