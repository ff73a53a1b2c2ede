"""Position of the details of a pane: beside the list, below it, or in its place on a small screen."""

from __future__ import annotations

from textual.widget import Widget

MIN_WIDTH_BESIDE = 160
"""Minimum width in cells, including borders and padding, of a pane that shows its details beside the list."""
MIN_HEIGHT_BELOW = 24
"""Minimum height in rows of a pane with its details below the list. In a lower pane, they take turns."""


def has_room_beside(pane: Widget) -> bool:
    """Return True if a pane is wide enough for details beside its list."""
    return pane.outer_size.width >= MIN_WIDTH_BESIDE


def takes_turns(pane: Widget) -> bool:
    """Return True if a pane is so small that open details take the place of its list."""
    return not has_room_beside(pane) and pane.outer_size.height < MIN_HEIGHT_BELOW


def hides_list(pane: Widget) -> bool:
    """Return True if details are open in the place of the list."""
    return pane.has_class("-turns") and pane.has_class("-detail")


class DetailState:
    """State of the details of a pane: open or closed, beside the list or below it.

    Beside the list, they are open until the person closes them. Below the list, they are closed until the
    person opens them.
    """

    def __init__(self) -> None:
        self.is_beside = False
        """True if open details are beside the list."""
        self._choice: bool | None = None
        """Choice of the person, or None."""

    @property
    def is_open(self) -> bool:
        """True if the details are open."""
        return self.is_beside if self._choice is None else self._choice

    def open(self) -> None:
        """Open the details, because the person wants to see them."""
        self._choice = True

    def close(self) -> None:
        """Close the details. If they are below the list, a wider pane shows them again."""
        self._choice = False if self.is_beside else None

    def reset(self) -> None:
        """Discard the choice of the person."""
        self._choice = None

    def move(self, *, is_beside: bool, are_in_use: bool) -> None:
        """Move the details. If `are_in_use` is True, open details stay open."""
        if self.is_beside and not is_beside and are_in_use and self._choice is None:
            self._choice = True
        self.is_beside = is_beside
