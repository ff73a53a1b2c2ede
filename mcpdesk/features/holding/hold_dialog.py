"""Dialog of held messages: the hold filter, the held messages, and the decision about each."""

from __future__ import annotations

import asyncio
import json
import textwrap
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Set
from concurrent.futures import Future
from time import time
from typing import Any, ClassVar, Final

from rich.cells import cell_len
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.geometry import Size
from textual.getters import query_one
from textual.widgets import Input, Static, TextArea

from mcpdesk.features.holding.held_message import (
    Delay,
    HeldDirections,
    HeldMessage,
    HoldView,
    Release,
    SetHold,
    Verdict,
    hold_view,
)
from mcpdesk.link.link import Link
from mcpdesk.link.values import ItemKind
from mcpdesk.protocol.catalogue.example_value import example_value
from mcpdesk.recorder.index.exchange import Exchange, ExchangeKind
from mcpdesk.recorder.index.traffic_index import Index, last_round
from mcpdesk.recorder.readable_message import unmasked
from mcpdesk.recorder.record import Direction
from mcpdesk.tui.following import follow_core
from mcpdesk.tui.forms.argument_editor import JsonEditor
from mcpdesk.tui.render.amounts import countdown, since
from mcpdesk.tui.render.safe_text import one_line
from mcpdesk.tui.widgets.choice_box import TAB_GAP, TabStrip
from mcpdesk.tui.widgets.fields import SearchField
from mcpdesk.tui.widgets.line_list import RowList, Span, column
from mcpdesk.tui.widgets.menu import Choice, Dialog, Menu

DIRECTIONS: Final[tuple[HeldDirections, ...]] = ("requests", "answers", "both")
REPETITIONS: Final = ("every match", "only the next")
DELAY_S = 5.0
_UPDATE_S = 0.1
_MIN_WIDE_CELLS = 90
"""Minimum width in cells of a line that shows the id of its message."""
_MAX_LIST_SHARE = 0.3
"""Maximum fraction of the dialog's height for the list."""
_EXPLANATION = (
    "Messages that match the filter are held here until you release them: read, change, drop or delay them,"
    " or answer them by hand. The capture keeps the original and the changed message.\n\n"
    "tool:Bash · method:tools/call peer:claude · kind:notification · an empty filter ends holding"
)
FORMER_KEYS: Final = {
    "R": "release all messages is in the menu (space)",
    "d": "drop is now x",
    "t": f"release in {DELAY_S:g} s is in the menu (space)",
}
"""Keys of an earlier version, each with a text about the key that its action has now."""
DraftKey = tuple[int, float, bool]
"""Key of an unsent edit: number of the held message, Unix time in seconds when holding began, and True for a
manual answer.
"""
_STATELESS_KEY = "io.modelcontextprotocol/protocolVersion"


