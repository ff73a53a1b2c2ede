"""A short load loses nothing; `python -m tests.load` runs longer."""

from __future__ import annotations

import pytest

from tests.load.load import Load, run
from tests.load.tally import Tally


@pytest.mark.slow
async def test_nothing_is_lost_under_connections_and_jobs_of_every_kind() -> None:
    tally = await run(Load(connections=90, jobs=20, seconds=3, pause_s=0.2, work_s=0.3))
    assert (tally.lost, tally.wrong, tally.complaints) == (0, 0, [])
    assert tally.answered >= 90 and tally.jobs_done >= 20
    assert tally.counted["mcpdesk_errors_total"] == tally.counted["mcpdesk_calls_in_flight"] == 0
    # All clients but the one that reads the figures have left, and the jobs they left behind are over.
    assert tally.counted["mcpdesk_http_connections"] == 1
    assert tally.counted["mcpdesk_http_sessions"] == tally.counted["mcpdesk_peers"] == 0
    assert tally.counted["mcpdesk_call_duration_seconds_count"] >= tally.answered


def test_an_account_tells_what_is_lost_and_what_grows() -> None:
    tally = Tally(asked=10, answered=9, jobs_begun=5, jobs_done=3, memory=[100 << 20] * 4)
    assert tally.lost == 3 and tally.is_level
    tally.complain("one was answered with nothing")
    assert tally.lines(2.0)[:3] == [
        "calls     9 of 10 answered, 4 a second",
        "jobs      3 of 5 done",
        "lost      3, wrong 1",
    ]
    tally.memory = [size << 20 for size in (50, 100, 101, 102, 103, 104, 118, 119)]
    assert not tally.is_level
    assert "101.5 MiB once settled, 118.5 MiB at the end: GROWING" in tally.lines(1.0)[3]
