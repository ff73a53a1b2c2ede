"""The form of a node: its fields, their failures, and the keys that move between them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from textual import on, work
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.events import DescendantFocus
from textual.message import Message
from textual.widgets import Input, Label

from mcpdesk.link.values import ArgumentFailure
from mcpdesk.tui.actions import bindings_for
from mcpdesk.tui.forms.field_widgets import (
    Ask,
    ChoicePart,
    FixedPart,
    FormPart,
    ManyPart,
    TextPart,
    text_part_for,
)
from mcpdesk.tui.forms.form_model import Node, ObjectNode, TextNode, UnionNode, walk
from mcpdesk.tui.forms.nested_fields import ListPart, MapPart, ObjectPart, UnionPart, focus_first
from mcpdesk.tui.forms.schema_fields import FieldKind
from mcpdesk.tui.render.json_text import Path, path_text
from mcpdesk.tui.render.safe_text import one_line
from mcpdesk.tui.widgets.menu import Choice, Menu

_PARTS: dict[FieldKind, type[FormPart]] = {
    FieldKind.SWITCH: ChoicePart,
    FieldKind.CHOICE: ChoicePart,
    FieldKind.MANY: ManyPart,
    FieldKind.FIXED: FixedPart,
    FieldKind.OBJECT: ObjectPart,
    FieldKind.LIST: ListPart,
    FieldKind.MAP: MapPart,
    FieldKind.UNION: UnionPart,
}


def part_for(node: Node, name: str) -> FormPart:
    """The widget that edits a node."""
    kind = text_part_for(node) if isinstance(node, TextNode) else _PARTS[node.field.kind]
    return kind(node, name, part_for)


class Form(VerticalScroll, can_focus=False):
    """Edits a node. A failure is shown at its field once that was edited; after `show_all`, all are."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("down", "app.focus_next", "Next field", show=False),
        Binding("up", "app.focus_previous", "Previous field", show=False),
        *bindings_for("form_fields"),
    ]
    DEFAULT_CSS = """
    Form { height: 1fr; padding: 0 1; scrollbar-size-vertical: 1; }
    Form > .empty { color: $text-muted; }
    Form.-roomy FormPart.-hinted > .note { display: block; }
    """

    class Changed(Message):
        """The value was changed."""

    class Submitted(Message):
        """Enter was pressed in the last field."""

    @dataclass
    class Hinted(Message):
        """The hint of the field that now has the focus."""

        text: str

    def __init__(self, node: Node | None = None, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.node = node
        self._show_all = False
        self._swapping = asyncio.Lock()

    @property
    def has_fields(self) -> bool:
        """Whether there is anything to enter."""
        node = self.node
        if isinstance(node, ObjectNode):
            return node.takes_others or any(node.children())
        return node is not None

    def compose(self) -> Iterable[FormPart | Label]:
        if self.node is not None and self.has_fields:
            yield part_for(self.node, "")
        else:
            yield Label(Content("No arguments."), classes="empty")

    async def load(self, node: Node, ask: Ask | None = None) -> None:
        """Edit another node. `ask` gets suggestions for its texts from the server.

        Shielded: Textual would close the screen if this were cancelled while fields are removed.
        """
        await asyncio.shield(self._swap(node, ask))

    async def _swap(self, node: Node, ask: Ask | None) -> None:
        async with self._swapping:
            await self.remove_children()
            self.node, self._show_all = node, False
            self._fit()
            await self.mount_all(self.compose())
            if ask is not None:
                for part in self.query(TextPart):
                    part.suggest(ask)

    def focus_first(self) -> bool:
        """Move the focus to the first field; False when there is none."""
        if not any(found.focusable for found in self.query("*")):
            return False
        focus_first(self, self)
        return True

    @work(exclusive=True, group="suggest")
    async def action_suggest(self) -> None:
        """Choose one of the suggestions of the server for the field with the focus."""
        part = next((one for one in self.query(TextPart) if one.has_focus_within), None)
        values = await part.suggestions() if part is not None else ()
        if part is None or not values:
            self.notify("The server suggests nothing here.", markup=False)
            return
        choices = [Choice(one_line(value, 60), value) for value in values]
        menu = Menu(f"Suggestions for {one_line(part.label, 30)}", choices, filtered=True)
        chosen = await self.app.push_screen_wait(menu)
        if chosen is not None:
            part.input.true_text = chosen

    def problems(self) -> list[ArgumentFailure]:
        """Texts that are not values, such as broken JSON."""
        nodes = walk(self.node) if self.node else ()
        return [ArgumentFailure(path, node.problem) for path, node in nodes if node.problem]

    def show_failures(self, failures: Iterable[ArgumentFailure], show_all: bool = False) -> int:
        """Show each failure at its field; returns how many there are in all."""
        self._show_all = self._show_all or show_all
        found = list(failures)
        messages = self._by_part(found)
        for part in self.query(FormPart):
            shown = self._show_all or part.is_touched
            part.fail(messages.get(part, "") if shown else "")
        return len(found)

    def focus_failure(self) -> None:
        """Move the focus to the first field with a failure."""
        for part in self.query(FormPart):
            if part.has_class("-failed"):
                focus_first(part, self)
                return

    @on(FormPart.Edited)
    def _edited(self, event: FormPart.Edited) -> None:
        event.stop()
        self.post_message(self.Changed())

    @on(Input.Submitted)
    def _next_field(self, event: Input.Submitted) -> None:
        """Enter moves to the next field; in the last field it submits the form."""
        event.stop()
        inside = [found for found in self.screen.focus_chain if self in found.ancestors]
        if inside and inside[-1] is event.input:
            self.post_message(self.Submitted())
        else:
            self.screen.focus_next()

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        part = next((one for one in event.widget.ancestors_with_self if isinstance(one, FormPart)), None)
        if part is not None:
            self.post_message(self.Hinted(part.hint))

    def on_resize(self) -> None:
        self._fit()

    def _fit(self) -> None:
        """Show a hint below every field where all of them fit."""
        fields = len(list(walk(self.node))) if self.node else 0
        self.set_class(0 < 2 * fields <= self.size.height, "-roomy")

    def _by_part(self, failures: list[ArgumentFailure]) -> dict[FormPart, str]:
        parts = {id(part.node): part for part in self.query(FormPart)}
        at: dict[Path, FormPart] = {}
        for path, node in walk(self.node) if self.node else ():
            inner = node.chosen if isinstance(node, UnionNode) and node.chosen else node
            part = parts.get(id(node)) or parts.get(id(inner))
            if part is not None:
                at[path] = part
        messages: dict[FormPart, str] = {}
        for failure in failures:
            path, message = _place(failure, at)
            if path in at:
                messages.setdefault(at[path], message)
        return messages


def _place(failure: ArgumentFailure, at: dict[Path, FormPart]) -> tuple[Path, str]:
    """Path and message of the field to show a failure at: the missing member, else the nearest parent."""
    for name in _quoted(failure.message):
        if (*failure.path, name) in at and "required" in failure.message:
            return (*failure.path, name), "required"
    path = failure.path
    while path not in at and path:
        path = path[:-1]
    where = failure.path[len(path) :]
    return path, f"{path_text(where)}: {failure.message}" if where else one_line(failure.message)


def _quoted(message: str) -> list[str]:
    return message.split('"')[1::2]
