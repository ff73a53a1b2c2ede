"""Search of the palette: entries in groups, the best group first. A typed word must occur without gaps."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple, TypeAlias

from mcpdesk.tui.widgets.menu import Choice

LAST_GROUPS = ("Tools", "Resources", "Prompts", "Skills", "Servers", "Settings", "Themes")
"""Groups that follow the groups of actions, in this order."""
MAX_INITIAL_ENTRIES = 6
"""Maximum number of entries of each of `LAST_GROUPS` that are shown before something is typed."""
MAX_FOUND_ENTRIES = 100
"""Maximum number of entries of a group that are shown for a search."""
MAX_DESCRIPTION_LENGTH = 300
"""Number of characters of a description that are searched."""
MIN_INNER_MATCH_LENGTH = 3
"""Minimum length of a typed word that is also found inside of words."""
BATCH_ENTRIES = 64
"""Number of entries that are searched between two checks of the time limit."""
MIN_PREFIX_MATCH_LENGTH = 5
"""Minimum length of a typed word that is found at the beginning of a word of a description. A shorter word
must be equal to a word."""
_WORD_SEPARATORS = re.compile(r"[\W_]+")
_CAMEL_CASE_BOUNDARY = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class PaletteEntry(Choice, frozen=True):
    """Line of the palette."""

    group: str = ""
    """Heading above the line."""
    second_name: str = ""
    """Second name of the entry, such as the title of a tool, or ""."""


class Heading(Choice, frozen=True):
    """Title above the entries of a group, or note below them about entries that are left out.

    A heading cannot be chosen.
    """


class Match(IntEnum):
    """Kind of a match between the typed text and an entry. A higher value is better."""

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


class _SearchableText(NamedTuple):
    """Texts of an entry in lower case. Each word has a space before and after it, to find whole words."""

    names: tuple[str, ...]
    name_words: str
    synonyms: str
    description_words: str


def _spaced(text: str) -> str:
    """Return the words of a text in lower case, with a space before and after each word."""
    return f" {_WORD_SEPARATORS.sub(' ', text.lower()).strip()} "


def _spaced_name(text: str) -> str:
    """Return the words of a name as `_spaced` does. A name such as `AskUser` is one word, and also two."""
    joined_words, split_words = _spaced(text), _spaced(_CAMEL_CASE_BOUNDARY.sub(" ", text))
    return joined_words if joined_words == split_words else joined_words + split_words.lstrip()


def _searchable_text(entry: PaletteEntry) -> _SearchableText:
    names = tuple(_spaced(name) for name in (entry.label, entry.second_name) if name)
    name_words = "".join(_spaced_name(name) for name in (entry.label, entry.second_name, entry.key) if name)
    description_words = _spaced(f"{entry.hint} {entry.help}"[:MAX_DESCRIPTION_LENGTH])
    return _SearchableText(names, name_words, _spaced(entry.words), description_words)


_IndexedEntry: TypeAlias = "tuple[PaletteEntry, _SearchableText]"


class PaletteIndex:
    """Entries that can be searched. Entries may be added between searches."""

    def __init__(self, entries: Iterable[PaletteEntry] = ()) -> None:
        self._entries: list[_IndexedEntry] = []
        self._groups: dict[str, int] = {}
        """Position of each group, by name."""
        for entry in entries:
            self.add(entry)

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, entry: PaletteEntry) -> None:
        """Add an entry. Groups of actions keep the order of their first entries."""
        if entry.group not in self._groups:
            position = len(self._groups)
            if entry.group in LAST_GROUPS:
                position = 1_000 + LAST_GROUPS.index(entry.group)  # after all groups of actions
            self._groups[entry.group] = position
        self._entries.append((entry, _searchable_text(entry)))

    def search(self, query: str) -> PaletteSearch:
        """Create a search for a query. Its `advance` must be called to run it."""
        return PaletteSearch(self._entries, self._groups, query)

    def lines(self, query: str) -> list[Choice]:
        """Run a complete search, and return its lines. This takes about 10 µs for each entry."""
        search = self.search(query)
        search.advance(math.inf)
        return search.lines()


class PaletteSearch:
    """Search for one query, in several steps if there are many entries."""

    def __init__(self, entries: Sequence[_IndexedEntry], order: Mapping[str, int], query: str) -> None:
        """Create a search. `order` has the positions of the groups."""
        self._typed_text = _spaced(query)
        self._words = self._typed_text.split()
        self._is_query_empty = not query.strip()
        self._remaining_entries = iter(entries)
        self._order = order
        self._matches: dict[str, list[tuple[Match, PaletteEntry]]] = {}
        self._best_match = Match.NONE

    def advance(self, time_limit_s: float) -> bool:
        """Search for about `time_limit_s` seconds. Return True if the search is complete."""
        end = time.perf_counter() + time_limit_s
        for number, (entry, text) in enumerate(self._remaining_entries):
            match = Match.WORDS if self._is_query_empty else self._match(text)
            if match:
                self._best_match = max(self._best_match, match)
                self._matches.setdefault(entry.group, []).append((match, entry))
            if number % BATCH_ENTRIES == 0 and time.perf_counter() > end:
                return False
        return True

    def lines(self) -> list[Choice]:
        """Return headings, and the entries found so far below them, the best first.

        An empty query finds all actions, and the first entries of the other groups. Equally good entries keep
        their order.
        """
        lowest_match = Match.INSIDE if self._best_match is Match.INSIDE else Match.DESCRIBED
        groups: dict[str, list[tuple[Match, PaletteEntry]]] = {}
        for name, matches in self._matches.items():
            good_matches = [(match, entry) for match, entry in matches if match >= lowest_match]
            if good_matches:
                groups[name] = sorted(good_matches, key=lambda pair: -pair[0])

        def group_rank(name: str) -> tuple[int, int]:
            best_match, _ = groups[name][0]
            return -best_match, self._order[name]

        lines: list[Choice] = []
        for name in sorted(groups, key=group_rank):
            max_entries = MAX_FOUND_ENTRIES
            if self._is_query_empty:
                max_entries = MAX_INITIAL_ENTRIES if name in LAST_GROUPS else len(groups[name])
            lines += _section(name, [entry for _, entry in groups[name]], max_entries)
        return lines

    def _match(self, text: _SearchableText) -> Match:
        # Most entries do not contain the words, and this check is faster than `_best_match_of`.
        if not self._words or not all(_contains(text, word) for word in self._words):
            return Match.NONE
        return _best_match_of(text, self._typed_text, self._words)


def _section(name: str, entries: Sequence[PaletteEntry], max_entries: int) -> list[Choice]:
    """Return the lines of a group: its heading, the first entries, and a note if entries are left out."""
    lines: list[Choice] = [Heading(name, None), *entries[:max_entries]]
    if (omitted_count := len(entries) - max_entries) > 0:
        lines.append(Heading(f"… {omitted_count:,} more: type a part of the name", None))
    return lines


def _contains(text: _SearchableText, word: str) -> bool:
    return word in text.name_words or word in text.synonyms or word in text.description_words


def _best_match_of(text: _SearchableText, typed_text: str, words: Sequence[str]) -> Match:
    """Return the best match of an entry. `typed_text` has the typed `words` with spaces around them."""
    if typed_text in text.names:
        return Match.EXACT
    typed_prefix = typed_text[:-1]
    if any(name.startswith(typed_prefix) for name in text.names):
        return Match.START
    if all(f" {word}" in text.name_words for word in words):
        return Match.WORDS
    if all(f" {word}" in text.name_words or f" {word}" in text.synonyms for word in words):
        return Match.SYNONYM
    if all(_is_described(text, word) for word in words):
        return Match.DESCRIBED
    if all(len(word) >= MIN_INNER_MATCH_LENGTH and word in text.name_words for word in words):
        return Match.INSIDE
    return Match.NONE


def _is_described(text: _SearchableText, word: str) -> bool:
    """Return True if a word is in the name, the additional words or the description of an entry."""
    needle = f" {word}" if len(word) >= MIN_PREFIX_MATCH_LENGTH else f" {word} "
    return f" {word}" in text.name_words or f" {word}" in text.synonyms or needle in text.description_words


def entries_of(lines: Iterable[Choice]) -> list[Choice]:
    """Return the lines that can be chosen."""
    return [line for line in lines if not isinstance(line, Heading)]
