"""Scrolling sideways through lines that are not wrapped: the columns on the screen, and their keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.cells import split_text
from rich.segment import Segment


class SidewaysText:
    """Mixin for a widget with a text whose long lines are wrapped, or continue beyond the right edge.

    It must be before the widget's class. Columns are counted in cells, from 0.
    """

    is_wrapped = True
    """False if each line of the text is one row."""
    first_column = 0
    """First column on the screen. 0 if lines are wrapped."""

    @property
    def has_text(self) -> bool:
        """True if there is a text that can be wrapped."""
        raise NotImplementedError

    @property
    def text_width(self) -> int:
        """Number of columns on the screen."""
        raise NotImplementedError

    def widest_row(self) -> int:
        """Return the width of the widest row on the screen, in cells."""
        raise NotImplementedError

    def wrapping_changed(self) -> int:
        """Lay out the text again, because `is_wrapped` changed. The text at the top stays there.

        Return the first column to show.
        """
        raise NotImplementedError

    def columns_changed(self) -> None:
        """Draw other columns, and show their numbers."""
        raise NotImplementedError

    @property
    def columns_text(self) -> str:
        """Numbers of the columns on the screen, counted from 1. Empty if lines are wrapped."""
        if self.is_wrapped or not self.has_text or not self.text_width:
            return ""
        return f"columns {self.first_column + 1:,} to {self.first_column + self.text_width:,}"

    def allows(self, action: str) -> bool:
        """Return True if an action of this mixin, or any other action, is possible at present."""
        if action == "sideways":
            return not self.is_wrapped and self.has_text
        return action != "wrap" or self.has_text

    def action_wrap(self) -> None:
        """Wrap long lines, or show each line as one row."""
        self.is_wrapped = not self.is_wrapped
        self.first_column = self.wrapping_changed()
        self.columns_changed()

    def action_sideways(self, by: int) -> None:
        """Scroll sideways by half of the width, up to the end of the widest row on the screen."""
        width = self.text_width
        last_first_column = max(self.first_column, self.widest_row() - width)
        self.scroll_to_column(min(self.first_column + by * max(1, width // 2), last_first_column))

    def scroll_to_column(self, column: int) -> None:
        """Make a column the first one on the screen."""
        column = 0 if self.is_wrapped else max(0, column)
        if column != self.first_column:
            self.first_column = column
            self.columns_changed()

    def show_columns(self, start: int, end: int) -> None:
        """Scroll sideways if the columns from `start` to `end` are not on the screen."""
        if self.first_column <= start and end <= self.first_column + self.text_width:
            return
        self.scroll_to_column(0 if end <= self.text_width else start - self.text_width // 3)


def visible_part(segments: Iterable[Segment], first_column: int, width: int) -> Iterator[Segment]:
    """Yield the part of a row that is on the screen.

    A character of two cells is replaced by a space if only one of its cells is on the screen. Unlike
    `Strip.crop`, this function never separates an emoji or a letter from its marks.
    """
    column, end = 0, first_column + width
    for segment in segments:
        text, next_column = segment.text, column + segment.cell_length
        if next_column > end:
            text = split_text(text, end - column)[0]
        if column < first_column < next_column:
            text = split_text(text, first_column - column)[1]
        if column < end and next_column > first_column:
            yield Segment(text, segment.style)
        column = next_column
