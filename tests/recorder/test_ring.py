"""The ring is bounded in bytes and loses whole segments, oldest first."""

from __future__ import annotations

from mcpdesk.recorder.capture.ring import SEGMENT_FRAMES, Ring
from mcpdesk.recorder.record import Direction, Frame, FrameRun


def filled(frames: int, budget: int, size: int = 10) -> Ring:
    ring = Ring(budget)
    for number in range(frames):
        segment = ring.open(number) if number % SEGMENT_FRAMES == 0 else ring.segment(number)
        assert segment is not None
        segment.entries.append(Frame(number, 0.0, 1, Direction.IN, b"x" * size, size))
        ring.account(number, size)
    return ring


def test_a_frame_is_found_by_its_number() -> None:
    ring = filled(300, 1 << 20)
    found = ring.frame(200)
    assert found is not None and found.number == 200
    assert ring.frame(300) is None and ring.frame(-1) is None and ring.frame(10_000) is None


def test_a_segment_tells_the_frames_of_a_run_from_each_other() -> None:
    ring, first = Ring(1 << 20), SEGMENT_FRAMES
    segment = ring.open(first)
    frames = [Frame(first + at, 1.0, 1, Direction.OUT, b"%d" % at, 1) for at in range(6)]
    run = FrameRun(first + 1, 1.0, 1, Direction.OUT, b"1\n2\n3", 3)
    segment.entries += [frames[0], run, frames[4], frames[5]]
    assert run.frames(first, first + 4) == frames[1:4] and run.size == 3
    for start in range(8):
        for stop in range(start, 9):
            found = frames[start:stop]
            assert segment.frames(first + start, first + stop) == found
            assert segment.data(first + start, first + stop) == [frame.data for frame in found]
    assert segment.between(first + 1, first + 5) == [run, frames[4]]
    assert [ring.frame(first + at) for at in range(-1, 7)] == [None, *frames, None]


def test_the_oldest_segments_go_when_the_budget_is_passed() -> None:
    ring = filled(5 * SEGMENT_FRAMES, budget=3 * SEGMENT_FRAMES * 10)
    while ring.is_over:
        ring.drop_oldest()
    assert ring.cost <= ring.budget
    assert ring.frame(0) is None and ring.frame(2 * SEGMENT_FRAMES) is not None


def test_the_newest_segment_stays_however_large_it_is() -> None:
    ring = filled(SEGMENT_FRAMES, budget=1)
    assert not ring.is_over
    assert ring.frame(0) is not None
