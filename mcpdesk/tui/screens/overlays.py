"""Dialogs over the main screen: help, letters to jump to a pane, and recent news."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from string import ascii_uppercase
from typing import Any, ClassVar, NamedTuple

from rich.table import Column, Table
from rich.text import Text
from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.geometry import Region
from textual.screen import ModalScreen, Screen
from textual.widget import Widget
from textual.widgets import Static

from mcpdesk.tui.actions import SCREENS, bindings_for, key_names, reachable
from mcpdesk.tui.render.amounts import clock
from mcpdesk.tui.render.safe_text import clean
from mcpdesk.tui.screens.frame_lines import NEWS_SIGNS
from mcpdesk.tui.widgets.choice_box import TabStrip
from mcpdesk.tui.widgets.menu import Dialog, PageDialog

HelpRow = tuple[str, str, str]
"""Row of the help: the keys of an action, its title, and a sentence about it."""

MENU_KEY = "space"
"""Key of the action menu. Shown for an action that has no key of its own."""
EVERYWHERE: tuple[HelpRow, ...] = (
    ("↑ ↓", "move", "In every list and tree; also j k, g g and G for the ends, pgup pgdn."),
    ("⏎", "go in", ""),
    ("esc", "come back", "Never quits."),
    ("tab", "next pane", "With shift the previous one."),
)
"""Keys that work everywhere but are not in the table of actions."""


class HelpScreen(PageDialog):
    """Help with the available actions of a screen. The actions of the focused pane are first."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_for("help_page")
    COMPONENT_CLASSES: ClassVar[set[str]] = {"help--head", "help--key", "help--muted"}
    DEFAULT_CSS = """
    HelpScreen > .help--head { color: $text-primary; text-style: bold; }
    HelpScreen > .help--key { color: $footer-key-foreground; text-style: bold; }
    HelpScreen > .help--muted { color: $text-muted; }
    """

    def __init__(self, described_screen: Screen[Any], root: Widget | None = None) -> None:
        super().__init__("Keys")
        self.groups: dict[str, list[HelpRow]] = {}
        """Title and rows of each group, in the order of their first action."""
        entries = reachable(described_screen, root)
        if isinstance(described_screen, ModalScreen):  # actions of the desk do nothing while a dialog is open
            entries = [entry for entry in entries if entry.owner is not described_screen.app]
        for entry in entries:
            action = entry.action
            row = (key_names(action.keys) or MENU_KEY, action.title, action.help)
            self.groups.setdefault(action.group, []).append(row)
        self.groups["Everywhere"] = list(EVERYWHERE)

    def page(self) -> Table:
        """Return a table of keys, titles and wrapped sentences, with a heading for each group."""
        heading_style = self.get_component_rich_style("help--head", partial=True)
        key_style = self.get_component_rich_style("help--key", partial=True)
        sentence_style = self.get_component_rich_style("help--muted", partial=True)
        table = Table.grid(Column(no_wrap=True), Column(no_wrap=True), padding=(0, 2, 0, 0))
        for heading, rows in self.groups.items():
            if table.row_count:
                table.add_row()
            table.add_row(Text(heading, heading_style))
            for keys, title, sentence in rows:
                table.add_row(Text(keys, key_style), Text(title), Text(sentence, sentence_style))
        return table


JUMP_LETTERS = "asdfghjklqwertyuiopzxcvbnm" + ascii_uppercase
"""Letters for the targets, in the order of their use. The home row comes first."""


class TabTarget(NamedTuple):
    """Tab in a strip of tabs, which can be selected."""

    strip: TabStrip
    tab_index: int


class JumpScreen(Dialog["Widget | TabTarget | str | None"]):
    """Dialog that shows a letter on each target.

    The result is the widget to focus, the tab to select or the name of the screen to show. It is None if the
    person closes the dialog.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings_for("jump")
    DEFAULT_CSS = """
    JumpScreen { align: left top; background: $background 60%; }
    JumpScreen .letter {
        position: absolute; width: 3; height: 1; content-align: center middle;
        background: $warning; color: $background; text-style: bold;
    }
    JumpScreen .hint { dock: bottom; width: 100%; height: 1; background: $panel; padding: 0 1; }
    JumpScreen:ansi .letter { background: ansi_yellow; color: ansi_black; }
    """

    def __init__(self, jump_targets: Sequence[tuple[Widget | TabTarget, Region]]) -> None:
        """Create the dialog. `jump_targets` are widgets and tabs with their visible regions."""
        super().__init__()
        self.targets = {
            letter: target for letter, (target, _) in zip(JUMP_LETTERS, jump_targets, strict=False)
        }
        self._offsets = [region.offset for _, region in jump_targets]

    def compose(self) -> ComposeResult:
        """Compose a letter at the top left of each target."""
        for letter, offset in zip(self.targets, self._offsets, strict=False):
            label = Static(letter, classes="letter", markup=False)
            label.styles.offset = offset
            yield label
        yield Static("letters jump there · digits show that screen · esc close", classes="hint")

    def on_key(self, event: events.Key) -> None:
        """Jump to the target of the key."""
        letter = event.character or ""
        if letter in self.targets:
            event.stop()
            self.dismiss(self.targets[letter])
            return
        screen_names = (name for name, action in SCREENS.items() if action.keys == letter)
        if screen_name := next(screen_names, ""):
            event.stop()
            self.dismiss(screen_name)


_MAX_SHOWN_LENGTH = 10_000
"""Maximum number of characters of the copied text that are shown."""


class NewsScreen(PageDialog):
    """Recent news, the newest first, and the text that was copied last."""

    def __init__(
        self, news: Iterable[tuple[float, str, str]], copied_text: str = "", dropped_count: int = 0
    ) -> None:
        """Create the dialog. `news` has Unix time in seconds, severity and text, the oldest first.

        `dropped_count` is the number of older news items that are no longer stored.
        """
        super().__init__("Messages")
        self._news = list(news)
        self._copied_text = copied_text
        self._dropped_count = dropped_count

    def page(self) -> Content:
        lines = []
        for time_s, severity, text in reversed(self._news):
            sign, style = NEWS_SIGNS.get(severity, ("·", ""))
            time_text = (f"{clock(time_s)[:8]} ", "$text-muted")
            lines.append(Content.assemble(time_text, (f"{sign} {clean(text)}", style)))
        if self._dropped_count:
            lines.append(
                Content.styled(f"{self._dropped_count:,} older messages are no longer stored", "$text-muted")
            )
        if self._copied_text:
            lines.append(
                Content.styled("\nCopied last, in case the terminal did not accept it:", "$text-muted")
            )
            lines.append(Content(clean(self._copied_text[:_MAX_SHOWN_LENGTH])))
            if (omitted_count := len(self._copied_text) - _MAX_SHOWN_LENGTH) > 0:
                lines.append(Content.styled(f"… and {omitted_count:,} more characters", "$text-muted"))
        return Content("\n").join(lines or [Content("nothing yet")])
