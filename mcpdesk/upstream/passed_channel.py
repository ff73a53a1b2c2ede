"""One channel to an upstream server, and the requests that wait for messages on it.

If two clients use the same id or progress token at the same time, the second client's id or token is replaced
in the request and restored in the answer. All other bytes stay unchanged.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeAlias

from msgspec import MsgspecError, Raw, Struct, json

from mcpdesk.errors import CallError, ProtocolError
from mcpdesk.protocol import codec
from mcpdesk.protocol.event_store import ResumableStream
from mcpdesk.protocol.framing import event
from mcpdesk.protocol.jsonrpc import (
    ErrorCode,
    Id,
    JSONObject,
    MessageKind,
    classify,
    is_id,
    meta_of,
    params_of,
    progress_token,
    readable_id,
)
from mcpdesk.protocol.reading.message import ReadFrame, is_answer, read_frame, same_id, unknown_id_remark
from mcpdesk.protocol.reading.splicing import with_value, with_values
from mcpdesk.protocol.request_table import RequestTable
from mcpdesk.protocol.stateless import SUBSCRIPTION_KEY
from mcpdesk.upstream.channels import ChannelCallbacks, Channels, ServerChannel

MAX_HELD_BYTES = 256 << 20
"""Maximum number of bytes that wait for a client that reads too slowly."""
MAX_REMEMBERED_IDS = 1_000
"""Maximum number of request ids that are remembered for each channel."""
KEEP_ALIVE_S = 15.0
KEEP_ALIVE = b": still there\n\n"
_parts = json.Decoder(list[Raw]).decode


class ClientStream:
    """Event stream to a client, as a queue of pieces to send."""

    def __init__(self) -> None:
        self.is_broken = False
        """True if the client has disconnected."""
        self._pieces: deque[bytes] = deque()
        self._held = 0
        self._is_over = False
        self._came = asyncio.Event()

    def put(self, piece: bytes) -> None:
        """Queue a piece. If too much is unread, the client is disconnected."""
        self._pieces.append(piece)
        self._held += len(piece)
        self._came.set()
        if self._held > MAX_HELD_BYTES:
            self.is_broken = True
            self.close()

    def close(self) -> None:
        """End the stream after the queued pieces."""
        self._is_over = True
        self._came.set()

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the pieces until the stream ends. Keep-alive comments are inserted."""
        while self._pieces or not self._is_over:
            if self._pieces:
                piece = self._pieces.popleft()
                self._held -= len(piece)
                yield piece
                continue
            self._came.clear()
            try:
                async with asyncio.timeout(KEEP_ALIVE_S):
                    await self._came.wait()
            except TimeoutError:
                yield KEEP_ALIVE


Events: TypeAlias = ResumableStream[ClientStream]
OnUnclaimed: TypeAlias = Callable[[bytes], None]
"""Function that is called with messages that no client receives."""


