"""Who sends to nobody is not held up."""

from __future__ import annotations

from mcpdesk.protocol.outlet import NULL_OUTLET
from mcpdesk.server.calls.progress import Progress


async def test_what_goes_nowhere_is_dropped_at_once() -> None:
    progress = Progress("t", True)
    assert not any(progress.report(number, 3, NULL_OUTLET) for number in range(3))
    assert not NULL_OUTLET.may_send
    await NULL_OUTLET.drain()
    NULL_OUTLET.keep_alive()
    assert not await NULL_OUTLET.let_go(1)
