"""The second line: the screens, which of them is shown, and where something waits."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from textual.content import Content

from mcpdesk.tui.actions import ACTIONS, Action
from mcpdesk.tui.widgets.part_line import Part, PartLine


def _screen_of(action: Action) -> str:
    return action.name.partition("'")[2].partition("'")[0]


SCREENS: dict[str, Action] = {
    _screen_of(action): action for action in ACTIONS if action.name.startswith("show_screen(")
}
"""Screen name to the action that shows it, in the order of the tabs."""


class DeskTabs(PartLine):
    """One tab a screen; click or digit goes there."""

    DEFAULT_CSS = """
    DeskTabs { background: $surface; color: $text-muted; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._seen: tuple[object, ...] = ()

    def mark(self, current: str, badges: Mapping[str, str] = MappingProxyType({})) -> None:
        """Show which screen is up; `badges` are short texts beside a title, `?1`."""
        seen = (current, *badges.items())
        if seen != self._seen:
            self._seen = seen
            self.show(
                [
                    _tab(name, action, name == current, badges.get(name, ""))
                    for name, action in SCREENS.items()
                ]
            )


def _tab(name: str, action: Action, current: bool, badge: str) -> Part:
    mark = Content.styled(f" {badge}", "bold $text-warning") if badge else Content("")
    key = Content.styled(action.keys, "" if current else "$footer-key-foreground")
    text = Content.assemble(" ", key, f" {action.title}", mark, " ")
    short = Content.assemble(" ", key, f" {action.title if current else action.title[:4]}", mark, " ")
    style = "bold $block-cursor-foreground on $block-cursor-background" if current else ""
    shown = text.stylize(style) if style else text
    return Part(
        Content.assemble(" ", shown) if name else shown,
        f"screen.{action.name}",
        action.help,
        Content.assemble(short.stylize(style) if style else short),
        rank=99 if current else 50,
    )
