"""The heartbeat says nothing while the loop turns."""

from __future__ import annotations

import asyncio
from pathlib import Path

from mcpdesk.hosting.metrics import Heartbeat


async def test_a_turning_loop_is_not_stuck() -> None:
    heart = Heartbeat(lambda: [Path("/nowhere")], lambda folder, place: "")
    heart.start()
    await asyncio.sleep(0)
    assert heart.stuck() is None
    heart.stop()
    assert heart.stuck() is None
