"""Who sends to nobody is not held up."""

from __future__ import annotations

from mcpdesk.protocol.outlet import NULL_OUTLET


async def test_what_is_sent_to_nobody_is_dropped_at_once() -> None:
    NULL_OUTLET.send(b"{}")
    assert not NULL_OUTLET.may_send and not NULL_OUTLET.must_drain
    await NULL_OUTLET.drain()
    NULL_OUTLET.keep_alive()
    assert not await NULL_OUTLET.let_go(1)
