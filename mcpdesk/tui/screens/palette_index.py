"""Search of the palette: entries in groups, the best group first. It does not match letters out of order."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from mcpdesk.tui.widgets.menu import Choice

LAST_GROUPS = ("Tools", "Resources", "Prompts", "Skills", "Servers", "Settings", "Themes")
"""Groups after those of the actions, in this order."""
MAX_INITIAL_ENTRIES = 6
"""Maximum number of entries of each of `LAST_GROUPS` that are shown before something is typed."""
MAX_FOUND_ENTRIES = 100
"""Maximum number of entries of a group that are shown for a search."""
MAX_DESCRIPTION_LENGTH = 300
"""Number of characters of a description that are searched."""
MIN_INNER_MATCH_LENGTH = 3
"""Minimum length of a typed word that is also found inside of words."""
BATCH_ENTRIES = 64
"""Number of entries that are searched without looking at the clock."""
MIN_PREFIX_MATCH_LENGTH = 5
"""Minimum length of a typed word that is found at the beginning of a word of a description. A shorter word
must be equal to a word."""
_BREAK = re.compile(r"[\W_]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class PaletteEntry(Choice, frozen=True):
    """Line of the palette."""

    group: str = ""
    """Heading above the line."""
    also: str = ""
    """Second text that counts as the complete name, such as the title of a tool."""


class Heading(Choice, frozen=True):
    """Line above the entries of a group, or below them if some are left out. It cannot be chosen."""


class Match(IntEnum):
    """Kinds of matches, the worst first."""

    NONE = 0
    INSIDE = 1
    """The name contains each typed word. Entries with this match are shown only if no other entry matches."""
    DESCRIBED = 2
    """Each typed word is in the name, the additional words or the description."""
    SYNONYM = 3
    """Each typed word is the beginning of a word of the name or of the additional words."""
    WORDS = 4
    """Each typed word is the beginning of a word of the name."""
    START = 5
    """The name begins with the typed text."""
    EXACT = 6
    """The name is the typed text."""


class _Text(NamedTuple):
    """Texts of an entry in lower case. Each word has a space before and after it."""

    names: tuple[str, ...]
    named: str
    synonyms: str
    described: str


def _spaced(text: str) -> str:
    return f" {_BREAK.sub(' ', text.lower()).strip()} "


def _spaced_name(text: str) -> str:
    """Return the words of a name. A name such as `AskUser` is one word, and also two."""
    whole, parts = _spaced(text), _spaced(_HUMP.sub(" ", text))
    return whole if whole == parts else whole + parts.lstrip()


def _text_of(entry: PaletteEntry) -> _Text:
    names = tuple(_spaced(each) for each in (entry.label, entry.also) if each)
    return _Text(
        names,
        "".join(_spaced_name(each) for each in (entry.label, entry.also, entry.key) if each),
        _spaced(entry.words),
        _spaced(f"{entry.hint} {entry.help}"[:MAX_DESCRIPTION_LENGTH]),
    )


_Indexed: TypeAlias = "tuple[PaletteEntry, _Text]"


class PaletteIndex:
    """Entries that can be searched. Entries may be added between searches."""

    def __init__(self, entries: Iterable[PaletteEntry] = ()) -> None:
        self._entries: list[_Indexed] = []
        self._groups: dict[str, int] = {}
        """Position of each group, by name."""
        for entry in entries:
            self.add(entry)

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, entry: PaletteEntry) -> None:
        """Add an entry. Groups of actions keep the order of their first entries."""
        if entry.group not in self._groups:
            is_last = entry.group in LAST_GROUPS
            at = 1_000 + LAST_GROUPS.index(entry.group) if is_last else len(self._groups)
            self._groups[entry.group] = at
        self._entries.append((entry, _text_of(entry)))

    def search(self, query: str) -> PaletteSearch:
        """Return a search for a query, which has not begun."""
        return PaletteSearch(self._entries, self._groups, query)

    def lines(self, query: str) -> list[Choice]:
        """Return the lines for a query, as `PaletteSearch.lines` does. Takes about 10 µs for each entry."""
        search = self.search(query)
        search.advance(math.inf)
        return search.lines()


class PaletteSearch:
    """Search for one query, in several steps if there are many entries."""

    def __init__(self, entries: Sequence[_Indexed], order: Mapping[str, int], query: str) -> None:
        """Create a search. `order` has the positions of the groups."""
        self._typed = _spaced(query)
        self._words = self._typed.split()
        self._is_all = not query.strip()
        self._rest = iter(entries)
        self._order = order
        self._found: dict[str, list[tuple[Match, PaletteEntry]]] = {}
        self._best = Match.NONE

    def advance(self, most_s: float) -> bool:
        """Search for about `most_s` seconds. Return True if the search is complete."""
        end = time.perf_counter() + most_s
        for number, (entry, text) in enumerate(self._rest):
            match = Match.WORDS if self._is_all else self._match(text)
            if match:
                self._best = max(self._best, match)
                self._found.setdefault(entry.group, []).append((match, entry))
            if number % BATCH_ENTRIES == 0 and time.perf_counter() > end:
                return False
        return True

    def lines(self) -> list[Choice]:
        """Return headings, and the entries found so far below them, the best first.

        An empty query finds all actions, and the first entries of the other groups. Equally good entries keep
        their order.
        """
        least = Match.INSIDE if self._best is Match.INSIDE else Match.DESCRIBED
        groups = {}
        for name, matches in self._found.items():
            if good := sorted((each for each in matches if each[0] >= least), key=lambda pair: -pair[0]):
                groups[name] = good
        lines: list[Choice] = []
        for name in sorted(groups, key=lambda name: (-groups[name][0][0], self._order[name])):
            most = MAX_FOUND_ENTRIES
            if self._is_all:
                most = MAX_INITIAL_ENTRIES if name in LAST_GROUPS else len(groups[name])
            lines += _section(name, [entry for _, entry in groups[name]], most)
        return lines

    def _match(self, text: _Text) -> Match:
        typed, words = self._typed, self._words
        if not words or not all(_contains(text, word) for word in words):
            return Match.NONE
        return _match(text, typed, words)


def _section(name: str, entries: Sequence[PaletteEntry], most: int) -> list[Choice]:
    lines: list[Choice] = [Heading(name, None), *entries[:most]]
    if (left_out := len(entries) - most) > 0:
        lines.append(Heading(f"… {left_out:,} more: type a part of the name", None))
    return lines


def _contains(text: _Text, word: str) -> bool:
    return word in text.named or word in text.synonyms or word in text.described


def _match(text: _Text, typed: str, words: Sequence[str]) -> Match:
    """Return the best match of a text. `typed` are the typed words with spaces around them."""
    if typed in text.names:
        return Match.EXACT
    earlier_words = typed[:-1]
    if any(each.startswith(earlier_words) for each in text.names):
        return Match.START
    if all(f" {word}" in text.named for word in words):
        return Match.WORDS
    if all(f" {word}" in text.named or f" {word}" in text.synonyms for word in words):
        return Match.SYNONYM
    if all(_is_described(text, word) for word in words):
        return Match.DESCRIBED
    if all(len(word) >= MIN_INNER_MATCH_LENGTH and word in text.named for word in words):
        return Match.INSIDE
    return Match.NONE


def _is_described(text: _Text, word: str) -> bool:
    wanted = f" {word}" if len(word) >= MIN_PREFIX_MATCH_LENGTH else f" {word} "
    return f" {word}" in text.named or f" {word}" in text.synonyms or wanted in text.described


def entries_of(lines: Iterable[Choice]) -> list[Choice]:
    """Return the lines that can be chosen."""
    return [line for line in lines if not isinstance(line, Heading)]
