"""Messages of an exchange in a form that people can read.

Batches are split, secrets are masked, and errors become text. The headers of an HTTP request are compared
with its body, as a server would do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import orjson
from msgspec import Struct
from msgspec.structs import replace

from mcpdesk.errors import ProtocolError, RemoteProtocolError
from mcpdesk.protocol.codec import decode
from mcpdesk.protocol.headers import (
    PARAM_PREFIX,
    check_name,
    check_parameters,
    decode_value,
    mirrored_arguments,
)
from mcpdesk.protocol.methods import METHODS
from mcpdesk.protocol.reading.message import (
    batch_remark,
    id_remark,
    read_frame,
    repeated_answer_remark,
    same_id,
    unknown_id_remark,
)
from mcpdesk.protocol.reading.remark import Remark, RemarkKind
from mcpdesk.protocol.revisions import BY_NAME, Revision
from mcpdesk.recorder.index.exchange import Exchange, ExchangeKind, Status
from mcpdesk.recorder.index.table import NO_FRAME
from mcpdesk.recorder.index.traffic_index import Index
from mcpdesk.recorder.masking import MASK, is_secret, mask_headers, mask_message, mask_text
from mcpdesk.recorder.record import BY_MOCK, Direction

MAX_SEARCHED_EXCHANGES = 10_000
"""Maximum number of exchanges among which the request of an unexpected response is searched."""
MAX_DECODED_BYTES = 2 << 20
"""Maximum size in bytes of a frame that is decoded.

Of a larger frame, only the beginning of its text is shown.
"""
_BEGINNING_BYTES = 16 << 10
"""Number of bytes of a frame that are shown as text if the frame cannot be decoded."""
MAX_DEPTH = 200
"""Maximum number of nesting levels of a message. A deeper message is shown as text."""
USUAL_ANSWER = ("HTTP/1.1 200 OK", (("Content-Type", "application/json"),))
"""Status line and headers of a usual answer to a POST, which are not recorded."""


class ReadableMessage(NamedTuple):
    """Message to show. `value` is JSON, or text with the reason in `problem`."""

    value: Any
    problem: str = ""


def message(index: Index, exchange: Exchange, frame: int, schema: Any = None) -> ReadableMessage:
    """Return the message of `exchange` in `frame`. `schema` is the tool's input schema, if known."""
    try:
        value = unmasked(index, exchange, frame)
        return ReadableMessage(value if index.reveals_secrets else mask_message(value, schema))
    except ValueError as problem:
        stored_frame = index.frame(frame)
        data = stored_frame.data[:_BEGINNING_BYTES] if stored_frame is not None else b""
        text = data.decode("utf-8", "replace")
        return ReadableMessage(text if index.reveals_secrets else mask_text(text), str(problem))


def remarks(index: Index, exchange: Exchange) -> list[Remark]:
    """Return all remarks on the messages of an exchange: recorded ones, and those found by reading."""
    remarks_by_text = dict[str, Remark]()
    if index.is_remarked(exchange.number) or exchange.kind is not ExchangeKind.REQUEST:
        for frame in (exchange.request, exchange.response):
            if frame is not None:
                frame_remarks = _frame_remarks(index, exchange, frame)
                remarks_by_text.update((remark.text, remark) for remark in frame_remarks)
    if exchange.status is Status.NEGOTIATION:
        remark = _negotiation_remark(exchange.method)
        remarks_by_text[remark.text] = remark
    recorded_remarks = (recorded.remark for recorded in index.recorded_remarks(exchange))
    remarks_by_text.update((remark.text, remark) for remark in recorded_remarks)
    distinct_remarks = list(remarks_by_text.values())
    if index.reveals_secrets:
        return distinct_remarks
    return [replace(remark, text=mask_text(remark.text)) for remark in distinct_remarks]


def _negotiation_remark(method: str) -> Remark:
    """Return the remark on a request that a server does not support, and does not have to support."""
    explanation = f"the server has no result for {method}"
    if method == "subscriptions/listen":
        explanation += ": changes of its lists are not reported, only seen when the lists are read again"
    elif method == "initialize":
        explanation += ", because it uses another revision, which the client found in another way"
    else:
        explanation += ", which a client uses to find the revision; a handshake also does this"
    return Remark(RemarkKind.NEGOTIATION, explanation)


