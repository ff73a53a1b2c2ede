"""Letters over everything that takes the focus: one key press goes there."""

from __future__ import annotations

from collections.abc import Sequence
from string import ascii_uppercase
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Region
from textual.widget import Widget
from textual.widgets import Static

from mcpdesk.tui.widgets.dialog import Dialog
from mcpdesk.tui.widgets.tabs import SCREENS

LETTERS = "asdfghjklqwertyuiopzxcvbnm" + ascii_uppercase


class JumpScreen(Dialog["Widget | str | None"]):
    """Ends with the widget to focus, the name of a screen, or None."""

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
