"""The walk of a call is the way that its bytes take, and nothing else."""

from __future__ import annotations

from tests.bench.folder import echo_folder
from tests.bench.walk import over_stdio


def test_the_walk_begins_where_bytes_arrive_and_ends_where_they_leave() -> None:
    with echo_folder() as folder:
        steps = over_stdio(folder)
    steps = [each for each in steps if each.module != "hosting/changes.py"]
    assert (steps[0].module, steps[-1].module) == ("transports/stdio.py", "transports/stdio.py")
    assert ("server/calls/tool_calls.py", "ToolCalls.run") in steps
    assert len(set(steps)) == len(steps)
