"""The heartbeat says nothing while the loop turns."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from mcpdesk.hosting import heartbeat
from mcpdesk.hosting.heartbeat import Heartbeat
from tests.support.patience import WITHIN_S


async def test_a_turning_loop_is_not_stuck(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat, "STUCK_S", WITHIN_S)
    heart = Heartbeat(lambda: [Path("/nowhere")], lambda folder, place, lines: "")
    heart.start()
    await asyncio.sleep(0)
    assert heart.stuck() is None
    heart.stop()
    assert heart.stuck() is None
