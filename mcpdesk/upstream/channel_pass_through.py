"""The way of clients through the desk to a server on a channel: a program, a WebSocket, or HTTP+SSE.

Clients speak Streamable HTTP. Each session of the handshake era has a channel (a program: a run of it) to
itself; requests that stand alone share one.
Messages pass as they came. Only where two clients use the same id or progress token at a time, that of the
second one is replaced on the way in and put back on the way out; and a batch is taken apart, since few
servers read one.

Source: MCP basic/transports of 2025-11-25, basic/transports/streamable-http, basic/transports/stdio.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import Any

from msgspec import Struct

from mcpdesk.client.transport import excerpt
from mcpdesk.errors import CallError, ProtocolError, RemoteProtocolError
from mcpdesk.protocol import codec
from mcpdesk.protocol.headers import check_parameters, mirrored
from mcpdesk.protocol.jsonrpc import (
    ErrorCode,
    Id,
    JSONObject,
    MessageKind,
    classify,
    http_status,
    invalid,
    is_id,
    readable_id,
)
from mcpdesk.protocol.revisions import BY_NAME
from mcpdesk.protocol.stateless import LOG_LEVEL_KEY, SUBSCRIPTION_KEY, admit, is_stateless
from mcpdesk.upstream.channels import Channel, Channels, Heard
from mcpdesk.upstream.pass_through import PassedAnswer

SESSION, AUTHORIZATION = "mcp-session-id", "authorization"
MOST_CHANNELS = 32
"""Channels of a server at a time; the longest unused one makes room."""
MOST_BATCH = 1_000
"""Messages of a batch."""
MOST_KEPT = 1_000
"""Messages kept for a client that listens later; the oldest go first."""
MOST_KEPT_BYTES = 16 << 20
MOST_HELD_BYTES = 256 << 20
"""What may wait for a client that reads too slowly."""
SILENT_S = 5.0
"""After so long without a message an answer begins as a stream, and then says that it goes on."""
KEEP_ALIVE_S = 15.0
KEEP_ALIVE = b": still there\n\n"
UNANSWERED_S = 8.0
"""How long `server/discover` may stay unanswered: programs of older revisions may never answer it."""
JSON, STREAM = "application/json", "text/event-stream"
STREAMED = (("Content-Type", STREAM), ("Cache-Control", "no-cache"), ("X-Accel-Buffering", "no"))


class Waiting:
    """A request that is being answered, or a client that listens: what is on its way to it."""

    def __init__(self, may_stream: bool = True, hears_logs: bool = False, answers: int = 1) -> None:
        """`answers` is how many requests it made at once."""
        self.may_stream = may_stream
        self.hears_logs = hears_logs
        self._due = answers
        self.is_left = False
        """Whether its client has gone without waiting for the answer."""
        self._lines: deque[tuple[bytes, bool]] = deque()
        self._held = 0
        self._came = asyncio.Event()

    def put(self, line: bytes, is_answer: bool = False) -> None:
        """Give it a message; an answer is the last one, unless others are due."""
        if self.is_left or (self._held > MOST_HELD_BYTES and not is_answer):
            return
        self._held += len(line)
        self._due -= is_answer
        self._lines.append((line, not self._due))
        self._came.set()

    async def take(self, within_s: float) -> tuple[bytes, bool] | None:
        """The next message, and whether it is the last; None when none comes in time."""
        try:
            async with asyncio.timeout(within_s):
                while not self._lines:
                    self._came.clear()
                    await self._came.wait()
        except TimeoutError:
            return None
        line, is_last = self._lines.popleft()
        self._held -= len(line)
        return line, is_last

    async def messages(self) -> AsyncIterator[bytes]:
        """What comes, until the last message."""
        is_last = False
        while not is_last:
            line, is_last = await self.take(KEEP_ALIVE_S) or (b"", False)
            if line:
                yield line

    async def events(self, first: bytes | None = None) -> AsyncIterator[bytes]:
        """What comes, as an event stream, until the last message; an empty one only ends it."""
        if first is not None:
            yield event(first)
        while True:
            taken = await self.take(KEEP_ALIVE_S)
            if taken is None:
                yield KEEP_ALIVE
                continue
            line, is_last = taken
            if line:
                yield event(line)
            if is_last:
                return


class Alias(Struct, frozen=True):
    """What was put in place of an id or token that another client uses at the same time."""

    identifier: Id
    token: Id | None = None


class PassedChannel:
    """One channel, and who waits for what comes on it."""

    def __init__(self, name: str, on_stray: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self.standing: Waiting | None = None
        """The client that listens to what belongs to no request."""
        self._name = name
        self._on_stray = on_stray
        self._on_end = on_end
        self._channel: Channel | None = None
        self.has_ended = False
        """Whether nothing comes any more."""
        self._waiting: dict[Id, Waiting] = {}
        self._tokens: dict[Id, Id] = {}
        """Ids of the requests that progress tokens belong to."""
        self._aliases: dict[Id, Alias] = {}
        """What clients call the requests whose id or token was replaced, by the id here."""
        self._kept: deque[bytes] = deque()

    @property
    def is_unused(self) -> bool:
        """Whether nobody waits for anything."""
        return self.standing is None and all(each.is_left for each in self._waiting.values())

    async def open(self, channels: Channels, authorization: str) -> None:
        """Open the channel. Raises: CallError."""
        self._channel = await channels.open(authorization, Heard(self._received, self._ended))

    async def end(self) -> None:
        """End it."""
        if self._channel is not None:
            await self._channel.end()

    def listen(self) -> Waiting:
        """Have what belongs to no request, from now on and what was kept of it."""
        self.standing = Waiting()
        while self._kept:
            self.standing.put(self._kept.popleft())
        return self.standing

    async def send(self, line: bytes) -> None:
        """Send a message that has no answer. Raises: CallError."""
        if self._channel is not None and not self.has_ended:
            await self._channel.send(line)

    def is_known(self, identifier: Id) -> bool:
        """Whether a request of that id is being answered."""
        return identifier in self._waiting

    @asynccontextmanager
    async def request(
        self, message: JSONObject, line: bytes, waiting: Waiting, *, is_alone: bool
    ) -> AsyncIterator[None]:
        """Send a request; its answer ends what `waiting` gets.

        When the block is left before that, a request that stands alone is cancelled; nobody waits for the
        answer to another one any more.
        """
        message, line = self._distinct(message, line)
        identifier = message["id"]
        self._waiting[identifier] = waiting
        if (token := _token(message)) is not None:
            self._tokens[token] = identifier
        try:
            if self.has_ended:
                waiting.put(self._failed(identifier, f"{self._name} has ended"), True)
            await self.send(line)
            yield
        finally:
            if self._waiting.get(identifier) is waiting:
                waiting.is_left = True
                if is_alone:
                    self._forget(identifier)
                    cancelled = {"requestId": identifier, "reason": "the client left"}
                    with suppress(CallError):
                        await self.send(codec.notification("notifications/cancelled", cancelled))

    def _distinct(self, message: JSONObject, line: bytes) -> tuple[JSONObject, bytes]:
        """The message under an id and a token that no other request has now."""
        identifier, token = message["id"], _token(message)
        is_taken, is_token_taken = identifier in self._waiting, token in self._tokens
        if not is_taken and not is_token_taken:
            return message, line
        here = f"mcpdesk-{secrets.token_hex(8)}" if is_taken else identifier
        self._aliases[here] = Alias(identifier, token if is_token_taken else None)
        message = {**message, "id": here}
        if is_token_taken:
            params = message["params"]
            message["params"] = {**params, "_meta": {**params["_meta"], "progressToken": here}}
        return message, codec.encode(message)

    def _received(self, line: bytes) -> None:
        try:
            message = codec.decode(line)
            if isinstance(message, list) and message:
                for each in message:
                    self._received(codec.encode(each))
                return
            kind = classify(message)
        except ProtocolError:
            self._on_stray(line)
            return
        if kind is MessageKind.RESPONSE:
            self._answered(message, line)
            return
        about, message, line = self._subject(message, line)
        waiting = self._waiting.get(about) if about is not None else self._likeliest(message)
        if waiting is not None and waiting.may_stream and not waiting.is_left:
            waiting.put(line)
        elif self.standing is not None:
            self.standing.put(line)
        elif about is None:
            self._kept.append(line)
            while len(self._kept) > MOST_KEPT or sum(map(len, self._kept)) > MOST_KEPT_BYTES:
                self._kept.popleft()

    def _answered(self, message: JSONObject, line: bytes) -> None:
        identifier = readable_id(message)
        if identifier is None or identifier not in self._waiting:
            return
        alias = self._aliases.get(identifier)
        waiting = self._forget(identifier)
        if alias is not None and alias.identifier != identifier:
            line = codec.encode({**message, "id": alias.identifier})
        waiting.put(line, True)

    def _subject(self, message: JSONObject, line: bytes) -> tuple[Id | None, JSONObject, bytes]:
        """The request a notification says it is about, and the notification as its client knows that."""
        params = message.get("params") or {}
        meta = params.get("_meta")
        subscription = meta.get(SUBSCRIPTION_KEY) if isinstance(meta, dict) else None
        token = params.get("progressToken") if message["method"] == "notifications/progress" else None
        about: Id | None = None
        if is_id(token):
            about = self._tokens.get(token)
        elif is_id(subscription):
            about = subscription
        alias = self._aliases.get(about) if about is not None else None
        if alias is None:
            return about, message, line
        changed = dict(params)
        if token is not None and alias.token is not None:
            changed["progressToken"] = alias.token
        if subscription is not None:
            changed["_meta"] = {**params["_meta"], SUBSCRIPTION_KEY: alias.identifier}
        message = {**message, "params": changed}
        return about, message, codec.encode(message)

    def _likeliest(self, message: JSONObject) -> Waiting | None:
        """The one request a message can belong to that names none; None when there are several, or none."""
        here = [each for each in set(self._waiting.values()) if not each.is_left]
        if message["method"] == "notifications/message" and len(here) > 1:
            here = [each for each in here if each.hears_logs]
        return here[0] if len(here) == 1 else None

    def _forget(self, identifier: Id) -> Waiting:
        self._tokens = {token: about for token, about in self._tokens.items() if about != identifier}
        self._aliases.pop(identifier, None)
        return self._waiting.pop(identifier)

    def _ended(self, reason: CallError) -> None:
        if self.has_ended:
            return
        self.has_ended = True
        for identifier in list(self._waiting):
            shown = self._aliases.get(identifier, Alias(identifier)).identifier
            self._forget(identifier).put(self._failed(shown, f"{self._name}: {reason}"), True)
        if self.standing is not None:
            self.standing.put(b"", True)
        self._on_end()

    def _failed(self, identifier: Id, told: str) -> bytes:
        return codec.error_response(identifier, ProtocolError(ErrorCode.INTERNAL_ERROR, told))


class Session(Struct):
    """A client of the handshake era, and its channel."""

    channel: PassedChannel
    authorization: str
    """What the client sent to open it: nobody else may use it."""
    revision: str = ""
    expiry: asyncio.TimerHandle | None = None


class ChannelPassThrough:
    """Answers requests of clients by one server. Used on one loop."""

    takes_pieces = False
    """A message is sent as a whole: it is held until it is."""

    def __init__(
        self,
        name: str,
        channels: Channels,
        next_connection: Callable[[], int],
        ttl_s: float,
        on_stray: Callable[[bytes], None],
        tool_schema: Callable[[str], JSONObject],
    ) -> None:
        """`on_stray` gets what comes and is no message; `tool_schema` gives what a tool takes, if known."""
        self.name = name
        self.next_connection = next_connection
        """Gives the recorder's number for one more client."""
        self.holds_credentials = channels.holds_credentials
        self._channels, self._ttl_s = channels, ttl_s
        self._on_stray, self._tool_schema = on_stray, tool_schema
        self._sessions: dict[str, Session] = {}
        """By id, the longest unused first."""
        self._shared: dict[str, PassedChannel] = {}
        """For requests that stand alone, by the caller's `Authorization`."""
        self._starting = asyncio.Lock()
        self._ending: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def ask(
        self, method: str, headers: Sequence[tuple[str, str]], body: bytes | AsyncIterator[bytes]
    ) -> AsyncIterator[PassedAnswer]:
        """Answer a request. Raises: CallError when no channel can be opened, or it takes no message."""
        assert isinstance(body, bytes)
        given: dict[str, str] = {}
        for key, value in headers:
            low = key.lower()
            given[low] = f"{given[low]}, {value}" if low in given else value
        if method == "POST":
            async with self._posted(given, body) as answer:
                yield answer
            return
        identifier = given.get(SESSION, "")
        session = self._session(given)
        if not identifier:
            told = invalid("this endpoint takes JSON-RPC messages by POST")
            yield refused(405, told, headers=(("Allow", "POST"),))
        elif session is None:
            yield refused(404, invalid("there is no such session: initialize again"))
        elif method == "DELETE":
            self._end(identifier)
            yield PassedAnswer(204, (), _no_chunks)
        elif session.channel.standing is not None:
            yield refused(409, invalid("this session has a standing stream already"))
        else:
            waiting = session.channel.listen()
            try:
                yield PassedAnswer(200, STREAMED, waiting.events)
            finally:
                session.channel.standing = None
                self._used(identifier)

    async def close(self) -> None:
        """End every channel."""
        for identifier in list(self._sessions):
            self._end(identifier)
        for shared in self._shared.values():
            self._finish(shared)
        await asyncio.gather(*self._ending)
        await self._channels.close()

    @asynccontextmanager
    async def _posted(self, given: Mapping[str, str], body: bytes) -> AsyncIterator[PassedAnswer]:
        message: Any = None
        try:
            message = codec.decode(body)
            if isinstance(message, list):
                channel = self._batch_channel(given, message)
                async with self._batch_answered(channel, given, message) as answer:
                    yield answer
                return
            kind = classify(message)
            identifier = ""
            if is_stateless(message, given.get("mcp-protocol-version", "")):
                if kind is MessageKind.REQUEST:
                    self._admit(message["method"], message.get("params") or {}, given)
                channel = await self._shared_channel(given.get(AUTHORIZATION, ""))
            elif message.get("method") == "initialize":
                channel, identifier = await self._begun(given.get(AUTHORIZATION, ""))
            else:
                channel, identifier = self._channel_of(given), given[SESSION]
        except _Refusal as refusal:
            yield refused(refusal.status, refusal, readable_id(message))
            return
        except ProtocolError as error:
            yield refused(max(400, http_status(error, True)), error, readable_id(message))
            return
        if kind is not MessageKind.REQUEST:
            await channel.send(body)
            yield PassedAnswer(202, (), _no_chunks)
            return
        if identifier and channel.is_known(message["id"]):
            yield refused(400, invalid("another request of this session has this id"), message["id"])
            return
        if identifier and message["method"] == "initialize":
            yield await self._introduced(channel, identifier, message, body)
            return
        async with self._answered(channel, identifier, given, message, body) as answer:
            yield answer

    def _admit(self, method: str, params: JSONObject, given: Mapping[str, str]) -> None:
        """Check what a request brings along that stands alone. Raises: RemoteProtocolError."""
        admit(method, params, given)
        arguments = params.get("arguments") or {}
        if method == "tools/call" and isinstance(arguments, dict):
            with suppress(ValueError):  # clients leave out tools whose annotations are wrong
                check_parameters(mirrored(self._tool_schema(str(params.get("name")))), arguments, given)

    def _batch_channel(self, given: Mapping[str, str], batch: list[Any]) -> PassedChannel:
        """The channel for a batch. Raises: ProtocolError where there may be none, or for a bad one."""
        channel = self._channel_of(given)
        revision = BY_NAME.get(self._sessions[given[SESSION]].revision)
        if revision is None or not revision.has_batches:
            raise invalid("batches belong to revision 2025-03-26 only")
        if not 0 < len(batch) <= MOST_BATCH:
            raise invalid(f"a batch has between 1 and {MOST_BATCH} messages, not {len(batch)}")
        identifiers = [each["id"] for each in batch if classify(each) is MessageKind.REQUEST]
        if any(each.get("method") == "initialize" for each in batch):
            raise invalid("initialize inside a batch")
        if len(set(identifiers)) < len(identifiers) or any(map(channel.is_known, identifiers)):
            raise invalid("another request of this session has this id")
        return channel

    @asynccontextmanager
    async def _batch_answered(
        self, channel: PassedChannel, given: Mapping[str, str], batch: list[JSONObject]
    ) -> AsyncIterator[PassedAnswer]:
        """Send the messages of a batch one by one, and answer all its requests together."""
        requests = sum(1 for each in batch if classify(each) is MessageKind.REQUEST)
        waiting = Waiting(STREAM in given.get("accept", JSON), answers=requests)
        async with AsyncExitStack() as under_way:
            for each in batch:
                if classify(each) is MessageKind.REQUEST:
                    request = channel.request(each, codec.encode(each), waiting, is_alone=False)
                    await under_way.enter_async_context(request)
                else:
                    await channel.send(codec.encode(each))
            if not requests:
                yield PassedAnswer(202, (), _no_chunks)
            elif waiting.may_stream:
                yield PassedAnswer(200, STREAMED, waiting.events)
            else:
                yield answered(200, b"[%b]" % b",".join([each async for each in waiting.messages()]))
        self._used(given[SESSION])

    async def _introduced(
        self, channel: PassedChannel, identifier: str, message: JSONObject, line: bytes
    ) -> PassedAnswer:
        """The answer to `initialize`; without a result there is no session."""
        waiting, result = Waiting(may_stream=False), None
        try:
            async with channel.request(message, line, waiting, is_alone=False):
                [line_back] = [each async for each in waiting.messages()]
                result = codec.decode(line_back).get("result")
        finally:
            if not isinstance(result, dict):
                self._end(identifier)
        if isinstance(result, dict) and identifier in self._sessions:
            self._sessions[identifier].revision = str(result.get("protocolVersion"))
        return answered(200, line_back, ((SESSION, identifier),) if identifier in self._sessions else ())

    @asynccontextmanager
    async def _answered(
        self,
        channel: PassedChannel,
        identifier: str,
        given: Mapping[str, str],
        message: JSONObject,
        line: bytes,
    ) -> AsyncIterator[PassedAnswer]:
        accepted = given.get("accept", JSON)
        may_stream, is_probe = STREAM in accepted, message["method"] == "server/discover"
        waiting = Waiting(may_stream, LOG_LEVEL_KEY in _meta(message))
        async with channel.request(message, line, waiting, is_alone=not identifier):
            taken = await waiting.take(UNANSWERED_S if is_probe else SILENT_S)
            while taken is None and not may_stream and not is_probe:
                taken = await waiting.take(KEEP_ALIVE_S)
            if taken is None and is_probe:
                told = f"{self.name} did not answer server/discover within {UNANSWERED_S:g} s"
                yield refused(404, ProtocolError(ErrorCode.METHOD_NOT_FOUND, told), message["id"])
            elif taken is None or not taken[1] or (may_stream and "json" not in accepted):
                first, is_last = taken or (None, False)
                yield PassedAnswer(200, STREAMED, _stream(waiting, first, is_last))
            else:
                yield answered(200 if identifier else answer_status(taken[0]), taken[0])
        self._used(identifier)

    def _session(self, given: Mapping[str, str]) -> Session | None:
        """The session of a request, if it is its sender's."""
        session = self._sessions.get(given.get(SESSION, ""))
        is_theirs = session is not None and session.authorization == given.get(AUTHORIZATION, "")
        return session if is_theirs else None

    def _channel_of(self, given: Mapping[str, str]) -> PassedChannel:
        if not given.get(SESSION):
            raise _Refusal(400, "Mcp-Session-Id is missing: initialize first")
        if (session := self._session(given)) is None:
            raise _Refusal(404, "there is no such session: initialize again")
        self._used(given[SESSION])
        return session.channel

    def _make_room(self) -> None:
        """Raises: _Refusal when every channel is in use."""
        if len(self._sessions) + len(self._shared) < MOST_CHANNELS:
            return
        unused = next((key for key, each in self._sessions.items() if each.channel.is_unused), "")
        if not unused:
            raise _Refusal(503, f"{self.name} has {MOST_CHANNELS} clients here already, which is the most")
        self._end(unused)

    async def _begun(self, authorization: str) -> tuple[PassedChannel, str]:
        """A new session: its channel, and its id."""
        self._make_room()
        identifier = secrets.token_urlsafe(24)
        channel = PassedChannel(self.name, self._on_stray, lambda: self._end(identifier))
        await channel.open(self._channels, authorization)
        self._sessions[identifier] = Session(channel, authorization)
        self._used(identifier)
        return channel, identifier

    async def _shared_channel(self, authorization: str) -> PassedChannel:
        async with self._starting:
            if (known := self._shared.get(authorization)) is not None:
                return known
            self._make_room()

            def ended() -> None:
                if (known := self._shared.pop(authorization, None)) is not None:
                    self._finish(known)

            channel = PassedChannel(self.name, self._on_stray, ended)
            await channel.open(self._channels, authorization)
            if not channel.has_ended:
                self._shared[authorization] = channel
            return channel

    def _used(self, identifier: str) -> None:
        """Note that a session was used: it ends when it is not for long."""
        session = self._sessions.pop(identifier, None)
        if session is None:
            return
        if session.expiry is not None:
            session.expiry.cancel()
        session.expiry = asyncio.get_running_loop().call_later(self._ttl_s, self._expired, identifier)
        self._sessions[identifier] = session

    def _expired(self, identifier: str) -> None:
        if self._sessions[identifier].channel.is_unused:
            self._end(identifier)
        else:
            self._used(identifier)

    def _end(self, identifier: str) -> None:
        session = self._sessions.pop(identifier, None)
        if session is not None:
            if session.expiry is not None:
                session.expiry.cancel()
            self._finish(session.channel)

    def _finish(self, channel: PassedChannel) -> None:
        task = asyncio.get_running_loop().create_task(channel.end())
        self._ending.add(task)
        task.add_done_callback(self._ending.discard)


