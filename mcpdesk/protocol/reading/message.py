"""Parsing of one frame of a server into messages, first strictly, and leniently if that fails."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Struct

from mcpdesk.errors import ProtocolError
from mcpdesk.protocol import codec
from mcpdesk.protocol.jsonrpc import Id, JSONObject, is_id
from mcpdesk.protocol.reading.remark import Remark, RemarkKind

if TYPE_CHECKING:
    from mcpdesk.protocol.reading.lenient_json import NotJson

QUICK_BYTES = 64 << 10
"""Parsing a frame of at most this many bytes takes at most about 30 ms, whatever the frame contains."""
_MAX_QUOTED_LENGTH = 60
"""Maximum number of quoted characters in a remark on text around a message."""
_HEADER = re.compile(r"\s*(?:[A-Za-z-]{1,80}:[^\r\n{]{0,200}\r?\n){0,8}?content-length:[^{\[]{1,400}", re.I)
_VALUE_START = re.compile(r"\{|\[\s*[\[\]{\"'/]")
_MESSAGE_START = re.compile(r'\{\s*["\'](?:jsonrpc|id|result|error|method|params)["\']\s*:')
_MARK_DIGITS = bytes(ord("0") if chr(byte) in "0123456789" else 1 for byte in range(256))
"""Translation table that replaces each digit by "0", and any other byte by byte 1."""
_HIGH_SURROGATE, _LOW_SURROGATE = rb"\\u[dD][89abAB][0-9a-fA-F]{2}", rb"\\u[dD][c-fC-F][0-9a-fA-F]{2}"
_LONE_SURROGATE = re.compile(
    rb"%b(?!%b)|(?<!%b)%b" % (_HIGH_SURROGATE, _LOW_SURROGATE, _HIGH_SURROGATE, _LOW_SURROGATE)
)
_NUMBER_ID = re.compile(r"-?\d{1,18}(?:\.0{1,9})?")
_LONG_NUMBER = re.compile(rb"\d{19}")
_SEVERAL_LINES = Remark(
    RemarkKind.SEVERAL_LINES, "the message is spread over several lines; it must be one line"
)


class ReadFrame(Struct, frozen=True):
    """Parsed frame."""

    value: Any = None
    """Decoded message. A list if the frame has several messages, None if it has no message."""
    remarks: tuple[Remark, ...] = ()
    fault: Remark | None = None
    """Reason why a message cannot be used, or None if it can be used, or if the frame was not intended as a
    message.
    """
    id: Id | None = None
    """Apparent id of a faulty message."""
    is_response: bool = False
    """True if a faulty message appears to be a response."""

    @property
    def is_message(self) -> bool:
        """True if the frame was apparently intended as a message."""
        return self.value is not None or self.fault is not None

    @property
    def messages(self) -> list[Any]:
        """Messages in the frame."""
        if self.value is None:
            return []
        return self.value if isinstance(self.value, list) else [self.value]


def read_frame(data: bytes, *, is_line: bool = False) -> ReadFrame:
    """Parse a frame. Never raises. `is_line` is True on pipes, where each message is one line.

    A frame that is not JSON takes up to half a microsecond per byte.
    """
    return read_strictly(data, is_line=is_line) or _read_leniently(data, is_line)


def read_strictly(data: bytes, *, is_line: bool = False) -> ReadFrame | None:
    """Parse a frame. Return None if it is not JSON."""
    try:
        message = codec.decode(data)
    except ProtocolError:
        return None
    if has_long_number(data):
        message = _with_all_digits(data, message)
    if type(message) is dict and message.get("jsonrpc") == "2.0" and not (is_line and b"\n" in data):
        return ReadFrame(message)
    return _frame_of(message, [_SEVERAL_LINES] if is_line and b"\n" in data else [])


def is_answer(message: Any) -> bool:
    """Return True if a decoded message is a response, even a malformed one, such as one with a method."""
    if not isinstance(message, dict):
        return False
    if isinstance(message.get("method"), str):
        return "id" in message and message.get("result") is not None
    return "result" in message or "error" in message


def same_id(answer_id: Any, identifier: Id) -> bool:
    """Return True if a response's id matches a request's id, even in another type: `"1"`, `1.0`, `"1.0"`."""
    if isinstance(answer_id, bool) or not isinstance(answer_id, str | int | float):
        return False
    if type(answer_id) is type(identifier):
        return answer_id == identifier
    return _as_number(answer_id) is not None and _as_number(answer_id) == _as_number(identifier)


def _as_number(value: str | int | float) -> int | float | None:
    if not isinstance(value, str):
        return value
    return (float(value) if "." in value else int(value)) if _NUMBER_ID.fullmatch(value) else None


def id_remark(answer_id: Any, identifier: Id) -> Remark:
    """Return the remark on a response id whose type differs from that of the request."""
    answer_text, request_text = _quoted_value(answer_id), _quoted_value(identifier)
    remark = f"the response has the id {answer_text}, the request {request_text}"
    return Remark(RemarkKind.ID_TYPE, remark)


def repeated_answer_remark(identifier: Any) -> Remark:
    """Return the remark on a further response to an answered request."""
    return Remark(RemarkKind.REPEATED_ANSWER, f"request {identifier!r} was answered before")


def unknown_id_remark(identifier: Any) -> Remark:
    """Return the remark on a response with an unknown id, or without an id."""
    if identifier is None:
        return Remark(RemarkKind.NO_ID, "a response has no id")
    return Remark(
        RemarkKind.UNKNOWN_ID, f"a response has the id {_quoted_value(identifier)}, which no request has"
    )


def _quoted_value(value: Any) -> str:
    """Return the beginning of a value as JSON. For a list or an object, return only its type."""
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    return json.dumps(value[:_MAX_QUOTED_LENGTH] if isinstance(value, str) else value)[:_MAX_QUOTED_LENGTH]


def batch_remark(count: int) -> Remark:
    """Return the remark on an array of messages in a revision without batches."""
    remark = (
        f"{count} message{'s are' if count != 1 else ' is'} in an array (a batch), which only 2025-03-26 has"
    )
    return Remark(RemarkKind.BATCH, remark, 0)


def has_long_number(data: bytes) -> bool:
    """Return True if a number may have over 18 digits, which the fast decoder cannot always represent."""
    # A run of 19 digits contains two adjacent samples of every ninth byte. Most frames have no such pair, so
    # they are not searched.
    if b"00" not in data[::9].translate(_MARK_DIGITS):
        return False
    return b"0000" in data[::4].translate(_MARK_DIGITS) and _LONG_NUMBER.search(data) is not None


def has_lone_surrogate(data: bytes) -> bool:
    """Return True if a frame has an escaped lone surrogate."""
    return _LONE_SURROGATE.search(data) is not None


def _with_all_digits(data: bytes, message: Any) -> Any:
    """Return the same message with integers of any size."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return message


