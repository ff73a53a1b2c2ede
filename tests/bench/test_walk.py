"""The walk contains the code between the bytes of a call and its answer, and nothing else."""

from __future__ import annotations

import pytest

from tests.bench.folder import echo_folder
from tests.bench.walk import over_stdio

TURN = (
    "hosting/core_loop/changes.py",
    "runtime/core_process.py",
    "hosting/journal.py",
    "hosting/log_limits.py",
)
"""Modules that run at the end of a turn of the loop, outside of the call."""


@pytest.mark.process
def test_the_walk_begins_where_bytes_arrive_and_ends_where_they_leave() -> None:
    with echo_folder() as folder:
        steps = over_stdio(folder)
    steps = [each for each in steps if each.module not in TURN]
    assert (steps[0].module, steps[-1].module) == ("transports/stdio.py", "transports/stdio.py")
    assert ("server/calls/tool_calls.py", "ToolCalls.run") in steps
    assert len(set(steps)) == len(steps)