class _Refusal(RemoteProtocolError):
    """A request that is answered here, with this HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(ErrorCode.INVALID_REQUEST, message)
        self.status = status


def event(line: bytes) -> bytes:
    """A message as a server-sent event."""
    data = line.replace(b"\r", b"\n").replace(b"\n", b"\ndata: ") if b"\n" in line or b"\r" in line else line
    return b"event: message\ndata: " + data + b"\n\n"


def answer_status(line: bytes) -> int:
    """The HTTP status of an answer to a request that stands alone."""
    error = codec.decode(line).get("error")
    if not isinstance(error, dict) or not isinstance(error.get("code"), int):
        return 200
    return http_status(ProtocolError(error["code"], excerpt(str(error.get("message")))), True)


def answered(status: int, body: bytes, headers: Sequence[tuple[str, str]] = ()) -> PassedAnswer:
    """An answer in one piece."""

    async def chunks() -> AsyncIterator[bytes]:
        yield body

    return PassedAnswer(
        status, (("Content-Type", JSON), ("Content-Length", str(len(body))), *headers), chunks
    )


def refused(
    status: int,
    error: ProtocolError,
    identifier: Id | None = None,
    headers: Sequence[tuple[str, str]] = (),
) -> PassedAnswer:
    """An answer of the desk's own."""
    return answered(status, codec.error_response(identifier, error), headers)


def _stream(waiting: Waiting, first: bytes | None, is_last: bool) -> Callable[[], AsyncIterator[bytes]]:
    async def only() -> AsyncIterator[bytes]:
        assert first is not None
        yield event(first)

    return only if is_last else lambda: waiting.events(first)


async def _no_chunks() -> AsyncIterator[bytes]:
    return
    yield b""


def _meta(message: JSONObject) -> Mapping[str, Any]:
    params = message.get("params")
    found = params.get("_meta") if isinstance(params, dict) else None
    return found if isinstance(found, dict) else {}


def _token(message: JSONObject) -> Id | None:
    token = _meta(message).get("progressToken")
    return token if is_id(token) else None
