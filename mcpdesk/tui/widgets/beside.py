"""Position of the details of a pane: beside the list, below it, or instead of it on a small screen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual.widget import Widget

from mcpdesk.tui.widgets.first_size import WithFirstResize

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


class ListWithDetails(WithFirstResize):
    """Pane with a list and details. If it is small, they take turns: the part with the focus is shown.

    Widgets of the class `list-part` are hidden while the details are shown. The widget of the class
    `detail-part`, which contains the details, is hidden while the list is shown.
    """

    DEFAULT_CSS = """
    ListWithDetails {
        &.-turns .detail-part { display: none; }
        &.-turns.-detail .detail-part { display: block; }
        &.-turns.-detail .list-part { display: none; }
    }
    """
    back_action: ClassVar[str] = ""
    """Id of the action that leads from the details back to the list."""
    back_title: ClassVar[str] = "to the list"

    @property
    def must_take_turns(self) -> bool:
        """True if list and details must take turns at the present size."""
        return takes_turns(self)

    @property
    def hides_list(self) -> bool:
        """True if the details are shown in the place of the list."""
        return self.has_class("-turns") and self.has_class("-detail")

    @property
    def hides_details(self) -> bool:
        """True if the list is shown in the place of the details."""
        return self.has_class("-turns") and not self.has_class("-detail")

    @property
    def likely_actions(self) -> Sequence[str]:
        """The action that leads back to the list, while the list is hidden."""
        return (self.back_action,) if self.hides_list else ()

    @property
    def action_titles(self) -> Mapping[str, str]:
        """Title of `back_action`, while the list is hidden."""
        return {self.back_action: self.back_title} if self.hides_list else {}

    def update_turns(self) -> None:
        """Let list and details take turns if the size requires it. The part with the focus stays visible."""
        must_take_turns = self.must_take_turns
        if must_take_turns != self.has_class("-turns"):
            is_detail_focused = any(part.has_focus_within for part in self.query(".detail-part"))
            self.set_class(must_take_turns, "-turns")
            self.set_class(must_take_turns and is_detail_focused, "-detail")
            self.refresh_bindings()

    def open_details(self, is_open: bool) -> None:
        """Show the details in the place of the list or, if `is_open` is False, the list again."""
        self.set_class(is_open, "-detail")
        # Textual would apply the styles after the next key, while the focused part is still hidden.
        self.app.stylesheet.update_nodes(self.query(".list-part, .detail-part"))
        self.refresh_bindings()

    def reveal(self, widget: Widget) -> None:
        """Show the part that contains `widget`, because it receives the focus."""
        if self.has_class("-turns"):
            is_detail = any(ancestor.has_class("detail-part") for ancestor in widget.ancestors_with_self)
            if is_detail != self.has_class("-detail"):
                self.open_details(is_detail)


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
