"""Menu that sorts the list of the traffic by a column."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from mcpdesk.recorder.index.sorted_lines import SortedLines
from mcpdesk.tui.traffic.line_columns import SORT_KEYS, column_label
from mcpdesk.tui.widgets.menu import Choice, Menu

COLUMN_LETTERS = {
    "time": "e",
    "core": "c",
    "peer": "p",
    "server": "v",
    "way": "d",
    "what": "m",
    "frame": "f",
    "id": "i",
    "status": "s",
    "took": "t",
    "size": "z",
    "revision": "r",
}
"""Column -> its key in the menu of this module and in the menu of hidden columns."""
_HELP = {
    "peer": "Name of the client.",
    "server": "Name of the server.",
    "what": "Method and name.",
    "id": "Id of the request.",
    "status": "Errors first.",
    "took": "Longest first.",
    "size": "Largest first.",
    "revision": "Protocol revision.",
}
"""Column -> help on sorting by it."""


class SortChoice(NamedTuple):
    """Result of the menu."""

    column: str | None
    """Name of the chosen column, or None for the order of arrival."""


def sort_menu(visible_columns: Collection[str], order: SortedLines | None, *, has_servers: bool) -> Menu:
    """Return a menu whose value is a `SortChoice`. `visible_columns` are the names of the visible columns.

    Hidden columns are offered after the visible ones. The servers are only offered if there are several.
    """
    names = [name for name in SORT_KEYS if name != "server" or has_servers]
    names.sort(key=lambda name: name not in visible_columns)
    choices = [Choice("time of arrival", SortChoice(None), "" if order else "now", "a")]
    for name in names:
        hint = "" if name in visible_columns else "hidden column"
        if order is not None and order.column == name:
            hint = f"{'↓' if order.is_descending else '↑'} now; choose it again to reverse the order"
        choices.append(
            Choice(column_label(name), SortChoice(name), hint, COLUMN_LETTERS[name], _HELP.get(name, ""))
        )
    cursor = 1 + names.index(order.column) if order is not None and order.column in names else 0
    return Menu("Sort by", choices, cursor=cursor)
