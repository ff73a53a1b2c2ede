"""Callbacks as rows: when each comes next, how often still, for whom, and what it says."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.cells import set_cell_size

from mcpdesk.link.values import CallbackView
from mcpdesk.tui.render.amounts import countdown
from mcpdesk.tui.render.since import since
from mcpdesk.tui.render.text import one_line
from mcpdesk.tui.widgets.line_list import Span
from mcpdesk.tui.widgets.section import SectionList

STATE_CELLS, WHEN_CELLS, LEFT_CELLS, PEER_CELLS = 11, 10, 9, 18
NARROW = 90
"""Cells below which the peer's column goes."""


def state_of(callback: CallbackView) -> tuple[str, str, str]:
    """Glyph, word and style."""
    if callback.due is not None:
        return "◷", "waiting", "lines--key"
    if callback.is_cancelled:
        return "⊘", "cancelled", "lines--muted"
    return "✓", "fired", "lines--good"


def often(callback: CallbackView) -> str:
    """How often it is still to come, or came: `3 left`, `4 of 4`."""
    if callback.due is not None:
        return f"{callback.repeat_count - callback.fired} left"
    return f"{callback.fired} of {callback.repeat_count}"


class CallbackList(SectionList):
    """One row a callback: those that wait first, the next one on top; then what is over, newest first."""

    def __init__(self) -> None:
        super().__init__()
        self.callbacks: tuple[CallbackView, ...] = ()

    @property
    def selected(self) -> CallbackView | None:
        """The callback under the cursor."""
        return self.callbacks[self.cursor] if self.cursor < len(self.callbacks) else None

    @property
    def row_count(self) -> int:
        return len(self.callbacks)

    def show(self, callbacks: Sequence[CallbackView], now: float) -> None:
        """Take the callbacks as they are now; the selected one stays selected. `now` is Unix time."""
        selected, self.now = self.selected, now
        self.callbacks = tuple(sorted(callbacks, key=_order))
        chosen = None if selected is None else (selected.server, selected.id)
        self.settle(at for at, each in enumerate(self.callbacks) if (each.server, each.id) == chosen)

    def spans(self, index: int, width: int) -> Iterable[Span]:
        callback = self.callbacks[index]
        glyph, word, style = state_of(callback)
        yield f" {glyph} {word:<{STATE_CELLS - 2}} ", style
        yield f"{self._when(callback):>{WHEN_CELLS}}  ", "lines--number" if callback.due else "lines--muted"
        yield f"{often(callback):<{LEFT_CELLS}}  ", "lines--muted"
        room = width - STATE_CELLS - WHEN_CELLS - LEFT_CELLS - 8
        if width >= NARROW:
            yield set_cell_size(one_line(callback.peer, PEER_CELLS), PEER_CELLS) + "  ", "lines--key"
            room -= PEER_CELLS + 2
        yield one_line(callback.message, max(room, 1)), ""

    def _when(self, callback: CallbackView) -> str:
        if callback.due is not None:
            left = countdown(callback.due - self.now)
            return left if left == "now" else f"in {left}"
        return f"{since(self.now - (callback.last_fired or callback.created))} ago"


def _order(callback: CallbackView) -> tuple[bool, float]:
    is_over = callback.due is None
    return is_over, -(callback.last_fired or callback.created) if is_over else callback.due or 0.0
