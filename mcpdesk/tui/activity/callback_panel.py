"""The callbacks on the activity screen: when each fires next, how often, for whom, and its message."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import ClassVar

from rich.cells import set_cell_size
from textual import work
from textual.binding import BindingType
from textual.content import Content

from mcpdesk.link.values import CallbackView, CoreView
from mcpdesk.tui.actions import bindings_for
from mcpdesk.tui.activity.section import ListSection, SectionList
from mcpdesk.tui.render.amounts import clock, countdown, since
from mcpdesk.tui.render.safe_text import clean, one_line
from mcpdesk.tui.widgets.line_list import Span
from mcpdesk.tui.widgets.menu import Choice, Menu

STATE_CELLS, WHEN_CELLS, LEFT_CELLS, PEER_CELLS = 11, 10, 9, 18
NARROW = 90
"""Cells below which the column of the peer is left out."""


def state_of(callback: CallbackView) -> tuple[str, str, str]:
    """Glyph, word and style."""
    if callback.due is not None:
        return "◷", "waiting", "lines--key"
    if callback.is_cancelled:
        return "⊘", "cancelled", "lines--muted"
    return "✓", "fired", "lines--good"


def repeats(callback: CallbackView) -> str:
    """How often it will still fire, or has fired: `3 left`, `4 of 4`."""
    if callback.due is not None:
        return f"{callback.repeat_count - callback.fired} left"
    return f"{callback.fired} of {callback.repeat_count}"


class CallbackList(SectionList[CallbackView, CallbackView]):
    """One row a callback: waiting ones first, the next one on top; then the others, newest first."""

    def rows_of(self, items: Sequence[CallbackView]) -> Sequence[CallbackView]:
        return sorted(items, key=_order)

    def keys_of(self, row: CallbackView) -> tuple[tuple[str, int], ...]:
        return ((row.server, row.id),)

    def spans(self, index: int, width: int) -> Iterable[Span]:
        callback = self.rows[index]
        glyph, word, style = state_of(callback)
        yield f" {glyph} {word:<{STATE_CELLS - 2}} ", style
        yield f"{self._when(callback):>{WHEN_CELLS}}  ", "lines--number" if callback.due else "lines--muted"
        yield f"{repeats(callback):<{LEFT_CELLS}}  ", "lines--muted"
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


class CallbackPanel(ListSection[CallbackView, CallbackView]):
    """The callbacks of all servers."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_for("callbacks")
    title = "Callbacks"
    lesson = (
        "No callback was set",
        "A client that wants to be reminded sets a callback: its message comes back after a while, once or "
        "several times, also when the server was restarted in between.\n\n"
        'Built in: put "SetCallback" into `builtins` of mcp.json; clients may call it from then on.\n\n'
        "To see one now, call SetCallback in the workbench (1): action set, a message, delay_seconds 60.",
    )
    list_type = CallbackList

    def version_of(self, view: CoreView) -> int:
        return view.work.callbacks_version

    def fetch(self) -> Sequence[CallbackView]:
        return self.link.callbacks()

    def count_of(self, items: Sequence[CallbackView]) -> str:
        waiting = sum(each.due is not None for each in items)
        return f"◷{waiting}" if waiting else ""

    def texts_of(self, item: CallbackView) -> Iterable[str]:
        return item.message, item.peer, item.server

    def detail_of(self, row: CallbackView) -> tuple[str, Content]:
        message = Content.styled(clean(row.message), "bold")
        facts = Content.styled(_facts(row, time.time()), "$text-muted")
        title = f"callback {row.id} of {one_line(row.server, 30)}"
        return title, Content("\n\n").join([message, facts])

    def copies_of(self, row: CallbackView) -> list[Choice]:
        facts = _facts(row, time.time())
        return [Choice("message", row.message, row.message, "m"), Choice("facts", facts, facts, "a")]

    def update_clock(self, view: CoreView, now: float) -> None:
        if self.listing.tick(now):
            self.show_detail()

    def action_fire(self) -> None:
        """Fire the selected callback now."""
        if callback := self._waiting():
            self.link.fire_callback(callback.server, callback.id)

    @work
    async def action_cancel(self) -> None:
        """Cancel the selected callback after asking."""
        callback = self._waiting()
        if callback is None:
            return
        choices = [
            Choice("cancel it", True, f"{repeats(callback)}; it does not fire again", "x"),
            Choice("keep it", False, key="n"),
        ]
        if await self.app.push_screen_wait(Menu(f"Cancel callback {callback.id}?", choices)):
            self.link.cancel_callback(callback.server, callback.id)

    def _waiting(self) -> CallbackView | None:
        callback = self.listing.selected
        if callback is None or callback.due is None:
            self.notify("No waiting callback is selected.", markup=False)
            return None
        return callback


def _order(callback: CallbackView) -> tuple[bool, float]:
    is_over = callback.due is None
    return is_over, -(callback.last_fired or callback.created) if is_over else callback.due or 0.0


def _facts(callback: CallbackView, now: float) -> str:
    _, word, _ = state_of(callback)
    due, last = "", ""
    if callback.due is not None:
        due = f", next at {clock(callback.due)[:8]} ({countdown(callback.due - now)})"
    if callback.last_fired is not None:
        last = f", last at {clock(callback.last_fired)[:8]}"
    lines = (
        f"{word}{due}",
        f"fired {callback.fired} of {callback.repeat_count} times{last}, every {callback.delay_s:g} s",
        f"set at {clock(callback.created)[:8]} by {one_line(callback.peer, 40)}",
        f"callback://{callback.id}",
    )
    return "\n".join(lines)
