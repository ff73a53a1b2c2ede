"""Tables of the recorder that peers fill have limits, and report their omissions."""

from __future__ import annotations

from pathlib import Path
from time import time

import pytest

from mcpdesk.recorder import archive, record
from mcpdesk.recorder.archive import Archive
from mcpdesk.recorder.capture import recording as capture_recording
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.index import pairing
from mcpdesk.recorder.index.exchange import ExchangeKind, Status
from mcpdesk.recorder.index.query import EVERYTHING
from mcpdesk.recorder.index.view import View
from mcpdesk.recorder.record import CallLog, ConnectionInfo, Direction, Gap, add_gap

CALL = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","_meta":{"progressToken":"p"}}}'
PROGRESS = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":1}}'


def test_of_too_many_gaps_the_oldest_become_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "MAX_GAPS", 3)
    gaps: list[Gap] = []
    for number in range(5):
        add_gap(gaps, Gap(number * 10, number + 1, "slow"))
    assert len(gaps) == 3
    assert [(gap.before, gap.frames) for gap in gaps] == [(20, 6), (30, 4), (40, 5)]
    assert sum(gap.frames for gap in gaps) == 15, "no missing frame is forgotten"


def test_a_call_takes_in_so_many_notifications_and_others_are_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pairing, "_MAX_NOTIFICATIONS", 3)
    recording = Recording(None)
    recording.start()
    recording.connect(ConnectionInfo(1, "s", "stdio", "c", "2025-06-18", time()))
    recording.frame(1, Direction.IN, CALL, True)
    for _ in range(5):
        recording.frame(1, Direction.OUT, PROGRESS, True)
    index = recording.index
    while index.catch_up(1.0):
        pass
    assert index.exchange(0).notifications == (1, 2, 3)
    view = View(index, EVERYTHING)
    view.advance(1.0)
    kinds = [index.exchange(row).kind for row in view.lines]
    assert kinds == [ExchangeKind.REQUEST, ExchangeKind.NOTIFICATION, ExchangeKind.NOTIFICATION]
    recording.close()


def test_log_lines_of_a_capture_have_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = Recording(tmp_path / "c.jsonl")
    recording.start()
    recording.connect(ConnectionInfo(1, "s", "stdio", "c", "2025-06-18", time()))
    recording.frame(1, Direction.IN, CALL, True)
    for number in range(5):
        recording.log(CallLog(1, 1, time(), "info", "print", f"line {number}"))
    recording.close()
    assert recording.path is not None
    monkeypatch.setattr(archive, "MAX_LOGS", 3)
    read = Archive(recording.path)
    assert [each.text for each in read.call_logs] == ["line 0", "line 1", "line 2"]


def test_of_log_lines_that_wait_for_the_file_the_oldest_are_dropped_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(capture_recording, "_MAX_LOGS", 3)
    recording = Recording(tmp_path / "c.jsonl")
    recording.connect(ConnectionInfo(1, "s", "stdio", "c", "2025-06-18", time()))
    recording.frame(1, Direction.IN, CALL, True)
    for number in range(5):
        recording.log(CallLog(1, 1, time(), "info", "print", f"line {number}"))
    recording.start()
    recording.close()
    assert recording.path is not None
    first, *others = [each.text for each in Archive(recording.path).call_logs]
    assert first == "2 log lines before this one are missing: the disk is too slow"
    assert others == ["line 2", "line 3", "line 4"]


def test_connections_that_are_forgotten_wait_until_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pairing, "MAX_FLOWS", 2)
    recording = Recording(None)
    recording.start()
    index = recording.index
    for number, pending in ((1, [0]), (2, [0, 1]), (3, [1, 2])):
        recording.frame(number, Direction.IN, CALL, True)  # of a connection that nothing is known of
        while index.catch_up(1.0):
            pass
        assert index.pending() == pending
    assert index.exchange(0).status is Status.LOST
    recording.close()


def test_bytes_of_frames_are_read_up_to_a_size_and_at_least_one_frame(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record, "MAX_SEARCH_BYTES", len(CALL) + 1)
    recording = Recording(tmp_path / "c.jsonl")
    recording.start()
    recording.connect(ConnectionInfo(1, "s", "stdio", "c", "2025-06-18", time()))
    large = CALL.replace(b'"t"', b'"%b"' % (b"t" * 1_000))
    for frame in (CALL, CALL, CALL, large):
        recording.frame(1, Direction.IN, frame, True)
    recording.close()
    assert recording.path is not None
    kept = Archive(recording.path)
    assert kept.data(0, 4) == [CALL, CALL] and kept.data(3, 4) == [large]
    kept.close()
