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
from mcpdesk.tui.results.records import Records, as_csv, as_table, cell, sorted_rows
from mcpdesk.tui.widgets.line_list import LineList, Span, column
from mcpdesk.tui.widgets.menu import Choice
from mcpdesk.tui.widgets.typed_query import TypedQuery

if TYPE_CHECKING:
    from mcpdesk.tui.app import DeskApp

_MEASURED_ROWS = 500
"""Number of rows, from the first, whose cells determine the widths of the columns."""
_MAX_COLUMN_WIDTH = 40
"""Maximum width of a column in terminal cells."""
_COLUMN_GAP = 2
"""Cells between two columns."""


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
        self._shown_rows: list[int] = []
        """Indexes of the shown records, in the order on the screen."""
        self._widths: list[int] = []
        """Width of each column in cells."""
        self._selected_column = 0
        """Index of the selected column."""
        self._first_column = 0
        """Index of the leftmost visible column."""
        self._sorting: tuple[str, bool] | None = None
        """Name of the sort column, and True if the largest value comes first."""
        self._texts: dict[int, str] = {}
        """Index of a record -> its text for the filter, cached."""

    def load(self, records: Records | None) -> None:
        """Show another list. If it has the same columns as the last one, keep sort order and filter."""
        old_columns = () if self.records is None else self.records.columns
        self.records, self._texts = records, {}
        if records is None:
            self._shown_rows, self._widths = [], []
        else:
            if records.columns != old_columns:
                self._selected_column = self._first_column = self.cursor = 0
                self._sorting, self.query_text, self.is_typing = None, "", False
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
        return len(self._shown_rows)

    @property
    def fixed_lines(self) -> int:
        """One line for the headers, and one for the filter while it is active."""
        return 1 + self.has_query

    def render_line(self, y: int) -> Strip:
        """Draw the headers, a row, or the filter."""
        if y == 0:
            return self._draw_headers()
        if y == self.size.height - 1 and self.has_query:
            style = self.rich_style + self.get_component_rich_style("lines--head", partial=True)
            total = 0 if self.records is None else len(self.records.rows)
            message = f"{one_line(self.query_line)}  {len(self._shown_rows):,} of {total:,} rows"
            return Strip([Segment(message, style)]).adjust_cell_length(self.size.width, style)
        return super().render_line(y - 1)

    def spans(self, index: int, width: int) -> Iterator[Span]:
        records = self.records
        if records is None:
            return
        record = records.rows[self._shown_rows[index]]
        for column_index, column_width in self._visible_columns(width):
            name = records.columns[column_index]
            value, text = record.get(name), one_line(cell(record, name)[: 4 * column_width], column_width)
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            style = "lines--number" if is_number else "" if isinstance(value, str) else "lines--muted"
            if is_number:
                padded_text = " " * (column_width - cell_len(text)) + text
            else:
                padded_text = column(text, column_width)
            width -= column_width + _COLUMN_GAP
            yield padded_text + " " * (_COLUMN_GAP if width > 0 else 0), style

    def _visible_columns(self, width: int) -> Iterator[tuple[int, int]]:
        """Yield the visible columns with their widths. The last column takes the remaining space."""
        remaining, column_index = width, self._first_column
        while remaining > 0 and column_index < len(self._widths):
            is_last = column_index == len(self._widths) - 1
            yield column_index, max(1, min(remaining, remaining if is_last else self._widths[column_index]))
            remaining -= self._widths[column_index] + _COLUMN_GAP
            column_index += 1

    def _draw_headers(self) -> Strip:
        names = () if self.records is None else self.records.columns
        style = self.rich_style + self.get_component_rich_style("lines--head", partial=True)
        selected_style = style + self.get_component_rich_style("lines--hit", partial=True)
        segments = []
        for column_index, column_width in self._visible_columns(self.size.width):
            mark = ""
            if self._sorting is not None and self._sorting[0] == names[column_index]:
                mark = "↓" if self._sorting[1] else "↑"
            text = column(one_line(names[column_index], max(1, column_width - 1)) + mark, column_width)
            header_style = selected_style if column_index == self._selected_column else style
            segments.append(Segment(text, header_style + Style(meta={"head": column_index})))
            segments.append(Segment(" " * _COLUMN_GAP, style))
        return Strip(segments).adjust_cell_length(self.size.width, style)

    def _filter_and_sort(self) -> None:
        records = self.records
        if records is None:
            return
        words = self.query_text.lower().split()
        rows = [row for row in range(len(records.rows)) if all(word in self._text(row) for word in words)]
        if self._sorting is not None and self._sorting[0] in records.columns:
            name, is_descending = self._sorting
            rows = sorted_rows(rows, records, name, is_descending=is_descending)
        self._shown_rows = rows

    def _text(self, row: int) -> str:
        if self.records is not None and row not in self._texts:
            self._texts[row] = compact(self.records.rows[row]).lower()
        return self._texts[row]

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
        self._selected_column = max(0, min(len(self._widths) - 1, self._selected_column + by))
        self._first_column = min(self._first_column, self._selected_column)
        while self._first_column < self._selected_column and not self._is_readable(self._selected_column):
            self._first_column += 1
        self.refresh()

    def _is_readable(self, index: int) -> bool:
        """Return True if all of a column, or at least a useful part of it, is visible."""
        full_width = self._widths[index]
        return any(
            visible_index == index and visible_width >= min(full_width, _COLUMN_GAP * 6)
            for visible_index, visible_width in self._visible_columns(self.size.width)
        )

    def action_sort(self) -> None:
        """Sort by the selected column. If this is repeated, first reverse the order, then end sorting."""
        if self.records is None:
            return
        name = self.records.columns[self._selected_column]
        next_order: dict[Any, tuple[str, bool] | None] = {(name, False): (name, True), (name, True): None}
        self._sorting = next_order.get(self._sorting, (name, False))
        self._filter_and_sort()
        self.rows_changed()

    def on_click(self, event: events.Click) -> None:
        """Sort by the column whose header is clicked."""
        header_index = event.style.meta.get("head")
        if header_index is None:
            super().on_click(event)
        else:
            self._selected_column = header_index
            self.action_sort()

    clicks_to_choose = 2

    def choose_row(self, index: int) -> None:
        if self.records is not None:
            self.post_message(self.Opened((*self.records.path, self._shown_rows[index])))

    @work
    async def action_copy(self) -> None:
        """Copy a cell, an object, or the shown rows."""
        records = self.records
        if records is None or not self._shown_rows:
            return
        record = records.rows[self._shown_rows[self.cursor]]
        name = records.columns[self._selected_column]
        shown_records = [records.rows[row] for row in self._shown_rows]
        row_count = counted(len(shown_records), "row")
        choices = [
            Choice(f"{row_count} as CSV", as_csv(shown_records, records.columns), "", "c"),
            Choice(f"{row_count} as Markdown", as_table(shown_records, records.columns), "", "m"),
            Choice(f"{row_count} as JSON", pretty(shown_records), "", "j"),
            Choice("row as JSON", pretty(record), one_line(compact(record)[:80], 40), "r"),
            Choice("cell", cell(record, name), one_line(name, 40), "l"),
        ]
        await self.app.copy_one_of(choices)
