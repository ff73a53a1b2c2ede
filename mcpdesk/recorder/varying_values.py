"""Values that differ between runs: times, durations, ids and paths.

A pattern is a text, or JSON with texts. It may contain placeholders such as `{{time}}`, which match any value
of the same form. `mcpdesk test` compares results with patterns, and recorded test cases contain patterns.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Set
from typing import Any, Final

from mcpdesk.recorder.masking import MASK

_CLOCK = r"\d{2}:\d{2}(?::\d{2}(?:[.,]\d+)?)?"
_UNIT = r"(?:ns|us|µs|μs|ms|milliseconds?|s|secs?|seconds?|minutes?|min|hours?|h)"
SHAPES: Final[dict[str, str]] = {
    "uuid": r"[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}",
    "time": rf"(?:\d{{4}}-\d{{2}}-\d{{2}}(?:[T ]{_CLOCK}(?:Z|[+-]\d{{2}}:?\d{{2}})?)?|{_CLOCK})",
    "duration": rf"\d+(?:[.,]\d+)?\s?{_UNIT}",
    "number": r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?",
    "path": r"(?:~|[A-Za-z]:)?[/\\][^\s\"'`<>|:;,()\[\]{}]+",
    "id": r"[A-Za-z0-9][A-Za-z0-9_-]*",
    "any": r"[\s\S]*?",
}
"""Regular expression for each placeholder."""
_PLACEHOLDER = re.compile(rf"\{{\{{({'|'.join(SHAPES)})\}}\}}")
_NUMBER_PLACEHOLDERS = frozenset({"number", "id", "time", "duration", "any"})
"""Placeholders that also match JSON numbers."""
_TEXT_PATTERNS: Final[tuple[tuple[str, str], ...]] = (
    ("any", rf"{MASK}(?:[^\s\"']*{MASK})?"),
    ("uuid", rf"(?<![\w-]){SHAPES['uuid']}(?![\w-])"),
    ("time", rf"(?<![\w.:-])(?:\d{{4}}-\d{{2}}-\d{{2}}[T ]{_CLOCK}(?:Z|[+-]\d{{2}}:?\d{{2}})?"
     r"|\d{4}-\d{2}-\d{2}|\d{2}:\d{2}:\d{2}(?:[.,]\d+)?)(?![\w:-])"),
    ("number", r"(?<![\w.-])1[5-9]\d{8}(?:\d{3}(?:\d{3})?|\.\d+)?(?![\w.])"),  # a Unix time
    ("duration", rf"(?<![\w.,-])\d+(?:[.,]\d+)?\s?{_UNIT}(?![\w/])"),
    ("number", r"(?i:(?<=\bpid[ =:])|(?<=\bpid: )|(?<=\bprocess ))\d+\b"),
    ("path", r"(?<![\w:/.~<}])(?:~|[A-Za-z]:)?/(?:[^\s\"'`<>|:;,()\[\]{}/]+/)+[^\s\"'`<>|:;,()\[\]{}]*"),
    ("id", r"(?<![\w-])(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{12,64}(?![\w-])"),
)  # fmt: skip
"""Placeholders, and the regular expressions that find their values in a text. Longer forms come first."""
_VARYING_VALUE = re.compile(
    "|".join(f"(?P<form{index}>{expression})" for index, (_, expression) in enumerate(_TEXT_PATTERNS))
)
"""Any form of a value. The name of the group that matches has the index in `_TEXT_PATTERNS`."""
_VARYING_NAMES = re.compile(
    r"(?:^|_)(?:pid|ppid|port|id|uuid|guid|etag|nonce|token|duration|elapsed|took|latency|uptime|age|time"
    r"|timestamp|ts|date|at|started|ended|finished|created|updated|modified|expires|mtime|ctime|now|seconds"
    r"|secs|ms|us|ns)$"
)
"""Names of members, in snake case, whose numbers and ids vary."""
_CAMEL_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
"""Position between two words of a name in camel case."""


def pattern_of(value: Any, request_texts: Set[str], name: str = "") -> Any:
    """Return a pattern for a value. Texts in `request_texts` are kept, because they come from the request.

    `name` is the name of the member with the value.
    """
    if isinstance(value, dict):
        return {key: pattern_of(each, request_texts, key) for key, each in value.items()}
    if isinstance(value, list):
        return [pattern_of(item, request_texts, name) for item in value]
    if isinstance(value, bool) or value is None or str(value) in request_texts:
        return value
    is_varying = _VARYING_NAMES.search(_CAMEL_BOUNDARY.sub("_", name).lower().replace("-", "_")) is not None
    if isinstance(value, int | float):
        return "{{number}}" if is_varying else value
    pattern = _text_pattern(value, request_texts)
    has_id_form = re.fullmatch(SHAPES["id"], value) is not None and any(map(str.isdigit, value))
    return "{{id}}" if is_varying and pattern == value and has_id_form else pattern


def _text_pattern(text: str, request_texts: Set[str]) -> str:
    """Replace varying values in a text by placeholders, except those in `request_texts`."""

    def placeholder_for(match: re.Match[str]) -> str:
        name = _TEXT_PATTERNS[int((match.lastgroup or "form0").removeprefix("form"))][0]
        return match[0] if match[0] in request_texts else f"{{{{{name}}}}}"

    return _VARYING_VALUE.sub(placeholder_for, text)


def texts_in(value: Any) -> Iterator[str]:
    """Yield the texts and numbers in a value, as texts.

    A pattern keeps those that also occur in the request.
    """
    if isinstance(value, dict):
        for item in value.values():
            yield from texts_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from texts_in(item)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def has_placeholder(pattern: Any) -> bool:
    """Return True if the pattern contains a placeholder."""
    return any(_PLACEHOLDER.search(text) for text in texts_in(pattern))


def longest_part(pattern: str) -> str:
    """Return the longest part of a pattern that has no placeholders."""
    return max((piece.strip() for piece in _PLACEHOLDER.split(pattern)[::2]), key=len)


def fits(pattern: Any, value: Any) -> bool:
    """Return True if a value matches a pattern."""
    if isinstance(pattern, dict):
        return (
            isinstance(value, dict)
            and pattern.keys() == value.keys()
            and all(fits(each, value[key]) for key, each in pattern.items())
        )
    if isinstance(pattern, list):
        return isinstance(value, list) and len(pattern) == len(value) and all(map(fits, pattern, value))
    if isinstance(pattern, str) and (placeholder := _PLACEHOLDER.fullmatch(pattern)) is not None:
        if placeholder[1] == "any":
            return True
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and placeholder[1] in _NUMBER_PLACEHOLDERS:
            return True
    if isinstance(pattern, str) and isinstance(value, str):
        return re.fullmatch(_regular_expression(pattern), value) is not None
    return (type(pattern) is type(value) and pattern == value) or _is_same_number(pattern, value)


def _is_same_number(first: Any, second: Any) -> bool:
    """Return True if two values are equal numbers, even if one is a float and the other an integer."""
    return first == second and all(
        isinstance(number, int | float) and not isinstance(number, bool) for number in (first, second)
    )


def _regular_expression(pattern: str) -> str:
    """Return the regular expression for a pattern."""
    pieces = _PLACEHOLDER.split(pattern)
    return "".join(SHAPES[piece] if index % 2 else re.escape(piece) for index, piece in enumerate(pieces))
