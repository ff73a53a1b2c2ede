"""Rows of a text that is not wrapped: each line is one row. The layout continues in steps.

Lines of any length are divided into pieces, of which only those on the screen are drawn. Columns are counted
in cells, from 0.
"""

from __future__ import annotations

import time
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

from rich.cells import cell_len, get_character_cell_size

from mcpdesk.tui.render.safe_text import clean

PIECE_LENGTH = 512
"""Maximum number of characters of a piece of a line."""
MAX_CLUSTER_LENGTH = 64
"""Maximum number of characters by which a piece is shorter because its last letter has combining marks."""
MAX_WINDOW_PIECES = 32
"""Maximum number of pieces of a line that are drawn. More would be needed only if most characters had no
width."""
_JOINER = "\u200d"


class Window(NamedTuple):
    """Part of a line."""

    text: str
    """Text without control characters."""
    column: int
    """Column of the first character."""
    character: int
    """Index of the first character in `LineLayout.row`."""


class _Pieces:
    """Pieces of a line that is longer than one piece."""

    def __init__(self) -> None:
        self.starts = array("Q")
        """Start offset of each piece."""
        self.columns = array("Q", [0])
        """Start column of each piece, and the end column of the last piece."""
        self.characters = array("Q", [0])
        """Index of the first character of each piece in the row, and the length of the row so far."""

    def add(self, start: int, text: str) -> None:
        self.starts.append(start)
        self.columns.append(self.columns[-1] + cell_len(text))
        self.characters.append(self.characters[-1] + len(text))


class LineLayout:
    """Rows of a text, one for each line."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = array("Q")
        """Start offset of each row."""
        self._pieces: dict[int, _Pieces] = {}
        """Pieces of the rows that are longer than one piece."""
        self._next_start = 0
        """Start offset of the first piece that is not laid out yet."""
        self._is_within_line = False
        """True if the next piece continues the last row."""
        self.is_complete = False

    @property
    def row_count(self) -> int:
        """Number of rows laid out so far."""
        return len(self._starts)

    def grow(self, seconds: float = 1e9, offset: int | None = None) -> None:
        """Continue the layout for some time, or up to an offset."""
        deadline = time.perf_counter() + seconds
        while not self.is_complete and (offset is None or self._next_start <= offset):
            for _ in range(64):
                self._add_piece()
                if self.is_complete:
                    break
            if time.perf_counter() > deadline:
                break

    def _add_piece(self) -> None:
        text, start = self.text, self._next_start
        newline = text.find("\n", start, start + PIECE_LENGTH + 1)
        is_last_piece = newline >= 0 or len(text) - start <= PIECE_LENGTH
        if newline >= 0:
            end, self._next_start = newline, newline + 1
        elif is_last_piece:
            end, self._next_start = len(text), len(text) + 1
        else:
            end = self._next_start = _piece_end(text, start)
        if not self._is_within_line:
            self._starts.append(start)
        if self._is_within_line or not is_last_piece:
            if newline > start and text[newline - 1] == "\r":
                end -= 1
            pieces = self._pieces.setdefault(self.row_count - 1, _Pieces())
            pieces.add(start, clean(text[start:end], newlines=False))
        self._is_within_line = not is_last_piece
        self.is_complete = self._next_start > len(text)

    def row(self, index: int) -> str:
        """Return the text of a row as far as it is laid out."""
        return "".join(self._piece_texts(index, 0)) if index < self.row_count else ""

    def row_width(self, index: int) -> int:
        """Return the width of a row in cells, as far as it is laid out."""
        pieces = self._pieces.get(index)
        return cell_len(self.row(index)) if pieces is None else pieces.columns[-1]

    def row_of(self, offset: int) -> int:
        """Return the row of an offset."""
        self.grow(offset=offset)
        return max(0, bisect_right(self._starts, offset) - 1)

    def column_of(self, offset: int) -> int:
        """Return the column of an offset in its row."""
        row = self.row_of(offset)
        start, start_column = self._starts[row], 0
        if (pieces := self._pieces.get(row)) is not None:
            index = bisect_right(pieces.starts, offset) - 1
            start, start_column = pieces.starts[index], pieces.columns[index]
        return start_column + self._width(start, offset)

    def offset_of(self, row: int, column: int = 0) -> int:
        """Return the offset of a column of a row that is laid out."""
        if not self._starts:
            return 0
        row = min(row, self.row_count - 1)
        start, end = self._starts[row], self._end(row)
        if (pieces := self._pieces.get(row)) is not None:
            index = min(bisect_right(pieces.columns, column), len(pieces.starts)) - 1
            start, column = pieces.starts[index], column - pieces.columns[index]
            end = min(end, start + PIECE_LENGTH)
        return start + bisect_left(range(start, end), column, key=partial(self._width, start))

    def _width(self, start: int, end: int) -> int:
        """Return the width in cells of a part of the text. A joiner at its end has no width."""
        text = self.text[start : end - 1 if self.text.startswith(_JOINER, end - 1) else end]
        return cell_len(clean(text, newlines=False))

    def window(self, row: int, start: int, end: int) -> Window:
        """Return the part of a row between two columns, extended to the edges of its pieces."""
        if row >= self.row_count:
            return Window("", 0, 0)
        pieces = self._pieces.get(row)
        if pieces is None:
            return Window(self.row(row), 0, 0)
        index = max(0, min(bisect_right(pieces.columns, max(0, start)), len(pieces.starts)) - 1)
        count = min(bisect_left(pieces.columns, end, lo=index) - index, MAX_WINDOW_PIECES)
        texts = self._piece_texts(row, index, max(1, count))
        return Window("".join(texts), pieces.columns[index], pieces.characters[index])

    def _piece_texts(self, row: int, first: int, count: int = 1 << 62) -> Iterator[str]:
        """Yield the texts of pieces of a row. Each piece is cleaned separately, as it was measured."""
        pieces, end = self._pieces.get(row), self._end(row)
        starts = self._starts[row : row + 1] if pieces is None else pieces.starts[first : first + count + 1]
        for index, start in enumerate(starts[:count]):
            piece_end = starts[index + 1] if index + 1 < len(starts) else end
            yield clean(self.text[start:piece_end], newlines=False)

    def _end(self, row: int) -> int:
        """Return the end offset of a row, or of its part that is laid out."""
        is_last = row + 1 >= self.row_count
        if is_last and self._is_within_line:
            return self._next_start
        end = (self._next_start if is_last else self._starts[row + 1]) - 1
        return end - 1 if end < len(self.text) and self.text.startswith("\r\n", end - 1) else end


def _piece_end(text: str, start: int) -> int:
    """Return the end of the piece at `start`, so that no letter is separated from its marks."""
    end = start + PIECE_LENGTH
    for position in range(end, end - MAX_CLUSTER_LENGTH, -1):
        if text[position - 1] != _JOINER and (
            text[position].isascii() or get_character_cell_size(text[position])
        ):
            return position
    return end