class HeldList(RowList[HeldMessage]):
    """Held messages, oldest first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "screen.pass", "Release", show=False),
        Binding("e", "screen.edit", "Edit", show=False),
        Binding("x", "screen.drop", "Drop", show=False),
        Binding("a", "screen.answer", "Answer by hand", show=False),
        Binding("space", "screen.menu", "Actions", show=False),
        Binding("slash", "screen.to_filter", "Filter", show=False),
        *(Binding(key, f"screen.show_former({key!r})", show=False) for key in FORMER_KEYS),
    ]

    def __init__(self) -> None:
        super().__init__()
        self.edited: Set[int] = frozenset()
        """Numbers of messages with unsent edits."""

    def keys_of(self, row: HeldMessage) -> tuple[Hashable, ...]:
        """Return the number of the message."""
        return (row.number,)

    def spans(self, index: int, width: int) -> Iterable[Span]:
        """Yield direction, message, peer and holding time."""
        message, now = self.rows[index], time()
        mark = "✎" if message.number in self.edited else " "
        yield f"{'←' if message.is_sent else '→'}{mark}{message.what:8}", "lines--word"
        is_wide = width >= _MIN_WIDE_CELLS
        yield (
            column(f"{message.method} {message.name}", max(10, width - (56 if is_wide else 45))),
            "lines--key",
        )
        if is_wide:
            yield f" #{one_line(str(message.id), 8):8}", "lines--muted"
        yield f" {column(f'{message.core} {message.peer}'.lstrip(), 18)}", ""
        status = (
            f" released in {countdown(message.due - now)}"
            if message.due
            else f" for {since(now - message.since)}"
        )
        yield status, "lines--warn"


class ChoiceStrip(TabStrip, can_focus=True):
    """Row of titles. The arrow keys or a click select one of them."""

    FOCUS_ON_CLICK = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "step(-1)", "Previous", show=False),
        Binding("right", "step(1)", "Next", show=False),
        Binding("enter", "screen.to_list", "Held messages", show=False),
    ]
    DEFAULT_CSS = """
    ChoiceStrip { width: auto; min-width: 1; }
    ChoiceStrip:focus { background: $foreground 8%; }
    """

    def get_content_width(self, container: Size, viewport: Size) -> int:
        """Return the width of the titles with their gaps."""
        return sum(cell_len(title) + TAB_GAP for title in self.titles)


class DirectionStrip(ChoiceStrip):
    """Directions of the messages that are held."""


class RepetitionStrip(ChoiceStrip):
    """Choice between holding every matching message and only the next one."""


class HoldDialog(Dialog[bool]):
    """Dialog in which a person selects which messages are held, and views, changes and releases each message.

    The result is True if the person closes the dialog to answer the waiting question.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+r", "pass", "Release", show=False, priority=True),
        Binding("escape", "back", "Back", show=False, priority=True),
        Binding("f2", "question", "Answer", show=False, priority=True),
    ]
    DEFAULT_CSS = """
    HoldDialog > .box { width: 96%; height: 90%; max-height: 90%; }
    HoldDialog > .box > Input, HoldDialog > .box > Input:focus { background: $foreground 8%; }
    HoldDialog .which { height: 1; }
    HoldDialog RepetitionStrip { margin-left: 2; }
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

    def __init__(
        self,
        link: Link,
        suggested_filter: str = "",
        drafts: dict[DraftKey, str] | None = None,
        selected: tuple[int, object] | None = None,
        *,
        edits: bool = False,
    ) -> None:
        """Create the dialog. `suggested_filter` is shown if no filter is set.

        `drafts` contains unsent edits of held messages. The caller keeps it after the dialog is closed.
        `selected` is the connection and the id of the message to select first. If `edits`, the focus is in
        the text of this message.
        """
        super().__init__()
        self._starts_in_editor = edits
        self._drafts = {} if drafts is None else drafts
        self._link = link
        self._shown_view = HoldView()
        self._initial_filter = hold_view(link).rule or suggested_filter
        self._initial_selection = selected
        self._edited: HeldMessage | None = None
        """Message in the editor, or None."""
        self._initial_text = ""
        """Initial text of the editor, before any edit."""
        self._is_answering = False
        """True if the editor contains a manual answer instead of the message."""

    def compose(self) -> ComposeResult:
        """Compose filter, direction, messages, editor and keys."""
        with Vertical(classes="box") as box:
            box.border_title = "Held messages"
            yield SearchField(self._initial_filter, placeholder="a filter, like tool:Bash", compact=True)
            with Horizontal(classes="which"):
                yield DirectionStrip(DIRECTIONS)
                yield RepetitionStrip(REPETITIONS)
            yield Static(_EXPLANATION, classes="lesson", markup=False)
            yield HeldList()
            yield JsonEditor()
            yield Static(classes="keys", markup=False)

    def on_mount(self) -> None:
        """Show the held messages, and follow changes."""
        view = hold_view(self._link)
        self.query_one(DirectionStrip).current = DIRECTIONS.index(view.directions)
        self.query_one(RepetitionStrip).current = int(view.is_once)
        self._show_view()
        positions = (
            row
            for row, message in enumerate(view.messages)
            if (message.connection, message.id) == self._initial_selection
        )
        self.listing.cursor = next(positions, 0)
        follow_core(self, self._link, self._refresh, poll_s=_UPDATE_S)
        first_widget = self.listing if view.messages or view.rule else self.query_one(SearchField)
        first_widget.focus()
        if self._starts_in_editor and self._selected_message is not None:
            self.call_after_refresh(self.action_edit)  # the editor is displayed by then

    def on_descendant_focus(self) -> None:
        """Show the keys of the focused widget. If the list is focused, the editor shows the message again."""
        if self._is_answering and self.listing.has_focus:
            self._edit(self._selected_message)
        self._show_keys()

    def action_back(self) -> None:
        """Move the focus from the editor to the list, or close the dialog. Held messages stay held."""
        self._store_edits()
        if self.editor.has_focus_within:
            self.listing.focus()
        else:
            self.dismiss()

    def action_question(self) -> None:
        """Close the dialog to answer the question in the banner. Held messages stay held."""
        self._store_edits()
        self.dismiss(True)

    def action_to_filter(self) -> None:
        """Move the focus from the list to the filter."""
        self.query_one(SearchField).focus()

    def action_to_list(self) -> None:
        """Move the focus from the directions to the list, and hold the messages that match the filter."""
        self.listing.focus()
        self._hold()

    def action_pass(self) -> None:
        """Release the message as it is in the editor."""
        if (message := self._selected_message) is None:
            return
        text, title = self.editor.area.entered_text, _title(message)
        if self._is_answering:
            self._release(message, Verdict.ANSWER, text, f"{title} was answered by hand")
        elif message.text and text != self._initial_text:
            self._release(message, Verdict.CHANGE, text, f"{title} was released, changed")
        else:
            self._release(message, Verdict.PASS)

    def action_pass_all(self) -> None:
        """Release all messages unchanged."""
        for message in self.listing.rows:
            self._link.do(Release(message.number, Verdict.PASS))

    def action_drop(self) -> None:
        """Drop the message."""
        if (message := self._selected_message) is not None:
            self._release(message, Verdict.DROP, "", f"{_title(message)} was dropped")

    def action_delay(self) -> None:
        """Release the message automatically after a delay."""
        if (message := self._selected_message) is not None:
            self._decide(lambda: self._link.do(Delay(message.number, DELAY_S)))

    def action_show_former(self, key: str) -> None:
        """Show which key the action of a former key has now."""
        self.app.notify(f"{key}: {FORMER_KEYS[key]}", markup=False)

    def action_edit(self) -> None:
        """Edit the message."""
        if self._selected_message is not None and self._selected_message.text:
            self.editor.area.focus()
            self._scroll_to_cursor()

    def _scroll_to_cursor(self) -> None:
        """Show the cursor of the editor, which may have been placed while the editor was hidden or larger."""
        self.call_after_refresh(self.editor.area.scroll_cursor_visible)

    @work
    async def action_menu(self) -> None:
        """Open the menu of actions on the message."""
        if (message := self._selected_message) is None:
            return
        action = await self.app.push_screen_wait(Menu(_title(message), list(_menu_choices(message))))
        if (
            action is not None
            and self._selected_message is not None
            and self._selected_message.number == message.number
        ):
            await self.run_action(action)

    def action_answer(self) -> None:
        """Write a manual answer instead of asking the server."""
        message = self._selected_message
        if message is not None and _can_be_answered(message):
            self._edit(message, answers=True)
            self.editor.area.focus()
            self._scroll_to_cursor()

    @on(Input.Submitted)
    def rule_entered(self, event: Input.Submitted) -> None:
        """Hold messages that match the entered filter, and focus the list. An empty filter ends holding."""
        event.stop()
        has_rule = bool(self.query_one(SearchField).entered_text.strip())
        self._hold(self.listing.focus if has_rule else None)

    @on(TabStrip.Picked)
    def direction_picked(self, event: TabStrip.Picked) -> None:
        """Hold messages of the selected direction, every matching one or only the next one."""
        event.stop()
        if hold_view(self._link).rule:
            self._hold()

    @on(RowList.Moved)
    def moved(self) -> None:
        """Show the message under the cursor."""
        message, edited = self._selected_message, self._edited
        if (message and message.number) != (edited and edited.number):
            self._edit(message)

    @on(RowList.Opened)
    def opened(self) -> None:
        """Edit the message."""
        self.action_edit()

    @on(TextArea.Changed)
    def typed(self) -> None:
        """Store the edited text, and mark its message. Remove an error about the previous text."""
        self._store_edits()
        self.editor.recheck()

    def _edit(self, message: HeldMessage | None, *, answers: bool = False) -> None:
        """Show a message, or an answer to the message, in the editor. Unsent edits are included."""
        self._store_edits()
        self._edited, self._is_answering = message, answers
        initial_text = "" if message is None else message.text
        if message is not None and answers:
            initial_text = self._answer_template(message)
        self.editor.load(initial_text)
        self._initial_text = self.editor.area.entered_text
        if (
            message is not None
            and (draft := self._drafts.get((message.number, message.since, answers))) is not None
        ):
            self.editor.load(draft)
        self.editor.area.move_cursor(_edit_position(self.editor.area.entered_text))
        self._show_keys()

    def _answer_template(self, message: HeldMessage) -> str:
        """Return the template of a manual answer to a message."""
        items = self._link.catalogue(message.server).items
        tools = (item for item in items if item.kind is ItemKind.TOOL and item.name == message.name)
        tool = next(tools, None) if message.method == "tools/call" else None
        return answer_template(message, tool.definition if tool is not None else {})

    def _store_edits(self) -> None:
        """Store the edits of the message in the editor. Delete edits of messages that are no longer held."""
        text, message = self.editor.area.entered_text, self._edited
        if message is not None:
            key = (message.number, message.since, self._is_answering)
            if text != self._initial_text:
                self._drafts[key] = text
            else:
                self._drafts.pop(key, None)
        held_keys = {(each.number, each.since) for each in self._shown_view.messages}
        for key in [key for key in self._drafts if key[:2] not in held_keys]:
            del self._drafts[key]
        edited_numbers = {number for number, _, _ in self._drafts}
        if edited_numbers != self.listing.edited:
            self.listing.edited = edited_numbers
            self.listing.refresh()
            self._show_keys()

    def _hold(self, callback: Callable[[], object] | None = None) -> None:
        """Set the filter, the direction and the repetition that are entered. Then call `callback`."""
        rule = self.query_one(SearchField).entered_text
        directions = DIRECTIONS[self.query_one(DirectionStrip).current]
        is_once = self.query_one(RepetitionStrip).current == 1

        def on_success() -> None:
            if not rule.strip():
                self.app.notify("Holding is off", markup=False)
            if callback is not None:
                callback()

        self._decide(lambda: self._link.do(SetHold(rule, directions, is_once)), on_success)

    def _release(self, message: HeldMessage, verdict: Verdict, text: str = "", notice: str = "") -> None:
        """Release a message. `notice` is the notification of the outcome, or "" if the list shows it."""

        def on_success() -> None:
            if notice:
                self.app.notify(notice, markup=False)

        self._decide(lambda: self._link.do(Release(message.number, verdict, text)), on_success)

    @property
    def _selected_message(self) -> HeldMessage | None:
        """Message under the cursor of the list, or None."""
        return self.listing.selected

    @work
    async def _decide(
        self, send: Callable[[], Future[bool]], on_success: Callable[[], object] | None = None
    ) -> None:
        """Call `send`, which sends an intent. Show its error, or call `on_success` if it succeeded."""
        try:
            is_done = await asyncio.wrap_future(send())
        except ValueError as error:
            self._show_error(str(error))
            return
        if is_done and on_success is not None:
            on_success()
        if self.is_attached:
            self._show_error("")
            self._refresh()

    def _show_error(self, text: str) -> None:
        """Show an error below the edited text. An empty text removes the error."""
        self._show_keys()
        if not self.has_class("-empty"):
            self.editor.complain(text)
        elif text:
            keys = self.query_one(".keys", Static)
            keys.update(Content(one_line(text, 300)))
            keys.add_class("-wrong")

    def _show_view(self) -> None:
        """Show the messages that are held now."""
        previous, view = self._shown_view, hold_view(self._link)
        self._shown_view = view
        if previous.messages and not view.messages and self.editor.has_focus_within:
            self.listing.focus()  # the editor becomes hidden, and the next key must not change the filter
        self.set_class(not view.messages, "-empty")
        self.listing.show(view.messages)
        max_height = max(3, int(self.size.height * _MAX_LIST_SHARE))
        self.listing.styles.height = min(len(view.messages) + 1, max_height) if view.messages else 1
        self._store_edits()
        self._show_keys()

    def _refresh(self) -> None:
        """Show changes of the held messages. If nothing changed, update the times in the list."""
        view = hold_view(self._link)
        if view != self._shown_view:
            self._show_view()
        elif view.messages:
            self.listing.refresh()
        edited = self._edited
        was_released = edited is not None and all(
            message.number != edited.number for message in view.messages
        )
        if was_released and view.messages and self.editor.has_focus_within:
            self.listing.focus()  # the next key must not change the next message

    def _show_keys(self) -> None:
        keys = self.query_one(".keys", Static)
        keys.remove_class("-wrong")
        keys.update(Content(" · ".join(self._keys())))

    def _keys(self) -> Iterable[str]:
        """Yield the keys that have an effect on the focused widget."""
        view, message = self._shown_view, self._selected_message
        if self.editor.has_focus_within:
            yield "ctrl+r send this answer" if self._is_answering else "ctrl+r release as shown"
            yield "esc back to the list"
            return
        if self.query_one(RepetitionStrip).has_focus:
            yield "← → hold every match, or only the next one"
            yield "enter to the list"
        elif self.query_one(DirectionStrip).has_focus:
            yield "← → choose the direction"
            yield "enter to the list"
        elif self.query_one(SearchField).has_focus:
            yield "enter hold matching messages" if view.rule else "enter start holding"
            if view.rule:
                yield "an empty filter ends holding"
            yield "tab, then ← → choose the direction"
        elif message is not None:
            yield from self._keys_of(message)
            yield "/ filter"
        else:
            subject = f"{'the next of ' * view.is_once}{view.directions}"
            yield f"holding {subject}; none held" if view.rule else "holding is off"
            yield "/ change the filter, an empty one ends holding" if view.rule else "/ filter"
        yield "esc close"

    def _keys_of(self, message: HeldMessage) -> Iterable[str]:
        """Yield the keys that have an effect on a held message."""
        is_changed = (message.number, message.since, False) in self._drafts
        yield "r release as changed" if is_changed else "r release"
        if message.text:
            yield "e edit"
        yield "x drop"
        if _can_be_answered(message):
            yield "a answer by hand"
        yield "space all actions"


def _menu_choices(message: HeldMessage) -> Iterator[Choice]:
    """Yield the actions on a held message. The values are names of actions of the dialog."""
    yield Choice("release", "pass", "as it is shown", "r")
    if message.text:
        yield Choice("edit", "edit", "", "e")
    yield Choice("drop", "drop", "its receiver never sees it", "x")
    if _can_be_answered(message):
        yield Choice("answer by hand", "answer", "the server never sees it", "a")
    yield Choice(f"release in {DELAY_S:g} s", "delay", "unchanged")
    yield Choice("release all messages", "pass_all", "unchanged")


def _title(message: HeldMessage) -> str:
    """Return a short description of a message on one line."""
    return one_line(
        f"{'the answer to ' if message.is_answer else ''}{message.method} {message.name}".rstrip(), 80
    )


def _can_be_answered(message: HeldMessage) -> bool:
    """Return True if a person can answer the message instead of its receiver."""
    return not message.is_answer and message.what != "tells"


def _edit_position(text: str) -> tuple[int, int]:
    """Return line and column of the first argument or text, which is most likely to be edited.

    If the message has neither, return the top.
    """
    lines = text.split("\n")
    for prefix in (
        '"structuredContent": {',
        '"content": [{',
        '"arguments": {',
        '"text": ',
        '"params": {',
        '"result": {',
    ):
        row = next((i for i, line in enumerate(lines) if line.lstrip().startswith(prefix)), None)
        if row is None:
            continue
        if (empty_value := max(lines[row].find('""'), lines[row].find("{}"))) >= 0:
            return row, empty_value + 1
        row += prefix.endswith(": {")
        line = lines[row].rstrip(",") if row < len(lines) else ""
        return min(row, len(lines) - 1), len(line) - line.endswith('"')
    return 0, text == "{}"


def canned_answer(index: Index, exchange: Exchange) -> str:
    """Return the answer of an exchange as JSON text, for a mock.

    Raises: ValueError if the exchange has no usable answer.
    """
    is_request_of_client = exchange.direction is Direction.IN and exchange.kind is ExchangeKind.REQUEST
    if exchange.response is None or not is_request_of_client:
        raise ValueError("only an answered request of a client can be mocked")
    round_with_result = last_round(index, exchange)
    return json.dumps(unmasked(index, round_with_result, round_with_result.response or 0))


def answer_template(message: HeldMessage, definition: Mapping[str, Any]) -> str:
    """Return the template of a manual answer. It fits the output schema in the tool's `definition`."""
    if message.method != "tools/call":
        return "{}"
    schema = definition.get("outputSchema")
    structured = ""
    if isinstance(schema, dict):
        value = json.dumps(example_value(schema, schema), indent=2, ensure_ascii=False)
        structured = f'  "structuredContent": {textwrap.indent(value, "  ").lstrip()},\n'
    result_type = ',\n  "resultType": "complete"' if _STATELESS_KEY in message.text else ""
    texts = '  "content": [{"type": "text", "text": ""}],\n  "isError": false'
    return f"{{\n{structured}{texts}{result_type}\n}}"
