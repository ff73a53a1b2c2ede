"""Typed access to the values of a configuration entry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_Scalar = str | int | float | bool


class InvalidEntry(ValueError):
    """An entry is invalid. The text is the reason."""


class OnlyInClient(InvalidEntry):
    """An entry is valid, but only its client knows how to reach the server."""


def text_at(keys: Mapping[str, Any], key: str) -> str:
    """Return the string at a key, or "" if the key is missing or null. Raises: InvalidEntry."""
    value = keys.get(key)
    if value is not None and not isinstance(value, str):
        raise InvalidEntry(f"{key} must be a string")
    return value or ""


def texts_at(keys: Mapping[str, Any], key: str) -> list[str]:
    """Return the list at a key as strings. Numbers and booleans are converted. Raises: InvalidEntry."""
    value = keys.get(key)
    if value is not None and not isinstance(value, list):
        raise InvalidEntry(f"{key} must be a list")
    return [_as_string(each, f"{key}[{number}]") for number, each in enumerate(value or ())]


def pairs_at(keys: Mapping[str, Any], key: str) -> dict[str, str]:
    """Return the object at a key as strings by name. Null values are left out. Raises: InvalidEntry."""
    value = keys.get(key)
    if value is not None and not isinstance(value, dict):
        raise InvalidEntry(f"{key} must be an object")
    items = (value or {}).items()
    return {str(name): _as_string(each, f"{key}.{name}"[:100]) for name, each in items if each is not None}


def _as_string(value: Any, location: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, _Scalar):
        raise InvalidEntry(f"{location} must be a string")
    return value if isinstance(value, str) else str(value)
