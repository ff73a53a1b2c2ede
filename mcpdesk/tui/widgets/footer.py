"""The bottom line: the focused pane's own keys first, then those that work everywhere."""

from __future__ import annotations

from collections.abc import Iterator

from textual.binding import Binding
from textual.content import Content
from textual.screen import Screen

from mcpdesk.tui.render.key_names import key_name
from mcpdesk.tui.widgets.part_line import Part, PartLine

EVERYWHERE = ("app.", "main.")
"""Scopes whose keys stand last."""


class DeskFooter(PartLine):
    """Follows the focus by itself."""

    DEFAULT_CSS = """
    DeskFooter { background: $panel; color: $text-muted; }
    """

    def on_mount(self) -> None:
        """Redraw whenever the active keys change."""
        self.screen.bindings_updated_signal.subscribe(self, self._follow)
        self._follow(self.screen)

    def action_press(self, key: str) -> None:
        """Do what the key does."""
        self.app.simulate_key(key)

    def _follow(self, screen: Screen[object]) -> None:
        if self.is_attached and screen is self.screen:
            self.show(list(_parts(screen)))


def _parts(screen: Screen[object]) -> Iterator[Part]:
    found = [
        active.binding for active in screen.active_bindings.values() if active.binding.show and active.enabled
    ]
    unique = {(binding.id or "", binding.action): binding for binding in reversed(found)}
    bindings = [*reversed(unique.values())]
    own = [binding for binding in bindings if not (binding.id or "").startswith(EVERYWHERE)]
    for place, binding in enumerate(own):
        yield _part(binding, rank=60 - place)
    for place, binding in enumerate(b for b in bindings if b not in own):
        yield _part(binding, rank=90 - place, right=True)


def _part(binding: Binding, rank: int, right: bool = False) -> Part:
    key = binding.key_display or key_name(binding.key)
    text = Content.assemble(" ", (key, "bold $footer-key-foreground"), " ", binding.description, " ")
    return Part(text, f"press({binding.key!r})", binding.tooltip, rank=rank, right=right)
