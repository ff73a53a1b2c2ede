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
"""Seconds without a message after which a comment is sent on a stream."""
KEEP_ALIVE_COMMENT = b": still there\n\n"
_decode_parts = json.Decoder(list[Raw]).decode


class ClientStream:
    """Event stream to a client, as a queue of pieces to send."""

    def __init__(self) -> None:
        self.is_broken = False
        """True if the client has disconnected."""
        self._pieces: deque[bytes] = deque()
        self._queued_bytes = 0
        self._has_ended = False
        self._arrival_event = asyncio.Event()

    def put(self, piece: bytes) -> None:
        """Queue a piece. If too much is unread, the client is disconnected."""
        self._pieces.append(piece)
        self._queued_bytes += len(piece)
        self._arrival_event.set()
        if self._queued_bytes > MAX_HELD_BYTES:
            self.is_broken = True
            self.close()

    def close(self) -> None:
        """End the stream after the queued pieces."""
        self._has_ended = True
        self._arrival_event.set()

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the pieces until the stream ends. Keep-alive comments are inserted."""
        while self._pieces or not self._has_ended:
            if self._pieces:
                piece = self._pieces.popleft()
                self._queued_bytes -= len(piece)
                yield piece
                continue
            self._arrival_event.clear()
            try:
                async with asyncio.timeout(KEEP_ALIVE_S):
                    await self._arrival_event.wait()
            except TimeoutError:
                yield KEEP_ALIVE_COMMENT


Events: TypeAlias = ResumableStream[ClientStream]
OnUnclaimed: TypeAlias = Callable[[bytes], None]
"""Function that is called with messages that no client receives."""


class PendingMessages:
    """Messages that wait to be sent to the client of one request."""

    def __init__(
        self,
        on_unclaimed: OnUnclaimed,
        may_stream: bool = True,
        receives_logs: bool = False,
        answer_count: int = 1,
        on_drop: Callable[[int], object] = lambda count: None,
    ) -> None:
        """`answer_count` is the number of answers that the client needs: one, or one for each request of a
        batch.

        `on_unclaimed` is called with each message that the client does not receive: a repeated answer, or a
        message that was dropped because the client does not read. `on_drop` is called with the number of
        messages dropped so far.
        """
        self.on_unclaimed = on_unclaimed
        self._on_drop = on_drop
        self.dropped = 0
        """Number of messages that were dropped because the client does not read."""
        self.may_stream = may_stream
        """True if the client accepts a stream, so that it can receive messages before the answer."""
        self.receives_logs = receives_logs
        """True if the client requested log messages."""
        self._missing_answers = answer_count
        self.has_client_left = False
        """True if the client disconnected before the answer."""
        self._events: Events | None = None
        """Resumable stream to which the messages go, or None."""
        self._lines: deque[tuple[bytes, bool]] = deque()
        """Waiting messages, each with True if it is the last one."""
        self._queued_bytes = 0
        self._arrival_event = asyncio.Event()

    def put(self, line: bytes, is_answer: bool = False) -> None:
        """Add a message. The last answer ends the messages."""
        if self.has_client_left:
            self.on_unclaimed(line)
            return
        if self._queued_bytes > MAX_HELD_BYTES and not is_answer:
            self.dropped += 1
            self._on_drop(self.dropped)
            self.on_unclaimed(line)
            return
        self._missing_answers -= is_answer
        self._deliver(line, not self._missing_answers)

    def _deliver(self, line: bytes, is_last: bool) -> None:
        if self._events is None:
            self._queued_bytes += len(line)
            self._lines.append((line, is_last))
            self._arrival_event.set()
            return
        self._events.put(in_event(line))
        if is_last:
            self._events.end()

    def stream_into(self, events: Events, first: tuple[bytes, bool] | None = None) -> None:
        """Send the messages to a resumable stream. `first` was already taken and comes first."""
        self._events = events
        if first is not None:
            self._lines.appendleft(first)
        for line, is_last in list(self._lines):
            self._deliver(line, is_last)
        self._lines.clear()

    def leave(self) -> None:
        """Record that the client has disconnected. If the messages go to a resumable stream, the client may
        still return.
        """
        self.has_client_left = self._events is None

    @property
    def is_unused(self) -> bool:
        """True if no client reads the messages."""
        return self.has_client_left or (self._events is not None and not self._events.is_connected)

    async def next_message(self, timeout_s: float) -> tuple[bytes, bool] | None:
        """Return the next message, and True if it is the last one.

        Return None if no message arrives within `timeout_s`.
        """
        try:
            async with asyncio.timeout(timeout_s):
                while not self._lines:
                    self._arrival_event.clear()
                    await self._arrival_event.wait()
        except TimeoutError:
            return None
        line, is_last = self._lines.popleft()
        self._queued_bytes -= len(line)
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
            yield KEEP_ALIVE_COMMENT if message is None else event(in_event(message[0]))
            message = await self.next_message(KEEP_ALIVE_S)
        yield event(in_event(message[0]))


class Alias(Struct, frozen=True):
    """Original id and token of a request that has another id or token on the channel."""

    identifier: Id
    token: Id | None = None
    """Original token if it was replaced, otherwise None."""


class PassedChannel:
    """One channel, and the requests that wait for messages on it."""

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
        """Function of the latest request, which is called with messages that no client receives."""
        self._name = name
        self._on_stray = on_stray
        self._on_end = on_end
        self._channel: ServerChannel | None = None
        self.has_ended = False
        """True if no further messages can arrive."""
        self._pending: dict[Id, PendingMessages] = {}
        self._recent_requests = RequestTable[Id, OnUnclaimed](MAX_REMEMBERED_IDS)
        """Functions for repeated answers to recent requests."""
        self._ids_by_token: dict[Id, Id] = {}
        """Request ids by progress token."""
        self._tokens_by_id: dict[Id, Id] = {}
        """Progress tokens by request id."""
        self._aliases: dict[Id, Alias] = {}
        """Original ids and tokens, by the id that the channel uses instead."""

    @property
    def is_unused(self) -> bool:
        """True if no client waits for a message."""
        return not self._has_listener and all(pending.is_unused for pending in self._pending.values())

    @property
    def _has_listener(self) -> bool:
        """True if a client has opened the standing stream."""
        return self.standing is not None and self.standing.is_connected

    async def open(self, channels: Channels, sender_headers: Mapping[str, str]) -> None:
        """Open the channel for a client, given its headers. Raises: CallError."""
        self._channel = await channels.open(
            sender_headers, ChannelCallbacks(self._on_frame, self._on_channel_end)
        )

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
        """Return True if a request with that id is being answered."""
        return identifier in self._pending

    @asynccontextmanager
    async def request(
        self, message: JSONObject, line: bytes, pending: PendingMessages, *, is_alone: bool
    ) -> AsyncIterator[None]:
        """Send a request. Its answer is the last message of `pending`.

        If the `with` block ends before the answer arrives, a request without a session is cancelled on the
        server. For a request with a session, the late answer is discarded unless the client can resume its
        stream.
        """
        message, line = self._with_unique_ids(message, line)
        identifier = message["id"]
        self._pending[identifier] = pending
        self.on_unclaimed = pending.on_unclaimed
        self._recent_requests.add(identifier, pending.on_unclaimed)
        if (token := progress_token(meta_of(message))) is not None:
            self._ids_by_token[token] = identifier
            self._tokens_by_id[identifier] = token
        try:
            if self.has_ended:
                pending.put(self._error_line(identifier, f"{self._name} has ended"), True)
            await self.send(line)
            yield
        finally:
            if self._pending.get(identifier) is pending:
                pending.leave()
                if is_alone:
                    self._remove_request(identifier)
                    cancelled = {"requestId": identifier, "reason": "the client left"}
                    with suppress(CallError):
                        await self.send(codec.notification("notifications/cancelled", cancelled))

    def _with_unique_ids(self, message: JSONObject, line: bytes) -> tuple[JSONObject, bytes]:
        """Return the message. Replace its id and its token if another pending request uses the same."""
        identifier, token = message["id"], progress_token(meta_of(message))
        is_id_taken, is_token_taken = identifier in self._pending, token in self._ids_by_token
        if not is_id_taken and not is_token_taken:
            return message, line
        channel_id = f"mcpdesk-{secrets.token_hex(8)}" if is_id_taken else identifier
        self._aliases[channel_id] = Alias(identifier, token if is_token_taken else None)
        message = {**message, "id": channel_id}
        changes = dict[tuple[str, ...], Id]()
        if is_id_taken:
            changes["id",] = channel_id
        if is_token_taken:
            params = message["params"]
            message["params"] = {**params, "_meta": {**params["_meta"], "progressToken": channel_id}}
            changes["params", "_meta", "progressToken"] = channel_id
        return message, with_values(line, changes) or codec.encode(message)

    def _on_frame(self, line: bytes, read: ReadFrame | None = None) -> None:
        """Deliver a frame of the server to the client that it is for."""
        try:
            # Large frames were already parsed on a worker thread, because parsing takes long.
            is_plain = read is not None and type(read.value) is dict and not read.remarks and not read.fault
            message = read.value if read is not None and is_plain else codec.decode(line)
            if isinstance(message, list) and message:
                for member_line in members(line, message):
                    self._on_frame(member_line)
                return
            kind = classify(message)
        except ProtocolError:
            self._handle_lenient_frame(line, read or read_frame(line, is_line=True))
            return
        if kind is MessageKind.RESPONSE:
            self._deliver_answer(message, line)
            return
        self._deliver(message, line)

    def _handle_lenient_frame(self, line: bytes, read: ReadFrame) -> None:
        """Handle a frame that is almost valid. Its client receives the original bytes."""
        if isinstance(read.value, list):
            for member_line in members(line, read.value):
                self._on_frame(member_line)
        elif read.fault is not None and read.is_response:
            self._deliver_answer({"id": read.id}, line, read.fault.text)
        elif is_answer(read.value):
            self._deliver_answer(read.value, line)
        elif read.value is None or not isinstance(read.value.get("method"), str):
            self._on_stray(line)
        else:
            params = read.value.get("params")
            self._deliver({**read.value, "params": params if isinstance(params, dict) else {}}, line)

    def _deliver(self, message: JSONObject, line: bytes) -> None:
        """Send a request or notification of the server to the right client."""
        request_id, message, line = self._addressed_request(message, line)
        pending = self._pending.get(request_id) if request_id is not None else self._only_candidate(message)
        if pending is not None and pending.may_stream and not pending.has_client_left:
            pending.put(line)
        elif self.standing is not None and (request_id is None or self._has_listener):
            self.send_standing(line)
        else:
            self.on_unclaimed(line)

    def _deliver_answer(self, message: JSONObject, line: bytes, fault: str = "") -> None:
        """Send a response to its client.

        If its id is unknown and only one request waits, the response belongs to that request. If several
        requests wait, the response may belong to any of them. In this case all of them get an error, so that
        no request waits forever.
        """
        message_id = message.get("id")
        identifier = readable_id(message)
        if identifier is None or identifier not in self._pending:
            identifier = next((key for key in self._pending if same_id(message_id, key)), None)
        if identifier is None and is_id(message_id):
            on_repeated_answer = self._recent_requests.get(message_id)
            if on_repeated_answer is not None:
                on_repeated_answer(line)
                return
        if identifier is None and len(self._pending) == 1:
            identifier = next(iter(self._pending))
        if identifier is None:
            reason = fault or unknown_id_remark(message_id).text
            for key in list(self._pending):
                client_id = self._aliases.get(key, Alias(key)).identifier
                self._remove_request(key).put(self._error_line(client_id, f"{self._name}: {reason}"), True)
            self.on_unclaimed(line)
            return
        alias = self._aliases.get(identifier)
        pending = self._remove_request(identifier)
        if fault and alias is not None and alias.identifier != identifier:
            line = self._error_line(alias.identifier, f"{self._name}: {fault}")
        elif alias is not None and alias.identifier != identifier:
            restored_line = with_value(line, ("id",), alias.identifier)
            line = restored_line or codec.encode({**message, "id": alias.identifier})
        pending.put(line, True)

    def _addressed_request(self, message: JSONObject, line: bytes) -> tuple[Id | None, JSONObject, bytes]:
        """Return the request that a notification is about, and the notification with the client's own id."""
        params, subscription = params_of(message), meta_of(message).get(SUBSCRIPTION_KEY)
        token = params.get("progressToken") if message["method"] == "notifications/progress" else None
        request_id: Id | None = None
        if is_id(token):
            request_id = self._ids_by_token.get(token)
        elif is_id(subscription):
            request_id = subscription
        alias = self._aliases.get(request_id) if request_id is not None else None
        if alias is None:
            return request_id, message, line
        new_params, changes = dict(params), dict[tuple[str, ...], Id]()
        if token is not None and alias.token is not None:
            new_params["progressToken"] = alias.token
            changes["params", "progressToken"] = alias.token
        if subscription is not None:
            new_params["_meta"] = {**params["_meta"], SUBSCRIPTION_KEY: alias.identifier}
            changes["params", "_meta", SUBSCRIPTION_KEY] = alias.identifier
        message = {**message, "params": new_params}
        return request_id, message, with_values(line, changes) or codec.encode(message)

    def _only_candidate(self, message: JSONObject) -> PendingMessages | None:
        """Return the request to which a message without a reference belongs, or None if no request or several
        requests are possible.
        """
        candidates = [pending for pending in set(self._pending.values()) if not pending.has_client_left]
        if message["method"] == "notifications/message" and len(candidates) > 1:
            candidates = [pending for pending in candidates if pending.receives_logs]
        return candidates[0] if len(candidates) == 1 else None

    def _remove_request(self, identifier: Id) -> PendingMessages:
        """Remove a pending request and return its messages. Afterwards, its token and alias are free."""
        if (token := self._tokens_by_id.pop(identifier, None)) is not None:
            del self._ids_by_token[token]
        self._aliases.pop(identifier, None)
        return self._pending.pop(identifier)

    def _on_channel_end(self, reason: CallError) -> None:
        if self.has_ended:
            return
        self.has_ended = True
        for identifier in list(self._pending):
            client_id = self._aliases.get(identifier, Alias(identifier)).identifier
            self._remove_request(identifier).put(self._error_line(client_id, f"{self._name}: {reason}"), True)
        self._on_end()

    def _error_line(self, identifier: Id, text: str) -> bytes:
        return codec.error_response(identifier, ProtocolError(ErrorCode.INTERNAL_ERROR, text))


def members(data: bytes, batch: Sequence[Any]) -> list[bytes]:
    """Return the bytes of each message in a batch. They are encoded again if `data` is not strict JSON."""
    with suppress(MsgspecError, RecursionError):
        parts = [bytes(part) for part in _decode_parts(data)]
        if len(parts) == len(batch):
            return parts
    return [codec.encode(message) for message in batch]


def in_event(line: bytes) -> bytes:
    """Return a message as the data of a server-sent event. It may contain line breaks."""
    if b"\n" in line or b"\r" in line:
        return line.replace(b"\r", b"\n").replace(b"\n", b"\ndata: ")
    return line
