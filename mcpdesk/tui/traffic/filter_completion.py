"""Completion of a traffic filter during typing: names of fields, and values that occur."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import NamedTuple

from rich.cells import cell_len
from textual.content import Content
from textual.widgets import Static

from mcpdesk.plain_text import from_field
from mcpdesk.protocol.methods import TOOL_CALLS
from mcpdesk.recorder.index.query import CORE_FIELD, FIXED_VALUES, TEXT_FIELDS, quoted
from mcpdesk.recorder.index.traffic_index import Index
from mcpdesk.tui.render.safe_text import one_line

MAX_COMPLETIONS = 30
"""Maximum number of completions that are offered."""
_MAX_SEARCHED_VALUES = 5_000
"""Maximum number of names and peers that are searched."""
_FIELDS = (*TEXT_FIELDS, *FIXED_VALUES, "id", "since")
_TYPED_PART = re.compile(
    r"""(?:^|[\s(])(?:(?P<field>[a-zA-Z]+):(?:[^\s()"|]*\|)*)?(?P<part>"[^"]*|[^\s()"|<>]*)$"""
)
_UNQUOTED_VALUE = re.compile(r"[^\s()\"|]+")


class Completions(NamedTuple):
    """Completions of a filter. Each of `values` may replace the text from the index `start` to the end."""

    start: int
    values: Sequence[str]


def completions(text: str, index: Index) -> Completions:
    """Return the completions of a filter, typed up to the cursor.

    Values that begin with the typed text come first.
    """
    typed_match = _TYPED_PART.search(text)
    if typed_match is None or not (typed_match["part"] or typed_match["field"]):
        return Completions(len(text), ())
    part = typed_match["part"].lstrip('"').lower()
    if typed_match["field"] is None:
        values = [f"{name}:" for name in _FIELDS if name.startswith(part)]
        return Completions(typed_match.start("part"), values)
    candidates = dict.fromkeys(islice(_values(typed_match["field"].lower(), index), _MAX_SEARCHED_VALUES))
    matching = [value for value in candidates if part in value.lower() and value.lower() != part]
    has_fixed_order = typed_match["field"].lower() in FIXED_VALUES
    matching.sort(
        key=lambda value: (not value.lower().startswith(part), "" if has_fixed_order else value.lower())
    )
    quoted_values = [
        value if _UNQUOTED_VALUE.fullmatch(value) else quoted(value) for value in matching[:MAX_COMPLETIONS]
    ]
    return Completions(typed_match.start("part"), quoted_values)


def _values(field: str, index: Index) -> Iterable[str]:
    """Return the values of a field that occur in the traffic, or its allowed values."""
    if field in FIXED_VALUES:
        return FIXED_VALUES[field]
    labels, connections = list(index.table.labels.values()), list(index.connections.values())
    if field == CORE_FIELD:
        return (info.core for info in connections if info.core)
    match field:
        case "method":
            return (method for method, _ in labels if method)
        case "tool":
            return (name for method, name in labels if method in TOOL_CALLS and name)
        case "name":
            return (name for _, name in labels if name)
        case "peer":
            return (info.peer for info in reversed(connections) if info.peer)
        case "server":
            return (info.server for info in connections if info.server)
        case "rev":
            return (revision for revision in index.table.revisions if revision)
        case _:
            return ()


class CompletionLine(Static):
    """Completions of the filter above, on one line, with one of them selected."""

    DEFAULT_CSS = """
    CompletionLine {
        display: none; height: 1; padding: 0 1; background: $panel; color: $text-muted; text-wrap: nowrap;
    }
    """

    def __init__(self, index: Index) -> None:
        super().__init__(markup=False)
        self._index = index
        self._completions = Completions(0, ())
        self._selected = 0

    def show_for(self, text: str) -> None:
        """Show the completions of a filter. `text` is the filter up to the cursor, as its field shows it."""
        self._completions, self._selected = completions(from_field(text), self._index), 0
        self._draw()

    def move(self, by: int) -> None:
        """Select the next or previous completion."""
        self._selected = (self._selected + by) % max(1, len(self._completions.values))
        self._draw()

    def completed_text(self, text: str) -> str:
        """Return a filter, typed up to the cursor, with the selected completion.

        A space follows, except after the name of a field.
        """
        value = self._completions.values[self._selected]
        return from_field(text)[: self._completions.start] + value + ("" if value.endswith(":") else " ")

    def _draw(self) -> None:
        values = self._completions.values
        self.display = bool(values)
        pieces: list[tuple[str, str]] = []
        remaining_width = max(10, self.app.size.width - 4)
        for position, value in enumerate(values[self._selected :]):
            text = one_line(value, 40)
            if (remaining_width := remaining_width - cell_len(text) - 2) < 0:
                break
            pieces.append((text, "$text-primary bold" if not position else ""))
            pieces.append(("  ", ""))
        self.update(Content.assemble(*pieces), layout=False)
