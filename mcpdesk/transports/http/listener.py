"""All connections of one address: how many there may be, and who lets us wait too long."""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import Callable
from typing import Any

from aiohttp import web
from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import StreamReader
from aiohttp.web_protocol import RequestHandler

from mcpdesk.transports.base import Dialogue, Rules
from mcpdesk.transports.http.budget import Budget
from mcpdesk.transports.http.connection import Connection
from mcpdesk.transports.http.departures import Departures
from mcpdesk.transports.http.quick import QuickConnection
from mcpdesk.transports.http.repeated import Patterns
from mcpdesk.transports.lanes import Lanes

SWEEP_S = 1.0
"""How often connections are looked at: every limit in seconds may be overrun by that much."""
SPARE_FILES = 128
"""Of the files this process may open, those that are none of our connections'."""
MOST_LEFT = 1_000
"""Calls that may go on without their client; the oldest are ended when there are more."""


class Listener(web.Server):
    """aiohttp's low-level server with our connections and limits. `rules` says what holds now."""

    def __init__(self, handler: Any, rules: Callable[[], Rules]) -> None:
        super().__init__(handler, request_factory=self._request, access_log=None, auto_decompress=False)
        self.budget = Budget(lambda: rules().max_bodies_bytes)
        self._rules = rules
        self._departures = Departures()
        self._lanes: Lanes[None] = Lanes(lambda _: None, self._departures.gather)
        self._patterns = Patterns()
        self.accepted = 0
        """Connections so far."""
        self._requests = 0
        """Of connections that are closed."""
        self._left: dict[Dialogue, float] = {}
        """And the Unix time at which their connections were lost."""
        self._timer: asyncio.TimerHandle | None = None

    def __call__(self) -> RequestHandler:
        return QuickConnection(
            self,
            loop=self._loop,
            budget=self.budget,
            leave=self._leave,
            lanes=self._lanes,
            departures=self._departures,
            patterns=self._patterns,
            largest=lambda: self._rules().max_body_bytes,
            **self._kwargs,
        )

    @property
    def open(self) -> int:
        """How many connections there are."""
        return len(self._open())

    @property
    def requests(self) -> int:
        """How many requests there have been."""
        return self._requests + sum(each._request_count for each in self._open())

    @property
    def left(self) -> int:
        """How many dialogues go on without their connection."""
        return len(self._left)

    def lost_at(self) -> dict[int, float | None]:
        """When these lost it, by their connections in the record. Safe from any thread."""
        return {dialogue.connection: lost for dialogue, lost in list(self._left.items())}

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        """Count one more. Of too many, one that is idle makes room, or this one is turned away."""
        super().connection_made(handler, transport)
        self.accepted += 1
        assert isinstance(handler, Connection)
        if self._timer is None:
            self._timer = self._loop.call_later(SWEEP_S, self._sweep)
        most = min(self._rules().max_connections, _most_files() - SPARE_FILES)
        if len(self.connections) <= most or len(self._open()) <= most:
            return
        idle = [each for each in self._open() if each.is_waiting and each is not handler]
        if idle:
            min(idle, key=lambda each: each.used).force_close()
        else:
            handler.refuse(503, f"{most} connections are open already (max_connections)")

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        """One less."""
        super().connection_lost(handler, exc)
        self._requests += handler._request_count

    def hang_up(self, connection: int) -> bool:
        """End the connection of a sessionless dialogue; False when it is none of these."""
        found = [
            each
            for each in self._open()
            if any(dialogue.connection == connection for dialogue in each.dialogues.values())
        ]
        for each in found:
            each.force_close()
        return bool(found)

    async def shutdown(self, timeout: float | None = None) -> None:
        """Close all connections, and what goes on without one."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for dialogue in self._left:
            dialogue.close("the server stops")
        self._left.clear()
        await super().shutdown(timeout)
        self._lanes.close()

    def _open(self) -> list[Connection]:
        """Those that are not being closed."""
        return [
            each for each in self.connections if isinstance(each, Connection) and each.transport is not None
        ]

    def _leave(self, dialogue: Dialogue) -> None:
        """Keep a dialogue until its calls are over."""
        self._left[dialogue] = time.time()
        if len(self._left) > MOST_LEFT:
            oldest = next(iter(self._left))
            del self._left[oldest]
            oldest.close("too many calls whose client is gone")

    def _sweep(self) -> None:
        now, patience_s = self._loop.time(), self._rules().request_timeout_s
        for connection in self.connections:
            if isinstance(connection, Connection):
                connection.check(now, patience_s)
        for dialogue in [each for each in self._left if each.is_idle]:
            del self._left[dialogue]
            dialogue.close("the client disconnected")
        is_needed = self.connections or self._left
        self._timer = self._loop.call_later(SWEEP_S, self._sweep) if is_needed else None

    def _request(
        self,
        message: RawRequestMessage,
        payload: StreamReader,
        protocol: Any,
        writer: Any,
        task: asyncio.Task[None],
    ) -> web.BaseRequest:
        most = self._rules().max_body_bytes
        return web.BaseRequest(message, payload, protocol, writer, task, self._loop, client_max_size=most)


def _most_files() -> int:
    """How many files this process may have open."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 30 if soft == resource.RLIM_INFINITY else soft
