"""URI templates, levels 1 to 3: expanding them, and matching URIs against them. Source: RFC 6570.

Matching inverts expansion for values that are not empty, and is kinder than it: characters that expansion
would encode are taken as they are, as long as they do not end the part they stand in.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from urllib.parse import quote, unquote

from msgspec import Struct

RESERVED = ":/?#[]@!$&'()*+,;="
NAME = re.compile(r"(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})+(?:\.(?:[A-Za-z0-9_]|%[0-9A-Fa-f]{2})+)*")
PIECE = re.compile(r"\{([^{}]*)\}|([^{}]+)|[{}]")


class Operator(Struct, frozen=True):
    """How an expression is written out. `stops` are the characters no single value may contain."""

    first: str = ""
    separator: str = ","
    named: bool = False
    empty_equals: bool = False
    """Whether an empty value keeps its equals sign."""
    keeps_reserved: bool = False
    stops: str = "/?#"


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
    """One `{...}`."""

    operator: Operator
    names: tuple[str, ...]


class UriTemplate:
    """One template. `variables` are its names in order of appearance.

    Raises: ValueError when the text is no template of levels 1 to 3.
    """

    __slots__ = ("_groups", "_parts", "_pattern", "text", "variables")

    def __init__(self, text: str) -> None:
        self.text = text
        self._parts = tuple(_parse(text))
        names = [name for part in self._parts if isinstance(part, Expression) for name in part.names]
        if len(set(names)) < len(names):
            raise ValueError(f"{text!r} names a variable twice")
        self.variables = tuple(names)
        self._groups = [part for part in self._parts if isinstance(part, Expression)]
        self._pattern = re.compile("".join(map(_pattern, self._parts)), re.DOTALL)

    def __repr__(self) -> str:
        return f"UriTemplate({self.text!r})"

    def expand(self, values: Mapping[str, str]) -> str:
        """The URI for these values; variables without one are left out."""
        return "".join(part if isinstance(part, str) else _expand(part, values) for part in self._parts)

    def match(self, uri: str) -> dict[str, str] | None:
        """The values that make this URI, decoded, or None when it does not fit."""
        found = self._pattern.fullmatch(uri)
        if found is None:
            return None
        values: dict[str, str] = {}
        for expression, text in zip(self._groups, found.groups(), strict=True):
            part = _read(expression, text or "")
            if part is None:
                return None
            values |= part
        return values


@lru_cache(maxsize=512)
def parsed(text: str) -> UriTemplate:
    """A template by its text, kept.

    Raises: ValueError when the text is no template of levels 1 to 3.
    """
    return UriTemplate(text)


def match(template: str, uri: str) -> dict[str, str] | None:
    """The values with which a template makes this URI, or None when it does not fit."""
    return parsed(template).match(uri)


def expand(template: str, values: Mapping[str, str]) -> str:
    """The URI a template makes of these values."""
    return parsed(template).expand(values)


def _parse(text: str) -> Iterator[str | Expression]:
    for piece in PIECE.finditer(text):
        if piece[2] is not None:
            yield piece[2]
        elif piece[1] is None:
            raise ValueError(f"{text!r} has a brace without its partner")
        else:
            yield _expression(text, piece[1])


def _expression(text: str, body: str) -> Expression:
    sign = body[:1] if body[:1] in OPERATORS else ""
    names = tuple(body[len(sign) :].split(","))
    for name in names:
        if name.endswith("*") or ":" in name:
            raise ValueError(f"{text!r}: {{{body}}} uses a modifier; only levels 1 to 3 are understood")
        if not NAME.fullmatch(name):
            raise ValueError(f"{text!r}: {{{body}}} is not a list of variable names")
    return Expression(OPERATORS[sign], names)


def _expand(expression: Expression, values: Mapping[str, str]) -> str:
    operator = expression.operator
    shown = [_written(operator, name, values[name]) for name in expression.names if name in values]
    return operator.first + operator.separator.join(shown) if shown else ""


def _written(operator: Operator, name: str, value: str) -> str:
    encoded = _keep_reserved(value) if operator.keeps_reserved else quote(value, safe="")
    if not operator.named:
        return encoded
    return f"{name}={encoded}" if encoded or operator.empty_equals else name


def _keep_reserved(value: str) -> str:
    pieces = re.split(r"(%[0-9A-Fa-f]{2})", value)
    return "".join(piece if index % 2 else quote(piece, safe=RESERVED) for index, piece in enumerate(pieces))


def _pattern(part: str | Expression) -> str:
    """A regular expression with one group per expression, holding the expression's whole text."""
    if isinstance(part, str):
        return re.escape(part)
    operator, count = part.operator, len(part.names)
    value = _value(operator, count)
    if operator.named:
        ends = re.escape(operator.stops.replace(operator.separator, ""))
        return rf"((?:{re.escape(operator.first)}[^{ends}]*)?)"
    rest = f"(?:{re.escape(operator.separator)}{value})" + f"{{0,{count - 1}}}"
    whole = f"{re.escape(operator.first)}{value}{rest}"
    return f"((?:{whole})?)" if operator.first else f"({whole})"


def _value(operator: Operator, count: int) -> str:
    stops = operator.stops + (operator.separator if count > 1 else "")
    return f"[^{re.escape(stops)}]+" if stops else ".+"


def _read(expression: Expression, text: str) -> dict[str, str] | None:
    """Values out of one expression's text; None when it does not fit after all."""
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
