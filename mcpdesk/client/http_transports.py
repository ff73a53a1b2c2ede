"""The HTTP transports: Streamable HTTP of both eras, and the older HTTP+SSE with one event stream."""

from __future__ import annotations

import asyncio
import io
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit, urlunsplit

from msgspec.structs import replace

from mcpdesk.client.answers.connection_faults import connection_errors
from mcpdesk.client.answers.http_answers import (
    EVENT_STREAM,
    READ_BYTES,
    HttpAnswer,
    checked_event,
    complete_events,
    lower_case_headers,
    refusal_text,
)
from mcpdesk.client.answers.large_frames import OnFrame, deliver_frame, read_on_thread
from mcpdesk.client.answers.pending_replies import PendingReplies
from mcpdesk.client.answers.redirects import is_circular, redirect_target
from mcpdesk.client.answers.refusal_words import is_lost_session
from mcpdesk.client.answers.resumption import next_framer, pause_s, resumption_failure, resumption_headers
from mcpdesk.client.oauth.named_addresses import AddressRefused, ServerAddresses, refusal_error
from mcpdesk.client.timing import CLOSE_TIMEOUT_S, within
from mcpdesk.client.transport import (
    MAX_EXCERPT_LENGTH,
    REFUSAL_STATUSES,
    ClientTransport,
    Incoming,
    Receive,
    ServerReply,
    SessionGone,
    excerpt,
    named_revision,
    without_query,
)
from mcpdesk.errors import AuthorizationError, CallError, DeskUserError, HttpError, InvalidAnswer
from mcpdesk.protocol import codec
from mcpdesk.protocol.framing import Event, EventFramer
from mcpdesk.protocol.headers import encode_value
from mcpdesk.protocol.jsonrpc import Id, JSONObject
from mcpdesk.protocol.methods import METHODS
from mcpdesk.protocol.reading.message import ReadFrame, read_frame
from mcpdesk.protocol.reading.remark import Remark, RemarkKind
from mcpdesk.protocol.revisions import Revision
from mcpdesk.protocol.stateless import VERSION_KEY, is_stateless

if TYPE_CHECKING:
    import aiohttp

    from mcpdesk.client.oauth.authorizer import Authorizer
    from mcpdesk.client.oauth.values import Challenge, Fetch, FetchResult

PROBE_S = 4.0
"""Time limit in seconds for the first answer. If no answer arrives, an older revision is tried."""
MAX_FAILURES = 30
"""Maximum consecutive failed attempts to resume the session's stream."""
MAX_RESUMPTIONS = 5
"""Maximum consecutive failed attempts to resume the stream of one call."""
MAX_REDIRECTS = 5
MAX_REMARKS = 20
"""Maximum remarks about a login in one reply."""
MAX_BYTES = 16 << 20
"""Default limit of an answer in bytes."""
MAX_METADATA_BYTES = 256 << 10
"""Largest authorization metadata document, in bytes."""
METADATA_S = 20.0
"""Time limit in seconds for a request about authorization."""
POST_HEADERS = {"Content-Type": "application/json", "Accept": f"application/json, {EVENT_STREAM}"}
SESSION_HEADER = "Mcp-Session-Id"
VERSION_HEADER = "MCP-Protocol-Version"


