"""Messages that a client of a test received, and the waits for one of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from tests.support.patience import until


class MessageLog:
    """Base of clients. `received` holds every message that came, in order."""

    def __init__(self) -> None:
        self.received: list[dict[str, Any]] = []
        self._changed = asyncio.Event()

    def receive(self, messages: Iterable[dict[str, Any]]) -> None:
        """Add messages, and wake the waiting calls."""
        self.received += messages
        self._changed.set()

    async def message(self, wanted: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
        """The first message that `wanted` accepts."""

        def accepted() -> list[dict[str, Any]]:
            return [each for each in self.received if wanted(each)]

        await until(accepted, self.received, changed=self._changed)
        return accepted()[0]

    async def response(self, identifier: Any) -> dict[str, Any]:
        """The response to a request."""
        return await self.message(lambda each: each.get("id") == identifier and "method" not in each)

    async def notified(self, method: str) -> dict[str, Any]:
        """The first notification of a method, or request of the server."""
        return await self.message(lambda each: each.get("method") == method)
