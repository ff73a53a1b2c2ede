"""A call is slow only among others of its kind."""

from __future__ import annotations

from pathlib import Path

from mcpdesk.protocol.phases import Phases
from mcpdesk.recorder.archive import Archive
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.index.slow_calls import SlowCallDetector
from mcpdesk.recorder.record import FAULT, HeldMark
from tests.support.traffic import IN, OPENED, OUT, call, connection, settle, text


def paced(*seconds: float) -> SlowCallDetector:
    pace = SlowCallDetector()
    for each in seconds:
        pace.add(1, each)
    return pace


def test_an_outlier_is_slow_after_enough_calls() -> None:
    pace = paced(*[0.010] * 30, 0.100)
    assert not pace.is_slow(1, 0.010) and pace.is_slow(1, 0.100)
    assert not pace.is_slow(2, 0.100)


def test_what_nobody_would_notice_is_not_slow() -> None:
    assert not paced(*[0.0002] * 40).is_slow(1, 0.009)


def test_few_calls_prove_nothing() -> None:
    assert not paced(0.001, 5.0, 0.001, 50.0).is_slow(1, 50.0)


def test_what_is_usually_slow_is_not_marked() -> None:
    assert not paced(*[3.0] * 50).is_slow(1, 3.5)


def test_of_equal_calls_none_is_slow_or_all_are() -> None:
    pace = paced(*[0.0004] * 40, 0.601)
    assert pace.is_slow(1, 0.601)
    for _ in range(20):
        pace.add(1, 0.601)
    assert not pace.is_slow(1, 0.601) and not pace.is_slow(1, 0.613), "usual durations are not slow"


def test_what_a_person_took_or_held_makes_no_call_slow(tmp_path: Path) -> None:
    recording = Recording(tmp_path / "held.jsonl")
    recording.start()
    recording.connect(connection(1))

    def answered(number: int, took: float, person_s: float = 0.0, held_s: float = 0.0, how: str = "") -> None:
        began = OPENED + 100 * number
        recording.frame(1, IN, call(number, "Bash"), at=began)
        if held_s:
            recording.mark(HeldMark(1, IN, number, began + held_s, held_s, how))
        phases = Phases(began + took, person=int(person_s * 1e6))
        recording.frame(1, OUT, text(number, "done"), at=began + took, phases=phases)

    for number in range(30):
        answered(number, 0.5)
    answered(30, 40.5, person_s=40)
    answered(31, 20.5, held_s=20, how="passed on")
    answered(32, 20.5, held_s=20, how=f"late {FAULT} 1")
    answered(33, 20.5)
    settle(recording)
    recording.close()
    capture = Archive(tmp_path / "held.jsonl").index
    capture.catch_up(float("inf"))
    for index in (recording.index, capture):
        assert [one.number for one in index.exchanges if one.is_slow] == [32, 33]
