"""Whether an answer keeps the bounds of a flat field, in words a person understands. Source: WIRE 6.7."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Any

from mcpdesk.inbox.question import host_of

_EMAIL = re.compile(r"[^@\s]+@[^@\s.]+(\.[^@\s.]+)*")
_WHOLE = re.compile(r"[+-]?\d{1,300}")
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?")


def out_of_bounds(rules: Mapping[str, Any], given: str | int | None) -> str:
    """What is wrong with a text, or with how many were chosen; empty when nothing is.

    None: one of the options was chosen, and those always fit.
    """
    if isinstance(given, int):
        return _outside(given, rules.get("minItems"), rules.get("maxItems"), "choose {}")
    if given is None:
        return ""
    if rules.get("type") in ("number", "integer"):
        return _number_problem(rules, given)
    long = _outside(len(given), rules.get("minLength"), rules.get("maxLength"), "{} characters")
    form = _FORMATS.get(str(rules.get("format")))
    return long or ("" if form is None or form(given) else f"write {_EXAMPLES[rules['format']]}")


def number(text: str) -> int | float | None:
    """The number a text stands for, or None."""
    if _WHOLE.fullmatch(text):
        return int(text)
    value = float(text) if _DECIMAL.fullmatch(text) else math.nan
    return value if math.isfinite(value) else None


def link_problem(link: str) -> str:
    """Why a link is not one to open; empty when it is."""
    return "" if host_of(link) else "only http and https links can be opened"


def _number_problem(rules: Mapping[str, Any], text: str) -> str:
    value = number(text)
    if value is None:
        return "write a number"
    if rules["type"] == "integer" and value != int(value):
        return "write a whole number"
    return _outside(value, rules.get("minimum"), rules.get("maximum"), "{}")


def _outside(value: float, low: Any, high: Any, said: str) -> str:
    """Beyond one of the bounds, where they are numbers; `said` puts them in words."""
    if isinstance(low, int | float) and value < low:
        return said.format(f"at least {low}")
    if isinstance(high, int | float) and value > high:
        return said.format(f"at most {high}")
    return ""


def _parses(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def accepts(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return accepts


def _is_uri(text: str) -> bool:
    return re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*:\S+", text) is not None


def _moment(text: str) -> None:
    if datetime.fromisoformat(text).tzinfo is None or "T" not in text.upper():
        raise ValueError(text)


_FORMATS: dict[str, Callable[[str], bool]] = {
    "email": lambda text: _EMAIL.fullmatch(text) is not None,
    "uri": _is_uri,
    "date": _parses(lambda text: date.fromisoformat(text) if len(text) == 10 else int("")),
    "date-time": _parses(_moment),
}
_EXAMPLES = {
    "email": "an address like ada@example.org",
    "uri": "a URI like https://example.org/",
    "date": "a date like 2026-07-28",
    "date-time": "a moment like 2026-07-28T12:00:00Z",
}
