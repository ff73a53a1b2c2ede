"""What all fields of a form have in common: a label, a control, and a line for hint or failure below."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Label

from mcpdesk.tui.render.form_node import Node
from mcpdesk.tui.render.text import one_line
from mcpdesk.tui.widgets.choice_box import Chip

LABEL_WIDTH = 22
"""Cells a label takes at most."""


class FormPart(Vertical):
    """One field. Families of fields override `controls`, and `compose_body` where there is something nested.

    `make` builds the part for a node inside this one.
    """

    DEFAULT_CSS = """
    FormPart { height: auto; }
    FormPart > .row { height: auto; }
    FormPart > .row > .name { width: auto; padding-right: 1; }
    FormPart > .row > .name.-required { text-style: bold; }
    FormPart > .note { display: none; color: $text-muted; width: 1fr; height: auto; max-height: 3; }
    FormPart > .body { height: auto; margin-left: 1; padding-left: 1; border-left: vkey $foreground 20%; }
    FormPart.-failed > .note { display: block; color: $text-error; }
    """

    class Edited(Message):
        """The node holds something else now."""

        def __init__(self, part: FormPart) -> None:
            super().__init__()
            self.part = part

    def __init__(self, node: Node, name: str, make: Callable[[Node, str], FormPart], width: int = 0) -> None:
        super().__init__()
        self.node = node
        self.label = name
        self.make = make
        self.label_width = width
        self.is_touched = False
        self._failure = ""
        self.set_class(bool(self.hint), "-hinted")

    @property
    def hint(self) -> str:
        """What a person should know: description and bounds."""
        field = self.node.field
        parts = (field.description or str(field.shape.get("title", "")), field.limits)
        return one_line(" ".join(" · ".join(part for part in parts if part).split()))

    def compose(self) -> ComposeResult:
        """Label and control side by side, nested parts below, then the note."""
        with Horizontal(classes="row"):
            yield self._head()
            yield from self.controls()
            if self.node.field.nullable and not self.draws_null:
                yield Chip("null", "null -on" if self.node.is_null else "null", "Send null")
        if self.hint or self._failure:
            yield self._note()
        body = list(self.compose_body())
        if body:
            with Vertical(classes="body"):
                yield from body

    @property
    def draws_null(self) -> bool:
        """Whether the control itself offers null."""
        return False

    def controls(self) -> Iterator[Widget]:
        """The control, right of the label."""
        return iter(())

    def compose_body(self) -> Iterator[Widget]:
        """Nested parts."""
        return iter(())

    def fail(self, message: str) -> None:
        """Show what is wrong with the value; nothing when empty."""
        if message != self._failure:
            self._failure = message
            self.set_class(bool(message), "-failed")
            note = self.query_one_optional(".note", Label)
            if note is not None:
                note.update(self._failure_text or Content(self.hint))
            elif message:
                self.mount(self._note(), after=0)

    def edited(self) -> None:
        """Tell the form."""
        self.is_touched = True
        self.post_message(self.Edited(self))

    def nested(self, nodes: Iterator[tuple[str | int, Node]]) -> list[FormPart]:
        """Parts for nodes inside this one, their labels aligned."""
        found = [(str(key), node) for key, node in nodes]
        width = min(LABEL_WIDTH, max((len(key) + 2 for key, _ in found), default=0))
        parts = [self.make(node, key) for key, node in found]
        for part in parts:
            part.label_width = width
        return parts

    async def rebuild(self) -> None:
        """Draw everything below anew, after the node changed its shape."""
        await self.recompose()
        self.edited()

    @on(Chip.Pressed, ".null")
    async def toggle_null(self, event: Chip.Pressed) -> None:
        """Send null, or what is entered."""
        event.stop()
        self.node.is_null = not self.node.is_null
        event.chip.set_class(self.node.is_null, "-on")
        self.edited()

    @property
    def _failure_text(self) -> Content | None:
        return Content(f"✗ {one_line(self._failure)}") if self._failure else None

    def _note(self) -> Label:
        note = Label(self._failure_text or Content(self.hint), classes="note")
        note.styles.margin = (0, 0, 0, self.label_width + 1 if self.label_width else 0)
        return note

    def _head(self) -> Label:
        required = self.node.field.required and self.node.field.depth > 0 and bool(self.node.field.key)
        star = " *" if required else ""
        name = Label(Content(one_line(self.label, LABEL_WIDTH) + star), classes="name")
        name.set_class(required, "-required")
        name.display = bool(self.label)
        if self.label_width:
            name.styles.width = self.label_width + 1
        return name
