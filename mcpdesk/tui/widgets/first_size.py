"""Base class for widgets whose layout depends on their size. They always receive a first Resize event."""

from __future__ import annotations

from textual import events, on
from textual.widget import Widget


class WithFirstResize(Widget):
    """Widget whose `on_resize` is always called for its first size.

    Textual sends no Resize to a newly mounted widget if its size was requested between mounting and layout.
    This happens if a timer of the screen fires while the widget is mounted (Textual issue 5024).
    """

    _has_first_size = False

    @on(events.Mount)
    def _check_after_refresh(self) -> None:
        self.call_after_refresh(self._post_first_size)

    @on(events.Resize)
    def _remember_first_size(self) -> None:
        self._has_first_size = True

    def _post_first_size(self) -> None:
        if not self._has_first_size and self.is_attached and self.size:
            self.post_message(events.Resize(self.size, self.virtual_size, self.container_size))
