"""Arguments as they are typed: `key=value` is a text, `key:=json` is any value."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from typing import Any

from mcpdesk.errors import DeskUserError

_ARGUMENT = re.compile(r"(?P<key>[^=]+?)(?P<is_json>:)?=(?P<value>.*)", re.DOTALL)
FORM = "Write key=value for a text, key:=json for any other value."


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
