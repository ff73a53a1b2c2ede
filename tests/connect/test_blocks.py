"""Connections of code without an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mcpdesk.client.targets import FolderTarget
from mcpdesk.connect import blocking, connect
from mcpdesk.errors import ManifestError
from tests.connect.test_connect import ME
from tests.support.patience import WITHIN_S
from tests.support.served import make_server


def test_requests_run_on_the_loop_of_another_thread() -> None:
    with blocking(connect(make_server(), ME)) as made:
        call = made.server.result("tools/call", {"name": "echo", "arguments": {"text": "x"}})
        assert made.run(call, WITHIN_S)["content"][0]["text"] == "x"
        with pytest.raises(TimeoutError):
            made.run(asyncio.sleep(WITHIN_S), 0.01)


def test_an_error_of_the_opening_is_raised(tmp_path: Path) -> None:
    with pytest.raises(ManifestError), blocking(connect(FolderTarget(tmp_path / "none"), ME)):
        pytest.fail("it is open")


class Door:
    """A context manager that records how it was left."""

    def __init__(self) -> None:
        self.is_cancelled = self.is_closed = False

    @asynccontextmanager
    async def opened(self, seconds: float = 0) -> AsyncIterator[Door]:
        try:
            await asyncio.sleep(seconds)
        except asyncio.CancelledError:
            self.is_cancelled = True
            raise
        try:
            yield self
        finally:
            self.is_closed = True


def test_an_opening_that_takes_too_long_is_cancelled() -> None:
    door = Door()
    with pytest.raises(TimeoutError), blocking(door.opened(WITHIN_S), limit_s=0.01):
        pytest.fail("it is open")
    assert door.is_cancelled and not door.is_closed


def test_an_interrupt_in_the_block_closes_the_connection_as_usual() -> None:
    door = Door()
    with pytest.raises(KeyboardInterrupt), blocking(door.opened()):
        raise KeyboardInterrupt
    assert door.is_closed
    assert "mcpdesk-client" not in [each.name for each in threading.enumerate()]
