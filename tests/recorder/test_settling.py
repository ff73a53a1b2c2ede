"""Settling makes lines of frames, once each and in order, and counts what they take of memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from mcpdesk.recorder.capture.capture_file import CaptureFile
from mcpdesk.recorder.capture.encoder import Settling
from mcpdesk.recorder.capture.ring import FRAME_COST, SEGMENT_FRAMES, Store
from mcpdesk.recorder.record import Direction, Frame, HttpNote, Said
from tests.support.traffic import connection

SAID = Said("POST /mcp/echo HTTP/1.1", (("Host", "127.0.0.1"),))
GROUP_BYTES = 10_000


@pytest.fixture
def settling(tmp_path: Path) -> Iterator[Settling]:
    settling = Settling(Store(1 << 20), GROUP_BYTES)
    settling.file = CaptureFile(tmp_path / "a.jsonl", None, 1.0)
    yield settling
    settling.file.close()


def record(settling: Settling, sizes: list[int], said: Iterable[int] = ()) -> None:
    """Frames of these sizes; something was `said` around those of these numbers."""
    store = settling._store
    for number, size in enumerate(sizes, store.count):
        segment = store.ring.segment(number) or store.ring.open(number)
        segment.entries.append(Frame(number, 1.0, 1, Direction.IN, b"1" * size, size))
    store.count += len(sizes)
    for number in said:
        segment = store.ring.segment(number)
        assert segment is not None
        segment.said[number] = SAID


def lines(settling: Settling) -> list[bytes]:
    assert settling.file is not None
    return b"".join(piece for piece in settling.file.take() if isinstance(piece, bytes)).splitlines()


def test_frames_become_lines_in_order_and_count(settling: Settling) -> None:
    record(settling, [5] * (SEGMENT_FRAMES + 44))
    lines(settling)
    settling.settle(10)
    settling.settle(SEGMENT_FRAMES + 44)
    made = lines(settling)
    assert [line.split(b",")[0] for line in made] == [b'{"n":%d' % number for number in range(300)]
    assert (settling.frames, settling.bytes) == (300, 1500)
    assert settling._store.ring.cost == 300 * (FRAME_COST + 5)
    settling.settle(300)
    assert not lines(settling) and settling.bytes == 1500


def test_who_is_pressed_leaves_large_frames_and_what_follows(settling: Settling) -> None:
    record(settling, [5] * SEGMENT_FRAMES + [GROUP_BYTES + 1] + [5] * (SEGMENT_FRAMES + 20))
    settling.settle(settling._store.count, is_pressed=True)
    assert settling.frames == SEGMENT_FRAMES
    settling.settle(settling._store.count)
    assert settling.frames == settling._store.count == 2 * SEGMENT_FRAMES + 21


def test_frames_that_left_memory_before_are_owned_up_to(settling: Settling) -> None:
    record(settling, [5] * (2 * SEGMENT_FRAMES))
    settling._store.ring.drop_oldest()
    settling.settle(2 * SEGMENT_FRAMES)
    assert b'{"lost":[0,256],"missing":256,"why":"the disk is too slow"}' in lines(settling)
    assert f"{SEGMENT_FRAMES} frames went unwritten" in settling.error


def test_what_is_said_again_is_settled_together(settling: Settling) -> None:
    record(settling, [5] * SEGMENT_FRAMES, said=[*range(128), 200])
    settling.settle(127)
    assert not any(line.startswith((b'{"note"', b'{"same"')) for line in lines(settling))
    settling.settle(128)
    _, note, same = lines(settling)
    assert note.startswith(b'{"note":{"frame":0') and same.startswith(b'{"same":[0,1,2,') and b"127]" in same
    settling.settle(SEGMENT_FRAMES)
    lines(settling)
    settling.share()
    assert lines(settling) == [b'{"same":[0,200]}']


def test_notes_count_where_their_frames_lie(settling: Settling) -> None:
    said = range(SEGMENT_FRAMES - 10, 2 * SEGMENT_FRAMES + 20)
    record(settling, [5] * (3 * SEGMENT_FRAMES), said)
    settling.settle(3 * SEGMENT_FRAMES)
    settling.share()
    costs = [segment.cost for segment in settling._store.ring.segments.values()]
    notes = [cost - SEGMENT_FRAMES * (FRAME_COST + 5) for cost in costs]
    assert notes[1:] == [SEGMENT_FRAMES * FRAME_COST, 20 * FRAME_COST]
    assert 10 * FRAME_COST < notes[0] < 12 * FRAME_COST  # what it says lies with the first of them


def test_frames_whose_notes_are_only_gathered_are_not_noted(settling: Settling) -> None:
    record(settling, [5] * SEGMENT_FRAMES, said=[20, 22, 60])
    settling.settle(20)
    assert settling.noted == 20
    settling.settle(40)
    settling.settle(SEGMENT_FRAMES)
    assert settling.noted == 20
    settling.share()
    assert settling.noted == SEGMENT_FRAMES


def test_connections_and_single_notes_are_told(settling: Settling) -> None:
    record(settling, [5])
    lines(settling)
    settling.announce([connection(1)])
    settling.settle(1)
    settling.note(HttpNote(0, "200", ()))
    kinds = [line.split(b":")[0] for line in lines(settling)]
    assert kinds == [b'{"connection"', b'{"n"', b'{"note"']
    noted = settling._store.note(0)
    assert noted is not None and noted.line == "200"


def test_without_a_file_memory_is_counted_all_the_same() -> None:
    settling = Settling(Store(1 << 20), GROUP_BYTES)
    record(settling, [5] * 10, said=[0])
    settling.announce([connection(1)])
    settling.settle(10)
    settling.share()
    assert (settling.frames, settling.error) == (10, "")
    assert settling._store.ring.cost > 10 * (FRAME_COST + 5) + FRAME_COST
