"""The encoder makes lines of frames, once each and in order, and counts what they take of memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from mcpdesk.recorder.capture.capture_file import CaptureFile
from mcpdesk.recorder.capture.encoder import CaptureEncoder
from mcpdesk.recorder.capture.ring import FRAME_COST, SEGMENT_FRAMES, Store
from mcpdesk.recorder.record import Direction, Frame, HttpNote
from tests.support.traffic import connection

NOTE = HttpNote("POST /mcp/echo HTTP/1.1", (("Host", "127.0.0.1"),))
GROUP_BYTES = 10_000
MANY = 1 << 30


@pytest.fixture
def encoder(tmp_path: Path) -> Iterator[CaptureEncoder]:
    encoder = CaptureEncoder(Store(1 << 20), GROUP_BYTES)
    encoder.file = CaptureFile(tmp_path / "a.jsonl", None, 1.0)
    yield encoder
    encoder.file.close()


def record(encoder: CaptureEncoder, sizes: list[int], said: Iterable[int] = ()) -> None:
    """Frames of these sizes; something was `said` around those of these numbers."""
    store = encoder._store
    for number, size in enumerate(sizes, store.count):
        segment = store.ring.segment(number) or store.ring.open(number)
        segment.entries.append(Frame(number, 1.0, 1, Direction.IN, b"1" * size, size))
    store.count += len(sizes)
    for number in said:
        found = store.ring.segment(number)
        assert found is not None
        found.notes[number] = NOTE


def lines(encoder: CaptureEncoder) -> list[bytes]:
    assert encoder.file is not None
    return b"".join(piece for piece in encoder.file.take() if isinstance(piece, bytes)).splitlines()


def test_frames_become_lines_in_order_and_count(encoder: CaptureEncoder) -> None:
    record(encoder, [5] * (SEGMENT_FRAMES + 44))
    lines(encoder)
    encoder.encode(10, MANY)
    encoder.encode(SEGMENT_FRAMES + 44, MANY)
    made = lines(encoder)
    assert [line.split(b",")[0] for line in made] == [b'{"n":%d' % number for number in range(300)]
    assert (encoder.frames, encoder.bytes) == (300, 1500)
    assert encoder._store.ring.cost == 300 * (FRAME_COST + 5)
    encoder.encode(300, MANY)
    assert not lines(encoder) and encoder.bytes == 1500


def test_frames_that_left_memory_before_are_reported_as_lost(encoder: CaptureEncoder) -> None:
    record(encoder, [5] * (2 * SEGMENT_FRAMES))
    encoder._store.ring.drop_oldest()
    encoder.encode(2 * SEGMENT_FRAMES, MANY)
    assert b'{"lost":[0,256],"missing":256,"why":"the disk is too slow"}' in lines(encoder)
    assert f"{SEGMENT_FRAMES} frames went unwritten" in encoder.error


def test_a_repeated_note_is_written_once_and_referred_to(encoder: CaptureEncoder) -> None:
    record(encoder, [5] * SEGMENT_FRAMES, said=[*range(128), 200])
    encoder.encode(128, MANY)
    _, note, same = lines(encoder)[-3:]
    assert note.startswith(b'{"note":{"frame":0') and same.startswith(b'{"same":[0,1,2,') and b"127]" in same
    encoder.encode(SEGMENT_FRAMES, MANY)
    assert lines(encoder)[-1] == b'{"same":[0,200]}'


def test_notes_count_where_their_frames_lie(encoder: CaptureEncoder) -> None:
    said = range(SEGMENT_FRAMES - 10, 2 * SEGMENT_FRAMES + 20)
    record(encoder, [5] * (3 * SEGMENT_FRAMES), said)
    encoder.encode(3 * SEGMENT_FRAMES, MANY)
    costs = [segment.cost for segment in encoder._store.ring.segments.values()]
    notes = [cost - SEGMENT_FRAMES * (FRAME_COST + 5) for cost in costs]
    assert notes[1:] == [SEGMENT_FRAMES * FRAME_COST, 20 * FRAME_COST]
    assert 10 * FRAME_COST < notes[0] < 12 * FRAME_COST  # what it says lies with the first of them


def test_connections_are_told_before_their_frames(encoder: CaptureEncoder) -> None:
    record(encoder, [5])
    lines(encoder)
    encoder.add_connections([connection(1)])
    encoder.encode(1, MANY)
    assert [line.split(b":")[0] for line in lines(encoder)] == [b'{"connection"', b'{"n"']


def test_without_a_file_memory_is_counted_all_the_same() -> None:
    encoder = CaptureEncoder(Store(1 << 20), GROUP_BYTES)
    record(encoder, [5] * 10, said=[0])
    encoder.add_connections([connection(1)])
    encoder.encode(10, MANY)
    assert (encoder.frames, encoder.error) == (10, "")
    assert encoder._store.ring.cost > 10 * (FRAME_COST + 5) + FRAME_COST
