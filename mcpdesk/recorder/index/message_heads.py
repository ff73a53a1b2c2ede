"""Head of a message: the few members that pairing needs, read without decoding the whole message.

A head exists only while its frame is paired. This module has no state and does not validate messages. Of a
large frame only the beginning and the end are kept, so its head is read from these two parts.
"""

from __future__ import annotations

import re
from contextlib import suppress
from hashlib import blake2b
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from mcpdesk.late_pattern import LatePattern
from mcpdesk.protocol.catalogue.token_cost import result_tokens
from mcpdesk.protocol.codec import repeats_key
from mcpdesk.protocol.reading.message import has_lone_surrogate, read_frame
from mcpdesk.recorder.index.exchange import ExchangeKind, Id

_MAX_ID = 1 << 63
"""Integer ids below minus this number, or from twice this number on, cannot be encoded as JSON again."""
MAX_BATCH_MESSAGES = 2_048
"""Maximum number of messages in a batch. A longer batch is shown as one malformed frame."""
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Exceptions that decoding a frame may raise."""


class Head(msgspec.Struct, gc=False, frozen=True):
    """Head of one message."""

    kind: ExchangeKind
    id: Id | None = None
    method: str = ""
    name: str = ""
    """Name of the tool or prompt, URI, or task id, or "" if the method has none."""
    revision: str = ""
    """Revision that the message states or agrees to, or "" if it has none."""
    token: Id | None = None
    """Progress token of a request or a progress notification."""
    cancelled_id: Id | None = None
    """Id of the request that a cancellation refers to."""
    is_error: bool = False
    """True if the response is a JSON-RPC error."""
    code: int = 0
    """Code of the error. 0 if there is none."""
    is_tool_error: bool = False
    """True if the result has `isError`."""
    needs_input: bool = False
    """True if the response is `input_required`, so that the client must send answers."""
    state: str = ""
    """`requestState` of a response or of a later request."""
    task: str = ""
    """Task that a response creates or describes, or that a request names in its `_meta`."""
    tokens: int = 0
    """Approximate number of tokens in the content of the result, or 0."""
    is_remarked: bool = False
    """True if the message has an error or a peculiarity."""
    is_faulty: bool = False
    """True if the message cannot be used."""


MALFORMED = Head(ExchangeKind.MALFORMED)
_MAX_WORD_LENGTH = 1_000
"""Maximum length in characters of a method, name or id, because these texts stay in memory for every
exchange."""

_OptionalId = int | str | float | None


class _Task(msgspec.Struct, gc=False):
    id: str | None = msgspec.field(name="taskId", default=None)


class _Meta(msgspec.Struct, gc=False):
    token: _OptionalId = msgspec.field(name="progressToken", default=None)
    revision: str | None = msgspec.field(name="io.modelcontextprotocol/protocolVersion", default=None)
    task: _Task | None = msgspec.field(name="io.modelcontextprotocol/related-task", default=None)


class _Params(msgspec.Struct, gc=False):
    name: str | None = None
    uri: str | None = None
    task: str | None = msgspec.field(name="taskId", default=None)
    meta: _Meta | None = msgspec.field(name="_meta", default=None)
    token: _OptionalId = msgspec.field(name="progressToken", default=None)
    cancelled_id: _OptionalId = msgspec.field(name="requestId", default=None)
    revision: str | None = msgspec.field(name="protocolVersion", default=None)
    state: str | None = msgspec.field(name="requestState", default=None)
    stage: str | None = None
    command: str | None = None


class _Result(msgspec.Struct, gc=False):
    is_error: bool | None = msgspec.field(name="isError", default=None)
    revision: str | None = msgspec.field(name="protocolVersion", default=None)
    kind: str | None = msgspec.field(name="resultType", default=None)
    state: str | None = msgspec.field(name="requestState", default=None)
    task_id: str | None = msgspec.field(name="taskId", default=None)
    task: _Task | None = None
    content: msgspec.Raw = msgspec.Raw()


class _Message(msgspec.Struct, gc=False):
    jsonrpc: str | None = None
    id: _OptionalId | msgspec.UnsetType = msgspec.UNSET
    method: str | None = None
    params: _Params | None = None
    result: _Result | msgspec.UnsetType | None = msgspec.UNSET
    error: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_Part = TypeVar("_Part", _Params, _Result)


class _Error(msgspec.Struct, gc=False):
    code: int


_decode_error = msgspec.json.Decoder(_Error).decode
_message_decoder = msgspec.json.Decoder(_Message)
_value_decoder = msgspec.json.Decoder()
_encode = msgspec.json.Encoder().encode


def read_heads(data: bytes) -> list[Head]:
    """Return the heads of the messages in a frame. A batch has several. Never empty; never raises."""
    try:
        if not data.isascii():
            data.decode()
        if b"\\u" in data and has_lone_surrogate(data):
            return _lenient_heads(data)
        heads = _batch_heads(data) if data[:1] != b"{" and data.lstrip()[:1] == b"[" else [_single_head(data)]
    except UNREADABLE:
        return _lenient_heads(data)
    return _lenient_heads(data) if heads[0] is not MALFORMED and repeats_key(data) else heads


def _batch_heads(data: bytes) -> list[Head]:
    """Return the heads of an array. Raises: exceptions in `UNREADABLE`."""
    batch = _value_decoder.decode(data)
    return [lenient_head(item) for item in batch] if 0 < len(batch) <= MAX_BATCH_MESSAGES else [MALFORMED]


def _lenient_heads(data: bytes) -> list[Head]:
    """Return the heads of a frame that is almost valid JSON-RPC."""
    frame = read_frame(data)
    if frame.fault is not None:
        if not frame.is_response or frame.id is None:
            return [MALFORMED]
        return [Head(ExchangeKind.RESPONSE, _stored_id(frame.id), is_remarked=True, is_faulty=True)]
    if not 0 < len(frame.messages) <= MAX_BATCH_MESSAGES:
        return [MALFORMED]
    return [replace(lenient_head(message), is_remarked=bool(frame.remarks)) for message in frame.messages]


def _single_head(data: bytes) -> Head:
    """Return the head of a single message. Raises: exceptions in `UNREADABLE`."""
    try:
        message = _message_decoder.decode(data)
    except msgspec.ValidationError:
        value = _value_decoder.decode(data)
        head = lenient_head(value)
        has_wrong_version = isinstance(value, dict) and value.get("jsonrpc") != "2.0"
        return replace(head, is_remarked=True) if has_wrong_version and head is not MALFORMED else head
    head = _head_of(message)
    return head if message.jsonrpc == "2.0" or head is MALFORMED else replace(head, is_remarked=True)


def _shortened(text: str) -> str:
    """Shorten a long text to its beginning and a digest, so that it stays unique."""
    if len(text) <= _MAX_WORD_LENGTH:
        return text
    digest = blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
    return f"{text[:_MAX_WORD_LENGTH]}… {digest}"


def _stored_id(identifier: _OptionalId) -> _OptionalId:
    """Return the stored form of an id."""
    if isinstance(identifier, str):
        return _shortened(identifier)
    if isinstance(identifier, int) and not -_MAX_ID <= identifier < 2 * _MAX_ID:
        return _shortened(hex(identifier))
    return identifier


def _head_of(message: _Message) -> Head:
    """Return the head of a message whose members all have valid types."""
    message_id = message.id
    identifier = None if isinstance(message_id, msgspec.UnsetType) else message_id
    if message.method is not None:
        return _request_head(
            message.method, message.params or _Params(), identifier, message_id is not msgspec.UNSET
        )
    if not isinstance(message.error, msgspec.UnsetType):
        code = _error_code(message.error)
        return Head(ExchangeKind.RESPONSE, _stored_id(identifier), is_error=True, code=code)
    if isinstance(message.result, msgspec.UnsetType):
        return MALFORMED
    return _response_head(message.result or _Result(), identifier, is_error=False)


def _error_code(error: bytes | msgspec.Raw) -> int:
    """Return the code of an encoded error. 0 if it has none."""
    try:
        return _decode_error(error).code
    except UNREADABLE:
        return 0


def _response_head(result: _Result, identifier: Id | None, *, is_error: bool) -> Head:
    """Return the head of a response."""
    return Head(
        ExchangeKind.RESPONSE,
        _stored_id(identifier),
        revision=_shortened(result.revision or ""),
        is_error=is_error,
        is_tool_error=result.is_error is True,
        needs_input=result.kind == "input_required",
        state=result.state or "",
        task=_shortened(result.task_id or (result.task.id if result.task else "") or ""),
        tokens=result_tokens(bytes(result.content)) if result.content else 0,
    )


def _request_head(method: str, params: _Params, identifier: Id | None, has_id: bool) -> Head:
    """Return the head of a request or notification."""
    if has_id and identifier is None:
        return MALFORMED
    meta = params.meta or _Meta()
    return Head(
        ExchangeKind.REQUEST if has_id else ExchangeKind.NOTIFICATION,
        _stored_id(identifier),
        _shortened(method),
        _shortened(params.name or params.uri or params.task or _gateway_tool_name(params)),
        revision=_shortened(meta.revision or ""),
        token=_stored_id(meta.token if has_id else params.token),
        cancelled_id=_stored_id(params.cancelled_id),
        state=params.state or "",
        task=_shortened((meta.task.id if meta.task else "") or ""),
    )


def _gateway_tool_name(params: _Params) -> str:
    """Return the tool name of a `callTool` request in the gateway dialect, which sends the name
    in two parts."""
    return f"{params.stage}-{params.command}" if params.stage and params.command else ""


def lenient_head(message: Any) -> Head:
    """Return the head of a message. Members with invalid types are ignored."""
    if not isinstance(message, dict):
        return MALFORMED
    identifier, method = message.get("id"), message.get("method")
    if isinstance(identifier, bool) or not isinstance(identifier, int | str | float | None):
        return MALFORMED
    if isinstance(method, str):
        return _request_head(
            method, _typed_members(message.get("params"), _Params), identifier, "id" in message
        )
    if method is not None or not ("result" in message or "error" in message):
        return MALFORMED
    head = _response_head(
        _typed_members(message.get("result"), _Result), identifier, is_error="error" in message
    )
    return replace(head, code=_error_code(_encode(message["error"]))) if head.is_error else head


def _typed_members(value: Any, kind: type[_Part]) -> _Part:
    """Create a `kind` from the members of `value` that have valid types."""
    members = kind()
    for field in msgspec.structs.fields(kind):
        if isinstance(value, dict) and field.encode_name in value:
            if field.type is msgspec.Raw:
                setattr(members, field.name, msgspec.Raw(_encode(value[field.encode_name])))
                continue
            with suppress(msgspec.ValidationError):
                setattr(members, field.name, msgspec.convert(value[field.encode_name], field.type))
    return members


_FIRST_READ_BYTES = 4 << 10
"""Number of bytes that are read at the beginning of a cut message. The relevant members come first."""
_STRING = rb'"[^"\\]*(?:\\.[^"\\]*)*"'
_TOKEN = LatePattern(rb"\s*(?:(%b)|([{}\[\]:,])|([-+.\w]+))" % _STRING, re.DOTALL)
"""JSON token: a string (group 1), a punctuation character (group 2) or another word (group 3)."""
_FLAT = rb'\{(?:%b|[^{}"])*\}' % _STRING
"""Object without objects in it. `_NESTED` is an object with at most two levels of objects in it."""
_NESTED = rb'\{(?:%b|[^{}"]|%b)*\}' % (_STRING, rb'\{(?:%b|[^{}"]|%b)*\}' % (_STRING, _FLAT))
_VALUE = rb'(?:%b|[-+.\w]+|%b|\[(?:%b|[^\[\]"])*\])' % (_STRING, _NESTED, _STRING)
_MEMBERS = rb"((?:\s*,\s*%b\s*:\s*%b)*)\s*\}" % (_STRING, _VALUE)
"""Last members of an object (a group), and its closing brace."""
_MEMBERS_AT_END = LatePattern(_MEMBERS + rb"\s*\Z", re.DOTALL)
_TWO_OBJECTS_AT_END = LatePattern(_MEMBERS + _MEMBERS + rb"\s*\Z", re.DOTALL)
"""Last members of `params` or `result`, then the last members of the message."""
_CLOSERS = {b"{": b"}", b"[": b"]"}
"""Closing bracket of each opening bracket."""
_decode_value = msgspec.json.Decoder().decode


def read_cut(beginning: bytes, end: bytes) -> Head:
    """Return as much of the head of a cut message as can be read. Never raises."""
    closed, cut_member = _close_brackets(beginning[:_FIRST_READ_BYTES])
    try:
        message = _decode_value(closed)
    except UNREADABLE:
        return MALFORMED
    if not isinstance(message, dict):
        return MALFORMED
    cut_object = message.get(cut_member)
    if isinstance(cut_object, dict):
        if match := _TWO_OBJECTS_AT_END.regex.search(end):
            cut_object.update(_members(match[1]))
            message.update(_members(match[2]))
    elif match := _MEMBERS_AT_END.regex.search(end):
        message.update(_members(match[1]))
    return lenient_head(message)


def _close_brackets(beginning: bytes) -> tuple[bytes, str]:
    """Remove the incomplete end of a message that was cut, and add the missing brackets.

    Return the message, and the name of its member that contains the cut, or "" if none does.
    """
    open_brackets: list[bytes] = []
    member_name, top_level_name = b"", ""
    complete_length, closers = 0, b""
    position, is_name_next = 0, False
    while (token := _TOKEN.regex.match(beginning, position)) and token.end() < len(beginning):
        position = token.end()
        punctuation = token[2]
        if punctuation == b":":
            if len(open_brackets) == 1:
                top_level_name = member_name[1:-1].decode("utf-8", "replace")
            is_name_next = False
            continue
        if punctuation == b",":
            is_name_next = open_brackets[-1:] == [b"{"]
            continue
        if punctuation in _CLOSERS:
            open_brackets.append(punctuation)
            is_name_next = punctuation == b"{"
        elif punctuation:
            if not open_brackets:
                break
            open_brackets.pop()
        elif is_name_next:
            member_name = token[1] or b""
            continue
        complete_length = position
        closers = b"".join(_CLOSERS[bracket] for bracket in reversed(open_brackets))
    return beginning[:complete_length] + closers, top_level_name if len(open_brackets) > 1 else ""


def _members(text: bytes) -> dict[str, Any]:
    """Decode the last members of an object."""
    try:
        members = _decode_value(b"{%b}" % text.lstrip().removeprefix(b","))
    except UNREADABLE:
        return {}
    return members if isinstance(members, dict) else {}