class Waiting:
    """Messages that wait to be sent to the client of one request."""

    def __init__(
        self,
        on_unclaimed: OnUnclaimed,
        may_stream: bool = True,
        hears_logs: bool = False,
        answers: int = 1,
        on_drop: Callable[[int], object] = lambda count: None,
    ) -> None:
        """`answers` is the number of answers that the client needs: one for each request that it sent
        together.

        `on_unclaimed` is called with each message that the client does not receive: a repeated answer, or a
        message that was dropped because the client does not read. `on_drop` is called with the number of
        messages dropped so far.
        """
        self.on_unclaimed = on_unclaimed
        self._on_drop = on_drop
        self.dropped = 0
        """Number of messages that were dropped because the client does not read."""
        self.may_stream = may_stream
        self.hears_logs = hears_logs
        self._due = answers
        self.is_left = False
        """True if the client disconnected before the answer."""
        self._events: Events | None = None
        self._lines: deque[tuple[bytes, bool]] = deque()
        self._held = 0
        self._came = asyncio.Event()

    def put(self, line: bytes, is_answer: bool = False) -> None:
        """Add a message. The last answer ends the messages."""
        if self.is_left:
            self.on_unclaimed(line)
            return
        if self._held > MAX_HELD_BYTES and not is_answer:
            self.dropped += 1
            self._on_drop(self.dropped)
            self.on_unclaimed(line)
            return
        self._due -= is_answer
        self._hand_on(line, not self._due)

    def _hand_on(self, line: bytes, is_last: bool) -> None:
        if self._events is None:
            self._held += len(line)
            self._lines.append((line, is_last))
            self._came.set()
            return
        self._events.put(in_event(line))
        if is_last:
            self._events.end()

    def stream_into(self, events: Events, first: tuple[bytes, bool] | None = None) -> None:
        """Send the messages to a resumable stream. `first` was already taken and comes first."""
        self._events = events
        for line, is_last in ([] if first is None else [first]) + list(self._lines):
            self._hand_on(line, is_last)
        self._lines.clear()

    def leave(self) -> None:
        """Record that the client has disconnected. If the messages go to a resumable stream, the client may
        still return.
        """
        self.is_left = self._events is None

    @property
    def is_unused(self) -> bool:
        """True if no client reads the messages."""
        return self.is_left or (self._events is not None and not self._events.is_connected)

    async def next_message(self, within_s: float) -> tuple[bytes, bool] | None:
        """Return the next message, and True if it is the last message, or None if no message arrives in
        time.
        """
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
        """Yield the messages up to the last one."""
        is_last = False
        while not is_last:
            line, is_last = await self.next_message(KEEP_ALIVE_S) or (b"", False)
            if line:
                yield line

    async def events(self, first: tuple[bytes, bool] | None = None) -> AsyncIterator[bytes]:
        """Yield the messages as events, up to the last one. `first` was already taken and comes first."""
        message = first or await self.next_message(KEEP_ALIVE_S)
        while message is None or not message[1]:
            yield KEEP_ALIVE if message is None else event(in_event(message[0]))
            message = await self.next_message(KEEP_ALIVE_S)
        yield event(in_event(message[0]))


class Alias(Struct, frozen=True):
    """Original id and token of a request that has another id on the channel."""

    identifier: Id
    token: Id | None = None


