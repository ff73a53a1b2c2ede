"""Forwarding of clients to a server that uses a channel: a program, a WebSocket, or HTTP+SSE.

The clients use Streamable HTTP. Each session has its own channel, which for a program is its own process.
Requests without a session share one channel.

Messages pass unchanged, with two exceptions. If two clients use the same id or progress token at the same
time, the second client's id or token is replaced in the request and restored in the answer. A batch is split,
because few servers accept one.

Source: MCP basic/transports of 2025-11-25, basic/transports/streamable-http, basic/transports/stdio.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from functools import partial
from typing import Any, TypeAlias

from msgspec import Struct, field

from mcpdesk.client.answers.large_frames import read_on_thread
from mcpdesk.client.transport import excerpt
from mcpdesk.errors import CallError, ProtocolError, RemoteProtocolError
from mcpdesk.protocol import codec
from mcpdesk.protocol.event_store import (
    MAX_EVENTS,
    MAX_SESSION_BYTES,
    PRIMING_REVISION,
    TOTAL_FACTOR,
    EventStore,
    SharedEventBudget,
)
from mcpdesk.protocol.headers import check_parameters, mirrored_arguments
from mcpdesk.protocol.jsonrpc import (
    ErrorCode,
    Id,
    JSONObject,
    MessageKind,
    classify,
    http_status,
    invalid,
    meta_of,
    readable_id,
)
from mcpdesk.protocol.revisions import BY_NAME
from mcpdesk.protocol.stateless import LOG_LEVEL_KEY, admit, is_stateless
from mcpdesk.upstream.channels import AUTHORIZATION, Channels
from mcpdesk.upstream.pass_through import PassedAnswer
from mcpdesk.upstream.passed_channel import (
    KEEP_ALIVE_S,
    MAX_HELD_BYTES,
    ClientStream,
    Events,
    OnUnclaimed,
    PassedChannel,
    PendingMessages,
    members,
)

_log = logging.getLogger(__name__)
SESSION_HEADER = "mcp-session-id"
"""Name of the header with the id of a session, in lower case."""
MAX_CHANNELS = 32
"""Maximum number of channels of a server. A new channel then replaces the least recently used one."""
MAX_BATCH_MESSAGES = 1_000
"""Maximum number of messages in a batch."""
RETIREMENT_TIMEOUT_S = 10.0
"""Seconds after which a replaced channel is closed, even if calls are still running on it."""
RENEWAL_TIMEOUT_S = 30.0
"""Timeout in seconds for setting up a session on a new channel."""
SESSION_METHODS = frozenset(
    {"initialize", "notifications/initialized", "logging/setLevel", "resources/subscribe"}
)
"""Methods whose effect lasts as long as the session."""
SILENCE_S = 5.0
"""If no message arrives for this many seconds, the answer becomes a stream, which can carry keep-alive
comments.
"""
DISCOVERY_TIMEOUT_S = 8.0
"""Seconds to wait for the answer to `server/discover`. Programs of older revisions may never answer it."""
JSON_TYPE, STREAM_TYPE = "application/json", "text/event-stream"
SenderHeaders: TypeAlias = frozenset[tuple[str, str]]
"""Headers of a client that determine its channel. See `Channels.sender_headers`."""
STREAM_HEADERS = (("Content-Type", STREAM_TYPE), ("Cache-Control", "no-cache"), ("X-Accel-Buffering", "no"))


class PassedSession(Struct):
    """Session of one client, with its channel."""

    channel: PassedChannel
    sender_headers: Mapping[str, str]
    """Headers of the client that began the session, in the form in which the channel receives them."""
    events: EventStore[ClientStream]
    """Streams that the client can resume."""
    standing: Events
    """Stream for messages that belong to no request."""
    revision: str = ""
    expiry: asyncio.TimerHandle | None = None
    session_messages: dict[tuple[str, str], bytes] = field(default_factory=dict)
    """Messages to repeat on a new channel, by method and resource, in their order."""
    renewal_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Lock to hold while the channel is replaced."""

    def store(self, message: JSONObject, line: bytes) -> None:
        """Store a message if the message has an effect for the rest of the session."""
        method = message.get("method", "")
        params = message.get("params")
        uri = str(params.get("uri", "")) if isinstance(params, dict) else ""
        if method in ("resources/subscribe", "resources/unsubscribe"):
            self.session_messages.pop(("resources/subscribe", uri), None)
        if method in SESSION_METHODS:
            self.session_messages[method, uri] = line


