"""Scrolling list of one-line rows with a cursor. Only visible rows are drawn.

Subclasses define the number of rows and the contents of a row. Rows never wrap: long rows are cut.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Hashable, Iterable, Sequence
from typing import ClassVar, Generic, TypeVar

from rich.cells import cell_len, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from mcpdesk.tui.render.safe_text import one_line
from mcpdesk.tui.widgets.first_size import WithFirstResize

Row = TypeVar("Row")
Span = tuple[str, str]
"""Text, and the component class that styles it. An empty class means the widget's own style."""
SCROLL_BINDINGS: list[BindingType] = [
    Binding("k", "scroll_up", "Up", show=False),
    Binding("j", "scroll_down", "Down", show=False),
    Binding("g g", "scroll_home", "top", show=False),
    Binding("G", "scroll_end", "Bottom", show=False),
]
"""Letters that scroll a widget without a cursor. In a list the same letters move the cursor."""
CURSOR_BINDINGS: list[BindingType] = [
    Binding("up,k", "cursor(-1)", "Up", show=False),
    Binding("down,j", "cursor(1)", "Down", show=False),
    Binding("pageup", "page(-1)", "Page up", show=False),
    Binding("pagedown", "page(1)", "Page down", show=False),
    Binding("home,g g", "first", "first line", show=False),
    Binding("end,G", "last", "Last", show=False),
]
"""Keys that move the cursor of a list."""


CELL_CHARACTERS = 4
"""Number of measured characters for each cell. A letter may have several combining accents."""


def column(text: str, width: int) -> str:
    """Return `text` cleaned, on one line, and exactly `width` cells wide."""
    return set_cell_size(one_line(text, width), width)


