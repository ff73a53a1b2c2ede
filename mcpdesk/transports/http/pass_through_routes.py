"""Requests for a server that is not ours: sent on, answered as it answers, and recorded."""

from __future__ import annotations

import asyncio
import time
import weakref

from aiohttp import web
from aiohttp.client_exceptions import ClientConnectionResetError
from msgspec.structs import replace

from mcpdesk.errors import HttpError, ProtocolError
from mcpdesk.protocol import codec
from mcpdesk.protocol.framing import EventFramer
from mcpdesk.protocol.jsonrpc import ErrorCode
from mcpdesk.recorder.record import ConnectionInfo, Direction
from mcpdesk.transports.base import ForwardedAnswer, PassThrough, Site
from mcpdesk.transports.http.callers import unreadable
from mcpdesk.transports.http.connections import HttpConnection, connection_of
from mcpdesk.transports.http.request_body import read_body
from mcpdesk.transports.http.request_head import SESSION_HEADER, head_of, peer_of
from mcpdesk.transports.http.responses import (
    JSON,
    STREAM,
    RequestRefused,
    answer_said,
    no_json,
    no_method,
    rpc_error,
)

METHODS = ("POST", "GET", "DELETE")
OF_ONE_HOP = frozenset(
    {"connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te"}
    | {"trailer", "transfer-encoding", "upgrade"}
)
NOT_SENT_ON = OF_ONE_HOP | {"host", "origin", "cookie", "content-length", "accept-encoding", "expect"}
NOT_PASSED_BACK = OF_ONE_HOP | {"set-cookie"}
"""A cookie would count for everything else that is served here."""
MOST_SESSIONS = 10_000


class PassThroughRoutes:
    """Passes requests on for one listener."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._sessions: dict[tuple[str, str], ConnectionInfo] = {}
        """What the record calls the clients that have a session, by server and session."""
        self._others: weakref.WeakKeyDictionary[HttpConnection, dict[str, ConnectionInfo]]
        self._others = weakref.WeakKeyDictionary()

    async def answer(self, request: web.BaseRequest, passed: PassThrough) -> web.StreamResponse:
        """Send a request on and answer as the server does; a client that leaves ends it there.

        Raises: RequestRefused.
        """
        head, body = head_of(request), b""
        if head.method not in METHODS:
            raise RequestRefused(no_method(request, METHODS))
        if head.method == "POST":
            if head.content_type != JSON:
                raise RequestRefused(no_json(head.content_type))
            body = await read_body(request, self._site.rules.max_body_bytes)
        client = self._client(request, passed)
        is_json = _is_json(body)
        self._site.recorder.frame(
            client.number, Direction.IN, body if is_json else unreadable(body), is_json, head.said
        )
        work = asyncio.create_task(self._exchange(request, passed, client, body))
        connection = connection_of(request)
        connection.on_lost(lambda: _cancel(work))
        try:
            await asyncio.wait({work})
        finally:
            connection.on_lost(None)
            work.cancel()
        return web.Response(status=400) if work.cancelled() else work.result()  # nobody gets the former

    async def _exchange(
        self, request: web.BaseRequest, passed: PassThrough, client: ConnectionInfo, body: bytes
    ) -> web.StreamResponse:
        head = head_of(request)
        named = {name.strip().lower() for name in request.headers.get("Connection", "").split(",")}
        kept_back = NOT_SENT_ON | named | {self._site.rules.api_key_header.lower()}
        headers = [(name, value) for name, value in request.headers.items() if name.lower() not in kept_back]
        response: web.StreamResponse | None = None
        try:
            async with passed.ask(head.method, headers, body) as answer:
                self._note_session(request, passed, client, answer)
                response = web.StreamResponse(status=answer.status)
                for name, value in answer.headers:
                    low = name.lower()
                    if low not in NOT_PASSED_BACK and not low.startswith("access-control-"):
                        response.headers.add(name, value)
                response.headers.update(head.page_headers)
                await response.prepare(request)
                await self._copy(answer, response, client)
                await response.write_eof()
                return response
        except (HttpError, ConnectionError, ClientConnectionResetError) as error:
            if response is not None:
                connection_of(request).abort()  # the client must not take what it has for a whole answer
                return response
            told = f"{passed.name} cannot be asked: {error}"
            refusal = rpc_error(502, ProtocolError(ErrorCode.INTERNAL_ERROR, told))
            assert isinstance(refusal.body, bytes)
            self._site.recorder.frame(client.number, Direction.OUT, refusal.body, True, answer_said(502))
            return refusal

    async def _copy(
        self, answer: ForwardedAnswer, response: web.StreamResponse, client: ConnectionInfo
    ) -> None:
        """Pass a body back piece by piece, and record the messages in it."""
        most, record = self._site.rules.max_body_bytes, self._site.recorder.frame
        kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        said = answer_said(answer.status, kind)
        framer = EventFramer(most) if kind == STREAM else None
        seen = bytearray()
        async for piece in answer.chunks():
            if framer is not None:
                try:
                    for event in framer.feed(piece):
                        record(client.number, Direction.OUT, event.data, _is_json(event.data), said)
                except ValueError:
                    framer = None  # an event beyond what is kept: the rest passes unread
            elif kind != STREAM and len(seen) < most:
                seen += piece[: most - len(seen)]
            await response.write(piece)
        data = bytes(seen)
        if data or (kind != STREAM and answer.status != 200):
            is_json = _is_json(data)
            usual = is_json and answer.status == 200
            record(
                client.number,
                Direction.OUT,
                data if is_json else unreadable(data),
                is_json,
                None if usual else said,
            )

    def _client(self, request: web.BaseRequest, passed: PassThrough) -> ConnectionInfo:
        """Who sends a request, as the record knows it: a session, else a connection."""
        known = self._sessions.get((passed.name, head_of(request).session or ""))
        if known is not None:
            return known
        connection = connection_of(request)
        here = self._others.setdefault(connection, {})
        if passed.name not in here:
            here[passed.name] = self._connect(request, passed)
        return here[passed.name]

    def _connect(self, request: web.BaseRequest, passed: PassThrough) -> ConnectionInfo:
        version = head_of(request).version[:40]
        info = ConnectionInfo(
            passed.next_connection(), passed.name, "http", peer_of(request), version, time.time()
        )
        self._site.recorder.connect(info)
        return info

    def _note_session(
        self, request: web.BaseRequest, passed: PassThrough, client: ConnectionInfo, answer: ForwardedAnswer
    ) -> None:
        """Follow the beginning and the end of a session."""
        head = head_of(request)
        begun = next((value for name, value in answer.headers if name.lower() == SESSION_HEADER.lower()), "")
        if begun and head.session is None:
            self._others.get(connection_of(request), {}).pop(passed.name, None)
            self._sessions[passed.name, begun] = client
            if len(self._sessions) > MOST_SESSIONS:
                self._ended(next(iter(self._sessions)))
        elif head.session and (
            answer.status == 404 or (head.method == "DELETE" and 200 <= answer.status < 300)
        ):
            self._ended((passed.name, head.session))

    def _ended(self, key: tuple[str, str]) -> None:
        client = self._sessions.pop(key, None)
        if client is not None:
            self._site.recorder.connect(replace(client, closed=time.time()))


def _is_json(data: bytes) -> bool:
    try:
        codec.decode(data)
    except ProtocolError:
        return False
    return True


def _cancel(work: asyncio.Task[web.StreamResponse]) -> None:
    work.cancel()
