"""Text of any size: searched, selected, and laid out in steps. Only visible rows are created.

Offsets are positions in the original text. A drawn row contains no control characters.
"""

from __future__ import annotations

import time
from array import array
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate

from rich.cells import cell_len, chop_cells, split_text
from rich.segment import Segment
from textual.geometry import Offset, Size
from textual.selection import Selection
from textual.strip import Strip
from textual.timer import Timer
from textual.widget import Widget

from mcpdesk.tui.render.safe_text import clean
from mcpdesk.tui.results.line_layout import LineLayout, Window
from mcpdesk.tui.results.sideways_text import SidewaysText, visible_part

MAX_SEGMENT_LENGTH = 4_096
"""Maximum number of characters in a segment. A longer line is divided, because a very long text may be one
line."""
MAX_WRAPPED_LENGTH = 4_000_000
"""Maximum length of a text that is wrapped between words. A longer text is wrapped at the right edge."""
BLOCK_LENGTH = 1 << 16
"""Size in characters of a block. If its lines are short and ASCII, they are laid out in one step."""
LAYOUT_STEP_S = 0.05
"""Seconds of layout before the first rows are drawn, and in each later step."""
LAYOUT_PAUSE_S = 0.05
"""Seconds between two steps, in which keys are handled and the screen is drawn."""


