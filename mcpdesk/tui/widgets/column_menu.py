"""Menu that hides and shows the columns of a list."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from textual import work
from textual.widget import Widget

from mcpdesk.tui.render.safe_text import one_line
from mcpdesk.tui.widgets.menu import Choice, Menu

if TYPE_CHECKING:
    from mcpdesk.tui.app import DeskApp

RESET_LETTER = "w"
"""Key of the menu that shows all columns that fit."""


class HideableColumn(NamedTuple):
    """Column that the person can hide."""

    name: str
    title: str
    letter: str
    """Key that toggles it in the menu."""


class ColumnMenu(Menu):
    """Menu that stays open while the person hides and shows columns."""

    key_hint = "enter show or hide · esc close"

    def __init__(self, columns: Callable[[], Sequence[Choice]], toggle: Callable[[str | None], None]) -> None:
        """Create a menu. `columns` returns the current choices, whose values are names of columns.

        `toggle` is called with the value of a choice. It hides or shows that column. If the value is None, it
        shows all columns that fit.
        """
        super().__init__("Columns", columns())
        self._columns = columns
        self._toggle = toggle

    def choose(self, choice: Choice) -> None:
        """Toggle the column, and stay open."""
        self._toggle(choice.value)
        self.listing.rows = self.choices = tuple(self._columns())
        self.listing.rows_changed()


class WithColumnMenu(Widget):
    """Pane with a list of columns, which the person can hide. The choice is stored across restarts.

    It must not be the first base of a pane, because Textual inherits styles only from the first base.
    """

    column_list_name: ClassVar[str]
    """Name of the list in the file of hidden columns."""
    hidden_columns: frozenset[str] = frozenset()
    """Names of the columns that the person hid."""
    app: DeskApp

    @abstractmethod
    def hideable_names(self) -> Collection[str]:
        """Return the names of all columns that can be hidden, also of those that have no value at present."""

    @abstractmethod
    def hideable_columns(self) -> Sequence[HideableColumn]:
        """Return the columns that the menu offers: those that can be hidden and have a value."""

    @abstractmethod
    def visible_columns(self) -> Collection[str]:
        """Return the names of the columns that are shown at the current width."""

    @abstractmethod
    def show_columns(self) -> None:
        """Draw the list without the hidden columns."""

    def on_mount(self) -> None:
        """Hide the columns that the person hid before the restart."""
        self.hidden_columns = self.app.column_choices.hidden(
            self.column_list_name, self.hideable_names(), self._report_problem
        )
        self.show_columns()

    def _report_problem(self, problem: str) -> None:
        self.notify(one_line(problem), severity="warning", markup=False)

    @work
    async def action_columns(self) -> None:
        """Let the person hide and show columns."""
        await self.app.push_screen_wait(ColumnMenu(self._column_choices, self._toggle_column))

    def _column_choices(self) -> list[Choice]:
        visible_names, hidden_names = self.visible_columns(), self.hidden_columns
        columns = self.hideable_columns()
        choices = []
        for column in columns:
            is_visible = column.name in visible_names
            if column.name not in hidden_names:
                mark, hint = ("[x]", "") if is_visible else ("[-]", "no room at this width")
            else:  # a hidden time is needed while times are relative
                mark, hint = ("[x]", "hidden, but needed now") if is_visible else ("[ ]", "hidden")
            choices.append(Choice(f"{mark} {column.title}", column.name, hint, column.letter))
        hint = "" if hidden_names else "now"  # the choice that is in effect
        return [*choices, Choice("as the width allows", None, hint, RESET_LETTER)]

    def _toggle_column(self, name: str | None) -> None:
        """Hide a column, or show it again. Without `name`, show all columns that fit."""
        self.hidden_columns = frozenset() if name is None else self.hidden_columns ^ {name}
        self.app.column_choices.hide(self.column_list_name, self.hidden_columns)
        self.show_columns()
