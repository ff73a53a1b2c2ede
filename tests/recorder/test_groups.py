"""What is written at once stands at one place, in the order it came."""

from __future__ import annotations

from mcpdesk.recorder.capture.capture_lines import (
    Group,
    at_once,
    one_by_one,
    read_line,
    run_pieces,
)
from mcpdesk.recorder.record import Direction, Entry, Frame, FrameRun
from tests.support.traffic import frame_line


def frame(number: int, data: bytes = b"{}") -> Frame:
    return Frame(number, 1.0, 1, Direction.IN, data, len(data))


RUN = FrameRun(2, 1.5, 1, Direction.OUT, b"{}\n[]", 2)
ENTRIES: list[Entry] = [frame(0), frame(1), RUN, frame(4), frame(5)]


def test_frames_between_two_runs_are_one_group() -> None:
    before, run, after = at_once(ENTRIES, {1})
    assert run == Group(2, run_pieces(RUN), is_run=True)
    for group, numbers in ((before, [0, 1]), (after, [4, 5])):
        (lines,) = group.pieces
        assert [read_line(line + b"\n").n for line in lines.splitlines()] == numbers
        assert (group.count, group.is_run) == (2, False)
    assert list(at_once([], ())) == []


def test_frames_that_are_no_json_are_groups_of_their_own() -> None:
    odd = frame(1, b"nonsense")
    groups = list(at_once([frame(0), odd, RUN], {1}))
    assert [group.count for group in groups] == [1, 1, 2]
    assert b"".join(groups[1].pieces) == frame_line(odd, odd.data)


def test_a_cut_frame_is_written_as_far_as_there_is_more_of_it() -> None:
    cut = Frame(7, 1.0, 1, Direction.IN, b"be", 999, b"d")
    groups = list(one_by_one([RUN, cut], (), {7: b"beginn"}))
    assert [(group.count, group.is_run) for group in groups] == [(2, True), (1, False)]
    assert b"".join(groups[1].pieces) == frame_line(cut, b"beginn")
