"""Reading of HTTP bodies and event streams as the answer to one request."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from mcpdesk.client.answers.large_frames import read_on_thread
from mcpdesk.client.answers.refusal_words import explanation, is_page
from mcpdesk.client.transport import GZIP_MAGIC, Incoming, Receive, ServerReply, excerpt
from mcpdesk.errors import InvalidAnswer, ProtocolError
from mcpdesk.protocol import codec
from mcpdesk.protocol.framing import Event, EventFramer
from mcpdesk.protocol.jsonrpc import Id, JSONObject
from mcpdesk.protocol.reading.message import (
    ReadFrame,
    batch_remark,
    id_remark,
    is_answer,
    read_strictly,
    same_id,
)
from mcpdesk.protocol.reading.remark import Remark, RemarkKind

if TYPE_CHECKING:
    import aiohttp

READ_BYTES = 64 << 10
EVENT_STREAM = "text/event-stream"
JSON = "application/json"
_ENDING_BYTES = 8
"""Number of bytes at the end of a body that are searched for the end of an answer."""
CHALLENGE = "www-authenticate"
OWN_ANSWER_S = 2.0
"""Seconds to wait for data that may never arrive: the end of a body that looks complete, the explanation of a
rejection, and the right response after a stream delivered one with another id.
"""
_EVENT_FIELDS = (b"data:", b"event:", b"id:", b"retry:", b":")
"""Beginnings of the lines of an event stream."""


class ParsedAnswer(NamedTuple):
    """A response or None, the bytes of the response, and the remarks on it."""

    message: Any
    data: bytes
    remarks: tuple[Remark, ...] = ()


def answer_in_frame(
    read: ReadFrame, identifier: Id | None, has_batches: bool, receive: Receive | None, frame: bytes = b""
) -> tuple[JSONObject | None, tuple[Remark, ...]]:
    """Return the response in a frame or None, and the remarks on it. Pass other messages to `receive`.

    A response with another id than `identifier` is returned if the right one is missing, because an HTTP
    answer belongs to only one request. The validation of this response fails later. `frame` has the bytes of
    the frame, or is empty to encode each message again for `receive`.
    """
    remarks = read.remarks
    answer_message: JSONObject | None = None
    has_several_messages = any(each.kind == RemarkKind.SEVERAL_MESSAGES for each in remarks)
    if isinstance(read.value, list) and not has_batches and not has_several_messages:
        remarks = (*remarks, batch_remark(len(read.value)))
    answers = [each for each in read.messages if is_answer(each)]
    for answer in answers:
        if identifier is not None and same_id(answer.get("id"), identifier):
            answer_message = answer
    answer_message = answer_message or next(iter(answers), None)
    for message in read.messages:
        if message is not answer_message and receive is not None:
            has_own_frame = frame and not isinstance(read.value, list)
            own_remarks = remarks if answer_message is None else ()
            receive(Incoming(message, frame if has_own_frame else codec.encode(message), own_remarks))
    if answer_message is None or identifier is None:
        return answer_message, remarks
    answer_id = answer_message.get("id")
    if same_id(answer_id, identifier) and type(answer_id) is not type(identifier):
        answer_message = {**answer_message, "id": identifier}
        remarks = (*remarks, id_remark(answer_id, identifier))
    return answer_message, remarks


def checked_event(data: bytes, read: ReadFrame) -> ReadFrame:
    """Check the content of an event. Raises: InvalidAnswer for invalid JSON or an unreadable response."""
    if read.fault is not None and read.is_response:
        raise InvalidAnswer(f"an event cannot be used: {read.fault.text}", excerpt=excerpt(data))
    if not read.is_message:
        fault = f"an event is not a message: {excerpt(data)[:80]!r}; it was ignored"
        ignored = ReadFrame(None, (), Remark(RemarkKind.TEXT_AROUND, fault))
        try:
            if codec.decode(data):
                return ignored
        except ProtocolError as error:
            if not data.lstrip().startswith(b"{"):
                return ignored
            reason = f"an event is not JSON: {error.message}"
            raise InvalidAnswer(reason, excerpt=excerpt(data)) from None
    return read


class HttpAnswer:
    """Reader of one HTTP answer: a body, or the events of a stream up to the response."""

    def __init__(
        self, identifier: Id | None, receive: Receive | None, framer: EventFramer, has_batches: bool
    ) -> None:
        """`receive` handles messages other than the response to `identifier`. `framer` has the size limit."""
        self._identifier, self._receive = identifier, receive
        self._framer, self._has_batches = framer, has_batches
        self._status = 0
        self._is_stream = False
        self._received_bytes = 0
        self._received_events = 0
        self._ignored_event = b""
        """Last event that is not a message."""

    @property
    def progress_text(self) -> str:
        """Description for a person of the bytes received so far."""
        if not self._is_stream:
            return f"HTTP {self._status} began, and {self._received_bytes:,} bytes of its body arrived"
        beginning = f"an event stream began (HTTP {self._status})"
        if not self._received_events:
            return f"{beginning}, and {self._received_bytes:,} bytes arrived, but no event"
        return f"{beginning}, and {self._received_events:,} events arrived, but not the answer"

    async def read(self, answer: aiohttp.ClientResponse) -> ServerReply:
        """Read the reply. Raises: InvalidAnswer if the answer is too large or unusable."""
        headers, status = lower_case_headers(answer), answer.status
        media_type = answer.headers.get("Content-Type", "").partition(";")[0].strip().lower()
        self._status = status
        self._is_stream = media_type == EVENT_STREAM and status == 200
        if self._is_stream:
            parsed = await self._read_stream(answer)
            return ServerReply(parsed.message, parsed.data, status, headers, parsed.remarks)
        data, is_cut = await self._receive_body(answer)
        message, data, remarks = await self._parse_body(data, media_type, status)
        if is_cut:
            fault = (
                "the answer is complete, but its HTTP body has no end: its length or its last chunk is wrong"
            )
            remarks = (*remarks, Remark(RemarkKind.UNTERMINATED, fault))
        return ServerReply(message, data, status, headers, remarks)

    async def _receive_body(self, answer: aiohttp.ClientResponse) -> tuple[bytes, bool]:
        """Return the body, and True if its end is missing although it is a complete answer.

        Raises: InvalidAnswer if the body is too large; any exception of aiohttp if the body is incomplete.
        """
        import aiohttp

        body = bytearray()
        while True:
            may_be_complete = body[-_ENDING_BYTES:].rstrip().endswith((b"}", b"]"))
            try:
                async with asyncio.timeout(OWN_ANSWER_S if may_be_complete else None):
                    piece = await answer.content.readany()
            except (TimeoutError, aiohttp.ClientError, ConnectionError) as error:
                read = read_strictly(bytes(body)) if may_be_complete else None
                if read is not None and any(map(is_answer, read.messages)):
                    return bytes(body), True
                if not isinstance(error, TimeoutError):
                    raise
                piece = await answer.content.readany()  # not complete yet, so wait without a limit
            if not piece:
                return bytes(body), False
            body += piece
            self._received_bytes = len(body)
            if len(body) > self._framer.limit:
                raise too_large_error(self._framer)

    async def _parse_body(self, data: bytes, media_type: str, status: int) -> ParsedAnswer:
        """Return the response in a body. Raises: InvalidAnswer if the body is JSON but unusable."""
        if not data.strip():
            return ParsedAnswer(None, data)
        if data.lstrip().startswith(_EVENT_FIELDS):
            events = complete_events(EventFramer(self._framer.limit), data + b"\n\n")
            parsed = await self._first_response(events)
            if parsed.message is not None:
                event_remarks = (*parsed.remarks, type_remark(media_type, EVENT_STREAM))
                return ParsedAnswer(parsed.message, parsed.data, event_remarks)
        read = await read_on_thread(data)
        has_json_type = media_type == JSON
        if read.is_message and (has_json_type or any(map(is_answer, read.messages))):
            if status < 300 and read.fault is not None:
                raise InvalidAnswer(read.fault.text, excerpt=excerpt(data))
            message, remarks = answer_in_frame(read, self._identifier, self._has_batches, self._receive)
            type_remarks = () if has_json_type or message is None else (type_remark(media_type, JSON),)
            return ParsedAnswer(message, data, (*remarks, *type_remarks))
        if not has_json_type or is_page(data):
            return ParsedAnswer(None, data)
        try:
            decoded = codec.decode(data)
        except ProtocolError as error:
            if status >= 300 or data.startswith(GZIP_MAGIC):
                return ParsedAnswer(None, data)
            raise InvalidAnswer(f"the answer is not JSON: {error.message}", excerpt=excerpt(data)) from None
        return ParsedAnswer(decoded if is_answer(decoded) else None, data)

    async def _read_stream(self, answer: aiohttp.ClientResponse) -> ParsedAnswer:
        """Return the response among the events, or None if the stream ends without it.

        A response with another id is returned if the right one does not follow within `OWN_ANSWER_S`.
        """
        fallback = ParsedAnswer(None, b"")
        unframed_data = bytearray()
        has_events = False
        with suppress(TimeoutError):
            async with asyncio.timeout(None) as limit:
                async for piece in answer.content.iter_any():
                    self._received_bytes += len(piece)
                    events = complete_events(self._framer, piece)
                    self._received_events += len(events)
                    has_events = has_events or bool(events)
                    if not has_events and len(unframed_data) + len(piece) <= self._framer.limit:
                        unframed_data += piece
                    for event in events:
                        parsed = await self._parse_event(event.data)
                        if self._has_matching_id(parsed):
                            if fallback.message is not None and self._receive is not None:
                                self._receive(Incoming(*fallback))
                            return parsed
                        if parsed.message is not None and fallback.message is None:
                            fallback = parsed
                            limit.reschedule(asyncio.get_running_loop().time() + OWN_ANSWER_S)
        if fallback.message is not None:
            return fallback
        message, data, remarks = await self._parse_rest(b"" if has_events else bytes(unframed_data))
        return ParsedAnswer(message, data or self._ignored_event, remarks)

    async def _parse_rest(self, unframed_data: bytes) -> ParsedAnswer:
        """Return the response in the data at the end of a stream that is not a complete event."""
        if unframed_data.lstrip()[:1] in (b"{", b"["):
            message, data, remarks = await self._parse_body(unframed_data, JSON, 200)
            return ParsedAnswer(message, data, (*remarks, type_remark(EVENT_STREAM, JSON)))
        unfinished_event = self._framer.unfinished()
        if not unfinished_event:
            return ParsedAnswer(None, b"")
        read = await read_on_thread(unfinished_event)
        if not any(map(is_answer, read.messages)):
            if self._framer.last_id:
                return ParsedAnswer(None, b"")  # the server sends the complete event again
            fault = "the event stream ended in the middle of a message"
            raise InvalidAnswer(fault, excerpt=excerpt(unfinished_event))
        fault = "the stream ended without the blank line after an event; the incomplete event was read"
        message, data, remarks = await self._parse_event(unfinished_event)
        return ParsedAnswer(message, data, (*remarks, Remark(RemarkKind.UNTERMINATED, fault)))

    async def _first_response(self, events: Sequence[Event]) -> ParsedAnswer:
        """Return the response with the right id, or else the first response."""
        fallbacks: list[ParsedAnswer] = []
        for event in events:
            parsed = await self._parse_event(event.data)
            if self._has_matching_id(parsed):
                return parsed
            if parsed.message is not None:
                fallbacks.append(parsed)
        return fallbacks[0] if fallbacks else ParsedAnswer(None, b"")

    async def _parse_event(self, data: bytes) -> ParsedAnswer:
        """Return the response in an event. Pass other messages and faults to `receive`."""
        read = checked_event(data, await read_on_thread(data))
        if read.fault is not None:
            self._ignored_event = data
            if self._receive is not None:
                self._receive(Incoming(None, data, (read.fault,)))
        message, remarks = answer_in_frame(read, self._identifier, self._has_batches, self._receive, data)
        return ParsedAnswer(message, data, remarks)

    def _has_matching_id(self, answer: ParsedAnswer) -> bool:
        return answer.message is not None and answer.message.get("id") in (self._identifier, None)


def complete_events(framer: EventFramer, piece: bytes) -> list[Event]:
    """Return the events that a piece completes. Raises: InvalidAnswer if one is too large."""
    try:
        return framer.feed(piece)
    except ValueError:
        raise too_large_error(framer) from None


def too_large_error(framer: EventFramer) -> InvalidAnswer:
    """Return the error for an answer that exceeds its framer's limit."""
    return InvalidAnswer(f"the answer has more than {framer.limit} bytes")


def type_remark(content_type: str, expected_type: str) -> Remark:
    """Return the remark for an answer with a wrong `Content-Type`."""
    actual_type = f"the Content-Type {excerpt(content_type)[:80]}" if content_type else "no Content-Type"
    return Remark(
        RemarkKind.CONTENT_TYPE,
        f"the answer has {actual_type} instead of {expected_type}; it was read as {expected_type}",
    )


async def refusal_text(answer: aiohttp.ClientResponse) -> str:
    """Return the explanation in the body of a rejection as one line. Empty if it does not arrive in time."""
    import aiohttp

    try:
        async with asyncio.timeout(OWN_ANSWER_S):
            body = await answer.content.read(READ_BYTES)
    except (TimeoutError, OSError, aiohttp.ClientError):
        return ""
    return excerpt(explanation(body, answer.headers.get("Content-Type", "")))


def lower_case_headers(answer: aiohttp.ClientResponse) -> dict[str, str]:
    """Return the headers of an answer with lower-case names. All challenges are joined into one value."""
    headers = {name.lower(): value for name, value in answer.headers.items()}
    if CHALLENGE in headers:
        headers[CHALLENGE] = ", ".join(answer.headers.getall(CHALLENGE))
    return headers
