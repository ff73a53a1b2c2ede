"""Arguments as they are typed: `key=value` is what the schema says of `key`, `key:=json` is any value."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from mcpdesk.errors import DeskUserError

_ARGUMENT = re.compile(r"(?P<key>[^=]+?)(?P<is_json>:)?=(?P<value>.*)", re.DOTALL)
FORM = "Write key=value for a text, key:=json for any other value."
SWITCHES = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}
DEEPEST = 8
"""References and alternatives of a schema that are followed within each other."""


def parse_arguments(words: Iterable[str], whole: str | None = None) -> dict[str, Any]:
    """The arguments as one object. `whole` is an object in JSON to start from; `-` reads it from stdin.

    Raises: DeskUserError naming the word that is not understood.
    """
    arguments = _object(sys.stdin.read() if whole == "-" else whole) if whole else {}
    for word in words:
        found = _ARGUMENT.fullmatch(word)
        if found is None:
            raise DeskUserError(f"{word!r} is not an argument.", FORM)
        key, value = found["key"], found["value"]
        arguments[key] = _json(value, key) if found["is_json"] else value
    return arguments


def given_as_text(words: Iterable[str]) -> set[str]:
    """The names of the arguments that were written `key=value`."""
    found = [match for match in map(_ARGUMENT.fullmatch, words) if match is not None]
    return {match["key"] for match in found if not match["is_json"]}


def fitted(arguments: dict[str, Any], texts: set[str], schema: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with those of `texts` converted to the type the input schema of the tool names.

    What allows a text stays one. What cannot be converted stays as it is: the server says what is allowed.
    """
    properties = schema.get("properties")
    known = properties if isinstance(properties, dict) else {}
    return {
        key: _as_schema_says(value, set(_types(known.get(key), schema))) if key in texts else value
        for key, value in arguments.items()
    }


def _types(node: Any, schema: Mapping[str, Any], depth: int = 0) -> Iterator[str]:
    """The JSON types a part of a schema allows; none where it does not say."""
    if not isinstance(node, dict) or depth > DEEPEST:
        return
    named = node.get("type", ())
    yield from (named,) if isinstance(named, str) else named
    yield from (
        JSON_TYPES[type(each)] for each in (*node.get("enum", ()), node.get("const")) if each is not None
    )
    reference = str(node.get("$ref", ""))
    if reference.startswith("#/$defs/"):
        yield from _types(schema.get("$defs", {}).get(reference.removeprefix("#/$defs/")), schema, depth + 1)
    for alternative in (*node.get("anyOf", ()), *node.get("oneOf", ()), *node.get("allOf", ())):
        yield from _types(alternative, schema, depth + 1)


def _as_schema_says(text: str, types: set[str]) -> Any:
    if "string" in types:
        return text
    if (
        "boolean" in types
        and text.lower() in SWITCHES
        and not (types & {"integer", "number"} and text in "01")
    ):
        return SWITCHES[text.lower()]
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return text
    kind = JSON_TYPES[type(value)]
    fits = kind in types or (kind == "integer" and "number" in types)
    return value if fits else text


JSON_TYPES = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
    type(None): "null",
}


def texts_only(words: Iterable[str]) -> dict[str, str]:
    """Arguments of a prompt, which are texts.

    Raises: DeskUserError naming the word that is something else.
    """
    arguments = parse_arguments(words)
    for key, value in arguments.items():
        if not isinstance(value, str):
            raise DeskUserError(f"{key}: a prompt's arguments are texts.", f"Write {key}=value.")
    return arguments


def _json(text: str, key: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DeskUserError(f"{key}: {text!r} is not JSON: {error}.", FORM) from None


def _object(text: str) -> dict[str, Any]:
    value = _json(text, "--input")
    if not isinstance(value, dict):
        raise DeskUserError(
            "--input: the arguments have to be a JSON object.", 'For example {"name": "Ada"}.'
        )
    return value
