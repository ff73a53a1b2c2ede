"""Parser for the filter language of the traffic, on the screen and on the command line.

user-profile                     plain words search names, peers and the bytes of every frame
"hello world"                    quotes for text with blanks
method:tools/call tool:Bash peer:claude server:profiles replica:web-1 dir:in kind:notification
status:error|pending is:held id:42 rev:2026-07-28 >200ms <=1s >10kb since:5m since:12:03
not status:ok (tool:Bash or method:resources/)

All adjacent fields must match; `or` has a lower precedence than adjacency, `not` a higher one. Values match
substrings, ignoring case; `a|b` matches either. The parser does not depend on the storage of exchanges.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from time import localtime, mktime
from typing import NamedTuple, NoReturn

from msgspec import Struct

from mcpdesk.errors import DeskUserError
from mcpdesk.recorder.index.exchange import ExchangeKind, Status


class QueryError(DeskUserError):
    """The filter is invalid. `position` is the offset of the error in characters, from 0."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.message = message
        self.position = position


class Word(Struct, frozen=True):
    """Text in lower case. It may occur in names, in the name of the peer, or in the bytes of a frame."""

    text: str


class Field(Struct, frozen=True):
    """Condition that a property (`method`, `peer` and so on) has one of the values."""

    name: str
    values: tuple[str, ...]


class Limit(Struct, frozen=True):
    """Condition that the duration in seconds, or the size in bytes, is above or below a bound."""

    quantity: str
    """`elapsed` or `size`."""
    sign: str
    """One of `>`, `<`, `>=`, `<=`."""
    bound: float


class StartedSince(Struct, frozen=True):
    """Condition that the exchange started at or after this Unix time in seconds."""

    time: float


class StartedWithin(Struct, frozen=True):
    """Condition that the exchange started at most this many seconds before the filter is evaluated."""

    seconds: float


class About(Struct, frozen=True):
    """Condition that a request to a server is about one item. The filter language has no words for it."""

    server: str
    """Exact name of the server."""
    method: str
    """Current name of the method, such as `tools/call`."""
    is_name: Callable[[str], bool]
    """Returns True for the names, or URIs, of the item."""


class Not(Struct, frozen=True):
    """Negation."""

    node: Node


class All(Struct, frozen=True):
    """Conjunction."""

    nodes: tuple[Node, ...]


class AnyOf(Struct, frozen=True):
    """Disjunction."""

    nodes: tuple[Node, ...]


Node = Word | Field | Limit | StartedSince | StartedWithin | About | Not | All | AnyOf

EVERYTHING = All(())
"""Filter that matches every exchange."""

_SECONDS = {"us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
_BYTES = {"b": 1, "kb": 1000, "kib": 1024, "mb": 1000**2, "mib": 1024**2, "gb": 1000**3, "gib": 1024**3}
_STATUSES: dict[str, tuple[str, ...]] = {status.value: (status.value,) for status in Status} | {
    "error": (Status.ERROR.value, Status.TOOL_ERROR.value),
    "protocol-error": (Status.ERROR.value,),
    "slow": ("slow",),
}
"""Statuses that each value of `status:` means."""
_KINDS: dict[str, tuple[str, ...]] = {kind.value: (kind.value,) for kind in ExchangeKind}
_DIRECTIONS: dict[str, tuple[str, ...]] = {"in": ("in",), "out": ("out",)}
_STATES: dict[str, tuple[str, ...]] = {
    word: (word,)
    for word in ("held", "changed", "answered", "dropped", "mocked", "faulty", Status.NEGOTIATION.value)
}
"""Allowed values of `is:`: decisions about messages at the desk, and parts of the negotiation."""
_OPERATORS = frozenset({"not", "or", "and"})
CORE_FIELD = "replica"
"""Field with the core of a connection, if the desk shows several."""
TEXT_FIELDS = ("method", "tool", "name", "peer", "server", CORE_FIELD, "rev")
"""Fields that match substrings."""
FIXED_VALUES = {
    "status": tuple(_STATUSES),
    "is": tuple(_STATES),
    "kind": tuple(_KINDS),
    "dir": tuple(_DIRECTIONS),
}
"""Fields with a fixed set of values."""

_TOKEN = re.compile(
    r"""\s*(?:(?P<open>\() | (?P<close>\))
    | (?P<limit>[<>]=?\s*[^\s()"]*)
    | (?P<field>[a-zA-Z]+):(?P<value>"(?:[^"\\]|\\.)*"? | [^\s()"]*)
    | (?P<quoted>"(?:[^"\\]|\\.)*"?)
    | (?P<word>[^\s()"]+))""",
    re.VERBOSE,
)
"""Next token. The name of the last matching group is the kind of the token."""
_NUMBER = re.compile(r"(\d+(?:\.\d+)?)\s*([a-zµ]*)", re.IGNORECASE)
_COMPARISON = re.compile(r"([a-zA-Z_]+)([<>]=?|==?)(\d.*)")
"""Word that looks like a comparison with a number, such as `elapsed>5`."""
_EQUAL = re.compile(r"([a-zA-Z]+)==?(.+)")
"""Word that looks like a comparison with `=`, such as `status=error`."""
_CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}(?:\.\d{1,6})?))?")
"""Time of day."""