def _read_leniently(data: bytes, is_line: bool) -> ReadFrame:
    """Parse a frame that is not JSON, and add a remark on each deviation. Never raises."""
    from mcpdesk.protocol.reading.lenient_json import NotJson, read_values
    from mcpdesk.protocol.reading.text_encoding import decoded_text

    decoded = decoded_text(data)
    text, remarks, start = decoded.text, list(decoded.remarks), 0
    if "\x00" in text:
        at = decoded.offset(text.index("\x00"))
        remarks.append(Remark(RemarkKind.NUL, f"a NUL byte at offset {at}; it was ignored", at))
        text = text.replace("\x00", "")
    if header := _HEADER.match(text):
        start = header.end()
        remark = (
            "the message comes with a Content-Length header, as in LSP; it must be one line without headers"
        )
        remarks.append(Remark(RemarkKind.CONTENT_LENGTH, remark, 0))
    value_start = _after_blanks(text, start)
    if not _VALUE_START.match(text, value_start):
        if (match := _MESSAGE_START.search(text, start)) is None:
            return ReadFrame()
        value_start = match.start()
    text_before = text[start:value_start].strip()
    try:
        values = read_values(text, decoded.offset, value_start)
    except NotJson as reason:
        return ReadFrame() if text_before else _faulty_frame(text, value_start, reason, remarks)
    remarks += values.remarks
    messages, text_after = values.values, text[values.end :].strip()
    if text_before or text_after:
        # A line of a log may quote a request, so only responses are extracted from other text.
        if not all(is_answer(each) and "id" in each for each in messages):
            return ReadFrame()
        side = "before" if text_before else "after"
        quoted_text = (text_before or text_after)[:_MAX_QUOTED_LENGTH]
        remark = f"there is other text {side} the message in its line: {quoted_text!r}"
        remarks.append(Remark(RemarkKind.TEXT_AROUND, remark))
    if len(messages) > 1:
        remark = f"{len(messages)} messages are in one line; each must be on a separate line"
        remarks.append(Remark(RemarkKind.SEVERAL_MESSAGES, remark))
        return _frame_of(messages, remarks)
    if is_line and "\n" in text[value_start : values.end]:
        remarks.append(_SEVERAL_LINES)
    return _frame_of(messages[0], remarks)


