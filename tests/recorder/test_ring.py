"""The ring is bounded in bytes and loses whole segments, oldest first."""

from __future__ import annotations

from mcpdesk.recorder.record import Direction, Frame
from mcpdesk.recorder.ring import SEGMENT_FRAMES, Ring


def filled(frames: int, budget: int, size: int = 10) -> Ring:
    ring = Ring(budget)
    for number in range(frames):
        segment = ring.open(number) if number % SEGMENT_FRAMES == 0 else ring.segment(number)
        assert segment is not None
        segment.frames.append(Frame(number, 0.0, 1, Direction.IN, b"x" * size, size))
        ring.account(number, size)
    return ring


def test_a_frame_is_found_by_its_number() -> None:
    ring = filled(300, 1 << 20)
    found = ring.frame(200)
    assert found is not None and found.number == 200
    assert ring.frame(300) is None and ring.frame(-1) is None and ring.frame(10_000) is None


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
