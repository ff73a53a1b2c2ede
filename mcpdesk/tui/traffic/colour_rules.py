"""Colour rules for lines of the traffic, read from a file that the user writes.

Each line of the file is a colour and a filter. The first rule whose filter matches an exchange colours it.
"""

from __future__ import annotations

from pathlib import Path
from time import monotonic, time
from typing import NamedTuple

from textual.color import Color, ColorParseError

from mcpdesk.recorder.index.exchange import Exchange
from mcpdesk.recorder.index.query import QueryError, parse
from mcpdesk.recorder.index.traffic_index import Index
from mcpdesk.recorder.index.view import Matcher

FILE_NAME = "traffic-colours"
THEME_COLOURS = {
    "error": "traffic--bad",
    "warning": "traffic--warn",
    "success": "traffic--good",
    "primary": "traffic--in",
    "secondary": "traffic--peer",
    "accent": "traffic--out",
    "muted": "traffic--muted",
}
"""Colour that each theme defines -> the component class that uses it."""
_MAX_BYTES = 64_000
"""Number of bytes of the file that are read. The rest is ignored."""
_MAX_RULES = 200
_MAX_CACHED_EXCHANGES = 2_000
"""Maximum number of exchanges whose rule is cached. This is enough for several screens of lines."""
CHECK_INTERVAL_S = 5.0
"""Seconds between two checks of the file."""


class ColourRule(NamedTuple):
    """Rule that colours the exchanges that match its filter.

    `colour` is a key of `THEME_COLOURS`, or a colour that Textual knows.
    """

    number: int
    """Line number in the file, from 1."""
    colour: str
    filter: str
    matcher: Matcher


class ColourRules:
    """Rules of a file, which is read again when it is saved. Without a file, there are no rules."""

    def __init__(self, path: Path, index: Index) -> None:
        self.problems: list[str] = []
        """Error messages of invalid rules, which are not applied."""
        self._path = path
        self._index = index
        self._rules: list[ColourRule] = []
        self._file_state: tuple[int, int] | None = None
        """Time of the last change (ns) and size (bytes) of the file, or None if it does not exist."""
        self._next_check = 0.0
        """Monotonic time of the next check of the file."""
        self._cached_rules: dict[tuple[object, ...], ColourRule | None] = {}
        """First rule that matches an exchange, or None, by number and state of the exchange."""

    def update(self) -> bool:
        """Reload the file if it was saved. Return True if the rules were replaced."""
        if (now := monotonic()) < self._next_check:
            return False
        self._next_check = now + CHECK_INTERVAL_S
        try:
            status = self._path.stat()
            file_state = (status.st_mtime_ns, status.st_size)
            if file_state == self._file_state:
                return False
            with self._path.open("rb") as file:
                lines = file.read(_MAX_BYTES).decode("utf-8", "replace").splitlines()
        except OSError:
            file_state, lines = None, []
        if file_state is None and self._file_state is None:
            return False
        self._file_state = file_state
        self._parse_lines(lines)
        return True

    def rule_of(self, exchange: Exchange) -> ColourRule | None:
        """Return the first rule that matches an exchange, or None."""
        if not self._rules:
            return None
        key = (exchange.number, exchange.ended, exchange.status, len(exchange.notifications))
        if key not in self._cached_rules:
            if len(self._cached_rules) >= _MAX_CACHED_EXCHANGES:
                self._cached_rules.clear()
            matching_rules = (rule for rule in self._rules if self._matches(rule, exchange))
            self._cached_rules[key] = next(matching_rules, None)
        return self._cached_rules[key]

    def _parse_lines(self, lines: list[str]) -> None:
        self._rules, self.problems = [], []
        self._cached_rules.clear()
        for number, line in enumerate(lines, 1):
            colour, _, filter_text = line.strip().partition(" ")
            if colour in ("", "#"):  # a comment; a colour may begin with # as well
                continue
            try:
                self._rules.append(self._parse_rule(number, colour, filter_text.strip()))
            except ValueError as error:
                self.problems.append(f"{self._path.name}, line {number}: {error}")
            if len(self._rules) >= _MAX_RULES:
                break

    def _parse_rule(self, number: int, colour: str, filter_text: str) -> ColourRule:
        """Parse a rule. Raises: ValueError with the error and the allowed values."""
        if colour not in THEME_COLOURS:
            try:
                Color.parse(colour)
            except ColorParseError:
                allowed = ", ".join(THEME_COLOURS)
                raise ValueError(f"no colour is called {colour!r}: {allowed}, or one like #ff8800") from None
        if not filter_text:
            raise ValueError("a colour needs a filter after it, like: error status:error")
        try:
            return ColourRule(number, colour, filter_text, Matcher(self._index, parse(filter_text, time())))
        except QueryError as error:
            raise ValueError(error.message) from None

    def _matches(self, rule: ColourRule, exchange: Exchange) -> bool:
        for needle in rule.matcher.needles:  # the words of the filter
            needle.frames.clear()
            for frame in (exchange.request, exchange.response):
                if frame is not None:
                    needle.scan(frame, [piece.lower() for piece in self._index.data(frame, frame + 1)])
        return bool(rule.matcher.keep([exchange.number]))
