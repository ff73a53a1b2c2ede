"""The figures of the latest calls."""

from __future__ import annotations

import pytest

from mcpdesk.server.calls.call_figures import RECENT_DURATIONS, Latency


def test_half_and_most_of_the_calls() -> None:
    latency = Latency()
    for number in range(20):
        latency.add(number / 1000)
    assert latency.quantile(0.5) == pytest.approx(0.010)
    assert latency.quantile(0.95) == pytest.approx(0.019)


def test_only_the_latest_calls_count() -> None:
    latency = Latency()
    for _ in range(RECENT_DURATIONS):
        latency.add(5.0)
    for _ in range(RECENT_DURATIONS):
        latency.add(1.0)
    assert len(latency) == RECENT_DURATIONS and latency.quantile(0.95) == 1.0


def test_the_calls_of_another_peer_are_added_to_the_latest_and_to_all() -> None:
    mine, other = Latency(), Latency()
    for _ in range(10):
        mine.add(1.0)
    for _ in range(RECENT_DURATIONS - 4):
        other.add(2.0)
    mine.add_calls_of(other)
    assert sorted(mine) == [1.0] * 4 + [2.0] * (RECENT_DURATIONS - 4)
    assert (mine.count, mine.total_s) == (RECENT_DURATIONS + 6, 10.0 + 2.0 * (RECENT_DURATIONS - 4))
    assert (other.count, len(other)) == (RECENT_DURATIONS - 4, RECENT_DURATIONS - 4)
