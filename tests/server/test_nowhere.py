"""Who sends to nobody is not held up."""

from __future__ import annotations

from mcpdesk.server.nowhere import NOWHERE
from mcpdesk.server.progress import Progress


async def test_what_goes_nowhere_is_dropped_at_once() -> None:
    progress = Progress("t", True)
    assert not any(progress.report(number, 3, NOWHERE) for number in range(3))
    assert not NOWHERE.may_send
    await NOWHERE.drain()
    NOWHERE.keep_alive()
    assert not await NOWHERE.let_go(1)
