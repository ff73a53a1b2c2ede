"""Values of an entry of a configuration file, by key; a fault is a sentence."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_Scalar = str | int | float | bool


class InvalidEntry(ValueError):
    """An entry that cannot be used; its text says why."""


def text_at(given: Mapping[str, Any], key: str) -> str:
    """The text of a key, empty if it is missing or null. Raises: InvalidEntry."""
    found = given.get(key)
    if found is not None and not isinstance(found, str):
        raise InvalidEntry(f"{key} has to be a text")
    return found or ""


def texts_at(given: Mapping[str, Any], key: str) -> list[str]:
    """The texts of a list; numbers and true and false are written out. Raises: InvalidEntry."""
    found = given.get(key)
    if found is not None and not isinstance(found, list):
        raise InvalidEntry(f"{key} has to be a list")
    return [_written(each, f"{key}[{number}]") for number, each in enumerate(found or ())]


def pairs_at(given: Mapping[str, Any], key: str) -> dict[str, str]:
    """The texts of an object by name, without those that are null. Raises: InvalidEntry."""
    found = given.get(key)
    if found is not None and not isinstance(found, dict):
        raise InvalidEntry(f"{key} has to be an object")
    items = (found or {}).items()
    return {str(name): _written(each, f"{key}.{name}"[:100]) for name, each in items if each is not None}


def _written(value: Any, place: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, _Scalar):
        raise InvalidEntry(f"{place} has to be a text")
    return value if isinstance(value, str) else str(value)
