"""Section whose list has sized columns, with headers that show and change the sort order."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from string import ascii_lowercase
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from rich.cells import cell_len
from textual import events, on, work
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from mcpdesk.link.link import Link
from mcpdesk.tui.render.safe_text import one_line
from mcpdesk.tui.widgets.column_menu import RESET_LETTER, HideableColumn, WithColumnMenu
from mcpdesk.tui.widgets.line_list import Span
from mcpdesk.tui.widgets.menu import Choice, Menu
from mcpdesk.tui.widgets.section import Section

Row = TypeVar("Row")
COLUMN_GAP = 2
"""Cells between two columns."""
MUTED = "lines--muted"
"""Style of columns with less important values."""


class Column(NamedTuple, Generic[Row]):
    """Column of the list."""

    name: str
    text: Callable[[Row, float], str]
    """Function that returns the cell of a row at a Unix time in seconds."""
    order: Callable[[Row], Any]
    """Sort key of a row."""
    style: str = ""
    is_number: bool = False
    """True if cells are right-aligned."""
    is_descending: bool = False
    """True if the largest value comes first."""
    min_width: int = 0
    """Minimum width in cells if space is short, or 0 if the column is never cut."""

    def mark(self, is_reversed: bool) -> str:
        """Return the sort mark in the header of the sort column."""
        return "↓" if (self.is_number or self.is_descending) != is_reversed else "↑"

    def aligned(self, cell: str, width: int) -> str:
        """Return a cell padded to `width`, with the gap that follows it."""
        pad = " " * max(0, width - cell_len(cell))
        return (pad + cell if self.is_number else cell + pad) + " " * COLUMN_GAP


class ColumnSection(Section[Row], WithColumnMenu):
    """Section with columns that are cut or hidden if space is short. The person can hide all but the first.

    A menu or a click on a header chooses the column to sort by. Choosing it again reverses the order.
    """

    DEFAULT_CSS = """
    ColumnSection .heads { height: 1; color: $text-muted; text-style: bold; text-wrap: nowrap; }
    ColumnSection.-beside > .body > .heads { dock: top; }
    """
    table: ClassVar[Sequence[Column[Any]]]
    hiding_order: ClassVar[Sequence[str]]
    """Names of columns that are hidden if space is short, in this order."""

    def __init__(self, link: Link) -> None:
        super().__init__(link)
        self.order = 0
        """Index of the sort column."""
        self.is_reversed = False
        """True if the order of the sort column is reversed."""
        self.cells: dict[Hashable, tuple[str, ...]] = {}
        """Row key -> cell texts, one for each column."""
        self.widths = [len(column.name) + 1 for column in self.table]
        """Width in cells of the widest cell of each column, including the header with its sort mark."""
        self._headers_text = ""

    def parts(self) -> Iterable[Widget]:
        yield Static(classes="heads list-part", markup=False)
        yield from super().parts()

    @abstractmethod
    def show_order(self) -> None:
        """Show the rows, sorted by `in_order`."""

    def in_order(self, rows: Iterable[Row]) -> list[Row]:
        """Return rows sorted by the sort column."""
        return sorted(rows, key=self.table[self.order].order, reverse=self.is_reversed)

    def style_of(self, column: Column[Row], cell: str) -> str:
        """Return the component class of a cell."""
        return column.style

    def cut_cell(self, column: Column[Row], cell: str, width: int) -> str:
        """Return a cell cut to `width` cells."""
        return one_line(cell, width)

    def is_empty_column(self, column: Column[Row]) -> bool:
        """Return True if a column is empty in every row."""
        return False

    def load(self) -> None:
        super().load()
        self.widths = [
            max([len(column.name) + 1, *(cell_len(row[index]) for row in self.cells.values())])
            for index, column in enumerate(self.table)
        ]
        self.show_heads()

    def columns(self, width: int) -> list[tuple[int, Column[Row]]]:
        """Return the columns that fit into `width` cells, with their indexes in `table`."""
        candidates = self._columns_with_values()
        for name in self.hiding_order:
            if 1 + sum(self._min_width_of(index) + COLUMN_GAP for index, _ in candidates) <= width:
                break
            candidates = [(index, column) for index, column in candidates if column.name != name]
        return [(index, column) for index, column in candidates if column.name not in self.hidden_columns]

    def _columns_with_values(self) -> list[tuple[int, Column[Row]]]:
        """Return the columns that are not empty, with their indexes in `table`."""
        return [
            (index, column) for index, column in enumerate(self.table) if not self.is_empty_column(column)
        ]

    def hideable_names(self) -> Collection[str]:
        return [column.name for column in self.table[1:]]

    def hideable_columns(self) -> Sequence[HideableColumn]:
        titles = [column.name for index, column in self._columns_with_values() if index]
        letters = _letters(titles, RESET_LETTER)
        return [HideableColumn(title, title, letter) for title, letter in zip(titles, letters, strict=True)]

    def visible_columns(self) -> Collection[str]:
        return [column.name for _, column in self.columns(self._list_width)]

    def show_columns(self) -> None:
        self.listing.refresh()
        self.show_heads()

    def _shown_columns(self, width: int) -> Iterator[tuple[int, Column[Row], int]]:
        """Yield index, column and width of each column that fits.

        The remaining space goes to the columns that may be cut, beginning with the first.
        """
        columns = self.columns(width)
        remaining_width = width - 1 - sum(self._min_width_of(index) + COLUMN_GAP for index, _ in columns)
        for index, column in columns:
            min_width = self._min_width_of(index)
            extra_width = max(0, min(remaining_width, self.widths[index] - min_width))
            remaining_width -= extra_width
            yield index, column, min_width + extra_width

    def _min_width_of(self, index: int) -> int:
        min_width = self.table[index].min_width
        return min(self.widths[index], min_width) if min_width else self.widths[index]

    def spans(self, row: Row, width: int) -> Iterable[Span]:
        yield " ", ""
        cells = self.cells[self.keys_of(row)[0]]
        for index, column, column_width in self._shown_columns(width):
            yield (
                column.aligned(self.cut_cell(column, cells[index], column_width), column_width),
                self.style_of(column, cells[index]),
            )

    def texts_of(self, row: Row) -> Iterable[str]:
        return self.cells[self.keys_of(row)[0]]

    def show_heads(self) -> None:
        """Draw the headers above the columns that fit."""
        text = " " + "".join(title for _, title in self._titles())
        if text != self._headers_text:
            self._headers_text = text
            self.query_one(".heads", Static).update(Content(text))

    def show_detail(self) -> None:
        """Show the details of the selected row, and the headers, which depend on the width of the list."""
        super().show_detail()
        self.show_heads()

    def _titles(self) -> Iterator[tuple[int, str]]:
        """Yield the index of each shown column, and its padded header."""
        for index, column, column_width in self._shown_columns(self._list_width):
            mark = column.mark(self.is_reversed) if index == self.order else ""
            yield index, column.aligned(column.name + mark, column_width)

    @property
    def _list_width(self) -> int:
        """Width of the list in cells, or of the section before the list is laid out."""
        return self.listing.size.width or self.size.width

    def on_resize(self) -> None:
        """Redraw the headers, because other columns may fit."""
        super().on_resize()
        self.call_after_refresh(self.show_heads)

    @work
    async def action_sort(self) -> None:
        """Let the person choose the column to sort by."""
        columns = self.columns(self._list_width)
        letters = _letters([column.name for _, column in columns])
        choices = [
            Choice(column.name, index, self._order_text(index), letter)
            for (index, column), letter in zip(columns, letters, strict=True)
        ]
        cursor = next((position for position, (index, _) in enumerate(columns) if index == self.order), 0)
        index: int | None = await self.app.push_screen_wait(Menu("Sort by", choices, cursor=cursor))
        if index is not None:
            self._sort_by(index)

    def _order_text(self, index: int) -> str:
        if index != self.order:
            return ""
        return f"{self.table[index].mark(self.is_reversed)} now; choose it again to reverse the order"

    def _sort_by(self, index: int) -> None:
        """Sort by a column. If it is already the sort column, reverse the order."""
        self.is_reversed = index == self.order and not self.is_reversed
        self.order = index
        self.show_order()

    @on(events.Click, ".heads")
    def _head_clicked(self, event: events.Click) -> None:
        """Sort by the column whose header is clicked."""
        end = 1
        for index, title in self._titles():
            end += cell_len(title)
            if event.x < end:
                self._sort_by(index)
                return


def _letters(names: Sequence[str], reserved_letters: str = "") -> list[str]:
    """Return for each name one of its letters that no earlier name uses, or else an unused letter.

    Letters that move the cursor of a menu, and `reserved_letters`, are not used.
    """
    used_letters = set("gjk" + reserved_letters)
    letters = []
    for name in names:
        candidates = (character for character in name.lower() if character.isalnum())
        letter = next((candidate for candidate in candidates if candidate not in used_letters), "")
        used_letters.add(letter)
        letters.append(letter)
    spare_letters = (letter for letter in ascii_lowercase if letter not in used_letters)
    return [letter or next(spare_letters, "") for letter in letters]
