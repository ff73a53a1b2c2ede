"""A call is slow only among others of its kind."""

from __future__ import annotations

from mcpdesk.recorder.index.pairing import SlowCallDetector


def test_an_outlier_is_slow_after_enough_calls() -> None:
    pace = SlowCallDetector()
    assert not any(pace.is_slow(1, 0.010) for _ in range(30))
    assert pace.is_slow(1, 0.100)
    assert not pace.is_slow(2, 0.100)


def test_few_calls_prove_nothing() -> None:
    pace = SlowCallDetector()
    assert not any(pace.is_slow(1, seconds) for seconds in (0.001, 5.0, 0.001, 50.0))


def test_what_is_usually_slow_is_not_marked() -> None:
    pace = SlowCallDetector()
    for _ in range(50):
        pace.is_slow(1, 3.0)
    assert not pace.is_slow(1, 3.5)