def _after_blanks(text: str, position: int) -> int:
    return len(text) - len(text[position:].lstrip())


def _frame_of(value: Any, remarks: list[Remark]) -> ReadFrame:
    """Return the frame of a decoded value, with its envelope repaired if its meaning is clear."""
    envelope_remarks: dict[str, Remark] = {}
    if isinstance(value, list):
        messages = [_with_envelope(each, envelope_remarks) for each in value]
        if not messages or None in messages:
            return ReadFrame()
        return ReadFrame(messages, (*remarks, *envelope_remarks.values()))
    message = _with_envelope(value, envelope_remarks)
    return ReadFrame() if message is None else ReadFrame(message, (*remarks, *envelope_remarks.values()))


def _with_envelope(value: Any, remarks: dict[str, Remark]) -> JSONObject | None:
    """Return a message with a correct member `jsonrpc`, or None if the value is not a message.

    `remarks` has at most one remark for each member of the envelope; a repaired member adds one.
    """
    if not isinstance(value, dict):
        return None
    version = value.get("jsonrpc")
    if version == "2.0":
        return value
    method = value.get("method")
    is_call = isinstance(method, str) and ("id" in value or method.startswith("notifications/"))
    if not ("jsonrpc" in value or is_call or (is_answer(value) and "id" in value)):
        return None
    is_missing = "jsonrpc" not in value
    problem = 'the member "jsonrpc" is missing' if is_missing else f'"jsonrpc" is {_quoted_value(version)}'
    remarks["jsonrpc"] = Remark(RemarkKind.JSONRPC, f'{problem}; it must be "2.0"')
    return {**value, "jsonrpc": "2.0"}


def _faulty_frame(text: str, begin: int, reason: NotJson, remarks: list[Remark]) -> ReadFrame:
    """Return the frame of a message that cannot be parsed, with its apparent id.

    The frame is empty if the text was not intended as a message.
    """
    is_batch = text.startswith("[", begin)
    members = _outer_members(text, max(begin, text.find("{", begin)) if is_batch else begin)
    is_intended = "jsonrpc" in members or (
        "id" in members and not members.keys().isdisjoint(("result", "error"))
    )
    if not is_intended:
        return ReadFrame()
    reason_text = "; ".join([f"a message cannot be read: {reason}", *(each.text for each in remarks)])
    fault = Remark(reason.kind, reason_text, reason.at, is_fault=True)
    identifier = None if is_batch else members.get("id")
    return ReadFrame(None, (), fault, identifier, "method" not in members)


def _outer_members(text: str, begin: int) -> dict[str, Id | None]:
    """Return the keys of the outermost object that can be recognized.

    The value of `id` is a valid id, or None if the id is unclear. The value of every other key is None.
    """
    from mcpdesk.protocol.reading.lenient_json import tokens

    depth, key, members = 0, "", dict[str, Id | None]()
    is_key = is_repeated = False
    for token in tokens(text, begin):
        piece = token[0]
        if piece in ("{", "["):
            depth += 1
            is_key = piece == "{"
        elif piece in ("}", "]"):
            depth -= 1
            if not depth:
                break
        elif depth != 1 or piece.isspace():
            continue
        elif piece == ",":
            is_key = True
        elif piece == ":":
            is_key = False
        elif is_key:
            key = piece.strip("\"'")
            is_repeated = key in members
            members[key] = None
        elif key == "id":
            members["id"] = None if is_repeated else _id(piece)
            key = ""
    return members


def _id(piece: str) -> Id | None:
    try:
        value = json.loads(piece)
    except ValueError:
        return None
    return value if is_id(value) else None
