"""One request being answered: who asked, under which terms, and how it can be stopped."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Protocol

from mcpdesk.protocol.jsonrpc import Id
from mcpdesk.protocol.terms import Terms


class Outlet(Protocol):
    """Where messages about one request go while it is being answered. Transports implement it."""

    def send(self, message: bytes) -> None:
        """Queue one encoded message."""

    async def drain(self) -> None:
        """Wait until the peer has taken enough of what was queued."""

    def keep_alive(self) -> None:
        """Show life on the connection without a message, where the transport can."""


class Call:
    """One request in flight. `stop` says why it was ended from outside; empty while nobody did."""

    __slots__ = (
        "deadline",
        "headers",
        "id",
        "limit_s",
        "method",
        "outlet",
        "params",
        "peer",
        "progress_sent",
        "progress_token",
        "started",
        "stop",
        "task",
        "terms",
        "transport",
    )

    def __init__(
        self,
        identifier: Id,
        method: str,
        params: dict[str, Any],
        terms: Terms,
        outlet: Outlet,
        transport: str = "memory",
        peer: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        self.id = identifier
        self.method = method
        self.params = params
        self.terms = terms
        self.outlet = outlet
        self.transport = transport
        self.peer = peer
        self.headers = headers
        self.started = time.monotonic()
        self.deadline: float | None = None
        self.limit_s = 0.0
        self.stop = ""
        self.task: asyncio.Task[Any] | None = None
        self.progress_sent = float("-inf")
        meta = params.get("_meta")
        token = meta.get("progressToken") if isinstance(meta, dict) else None
        self.progress_token: Id | None = token if isinstance(token, (str, int)) else None

    def end(self, reason: str) -> None:
        """Stop the work from outside; the first reason counts. Harmless once it is over."""
        if self.stop:
            return
        self.stop = reason
        if self.task is not None:
            self.task.cancel(reason)
