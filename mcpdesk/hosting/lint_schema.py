"""What in a tool's schema leaves a model guessing, or keeps a client from taking the tool."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from mcpdesk.server.schema import SchemaError, compile_schema

PROPERTY = re.compile(r"[A-Za-z0-9_.-]{1,64}")
"""What model APIs take as the name of a parameter."""
ALTERNATIVES = ("anyOf", "oneOf", "allOf")
SAYS_WHAT = frozenset({"type", "enum", "const", "$ref", "not", "if", *ALTERNATIVES})
"""Any of these says what a value may be."""
DEPTH = 6
NAMED = 8
"""Parameters named in one message."""


def parameter_trouble(schema: Mapping[str, Any]) -> Iterator[str]:
    """What is to be said about an input schema."""
    found = dict(_parameters(schema))
    yield from _told("without a description", [name for name, part in found.items() if not _described(part)])
    yield from _told("that may be anything", [name for name, part in found.items() if not _says_what(part)])
    odd = [name for name in found if not PROPERTY.fullmatch(name.rpartition(".")[2].removesuffix("[]"))]
    yield from _told("whose name model APIs refuse", odd)
    for key in ALTERNATIVES:
        if key in schema:
            yield f"{key} stands at the top of the input schema, where model APIs refuse it"
    yield from _required(schema)
    yield from _defaults(found, schema)


def _parameters(schema: Any, trail: str = "", depth: int = 0) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every property with its path, as `filters.sort` or `items[].name`."""
    if not isinstance(schema, Mapping) or depth > DEPTH:
        return
    properties = schema.get("properties")
    for name, part in properties.items() if isinstance(properties, Mapping) else ():
        path = f"{trail}.{name}" if trail else str(name)
        yield path, part if isinstance(part, Mapping) else {"not": {}} if part is False else {}
        yield from _parameters(part, path, depth + 1)
    yield from _parameters(schema.get("items"), f"{trail}[]", depth + 1)


def _described(part: Mapping[str, Any]) -> bool:
    """Whether anything tells what it is; a reference may tell it where it leads."""
    return bool(part.get("description") or part.get("title")) or "$ref" in part or "const" in part


def _says_what(part: Mapping[str, Any]) -> bool:
    return bool(SAYS_WHAT & part.keys())


def _told(what: str, names: list[str]) -> Iterator[str]:
    if names:
        more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
        yield f"parameter{'s' * (len(names) > 1)} {what}: {', '.join(names[:NAMED])}{more}"


def _required(schema: Mapping[str, Any]) -> Iterator[str]:
    properties = schema.get("properties") or {}
    if schema.get("additionalProperties") is False:
        for name in schema.get("required") or ():
            if name not in properties:
                yield f"{name!r} is required and not among the properties: no call can be right"


def _defaults(found: Mapping[str, Mapping[str, Any]], schema: Mapping[str, Any]) -> Iterator[str]:
    shared = {key: schema[key] for key in ("$defs", "definitions", "$schema") if key in schema}
    for name, part in found.items():
        for key in ("default", "examples"):
            given = part.get(key, [])
            values = (
                given if key == "examples" and isinstance(given, list) else [given] if key in part else []
            )
            for value in values:
                if not _fits(value, shared | dict(part)):
                    yield f"the {key.removesuffix('s')} {value!r:.80} of {name} does not fit its schema"


def _fits(value: Any, part: dict[str, Any]) -> bool:
    try:
        return compile_schema(part).accepts(value)
    except SchemaError:
        return True  # told elsewhere
