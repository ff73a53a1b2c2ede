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
_FIELD_NAMES = (*TEXT_FIELDS, *FIXED_VALUES, "id", "since")
_TYPED_PART = re.compile(
    r"""(?:^|[\s(])(?:(?P<field>[a-zA-Z]+):(?:[^\s()"|]*\|)*)?(?P<part>"[^"]*|[^\s()"|<>]*)$"""
)
"""Pattern for the end of a filter that is being typed: a word, or a field with the last of its values."""
_UNQUOTED_VALUE = re.compile(r"[^\s()\"|]+")
"""Pattern for a value that needs no quotation marks."""


class Completions(NamedTuple):
    """Completions of a filter. Each of `values` may replace the typed text from the index `start` on."""

    start: int
    values: Sequence[str]


def completions(text: str, index: Index) -> Completions:
    """Return the completions of a filter, typed up to the cursor.

    Values that begin with the typed text come first.
    """
    typed_match = _TYPED_PART.search(text)
    if typed_match is None or not (typed_match["part"] or typed_match["field"]):
        return Completions(len(text), ())
    start, typed_part = typed_match.start("part"), typed_match["part"].lstrip('"').lower()
    if typed_match["field"] is None:
        return Completions(start, [f"{name}:" for name in _FIELD_NAMES if name.startswith(typed_part)])
    field = typed_match["field"].lower()
    candidates = dict.fromkeys(islice(_values(field, index), _MAX_SEARCHED_VALUES))
    matching_values = [
        value for value in candidates if typed_part in value.lower() and value.lower() != typed_part
    ]
    if field not in FIXED_VALUES:
        matching_values.sort(key=str.lower)
    matching_values.sort(key=lambda value: not value.lower().startswith(typed_part))
    quoted_values = [
        value if _UNQUOTED_VALUE.fullmatch(value) else quoted(value)
        for value in matching_values[:MAX_COMPLETIONS]
    ]
    return Completions(start, quoted_values)


def _values(field: str, index: Index) -> Iterable[str]:
    """Return the allowed values of a field. If all values are allowed, return those in the traffic."""
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
    """Line below the filter with its completions. One of them is selected, and is shown first."""

    DEFAULT_CSS = """
    CompletionLine {
        display: none; height: 1; padding: 0 1; background: $panel; color: $text-muted; text-wrap: nowrap;
    }
    """

    def __init__(self, index: Index) -> None:
        super().__init__(markup=False)
        self._index = index
        self._completions = Completions(0, ())
        self._selected_index = 0

    def show_for(self, text: str) -> None:
        """Show the completions of a filter. `text` is the filter up to the cursor, as its field shows it."""
        self._completions, self._selected_index = completions(from_field(text), self._index), 0
        self._draw()

    def move(self, by: int) -> None:
        """Select the next or previous completion."""
        self._selected_index = (self._selected_index + by) % max(1, len(self._completions.values))
        self._draw()

    def completed_text(self, text: str) -> str:
        """Return a filter, typed up to the cursor, with the selected completion.

        A space follows, except after the name of a field.
        """
        value = self._completions.values[self._selected_index]
        end = "" if value.endswith(":") else " "
        return from_field(text)[: self._completions.start] + value + end

    def _draw(self) -> None:
        values = self._completions.values
        self.display = bool(values)
        spans: list[tuple[str, str]] = []
        remaining_width = max(10, self.app.size.width - 4)
        for position, value in enumerate(values[self._selected_index :]):
            text = one_line(value, 40)
            remaining_width -= cell_len(text) + 2
            if remaining_width < 0:
                break
            spans.append((text, "$text-primary bold" if position == 0 else ""))
            spans.append(("  ", ""))
        self.update(Content.assemble(*spans), layout=False)
