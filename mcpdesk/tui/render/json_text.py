"""JSON values as text for people (indented, compact, one-line previews, paths), and comparison of values."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

import orjson

from mcpdesk.protocol import codec

Path = tuple[str | int, ...]
"""Path of a value inside another: keys and indexes from the outside in."""

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""Matches a key that needs no quotes in a path."""


def pretty(value: Any) -> str:
    """Format a value indented by two, with keys in their order.

    Values that JSON cannot represent appear as their `str`.
    """
    try:
        return codec.dumps(value, option=orjson.OPT_INDENT_2).decode()
    except TypeError:
        return json.dumps(value, indent=2, ensure_ascii=False, default=str)


def compact(value: Any) -> str:
    """Format a value on one line, without spaces."""
    try:
        return codec.dumps(value).decode()
    except TypeError:
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str)


def path_text(path: Iterable[str | int]) -> str:
    """Format a path such as `items[0].name`. Unusual keys are quoted. The path of the whole value is `$`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        elif _PLAIN_KEY.fullmatch(part):
            text += f".{part}" if text else part
        else:
            text += f"[{json.dumps(part, ensure_ascii=False)}]"
    return text or "$"


def at_path(value: Any, path: Iterable[str | int]) -> Any:
    """Return the value at a path.

    Raises: LookupError if the path does not exist.
    """
    for part in path:
        is_list_item = isinstance(value, list) and isinstance(part, int)
        if not is_list_item and not isinstance(value, dict):
            raise LookupError(part)
        value = value[part]
    return value


def same(value: Any, other: Any) -> bool:
    """Return True if two values are equal as JSON.

    `1` is not `true`, and the order of members does not matter.
    """
    return json.dumps(value, sort_keys=True, default=str) == json.dumps(other, sort_keys=True, default=str)


def contains_all(form_value: Any, value: Any) -> bool:
    """Return True if `form_value` contains all members of `value`. `form_value` may have more members."""
    if isinstance(value, dict) and isinstance(form_value, dict):
        return all(key in form_value and contains_all(form_value[key], item) for key, item in value.items())
    if isinstance(value, list) and isinstance(form_value, list):
        return len(value) == len(form_value) and all(map(contains_all, form_value, value))
    return same(form_value, value)


def json_problem(text: str) -> str:
    """Return the first JSON syntax error of a text: `line 3, column 7: ...`, or "" if the text is JSON."""
    try:
        json.loads(text)
    except json.JSONDecodeError as error:
        return f"line {error.lineno}, column {error.colno}: {error.msg}"
    except RecursionError:
        return "nested too deeply"
    return ""


def preview(value: Any, max_length: int) -> str:
    """Return a value in at most `max_length` characters. Containers are read no further than needed."""
    text = _short_text(value, max_length)
    return text if len(text) <= max_length else text[: max(0, max_length - 1)] + "…"


def _short_text(value: Any, max_length: int) -> str:
    """Return the beginning of a value. It may be longer than `max_length` characters."""
    if isinstance(value, str):
        return json.dumps(value[: max_length + 1], ensure_ascii=False)
    if isinstance(value, dict):
        members = _fitting_members(value.items(), max_length)
        return "{" + _joined((f"{key}: ", item) for key, item in members) + "}"
    if isinstance(value, list):
        return "[" + _joined(("", item) for item in value[:max_length]) + "]"
    return compact(value)


def _fitting_members(items: Iterable[tuple[str, Any]], max_length: int) -> Iterable[tuple[str, Any]]:
    used_length = 0
    for key, item in items:
        if used_length > max_length:
            return
        used_length += len(key) + 4
        yield key[: max_length + 1], item


def _joined(parts: Iterable[tuple[str, Any]]) -> str:
    return ", ".join(label + _leaf(item) for label, item in parts)


def _leaf(value: Any) -> str:
    """Return a value inside a container: a container without its contents, or the beginning of a scalar."""
    if isinstance(value, dict):
        return "{…}" if value else "{}"
    if isinstance(value, list):
        return "[…]" if value else "[]"
    return _short_text(value, 24)
