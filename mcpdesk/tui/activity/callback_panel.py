"""Callbacks as rows: when each comes next, how often still, for whom, and what it says."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import ClassVar

from rich.cells import set_cell_size
from textual import on, work
from textual.binding import BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from mcpdesk.link.link import Link
from mcpdesk.link.values import CallbackView, CoreView
from mcpdesk.tui.actions import bindings_for
from mcpdesk.tui.activity.section import Detail, Section, SectionList
from mcpdesk.tui.render.amounts import clock, countdown, since
from mcpdesk.tui.render.safe_text import clean, one_line
from mcpdesk.tui.widgets.line_list import Span
from mcpdesk.tui.widgets.menu import Choice, Menu

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


class CallbackPanel(Section):
    """Rows above, the selected message below."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_for("callbacks")
    title = "Callbacks"
    lesson = (
        "No callback was set",
        "A client that wants to be reminded sets a callback: its message comes back after a while, once or "
        "several times, also when the server was restarted in between.\n\n"
        'Built in: put "SetCallback" into `builtins` of mcp.json; clients may call it from then on.\n\n'
        "To see one now, call SetCallback in the workbench (1): action set, a message, delay_seconds 60.",
    )

    def __init__(self, link: Link) -> None:
        super().__init__(link)
        self._version: int | None = None
        self._callbacks: tuple[CallbackView, ...] = ()

    def parts(self) -> Iterable[Widget]:
        """Rows, detail."""
        yield CallbackList()
        yield Detail(classes="detail")

    @property
    def callbacks(self) -> CallbackList:
        """The rows."""
        return self.query_one(CallbackList)

    def take(self, view: CoreView) -> None:
        """Take the callbacks when one changed."""
        if view.work.callbacks_version != self._version:
            self._version = view.work.callbacks_version
            self._callbacks = self.link.callbacks()
            waiting = sum(each.due is not None for each in self._callbacks)
            self.count = f"◷{waiting}" if waiting else ""
            self.set_empty(is_empty=not self._callbacks)
            self.narrow()

    def look(self, view: CoreView, now: float) -> None:
        """Let the countdowns go on."""
        if self.callbacks.tick(now):
            self._tell()

    def narrow(self) -> None:
        """Show the callbacks that have the words."""
        shown = [each for each in self._callbacks if self.admits(each.message, each.peer, each.server)]
        self.callbacks.show(shown, time.time())

    def action_open(self) -> None:
        """Go to the message."""
        self.query_one(Detail).focus()

    def action_fire(self) -> None:
        """Let the selected callback fire now."""
        if callback := self._waiting():
            self.link.fire_callback(callback.server, callback.id)

    @work
    async def action_cancel(self) -> None:
        """Cancel the selected callback, once the person says so again."""
        callback = self._waiting()
        if callback is None:
            return
        choices = [
            Choice("cancel it", True, f"{often(callback)}; it does not fire again", "x"),
            Choice("keep it", False, key="n"),
        ]
        if await self.app.push_screen_wait(Menu(f"Cancel callback {callback.id}?", choices)):
            self.link.cancel_callback(callback.server, callback.id)

    @work
    async def action_copy(self) -> None:
        """Copy the message, or all that is known."""
        callback = self.callbacks.selected
        if callback is None:
            return
        facts = _facts(callback, time.time())
        choices = [
            Choice("message", callback.message, callback.message, "m"),
            Choice("facts", facts, facts, "a"),
        ]
        if text := await self.app.push_screen_wait(Menu("Copy", choices)):
            self.app.copy(text, one_line(text, 40))

    def _waiting(self) -> CallbackView | None:
        callback = self.callbacks.selected
        if callback is None or callback.due is None:
            self.notify("No waiting callback is selected.", markup=False)
            return None
        return callback

    @on(CallbackList.Opened)
    def _opened(self) -> None:
        self.action_open()

    @on(CallbackList.Moved)
    def _tell(self) -> None:
        detail, callback = self.query_one(Detail), self.callbacks.selected
        detail.display = callback is not None
        if callback is not None:
            detail.border_title = Content(f"callback {callback.id} of {one_line(callback.server, 30)}")
            said = Content.styled(clean(callback.message), "bold")
            facts = Content.styled(_facts(callback, time.time()), "$text-muted")
            detail.query_one(Static).update(Content("\n\n").join([said, facts]))


def _facts(callback: CallbackView, now: float) -> str:
    _, word, _ = state_of(callback)
    due = (
        ""
        if callback.due is None
        else f", next at {clock(callback.due)[:8]} ({countdown(callback.due - now)})"
    )
    last = "" if callback.last_fired is None else f", last at {clock(callback.last_fired)[:8]}"
    lines = (
        f"{word}{due}",
        f"fired {callback.fired} of {callback.repeat_count} times{last}, every {callback.delay_s:g} s",
        f"set at {clock(callback.created)[:8]} by {one_line(callback.peer, 40)}",
        f"callback://{callback.id}",
    )
    return "\n".join(lines)
