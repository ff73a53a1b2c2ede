"""Two dialogs over the main screen: the help, made of the table of actions, and letters to jump to a pane."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from string import ascii_uppercase
from typing import Any, ClassVar

from rich.cells import cell_len
from rich.console import Group
from rich.table import Table
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.geometry import Region
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from mcpdesk.tui.actions import Action, Reachable, key_names, reachable
from mcpdesk.tui.widgets.dialog import Dialog
from mcpdesk.tui.widgets.tabs import SCREENS

Row = tuple[str, str, str]
"""Keys, title, sentence."""

EVERYWHERE: tuple[Row, ...] = (
    ("↑ ↓", "move", "In every list and tree; also j k, g G for the ends, pgup pgdn."),
    ("⏎", "go in", ""),
    ("esc", "come back", "Never quits."),
    ("tab", "next pane", "With shift the previous one."),
)
"""Keys that work without being in the table of actions."""


class HelpScreen(Dialog[None]):
    """Shows what can be done on `about`, the focused pane's own keys first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark,f1,enter", "dismiss(None)", "Close", show=False),
        Binding("j", "scroll(1)", "Down", show=False),
        Binding("k", "scroll(-1)", "Up", show=False),
    ]
    COMPONENT_CLASSES: ClassVar[set[str]] = {"help--head", "help--key", "help--muted"}
    DEFAULT_CSS = """
    HelpScreen > .help--head { color: $text-primary; text-style: bold; }
    HelpScreen > .help--key { color: $footer-key-foreground; text-style: bold; }
    HelpScreen > .help--muted { color: $text-muted; }
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

    def __init__(self, about: Screen[Any], root: Widget | None = None) -> None:
        super().__init__()
        self.found = reachable(about, root)

    def compose(self) -> ComposeResult:
        """One block a group."""
        box = VerticalScroll()
        box.border_title = "Keys"
        box.border_subtitle = "esc close"
        with box:
            for _ in self.blocks:
                yield Static()

    def on_mount(self) -> None:
        """Fill the blocks, now that styles are known; arrow keys scroll at once."""
        for widget, (title, rows) in zip(self.query(Static), self.blocks, strict=True):
            widget.update(self._table(title, rows))
        self.query_one(VerticalScroll).focus()

    @property
    def blocks(self) -> list[tuple[str, list[Row]]]:
        """Title and rows of every group."""
        groups = groupby(sorted_by_group(self.found), key=lambda one: one.action.group)
        named = [(group, [_row(one.action) for one in members]) for group, members in groups]
        return [*named, ("Everywhere", list(EVERYWHERE))]

    def _table(self, title: str, rows: list[Row]) -> Group:
        """A title over keys, what they do, and a sentence that wraps in its own column."""
        titles = max(cell_len(row[1]) for _, rows in self.blocks for row in rows)
        keys = max(cell_len(row[0]) for _, rows in self.blocks for row in rows)
        head, key, muted = (
            self.get_component_rich_style(f"help--{name}", partial=True) for name in ("head", "key", "muted")
        )
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(width=keys, no_wrap=True)
        table.add_column(width=titles, no_wrap=True)
        table.add_column()
        for names, what, sentence in rows:
            table.add_row(Text(names, key), Text(what), Text(sentence, muted))
        return Group(Text(title, head), table)

    def action_scroll(self, by: int) -> None:
        """Scroll by lines."""
        self.query_one(VerticalScroll).scroll_relative(y=by, animate=False)


def sorted_by_group(found: list[Reachable]) -> list[Reachable]:
    """Members of a group side by side, groups in the order of their first member."""
    order = list(dict.fromkeys(one.action.group for one in found))
    return sorted(found, key=lambda one: order.index(one.action.group))


def _row(action: Action) -> Row:
    return (key_names(action.keys), action.title, action.help)


LETTERS = "asdfghjklqwertyuiopzxcvbnm" + ascii_uppercase


class JumpScreen(Dialog["Widget | str | None"]):
    """A dialog whose result is the widget to focus, the name of a screen, or None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,ctrl+o", "dismiss(None)", "Close", show=False),
    ]
    DEFAULT_CSS = """
    JumpScreen { background: $background 60%; }
    JumpScreen .letter {
        position: absolute; width: 3; height: 1; content-align: center middle;
        background: $warning; color: $background; text-style: bold;
    }
    JumpScreen .hint { dock: bottom; width: 100%; height: 1; background: $panel; padding: 0 1; }
    JumpScreen:ansi { background: transparent; }
    JumpScreen:ansi .letter { background: ansi_yellow; color: ansi_black; }
    """

    def __init__(self, seen: Sequence[tuple[Widget, Region]]) -> None:
        """`seen` are widgets with what of each can be seen."""
        super().__init__()
        self.targets = {letter: widget for letter, (widget, _) in zip(LETTERS, seen, strict=False)}
        self._places = [region.offset for _, region in seen]

    def compose(self) -> ComposeResult:
        """A letter at the top left of each target."""
        for letter, place in zip(self.targets, self._places, strict=False):
            label = Static(letter, classes="letter", markup=False)
            label.styles.offset = place
            yield label
        yield Static("a letter jumps there · a digit shows that screen · esc stays", classes="hint")

    def on_key(self, event: events.Key) -> None:
        """Go where the key says."""
        letter = event.character or ""
        if letter in self.targets:
            event.stop()
            self.dismiss(self.targets[letter])
        elif name := next((name for name, action in SCREENS.items() if action.keys == letter), ""):
            event.stop()
            self.dismiss(name)
