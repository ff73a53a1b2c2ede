"""Annotations that clients take: hints about a tool, and for whom content is. Source: WIRE 6.3, 6.4."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
AUDIENCE = ("user", "assistant")


def check_hints(given: Mapping[str, Any]) -> None:
    """Whether clients take these of a tool. Raises: ValueError naming the first they refuse."""
    for name in HINTS:
        if not isinstance(given.get(name, True), bool):
            raise _unfit(name, "true or false", given[name])
    if not isinstance(given.get("title", ""), str):
        raise _unfit("title", "a text", given["title"])


def check_annotations(given: Any) -> None:
    """Whether clients take these of a resource or of content. Raises: ValueError naming what they refuse."""
    if not isinstance(given, Mapping):
        raise ValueError(f"annotations are an object, not {_shown(given)}")
    audience = given.get("audience", [])
    if not isinstance(audience, list | tuple) or not all(each in AUDIENCE for each in audience):
        raise _unfit("audience", f"a list of {' and '.join(AUDIENCE)}", audience)
    priority = given.get("priority", 0)
    if isinstance(priority, bool) or not isinstance(priority, int | float) or not 0 <= priority <= 1:
        raise _unfit("priority", "a number from 0 to 1", priority)
    modified = given.get("lastModified", "")
    if not isinstance(modified, str) and not hasattr(modified, "isoformat"):
        raise _unfit("lastModified", "a date and time", modified)


def _unfit(name: str, allowed: str, given: object) -> ValueError:
    return ValueError(f"annotations: {name} is {allowed}, not {_shown(given)}")


def _shown(given: object) -> str:
    return repr(given)[:80]