class HttpRequests:
    """Client for requests to one URL. Follows only same-origin redirects.

    Answers are limited to `max_bytes`.
    """

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        mode: str = "",
        max_bytes: int = MAX_BYTES,
        authorizer: Authorizer | None = None,
        *,
        keeps_cookies: bool = False,
    ) -> None:
        """`headers` are sent with every request. `mode` is sent as a query parameter, unless it is empty.

        `authorizer` provides tokens. With `keeps_cookies`, cookies of the server are sent back. All requests
        must then be for the same person.

        Raises: DeskUserError for an invalid URL.
        """
        self._authorizer = authorizer
        self._keeps_cookies = keeps_cookies
        self.url = _with_mode(checked_url(url), mode)
        self.target = without_query(self.url)
        self._headers = dict(headers)
        self._max_bytes = max_bytes
        self._pool: aiohttp.ClientSession | None = None
        self._addresses = ServerAddresses(self.url) if authorizer is None else authorizer.addresses
        self._metadata_pools: set[aiohttp.ClientSession] = set()
        self._is_closed = False
        self.has_batches = False
        """True if the revision has arrays of messages."""
        self._has_reported_redirect = False
        self._remarks: tuple[Remark, ...] = ()
        """Remarks to add to the next reply."""
        self.current_answer: HttpAnswer | None = None
        """Answer that is being read, or the last one. None before the first answer begins."""

    async def close(self) -> None:
        """Close all connections and open no further ones."""
        self._is_closed = True
        for pool in (self._pool, *self._metadata_pools):
            if pool is not None:
                await pool.close()

    async def post(
        self, message: JSONObject, headers: Mapping[str, str], receive: Receive | None = None
    ) -> ServerReply:
        """Send a message and wait for the response, or for the end of the answer.

        Raises: HttpError if the answer is missing or incomplete; InvalidAnswer if it is too large or
        malformed.
        """
        framer, identifier = EventFramer(self._max_bytes), message.get("id")
        reply = ServerReply()
        stream_error: HttpError | InvalidAnswer | None = None
        post_headers, data = POST_HEADERS | dict(headers), codec.encode(message)
        try:
            async with self.answered("POST", post_headers, data, follows_redirects=True) as answer:
                reply = await self._read(answer, identifier, receive, framer)
        except HttpError as error:
            if error.status or not framer.last_id or is_stateless(message):
                raise
            stream_error = error
        failures = 0
        while reply.message is None and framer.last_id and "id" in message:
            # The connection was closed, so the stream is resumed on a new connection.
            await asyncio.sleep(pause_s(framer))
            last_id = framer.last_id
            framer = next_framer(framer)
            get_headers = resumption_headers(framer) | dict(headers)
            try:
                async with self.answered("GET", get_headers, follows_redirects=True) as answer:
                    if answer.status != 200:
                        if answer.status != 405 and stream_error is None:
                            reason = await refusal_text(answer)
                            stream_error = InvalidAnswer(resumption_failure(answer.status, reason))
                        break
                    stream_error = None
                    reply = await self._read(answer, identifier, receive, framer)
            except HttpError as error:
                stream_error = stream_error or error
                failures = 0 if framer.last_id != last_id else failures + 1
                if error.status or failures == MAX_RESUMPTIONS:
                    break
                continue
            if reply.message is None and framer.last_id == last_id:
                break
        if stream_error is not None:
            raise stream_error
        return reply

    async def deliver(self, data: bytes, headers: Mapping[str, str], url: str) -> ServerReply:
        """Post a message whose answer arrives on another stream. Raises: HttpError."""
        request_headers = POST_HEADERS | dict(headers)
        async with self.answered("POST", request_headers, data, url, follows_redirects=True) as answer:
            return await self._read(answer, None, None, EventFramer(self._max_bytes))

    async def delete(self, headers: Mapping[str, str]) -> None:
        """End a session. The status of the answer is ignored."""
        async with self.answered("DELETE", headers, follows_redirects=True):
            return

    async def events(
        self,
        headers: Mapping[str, str] | None = None,
        framer: EventFramer | None = None,
        on_open: Callable[[], None] = lambda: None,
    ) -> AsyncIterator[Event]:
        """Yield the events of the server's stream until it ends.

        `framer` has the position for resuming a stream. `on_open` is called once the stream has started.

        Raises: HttpError if the server does not start a stream; InvalidAnswer for an event that is too large.
        """
        framer = framer or EventFramer(self._max_bytes)
        request_headers = resumption_headers(framer) | dict(headers or {})
        async with self.answered("GET", request_headers, follows_redirects=True) as answer:
            if answer.status != 200 or answer.content_type != EVENT_STREAM:
                body = excerpt(await answer.content.read(MAX_EXCERPT_LENGTH)) if answer.status >= 400 else ""
                raise HttpError(f"HTTP {answer.status} without a stream", status=answer.status, body=body)
            on_open()
            async for piece in answer.content.iter_any():
                for event in complete_events(framer, piece):
                    yield event

    @asynccontextmanager
    async def answered(
        self,
        method: str,
        headers: Mapping[str, str],
        body: bytes | AsyncIterator[bytes] | None = None,
        url: str = "",
        *,
        follows_redirects: bool = False,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Send a request with the common headers, and yield the answer for reading. Raises: HttpError.

        If `follows_redirects` is True, same-origin redirects are followed with the same method and body. An
        iterator as body is sent only once. After a rejection, the caller may send the request again.
        """
        pool, request_url = self._connection_pool(), url or self.url
        can_resend = body is None or isinstance(body, bytes)
        attempt = redirects = 0
        with connection_errors():
            while True:
                token = await self._token(method, request_url)
                request_headers = self._headers | dict(headers) | token
                async with pool.request(
                    method, request_url, data=_payload(body), headers=request_headers, allow_redirects=False
                ) as answer:
                    may_follow = follows_redirects and redirects < MAX_REDIRECTS
                    redirect_url = self._redirect_url(answer, request_url) if may_follow else ""
                    if redirect_url:
                        request_url = redirect_url
                        redirects += 1
                        continue
                    must_resend = await self._renew_authorization(answer, token, attempt)
                    if not must_resend or not can_resend:
                        yield answer
                        return
                attempt += 1

    def _redirect_url(self, answer: aiohttp.ClientResponse, url: str) -> str:
        """Return the URL that an answer redirects to, or an empty string if no redirect may be followed."""
        target_url = redirect_target(answer.status, answer.headers.get("Location", ""), url)
        if target_url and not self._has_reported_redirect:
            self._has_reported_redirect = True
            text = f"{without_query(url)} redirects (HTTP {answer.status}); name {without_query(target_url)}"
            self._remarks = (*self._remarks, Remark(RemarkKind.REDIRECT, excerpt(text)))
        return target_url

    def _connection_pool(self) -> aiohttp.ClientSession:
        """Return the connection pool, creating it if needed. Raises: CallError after `close`."""
        if self._is_closed:
            raise CallError("closed while the call was running")
        if self._pool is None:
            from mcpdesk.client.answers.connection_pool import connection_pool

            self._pool = connection_pool(self._addresses.server_socket, keeps_cookies=self._keeps_cookies)
        return self._pool

    async def fetch(self, step: Fetch) -> FetchResult:
        """Send a request about authorization. Its URL may come from the server's metadata.

        Raises: AuthorizationError for an address that is not allowed; HttpError if the answer is incomplete.
        """
        addresses = self._addresses
        refused_address = ""

        def checked_socket(info: Any) -> socket.socket:
            nonlocal refused_address
            try:
                return addresses.named_socket(info)
            except AddressRefused as error:
                refused_address = str(error)
                raise

        if step.is_named_by_server and not addresses.is_first_contact(step.url):
            addresses.check_name(step.subject, step.url)
            new_socket: Callable[[Any], socket.socket] | None = checked_socket
        else:
            new_socket = addresses.server_socket if step.is_named_by_server else None
        if self._is_closed:
            raise CallError("closed while the call was running")
        from mcpdesk.client.answers.connection_pool import connection_pool

        pool = connection_pool(new_socket)
        self._metadata_pools.add(pool)
        try:
            async with pool:
                return await self._fetch_with(pool, step)
        except HttpError:
            if refused_address:
                raise refusal_error(step.subject, step.url, refused_address) from None
            raise
        finally:
            self._metadata_pools.discard(pool)

    async def check_page(self, subject: str, url: str) -> None:
        """Check the URL of a page before a browser opens it.

        Raises: AuthorizationError for an address that is not allowed.
        """
        await self._addresses.check_page(subject, url)

    def report_deviation(self, text: str) -> None:
        """Add a remark to the next reply: the authorization server deviates from the specification."""
        self._remarks = (*self._remarks, Remark(RemarkKind.OAUTH, excerpt(text)))[:MAX_REMARKS]

    async def _fetch_with(self, pool: aiohttp.ClientSession, step: Fetch) -> FetchResult:
        from mcpdesk.client.oauth.values import FetchResult

        request = pool.request(
            step.method, step.url, data=step.body, headers=step.headers, allow_redirects=False
        )
        with connection_errors():
            async with asyncio.timeout(METADATA_S), request as answer:
                data = bytearray()
                async for piece in answer.content.iter_chunked(READ_BYTES):
                    data += piece
                    if len(data) > MAX_METADATA_BYTES:
                        raise AuthorizationError(f"{step.subject} has more than {MAX_METADATA_BYTES} bytes")
                return FetchResult(answer.status, lower_case_headers(answer), bytes(data))

    async def challenge(self) -> Challenge:
        """Return the server's challenge to a request without a token. Empty if no challenge is sent."""
        from mcpdesk.client.oauth.discovery import parse_challenge
        from mcpdesk.client.oauth.values import Challenge

        probe = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        async with self.answered("POST", POST_HEADERS, codec.encode(probe)) as answer:
            parsed = parse_challenge(answer.headers.getall("WWW-Authenticate", []))
        return parsed or Challenge()

    async def _token(self, method: str, url: str) -> dict[str, str]:
        return {} if self._authorizer is None else await self._authorizer.headers(method, url, self)

    async def _renew_authorization(
        self, answer: aiohttp.ClientResponse, token: Mapping[str, str], attempt: int
    ) -> bool:
        """Return True if a rejected request must be sent again with new authorization headers."""
        if self._authorizer is None or answer.status not in REFUSAL_STATUSES:
            return False
        challenges = answer.headers.getall("WWW-Authenticate", [])
        try:
            return await self._authorizer.renew_after_rejection(
                answer.status, lower_case_headers(answer), challenges, token, attempt, self
            )
        except AuthorizationError as error:
            if explanation := await refusal_text(answer):
                error.message = f"{error.message}; the server says: {explanation}"
            raise

    async def _read(
        self,
        answer: aiohttp.ClientResponse,
        identifier: Id | None,
        receive: Receive | None,
        framer: EventFramer,
    ) -> ServerReply:
        self.current_answer = HttpAnswer(identifier, receive, framer, self.has_batches)
        reply = await self.current_answer.read(answer)
        remarks, self._remarks = self._remarks, ()
        if is_circular(answer.status, answer.headers.get("Location", ""), str(answer.url)):
            reply = replace(reply, is_circular=True)
        return replace(reply, remarks=(*remarks, *reply.remarks)) if remarks else reply


class StreamableHttp(ClientTransport):
    """Streamable HTTP transport, with or without a session. Source: MCP 2025-11-25, basic/transports."""

    def __init__(
        self,
        url: str,
        headers: Mapping[str, str],
        mode: str = "",
        max_bytes: int = MAX_BYTES,
        authorizer: Authorizer | None = None,
    ) -> None:
        """`headers` are sent with every request. `authorizer` provides tokens, if the server needs them.

        Raises: DeskUserError for an invalid URL.
        """
        self._requests = HttpRequests(url, headers, mode, max_bytes, authorizer, keeps_cookies=True)
        self.target = self._requests.target
        self._max_bytes = max_bytes
        self._is_stateless = True
        self._session_headers: dict[str, str] = {}
        """Headers of each request in the session. Empty before the handshake and in the stateless era."""
        self._receive: Receive = lambda incoming: None

    @property
    def mirrors_arguments(self) -> bool:
        """True in the stateless era, in which headers repeat arguments."""
        return self._is_stateless

    @property
    def closing_cancels(self) -> bool:
        """True in the stateless era, where closing the connection cancels its request."""
        return self._is_stateless

    @property
    def probe_s(self) -> float:
        """Time limit in seconds for the first answer. A server may not answer an unknown request."""
        return PROBE_S

    @property
    def unexpected_bytes(self) -> str:
        """Description of the bytes received instead of the latest answer."""
        answer = self._requests.current_answer
        return "the request was sent, but no response has begun" if answer is None else answer.progress_text

    async def open(self, receive: Receive) -> None:
        """Store `receive`. The first request opens the connection."""
        self._receive = receive

    async def exchange(
        self, request: JSONObject, headers: Mapping[str, str], receive: Receive
    ) -> ServerReply:
        """Post a request. Raises: SessionGone; HttpError or InvalidAnswer if there is no valid reply."""
        protocol_headers = self._protocol_headers(request)
        self._requests.current_answer = None
        reply = await self._requests.post(request, {**protocol_headers, **headers}, receive)
        if SESSION_HEADER in protocol_headers and is_lost_session(reply.status, reply.reason):
            failure = reply.failure()
            session_error = SessionGone(failure.message, status=reply.status, body=failure.body)
            session_error.reply = reply
            raise session_error
        return reply

    async def send(self, message: JSONObject) -> None:
        """Post a notification or a response. Raises: HttpError if the server rejects it."""
        reply = await self._requests.post(message, self._session_headers)
        if reply.status >= 400:
            raise reply.failure()

    def apply_revision(self, revision: Revision, reply: ServerReply) -> None:
        """Store the headers of the session."""
        self._is_stateless = revision.is_stateless
        self._session_headers = {}
        self._requests.has_batches = revision.has_batches
        if revision.is_stateless:
            return
        if session := reply.headers.get(SESSION_HEADER.lower()):
            self._session_headers[SESSION_HEADER] = session
        if revision.has_version_header:
            self._session_headers[VERSION_HEADER] = named_revision(reply) or revision.name

    def older_transport(self) -> HttpSse:
        """Return an HTTP+SSE transport of 2024-11-05 for the same URL."""
        return HttpSse(self._requests)

    async def listen(self, on_open: Callable[[], None]) -> None:
        """Receive events from the session's stream, and resume the stream when it ends.

        Return if the server offers no stream. Raises: SessionGone if the server lost the stream's session.
        """
        framer, has_received = EventFramer(self._max_bytes), False
        failures = 0
        stream_session = ""  # id of the session in which the stream was opened

        def on_stream_open() -> None:
            nonlocal failures, stream_session
            failures = 0
            stream_session = self._session_headers.get(SESSION_HEADER, "")
            on_open()

        while not self._is_stateless:
            try:
                async for event in self._requests.events(self._session_headers, framer, on_stream_open):
                    has_received = True
                    self._on_event(event.data, await read_on_thread(event.data))
            except HttpError as error:
                failures += 1
                if stream_session and is_lost_session(error.status, error.body):
                    session_error = SessionGone(error.message, status=error.status, body=error.body)
                    session_error.has_received = has_received
                    raise session_error from None
                if error.status:
                    return
                if failures == MAX_FAILURES:
                    raise
            await asyncio.sleep(pause_s(framer))
            framer = next_framer(framer)

    def _on_event(self, data: bytes, read: ReadFrame) -> None:
        """Handle an event that belongs to no request."""
        for message in read.messages:
            frame = codec.encode(message) if isinstance(read.value, list) else data
            self._receive(Incoming(message, frame, read.remarks))
        if read.value is None:
            fault = f"an event is not a message: {excerpt(data)[:80]!r}"
            self._receive(Incoming(None, data, (read.fault or Remark(RemarkKind.UNREADABLE, fault),)))

    async def close(self) -> None:
        """End the session, waiting only briefly for the server."""
        if SESSION_HEADER in self._session_headers:
            await within(CLOSE_TIMEOUT_S, lambda: self._requests.delete(self._session_headers))
        await self._requests.close()

    def _protocol_headers(self, request: JSONObject) -> dict[str, str]:
        """Return the headers that the protocol requires: those of the session, or of a stateless request."""
        if not is_stateless(request):
            return {} if request["method"] == "initialize" else self._session_headers
        method, params = request["method"], request["params"]
        row = METHODS.get(method)
        routing = {VERSION_HEADER: params["_meta"][VERSION_KEY], "Mcp-Method": method}
        if row is not None and row.routing_field:
            routing["Mcp-Name"] = encode_value(str(params.get(row.routing_field, "")))
        return routing


class SseChannel:
    """Connection of the HTTP+SSE transport. Messages are posted, and all answers arrive on one stream.

    Source: MCP basic/transports of 2024-11-05.
    """

    def __init__(
        self,
        requests: HttpRequests,
        headers: Mapping[str, str],
        on_data: OnFrame,
        on_end: Callable[[CallError], None],
    ) -> None:
        """`headers` are sent with every request.

        `on_data` receives messages. If `on_data` raises a CallError, the stream ends.
        """
        loop = asyncio.get_running_loop()
        self._requests, self._headers = requests, dict(headers)
        self._on_data, self._on_end = on_data, on_end
        self._post_url: asyncio.Future[str] = loop.create_future()
        self._reader = loop.create_task(self._read())

    @property
    def is_open(self) -> bool:
        """True until the stream ends."""
        return not self._reader.done()

    async def wait_until_open(self) -> None:
        """Wait until the server sends the URL for posts.

        Raises: CallError if the server does not offer such a stream.
        """
        try:
            await self._post_url
        except asyncio.CancelledError:
            await self.end()
            raise

    async def send(self, data: bytes) -> None:
        """Post a message. Raises: CallError if the server rejects it."""
        reply = await self._requests.deliver(data, self._headers, await self._post_url)
        if reply.status >= 300:
            raise reply.failure()

    async def end(self) -> None:
        """Close the stream, and thus the connection."""
        self._reader.cancel()
        await asyncio.wait([self._reader])
        self._fail(CallError("closed while the call was running"))

    async def _read(self) -> None:
        """Pass messages to `on_data` until the stream ends."""
        try:
            async for event in self._requests.events(self._headers):
                if event.name == "endpoint" and not self._post_url.done():
                    self._post_url.set_result(self._checked_post_url(event.data))
                elif event.name == "message":
                    deliver_frame(self._on_data, event.data, await read_on_thread(event.data))
            raise HttpError("the server ended the connection")
        except CallError as error:
            self._fail(error)

    def _checked_post_url(self, data: bytes) -> str:
        """Return the URL for posts.

        Raises: InvalidAnswer if the URL is invalid, or if it belongs to another server, which must not
        receive keys and tokens.
        """
        url_text = data.decode("utf-8", "replace").strip()
        try:
            post_url = urljoin(self._requests.url, url_text)
            server_parts, post_parts = urlsplit(self._requests.url), urlsplit(post_url)
        except ValueError:
            reason = "its endpoint for messages is not a URL"
            raise InvalidAnswer(reason, excerpt=excerpt(url_text)) from None
        if (server_parts.scheme, server_parts.netloc) != (post_parts.scheme, post_parts.netloc):
            reason = f"its endpoint for messages is on another server, {excerpt(without_query(post_url))}"
            raise InvalidAnswer(reason, excerpt=excerpt(post_url))
        return post_url

    def _fail(self, error: CallError) -> None:
        self._on_end(error)
        if not self._post_url.done():
            self._post_url.set_exception(error)
        if not self._post_url.cancelled():
            self._post_url.exception()  # marks the exception as retrieved, since there may be no waiter


class HttpSse(ClientTransport):
    """HTTP+SSE transport of 2024-11-05.

    A connection lasts as long as its stream. When the stream ends, pending requests fail, and the next
    request opens a new stream.
    """

    def __init__(self, requests: HttpRequests) -> None:
        self.target = requests.target
        self._requests = requests
        self._replies = PendingReplies()
        self._channel: SseChannel | None = None

    @property
    def is_open(self) -> bool:
        """True until the stream ends."""
        return self._channel is not None and self._channel.is_open

    async def open(self, receive: Receive) -> None:
        """Open the stream and wait for the URL for posts. Raises: CallError without such a stream."""

        def received(data: bytes, read: ReadFrame | None) -> None:
            if not self._replies.deliver(data, receive, read):
                checked_event(data, read or read_frame(data))

        self._channel = SseChannel(self._requests, {}, received, self._replies.fail)
        await self._channel.wait_until_open()

    async def exchange(
        self, request: JSONObject, headers: Mapping[str, str], receive: Receive
    ) -> ServerReply:
        """Post a request and wait for its reply on the stream."""
        with self._replies.pending_reply(request["id"]) as reply:
            try:
                await self.send(request)
                return await reply
            except BaseException:
                if request["method"] == "initialize":
                    await self._disconnect()
                raise

    async def send(self, message: JSONObject) -> None:
        """Post a message of any kind."""
        if self._channel is None:
            raise CallError("the connection is not open")
        await self._channel.send(codec.encode(message))

    async def until_ended(self) -> None:
        """Wait until the connection ends."""
        await self._replies.until_ended()

    async def close(self) -> None:
        """Close the stream, and thus the connection."""
        await self._disconnect()
        await self._requests.close()

    async def _disconnect(self) -> None:
        if self._channel is not None:
            await self._channel.end()


def _payload(
    body: bytes | AsyncIterator[bytes] | None,
) -> bytes | io.BytesIO | AsyncIterator[bytes] | None:
    """Wrap a large body so that it is sent in pieces."""
    return io.BytesIO(body) if isinstance(body, bytes) and len(body) > READ_BYTES else body


def checked_url(url: str) -> str:
    """Return the URL if it is valid for a server. Raises: DeskUserError with the reason."""
    hint = "Write it like http://127.0.0.1:3333/mcp/hello."
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise DeskUserError(f"Invalid URL: {error}.", hint) from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise DeskUserError(f"{excerpt(url)}: only http:// and https:// URLs can be called.", hint)
    if parts.username is not None or parts.password is not None:
        raise DeskUserError(
            "A URL must not contain a user or password here.", "Use a token or a key instead."
        )
    if not url.isprintable() or " " in url:
        raise DeskUserError("A URL must not contain spaces or control characters.", hint)
    return url


def _with_mode(url: str, mode: str) -> str:
    if not mode:
        return url
    parts = urlsplit(url)
    query = [pair for pair in parse_qsl(parts.query, keep_blank_values=True) if pair[0] != "mode"]
    return urlunsplit(parts._replace(query=urlencode([*query, ("mode", mode)])))
