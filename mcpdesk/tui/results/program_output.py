"""Output of a program, and the view that shows it.

Escape sequences for colours become styles. All other escape sequences are removed. A style ends with its
line: programs that print colours set them again in each line.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import ClassVar

from rich.ansi import AnsiDecoder
from rich.cells import cell_len
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.binding import BindingType
from textual.geometry import Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from mcpdesk.tui.actions import bindings_for
from mcpdesk.tui.render.safe_text import clean
from mcpdesk.tui.results.long_text import word_rows
from mcpdesk.tui.results.sideways_text import SidewaysText, visible_part
from mcpdesk.tui.widgets.first_size import WithFirstResize
from mcpdesk.tui.widgets.line_list import SCROLL_BINDINGS

MAX_ROWS = 10_000
"""Maximum number of rows. If there are more, the oldest fifth is removed."""
MAX_LINE_LENGTH = 8_192
"""Maximum length in characters of a line. A longer line is divided."""

Row = tuple[str, int, int]
"""The part of a line that is one row of the view: the line as the program wrote it, and the start and end of
the row as indexes into `plain(line)`."""


class OutputView(SidewaysText, WithFirstResize, ScrollView, can_focus=True):
    """View of a text that grows. While `following` is True, the view stays at the end. Scrolling up sets
    `following` to False.
    """

    BINDINGS: ClassVar[list[BindingType]] = [*SCROLL_BINDINGS, *bindings_for("long_text")]
    DEFAULT_CSS = """
    OutputView {
        height: 1fr; padding: 0; overflow-x: hidden; overflow-y: auto; background: transparent;
        scrollbar-size-vertical: 1; scrollbar-gutter: stable;
    }
    """
    following: reactive[bool] = reactive(True)

    class FollowingChanged(Message):
        """`following` was switched on or off."""

    class ColumnsChanged(Message):
        """Other columns are on the screen, or lines are wrapped again."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: list[Row] = []
        self._partial_line = ""
        """Text after the last line break."""
        self._partial_row_count = 0
        """Number of rows at the end of `_rows` that show `_partial_line`."""
        self._is_scrolling = False
        """True while the view scrolls itself."""

    @property
    def rows(self) -> list[str]:
        """Rows, without colours."""
        return [plain(line)[start:end] for line, start, end in self._rows]

    @property
    def text(self) -> str:
        """All kept lines, without colours."""
        return "\n".join(plain(line) for line in self._lines())

    def clear(self) -> None:
        """Remove everything, and follow again."""
        self._rows, self._partial_line, self._partial_row_count = [], "", 0
        self.following = True
        self._rows_changed(0)

    def add(self, text: str) -> None:
        """Append text."""
        if not text:
            return
        if self._partial_row_count:
            del self._rows[-self._partial_row_count :]
        *lines, partial_line = (self._partial_line + text).split("\n")
        while len(partial_line) > MAX_LINE_LENGTH:
            lines.append(partial_line[:MAX_LINE_LENGTH])
            partial_line = partial_line[MAX_LINE_LENGTH:]
        for line in lines[-MAX_ROWS:]:
            self._rows += self._rows_of(_without_overwritten(line).rstrip("\r"))
        self._partial_line = _without_overwritten(partial_line)
        partial_rows = self._rows_of(self._partial_line.rstrip("\r")) if partial_line else []
        self._partial_row_count = len(partial_rows)
        self._rows += partial_rows
        removed_count = 0
        if len(self._rows) > MAX_ROWS:
            removed_count = len(self._rows) - MAX_ROWS * 4 // 5
            del self._rows[:removed_count]
            self._partial_row_count = min(self._partial_row_count, len(self._rows))
        self._rows_changed(removed_count)

    def render_line(self, y: int) -> Strip:
        row_index = y + self.scroll_offset.y
        width, base_style = self.size.width, self.rich_style
        if not 0 <= row_index < len(self._rows):
            return Strip.blank(width, base_style)
        line, start, end = self._rows[row_index]
        segments, offset = [], 0
        for text, style in spans(line):
            visible_text = text[max(0, start - offset) : max(0, end - offset)]
            offset += len(text)
            if visible_text:
                segments.append(Segment(visible_text, base_style + style))
        strip = Strip(visible_part(segments, self.first_column, width))
        return strip.adjust_cell_length(width, base_style)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Enable the keys for wrapping if there is output."""
        return self.allows(action)

    @property
    def has_text(self) -> bool:
        return bool(self._rows)

    @property
    def text_width(self) -> int:
        return self.size.width

    def widest_row(self) -> int:
        top = self.scroll_offset.y
        rows = self._rows[top : top + self.size.height]
        return max((cell_len(plain(line)[start:end]) for line, start, end in rows), default=0)

    def wrapping_changed(self) -> int:
        self._lay_out()
        return 0

    def columns_changed(self) -> None:
        self.refresh()
        self.refresh_bindings()
        self.post_message(self.ColumnsChanged())

    def toggle(self) -> None:
        """Switch following on or off."""
        self.following = not self.following
        self._rows_changed(0)

    def watch_following(self) -> None:
        self.post_message(self.FollowingChanged())

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Follow when the person scrolls to the end. Stop when the person scrolls away."""
        super().watch_scroll_y(old_value, new_value)
        if not self._is_scrolling and old_value != new_value:
            self.following = new_value >= self.max_scroll_y

    def watch_show_vertical_scrollbar(self, is_shown: bool) -> None:
        """Move the thumb of a new scrollbar to its position. Textual would do this only at the next
        scrolling.
        """
        if is_shown:
            self.vertical_scrollbar.position = self.scroll_y

    def on_resize(self) -> None:
        """Wrap all lines again, and report the columns on the screen."""
        self._lay_out()
        if not self.is_wrapped:
            self.post_message(self.ColumnsChanged())

    def _lay_out(self) -> None:
        """Divide all lines into rows again. The text in the top row stays there, unless the view follows the
        end.
        """
        lines, top = self._lines(), min(self.scroll_offset.y, len(self._rows) - 1)
        # The first row may continue a line whose other rows were removed.
        line_count = sum(
            start == 0 or row_index == 0 for row_index, (_, start, _) in enumerate(self._rows[: top + 1])
        )
        # Index of the line in the top row, and index of the first character of the row in this line.
        top_line, top_offset = (line_count - 1, self._rows[top][1]) if top >= 0 else (0, 0)
        rows_by_line = [self._rows_of(line) for line in lines]
        self._rows = [row for line_rows in rows_by_line for row in line_rows]
        self._partial_row_count = len(rows_by_line[-1]) if self._partial_row_count and rows_by_line else 0
        new_top = sum(map(len, rows_by_line[:top_line]))
        new_top += sum(0 < end <= top_offset for _, _, end in rows_by_line[top_line]) if rows_by_line else 0
        self._rows_changed(top - new_top)

    def _lines(self) -> list[str]:
        return [line for row_index, (line, start, _) in enumerate(self._rows) if start == 0 or row_index == 0]

    def _rows_of(self, line: str) -> list[Row]:
        width = (self.size.width or 80) if self.is_wrapped else 0
        return [(line, start, end) for start, end in row_bounds(plain(line), width)]

    def _rows_changed(self, removed_count: int) -> None:
        """Scroll to the end, or keep the visible rows in place after the oldest rows were removed.

        If `removed_count` is negative, rows were added above.
        """
        self._is_scrolling = True
        try:
            offset = self.scroll_offset.y - removed_count
            self.virtual_size = Size(self.size.width, len(self._rows))
            target = self.max_scroll_y if self.following else max(0, min(offset, self.max_scroll_y))
            self.scroll_to(y=target, animate=False, force=True, immediate=True)
        finally:
            self._is_scrolling = False
        self.refresh()


