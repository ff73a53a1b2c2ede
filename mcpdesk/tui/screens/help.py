"""The keys of where one is, generated from the table of actions."""

from __future__ import annotations

from itertools import groupby
from typing import Any, ClassVar

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen, Screen
from textual.widgets import Static

from mcpdesk.tui.reach import Reachable, reachable
from mcpdesk.tui.render.key_names import key_names

EVERYWHERE = (
    ("↑ ↓ j k g G pgup pgdn", "move", "in every list and tree"),
    ("⏎ / esc", "go in / come back", "esc never quits"),
    ("tab ⇧tab", "next pane / previous pane", ""),
)
"""What holds without being an action: keys, title, help."""


class HelpScreen(ModalScreen[None]):
    """Shows what can be done on `about`, the focused pane's own keys first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,f1,enter", "dismiss(None)", "Close", show=False),
        Binding("j", "scroll(1)", "Down", show=False),
        Binding("k", "scroll(-1)", "Up", show=False),
    ]
    DEFAULT_CSS = """
    HelpScreen { align: center middle; background: $background 50%; }
    HelpScreen > VerticalScroll {
        width: 84; max-width: 96%; height: auto; max-height: 90%;
        border: round $border; border-title-color: $text-primary; border-title-style: bold;
        background: $surface; padding: 0 2; scrollbar-size-vertical: 1;
    }
    HelpScreen Static { height: auto; margin: 1 0 0 0; }
    HelpScreen Static:last-child { margin-bottom: 1; }
    HelpScreen:ansi { background: transparent; }
    """

    def __init__(self, about: Screen[Any], root_id: str = "") -> None:
        super().__init__()
        root = about.query_one(f"#{root_id}") if root_id else None
        self.found = reachable(about, root)

    def compose(self) -> ComposeResult:
        """One block a group."""
        box = VerticalScroll()
        box.border_title = "Keys"
        box.border_subtitle = "esc close"
        width = max(
            [cell_len(key_names(one.action.keys)) for one in self.found] + [cell_len(EVERYWHERE[0][0])]
        )
        with box:
            for group, members in groupby(sorted_by_group(self.found), key=lambda one: one.action.group):
                rows = [_row(key_names(m.action.keys), m.action.title, m.action.help, width) for m in members]
                yield Static(_block(group, rows))
            yield Static(_block("Everywhere", [_row(*line, width) for line in EVERYWHERE]))

    def on_mount(self) -> None:
        """Arrow keys scroll at once."""
        self.query_one(VerticalScroll).focus()

    def action_scroll(self, by: int) -> None:
        """Scroll by lines."""
        self.query_one(VerticalScroll).scroll_relative(y=by, animate=False)


def sorted_by_group(found: list[Reachable]) -> list[Reachable]:
    """Members of a group side by side, groups in the order of their first member."""
    order = list(dict.fromkeys(one.action.group for one in found))
    return sorted(found, key=lambda one: order.index(one.action.group))


def _block(title: str, rows: list[Content]) -> Content:
    return Content("\n").join([Content.styled(title, "bold $text-primary"), *rows])


def _row(keys: str, title: str, help: str, width: int) -> Content:
    gap = " " * (width - cell_len(keys) + 2)
    said = Content.assemble((f"  {help}", "$text-muted")) if help else Content("")
    return Content.assemble((keys, "bold $footer-key-foreground"), gap, title, said)
