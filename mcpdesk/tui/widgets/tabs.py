"""The second line: the screens, which of them is shown, and where something waits."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
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
"""Screen name to the action that shows it, in the order of the tabs."""


COLOUR = "bold $block-cursor-foreground on $block-cursor-background"
NO_COLOUR = "bold reverse"
"""How the current tab is told from the others."""


class DeskTabs(PartLine):
    """One tab a screen; click or digit goes there."""

    DEFAULT_CSS = """
    DeskTabs { background: $surface; color: $text-muted; }
    """

    def __init__(self, names: Collection[str] = tuple(SCREENS)) -> None:
        """`names` are those of the screens there are."""
        super().__init__()
        self._names = names
        self._seen: tuple[object, ...] = ()

    def mark(self, current: str, badges: Mapping[str, str] = MappingProxyType({})) -> None:
        """Show which screen is up; `badges` are short texts beside a title, `?1`."""
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
    """A click picks a tab; keys are the business of whoever shows what it stands for."""

    DEFAULT_CSS = """
    TabStrip { height: 1; width: 1fr; padding: 0 1; color: $text-muted; }
    """

    current: reactive[int] = reactive(0)

    class Picked(Message):
        """Another tab is up."""

        def __init__(self, strip: TabStrip, index: int) -> None:
            super().__init__()
            self.strip = strip
            self.index = index

        @property
        def control(self) -> TabStrip:
            """The strip."""
            return self.strip

    def __init__(self, titles: Sequence[str], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.titles = list(titles)

    def render(self) -> Content:
        """The titles."""
        parts = []
        for at, title in enumerate(self.titles):
            style = "bold underline $text-primary" if at == self.current else ""
            parts += [(title, style), (" " * _GAP, "")]
        return Content.assemble(*parts)

    def action_step(self, by: int) -> None:
        """Bring up the next or previous tab."""
        self.pick((self.current + by) % len(self.titles))

    def pick(self, index: int) -> None:
        """Bring up a tab and tell."""
        if index != self.current:
            self.current = index
            self.post_message(self.Picked(self, index))

    def on_click(self, event: events.Click) -> None:
        """Bring up the tab under the mouse."""
        left = 1
        for at, title in enumerate(self.titles):
            if left <= event.x < left + cell_len(title) + _GAP:
                self.pick(at)
            left += cell_len(title) + _GAP
