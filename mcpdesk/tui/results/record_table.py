"""Table of a list of objects: sort by a column, filter, copy, and open an object."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events, work
from textual.binding import BindingType
from textual.message import Message
from textual.strip import Strip

from mcpdesk.tui.actions import bindings_for
from mcpdesk.tui.render.amounts import counted
from mcpdesk.tui.render.json_text import Path, compact, pretty
from mcpdesk.tui.render.safe_text import one_line
from mcpdesk.tui.results.records import Records, as_csv, as_table, cell, in_order
from mcpdesk.tui.widgets.line_list import LineList, Span, column
from mcpdesk.tui.widgets.menu import Choice
from mcpdesk.tui.widgets.typed_query import TypedQuery

if TYPE_CHECKING:
    from mcpdesk.tui.app import DeskApp

_MEASURED_ROWS = 500
"""Number of rows, from the first, whose cells determine the widths of the columns."""
_MAX_COLUMN_WIDTH = 40
"""Maximum width of a column in terminal cells."""
_GAP = 2


class RecordTable(TypedQuery, LineList):
    """One row per object below headers. `left` and `right` select a column, `s` sorts by it, `/` filters."""

    app: DeskApp
    BINDINGS: ClassVar[list[BindingType]] = bindings_for("table")
    DEFAULT_CSS = "RecordTable { height: 1fr; padding: 0 1; }"

    @dataclass
    class Opened(Message):
        """Request to show the object at `path` in the result."""

        path: Path

    def __init__(self, *, id: str) -> None:
        super().__init__(id=id)
        self.records: Records | None = None
        self._order: list[int] = []
        """Indexes of the shown records."""
        self._widths: list[int] = []
        self._column = 0
        """Selected column."""
        self._first = 0
        """Leftmost visible column."""
        self._sorted: tuple[str, bool] | None = None
        """Sort column, and True if the largest value comes first."""
        self._texts: dict[int, str] = {}
        """Index of a record -> its text for the filter, cached."""

    def load(self, records: Records | None) -> None:
        """Show another list. If it has the same columns as the last one, keep sort order and filter."""
        before = () if self.records is None else self.records.columns
        self.records, self._texts = records, {}
        if records is None:
            self._order, self._widths = [], []
        else:
            if records.columns != before:
                self._column = self._first = self.cursor = 0
                self._sorted, self.query_text, self.is_typing = None, "", False
            self._widths = [self._width_of(records, name) for name in records.columns]
            self._filter_and_sort()
        self.rows_changed()

    @staticmethod
    def _width_of(records: Records, name: str) -> int:
        cells = (
            cell_len(one_line(cell(row, name)[:_MAX_COLUMN_WIDTH])) for row in records.rows[:_MEASURED_ROWS]
        )
        return min(_MAX_COLUMN_WIDTH, max(cell_len(one_line(name)) + 2, *cells, 1))

    @property
    def row_count(self) -> int:
        return len(self._order)

    @property
    def fixed_lines(self) -> int:
        """One line for the headers, and one for the filter while it is active."""
        return 1 + self.has_query

    def render_line(self, y: int) -> Strip:
        """Draw the headers, a row, or the filter."""
        if y == 0:
            return self._head()
        if y == self.size.height - 1 and self.has_query:
            style = self.rich_style + self.get_component_rich_style("lines--head", partial=True)
            total = 0 if self.records is None else len(self.records.rows)
            message = f"{one_line(self.query_line)}  {len(self._order):,} of {total:,} rows"
            return Strip([Segment(message, style)]).adjust_cell_length(self.size.width, style)
        return super().render_line(y - 1)

    def spans(self, index: int, width: int) -> Iterator[Span]:
        records = self.records
        if records is None:
            return
        record = records.rows[self._order[index]]
        for at, cells in self._visible_columns(width):
            name = records.columns[at]
            value, text = record.get(name), one_line(cell(record, name)[: 4 * cells], cells)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            style = "lines--number" if is_number else "" if isinstance(value, str) else "lines--muted"
            shown = " " * (cells - cell_len(text)) + text if is_number else column(text, cells)
            width -= cells + _GAP
            yield shown + " " * (_GAP if width > 0 else 0), style

    def _visible_columns(self, width: int) -> Iterator[tuple[int, int]]:
        """Yield the visible columns with their widths. The last column takes the remaining space."""
        left, at = width, self._first
        while left > 0 and at < len(self._widths):
            is_last = at == len(self._widths) - 1
            yield at, max(1, min(left, left if is_last else self._widths[at]))
            left -= self._widths[at] + _GAP
            at += 1

    def _head(self) -> Strip:
        names = () if self.records is None else self.records.columns
        style = self.rich_style + self.get_component_rich_style("lines--head", partial=True)
        chosen = style + self.get_component_rich_style("lines--hit", partial=True)
        segments = []
        for at, cells in self._visible_columns(self.size.width):
            mark = ""
            if self._sorted is not None and self._sorted[0] == names[at]:
                mark = "↓" if self._sorted[1] else "↑"
            text = column(one_line(names[at], max(1, cells - 1)) + mark, cells)
            segments.append(
                Segment(text, (chosen if at == self._column else style) + Style(meta={"head": at}))
            )
            segments.append(Segment(" " * _GAP, style))
        return Strip(segments).adjust_cell_length(self.size.width, style)

    def _filter_and_sort(self) -> None:
        records = self.records
        if records is None:
            return
        words = self.query_text.lower().split()
        rows = [at for at in range(len(records.rows)) if all(word in self._text(at) for word in words)]
        if self._sorted is not None and self._sorted[0] in records.columns:
            name, is_descending = self._sorted
            rows = in_order(rows, records, name, is_descending=is_descending)
        self._order = rows

    def _text(self, at: int) -> str:
        if self.records is not None and at not in self._texts:
            self._texts[at] = compact(self.records.rows[at]).lower()
        return self._texts[at]

    def query_changed(self) -> None:
        """Show the rows that match the typed text."""
        self._filter_and_sort()
        self.rows_changed()

    def query_ended(self) -> None:
        """Show the rows that match the filter. If escape cleared it, these are all rows."""
        self.query_changed()

    def action_filter(self) -> None:
        """Open the filter. It shows only rows that contain all typed words."""
        self.begin_query()

    def action_column(self, by: int) -> None:
        """Select another column, and scroll it into view."""
        self._column = max(0, min(len(self._widths) - 1, self._column + by))
        self._first = min(self._first, self._column)
        while self._first < self._column and not self._is_complete(self._column):
            self._first += 1
        self.refresh()

    def _is_complete(self, index: int) -> bool:
        wanted = self._widths[index]
        return any(
            at == index and cells >= min(wanted, _GAP * 6)
            for at, cells in self._visible_columns(self.size.width)
        )

    def action_sort(self) -> None:
        """Sort by the selected column. If this is repeated, first reverse the order, then end sorting."""
        if self.records is None:
            return
        name = self.records.columns[self._column]
        order: dict[Any, tuple[str, bool] | None] = {(name, False): (name, True), (name, True): None}
        self._sorted = order.get(self._sorted, (name, False))
        self._filter_and_sort()
        self.rows_changed()

    def on_click(self, event: events.Click) -> None:
        """Sort by the column whose header is clicked."""
        head = event.style.meta.get("head")
        if head is None:
            super().on_click(event)
        else:
            self._column = head
            self.action_sort()

    clicks_to_choose = 2

    def choose_row(self, index: int) -> None:
        if self.records is not None:
            self.post_message(self.Opened((*self.records.path, self._order[index])))

    @work
    async def action_copy(self) -> None:
        """Copy a cell, an object, or the shown rows."""
        records = self.records
        if records is None or not self._order:
            return
        record, name = records.rows[self._order[self.cursor]], records.columns[self._column]
        rows, count = [records.rows[at] for at in self._order], counted(len(self._order), "row")
        choices = [
            Choice(f"{count} as CSV", as_csv(rows, records.columns), "", "c"),
            Choice(f"{count} as Markdown", as_table(rows, records.columns), "", "m"),
            Choice(f"{count} as JSON", pretty(rows), "", "j"),
            Choice("row as JSON", pretty(record), one_line(compact(record)[:80], 40), "r"),
            Choice("cell", cell(record, name), one_line(name, 40), "l"),
        ]
        await self.app.copy_one_of(choices)