class _Token(NamedTuple):
    kind: str
    """Name of a group of `_TOKEN`, or an operator."""
    text: str
    """Text of the token, or name of a field in lower case."""
    value: str
    """Value of a field. Empty for other tokens."""
    position: int


def quoted(text: str) -> str:
    """Return `text` as one quoted value of a filter."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def parse(text: str, now: float) -> Node:
    """Parse a filter. An empty text matches everything.

    `now` is the Unix time in seconds. A time such as `since:12:03` is the latest one before it. Raises:
    QueryError with message and position.
    """
    return _Parser(list(_tokens(text)), len(text), now).parse()


def _tokens(text: str) -> Iterator[_Token]:
    """Yield the tokens of a filter."""
    position = 0
    while match := _TOKEN.match(text, position):
        kind = match.lastgroup or ""
        if kind == "word" and match["word"].lower() in _OPERATORS:
            yield _Token(match["word"].lower(), match["word"], "", match.start("word"))
        elif kind == "value":
            yield _Token("field", match["field"].lower(), match["value"], match.start("field"))
        else:
            yield _Token(kind, match[kind], "", match.start(kind))
        position = match.end()


class _Parser:
    """Recursive descent parser. It has one method for each level of precedence."""

    def __init__(self, tokens: list[_Token], end: int, now: float) -> None:
        self._tokens = tokens
        self._index = 0
        """Index of the next token."""
        self._end = end
        self._now = now
        self._depth = 0
        """Number of parts around the current one."""

    def parse(self) -> Node:
        """Parse the whole filter."""
        if not self._tokens:
            return EVERYTHING
        node = self._disjunction()
        if token := self._peek():
            _fail("this parenthesis has no opening one", token.position)
        return node

    def _peek(self) -> _Token | None:
        """Return the next token, or None at the end."""
        return self._tokens[self._index] if self._index < len(self._tokens) else None

    def _skip(self, kind: str) -> bool:
        """Skip the next token if it is of this kind. Return True if it was."""
        token = self._peek()
        is_next = token is not None and token.kind == kind
        self._index += is_next
        return is_next

    def _disjunction(self) -> Node:
        """Parse terms that `or` separates."""
        nodes = [self._conjunction()]
        while self._skip("or"):
            nodes.append(self._conjunction())
        return nodes[0] if len(nodes) == 1 else AnyOf(tuple(nodes))

    def _conjunction(self) -> Node:
        """Parse adjacent terms, with an optional `and` between them."""
        nodes = [self._unary()]
        while (token := self._peek()) and token.kind not in ("close", "or"):
            self._skip("and")
            nodes.append(self._unary())
        return nodes[0] if len(nodes) == 1 else All(tuple(nodes))

    def _unary(self) -> Node:
        """Parse one term, a term after `not`, or a filter in parentheses."""
        token = self._peek()
        if token is None:
            _fail("a search term is missing here", self._end)
        if token.kind in ("or", "and", "close"):
            _fail(f"a search term is missing before {token.text!r}", token.position)
        self._index += 1
        if token.kind == "not":
            return Not(self._nested(self._unary, token))
        if token.kind != "open":
            return self._atom(token)
        node = self._nested(self._disjunction, token)
        if not self._skip("close"):
            _fail("this parenthesis is never closed", token.position)
        return node

    def _nested(self, parse_part: Callable[[], Node], token: _Token) -> Node:
        """Parse a part that begins with `token`, unless too many parts are nested."""
        self._depth += 1
        if self._depth > 100:
            _fail("nested too deeply", token.position)
        node = parse_part()
        self._depth -= 1
        return node

    def _atom(self, token: _Token) -> Node:
        """Convert a token to a condition."""
        if token.kind == "limit":
            return _limit(token)
        if token.kind == "quoted":
            return Word(_unquoted(token.text, token.position).lower())
        if token.kind == "field":
            return self._field(token)
        _refuse_comparison(token)
        return Word(token.text.lower())

    def _field(self, token: _Token) -> Node:
        """Parse `field:value`."""
        value_position = token.position + len(token.text) + 1
        if token.text == "since":
            seconds = _span_seconds(token.value)
            if seconds is not None:
                return StartedWithin(seconds)
            return StartedSince(_clock(token.value, value_position, self._now))
        if token.text not in _FIELDS:
            allowed = ", ".join(sorted([*_FIELDS, "since"]))
            _fail(f"unknown field {token.text!r}; allowed: {allowed}", token.position)
        if not token.value:
            _fail(f"{token.text}: needs a value", value_position)
        return Field(token.text, _FIELDS[token.text](token.value, value_position))


def _refuse_comparison(token: _Token) -> None:
    """Reject a word that looks like a comparison. As a plain word it would match nothing."""
    quotes_hint = "; use quotes to search for the text"
    if (match := _EQUAL.fullmatch(token.text)) and (name := match[1].lower()) in {*_FIELDS, "since"}:
        _fail(f"write {name}:{match[2]}{quotes_hint}", token.position)
    if match := _COMPARISON.fullmatch(token.text):
        sign = match[2] if match[2][0] in "<>" else ">"
        examples = f"{sign}5s compares the time, {sign}5kb the size"
        _fail(f"{match[1]!r} cannot be compared: {examples}{quotes_hint}", token.position)


def _fail(message: str, position: int) -> NoReturn:
    raise QueryError(message, position)


def _unquoted(text: str, position: int) -> str:
    """Remove the quotes and escapes of a quoted text. Raises: QueryError."""
    if len(text) < 2 or not text.endswith('"'):
        _fail("this quote is never closed", position)
    return re.sub(r"\\(.)", r"\1", text[1:-1])


def _texts(value: str, position: int) -> tuple[str, ...]:
    """Return the substrings to search for. A quoted value is one substring, with spaces and bars."""
    if value.startswith('"'):
        return (_unquoted(value, position).lower(),)
    return tuple(part.lower() for part in value.split("|") if part)


def _ids(value: str, position: int) -> tuple[str, ...]:
    """Return the ids to search for.

    Digits without quotes mean a number or a string. A quoted value means a string.
    """
    if value.startswith('"'):
        return ('"' + _unquoted(value, position),)
    return tuple(part for part in value.split("|") if part)


def _one_of(allowed: dict[str, tuple[str, ...]]) -> Callable[[str, int], tuple[str, ...]]:
    """Return a parser for a field with a fixed set of values."""

    def read(value: str, position: int) -> tuple[str, ...]:
        values: list[str] = []
        for part in value.lower().split("|"):
            if part and part not in allowed:
                _fail(
                    f"{part!r} is not allowed; use {', '.join(allowed)}", position + value.lower().find(part)
                )
            values += allowed.get(part, ())
        return tuple(values)

    return read


_FIELDS: dict[str, Callable[[str, int], tuple[str, ...]]] = {
    **dict.fromkeys(TEXT_FIELDS, _texts),
    "id": _ids,
    "status": _one_of(_STATUSES),
    "is": _one_of(_STATES),
    "kind": _one_of(_KINDS),
    "dir": _one_of(_DIRECTIONS),
}
"""Parser for the value of each field."""


def _limit(token: _Token) -> Limit:
    """Parse `>200ms` or `<=10kb`."""
    sign = token.text[:2] if token.text[1:2] == "=" else token.text[0]
    amount = token.text[len(sign) :].strip()
    match = _NUMBER.fullmatch(amount)
    unit = match[2].lower() if match else ""
    if match is None or (unit not in _SECONDS and unit not in _BYTES):
        _fail(f"{token.text!r} needs a number with a unit, like {sign}200ms or {sign}10kb", token.position)
    if unit in _SECONDS:
        return Limit("elapsed", sign, float(match[1]) * _SECONDS[unit])
    return Limit("size", sign, float(match[1]) * _BYTES[unit])


def moment_of(text: str, now: float) -> float:
    """Return the Unix time that `5m` (five minutes ago) or `12:03` means. Raises: QueryError."""
    text = text.strip().removeprefix("-")
    seconds = _span_seconds(text)
    return _clock(text, 0, now) if seconds is None else now - seconds


def _span_seconds(value: str) -> float | None:
    """Return the number of seconds in a text such as `5m`. None for other texts."""
    match = _NUMBER.fullmatch(value)
    unit_s = match and _SECONDS.get(match[2].lower())
    return float(match[1]) * unit_s if match and unit_s else None


def _clock(value: str, position: int, now: float) -> float:
    """Return the latest Unix time with this time of day that is not after `now`."""
    if match := _CLOCK.fullmatch(value):
        hour, minute, second = int(match[1]), int(match[2]), float(match[3] or 0)
        if hour < 24 and minute < 60 and second < 60:
            today = localtime(now)
            moment = mktime((*today[:3], hour, minute, 0, 0, 0, -1)) + second
            return moment if moment <= now else moment - 86400
    _fail("a time is a span like 30s, 5m, 2h, or a time of day like 12:03", position)
