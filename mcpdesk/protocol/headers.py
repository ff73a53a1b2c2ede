"""HTTP headers that repeat parts of a message in the stateless era.

Source: MCP basic/transports/streamable-http, server/tools.

`Mcp-Method` repeats the method of a request, and `Mcp-Name` the name or URI in its parameters. `Mcp-Param-*`
repeat the tool arguments that a schema marks with `x-mcp-header`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from msgspec import Struct

from mcpdesk.errors import RemoteProtocolError
from mcpdesk.protocol.jsonrpc import ErrorCode
from mcpdesk.protocol.methods import METHODS

_BASE64_PREFIX, _BASE64_SUFFIX = "=?base64?", "?="

ROUTING_HEADERS = ("mcp-protocol-version", "mcp-method", "mcp-name")


def encode_value(value: str) -> str:
    """Encode a header value. A plain value is unchanged. Any other value becomes Base64 text in
    `=?base64?...?=`.
    """
    is_plain = all(" " <= char <= "~" for char in value)
    is_padded = value != value.strip(" \t")
    looks_encoded = value.startswith(_BASE64_PREFIX) and value.endswith(_BASE64_SUFFIX)
    if is_plain and not is_padded and not looks_encoded:
        return value
    return _BASE64_PREFIX + base64.b64encode(value.encode()).decode("ascii") + _BASE64_SUFFIX


def decode_value(value: str) -> str:
    """Decode a value that `encode_value` encoded.

    Raises: ValueError for characters that are invalid in headers, and for `=?base64?...?=` around text that
    is not canonical Base64 of UTF-8.
    """
    if not all(" " <= char <= "~" or char == "\t" for char in value):
        raise ValueError("it has characters other than visible ASCII and blanks")
    is_marked = value.startswith(_BASE64_PREFIX) and value.endswith(_BASE64_SUFFIX)
    if not is_marked or len(value) < len(_BASE64_PREFIX + _BASE64_SUFFIX):
        return value
    body = value[len(_BASE64_PREFIX) : -len(_BASE64_SUFFIX)]
    try:
        raw = base64.b64decode(body, validate=True)
        text = raw.decode("utf-8")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise ValueError(str(error)) from None
    if base64.b64encode(raw).decode("ascii") != body:
        raise ValueError("not canonical Base64")
    return text


def mismatch(reason: str) -> RemoteProtocolError:
    """Return the error for headers that are missing, malformed or contradict the body."""
    return RemoteProtocolError(ErrorCode.HEADER_MISMATCH, f"Header mismatch: {reason}")


def check_routing(headers: Mapping[str, str], version: str, method: str, params: Mapping[str, Any]) -> None:
    """Compare the routing headers (names in lower case) with the body.

    Raises: RemoteProtocolError (-32020, HTTP 400) that names the header.
    """
    header_version = headers.get("mcp-protocol-version")
    if header_version != version:
        raise mismatch(
            f"MCP-Protocol-Version is {_quoted(header_version)}, but the body has {version[:80]!r}"
        )
    header_method = headers.get("mcp-method")
    if header_method != method:
        raise mismatch(f"Mcp-Method is {_quoted(header_method)}, but the body has {method[:80]!r}")
    known_method = METHODS.get(method)
    if known_method is not None and known_method.routing_field:
        check_name(headers.get("mcp-name"), params.get(known_method.routing_field))


def adapted_headers(message: Mapping[str, Any], headers: Mapping[str, str]) -> dict[str, str]:
    """Return `headers` (names in lower case), adapted to a request whose method or name was changed."""
    new_headers = {name.lower(): value for name, value in headers.items()}
    if "mcp-method" in new_headers:
        new_headers["mcp-method"] = message["method"]
    known_method = METHODS.get(message["method"])
    name = message.get("params", {}).get(known_method.routing_field if known_method else "")
    if "mcp-name" in new_headers and isinstance(name, str):
        new_headers["mcp-name"] = encode_value(name)
    return new_headers


def check_name(header: str | None, expected: object) -> None:
    """Compare `Mcp-Name` with the name in the body.

    Raises: RemoteProtocolError (-32020, HTTP 400) with the reason.
    """
    if header is None:
        raise mismatch("Mcp-Name is missing")
    is_plain = header.isascii() and header.isprintable() and not header.startswith(_BASE64_PREFIX)
    if is_plain and header == expected:
        return
    try:
        decoded = decode_value(header)
    except ValueError as error:
        raise mismatch(f"Mcp-Name is malformed: {error}") from None
    if decoded != expected:
        raise mismatch(f"Mcp-Name is {decoded[:80]!r}, but the body has {str(expected)[:80]!r}")


def _quoted(value: str | None) -> str:
    return "missing" if value is None else repr(value[:80])


SCHEMA_KEY = "x-mcp-header"
PARAM_PREFIX = "mcp-param-"
HEADER_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
MIRRORED_TYPES = ("string", "integer", "boolean")
_NUMBER = r"-?[0-9]{1,40}(?:\.[0-9]{1,40})?(?:[eE][+-]?[0-9]{1,2})?"

_VALUE_KEYWORDS = frozenset({"enum", "const", "default", "examples"})
"""Keywords that contain values, not schemas."""
_SCHEMA_MAP_KEYWORDS = frozenset({"$defs", "definitions", "patternProperties", "dependentSchemas"})
"""Keywords that contain schemas by name. Headers cannot mirror these schemas."""


class MirroredArgument(Struct, frozen=True):
    """One argument that a header repeats: the argument's path, and the header's name in lower case."""

    path: tuple[str, ...]
    header: str


def mirrored_arguments(schema: Mapping[str, Any]) -> tuple[MirroredArgument, ...]:
    """Return the annotated arguments of an input schema.

    Raises: ValueError for the first invalid annotation.
    """
    mirrored = tuple(_annotated_arguments(schema, (), True))
    headers = [each.header for each in mirrored]
    for header in headers:
        if headers.count(header) > 1:
            raise ValueError(f"{SCHEMA_KEY}: two arguments are mirrored by the header {header}")
    return mirrored


def check_parameters(
    mirrored: Iterable[MirroredArgument], arguments: Mapping[str, Any], headers: Mapping[str, str]
) -> None:
    """Compare the `Mcp-Param-*` headers with the arguments that they repeat. Other headers are ignored.

    Raises: RemoteProtocolError (-32020, HTTP 400) that names the header.
    """
    values_by_name: dict[str, list[str]] = {}
    for name, value in headers.items():
        values_by_name.setdefault(name.lower(), []).append(value)
    for each in mirrored:
        _check_parameter(each.header, values_by_name.get(each.header, []), value_at(each.path, arguments))


def value_at(path: tuple[str, ...], arguments: Any) -> Any:
    """Return the argument at a path, or None if it is missing."""
    for name in path:
        if not isinstance(arguments, Mapping):
            return None
        arguments = arguments.get(name)
    return arguments


def _annotated_arguments(
    schema: Mapping[str, Any], path: tuple[str, ...], is_reachable: bool
) -> Iterator[MirroredArgument]:
    """Yield the annotated arguments below `path`.

    `is_reachable` is True if only `properties` lead to the schema. Then `path` identifies one argument.
    """
    if SCHEMA_KEY in schema:
        yield _mirrored_argument(schema, path, is_reachable)
    for keyword, value in schema.items():
        if keyword in _VALUE_KEYWORDS:
            continue
        if keyword == "properties" and isinstance(value, Mapping):
            for name, each in value.items():
                yield from _arguments_below(each, (*path, name), is_reachable)
        elif keyword in _SCHEMA_MAP_KEYWORDS and isinstance(value, Mapping):
            yield from _arguments_below(list(value.values()), path, False)
        elif keyword != SCHEMA_KEY:
            yield from _arguments_below(value, path, False)


def _arguments_below(value: object, path: tuple[str, ...], is_reachable: bool) -> Iterator[MirroredArgument]:
    if isinstance(value, Mapping):
        yield from _annotated_arguments(value, path, is_reachable)
    elif isinstance(value, list):
        for each in value:
            yield from _arguments_below(each, path, False)


def _mirrored_argument(
    schema: Mapping[str, Any], path: tuple[str, ...], is_reachable: bool
) -> MirroredArgument:
    """Return the argument that a schema annotates. Raises: ValueError if this is not allowed."""
    name = schema[SCHEMA_KEY]
    if not isinstance(name, str) or not re.fullmatch(HEADER_TOKEN, name):
        location = ".".join(path) or "the schema"
        raise ValueError(f"{SCHEMA_KEY} of {location} is not a header name: {str(name)[:80]!r}")
    if not path or not is_reachable:
        raise ValueError(
            f"{SCHEMA_KEY} {name!r} is not at a single argument: only properties can be mirrored"
        )
    if schema.get("type") not in MIRRORED_TYPES:
        raise ValueError(f"{SCHEMA_KEY} {name!r} needs a property of one type: {', '.join(MIRRORED_TYPES)}")
    return MirroredArgument(path, PARAM_PREFIX + name.lower())


def _check_parameter(header: str, values: list[str], expected: Any) -> None:
    """Compare the values of one header with an argument. Raises: RemoteProtocolError (-32020)."""
    if len(values) > 1:
        raise mismatch(f"{header} is given more than once")
    if expected is None:
        if values:
            raise mismatch(f"{header} is given, but the body has no such argument")
        return
    if not values:
        raise mismatch(f"{header} is missing, but the body has the argument")
    try:
        decoded = decode_value(values[0])
    except ValueError as error:
        raise mismatch(f"{header} is malformed: {error}") from None
    if not _is_same(decoded, expected):
        raise mismatch(f"{header} is {decoded[:80]!r}, but the body has {str(expected)[:80]!r}")


def _is_same(header: str, expected: Any) -> bool:
    if isinstance(expected, bool):
        return header == ("true" if expected else "false")
    if isinstance(expected, int | float):
        return re.fullmatch(_NUMBER, header) is not None and Decimal(header) == Decimal(expected)
    return bool(header == expected)
