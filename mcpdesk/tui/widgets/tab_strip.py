"""A line of tab titles; the one that is up is marked by weight and brackets, not by colour alone."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from textual import events
from textual.content import Content
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget

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
