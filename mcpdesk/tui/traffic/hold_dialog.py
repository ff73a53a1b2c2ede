"""The dialog of held messages: what is to be held, what waits, and what becomes of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Hashable, Iterable
from concurrent.futures import Future
from time import time
from typing import ClassVar, Final

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.getters import query_one
from textual.widgets import Input, Static

from mcpdesk.link.link import Link
from mcpdesk.link.values import HeldMessage, HoldView, Verdict, Ways
from mcpdesk.recorder.index.exchange import Exchange, ExchangeKind
from mcpdesk.recorder.index.traffic_index import Index, last_round
from mcpdesk.recorder.readable_message import unmasked
from mcpdesk.recorder.record import Direction
from mcpdesk.tui.forms.argument_editor import JsonEditor
from mcpdesk.tui.render.amounts import countdown, since
from mcpdesk.tui.render.safe_text import one_line
from mcpdesk.tui.widgets.choice_box import TabStrip
from mcpdesk.tui.widgets.fields import LineField
from mcpdesk.tui.widgets.line_list import RowList, Span, column
from mcpdesk.tui.widgets.menu import Dialog

WAYS: Final[tuple[Ways, ...]] = ("requests", "answers", "both")
DELAY_S = 5.0
_LOOK_S = 0.1
_WIDE = 90
"""Cells from which a line has the id of its message."""
_SHARE = 0.3
"""Of the dialog, which the list may take."""
_LESSON = (
    "What the filter lets pass waits here until you let it go on: look at it, change it, drop it, delay it,"
    " or answer it by hand. The capture keeps what was changed, and what it was.\n\n"
    "tool:Bash · method:tools/call peer:claude · kind:notification · an empty filter ends it"
)
_WAYS = "tab, then ← → choose the direction"
_STATELESS = "io.modelcontextprotocol/protocolVersion"


class HeldList(RowList[HeldMessage]):
    """The held messages, oldest first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "screen.go_on", "Go on", show=False),
        Binding("R", "screen.all_go_on", "All go on", show=False),
        Binding("d", "screen.drop", "Drop", show=False),
        Binding("t", "screen.delay", "Delay", show=False),
        Binding("a", "screen.answer", "Answer by hand", show=False),
    ]

    def keys_of(self, row: HeldMessage) -> tuple[Hashable, ...]:
        """Its number."""
        return (row.number,)

    def spans(self, index: int, width: int) -> Iterable[Span]:
        """Which way, what, of whom, since when."""
        one, now = self.rows[index], time()
        yield f"{'←' if one.is_sent else '→'} {one.what:8}", "lines--word"
        is_wide = width >= _WIDE
        yield column(f"{one.method} {one.name}", max(10, width - (56 if is_wide else 45))), "lines--key"
        if is_wide:
            yield f" #{one_line(str(one.id), 8):8}", "lines--muted"
        yield f" {column(f'{one.replica} {one.peer}'.lstrip(), 18)}", ""
        left = f" goes on in {countdown(one.due - now)}" if one.due else f" for {since(now - one.since)}"
        yield left, "lines--warn"


class WayStrip(TabStrip, can_focus=True):
    """The directions, which the arrow keys pick, too."""

    FOCUS_ON_CLICK = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "step(-1)", "Previous", show=False),
        Binding("right,space", "step(1)", "Next", show=False),
        Binding("enter", "screen.to_list", "Held messages", show=False),
    ]
    DEFAULT_CSS = """
    WayStrip:focus { background: $foreground 8%; }
    """


