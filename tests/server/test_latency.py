"""The figures of the latest calls."""

from __future__ import annotations

import pytest

from mcpdesk.server.latency import KEPT, Latency


def test_nothing_is_said_before_the_first_call() -> None:
    assert Latency().at(0.5) is None


def test_half_and_most_of_the_calls() -> None:
    latency = Latency()
    for number in range(20):
        latency.add(number / 1000)
    assert latency.at(0.5) == pytest.approx(0.010)
    assert latency.at(0.95) == pytest.approx(0.019)


def test_only_the_latest_calls_count() -> None:
    latency = Latency()
    for _ in range(KEPT):
        latency.add(5.0)
    for _ in range(KEPT):
        latency.add(1.0)
    assert len(latency) == KEPT and latency.at(0.95) == 1.0
