"""One POST and its answer, as JSON or as events. Knows HTTP and JSON-RPC envelopes, no revision."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from msgspec import Struct

from mcpdesk.client.answer_checks import excerpt, is_error, is_response, result_of
from mcpdesk.errors import CallError, DeskUserError, HttpError, InvalidAnswer, ProtocolError
from mcpdesk.protocol import codec
from mcpdesk.protocol.framing import Event, EventFramer
from mcpdesk.protocol.jsonrpc import Id

if TYPE_CHECKING:
    import aiohttp

CONNECT_S = 10.0
CHUNK = 64 << 10
RETRY_S = 1.0
"""How long to wait before a stream is taken up again, where it does not say."""
REDIRECTS = frozenset({301, 302, 303, 307, 308})
REFUSED = frozenset({401, 403})

Asked = Callable[[dict[str, Any]], Awaitable[None]]
"""Takes a request or notification that came before the answer."""


class Reply(Struct, frozen=True):
    """What came back. `message` is the response, if there was one; `body` what there was instead."""

    status: int
    headers: Mapping[str, str]
    message: Any = None
    body: bytes = b""

    @property
    def code(self) -> int | None:
        """The code of a JSON-RPC error; None when it is none."""
        return self.message["error"]["code"] if is_error(self.message) else None

    def result(self, identifier: Id, target: str, kinds: Collection[str] = ("complete",)) -> dict[str, Any]:
        """The result of the request.

        Raises: HttpError for a status that tells all, or one without a JSON-RPC answer; RpcError,
        InvalidAnswer.
        """
        if self.status in REFUSED or self.status in REDIRECTS:
            raise self.failure(target)
        if is_response(self.message):
            if self.status < 400 or is_error(self.message):
                return result_of(self.message, identifier, target, kinds)
            raise self.failure(target)
        if self.status >= 300:
            raise self.failure(target)
        kind = self.headers.get("content-type", "") or "no content type"
        what = "an empty answer" if not self.body else f"no JSON-RPC answer, but {kind[:80]}"
        raise InvalidAnswer(f"HTTP {self.status} with {what}", target, excerpt(self.body))

    def failure(self, target: str) -> HttpError:
        """The status as an exception."""
        said = excerpt(self.body) if self.message is None else excerpt(_reason(self.message))
        if self.status in REDIRECTS:
            place = excerpt(_shown(self.headers.get("location", "")))
            said = f"it redirects to {place or 'nowhere'}, and redirects are not followed"
        about = f"HTTP {self.status}{f': {said}' if said else ''}"
        return HttpError(about, target, self.status, said, excerpt(self.headers.get("www-authenticate", "")))


class Wire:
    """Requests to one URL. Follows no redirect, keeps no cookie, reads no more than `max_bytes` an answer."""

    def __init__(
        self, url: str, headers: Mapping[str, str], mode: str = "", max_bytes: int = 16 << 20
    ) -> None:
        """Raises: DeskUserError for a URL or header that cannot be used."""
        self.url = _with_mode(checked_url(url), mode)
        self.target = _shown(self.url)
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
        self, message: dict[str, Any], headers: Mapping[str, str], asked: Asked | None = None, url: str = ""
    ) -> Reply:
        """Send a message and wait for the response, or for the end of the answer.

        Raises: HttpError without a whole answer; InvalidAnswer for one that is too large or cannot be read.
        """
        fixed = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        framer = EventFramer(self._max_bytes)
        async with self._asked("POST", fixed | dict(headers), codec.encode(message), url) as answer:
            reply = await self._read(answer, message.get("id"), asked, framer)
        while reply.message is None and framer.last_id and "id" in message:
            # The server let go of the connection, and the stream goes on elsewhere.
            await asyncio.sleep(RETRY_S if framer.retry_ms is None else framer.retry_ms / 1000)
            again = {"Accept": "text/event-stream", "Last-Event-ID": framer.last_id}
            seen = framer.last_id
            async with self._asked("GET", again | dict(headers)) as answer:
                if answer.status != 200:
                    break
                reply = await self._read(answer, message["id"], asked, framer)
            if reply.message is None and framer.last_id == seen:
                break
        return reply

    async def delete(self, headers: Mapping[str, str]) -> None:
        """End a session; whatever the server thinks of it."""
        async with self._asked("DELETE", headers):
            return

    async def events(self) -> AsyncIterator[Event]:
        """What a stream of the server's brings, until it ends.

        Raises: HttpError without one; InvalidAnswer for an event that is too large.
        """
        framer = EventFramer(self._max_bytes)
        async with self._asked("GET", {"Accept": "text/event-stream"}) as answer:
            if answer.status != 200 or answer.content_type != "text/event-stream":
                raise HttpError(f"HTTP {answer.status} without a stream", self.target, answer.status)
            async for piece in answer.content.iter_any():
                for event in self._framed(framer, piece):
                    yield event

    @asynccontextmanager
    async def _asked(
        self, method: str, headers: Mapping[str, str], body: bytes | None = None, url: str = ""
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        import aiohttp

        if self._is_closed:
            raise CallError("closed while the call was under way", self.target)
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
                raise HttpError("the connection broke before the answer was whole", self.target) from None
            raise HttpError(f"cannot be reached: {_why(error)}", self.target) from None

    async def _read(
        self, answer: aiohttp.ClientResponse, identifier: Id | None, asked: Asked | None, framer: EventFramer
    ) -> Reply:
        headers = {name.lower(): value for name, value in answer.headers.items()}
        kind = answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        if kind == "text/event-stream" and answer.status == 200:
            message = await self._read_events(answer, identifier, asked, framer)
            return Reply(answer.status, headers, message)
        body = bytearray()
        async for piece in answer.content.iter_chunked(CHUNK):
            body += piece
            if len(body) > self._max_bytes:
                raise self._too_large()
        data = bytes(body)
        if kind != "application/json" or not data.strip():
            return Reply(answer.status, headers, None, data)
        try:
            message = codec.decode(data)
        except ProtocolError as error:
            if answer.status >= 300:
                return Reply(answer.status, headers, None, data)
            raise InvalidAnswer(
                f"the answer is not JSON: {error.message}", self.target, excerpt(data)
            ) from None
        return Reply(answer.status, headers, message if is_response(message) else None, data)

    async def _read_events(
        self, answer: aiohttp.ClientResponse, identifier: Id | None, asked: Asked | None, framer: EventFramer
    ) -> Any:
        """The response among the events; None when the stream ends without it."""
        async for piece in answer.content.iter_any():
            for event in self._framed(framer, piece):
                try:
                    message = codec.decode(event.data)
                except ProtocolError as error:
                    reason = f"an event is not JSON: {error.message}"
                    raise InvalidAnswer(reason, self.target, excerpt(event.data)) from None
                if is_response(message) and (message.get("id") == identifier or message.get("id") is None):
                    return message
                if asked is not None and isinstance(message, dict) and isinstance(message.get("method"), str):
                    await asked(message)
        return None

    def _framed(self, framer: EventFramer, piece: bytes) -> list[Event]:
        try:
            return framer.feed(piece)
        except ValueError:
            raise self._too_large() from None

    def _too_large(self) -> InvalidAnswer:
        return InvalidAnswer(f"the answer has more than {self._max_bytes} bytes", self.target)


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


def _with_mode(url: str, mode: str) -> str:
    if not mode:
        return url
    parts = urlsplit(url)
    query = [pair for pair in parse_qsl(parts.query, keep_blank_values=True) if pair[0] != "mode"]
    return urlunsplit(parts._replace(query=urlencode([*query, ("mode", mode)])))


def _shown(url: str) -> str:
    """Without what may be secret; empty for what is no URL."""
    try:
        return urlunsplit(urlsplit(url)._replace(query="", fragment=""))
    except ValueError:
        return ""


def _reason(message: Any) -> str:
    error = message.get("error", "")
    return str(error.get("message", "") if isinstance(error, dict) else error)


def _why(error: Exception) -> str:
    import aiohttp

    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return "its certificate is not trusted"
    if isinstance(error, aiohttp.ClientConnectorError):
        number = error.os_error.errno
        return os.strerror(number) if number and number > 0 else excerpt(str(error.os_error))
    return excerpt(str(error)) or type(error).__name__
