"""The index advances in slices, never twice at once, and counts messages by the second."""

from __future__ import annotations

import time

import pytest

from mcpdesk.recorder.capture.recording import Recording
from tests.support.traffic import IN, OUT, busy_recording, call, connection, settle, text


def test_nothing_is_parsed_before_somebody_looks() -> None:
    recording = Recording(None)
    recording.frame(1, IN, call(1, "a"))
    assert (recording.index.frame_count, recording.index.paired, len(recording.index.exchanges)) == (1, 0, 0)
    assert recording.index.catch_up()
    assert not recording.index.catch_up()
    assert len(recording.index.exchanges) == 1


def test_a_peer_that_tells_its_name_late_has_it_everywhere() -> None:
    recording = Recording(None)
    recording.frame(1, IN, call(1, "a"))
    settle(recording)
    assert recording.index.exchange(0).peer == "connection 1"
    recording.connect(connection(1, "claude-code 2.1"))
    assert recording.index.exchange(0).peer == "claude-code 2.1"


def test_rates_count_messages_by_the_second(monkeypatch: pytest.MonkeyPatch) -> None:
    recording = Recording(None)
    for number, at in enumerate((100.0, 100.9, 102.0)):
        recording.frame(1, IN, call(number, "a"), at=at)
    settle(recording)
    recording.frame(1, OUT, text(2, "x"), at=102.5)
    settle(recording)
    monkeypatch.setattr("mcpdesk.recorder.index.traffic_index.time", lambda: 104.5)
    assert recording.index.rates(5) == [0.0, 2.0, 0.0, 2.0, 0.0]


def test_a_pending_exchange_has_a_running_clock() -> None:
    recording = busy_recording()
    pending = recording.index.exchanges[-1]
    assert pending.ended is None
    assert pending.elapsed(pending.started + 3) == pytest.approx(3)
    assert recording.index.pending() == [pending.number]


def test_changes_are_told_by_the_version() -> None:
    recording = busy_recording()
    version = recording.index.version
    recording.frame(1, OUT, text("six", "done"))
    settle(recording)
    assert recording.index.version > version
    assert recording.index.exchanges[-1].status == "ok"
    assert time.time() - recording.index.exchanges[-1].started < 60