class HoldDialog(Dialog[bool]):
    """Says what is held, and lets a person look at each message, change it, and let it go.

    Its result is True when the person leaves it for the question that waits for an answer.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+r", "go_on", "Go on", show=False, priority=True),
        Binding("escape", "back", "Back", show=False),
        Binding("f2", "question", "Answer", show=False, priority=True),
    ]
    DEFAULT_CSS = """
    HoldDialog > .box { width: 96%; height: 90%; max-height: 90%; }
    HoldDialog > .box > Input, HoldDialog > .box > Input:focus { background: $foreground 8%; }
    HoldDialog HeldList { height: 3; border-top: solid $border-blurred; }
    HoldDialog HeldList:focus { border-top: solid $border; }
    HoldDialog JsonEditor { height: 1fr; border-top: solid $border-blurred; }
    HoldDialog JsonEditor:focus-within { border-top: solid $border; }
    HoldDialog .keys, HoldDialog .lesson { height: auto; color: $text-muted; }
    HoldDialog .lesson { display: none; margin: 1 0 0 1; }
    HoldDialog.-empty > .box { height: auto; }
    HoldDialog.-empty HeldList { height: 1; min-height: 1; border-top: none; }
    HoldDialog.-empty JsonEditor { display: none; }
    HoldDialog.-empty .lesson { display: block; }
    HoldDialog .keys.-wrong { color: $text-error; }
    """
    listing = query_one(HeldList)
    editor = query_one(JsonEditor)

    def __init__(self, link: Link, rule: str = "") -> None:
        """`rule` is the filter to suggest while nothing is to be held."""
        super().__init__()
        self._link = link
        self._shown = HoldView()
        self._suggested = link.held().rule or rule
        self._edited: int | None = None
        """The message in the editor."""
        self._loaded = ""
        self._answers = False
        """Whether the editor has an answer by hand instead of the message."""

    def compose(self) -> ComposeResult:
        """Rule, direction, messages, editor, keys."""
        with Vertical(classes="box") as box:
            box.border_title = "Held messages"
            yield LineField(self._suggested, placeholder="a filter, like tool:Bash", compact=True)
            yield WayStrip(WAYS)
            yield Static(_LESSON, classes="lesson", markup=False)
            yield HeldList()
            yield JsonEditor()
            yield Static(classes="keys", markup=False)

    def on_mount(self) -> None:
        """Show what is held, and look for more."""
        view = self._link.held()
        self.query_one(WayStrip).current = WAYS.index(view.ways)
        self._show()
        self.set_interval(_LOOK_S, self._look)
        (self.listing if view.messages else self.query_one(LineField)).focus()

    def action_back(self) -> None:
        """From the editor to the list, then close; what is held stays held."""
        if self.editor.has_focus_within:
            self.listing.focus()
        else:
            self.dismiss()

    def action_question(self) -> None:
        """Leave for the question that the banner announces; what is held stays held."""
        self.dismiss(True)

    def action_to_list(self) -> None:
        """From the directions, hold what the filter lets pass."""
        self.listing.focus()
        self._hold()

    def action_go_on(self) -> None:
        """Let the message go, as it stands in the editor."""
        if (one := self._one) is None:
            return
        text = self.editor.area.true_text
        if self._answers:
            self._decide(lambda: self._link.let_go(one.number, Verdict.ANSWER, text))
        elif one.text and text != self._loaded:
            self._decide(lambda: self._link.let_go(one.number, Verdict.CHANGE, text))
        else:
            self._decide(lambda: self._link.let_go(one.number, Verdict.GO_ON))

    def action_all_go_on(self) -> None:
        """Let all go as they are."""
        for one in self.listing.rows:
            self._link.let_go(one.number, Verdict.GO_ON)

    def action_drop(self) -> None:
        """Let nobody see the message."""
        if (one := self._one) is not None:
            self._decide(lambda: self._link.let_go(one.number, Verdict.DROP))

    def action_delay(self) -> None:
        """Let it go on by itself in a moment."""
        if (one := self._one) is not None:
            self._decide(lambda: self._link.delay(one.number, DELAY_S))

    def action_answer(self) -> None:
        """Write an answer instead of letting the server give one."""
        one = self._one
        if one is not None and not one.is_answer and one.what != "tells":
            self._answers = True
            self.editor.load(_answer_to(one))
            self.editor.area.focus()
            self._show_keys()

    @on(Input.Submitted)
    def rule_entered(self, event: Input.Submitted) -> None:
        """Hold what was entered; an empty rule ends it."""
        event.stop()
        self._hold()

    @on(TabStrip.Picked)
    def way_picked(self, event: TabStrip.Picked) -> None:
        """Hold messages of the other direction."""
        event.stop()
        if self._link.held().rule:
            self._hold()

    @on(RowList.Moved)
    def moved(self) -> None:
        """Show the message under the cursor."""
        one = self._one
        number = None if one is None else one.number
        if number != self._edited:
            self._edited, self._answers = number, False
            self.editor.load("" if one is None else one.text)
            self._loaded = self.editor.area.true_text
            self.editor.area.move_cursor(_place_to_edit(self._loaded))
            self._show_keys()

    @on(RowList.Opened)
    def opened(self) -> None:
        """Edit the message."""
        self.editor.area.focus()

    def _hold(self) -> None:
        strip = self.query_one(WayStrip)
        rule, ways = self.query_one(LineField).true_text, WAYS[strip.current]
        self._decide(lambda: self._link.hold(rule, ways))
        if self._shown.messages and rule.strip() and not strip.has_focus:
            self.listing.focus()

    @property
    def _one(self) -> HeldMessage | None:
        return self.listing.selected

    @work
    async def _decide(self, ask: Callable[[], Future[bool]]) -> None:
        """Do something, and say why it cannot be done."""
        try:
            await asyncio.wrap_future(ask())
        except ValueError as error:
            self._complain(str(error))
            return
        if self.is_attached:
            self._complain("")
            self._look()

    def _complain(self, text: str) -> None:
        """Say what is wrong with what was typed; nothing without a text."""
        if not self.has_class("-empty"):
            self.editor.complain(text)
        elif text:
            self.query_one(".keys", Static).update(Content(one_line(text, 300)))
        else:
            self._show_keys()
        self.query_one(".keys").set_class(bool(text) and self.has_class("-empty"), "-wrong")

    def _show(self) -> None:
        """Show what is held now."""
        before, view = self._shown, self._link.held()
        self._shown = view
        self.set_class(not view.messages, "-empty")
        self.listing.show(view.messages)
        most = max(3, int(self.size.height * _SHARE))
        self.listing.styles.height = min(len(view.messages) + 1, most) if view.messages else 1
        self._show_keys()
        field = self.query_one(LineField)
        if view.messages and not before.messages and field.has_focus and field.true_text == view.rule:
            self.listing.focus()  # nobody changes the filter, and the keys that are told are the list's
        elif before.messages and not view.messages and not self.query_one(WayStrip).has_focus:
            field.focus()  # which is all there is to do

    def _look(self) -> None:
        view = self._link.held()
        if view != self._shown:
            self._show()
        elif view.messages:
            self.listing.refresh()  # the seconds
        is_gone = all(one.number != self._edited for one in view.messages)
        if is_gone and view.messages and self.editor.has_focus_within:
            self.listing.focus()  # what is typed is not for the next message

    def _show_keys(self) -> None:
        view = self._shown
        if self._answers:
            keys = "ctrl+r sends this answer · esc back to the list"
        elif view.messages:
            keys = "r goes on · R all · enter edits, ctrl+r sends it · d drops · t in 5 s · a answers by hand"
        elif view.rule:
            told = f"holding {view.ways}; none waits"
            keys = f"{told} · {_WAYS} · an empty filter ends it"
        else:
            keys = f"enter begins to hold · {_WAYS}"
        self.query_one(".keys", Static).update(Content(keys))


def _place_to_edit(text: str) -> tuple[int, int]:
    """Line and column of what is likely to be changed: the end of the first argument or text."""
    lines = text.split("\n")
    for begins in ('"arguments": {', '"text": ', '"params": {', '"result": {'):
        at = next((at for at, line in enumerate(lines) if line.lstrip().startswith(begins)), None)
        if at is not None:
            at += begins.endswith("{")
            line = lines[at].rstrip(",") if at < len(lines) else ""
            return min(at, len(lines) - 1), len(line) - line.endswith('"')
    return 0, 0


def canned_answer(index: Index, one: Exchange) -> str:
    """The answer of an exchange, to be given to other requests.

    Raises: ValueError when it has none that can be given.
    """
    if one.response is None or one.direction is not Direction.IN or one.kind is not ExchangeKind.REQUEST:
        raise ValueError("this is no request of a client that was answered")
    return json.dumps(unmasked(index, last_round(index, one), last_round(index, one).response or 0))


def _answer_to(one: HeldMessage) -> str:
    """The beginning of an answer by hand."""
    if one.method != "tools/call":
        return "{}"
    era = ',\n  "resultType": "complete"' if _STATELESS in one.text else ""
    return '{\n  "content": [{"type": "text", "text": ""}],\n  "isError": false' + era + "\n}"
