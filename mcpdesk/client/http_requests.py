"""HTTP as a client of MCP uses it: one POST and its reply, and event streams. Knows no revision."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from mcpdesk.client.replies import Receive, ServerReply, excerpt, is_response, without_query
from mcpdesk.errors import CallError, DeskUserError, HttpError, InvalidAnswer, ProtocolError
from mcpdesk.protocol import codec
from mcpdesk.protocol.framing import Event, EventFramer
from mcpdesk.protocol.jsonrpc import Id, JSONObject

if TYPE_CHECKING:
    import aiohttp

CONNECT_S = 10.0
CHUNK = 64 << 10
RETRY_S = 1.0
"""How long to wait before a stream is resumed, where it does not say."""
MAX_BYTES = 16 << 20
EVENT_STREAM = "text/event-stream"


class HttpRequests:
    """Requests to one URL. Follows no redirect, keeps no cookie, reads at most `max_bytes` of an answer."""

    def __init__(
        self, url: str, headers: Mapping[str, str], mode: str = "", max_bytes: int = MAX_BYTES
    ) -> None:
        """`headers` go with every request; `mode` is one of the server's.

        Raises: DeskUserError for a URL that cannot be used.
        """
        self.url = _with_mode(checked_url(url), mode)
        self.target = without_query(self.url)
        self._headers = dict(headers)
        self._max_bytes = max_bytes
        self._session: aiohttp.ClientSession | None = None
        self._is_closed = False

    async def close(self) -> None:
        """Close its connections; no others are opened."""
        self._is_closed = True
        if self._session is not None:
            await self._session.close()

    async def post(
        self, message: JSONObject, headers: Mapping[str, str], receive: Receive | None = None, url: str = ""
    ) -> ServerReply:
        """Send a message and wait for the response, or for the end of the answer.

        Raises: HttpError without a whole answer; InvalidAnswer for one that is too large or cannot be read.
        """
        fixed = {"Content-Type": "application/json", "Accept": f"application/json, {EVENT_STREAM}"}
        framer, identifier = EventFramer(self._max_bytes), message.get("id")
        async with self._answered("POST", fixed | dict(headers), codec.encode(message), url) as answer:
            reply = await self._read(answer, identifier, receive, framer)
        while reply.message is None and framer.last_id and "id" in message:
            # The server closed the connection, and the stream goes on elsewhere.
            await asyncio.sleep(pause_s(framer))
            seen = framer.last_id
            async with self._answered("GET", _resuming(framer) | dict(headers)) as answer:
                if answer.status != 200:
                    break
                reply = await self._read(answer, identifier, receive, framer)
            if reply.message is None and framer.last_id == seen:
                break
        return reply

    async def delete(self, headers: Mapping[str, str]) -> None:
        """End a session; whatever the server thinks of it."""
        async with self._answered("DELETE", headers):
            return

    async def events(
        self, headers: Mapping[str, str] | None = None, framer: EventFramer | None = None
    ) -> AsyncIterator[Event]:
        """What a stream of the server's brings, until it ends; `framer` knows where an earlier one ended.

        Raises: HttpError without one; InvalidAnswer for an event that is too large.
        """
        framer = framer or EventFramer(self._max_bytes)
        async with self._answered("GET", _resuming(framer) | dict(headers or {})) as answer:
            if answer.status != 200 or answer.content_type != EVENT_STREAM:
                raise HttpError(f"HTTP {answer.status} without a stream", status=answer.status)
            async for piece in answer.content.iter_any():
                for event in self._framed(framer, piece):
                    yield event

    @asynccontextmanager
    async def _answered(
        self, method: str, headers: Mapping[str, str], body: bytes | None = None, url: str = ""
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        import aiohttp

        if self._is_closed:
            raise CallError("closed while the call was under way")
        if self._session is None:
            self._session = aiohttp.ClientSession(
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S),
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": "mcpdesk-bridge", "Accept-Encoding": "identity"},
            )
        try:
            async with self._session.request(
                method,
                url or self.url,
                data=body,
                headers=self._headers | dict(headers),
                allow_redirects=False,
            ) as answer:
                yield answer
        except (aiohttp.ClientError, OSError, ValueError) as error:
            if isinstance(error, aiohttp.ClientPayloadError | aiohttp.ServerDisconnectedError):
                raise HttpError("the connection broke before the answer was whole") from None
            raise HttpError(f"cannot be reached: {_why(error)}") from None

    async def _read(
        self,
        answer: aiohttp.ClientResponse,
        identifier: Id | None,
        receive: Receive | None,
        framer: EventFramer,
    ) -> ServerReply:
        headers = {name.lower(): value for name, value in answer.headers.items()}
        media_type = answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if media_type == EVENT_STREAM and answer.status == 200:
            message, data = await self._read_events(answer, identifier, receive, framer)
            return ServerReply(message, data, answer.status, headers)
        body = bytearray()
        async for piece in answer.content.iter_chunked(CHUNK):
            body += piece
            if len(body) > self._max_bytes:
                raise self._too_large()
        data = bytes(body)
        if media_type != "application/json" or not data.strip():
            return ServerReply(None, data, answer.status, headers)
        try:
            message = codec.decode(data)
        except ProtocolError as error:
            if answer.status >= 300:
                return ServerReply(None, data, answer.status, headers)
            raise InvalidAnswer(f"the answer is not JSON: {error.message}", excerpt=excerpt(data)) from None
        return ServerReply(message if is_response(message) else None, data, answer.status, headers)

    async def _read_events(
        self,
        answer: aiohttp.ClientResponse,
        identifier: Id | None,
        receive: Receive | None,
        framer: EventFramer,
    ) -> tuple[Any, bytes]:
        """The response among the events, and its bytes; None when the stream ends without it."""
        async for piece in answer.content.iter_any():
            for event in self._framed(framer, piece):
                message = decoded_event(event)
                if is_response(message) and message.get("id") in (identifier, None):
                    return message, event.data
                if receive is not None and isinstance(message, dict) and "method" in message:
                    receive(message)
        return None, b""

    def _framed(self, framer: EventFramer, piece: bytes) -> list[Event]:
        try:
            return framer.feed(piece)
        except ValueError:
            raise self._too_large() from None

    def _too_large(self) -> InvalidAnswer:
        return InvalidAnswer(f"the answer has more than {self._max_bytes} bytes")


def decoded_event(event: Event) -> Any:
    """The message an event holds. Raises: InvalidAnswer when it is no JSON."""
    try:
        return codec.decode(event.data)
    except ProtocolError as error:
        reason = f"an event is not JSON: {error.message}"
        raise InvalidAnswer(reason, excerpt=excerpt(event.data)) from None


def pause_s(framer: EventFramer) -> float:
    """Seconds to wait before a stream is resumed."""
    return RETRY_S if framer.retry_ms is None else framer.retry_ms / 1000


def checked_url(url: str) -> str:
    """The URL, if a server can be reached there. Raises: DeskUserError saying what is wrong with it."""
    hint = "Write it like http://127.0.0.1:3333/mcp/hello."
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise DeskUserError(f"This is no URL: {error}.", hint) from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise DeskUserError(f"{excerpt(url)}: only http:// and https:// URLs can be called.", hint)
    if parts.username is not None or parts.password is not None:
        raise DeskUserError("A URL carries no user and password here.", "Give a token or a key instead.")
    if not url.isprintable() or " " in url:
        raise DeskUserError("A URL has no blanks and no control characters.", hint)
    return url


def credential_headers(
    token: str | None, api_key: str | None, api_key_header: str, more: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The headers of every request: a bearer token, an API key and others.

    Raises: DeskUserError for a token or key that no header can carry.
    """
    headers = dict(more or {})
    if api_key:
        headers[api_key_header] = _sendable(api_key, "key")
    if token:
        headers["Authorization"] = f"Bearer {_sendable(token, 'token')}"
    return headers


def _sendable(secret: str, what: str) -> str:
    """Raises: DeskUserError for what no header can carry; it does not repeat it."""
    if not (secret.isascii() and secret.isprintable()) or secret != secret.strip() or " " in secret:
        raise DeskUserError(
            f"The {what} has characters no header can carry.", "Is it complete, and nothing else?"
        )
    return secret


def _resuming(framer: EventFramer) -> dict[str, str]:
    resumed = {"Last-Event-ID": framer.last_id} if framer.last_id else {}
    return {"Accept": EVENT_STREAM, **resumed}


def _with_mode(url: str, mode: str) -> str:
    if not mode:
        return url
    parts = urlsplit(url)
    query = [pair for pair in parse_qsl(parts.query, keep_blank_values=True) if pair[0] != "mode"]
    return urlunsplit(parts._replace(query=urlencode([*query, ("mode", mode)])))


def _why(error: Exception) -> str:
    import aiohttp

    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return "its certificate is not trusted"
    if isinstance(error, aiohttp.ClientConnectorError):
        number = error.os_error.errno
        return os.strerror(number) if number and number > 0 else excerpt(str(error.os_error))
    return excerpt(str(error)) or type(error).__name__
