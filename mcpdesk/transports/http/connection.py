"""One TCP connection: aiohttp's protocol object, plus the sessionless dialogues that end with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeAlias

from aiohttp import web
from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import StreamReader
from aiohttp.web_protocol import RequestHandler

from mcpdesk.transports.base import Dialogue, Endpoint

Head: TypeAlias = tuple[str, tuple[tuple[str, str], ...]]
"""A request line, and the headers below it."""


class Connection(RequestHandler):
    """Closing a connection cancels what its sessionless requests started. Source: WIRE 5.2."""

    __slots__ = ("_head", "_on_lost", "_raw_head", "dialogues")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.dialogues: dict[tuple[str, str], Dialogue] = {}
        self._raw_head: tuple[str, str, Any] = ("", "", ())
        self._head: Head = ("", ())
        self._on_lost: Callable[[], None] | None = None

    def on_lost(self, function: Callable[[], None] | None) -> None:
        """What to run when the peer is gone, while one answer is written; None when that is over."""
        self._on_lost = function

    def head(self, request: web.BaseRequest) -> Head:
        """Request line and headers. A client that keeps its connection repeats them: one value serves all."""
        raw = (request.method, request.raw_path, request.raw_headers)
        if raw != self._raw_head:
            self._raw_head = raw
            headers = tuple((str(name), value) for name, value in request.headers.items())
            self._head = (f"{request.method} {request.raw_path} HTTP/1.1", headers)
        return self._head

    def dialogue(self, endpoint: Endpoint, revision: str, peer: Callable[[], str]) -> Dialogue | None:
        """The sessionless dialogue with a server; `revision` is a handshake one to adopt, or empty.

        None when that revision is not one served without a handshake.
        """
        key = (endpoint.name, revision)
        dialogue = self.dialogues.get(key)
        if dialogue is None:
            name = peer()
            dialogue = endpoint.open("http", name)
            if revision and not dialogue.adopt(revision, name):
                dialogue.close("unsupported revision")
                return None
            self.dialogues[key] = dialogue
        return dialogue

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        for dialogue in self.dialogues.values():
            dialogue.close("the client disconnected")
        self.dialogues.clear()
        if self._on_lost is not None:
            self._on_lost()


def peer_of(request: web.BaseRequest) -> str:
    """What the client calls itself, or where it is, until it introduces itself."""
    agent = request.headers.get("User-Agent", "").partition(" ")[0].replace("/", " ")
    return agent[:60] or (request.remote or "unix")


class Listener(web.Server):
    """aiohttp's low-level server with our connections and body limit."""

    def __init__(self, handler: Any, max_body_bytes: int) -> None:
        super().__init__(handler, request_factory=self._request, access_log=None, auto_decompress=False)
        self._max_body_bytes = max_body_bytes

    def __call__(self) -> RequestHandler:
        return Connection(self, loop=self._loop, **self._kwargs)

    def _request(
        self,
        message: RawRequestMessage,
        payload: StreamReader,
        protocol: Any,
        writer: Any,
        task: asyncio.Task[None],
    ) -> web.BaseRequest:
        return web.BaseRequest(
            message, payload, protocol, writer, task, self._loop, client_max_size=self._max_body_bytes
        )
