"""Expansion of URI templates of levels 1 to 3, and matching of URIs against them. Source: RFC 6570.

Matching is the inverse of expansion for non-empty values. A value may also contain characters that expansion
would encode, except those that end the value. If there are several matches, earlier parts of the template
match as many characters as possible. Parts are matched from the last to the first. Each part then examines a
character at most once per variable.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TypeAlias
from urllib.parse import quote, unquote

from msgspec import Struct

RESERVED = ":/?#[]@!$&'()*+,;="
NAME = re.compile(r"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})+(?:\.(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})+)*")
TEMPLATE_PART = re.compile(r"\{([^{}]*)\}|([^{}]+)|[{}]")
Ends: TypeAlias = list[int]
"""End of the longest match of one part of the template, for each position of a text at which a match may
begin. A match counts only if all later parts match the rest of the text.
"""
NO_POSITION = -1
"""End for a position at which the part does not match."""


class Operator(Struct, frozen=True):
    """Rules for the expansion of an expression."""

    first: str = ""
    separator: str = ","
    named: bool = False
    empty_equals: bool = False
    """True if an empty value keeps its equals sign."""
    keeps_reserved: bool = False
    """True if reserved characters are not percent-encoded."""
    stops: str = "/?#"
    """Characters that a single value cannot contain."""


OPERATORS = {
    "": Operator(),
    "+": Operator(keeps_reserved=True, stops=""),
    "#": Operator(first="#", keeps_reserved=True, stops=""),
    ".": Operator(first=".", separator="."),
    "/": Operator(first="/", separator="/"),
    ";": Operator(first=";", separator=";", named=True, stops="/?#;"),
    "?": Operator(first="?", separator="&", named=True, empty_equals=True, stops="#&"),
    "&": Operator(first="&", separator="&", named=True, empty_equals=True, stops="#&"),
}


class Expression(Struct, frozen=True):
    """One `{...}` of a template."""

    operator: Operator
    names: tuple[str, ...]


class UriTemplate:
    """One template. `variables` are the names of its variables in order of appearance.

    Raises: ValueError if the text is not a template of levels 1 to 3.
    """

    __slots__ = ("_head", "_parts", "_tail", "text", "variables")

    def __init__(self, text: str) -> None:
        self.text = text
        self._parts = parts = tuple(_parse(text))
        self._head, self._tail = "", parts
        """Literal text at the start, and the other parts."""
        if parts and isinstance(parts[0], str):
            self._head, self._tail = parts[0], parts[1:]
        names = [name for part in self._parts if isinstance(part, Expression) for name in part.names]
        if len(set(names)) < len(names):
            raise ValueError(f"{text!r} names a variable twice")
        self.variables = tuple(names)

    def __repr__(self) -> str:
        return f"UriTemplate({self.text!r})"

    def expand(self, values: Mapping[str, str]) -> str:
        """Return the URI for these values. Variables without a value are omitted."""
        return "".join(part if isinstance(part, str) else _expand(part, values) for part in self._parts)

    def match(self, uri: str) -> dict[str, str] | None:
        """Return the decoded values for which the template gives this URI, or None if the URI does not
        match.
        """
        if not uri.startswith(self._head):
            return None
        tail = uri[len(self._head) :]
        values: dict[str, str] = {}
        position = 0
        for part, ends in zip(self._tail, self._part_ends(tail), strict=True):
            end = ends[position]
            if end == NO_POSITION:
                return None
            if isinstance(part, Expression):
                part_values = _values_of(part, tail[position:end])
                if part_values is None:
                    return None
                values |= part_values
            position = end
        return values if position == len(tail) else None

    def _part_ends(self, tail: str) -> list[Ends]:
        """Return the `Ends` of each part after the literal text at the start."""
        end_positions = [NO_POSITION] * len(tail) + [len(tail)]
        ends_of_parts: list[Ends] = []
        for part in reversed(self._tail):
            if isinstance(part, str):
                ends = _text_ends(tail, part, end_positions, [NO_POSITION] * len(end_positions))
            else:
                ends = _expression_ends(tail, part, end_positions)
            ends_of_parts.append(ends)
            end_positions = [
                NO_POSITION if end == NO_POSITION else position for position, end in enumerate(ends)
            ]
        return ends_of_parts[::-1]


@lru_cache(maxsize=512)
def parsed_template(text: str) -> UriTemplate:
    """Return the cached template of a text.

    Raises: ValueError if the text is not a template of levels 1 to 3.
    """
    return UriTemplate(text)


def match(template: str, uri: str) -> dict[str, str] | None:
    """Return the values for which a template gives this URI, or None if the URI does not match."""
    return parsed_template(template).match(uri)


def expand(template: str, values: Mapping[str, str]) -> str:
    """Return the URI that a template gives for these values."""
    return parsed_template(template).expand(values)


def _parse(text: str) -> Iterator[str | Expression]:
    for piece in TEMPLATE_PART.finditer(text):
        if piece[2] is not None:
            yield piece[2]
        elif piece[1] is None:
            raise ValueError(f"{text!r} has an unmatched brace")
        else:
            yield _expression(text, piece[1])


def _expression(text: str, body: str) -> Expression:
    sign = body[:1] if body[:1] in OPERATORS else ""
    names = tuple(body[len(sign) :].split(","))
    for name in names:
        if name.endswith("*") or ":" in name:
            raise ValueError(f"{text!r}: {{{body}}} uses a modifier; only levels 1 to 3 are supported")
        if not NAME.fullmatch(name):
            raise ValueError(f"{text!r}: {{{body}}} is not a list of variable names")
    return Expression(OPERATORS[sign], names)


def _expand(expression: Expression, values: Mapping[str, str]) -> str:
    operator = expression.operator
    encoded_values = [_encoded(operator, name, values[name]) for name in expression.names if name in values]
    return operator.first + operator.separator.join(encoded_values) if encoded_values else ""


def _encoded(operator: Operator, name: str, value: str) -> str:
    encoded = _keep_reserved(value) if operator.keeps_reserved else quote(value, safe="")
    if not operator.named:
        return encoded
    return f"{name}={encoded}" if encoded or operator.empty_equals else name


def _keep_reserved(value: str) -> str:
    pieces = re.split(r"(%[0-9A-Fa-f]{2})", value)
    return "".join(piece if index % 2 else quote(piece, safe=RESERVED) for index, piece in enumerate(pieces))


def _expression_ends(tail: str, expression: Expression, end_positions: Ends) -> Ends:
    """Return the `Ends` of an expression.

    `end_positions` maps each position where the expression may end to itself.
    """
    operator, count = expression.operator, len(expression.names)
    if operator.named:
        value_ends = _run_ends(tail, operator.stops.replace(operator.separator, ""), end_positions)
        # The expression may also end at once, without any pair.
        value_ends = [max(ends) for ends in zip(value_ends, end_positions, strict=True)]
    else:
        stops = operator.stops + (operator.separator if count > 1 else "")
        value_ends = _run_ends(tail, stops, end_positions)
        for _ in range(count - 1):  # values are optional from the last one on
            separator_ends = _text_ends(tail, operator.separator, value_ends, end_positions)
            value_ends = _run_ends(tail, stops, separator_ends)
    return _text_ends(tail, operator.first, value_ends, end_positions) if operator.first else value_ends


def _run_ends(tail: str, stops: str, next_ends: Ends) -> Ends:
    """Return the `Ends` of one or more characters that are not in `stops`, followed by a part with the ends
    `next_ends`.
    """
    ends = [NO_POSITION] * len(next_ends)
    end = NO_POSITION
    for position in range(len(tail) - 1, -1, -1):
        if tail[position] in stops:
            end = NO_POSITION
        else:
            if end == NO_POSITION:
                end = next_ends[position + 1]
            ends[position] = end
    return ends


def _text_ends(tail: str, text: str, next_ends: Ends, default_ends: Ends) -> Ends:
    """Return the `Ends` of `text`, followed by a part with the ends `next_ends`.

    Positions without such a match have the value of `default_ends`.
    """
    ends = default_ends.copy()
    position = tail.find(text)
    while position >= 0:
        end = next_ends[position + len(text)]
        if end != NO_POSITION:
            ends[position] = end
        position = tail.find(text, position + 1)
    return ends


def _values_of(expression: Expression, text: str) -> dict[str, str] | None:
    """Return the values in the text of an expression, or None if the names of its variables do not match."""
    operator = expression.operator
    body = text[len(operator.first) :]
    if not body:
        return {}
    if not operator.named:
        pieces = body.split(operator.separator) if len(expression.names) > 1 else [body]
        return {name: unquote(piece) for name, piece in zip(expression.names, pieces, strict=False)}
    values: dict[str, str] = {}
    for pair in body.split(operator.separator):
        name, _, value = pair.partition("=")
        if name not in expression.names or name in values:
            return None
        values[name] = unquote(value)
    return values
