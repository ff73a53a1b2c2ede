"""Lines of the traffic list in any order, with the parts of an unfolded line below this line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, overload


class ShownLines(Protocol):
    """Lines in any order, with their positions. A line is the number of an exchange or of a raw frame."""

    raw: bool
    """True if the lines are raw frames."""

    @property
    def lines(self) -> Sequence[int]:
        """All lines, in their order."""

    def position(self, line: int) -> int:
        """Return the position of a line, or the position where a missing line would be inserted."""


class UnfoldedLines(Sequence[int]):
    """Lines of `source`. The parts of one unfolded line follow it."""

    def __init__(self, source: ShownLines, unfolded: int | None = None, parts: Sequence[int] = ()) -> None:
        """Create the sequence. `parts` are shown below the line `unfolded`."""
        self._lines = source.lines
        self._source = source
        self._unfolded_parts: Sequence[int] = ()
        self._parts_start = 0
        if unfolded is not None and not source.raw:
            line_position = source.position(unfolded)
            if line_position < len(self._lines) and self._lines[line_position] == unfolded:
                self._unfolded_parts, self._parts_start = parts, line_position + 1

    def __len__(self) -> int:
        return len(self._lines) + len(self._unfolded_parts)

    @overload
    def __getitem__(self, position: int) -> int: ...
    @overload
    def __getitem__(self, position: slice) -> Sequence[int]: ...
    def __getitem__(self, position: int | slice) -> int | Sequence[int]:
        if isinstance(position, slice):
            return [self[index] for index in range(*position.indices(len(self)))]
        if position < 0:
            position += len(self)
        part_index = position - self._parts_start
        if part_index < 0 or not self._unfolded_parts:
            return self._lines[position]
        if part_index < len(self._unfolded_parts):
            return self._unfolded_parts[part_index]
        return self._lines[position - len(self._unfolded_parts)]

    def position(self, line: int) -> int:
        """Return the position of a line, or the position where a missing line would be inserted."""
        if line in self._unfolded_parts:
            return self._parts_start + self._unfolded_parts.index(line)
        position = self._source.position(line)
        is_after_parts = bool(self._unfolded_parts) and position >= self._parts_start
        return position + len(self._unfolded_parts) if is_after_parts else position

    def is_below(self, position: int) -> bool:
        """Return True if the line at a position is a part of the unfolded line."""
        return 0 <= position - self._parts_start < len(self._unfolded_parts)