def _frame_remarks(index: Index, exchange: Exchange, frame: int) -> Iterator[Remark]:
    """Yield remarks on one message of an exchange."""
    stored_frame = index.frame(frame)
    if stored_frame is None or stored_frame.size > MAX_DECODED_BYTES:
        return
    info = index.connections.get(exchange.connection)
    content = read_frame(index.frame_bytes(frame), is_line=info is not None and info.transport == "stdio")
    yield from content.remarks
    if content.fault is not None:
        yield content.fault
    revision = BY_NAME.get(info.revision) if info is not None else None
    has_several = any(remark.kind == RemarkKind.SEVERAL_MESSAGES for remark in content.remarks)
    if (
        isinstance(content.value, list)
        and not has_several
        and revision is not None
        and not revision.has_batches
    ):
        yield batch_remark(len(content.value))
    message_ids = [content_message.get("id") for content_message in content.messages]
    request_id = exchange.id
    if frame == exchange.response and exchange.request is not None and isinstance(request_id, int | str):
        similar_ids = [message_id for message_id in message_ids if same_id(message_id, request_id)]
        wrong_type_ids = [
            message_id for message_id in similar_ids if type(message_id) is not type(request_id)
        ]
        if wrong_type_ids:
            yield id_remark(wrong_type_ids[0], request_id)
        elif message_ids == [None]:
            yield unknown_id_remark(None)
    elif exchange.kind is ExchangeKind.RESPONSE and request_id is not None:
        yield _unexpected_response_remark(index, exchange)


def _unexpected_response_remark(index: Index, exchange: Exchange) -> Remark:
    """Return the remark on a response that no request waited for."""
    table, number = index.table, exchange.number
    for row in range(number - 1, max(table.base, number - MAX_SEARCHED_EXCHANGES) - 1, -1):
        is_same = table.connection[row] == exchange.connection and table.id[row] == exchange.id
        if is_same and table.request[row] != NO_FRAME:
            return repeated_answer_remark(exchange.id)
    return unknown_id_remark(exchange.id)


class HoldOutcome(NamedTuple):
    """Decision about a held message. `was` and `now` are JSON, or None if the message was not changed."""

    side: str
    """`request`, `answer` or `notification`."""
    how: str
    held_s: float
    was: Any
    now: Any


def held_messages(index: Index, exchange: Exchange) -> list[HoldOutcome]:
    """Return the decisions about messages of an exchange that were held or got a fault."""
    messages = []
    for mark in index.marks_of(exchange):
        side = "request" if mark.direction is exchange.direction else "answer"
        if mark.how.startswith("notifications/") or exchange.kind is ExchangeKind.NOTIFICATION:
            side = "notification"
        was, now = _stored_json(index, mark.was), _stored_json(index, mark.now)
        messages.append(HoldOutcome(side, mark.how, mark.held, was, now))
    return messages


def changed_request(index: Index, exchange: Exchange, schema: Any = None) -> dict[str, Any] | None:
    """Return the request as a person changed it at the desk, or None if it was not changed."""
    if not index.marks:
        return None
    replacements = [outcome.now for outcome in held_messages(index, exchange) if outcome.side == "request"]
    # If a person answered a request, its replacement is the answer, which has no method.
    requests = (value for value in reversed(replacements) if isinstance(value, dict) and "method" in value)
    replacement = next(requests, None)
    return replacement if replacement is None or index.reveals_secrets else mask_message(replacement, schema)


def end_at_desk(index: Index, exchange: Exchange) -> str:
    """Return a sentence about a request that ended at the desk, or "" if its server received it."""
    how = next((mark.how for mark in index.marks_of(exchange) if mark.is_end), "")
    if not how or exchange.direction is not Direction.IN:
        return ""
    return "a mock answered" if how == BY_MOCK else how


def _stored_json(index: Index, text: str) -> Any:
    """Decode a message in a mark, masked unless the index shows secrets. None if it is empty."""
    if not text:
        return None
    try:
        value = orjson.loads(text)
    except ValueError:
        return mask_text(text)  # only the beginning of the request is known
    return value if index.reveals_secrets else mask_message(value)