class ChannelPassThrough:
    """Forwards the requests of clients to one server. Use it on one event loop."""

    accepts_pieces = False
    """False, because each message is sent as a whole. The body of a request is therefore kept in memory."""

    def __init__(
        self,
        name: str,
        channels: Channels,
        next_connection: Callable[[], int],
        ttl_s: float,
        on_stray: Callable[[bytes], None],
        tool_schema: Callable[[str], JSONObject],
        offered: Callable[[], Mapping[str, int]],
        *,
        allows_sessionless: bool = False,
    ) -> None:
        """`on_stray` is called with lines that are not messages. `tool_schema` returns a tool's input schema.

        `allows_sessionless` allows messages without a session, because the server needs no handshake.
        """
        self.name = name
        self.offered = offered
        """Function that returns the number of items that the server listed, by kind."""
        self.dropped = 0
        """Number of messages that were dropped because a client did not read."""
        self.next_connection = next_connection
        """Function that returns the recorder's number for a new client connection."""
        self.leads = False
        """True if this server comes before all folders on the command line."""
        self.holds_credentials = channels.holds_credentials
        self.has_lines = channels.has_lines
        self._channels, self._ttl_s = channels, ttl_s
        self._on_stray, self._tool_schema = on_stray, tool_schema
        self._allows_sessionless = allows_sessionless
        self._sessions: dict[str, PassedSession] = {}
        """Sessions by id. The least recently used session is first."""
        self._shared_channels: dict[SenderHeaders, PassedChannel] = {}
        """Channels for requests without a session, by headers of the caller.

        The least recently used channel is first.
        """
        self._event_budget = SharedEventBudget(MAX_SESSION_BYTES * TOTAL_FACTOR)
        self._retired_channels: dict[PassedChannel, asyncio.TimerHandle] = {}
        """Replaced channels on which calls may still end, with their timers."""
        self._start_lock = asyncio.Lock()
        self._end_tasks: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def ask(
        self,
        method: str,
        headers: Mapping[str, str],
        body: bytes | AsyncIterator[bytes],
        on_unclaimed: Callable[[bytes], None] | None = None,
    ) -> AsyncIterator[PassedAnswer]:
        """Forward a request.

        Raises: CallError if no channel can be opened, or if the channel rejects the message.
        """
        assert isinstance(body, bytes)
        on_unclaimed = on_unclaimed or self._on_stray
        lower_headers = {key.lower(): value for key, value in headers.items()}
        if method == "POST":
            async with self._answer_post(lower_headers, body, on_unclaimed) as answer:
                yield answer
            return
        identifier = lower_headers.get(SESSION_HEADER, "")
        session = self._session(lower_headers)
        if not identifier:
            text = invalid("this endpoint accepts JSON-RPC messages by POST")
            yield error_answer(405, text, headers=(("Allow", "POST"),))
        elif session is None:
            yield error_answer(404, invalid("No such session: initialize again"))
        elif method == "DELETE":
            self._end(identifier)
            yield PassedAnswer(204, (), _no_chunks)
        else:
            last_event_id = lower_headers.get("last-event-id", "")
            async with self._answer_get(identifier, session, last_event_id) as answer:
                yield answer

    async def close(self) -> None:
        """End all channels."""
        for identifier in list(self._sessions):
            self._end(identifier)
        for channel in (*self._shared_channels.values(), *self._retired_channels.copy()):
            self._finish(channel)
        await asyncio.gather(*self._end_tasks)
        await self._channels.close()

    async def restart(self) -> None:
        """Replace all channels, for example after a program was edited. Sessions continue.

        Running calls have a short time to end on the old channels.
        """
        for sender_headers in list(self._shared_channels):
            self._retire(self._shared_channels.pop(sender_headers))
        sessions = list(self._sessions.items())
        await asyncio.gather(*(self._renew(identifier, session) for identifier, session in sessions))

    async def _renew(self, identifier: str, session: PassedSession) -> None:
        """Replace the channel of a session, and repeat the messages that set up the session."""
        async with session.renewal_lock:
            on_unclaimed = session.channel.on_unclaimed
            new_channel = self._session_channel(identifier, session.standing, on_unclaimed)
            capabilities: JSONObject = {}
            try:
                async with asyncio.timeout(RENEWAL_TIMEOUT_S):
                    await new_channel.open(self._channels, session.sender_headers)
                    for line in list(session.session_messages.values()):
                        capabilities = await self._repeat_handshake(new_channel, line) or capabilities
            except (CallError, TimeoutError):
                self._retire(new_channel)
                self._end(identifier)
                return
            if identifier not in self._sessions:
                self._finish(new_channel)
                return
            old_channel, session.channel = session.channel, new_channel
            old_channel.standing = None
            self._retire(old_channel)
        if new_channel.has_ended:
            self._end(identifier)
        for kind, settings in capabilities.items():
            if isinstance(settings, dict) and settings.get("listChanged") is True:
                new_channel.send_standing(codec.notification(f"notifications/{kind}/list_changed", {}))

    async def _repeat_handshake(self, channel: PassedChannel, line: bytes) -> JSONObject:
        """Repeat a message of the client on a new channel. Return the capabilities in the answer, if any."""
        message = codec.decode(line)
        if "id" not in message:
            await channel.send(line)
            return {}
        pending = PendingMessages(channel.on_unclaimed, may_stream=False)
        async with channel.request(message, line, pending, is_alone=False):
            [answer_line] = [message_line async for message_line in pending.messages()]
        result = (await _decode_message(answer_line)).get("result")
        capabilities = result.get("capabilities") if isinstance(result, dict) else None
        return capabilities if isinstance(capabilities, dict) else {}

    @asynccontextmanager
    async def _answer_get(
        self, identifier: str, session: PassedSession, last_event_id: str
    ) -> AsyncIterator[PassedAnswer]:
        """Answer a GET request: resume the stream of the event `last_event_id`, or open the standing stream
        if the id is empty.
        """
        events: Events = session.standing
        last_position: int | None = None
        if last_event_id:
            resumed = session.events.find(last_event_id)
            if resumed is None:
                yield error_answer(400, invalid("Last-Event-ID: that stream is no longer stored"))
                return
            events, last_position = resumed
        elif session.standing.is_connected:
            yield error_answer(409, invalid("this session already has a GET stream"))
            return
        async with self._resumed_answer(identifier, events, last_position) as answer:
            yield answer

    @asynccontextmanager
    async def _answer_post(
        self, headers: Mapping[str, str], body: bytes, on_unclaimed: OnUnclaimed
    ) -> AsyncIterator[PassedAnswer]:
        """Forward the message or batch of a POST request."""
        message: Any = None
        try:
            message = codec.decode(body)
            if isinstance(message, list):
                channel = await self._batch_channel(headers, message)
                parts = list(zip(message, members(body, message), strict=True))
                async with self._answer_batch(channel, headers, parts, on_unclaimed) as answer:
                    yield answer
                return
            kind = classify(message)
            identifier = ""
            if is_stateless(message, headers.get("mcp-protocol-version", "")):
                if kind is MessageKind.REQUEST:
                    self._admit(message["method"], message.get("params") or {}, headers)
                channel = await self._shared_channel(headers, on_unclaimed)
            elif message.get("method") == "initialize":
                channel, identifier = await self._begin_session(headers, on_unclaimed)
            elif self._allows_sessionless and not headers.get(SESSION_HEADER):
                channel = await self._shared_channel(headers, on_unclaimed)
            else:
                channel, identifier = await self._channel_of(headers), headers[SESSION_HEADER]
                self._sessions[identifier].store(message, body)
        except _Refusal as refusal:
            yield error_answer(refusal.status, refusal, readable_id(message))
            return
        except ProtocolError as error:
            yield error_answer(max(400, http_status(error, True)), error, readable_id(message))
            return
        if kind is not MessageKind.REQUEST:
            await channel.send(body)
            yield PassedAnswer(202, (), _no_chunks)
            return
        if identifier and channel.is_known(message["id"]):
            yield error_answer(400, invalid("another request of this session has this id"), message["id"])
            return
        if identifier and message["method"] == "initialize":
            pending = PendingMessages(on_unclaimed, may_stream=False)
            yield await self._answer_initialize(channel, identifier, message, body, pending)
            return
        may_stream = STREAM_TYPE in headers.get("accept", JSON_TYPE)
        pending = PendingMessages(
            on_unclaimed, may_stream, LOG_LEVEL_KEY in meta_of(message), on_drop=self._count_dropped
        )
        async with self._answer_request(channel, identifier, headers, message, body, pending) as answer:
            yield answer

    def _admit(self, method: str, params: JSONObject, headers: Mapping[str, str]) -> None:
        """Check the headers of a request without a session. Raises: RemoteProtocolError if they are
        invalid.
        """
        admit(method, params, headers)
        arguments = params.get("arguments") or {}
        if method == "tools/call" and isinstance(arguments, dict):
            with suppress(ValueError):  # clients ignore tools with invalid annotations
                check_parameters(
                    mirrored_arguments(self._tool_schema(str(params.get("name")))), arguments, headers
                )

    async def _batch_channel(self, headers: Mapping[str, str], batch: list[Any]) -> PassedChannel:
        """Return the channel for a batch.

        Raises: ProtocolError if batches are not allowed or the batch is invalid.
        """
        channel = await self._channel_of(headers)
        revision = BY_NAME.get(self._sessions[headers[SESSION_HEADER]].revision)
        if revision is None or not revision.has_batches:
            raise invalid("batches belong to revision 2025-03-26 only")
        if not 0 < len(batch) <= MAX_BATCH_MESSAGES:
            raise invalid(f"a batch has between 1 and {MAX_BATCH_MESSAGES} messages, not {len(batch)}")
        identifiers = [message["id"] for message in batch if classify(message) is MessageKind.REQUEST]
        if any(message.get("method") == "initialize" for message in batch):
            raise invalid("initialize inside a batch is not allowed")
        if len(set(identifiers)) < len(identifiers) or any(map(channel.is_known, identifiers)):
            raise invalid("another request of this session has this id")
        return channel

    @asynccontextmanager
    async def _answer_batch(
        self,
        channel: PassedChannel,
        headers: Mapping[str, str],
        batch: Sequence[tuple[JSONObject, bytes]],
        on_unclaimed: OnUnclaimed,
    ) -> AsyncIterator[PassedAnswer]:
        """Send the messages of a batch one by one. Return the answers to all requests of the batch together.

        Each item of `batch` is a pair: the decoded message, and the bytes that the client sent.
        """
        request_count = sum(1 for message, _ in batch if classify(message) is MessageKind.REQUEST)
        may_stream = STREAM_TYPE in headers.get("accept", JSON_TYPE)
        pending = PendingMessages(
            on_unclaimed, may_stream, answer_count=request_count, on_drop=self._count_dropped
        )
        async with AsyncExitStack() as stack:
            for message, line in batch:
                self._sessions[headers[SESSION_HEADER]].store(message, line)
                if classify(message) is MessageKind.REQUEST:
                    request = channel.request(message, line, pending, is_alone=False)
                    await stack.enter_async_context(request)
                else:
                    await channel.send(line)
            if not request_count:
                yield PassedAnswer(202, (), _no_chunks)
            elif pending.may_stream:
                async with self._stream_answer(headers[SESSION_HEADER], pending) as answer:
                    yield answer
            else:
                answer_lines = [answer_line async for answer_line in pending.messages()]
                yield complete_answer(200, b"[%b]" % b",".join(answer_lines))
        self._touch(headers[SESSION_HEADER])

    def _count_dropped(self, count: int) -> None:
        """Count a message that a client did not receive. `count` is the number of such messages of the same
        request.
        """
        self.dropped += 1
        if count == 1:
            _log.warning(
                "%s: a client does not read: over %d bytes are queued for it, and further messages about its "
                "request are dropped. They are in the traffic, and passed_messages_dropped_total counts them",
                self.name,
                MAX_HELD_BYTES,
            )

    async def _answer_initialize(
        self,
        channel: PassedChannel,
        identifier: str,
        message: JSONObject,
        line: bytes,
        pending: PendingMessages,
    ) -> PassedAnswer:
        """Return the answer to `initialize`. If the answer contains no result, the session ends."""
        result = None
        try:
            async with channel.request(message, line, pending, is_alone=False):
                [answer_line] = [message_line async for message_line in pending.messages()]
                result = (await _decode_message(answer_line)).get("result")
        finally:
            if not isinstance(result, dict):
                self._end(identifier)
        if isinstance(result, dict) and identifier in self._sessions:
            session = self._sessions[identifier]
            session.revision = str(result.get("protocolVersion"))
            session.events.sends_priming_event = session.revision == PRIMING_REVISION
            session.store(message, line)
        session_headers = ((SESSION_HEADER, identifier),) if identifier in self._sessions else ()
        return complete_answer(200, answer_line, session_headers)

    @asynccontextmanager
    async def _answer_request(
        self,
        channel: PassedChannel,
        identifier: str,
        headers: Mapping[str, str],
        message: JSONObject,
        line: bytes,
        pending: PendingMessages,
    ) -> AsyncIterator[PassedAnswer]:
        """Send a request. Answer with JSON, or with a stream if the answer takes long."""
        is_probe = message["method"] == "server/discover"
        async with channel.request(message, line, pending, is_alone=not identifier):
            first = await pending.next_message(DISCOVERY_TIMEOUT_S if is_probe else SILENCE_S)
            while first is None and not pending.may_stream and not is_probe:
                first = await pending.next_message(KEEP_ALIVE_S)
            first_line, is_last = first or (b"", False)
            refuses_json = pending.may_stream and "json" not in headers.get("accept", JSON_TYPE)
            if first is None and is_probe:
                text = f"{self.name} did not answer server/discover within {DISCOVERY_TIMEOUT_S:g} s"
                yield error_answer(404, ProtocolError(ErrorCode.METHOD_NOT_FOUND, text), message["id"])
            elif is_last and not refuses_json:
                status = 200 if identifier else await answer_status(first_line)
                yield complete_answer(status, first_line)
            elif identifier in self._sessions:
                async with self._stream_answer(identifier, pending, first) as answer:
                    yield answer
            else:
                yield PassedAnswer(200, STREAM_HEADERS, partial(pending.events, first))
        self._touch(identifier)

    @asynccontextmanager
    async def _stream_answer(
        self, identifier: str, pending: PendingMessages, first: tuple[bytes, bool] | None = None
    ) -> AsyncIterator[PassedAnswer]:
        """Answer with a new stream of the session. The client can resume the stream.

        `first` is a message that was already taken from `pending`, and True if it is the last message.
        """
        events = self._sessions[identifier].events.open()
        async with self._resumed_answer(identifier, events) as answer:
            pending.stream_into(events, first)
            yield answer

    @asynccontextmanager
    async def _resumed_answer(
        self, identifier: str, events: Events, last_position: int | None = None
    ) -> AsyncIterator[PassedAnswer]:
        """Answer with the events of a stream of the session after the event number `last_position`."""
        client = ClientStream()
        events.attach(client, client.close, last_position)
        try:
            yield PassedAnswer(200, STREAM_HEADERS, client.pieces)
        finally:
            events.detach(client)
            self._touch(identifier)

    def _session(self, headers: Mapping[str, str]) -> PassedSession | None:
        """Return the session of a request, or None if the session does not belong to the sender."""
        session = self._sessions.get(headers.get(SESSION_HEADER, ""))
        if session is None or session.sender_headers.get(AUTHORIZATION) != headers.get(AUTHORIZATION):
            return None
        return session

    async def _channel_of(self, headers: Mapping[str, str]) -> PassedChannel:
        """Return the channel of the session that a request names. Raises: _Refusal."""
        if not headers.get(SESSION_HEADER):
            raise _Refusal(400, "Mcp-Session-Id is missing: initialize first")
        if (session := self._session(headers)) is not None and session.renewal_lock.locked():
            async with session.renewal_lock:
                session = self._session(headers)
        if session is None:
            raise _Refusal(404, "No such session: initialize again")
        self._touch(headers[SESSION_HEADER])
        return session.channel

    def _session_channel(self, identifier: str, standing: Events, on_unclaimed: OnUnclaimed) -> PassedChannel:
        """Return a new channel whose end ends the session."""

        def on_end() -> None:
            session = self._sessions.get(identifier)
            if session is not None and session.channel is channel:
                self._end(identifier)

        channel = PassedChannel(self.name, self._on_stray, on_end, on_unclaimed, standing)
        return channel

    def _make_room(self) -> None:
        """Close an unused channel if no other channel may be opened. Raises: _Refusal if all are in use."""
        if len(self._sessions) + len(self._shared_channels) < MAX_CHANNELS:
            return
        for identifier, session in self._sessions.items():
            if session.channel.is_unused:
                self._end(identifier)
                return
        for sender_headers, channel in self._shared_channels.items():
            if channel.is_unused:
                self._finish(self._shared_channels.pop(sender_headers))
                return
        raise _Refusal(503, f"{self.name} has {MAX_CHANNELS} clients here already, which is the limit")

    async def _begin_session(
        self, headers: Mapping[str, str], on_unclaimed: OnUnclaimed
    ) -> tuple[PassedChannel, str]:
        """Begin a session. Return its channel and id."""
        self._make_room()
        identifier = secrets.token_urlsafe(24)
        events = EventStore[ClientStream](MAX_SESSION_BYTES, MAX_EVENTS, self._event_budget)
        standing = events.open()
        sender_headers = self._channels.sender_headers(headers)
        channel = self._session_channel(identifier, standing, on_unclaimed)
        await channel.open(self._channels, sender_headers)
        self._sessions[identifier] = PassedSession(channel, sender_headers, events, standing)
        self._touch(identifier)
        return channel, identifier

    async def _shared_channel(
        self, client_headers: Mapping[str, str], on_unclaimed: OnUnclaimed
    ) -> PassedChannel:
        """Return the channel for requests of a client without a session."""
        headers = self._channels.sender_headers(client_headers)
        sender_headers = frozenset(headers.items())
        async with self._start_lock:
            if (existing_channel := self._shared_channels.pop(sender_headers, None)) is not None:
                self._shared_channels[sender_headers] = existing_channel  # now the most recently used one
                return existing_channel
            self._make_room()

            def on_end() -> None:
                if self._shared_channels.get(sender_headers) is channel:
                    del self._shared_channels[sender_headers]
                    self._finish(channel)

            channel = PassedChannel(self.name, self._on_stray, on_end, on_unclaimed)
            await channel.open(self._channels, headers)
            if not channel.has_ended:
                self._shared_channels[sender_headers] = channel
            return channel

    def _touch(self, identifier: str) -> None:
        """Record the use of a session, and restart its timer."""
        session = self._sessions.pop(identifier, None)
        if session is None:
            return
        if session.expiry is not None:
            session.expiry.cancel()
        session.expiry = asyncio.get_running_loop().call_later(self._ttl_s, self._end_if_unused, identifier)
        self._sessions[identifier] = session

    def _end_if_unused(self, identifier: str) -> None:
        """End an expired session, unless it is still in use."""
        if self._sessions[identifier].channel.is_unused:
            self._end(identifier)
        else:
            self._touch(identifier)

    def _end(self, identifier: str) -> None:
        session = self._sessions.pop(identifier, None)
        if session is not None:
            if session.expiry is not None:
                session.expiry.cancel()
            self._finish(session.channel, session.events)

    def _retire(self, channel: PassedChannel) -> None:
        """Close a channel after its running calls had time to end."""
        if channel.is_unused:
            self._finish(channel)
        else:
            timer = asyncio.get_running_loop().call_later(RETIREMENT_TIMEOUT_S, self._finish, channel)
            self._retired_channels[channel] = timer

    def _finish(self, channel: PassedChannel, events: EventStore[ClientStream] | None = None) -> None:
        """Close a channel, and then the streams of its session."""
        if (timer := self._retired_channels.pop(channel, None)) is not None:
            timer.cancel()
        task = asyncio.get_running_loop().create_task(channel.end())
        self._end_tasks.add(task)
        task.add_done_callback(self._end_tasks.discard)
        if events is not None:
            task.add_done_callback(lambda ended: events.close())