class TextLayout:
    """Rows of a text that is wrapped to a width in cells."""

    def __init__(self, text: str, width: int) -> None:
        self.text = text
        self.width = max(1, width)
        self._breaks_words = len(text) > MAX_WRAPPED_LENGTH
        """True if rows are broken at the right edge instead of between words."""
        self._starts = array("Q")
        """Start offset of each segment."""
        self._row_counts = array("Q")
        """Number of rows up to the end of each segment."""
        self._next_start = 0
        """Start offset of the first segment that is not laid out yet."""
        self.is_complete = False

    @property
    def row_count(self) -> int:
        """Number of rows laid out so far."""
        return self._row_counts[-1] if self._row_counts else 0

    def grow(self, seconds: float = 1e9, offset: int | None = None) -> None:
        """Continue the layout for some time, or up to an offset."""
        text, width, breaks_words = self.text, self.width, self._breaks_words
        start, row_total = self._next_start, self.row_count
        deadline = time.perf_counter() + seconds
        while not self.is_complete and (offset is None or start <= offset):
            if not len(self._starts) % 256 and time.perf_counter() > deadline:
                break
            if line_lengths := self._plain_line_lengths(start):
                heights = [-(-length // width) or 1 for length in line_lengths]  # rounded up
                starts = accumulate((length + 1 for length in line_lengths), initial=start)
                self._starts.extend(list(starts)[:-1])
                self._row_counts.extend(list(accumulate(heights, initial=row_total))[1:])
                row_total, start = self._row_counts[-1], start + sum(line_lengths) + len(line_lengths)
                if time.perf_counter() > deadline:
                    break
                continue
            end, next_start = _segment(text, start)
            length, segment = end - start, text[start:end]
            if (breaks_words or length <= width) and segment.isascii() and segment.isprintable():
                row_total += -(-length // width) or 1
            else:
                row_total += len(_rows(segment, width, breaks_words))
            self._starts.append(start)
            self._row_counts.append(row_total)
            start = next_start
            self.is_complete = start > len(text)
        self._next_start = start

    def _plain_line_lengths(self, start: int) -> list[int]:
        """Return the line lengths of the next block, or an empty list if a line must be laid out
        separately.
        """
        end = self.text.rfind("\n", start, start + BLOCK_LENGTH) + 1
        block = self.text[start:end]
        if not block.isascii() or not block.replace("\n", "").isprintable():
            return []
        lengths = list(map(len, block.split("\n")))[:-1]
        max_length = MAX_SEGMENT_LENGTH if self._breaks_words else self.width
        return lengths if max(lengths, default=0) <= max_length else []

    def row(self, index: int) -> str:
        """Return the text of a row that is laid out."""
        segment = bisect_right(self._row_counts, index)
        if segment >= len(self._starts):
            return ""
        start = self._starts[segment]
        rows = _rows(self.text[start : _segment(self.text, start)[0]], self.width, self._breaks_words)
        return rows[index - (self._row_counts[segment - 1] if segment else 0)]

    def row_of(self, offset: int) -> int:
        """Return the row of an offset, or one near it if control characters were removed."""
        self.grow(offset=offset)
        segment = max(0, bisect_right(self._starts, offset) - 1)
        start = self._starts[segment]
        rows = _rows(self.text[start : _segment(self.text, start)[0]], self.width, self._breaks_words)
        index, remaining = 0, offset - start
        while index < len(rows) - 1 and remaining >= len(rows[index]):
            remaining -= len(rows[index])
            index += 1
        return (self._row_counts[segment - 1] if segment else 0) + index

    def offset_of(self, row: int) -> int:
        """Return the offset of the first character of a row that is laid out."""
        segment = min(bisect_right(self._row_counts, row), len(self._starts) - 1)
        if segment < 0:
            return 0
        start = self._starts[segment]
        rows = _rows(self.text[start : _segment(self.text, start)[0]], self.width, self._breaks_words)
        rows_above = row - (self._row_counts[segment - 1] if segment else 0)
        return start + sum(map(len, rows[:rows_above]))


def line_start(text: str, number: int) -> int:
    """Return the offset at which line `number` begins. The first line is 1.

    If the text has fewer lines, return the start of the last line.
    """
    start = 0
    for _ in range(number - 1):
        newline = text.find("\n", start)
        if newline < 0:
            break
        start = newline + 1
    return start


def _segment(text: str, start: int) -> tuple[int, int]:
    """Return the end of the segment that begins at `start`, and the start of the next segment.

    If it is the last segment, the second number is greater than the length of the text.
    """
    newline = text.find("\n", start, start + MAX_SEGMENT_LENGTH + 1)
    if newline >= 0:
        return (newline - 1 if text.startswith("\r", newline - 1, newline) else newline), newline + 1
    if len(text) - start <= MAX_SEGMENT_LENGTH:
        return len(text), len(text) + 1
    blank = text.rfind(" ", start, start + MAX_SEGMENT_LENGTH)
    end = blank + 1 if blank > start else start + MAX_SEGMENT_LENGTH
    return end, end


@lru_cache(maxsize=64)
def _rows(line: str, width: int, breaks_words: bool) -> list[str]:
    """Break a line into rows. A space at a break belongs to the upper row, where it may exceed the width."""
    clean_line = clean(line, newlines=False)
    if not breaks_words:
        return list(word_rows(clean_line, width))
    if not clean_line.isascii() and cell_len(clean_line) != len(clean_line):
        return chop_cells(clean_line, width) or [""]
    return [clean_line[start : start + width] for start in range(0, len(clean_line), width)] or [""]


def word_rows(line: str, width: int) -> Iterator[str]:
    """Yield the rows of a plain line, wrapped between words if possible.

    A space at a break belongs to the upper row.
    """
    if line.isascii() or cell_len(line) == len(line):
        return _wrapped(line, width)
    return _wrapped_cells(line, width)


def _wrapped(line: str, width: int) -> Iterator[str]:
    start = 0
    while len(line) - start > width:
        blank = line.rfind(" ", start, start + width + 1)
        end = blank + 1 if blank > start else start + width
        yield line[start:end]
        start = end
    yield line[start:]


def _wrapped_cells(line: str, width: int) -> Iterator[str]:
    """Yield the rows of a line with characters that are not one cell wide."""
    start = 0
    # The first row is empty if a character is wider than `width`.
    while rows := list(filter(None, chop_cells(line[start : start + 4 * width], width))):
        row = rows[0]
        if start + len(row) >= len(line):
            break
        if line[start + len(row)] == " ":
            row += " "
        elif (blank := row.rfind(" ")) >= 0:
            row = row[: blank + 1]
        yield row
        start += len(row)
    yield line[start:]


class LongText(Widget):
    """Widget with the height of its text, inside a scrolling parent. `find` searches the text.

    Long lines are wrapped, unless the parent is a `SidewaysText` that does not wrap lines. When the width or
    the wrapping changes, the text at the top of the scrolling parent stays there.
    """

    ALLOW_SELECT = True
    COMPONENT_CLASSES = {"long-text--hit", "long-text--here"}
    DEFAULT_CSS = """
    LongText {
        height: auto; width: 1fr;
        & > .long-text--hit { color: $text-accent; text-style: bold underline; }
        & > .long-text--here { background: $block-cursor-background; color: $block-cursor-foreground; }
    }
    """

    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text
        self._layout: TextLayout | LineLayout = TextLayout(text, 0)
        self._lower_case_text: str | None = None
        self._query = ""
        """Text, in lower case, whose occurrences are highlighted."""
        self._current_hit = -1
        """Offset of the current hit, or -1 without one."""
        self._timer: Timer | None = None
        self._reported_width = 0
        """Width in cells for which the parent shows the numbers of the visible columns."""
        self._top_position = (-1, -1)
        """Offset and row of the text that stays at the top when the width or the wrapping changes. (-1, -1)
        before the first change."""
        self._is_returning = False
        """True until the parent has scrolled back to the offset in `_top_position`."""

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of rows laid out so far. The rest of a long text is added by a timer."""
        if not self._is_layout_for(width):
            self._keep_top()
            self._lay_out(width)
        if not self._layout.is_complete and self._timer is None:
            self._timer = self.set_timer(LAYOUT_PAUSE_S, self._grow)
        return max(1, self._layout.row_count)

    @property
    def _sideways(self) -> SidewaysText | None:
        """Parent that can scroll sideways, or None."""
        return self.parent if isinstance(self.parent, SidewaysText) else None

    def _lay_out(self, width: int) -> None:
        """Begin the layout for a width, and for the wrapping of the parent."""
        is_wrapped = self._sideways is None or self._sideways.is_wrapped
        self._layout = TextLayout(self.text, width) if is_wrapped else LineLayout(self.text)
        self._layout.grow(LAYOUT_STEP_S)
        if self._is_returning:
            # Without rows below, `_top_position` could not be at the top.
            self._layout.grow(offset=self._top_position[0] + BLOCK_LENGTH)

    def change_wrapping(self) -> int:
        """Lay out the text again, because the parent wraps lines now, or no longer.

        Return the first column to show. It is not 0 if a part of a long line filled the parent, which shows
        this part again.
        """
        self._keep_top()
        is_within_line = self._is_returning and self._is_within_line()
        self._lay_out(self.size.width)
        self.refresh(layout=True)
        return self.column_of(self._top_position[0]) if is_within_line else 0

    def _is_within_line(self) -> bool:
        """Return True if all rows in the parent belong to the line of its first row."""
        if not isinstance(self.parent, Widget):
            return False
        offset, row = self._top_position
        last_row = min(row + self.parent.size.height, self._layout.row_count) - 1
        return self.text.find("\n", offset, self._layout.offset_of(last_row)) < 0

    def _is_layout_for(self, width: int) -> bool:
        """Return True if the layout has the wrapping of the parent, and the width if lines are wrapped."""
        if self._sideways is not None and not self._sideways.is_wrapped:
            return isinstance(self._layout, LineLayout)
        return isinstance(self._layout, TextLayout) and self._layout.width == max(1, width)

    def _keep_top(self) -> None:
        """Remember the text at the top of the parent before the rows change. Scroll back to this text
        afterwards.
        """
        if self._is_returning or not isinstance(self.parent, Widget):
            return
        row = self.parent.scroll_offset.y - self.virtual_region.y
        first_column = 0 if self._sideways is None else self._sideways.first_column
        if not 0 <= row < self._layout.row_count or (row, first_column) == (0, 0):
            return
        if isinstance(self._layout, LineLayout) and first_column:
            self._top_position = self._layout.offset_of(row, first_column), row
        elif row != self._top_position[1]:
            # If the row is the same, the parent was not scrolled, and the old offset is more precise.
            self._top_position = self._layout.offset_of(row), row
        self._is_returning = True
        self.call_after_refresh(self._return_to_top)

    def _return_to_top(self) -> None:
        """Scroll the parent so that the text in `_top_position` is at its top again."""
        self._is_returning = False
        if isinstance(self.parent, Widget):
            offset, _ = self._top_position
            row = self._layout.row_of(offset)
            self._top_position = offset, row
            y = self.virtual_region.y + row
            self.parent.scroll_to(y=y, animate=False, force=True, immediate=True)

    def on_resize(self) -> None:
        """Let the parent show the numbers of the visible columns if the width changed."""
        if self._sideways is not None and self.size.width != self._reported_width:
            self._reported_width = self.size.width
            self._sideways.columns_changed()

    def _grow(self) -> None:
        """Do one step of the layout."""
        self._timer = None
        self._layout.grow(LAYOUT_STEP_S)
        self.refresh(layout=True)

    def complete(self) -> None:
        """Complete the layout now."""
        self._layout.grow()
        self.refresh(layout=True)

    def row_of(self, offset: int) -> int:
        """Return the row of an offset."""
        old_row_count = self._layout.row_count
        row = self._layout.row_of(offset)
        if self._layout.row_count != old_row_count:
            self.refresh(layout=True)
        return row

    def column_of(self, offset: int) -> int:
        """Return the column of an offset, counted in cells from 0. It is 0 if lines are wrapped."""
        return self._layout.column_of(offset) if isinstance(self._layout, LineLayout) else 0

    def widest_row(self, first: int, last: int) -> int:
        """Return the width in cells of the widest row from `first` to `last`, as far as they are laid out."""
        layout = self._layout
        if not isinstance(layout, LineLayout):
            return self.size.width
        rows = range(max(0, first), min(last + 1, layout.row_count))
        return max(map(layout.row_width, rows), default=0)

    def find(self, query: str, start: int, *, forward: bool = True) -> int:
        """Return the next offset of `query`, ignoring case, or -1 without one.

        The search goes forwards or backwards from `start`.
        """
        query = query.lower()
        if not query:
            return -1
        if forward:
            return self._searched_text.find(query, start)
        return self._searched_text.rfind(query, 0, start)

    def count(self, query: str, end: int | None = None) -> int:
        """Return the number of occurrences of `query`, up to an offset."""
        return self._searched_text.count(query.lower(), 0, end) if query else 0

    def mark(self, query: str, current_hit: int = -1) -> None:
        """Highlight all occurrences of `query`, and more strongly the row with the offset `current_hit`."""
        self._query, self._current_hit = query.lower(), current_hit
        self.refresh()

    @property
    def _searched_text(self) -> str:
        """Text in lower case. If offsets would be different in lower case, the text itself."""
        if self._lower_case_text is None:
            lower_case_text = self.text.lower()
            self._lower_case_text = lower_case_text if len(lower_case_text) == len(self.text) else self.text
        return self._lower_case_text

    def render_line(self, y: int) -> Strip:
        """Draw one row, with hits and selection."""
        width, base_style = self.size.width, self.rich_style
        first_column = 0 if self._sideways is None else self._sideways.first_column
        window = self._window(y, first_column, first_column + width)
        text, skipped_width = window.text, first_column - window.column
        strip = Strip(list(self._segments(window, y)), None)
        selection = self.text_selection
        if selection is not None and (span := selection.get_span(y)) is not None:
            first_character, end_character = span
            if end_character == -1:
                end_character = window.character + len(text)
            start_cell, end_cell = (
                cell_len(text[: max(0, character - window.character)])
                for character in (first_character, end_character)
            )
            selection_style = self.screen.get_component_rich_style("screen--selection", partial=True)
            parts = list(strip.divide([start_cell, end_cell, strip.cell_length]))
            parts[1:2] = [Strip(Segment.apply_style(part, post_style=selection_style)) for part in parts[1:2]]
            strip = Strip.join(parts)
        character = window.character  # index in the row of the first visible character
        if skipped_width:
            character += len(text)
            if skipped_width < strip.cell_length:
                character -= len(split_text(text, skipped_width)[1])
        if skipped_width or strip.cell_length > width:
            strip = Strip(visible_part(strip, skipped_width, width))
        return strip.adjust_cell_length(width, base_style).apply_offsets(character, y)

    def _window(self, y: int, start: int, end: int) -> Window:
        """Return the part of a row that contains the columns from `start` to `end`, and hits at its edges."""
        if not isinstance(self._layout, LineLayout):
            return Window(self._layout.row(y).rstrip(), 0, 0)
        margin = 2 * len(self._query)
        return self._layout.window(y, start - margin, end + margin)

    def _segments(self, window: Window, y: int) -> Iterator[Segment]:
        """Yield the parts of a row, with hits. A wrapped row with the current hit is highlighted at all its
        hits, and a line that is not wrapped only at the current hit.
        """
        text, base_style, position = window.text, self.rich_style, 0
        searched_text = text.lower() if self._query else ""
        has_current_hit = self._current_hit >= 0 and self._layout.row_of(self._current_hit) == y
        current_column = self.column_of(self._current_hit) if has_current_hit else 0
        here_style, other_style = (
            base_style + self.get_component_rich_style(name, partial=True)
            for name in ("long-text--here", "long-text--hit")
        )
        while self._query and (start := searched_text.find(self._query, position)) >= 0:
            yield Segment(text[position:start], base_style)
            position = start + len(self._query)
            is_current = has_current_hit and (
                isinstance(self._layout, TextLayout)
                or window.column + cell_len(text[:start]) == current_column
            )
            yield Segment(text[start:position], here_style if is_current else other_style)
        yield Segment(text[position:], base_style)

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the rows selected with the mouse."""
        last_row = max(0, self._layout.row_count - 1)
        start, end = selection.start or Offset(0, 0), selection.end or Offset(1 << 30, last_row)
        rows = [self._layout.row(y) for y in range(start.y, min(end.y, last_row) + 1)]
        if not rows:
            return None
        rows[-1] = rows[-1][: end.x] if end.y <= last_row else rows[-1]
        rows[0] = rows[0][start.x :]
        return "\n".join(row.rstrip() for row in rows), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        """Redraw the rows."""
        self.refresh()
