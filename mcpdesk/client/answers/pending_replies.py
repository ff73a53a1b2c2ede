"""Matching of responses to pending requests on one shared channel.

A response belongs to the request with the same id. An id of another type (`"1"` for `1`) is accepted with a
remark. A response without a usable id may belong to any pending request, so all pending requests fail. Their
order does not identify the right one, because servers may answer out of order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import msgspec

from mcpdesk.client.transport import ClientTransport, Incoming, Receive, ServerReply, excerpt
from mcpdesk.errors import CallError, InvalidAnswer
from mcpdesk.protocol import codec
from mcpdesk.protocol.jsonrpc import Id, JSONObject, is_id
from mcpdesk.protocol.reading.message import (
    ReadFrame,
    batch_remark,
    id_remark,
    is_answer,
    read_frame,
    repeated_answer_remark,
    same_id,
    unknown_id_remark,
)
from mcpdesk.protocol.reading.remark import Remark, RemarkKind
from mcpdesk.protocol.request_table import RequestTable
from mcpdesk.protocol.revisions import Revision

CHANNEL_END_ID = -1
"""Id of the pending reply that fails when the channel ends. No request has this id."""
MAX_ANSWERED_REQUESTS = 1_000
"""Maximum number of answered requests whose ids are remembered."""
_decode_members = msgspec.json.Decoder(list[msgspec.Raw]).decode


class PendingReplies:
    """Pending requests by id. Must be used on one event loop."""

    def __init__(self, *, is_pipe: bool = False) -> None:
        """`is_pipe` is True if each message must be on a separate line."""
        self.has_batches = False
        """True if the revision has arrays of messages."""
        self._is_pipe = is_pipe
        self._pending: dict[Id, asyncio.Future[ServerReply]] = {}
        self._latest_id = 0
        """Id of the latest request. Ids increase from 1."""
        self._answered = RequestTable[Id, None](MAX_ANSWERED_REQUESTS)
        """Requests that were answered recently."""

    async def until_ended(self) -> None:
        """Wait until the channel ends. Raises: CallError with the reason."""
        with self.pending_reply(CHANNEL_END_ID) as end:
            await end

    @contextmanager
    def pending_reply(self, identifier: int) -> Iterator[asyncio.Future[ServerReply]]:
        """Yield a future for the reply to a request. The request is pending while the block runs."""
        self._latest_id = max(self._latest_id, identifier)
        self._pending[identifier] = future = asyncio.get_running_loop().create_future()
        try:
            yield future
        finally:
            del self._pending[identifier]
            if future.done() and not future.cancelled():
                future.exception()  # marks it as retrieved: the block may have failed before it waited

    def deliver(self, frame: bytes, receive: Receive, read: ReadFrame | None = None) -> bool:
        """Pass a frame to the request that it answers, or else to `receive`.

        Return False if the frame is not a message. `read` is the parsed frame, or None if the frame was not
        parsed yet.
        """
        read = read or read_frame(frame, is_line=self._is_pipe)
        if type(read.value) is dict:
            self._deliver(read.value, frame, read.remarks, receive)
        elif read.fault is not None:
            self._fail_answered(read.fault, read, frame, receive)
        elif read.value is None:
            return False
        else:
            self._deliver_all(read, frame, receive)
        return True

    def deliver_response(
        self,
        message: JSONObject,
        frame: bytes,
        remarks: tuple[Remark, ...] = (),
        receive: Receive = lambda incoming: None,
    ) -> None:
        """Pass a response to the pending request that it answers, or else to `receive`."""
        identifier = message.get("id")
        key = self._pending_id(identifier)
        if key is not None:
            if type(key) is not type(identifier):
                remarks = (*remarks, id_remark(identifier, key))
                message = {**message, "id": key}
            self._set_reply(key, ServerReply(message, frame, remarks=remarks))
            return
        if isinstance(identifier, int) and 0 < identifier <= self._latest_id:
            if identifier in self._answered:
                remarks = (*remarks, repeated_answer_remark(identifier))
            receive(Incoming(message, frame, remarks, identifier))
            return
        remarks = (*remarks, unknown_id_remark(identifier))
        pending_ids = self._pending_ids()
        if not pending_ids:
            receive(Incoming(message, frame, remarks))
        # only the first reply has the frame, so that the frame is recorded once
        for index, pending_id in enumerate(pending_ids):
            self._set_reply(pending_id, ServerReply(message, b"" if index else frame, remarks=remarks))

    def fail(self, error: CallError) -> None:
        """Fail all pending requests."""
        for future in self._pending.values():
            if not future.done():
                future.set_exception(error)

    def _deliver_all(self, read: ReadFrame, frame: bytes, receive: Receive) -> None:
        """Deliver each message of a frame with several messages."""
        messages, remarks = read.messages, read.remarks
        parts = [codec.encode(each) for each in messages]
        if not any(each.kind == RemarkKind.SEVERAL_MESSAGES for each in remarks):
            with suppress(msgspec.DecodeError, RecursionError):
                parts = [bytes(each) for each in _decode_members(frame)]
            if not self.has_batches:
                remarks = (*remarks, batch_remark(len(messages)))
        for index, (message, part) in enumerate(zip(messages, parts, strict=True)):
            self._deliver(message, part, () if index else remarks, receive)

    def _deliver(
        self, message: JSONObject, frame: bytes, remarks: tuple[Remark, ...], receive: Receive
    ) -> None:
        """Pass a response to its request, and any other message to `receive`."""
        if is_answer(message):
            if "method" in message:
                text = 'a response has the member "method", which was ignored'
                remarks = (*remarks, Remark(RemarkKind.JSONRPC, text))
                message = {key: value for key, value in message.items() if key != "method"}
            self.deliver_response(message, frame, remarks, receive)
        elif "method" in message:
            with suppress(CallError):
                receive(Incoming(message, frame, remarks))
        else:
            explanation = "a message has neither a method nor a result nor an error"
            fault = Remark(RemarkKind.UNREADABLE, explanation, is_fault=True)
            identifier = message.get("id")
            request_id = identifier if is_id(identifier) else None
            self._fail_answered(fault, ReadFrame(None, remarks, fault, request_id, True), frame, receive)

    def _fail_answered(self, fault: Remark, read: ReadFrame, frame: bytes, receive: Receive) -> None:
        """Fail the request that an unusable message answers, or all pending requests if its id is unknown."""
        key = self._pending_id(read.id)
        if read.is_response and key is None and self._was_used(read.id):
            read = ReadFrame()  # its request is no longer pending, so that no request fails
        request_ids: list[Id] = []
        if read.is_response:
            request_ids = self._pending_ids() if key is None else [key]
        receive(Incoming(None, frame, (*read.remarks, fault), key))
        for request_id in request_ids:
            future = self._pending[request_id]
            if not future.done():
                future.set_exception(InvalidAnswer(fault.text, excerpt=excerpt(frame)))

    def _set_reply(self, key: Id, reply: ServerReply) -> None:
        self._pending[key].set_result(reply)
        self._answered.add(key, None)

    def _pending_id(self, identifier: Any) -> Id | None:
        """Return the id of the pending request that an id refers to, or None. The types may differ."""
        if is_id(identifier) and (future := self._pending.get(identifier)) is not None and not future.done():
            return identifier
        return next((key for key in self._pending_ids() if same_id(identifier, key)), None)

    def _was_used(self, identifier: Id | None) -> bool:
        """Return True if a request with this id was sent. The request may no longer be pending."""
        return isinstance(identifier, int) and 0 < identifier <= self._latest_id

    def _pending_ids(self) -> list[Id]:
        """Return the ids of the pending requests."""
        return [key for key, future in self._pending.items() if key != CHANNEL_END_ID and not future.done()]


class ConnectedTransport(ClientTransport):
    """Transport over one connection, on which replies arrive in any order."""

    def __init__(self, target: str, replies: PendingReplies) -> None:
        """`target` is the server's name in messages."""
        self.target = target
        self._replies = replies

    async def exchange(
        self, request: JSONObject, headers: Mapping[str, str], receive: Receive
    ) -> ServerReply:
        """Send a request and wait for its reply. Raises: CallError if the connection ends; InvalidAnswer."""
        with self._replies.pending_reply(request["id"]) as reply:
            await self.send(request)
            return await reply

    def apply_revision(self, revision: Revision, reply: ServerReply) -> None:
        """Apply the agreed revision."""
        self._replies.has_batches = revision.has_batches

    async def until_ended(self) -> None:
        """Wait until the connection ends."""
        await self._replies.until_ended()