class _Refusal(RemoteProtocolError):
    """Error with an HTTP status, for a request that is not forwarded."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(ErrorCode.INVALID_REQUEST, message)
        self.status = status


async def _decode_message(line: bytes) -> JSONObject:
    """Decode a message of a server. Slightly invalid messages are accepted."""
    value = (await read_on_thread(line)).value
    return value if isinstance(value, dict) else {}


async def answer_status(line: bytes) -> int:
    """Return the HTTP status for an answer to a request without a session."""
    if b"error" not in line and b"\\u" not in line:
        return 200  # avoids decoding a large result
    error = (await _decode_message(line)).get("error")
    if not isinstance(error, dict) or not isinstance(error.get("code"), int):
        return 200
    return http_status(ProtocolError(error["code"], excerpt(str(error.get("message")))), True)


def complete_answer(status: int, body: bytes, headers: Sequence[tuple[str, str]] = ()) -> PassedAnswer:
    """Return an answer that consists of one piece."""

    async def chunks() -> AsyncIterator[bytes]:
        yield body

    return PassedAnswer(
        status, (("Content-Type", JSON_TYPE), ("Content-Length", str(len(body))), *headers), chunks
    )


def error_answer(
    status: int,
    error: ProtocolError,
    identifier: Id | None = None,
    headers: Sequence[tuple[str, str]] = (),
) -> PassedAnswer:
    """Return an answer with an error of the desk itself."""
    return complete_answer(status, codec.error_response(identifier, error), headers)


async def _no_chunks() -> AsyncIterator[bytes]:
    return
    yield b""