def http(index: Index, exchange: Exchange, frame: int) -> tuple[str, tuple[tuple[str, str], ...]] | None:
    """Return HTTP start line and headers of a frame, with secrets masked, or None if it was not HTTP."""
    note = index.note(frame)
    if note is not None and index.reveals_secrets:
        return (note.line, tuple(note.headers))
    if note is not None:
        return (mask_text(note.line), mask_headers(note.headers, index.secret_headers))
    return USUAL_ANSWER if _is_posted_answer(index, exchange, frame) else None


def _is_posted_answer(index: Index, exchange: Exchange, frame: int) -> bool:
    """Return True if a frame without recorded headers is the answer to a POST."""
    info = index.connections.get(exchange.connection)
    if frame != exchange.response or exchange.request is None or info is None or info.transport != "http":
        return False
    request_note = index.note(exchange.request)
    return request_note is not None and request_note.line.startswith("POST ")


def checked_request_headers(
    index: Index, exchange: Exchange, frame: int, schema: Any = None
) -> tuple[str, list[CheckedHeader]] | None:
    """Return the start line and the headers of a request, each header checked against the body."""
    note = index.note(frame)
    if note is None:
        return None
    try:
        body = unmasked(index, exchange, frame)
    except ValueError:
        body = None
    headers = check_headers(note.headers, body, exchange.revision, schema, index.secret_headers)
    return mask_text(note.line), headers


def unmasked(index: Index, exchange: Exchange, frame: int) -> Any:
    """Return the message with its secrets. It may be sent or checked, but must never be shown.

    Raises: ValueError if the frame is missing, too large, not JSON, or nested too deeply.
    """
    stored_frame = index.frame(frame)
    if stored_frame is None:
        raise ValueError("the frame is no longer in memory, nor in a file")
    if stored_frame.size > MAX_DECODED_BYTES:
        raise ValueError(f"a frame of {stored_frame.size:,} bytes is too large to decode")
    data = index.frame_bytes(frame)
    content = read_frame(data)
    value = content.value
    if value is None:
        if len(data) < stored_frame.size and not index.is_available(frame):
            raise ValueError(f"all {stored_frame.size:,} bytes of this frame are being loaded from its core")
        if len(data) < stored_frame.size:
            reason = f"only {len(data):,} of {stored_frame.size:,} bytes were kept"
            raise ValueError(f"{reason} (capture_body_bytes)")
        if content.fault is not None:
            raise ValueError(content.fault.text)
        try:
            value = decode(data)
        except ProtocolError as error:
            raise ValueError(error.message) from None
    if is_too_deep(data, value):
        raise ValueError(f"the message is nested more than {MAX_DEPTH} levels deep")
    part = index.part_of(exchange.number, frame)
    return value[part] if part is not None and isinstance(value, list) and part < len(value) else value


def is_too_deep(data: bytes, value: Any) -> bool:
    """Return True if a message has so many levels that recursion would crash the program."""
    if data.count(b"[") + data.count(b"{") <= MAX_DEPTH:
        return False
    level = [value]
    for _ in range(MAX_DEPTH):
        containers = [
            container.values() if isinstance(container, dict) else container
            for container in level
            if container
        ]
        level = [item for items in containers for item in items if isinstance(item, dict | list)]
        if not level:
            return False
    return True


_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
"""Names of this machine in a URL."""
_ANSWER_TYPES = ("application/json", "text/event-stream")
"""Media types that a client must accept. The first one is also that of a request."""


class HeaderVerdict(Enum):
    """Result of a header check. The value is the symbol that is shown."""

    GOOD = "✓"
    BAD = "✗"
    OPEN = "·"
    """The header was not checked, or is not used in this request."""


class CheckedHeader(Struct, frozen=True):
    """Header to show, with secrets masked. `words` is the explanation, or "" if the protocol does not use the
    header.
    """

    name: str
    value: str
    verdict: HeaderVerdict = HeaderVerdict.OPEN
    words: str = ""


