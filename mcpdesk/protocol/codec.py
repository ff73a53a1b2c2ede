"""JSON encoding and decoding of messages. All JSON on the wire passes through this module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from mcpdesk.errors import LocalProtocolError, ProtocolError, RemoteProtocolError
from mcpdesk.protocol.jsonrpc import ErrorCode, Id, JSONObject, invalid


def decode(data: bytes | memoryview) -> Any:
    """Parse one frame.

    Raises: RemoteProtocolError (-32700) if the frame is not JSON in UTF-8 or has more than 1,024 levels;
    (-32600) if an object repeats a key. Another program that reads the frame may use the other value of such
    a key.
    """
    try:
        message = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise RemoteProtocolError(ErrorCode.PARSE_ERROR, f"Parse error: {error}") from None
    try:
        encoded_again = orjson.dumps(message)
    except TypeError:  # the value is nested more deeply than the encoder allows
        encoded_again = None
    # Most clients write JSON as our encoder does. An equal encoding cannot contain a repeated key.
    if encoded_again != data and _may_repeat_keys(data, message, encoded_again):
        _check_keys(data)
    return message


def repeats_key(data: bytes) -> bool:
    """Return True if an object in a frame of valid JSON repeats a key."""
    try:
        decode(data)
    except ProtocolError as error:
        return error.code == ErrorCode.INVALID_REQUEST
    return False


def _may_repeat_keys(data: bytes | memoryview, message: Any, encoded_again: bytes | None) -> bool:
    """Return False if a frame certainly repeats no key.

    A frame without repeated keys has one colon for each key, and the colons in texts. `encoded_again`, our
    encoding of the message, always has this number of colons.
    """
    raw = bytes(data)
    colons = _count_colons(message) if encoded_again is None else encoded_again.count(b":")
    return raw.count(b":") != colons or has_escaped_colon(raw)


def has_escaped_colon(data: bytes) -> bool:
    """Return True if a text in a frame may contain an escaped colon."""
    return b"\\u003a" in data or b"\\u003A" in data


def _count_colons(message: Any) -> int:
    """Return the number of colons in the encoding of a value: one for each key, and the colons in texts."""
    count, values = 0, [message]
    while values:
        value = values.pop()
        if type(value) is str:
            count += value.count(":")
        elif type(value) is dict:
            count += len(value)
            values.extend(value)
            values.extend(value.values())
        elif type(value) is list:
            values.extend(value)
    return count


def _check_keys(data: bytes | memoryview) -> None:
    """Check that no object repeats a key. Raises: RemoteProtocolError (-32600)."""
    from json import loads

    try:
        loads(bytes(data), object_pairs_hook=_check_distinct_keys, parse_int=len, parse_float=len)
    except RecursionError:
        text = "a message nested this deeply must be written without spaces and escapes"
        raise invalid(text) from None


def _check_distinct_keys(pairs: list[tuple[str, Any]]) -> None:
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        repeated_key = next(name for index, name in enumerate(names) if name in names[:index])
        raise invalid(f"the key {sendable(repeated_key[:80])!r} is given more than once in one object")


def encode(message: Any) -> bytes:
    """Serialise one message compactly, without newlines.

    The encoder's result is copied, because it would keep the complete growth buffer of the encoder in memory.
    Raises: LocalProtocolError (-32603) for values that JSON cannot represent.
    """
    return bytes(memoryview(encode_part(message)))


def encode_part(value: Any) -> bytes:
    """Serialise a value without the copy that `encode` makes.

    The caller must insert the result into a frame at once. Raises: LocalProtocolError (-32603) for values
    that JSON cannot represent.
    """
    try:
        return dumps(value)
    except TypeError as error:
        raise LocalProtocolError(ErrorCode.INTERNAL_ERROR, f"Not expressible as JSON: {error}") from None


def dumps(value: Any, option: int = 0, default: Callable[[Any], Any] | None = None) -> bytes:
    """Like `orjson.dumps`, but integers may have any size.

    Raises: TypeError for values that JSON cannot represent.
    """
    try:
        return orjson.dumps(value, default, option)
    except TypeError as error:
        if "64-bit" not in str(error):
            raise
    from json import dumps as dump

    indent = 2 if option & orjson.OPT_INDENT_2 else None
    try:
        text = dump(
            value,
            default=default,
            ensure_ascii=False,
            allow_nan=False,
            indent=indent,
            separators=(",", ": " if indent else ":"),
            sort_keys=bool(option & orjson.OPT_SORT_KEYS),
        )
    except (ValueError, RecursionError) as error:
        raise TypeError(str(error)) from None
    return text.encode("utf-8", "replace") + b"\n" * bool(option & orjson.OPT_APPEND_NEWLINE)


def estimated_size(result: JSONObject) -> int:
    """Return the number of characters in the texts of a result, which is close to its encoded size in bytes.

    Values other than texts, and texts nested deeper than `_MAX_DEPTH`, are not counted.
    """
    content = result.get("content")
    if type(content) is list and len(content) == 1 and "structuredContent" not in result:
        text = content[0].get("text")
        if type(text) is str:
            return len(text)
    return _characters(result, _MAX_DEPTH)


_MAX_DEPTH = 6
"""Maximum number of nesting levels that `estimated_size` examines. Texts of results are at most five deep."""


def _characters(value: Any, depth: int) -> int:
    """Return the number of characters in the texts of a value, down to `depth` levels."""
    kind = type(value)
    if kind is str:
        return len(value)
    if not depth:
        return 0
    if kind is dict:
        return sum([_characters(each, depth - 1) for each in value.values()])
    if kind is list:
        return sum([_characters(each, depth - 1) for each in value])
    return 0


def result_frame(identifier: Id, result: bytes) -> bytes:
    """Wrap an encoded result in its response."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (orjson.dumps(identifier), result)


def response(identifier: Id, result: JSONObject) -> bytes:
    """Serialise a result response.

    Raises: LocalProtocolError (-32603) if JSON cannot represent the result.
    """
    try:
        encoded = orjson.dumps(result)
    except TypeError:
        encoded = encode_part(result)
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (orjson.dumps(identifier), encoded)


def error_object(error: ProtocolError) -> JSONObject:
    """Return an error as a JSON object.

    Data that JSON cannot represent is omitted, because the error must be sent anyway.
    """
    body: JSONObject = {"code": int(error.code), "message": sendable(error.message)}
    if error.data is not None:
        try:
            encode_part(error.data)
        except LocalProtocolError as unsendable:
            body["message"] += f" (its data is left out: {unsendable.message})"
        else:
            body["data"] = error.data
    return body


def error_response(identifier: Id | None, error: ProtocolError) -> bytes:
    """Serialise an error response. `identifier` is None if the id of the request could not be read."""
    message: JSONObject = {"jsonrpc": "2.0"}
    if identifier is not None:
        message["id"] = identifier
    return encode(message | {"error": error_object(error)})


def notification(method: str, params: JSONObject | None = None) -> bytes:
    """Serialise a notification."""
    if not params:
        return b'{"jsonrpc":"2.0","method":%b}' % orjson.dumps(method)
    return b'{"jsonrpc":"2.0","method":%b,"params":%b}' % (orjson.dumps(method), encode_part(params))


def request(identifier: Id, method: str, params: JSONObject) -> bytes:
    """Serialise a request."""
    return encode({"jsonrpc": "2.0", "id": identifier, "method": method, "params": params})


def sendable(text: str) -> str:
    """Return a text without lone surrogates, which occur in file names that are not UTF-8."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