class LineList(WithFirstResize, ScrollView, can_focus=True):
    """Base class of trees and catalogues. Override `row_count`, `spans` and `choose_row`."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "lines--cursor",
        "lines--key",
        "lines--muted",
        "lines--text",
        "lines--number",
        "lines--word",
        "lines--good",
        "lines--bad",
        "lines--warn",
        "lines--head",
        "lines--hit",
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        *CURSOR_BINDINGS,
        Binding("enter", "choose", "Choose", show=False),
    ]
    DEFAULT_CSS = """
    LineList {
        background: transparent;
        overflow-x: hidden;
        overflow-y: auto;
        scrollbar-size-vertical: 1;
        & > .lines--cursor {
            background: $block-cursor-blurred-background;
            color: $block-cursor-blurred-foreground;
            text-style: $block-cursor-blurred-text-style;
        }
        & > .lines--key { color: $text-primary; }
        & > .lines--muted { color: $text-muted; }
        & > .lines--text { color: $text-success; }
        & > .lines--number { color: $text-warning; }
        & > .lines--word { color: $text-accent; }
        & > .lines--good { color: $text-success; }
        & > .lines--bad { color: $text-error; }
        & > .lines--warn { color: $text-warning; }
        & > .lines--head { text-style: bold; }
        & > .lines--hit { text-style: bold underline; color: $text-accent; }
        &:focus > .lines--cursor {
            background: $block-cursor-background;
            color: $block-cursor-foreground;
            text-style: $block-cursor-text-style;
        }
    }
    """

    clicks_to_choose = 1
    """Number of clicks on a row that choose it. The first click selects it."""
    cursor: reactive[int] = reactive(0)

    @property
    @abstractmethod
    def row_count(self) -> int:
        """Number of rows."""

    @abstractmethod
    def spans(self, index: int, width: int) -> Iterable[Span]:
        """Return the contents of row `index`, left to right, in at most about `width` cells."""

    def choose_row(self, index: int) -> None:
        """Handle enter or a click on a row."""

    def handle_cursor_move(self) -> None:
        """Handle a cursor move by a key or a click."""

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of rows and fixed lines. Textual uses it if the height is automatic."""
        return max(1, self.row_count) + self.fixed_lines

    @property
    def fixed_lines(self) -> int:
        """Number of lines, such as headers or a filter, that take space from the rows and do not scroll.

        The list can scroll further by this number of lines.
        """
        return 0

    def rows_changed(self) -> None:
        """Update the widget after its rows were replaced. The cursor stays within them."""
        self.virtual_size = Size(self.container_size.width, self.row_count + self.fixed_lines)
        self.cursor = self.validate_cursor(self.cursor)
        self.refresh(layout=self.styles.is_auto_height)

    def validate_cursor(self, cursor: int) -> int:
        """Keep the cursor on an existing row."""
        return max(0, min(cursor, self.row_count - 1))

    def watch_cursor(self) -> None:
        """Scroll the cursor into view."""
        self._show_cursor()
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw one row, cut to the width."""
        width, index = self.size.width, y + self.scroll_offset.y
        base_style = self.rich_style
        if not 0 <= index < self.row_count:
            return Strip.blank(width, base_style)
        strip = Strip(self._segments(index, width, base_style)).adjust_cell_length(width, base_style)
        if index == self.cursor:
            strip = self._with_cursor(strip)
        return strip.apply_meta({"row": index})

    def action_cursor(self, by: int) -> None:
        """Move the cursor by rows."""
        self.cursor += by
        self.handle_cursor_move()

    def action_page(self, by: int) -> None:
        """Move the cursor by pages."""
        self.cursor += by * max(1, self.size.height - 1)
        self.handle_cursor_move()

    def action_first(self) -> None:
        """Move the cursor to the first row."""
        self.cursor = 0
        self.handle_cursor_move()

    def action_last(self) -> None:
        """Move the cursor to the last row."""
        self.cursor = self.row_count - 1
        self.handle_cursor_move()

    def action_choose(self) -> None:
        """Choose the row under the cursor."""
        if self.row_count:
            self.choose_row(self.cursor)

    def on_click(self, event: events.Click) -> None:
        """Select the row under the mouse, or choose it."""
        index = event.style.meta.get("row")
        if index is not None and index < self.row_count:
            self.cursor = index
            self.handle_cursor_move()
            if event.chain >= self.clicks_to_choose:
                self.choose_row(index)

    def on_resize(self) -> None:
        """Keep the cursor in view when the size changes."""
        self.virtual_size = Size(self.container_size.width, self.row_count + self.fixed_lines)
        self._show_cursor()

    def _show_cursor(self) -> None:
        if self.row_count and self.size.height:
            row = Region(0, self.cursor, 1, 1 + self.fixed_lines)
            self.scroll_to_region(row, animate=False, force=True, immediate=True)

    def _segments(self, index: int, width: int, base_style: Style) -> list[Segment]:
        remaining, segments = width, []
        for text, component in self.spans(index, width):
            if remaining <= 0:
                break
            text = text[: CELL_CHARACTERS * (remaining + 1)]
            text_width = cell_len(text)
            if text_width > remaining:
                text, text_width = set_cell_size(text, remaining - 1).rstrip() + "…", remaining
            style = (
                base_style + self.get_component_rich_style(component, partial=True)
                if component
                else base_style
            )
            segments.append(Segment(text, style))
            remaining -= text_width
        return segments

    def _with_cursor(self, strip: Strip) -> Strip:
        style = self.get_component_rich_style("lines--cursor", partial=True)
        return Strip(
            [Segment(segment.text, (segment.style or Style()) + style) for segment in strip],
            strip.cell_length,
        )


class RowList(LineList, Generic[Row]):
    """List of values, one row each. Override `spans`, and also `keys_of` if `show` is used."""

    clicks_to_choose = 2

    class Moved(Message):
        """Another row is under the cursor, or the contents of the row changed."""

    class Opened(Message):
        """The row under the cursor was chosen."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: Sequence[Row] = ()

    @property
    def row_count(self) -> int:
        return len(self.rows)

    @property
    def selected(self) -> Row | None:
        """Row under the cursor, or None if the list is empty."""
        return self.rows[self.cursor] if self.cursor < len(self.rows) else None

    def keys_of(self, row: Row) -> tuple[Hashable, ...]:
        """Return the key of a row, then the keys of rows to select instead if it no longer exists."""
        raise NotImplementedError

    def show(self, rows: Sequence[Row]) -> None:
        """Replace the rows. The selected row stays selected."""
        selected_keys = () if self.selected is None else self.keys_of(self.selected)
        self.rows = rows
        self.rows_changed()
        positions = {self.keys_of(row)[0]: index for index, row in enumerate(rows)}
        self.cursor = next((positions[key] for key in selected_keys if key in positions), self.cursor)
        self.post_message(self.Moved())

    def watch_cursor(self) -> None:
        super().watch_cursor()
        self.post_message(self.Moved())

    def choose_row(self, index: int) -> None:
        self.post_message(self.Opened())