class _Request(Struct, frozen=True):
    headers: Mapping[str, str]
    """Headers by name in lower case."""
    method: str
    params: Mapping[str, Any]
    revision: Revision | None
    """Protocol revision, or None if unknown."""
    schema: Mapping[str, Any] | None
    """Input schema of the tool, if known."""

    @property
    def is_stateless(self) -> bool:
        """True if headers must repeat parts of the body."""
        return self.revision is not None and self.revision.is_stateless


Finding = tuple[HeaderVerdict, str]
_MISSING_HEADER: Finding = (HeaderVerdict.BAD, "missing")
_AGREES: Finding = (HeaderVerdict.GOOD, "agrees")
_DISAGREES: Finding = (HeaderVerdict.BAD, "the body differs")
_THIS_MACHINE: Finding = (HeaderVerdict.GOOD, "this machine")


def check_headers(
    headers: Iterable[tuple[str, str]],
    body: Any,
    revision: str,
    schema: Mapping[str, Any] | None = None,
    secret: Iterable[str] = (),
) -> list[CheckedHeader]:
    """Return the headers of a request in their order, then required headers that are missing.

    `body` is the message without masks. `revision` is the revision of its exchange. `secret` has names of
    further headers to mask.
    """
    pairs = list(headers)
    by_name = {name.lower(): value for name, value in pairs}
    message = body if isinstance(body, Mapping) else {}
    params = message.get("params")
    request = _Request(
        by_name,
        str(message.get("method", "")),
        params if isinstance(params, Mapping) else {},
        BY_NAME.get(revision),
        schema,
    )
    check_results = {name: finding for name in _CHECKS if (finding := _finding(name, request)) is not None}
    findings = check_results | _parameter_findings(request)
    sent_headers = [
        CheckedHeader(name, _legible(name, masked), *findings.pop(name.lower(), (HeaderVerdict.OPEN, "")))
        for (name, _), (_, masked) in zip(pairs, mask_headers(pairs, secret), strict=True)
    ]
    return sent_headers + [
        CheckedHeader(_HEADER_SPELLINGS.get(name, name), "", verdict, words)
        for name, (verdict, words) in findings.items()
        if name not in by_name
    ]


def _finding(name: str, request: _Request) -> Finding | None:
    """Return the result for a header that the protocol uses, or None if it is missing and not required."""
    value = request.headers.get(name)
    unused_reason = _unused_reason(name, request)
    if unused_reason:
        return None if value is None else (HeaderVerdict.OPEN, unused_reason)
    if not value:
        return None if name in _OPTIONAL_HEADERS else _MISSING_HEADER
    return _CHECKS[name](value, request)


def _unused_reason(name: str, request: _Request) -> str:
    """Return the reason why a header is not used in this request, or "" if it is used."""
    revision, method = request.revision, METHODS.get(request.method)
    match name:
        case "mcp-protocol-version" if request.method == "initialize":
            return "this request negotiates one"
        case "mcp-protocol-version" if revision is None:
            return "the revision is not known"
        case "mcp-protocol-version" if revision is not None and not revision.has_version_header:
            return f"not used in {revision}"
        case "mcp-session-id" if request.is_stateless:
            return "not used in the stateless era"
        case "mcp-method" | "mcp-name" if not request.is_stateless:
            return "not used in the handshake era"
        case "mcp-name" if method is None or not method.routing_field:
            return "not used with this method"
    return ""


def _check_host(value: str, request: _Request) -> Finding:
    is_local = _host_name(f"//{value}") in _LOOPBACK
    return _THIS_MACHINE if is_local else (HeaderVerdict.OPEN, "another name: see allowed_hosts")


def _check_origin(value: str, request: _Request) -> Finding:
    if _host_name(value) and urlsplit(value).netloc == request.headers.get("host"):
        return HeaderVerdict.GOOD, "same as Host"
    is_local = _host_name(value) in _LOOPBACK
    return _THIS_MACHINE if is_local else (HeaderVerdict.OPEN, "another origin: see allowed_origins")


