"""One TCP connection: aiohttp's protocol object, plus the sessionless dialogues that end with it."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web
from aiohttp.http_parser import RawRequestMessage
from aiohttp.streams import StreamReader
from aiohttp.web_protocol import RequestHandler

from mcpdesk.transports.base import Dialogue, Endpoint


class Connection(RequestHandler):
    """Closing a connection cancels what its sessionless requests started. Source: WIRE 5.2."""

    __slots__ = ("dialogues", "seen_headers")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.dialogues: dict[tuple[str, str], Dialogue] = {}
        self.seen_headers: tuple[tuple[str, str], ...] = ()

    def dialogue(self, endpoint: Endpoint, peer: str, revision: str) -> Dialogue | None:
        """The sessionless dialogue with a server; `revision` is a handshake one to adopt, or empty.

        None when that revision is not one served without a handshake.
        """
        key = (endpoint.name, revision)
        dialogue = self.dialogues.get(key)
        if dialogue is None:
            dialogue = endpoint.open("http", peer)
            if revision and not dialogue.adopt(revision, peer):
                dialogue.close("unsupported revision")
                return None
            self.dialogues[key] = dialogue
        return dialogue

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        for dialogue in self.dialogues.values():
            dialogue.close("the client disconnected")
        self.dialogues.clear()


class Listener(web.Server):
    """aiohttp's low-level server with our connections and body limit."""

    def __init__(self, handler: Any, max_body_bytes: int) -> None:
        super().__init__(handler, request_factory=self._request, access_log=None)
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