def _without_overwritten(line: str) -> str:
    """Return the visible part of a line: the text after the last carriage return."""
    if "\r" not in line:
        return line
    body = line.rstrip("\r")
    return body.rpartition("\r")[2] + ("\r" if len(body) < len(line) else "")


_ESCAPE_SEQUENCE = re.compile(
    r"\x1b(?:"
    r"\[(?P<style>[\d;:]{0,100})m"
    r"|\[[0-?]*[ -/]*[@-~]?"
    r"|[\]PX^_].*?(?:\x07|\x1b\\|$)"
    r"|[ -/]*[0-~]?"
    r")",
    re.DOTALL,
)
"""Matches escape sequences: styles, other CSI sequences, strings (titles, links) up to their end, and all
others."""
_BLACK, _GREY, _WHITES = 0, 8, (7, 15)
"""Numbers of ANSI colours. Black and white text is drawn in another colour, because the background may be
black or white."""


def plain(line: str) -> str:
    """Return a line without escape sequences and other control characters."""
    return clean(_ESCAPE_SEQUENCE.sub("", line) if "\x1b" in line else line, newlines=False)


def spans(line: str) -> Iterator[tuple[str, Style]]:
    """Yield the parts of a line with their styles. Joined, the parts are equal to `plain(line)`."""
    decoder, position = AnsiDecoder(), 0
    for sequence in _ESCAPE_SEQUENCE.finditer(line):
        if sequence.start() > position:
            yield clean(line[position : sequence.start()], newlines=False), _legible_style(decoder.style)
        position = sequence.end()
        if sequence["style"] is not None:
            decoder.decode_line(sequence[0].replace(":", ";"))
    if position < len(line):
        yield clean(line[position:], newlines=False), _legible_style(decoder.style)


def row_bounds(text: str, width: int) -> Iterator[tuple[int, int]]:
    """Yield start and end of each row of a plain line, wrapped between words if possible."""
    if width <= 0 or (len(text) <= width and cell_len(text) <= width):
        yield 0, len(text)
        return
    start = 0
    for row in word_rows(text, width):
        yield start, start + len(row)
        start += len(row)


def _legible_style(style: Style) -> Style:
    """Return a style without blinking, hiding and links, with black and white readable on any background."""
    color, background = _explicit_colour(style.color), _explicit_colour(style.bgcolor)
    if background is None and color is not None and color.number in (_BLACK, *_WHITES):
        color = Color.from_ansi(_GREY) if color.number == _BLACK else None
    return Style(
        color=color,
        bgcolor=background,
        bold=style.bold or None,
        dim=style.dim or None,
        italic=style.italic or None,
        underline=style.underline or None,
        reverse=style.reverse or None,
        strike=style.strike or None,
    )


def _explicit_colour(colour: Color | None) -> Color | None:
    """Return a colour, or None if it is the default colour of the terminal."""
    return None if colour is None or colour.is_default else colour