def _host_name(url: str) -> str:
    """Return the host of a URL without its port, or "" if the URL is invalid."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""


def _check_content_type(value: str, request: _Request) -> Finding:
    is_json = value.partition(";")[0].strip().lower() == _ANSWER_TYPES[0]
    return (HeaderVerdict.GOOD, "JSON") if is_json else (HeaderVerdict.BAD, f"must be {_ANSWER_TYPES[0]}")


def _check_accept(value: str, request: _Request) -> Finding:
    accepted_types = {media_type.partition(";")[0].strip().lower() for media_type in value.split(",")}
    missing_types = [
        media_type
        for media_type in _ANSWER_TYPES
        if accepted_types.isdisjoint({media_type, f"{media_type.partition('/')[0]}/*", "*/*"})
    ]
    if missing_types:
        return HeaderVerdict.BAD, f"lacks {' and '.join(missing_types)}"
    return HeaderVerdict.GOOD, "accepts both answers"


def _check_version(value: str, request: _Request) -> Finding:
    if value == str(request.revision):
        return _AGREES if request.is_stateless else (HeaderVerdict.GOOD, "as in the session")
    source = "body has" if request.is_stateless else "session uses"
    return HeaderVerdict.BAD, f"the {source} {request.revision}"


def _check_session(value: str, request: _Request) -> Finding:
    if request.method == "initialize":
        return HeaderVerdict.BAD, "a session begins with this request"
    return HeaderVerdict.GOOD, "in a session"


def _check_method(value: str, request: _Request) -> Finding:
    return _AGREES if value == request.method else _DISAGREES


def _check_routed_name(value: str, request: _Request) -> Finding:
    name = request.params.get(METHODS[request.method].routing_field)
    return _check_result(value, partial(check_name, value, name))


def _parameter_findings(request: _Request) -> dict[str, Finding]:
    """Return a result for every argument that is or may be repeated in a header."""
    headers = {name: value for name, value in request.headers.items() if name.startswith(PARAM_PREFIX)}
    if not request.is_stateless or request.method != "tools/call" or request.schema is None:
        words = "the tool's schema is not known" if request.is_stateless else "not used in the handshake era"
        return dict.fromkeys(headers, (HeaderVerdict.OPEN, words))
    try:
        mirrored = {argument.header: argument for argument in mirrored_arguments(request.schema)}
    except ValueError:
        mirrored = {}
    arguments = request.params.get("arguments")
    arguments = arguments if isinstance(arguments, Mapping) else {}
    findings = dict.fromkeys(headers, (HeaderVerdict.OPEN, "not an argument of this tool"))
    for name, argument in mirrored.items():
        finding = _check_result(headers.get(name), partial(check_parameters, [argument], arguments, headers))
        if name in headers or finding != _AGREES:
            findings[name] = finding
    return findings


def _check_result(value: str | None, check: Callable[[], None]) -> Finding:
    """Return the result of a server's check, in words without the value."""
    try:
        check()
    except RemoteProtocolError:
        if value is None:
            return _MISSING_HEADER
        try:
            decode_value(value)
        except ValueError:
            return HeaderVerdict.BAD, "malformed"
        return _DISAGREES
    return _AGREES


def _legible(name: str, value: str) -> str:
    """Return a masked value. If it is encoded, add its decoded form."""
    if not name.lower().startswith(("mcp-name", PARAM_PREFIX)) or value == MASK:
        return value
    try:
        decoded = decode_value(value)
    except ValueError:
        return value
    if decoded == value:
        return value
    return f"{value} ({MASK if is_secret(name) else mask_text(decoded)})"


_CHECKS: dict[str, Callable[[str, _Request], Finding]] = {
    "host": _check_host,
    "origin": _check_origin,
    "content-type": _check_content_type,
    "accept": _check_accept,
    "mcp-protocol-version": _check_version,
    "mcp-session-id": _check_session,
    "mcp-method": _check_method,
    "mcp-name": _check_routed_name,
}
"""Check of each header that has a value, by name in lower case."""
_OPTIONAL_HEADERS = frozenset({"origin", "mcp-session-id"})
"""Checked headers that a request may lack."""
_HEADER_SPELLINGS = {
    "host": "Host",
    "content-type": "Content-Type",
    "accept": "Accept",
    "mcp-protocol-version": "MCP-Protocol-Version",
    "mcp-method": "Mcp-Method",
    "mcp-name": "Mcp-Name",
}
"""Required headers in their usual spelling."""