class PassedChannel:
    """One channel, and the requests that wait on it."""

    def __init__(
        self,
        name: str,
        on_stray: Callable[[bytes], None],
        on_end: Callable[[], None],
        on_unclaimed: OnUnclaimed,
        standing: Events | None = None,
    ) -> None:
        """`standing` is the stream for messages that belong to no request, or None if the client cannot open
        it.
        """
        self.standing = standing
        self.on_unclaimed = on_unclaimed
        """Function that is called with messages that belong to no request. It comes from the latest
        request.
        """
        self._name = name
        self._on_stray = on_stray
        self._on_end = on_end
        self._channel: ServerChannel | None = None
        self.has_ended = False
        """True if no further messages can arrive."""
        self._waiting: dict[Id, Waiting] = {}
        self._recent = RequestTable[Id, OnUnclaimed](MAX_REMEMBERED_IDS)
        """Functions for repeated answers to recent requests."""
        self._tokens: dict[Id, Id] = {}
        """Request ids by progress token."""
        self._token_of: dict[Id, Id] = {}
        """Progress tokens by request id."""
        self._aliases: dict[Id, Alias] = {}
        """Original ids and tokens, by the id that the channel uses instead."""

    @property
    def is_unused(self) -> bool:
        """True if no client waits for a message."""
        return not self._has_listener and all(each.is_unused for each in self._waiting.values())

    @property
    def _has_listener(self) -> bool:
        """True if a client has opened the standing stream."""
        return self.standing is not None and self.standing.is_connected

    async def open(self, channels: Channels, sender: Mapping[str, str]) -> None:
        """Open the channel for a client, given its headers. Raises: CallError."""
        self._channel = await channels.open(sender, ChannelCallbacks(self._received, self._ended))

    async def end(self) -> None:
        if self._channel is not None:
            await self._channel.end()

    def send_standing(self, line: bytes) -> None:
        """Send a message that belongs to no request on the standing stream, which stores it for the
        client.
        """
        if self.standing is not None:
            self.standing.put(in_event(line))

    async def send(self, line: bytes) -> None:
        """Send a message that has no answer. Raises: CallError."""
        if self._channel is not None and not self.has_ended:
            await self._channel.send(line)

    def is_known(self, identifier: Id) -> bool:
        """True if a request with that id is being answered."""
        return identifier in self._waiting

    @asynccontextmanager
    async def request(
        self, message: JSONObject, line: bytes, waiting: Waiting, *, is_alone: bool
    ) -> AsyncIterator[None]:
        """Send a request. Its answer is the last message of `waiting`.

        If the `with` block ends before the answer arrives, a request without a session is cancelled on the
        server. For a request with a session, the late answer is discarded unless the client can resume its
        stream.
        """
        message, line = self._distinct(message, line)
        identifier = message["id"]
        self._waiting[identifier] = waiting
        self.on_unclaimed = waiting.on_unclaimed
        self._recent.add(identifier, waiting.on_unclaimed)
        if (token := progress_token(meta_of(message))) is not None:
            self._tokens[token], self._token_of[identifier] = identifier, token
        try:
            if self.has_ended:
                waiting.put(self._failed(identifier, f"{self._name} has ended"), True)
            await self.send(line)
            yield
        finally:
            if self._waiting.get(identifier) is waiting:
                waiting.leave()
                if is_alone:
                    self._forget(identifier)
                    cancelled = {"requestId": identifier, "reason": "the client left"}
                    with suppress(CallError):
                        await self.send(codec.notification("notifications/cancelled", cancelled))

    def _distinct(self, message: JSONObject, line: bytes) -> tuple[JSONObject, bytes]:
        """Return the message. Replace its id and its token if another pending request uses the same."""
        identifier, token = message["id"], progress_token(meta_of(message))
        is_taken, is_token_taken = identifier in self._waiting, token in self._tokens
        if not is_taken and not is_token_taken:
            return message, line
        here = f"mcpdesk-{secrets.token_hex(8)}" if is_taken else identifier
        self._aliases[here] = Alias(identifier, token if is_token_taken else None)
        message, changes = {**message, "id": here}, dict[tuple[str, ...], Id]()
        if is_taken:
            changes["id",] = here
        if is_token_taken:
            params = message["params"]
            message["params"] = {**params, "_meta": {**params["_meta"], "progressToken": here}}
            changes["params", "_meta", "progressToken"] = here
        return message, with_values(line, changes) or codec.encode(message)

    def _received(self, line: bytes, read: ReadFrame | None = None) -> None:
        try:
            # Large frames were already read, because reading them takes long.
            is_plain = read is not None and type(read.value) is dict and not read.remarks and not read.fault
            message = read.value if read is not None and is_plain else codec.decode(line)
            if isinstance(message, list) and message:
                for each in members(line, message):
                    self._received(each)
                return
            kind = classify(message)
        except ProtocolError:
            self._received_odd(line, read or read_frame(line, is_line=True))
            return
        if kind is MessageKind.RESPONSE:
            self._answered(message, line)
            return
        self._hand_on(message, line)

    def _received_odd(self, line: bytes, read: ReadFrame) -> None:
        """Handle a frame that is almost valid. Its client receives the original bytes."""
        if isinstance(read.value, list):
            for each in members(line, read.value):
                self._received(each)
        elif read.fault is not None and read.is_response:
            self._answered({"id": read.id}, line, read.fault.text)
        elif is_answer(read.value):
            self._answered(read.value, line)
        elif read.value is None or not isinstance(read.value.get("method"), str):
            self._on_stray(line)
        else:
            params = read.value.get("params")
            self._hand_on({**read.value, "params": params if isinstance(params, dict) else {}}, line)

    def _hand_on(self, message: JSONObject, line: bytes) -> None:
        """Send a request or notification of the server to the right client."""
        about, message, line = self._subject(message, line)
        waiting = self._waiting.get(about) if about is not None else self._likeliest(message)
        if waiting is not None and waiting.may_stream and not waiting.is_left:
            waiting.put(line)
        elif self.standing is not None and (about is None or self._has_listener):
            self.send_standing(line)
        else:
            self.on_unclaimed(line)

    def _answered(self, message: JSONObject, line: bytes, fault: str = "") -> None:
        """Send a response to its client.

        If its id is unknown and only one request waits, the response belongs to that request. If several
        requests wait, the response may belong to any of them. In this case all of them get an error, so that
        no request waits forever.
        """
        message_id = message.get("id")
        identifier = readable_id(message)
        if identifier is None or identifier not in self._waiting:
            identifier = next((key for key in self._waiting if same_id(message_id, key)), None)
        if (
            identifier is None
            and is_id(message_id)
            and (on_repeated := self._recent.get(message_id)) is not None
        ):
            on_repeated(line)
            return
        if identifier is None and len(self._waiting) == 1:
            identifier = next(iter(self._waiting))
        if identifier is None:
            reason = fault or unknown_id_remark(message_id).text
            for key in list(self._waiting):
                shown = self._aliases.get(key, Alias(key)).identifier
                self._forget(key).put(self._failed(shown, f"{self._name}: {reason}"), True)
            self.on_unclaimed(line)
            return
        alias = self._aliases.get(identifier)
        waiting = self._forget(identifier)
        if fault and alias is not None and alias.identifier != identifier:
            line = self._failed(alias.identifier, f"{self._name}: {fault}")
        elif alias is not None and alias.identifier != identifier:
            put_back = with_value(line, ("id",), alias.identifier)
            line = put_back or codec.encode({**message, "id": alias.identifier})
        waiting.put(line, True)

    def _subject(self, message: JSONObject, line: bytes) -> tuple[Id | None, JSONObject, bytes]:
        """Return the request that a notification is about, and the notification with the client's own id."""
        params, subscription = params_of(message), meta_of(message).get(SUBSCRIPTION_KEY)
        token = params.get("progressToken") if message["method"] == "notifications/progress" else None
        about: Id | None = None
        if is_id(token):
            about = self._tokens.get(token)
        elif is_id(subscription):
            about = subscription
        alias = self._aliases.get(about) if about is not None else None
        if alias is None:
            return about, message, line
        changed, changes = dict(params), dict[tuple[str, ...], Id]()
        if token is not None and alias.token is not None:
            changed["progressToken"] = alias.token
            changes["params", "progressToken"] = alias.token
        if subscription is not None:
            changed["_meta"] = {**params["_meta"], SUBSCRIPTION_KEY: alias.identifier}
            changes["params", "_meta", SUBSCRIPTION_KEY] = alias.identifier
        message = {**message, "params": changed}
        return about, message, with_values(line, changes) or codec.encode(message)

    def _likeliest(self, message: JSONObject) -> Waiting | None:
        """Return the request to which a message without a reference belongs, or None if no request or several
        requests are possible.
        """
        here = [each for each in set(self._waiting.values()) if not each.is_left]
        if message["method"] == "notifications/message" and len(here) > 1:
            here = [each for each in here if each.hears_logs]
        return here[0] if len(here) == 1 else None

    def _forget(self, identifier: Id) -> Waiting:
        if (token := self._token_of.pop(identifier, None)) is not None:
            del self._tokens[token]
        self._aliases.pop(identifier, None)
        return self._waiting.pop(identifier)

    def _ended(self, reason: CallError) -> None:
        if self.has_ended:
            return
        self.has_ended = True
        for identifier in list(self._waiting):
            shown = self._aliases.get(identifier, Alias(identifier)).identifier
            self._forget(identifier).put(self._failed(shown, f"{self._name}: {reason}"), True)
        self._on_end()

    def _failed(self, identifier: Id, text: str) -> bytes:
        return codec.error_response(identifier, ProtocolError(ErrorCode.INTERNAL_ERROR, text))


def members(data: bytes, batch: Sequence[Any]) -> list[bytes]:
    """Return the bytes of each message in a batch. They are encoded again if `data` is not strict JSON."""
    with suppress(MsgspecError, RecursionError):
        parts = [bytes(each) for each in _parts(data)]
        if len(parts) == len(batch):
            return parts
    return [codec.encode(each) for each in batch]


def in_event(line: bytes) -> bytes:
    """Return a message as the data of a server-sent event. It may contain line breaks."""
    if b"\n" in line or b"\r" in line:
        return line.replace(b"\r", b"\n").replace(b"\n", b"\ndata: ")
    return line
