"""Bytes to message and back: the one home of JSON on the wire."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson

from mcpdesk.errors import LocalProtocolError, ProtocolError, RemoteProtocolError
from mcpdesk.protocol.jsonrpc import ErrorCode, Id, JSONObject, invalid


def decode(data: bytes | memoryview) -> Any:
    """Parse one frame.

    Raises: RemoteProtocolError (-32700) for what is not UTF-8 JSON of at most 1,024 levels, and (-32600) for
    an object that gives a key twice: another program that reads the frame may take the other value.
    """
    try:
        message = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        raise RemoteProtocolError(ErrorCode.PARSE_ERROR, f"Parse error: {error}") from None
    try:
        plain = orjson.dumps(message)
    except TypeError:  # more levels than the encoder writes
        plain = None
    # Most clients write JSON as our encoder does: then no key can be given twice.
    if plain != data and _may_repeat_keys(data, message, plain):
        _check_keys(data)
    return message


def repeats_key(data: bytes) -> bool:
    """Whether an object in a frame of valid JSON gives a key twice."""
    try:
        decode(data)
    except ProtocolError as error:
        return error.code == ErrorCode.INVALID_REQUEST
    return False


def _may_repeat_keys(data: bytes | memoryview, message: Any, plain: bytes | None) -> bool:
    """Whether a frame may say more than what was decoded from it: False when no key in it is given twice.

    Then it has one colon for every key and those in the message's texts, as `plain` has, the message as our
    encoder writes it.
    """
    raw = bytes(data)
    colons = _count_colons(message) if plain is None else plain.count(b":")
    return raw.count(b":") != colons or has_escaped_colon(raw)


def has_escaped_colon(data: bytes) -> bool:
    """Whether a text in a frame may hold a colon that is not there as one."""
    return b"\\u003a" in data or b"\\u003A" in data


def _count_colons(message: Any) -> int:
    """How many colons a value has when it is written out: one for every key, and those in its texts."""
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
    """Raises: RemoteProtocolError (-32600) for a key that is given twice in one object."""
    from json import loads

    try:
        loads(bytes(data), object_pairs_hook=_distinct, parse_int=len, parse_float=len)
    except RecursionError:
        told = "a message nested this deeply must be written without spaces and escapes"
        raise invalid(told) from None


def _distinct(pairs: list[tuple[str, Any]]) -> None:
    names = [name for name, _ in pairs]
    if len(set(names)) < len(names):
        twice = next(name for place, name in enumerate(names) if name in names[:place])
        raise invalid(f"the key {sendable(twice[:80])!r} is given more than once in one object")


def encode(message: Any) -> bytes:
    """Serialise one message compactly, without any newline.

    The result is copied: what the encoder returns keeps its whole growth buffer alive while it is kept.
    Raises: LocalProtocolError (-32603) for values JSON cannot carry.
    """
    return bytes(memoryview(encode_part(message)))


def encode_part(value: Any) -> bytes:
    """Serialise a value that is put into a frame at once, and so need not be copied.

    Raises: LocalProtocolError (-32603) for values JSON cannot carry.
    """
    try:
        return dumps(value)
    except TypeError as error:
        raise LocalProtocolError(ErrorCode.INTERNAL_ERROR, f"Not expressible as JSON: {error}") from None


def dumps(value: Any, option: int = 0, default: Callable[[Any], Any] | None = None) -> bytes:
    """`orjson.dumps`, but integers may have any size. Raises: TypeError for values JSON cannot carry."""
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


def result_frame(identifier: Id, result: bytes) -> bytes:
    """Wrap an encoded result in its response."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (orjson.dumps(identifier), result)


def response(identifier: Id, result: JSONObject) -> bytes:
    """Serialise a result response. Raises: LocalProtocolError (-32603) for a result JSON cannot carry."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (orjson.dumps(identifier), encode_part(result))


def error_object(error: ProtocolError) -> JSONObject:
    """The wire form of an error. What JSON cannot carry of it stays behind: an error has to arrive."""
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
    """Serialise an error response; without `id` when the request's could not be read."""
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
    """A text without lone surrogates, which file names that are no UTF-8 bring along."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()
