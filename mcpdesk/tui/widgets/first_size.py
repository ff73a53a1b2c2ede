"""Widgets that arrange themselves by their size, and that learn the first one in any case."""

from __future__ import annotations

from textual import events, on
from textual.widget import Widget


class KnowsFirstSize(Widget):
    """A widget whose `on_resize` is called for its first size, too.

    Textual sends no Resize to a widget that was just mounted if anything asked for a size between mounting
    and layout, as its own mounting does when a timer of the screen comes just then (Textual issue 5024).
    """

    _has_first_size = False

    @on(events.Mount)
    def _look_later(self) -> None:
        self.call_after_refresh(self._tell_first_size)

    @on(events.Resize)
    def _note_first_size(self) -> None:
        self._has_first_size = True

    def _tell_first_size(self) -> None:
        if not self._has_first_size and self.is_attached and self.size:
            self.post_message(events.Resize(self.size, self.virtual_size, self.container_size))
