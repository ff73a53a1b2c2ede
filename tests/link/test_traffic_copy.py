"""Messages and copies of the traffic of other processes: omissions are counted."""

from __future__ import annotations

import msgspec
import pytest

from mcpdesk.link import traffic_copy
from mcpdesk.link.attach_messages import TrafficBatch, pack
from mcpdesk.link.traffic_copy import TrafficCopy
from mcpdesk.protocol.reading.remark import Remark, RemarkKind
from mcpdesk.recorder.record import Direction, Frame, Gap, HeldMark, RecordedRemark


def batch(count: int, left_out: int = 0) -> TrafficBatch:
    """Remarks of a core that has left out others."""
    one = RecordedRemark(1, None, 1.0, Remark(RemarkKind.STDOUT, "text"))
    return TrafficBatch((), remarks=(one,) * count, remarks_left_out=left_out)


def test_remarks_that_a_core_or_the_copy_leaves_out_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic_copy, "MAX_REMARKS", 4)
    copy = TrafficCopy(lambda epoch, number: None)
    copy.add_batch(batch(3, left_out=2), epoch=1)
    assert (len(copy.remarks), copy.remarks_left_out) == (3, 2)
    copy.add_batch(batch(0, left_out=7), epoch=1)
    assert (len(copy.remarks), copy.remarks_left_out) == (3, 7), "the number of a core is that of all so far"
    copy.add_batch(batch(2), epoch=2)
    assert (len(copy.remarks), copy.remarks_left_out) == (4, 8)
    ended = RecordedRemark(1, 1, 1.0, Remark(RemarkKind.CODE_ENDED, "it ended"))
    copy.add_batch(TrafficBatch((), remarks=(ended,) * 5, first_remark=2), epoch=2)
    assert (len(copy.remarks), copy.remarks_left_out) == (8, 9), "ends have more room, and a limit as well"


def frame(number: int) -> Frame:
    return Frame(number, 1.0, 1, Direction.IN, b"{}", 2)


def test_frames_that_were_not_sent_are_a_gap_and_repeated_ones_are_skipped() -> None:
    copy = TrafficCopy(lambda epoch, number: None)

    def add(*numbers: int, epoch: int = 1, why: str = "") -> int:
        return copy.add_batch(TrafficBatch((), frames=tuple(map(frame, numbers)), why=why), epoch=epoch)

    assert (add(0, 1), add(), add(1, 2), copy.count, copy.gaps) == (0, 0, 0, 3, [])
    assert (add(7, 8, why="the screen was slow"), copy.count) == (4, 5)
    assert (add(2, epoch=2), add(3, epoch=2), copy.count) == (2, 0, 7)
    first, second = "the screen was slow", "they were deleted before they could be read"
    assert copy.gaps == [Gap(3, 4, first), Gap(5, 2, second)]


def test_integers_of_more_than_64_bits_are_sent_as_floats_and_those_beside_them_as_they_are() -> None:
    numbers = (5, -(1 << 63), (1 << 64) - 1, 1 << 64, -(10**30))
    arrived = msgspec.msgpack.decode(pack({"numbers": numbers}))["numbers"]
    assert arrived == [5, -(1 << 63), (1 << 64) - 1, 2.0**64, -1e30]
    assert [type(each) for each in arrived] == [int, int, int, float, float]


def test_marks_and_remarks_that_are_sent_again_are_kept_once_and_lost_ones_are_made_good() -> None:
    copy = TrafficCopy(lambda epoch, number: None)
    marks = tuple(HeldMark(1, Direction.IN, number, 1.0, 0.5, "passed on") for number in range(4))
    remarks = tuple(RecordedRemark(1, number, 1.0, Remark(RemarkKind.STDOUT, "x")) for number in range(4))

    def take(first: int, stop: int) -> list[int]:
        sent, said = marks[first:stop], remarks[first:stop]
        copy.add_batch(
            TrafficBatch((), marks=sent, first_mark=first, remarks=said, first_remark=first), epoch=1
        )
        assert [each.id for each in copy.marks] == [each.id for each in copy.remarks]
        return [int(each.id or 0) for each in copy.marks]

    assert take(0, 2) == [0, 1]
    assert take(3, 4) == [0, 1], "the one before it is missing, so the screen rejoins"
    assert take(0, 4) == [0, 1, 2, 3]
    assert take(2, 4) == [0, 1, 2, 3]
    copy.add_batch(TrafficBatch((), marks=marks[:1], remarks=remarks[:1]), epoch=2)
    assert (len(copy.marks), len(copy.remarks)) == (5, 5), "each core counts its own"
