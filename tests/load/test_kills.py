"""A few kills of a loaded server; `python -m tests.load.kills 100` runs longer."""

from __future__ import annotations

import pytest

from tests.load.kills import CALLERS, MAX_LOST_S, SIZES, kill_once


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("callers", CALLERS[1:])
async def test_a_killed_server_has_lost_a_quarter_of_a_second_at_most(size: int, callers: int) -> None:
    kill = await kill_once(0.7, callers, size)
    assert kill.answered and kill.lost_s < MAX_LOST_S
    # The last line may be cut off; what comes before it is all there is, without gaps.
    assert kill.damaged <= 1 and kill.is_in_order
