"""Lines that the traffic list shows, in any order. The parts of one call may be shown below it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, overload


class ShownLines(Protocol):
    """Lines in some order, with their positions."""

    raw: bool

    @property
    def lines(self) -> Sequence[int]:
        """Numbers of the exchanges that the lines show, or of the frames while the list shows frames."""

    def position(self, line: int) -> int:
        """Return the position of a line. If it is not included, return where it would be inserted."""


class UnfoldedLines(Sequence[int]):
    """Numbers of the shown exchanges or frames. The parts of an unfolded line follow it."""

    def __init__(self, source: ShownLines, unfolded: int | None = None, below: Sequence[int] = ()) -> None:
        """Create the sequence. `below` are the lines that belong to the line `unfolded`."""
        self._lines = source.lines
        self._source = source
        self._below: Sequence[int] = ()
        self._at = 0
        if unfolded is not None and not source.raw:
            at = source.position(unfolded)
            if at < len(self._lines) and self._lines[at] == unfolded:
                self._below, self._at = below, at + 1

    def __len__(self) -> int:
        return len(self._lines) + len(self._below)

    @overload
    def __getitem__(self, position: int) -> int: ...
    @overload
    def __getitem__(self, position: slice) -> Sequence[int]: ...
    def __getitem__(self, position: int | slice) -> int | Sequence[int]:
        if isinstance(position, slice):
            return [self[at] for at in range(*position.indices(len(self)))]
        if position < 0:
            position += len(self)
        below = position - self._at
        if below < 0 or not self._below:
            return self._lines[position]
        return self._below[below] if below < len(self._below) else self._lines[position - len(self._below)]

    def position(self, line: int) -> int:
        """Return the position of a line. If it is not included, return where it would be inserted."""
        if line in self._below:
            return self._at + self._below.index(line)
        position = self._source.position(line)
        return position + len(self._below) if self._below and position >= self._at else position

    def is_below(self, position: int) -> bool:
        """Return True if the line at a position belongs to the unfolded line."""
        return 0 <= position - self._at < len(self._below)
