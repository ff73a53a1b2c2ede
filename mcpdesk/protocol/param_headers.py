"""`x-mcp-header`: tool arguments that HTTP headers of the stateless era repeat. Source: WIRE 5.3, 5.4."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from msgspec import Struct

from mcpdesk.protocol.headers import decode_value, mismatch

KEY = "x-mcp-header"
PREFIX = "mcp-param-"
TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
TYPES = ("string", "integer", "boolean")
NUMBER = r"-?[0-9]{1,40}(?:\.[0-9]{1,40})?(?:[eE][+-]?[0-9]{1,2})?"

_VALUES = frozenset({"enum", "const", "default", "examples"})
"""Keywords that hold values, not schemas."""
_NAMED = frozenset({"$defs", "definitions", "patternProperties", "dependentSchemas"})
"""Keywords that hold schemas by name; those of `properties` alone can be mirrored."""


class Mirrored(Struct, frozen=True):
    """One argument that a header repeats: where it stands, and the header's name in lower case."""

    path: tuple[str, ...]
    header: str


def mirrored(schema: Mapping[str, Any]) -> tuple[Mirrored, ...]:
    """The annotated arguments of an input schema.

    Raises: ValueError naming the first annotation that breaks a rule.
    """
    found = tuple(_annotated(schema, (), True))
    headers = [each.header for each in found]
    for each in found:
        if headers.count(each.header) > 1:
            raise ValueError(f"{KEY}: two arguments are mirrored by the header {each.header}")
    return found


def check_parameters(
    annotated: Iterable[Mirrored], arguments: Mapping[str, Any], headers: Mapping[str, str]
) -> None:
    """Compare `Mcp-Param-*` headers with the arguments they repeat. Others are none of ours.

    Raises: RemoteProtocolError (-32020, HTTP 400) naming the header.
    """
    given: dict[str, list[str]] = {}
    for name, value in headers.items():
        given.setdefault(name.lower(), []).append(value)
    for each in annotated:
        _check(each.header, given.get(each.header, []), value_at(each.path, arguments))


def value_at(path: tuple[str, ...], arguments: Any) -> Any:
    """The argument at a path; None where there is none."""
    for name in path:
        if not isinstance(arguments, Mapping):
            return None
        arguments = arguments.get(name)
    return arguments


def _annotated(schema: Mapping[str, Any], path: tuple[str, ...], is_reachable: bool) -> Iterator[Mirrored]:
    if KEY in schema:
        yield _mirrored(schema, path, is_reachable)
    for keyword, value in schema.items():
        if keyword in _VALUES:
            continue
        if keyword == "properties" and isinstance(value, Mapping):
            for name, each in value.items():
                yield from _below(each, (*path, name), is_reachable)
        elif keyword in _NAMED and isinstance(value, Mapping):
            yield from _below(list(value.values()), path, False)
        elif keyword != KEY:
            yield from _below(value, path, False)


def _below(value: object, path: tuple[str, ...], is_reachable: bool) -> Iterator[Mirrored]:
    if isinstance(value, Mapping):
        yield from _annotated(value, path, is_reachable)
    elif isinstance(value, list):
        for each in value:
            yield from _below(each, path, False)


def _mirrored(schema: Mapping[str, Any], path: tuple[str, ...], is_reachable: bool) -> Mirrored:
    name = schema[KEY]
    if not isinstance(name, str) or not re.fullmatch(TOKEN, name):
        raise ValueError(f"{KEY} of {'.'.join(path) or 'the schema'} is no header name: {str(name)[:80]!r}")
    if not path or not is_reachable:
        raise ValueError(
            f"{KEY} {name!r} stands where no single argument is: only properties can be mirrored"
        )
    if schema.get("type") not in TYPES:
        raise ValueError(f"{KEY} {name!r} needs a property of one type: {', '.join(TYPES)}")
    return Mirrored(path, PREFIX + name.lower())


def _check(header: str, given: list[str], expected: Any) -> None:
    if len(given) > 1:
        raise mismatch(f"{header} is given more than once")
    if expected is None:
        if given:
            raise mismatch(f"{header} is given, the body has no such argument")
        return
    if not given:
        raise mismatch(f"{header} is missing, the body has the argument")
    try:
        decoded = decode_value(given[0])
    except ValueError as error:
        raise mismatch(f"{header} is malformed: {error}") from None
    if not _is_same(decoded, expected):
        raise mismatch(f"{header} is {decoded[:80]!r}, the body says {str(expected)[:80]!r}")


def _is_same(header: str, expected: Any) -> bool:
    if isinstance(expected, bool):
        return header == ("true" if expected else "false")
    if isinstance(expected, int | float):
        return re.fullmatch(NUMBER, header) is not None and Decimal(header) == Decimal(expected)
    return bool(header == expected)
