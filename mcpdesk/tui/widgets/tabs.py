"""Two lines of tabs: the screens of the desk with badges, and the tabs inside a screen."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from rich.cells import cell_len
from textual import events
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

from mcpdesk.tui.actions import ACTIONS, Action
from mcpdesk.tui.widgets.part_line import LinePart, PartLine


def _screen_of(action: Action) -> str:
    return action.name.partition("'")[2].partition("'")[0]


SCREENS: dict[str, Action] = {
    _screen_of(action): action for action in ACTIONS if action.name.startswith("show_screen(")
}
"""Screen name -> the action that shows it, in the order of the tabs."""


COLOUR = "bold $block-cursor-foreground on $block-cursor-background"
NO_COLOUR = "bold reverse"
"""The style of the current tab, with and without colours."""


class DeskTabs(PartLine):
    """One tab for each screen; a click or a digit shows it."""

    DEFAULT_CSS = """
    DeskTabs { background: $surface; color: $text-muted; }
    """

    def __init__(self, names: Collection[str] = tuple(SCREENS)) -> None:
        """`names` are the screens that exist."""
        super().__init__()
        self._names = names
        self._seen: tuple[object, ...] = ()

    def mark(self, current: str, badges: Mapping[str, str] = MappingProxyType({})) -> None:
        """Mark the current screen; `badges` are short texts beside a title, such as `?1`."""
        seen = (current, *badges.items())
        if seen != self._seen:
            self._seen = seen
            style = NO_COLOUR if self.app.no_color else COLOUR
            self.show(
                [
                    _tab(action, badges.get(name, ""), style if name == current else "")
                    for name, action in SCREENS.items()
                    if name in self._names
                ]
            )


def _tab(action: Action, badge: str, style: str) -> LinePart:
    mark = Content.styled(f" {badge}", "bold $text-warning") if badge else Content("")
    key = Content.styled(action.keys, "" if style else "$footer-key-foreground")
    text = Content.assemble(" ", key, f" {action.title}", mark, " ").stylize(style)
    name = action.title if style else action.title[:4]
    short = Content.assemble(" ", key, f" {name}", mark, " ").stylize(style)
    rank = 99 if style else 50
    return LinePart(Content.assemble(" ", text), f"screen.{action.name}", action.help, short, rank)


_GAP = 2


class TabStrip(Widget):
    """The tabs inside a screen. A click picks a tab; keys are handled by the widget around it."""

    DEFAULT_CSS = """
    TabStrip { height: 1; width: 1fr; padding: 0 1; color: $text-muted; }
    """

    current: reactive[int] = reactive(0)

    @dataclass
    class Picked(Message):
        """Another tab was picked."""

        index: int

    def __init__(self, titles: Sequence[str], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.titles = list(titles)

    def render(self) -> Content:
        parts = []
        for at, title in enumerate(self.titles):
            style = "bold underline $text-primary" if at == self.current else ""
            parts += [(title, style), (" " * _GAP, "")]
        return Content.assemble(*parts)

    def action_step(self, by: int) -> None:
        """Pick the next or previous tab."""
        self.pick((self.current + by) % len(self.titles))

    def pick(self, index: int) -> None:
        """Pick a tab."""
        if index != self.current:
            self.current = index
            self.post_message(self.Picked(index))

    def on_click(self, event: events.Click) -> None:
        left = 1
        for at, title in enumerate(self.titles):
            if left <= event.x < left + cell_len(title) + _GAP:
                self.pick(at)
            left += cell_len(title) + _GAP
