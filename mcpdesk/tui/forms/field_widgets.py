"""The fields of a form that hold one value: typed or chosen, with label, hint and failure."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.getters import query_one
from textual.message import Message
from textual.suggester import Suggester
from textual.widget import Widget
from textual.widgets import Input, Label, TextArea

from mcpdesk.plain_text import from_field, to_field
from mcpdesk.tui.forms.form_model import ChoiceNode, FixedNode, ManyNode, Node, TextNode
from mcpdesk.tui.forms.schema_fields import FieldKind
from mcpdesk.tui.render.json_text import compact
from mcpdesk.tui.render.safe_text import one_line
from mcpdesk.tui.widgets.choice_box import Chip, ChoiceBox
from mcpdesk.tui.widgets.fields import LineField, TextField
from mcpdesk.tui.widgets.line_list import LineList, Span

Ask = Callable[[str, str], Awaitable[Sequence[str]]]
"""Asks for suggestions for a field: from its name and text to values, the best first."""
LABEL_WIDTH = 22
"""Cells that a label takes at most."""


class FormPart(Vertical):
    """One field: label and control, a line for hint or failure, and nested fields below.

    Subclasses override `controls`, and `compose_body` where fields are nested. `make` builds a nested part.
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
        """The value of a field was changed."""

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
        """Description and limits of the value."""
        field = self.node.field
        parts = (field.description or str(field.shape.get("title", "")), field.limits)
        return one_line(" ".join(" · ".join(part for part in parts if part).split()))

    def compose(self) -> ComposeResult:
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
        """Show why the value is wrong; an empty message shows the hint again."""
        if message != self._failure:
            self._failure = message
            self.set_class(bool(message), "-failed")
            note = self.query_one_optional(".note", Label)
            if note is not None:
                note.update(self._failure_text or Content(self.hint))
            elif message:
                self.mount(self._note(), after=0)

    def edited(self) -> None:
        """Report to the form that the value was changed."""
        self.is_touched = True
        self.post_message(self.Edited())

    def nested(self, nodes: Iterator[tuple[str | int, Node]]) -> list[FormPart]:
        """Parts for nested nodes, with aligned labels."""
        found = [(str(key), node) for key, node in nodes]
        width = min(LABEL_WIDTH, max((len(key) + 2 for key, _ in found), default=0))
        parts = [self.make(node, key) for key, node in found]
        for part in parts:
            part.label_width = width
        return parts

    async def rebuild(self) -> None:
        """Compose the part again, after nested nodes were added or removed."""
        await self.recompose()
        self.edited()

    @on(Chip.Pressed, ".null")
    async def toggle_null(self, event: Chip.Pressed) -> None:
        """Switch between null and what is entered."""
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


PAUSE_S = 0.15
"""Seconds without typing before the server is asked for suggestions."""


class Suggestions(Suggester):
    """Suggestions of the server for one field. `found` is called with those for the latest text."""

    def __init__(self, name: str, ask: Ask, found: Callable[[Sequence[str]], None]) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._name = name
        self._ask = ask
        self._found = found
        self._asked = 0

    async def get_suggestion(self, value: str) -> str | None:
        """The first suggestion that continues the text, as the field shows it; None when typing goes on."""
        values = await self.values(from_field(value), PAUSE_S)
        typed = value.casefold()
        shown = (to_field(one) for one in values)
        return next((one for one in shown if one.casefold().startswith(typed) and one != value), None)

    async def values(self, value: str, pause_s: float = 0.0) -> Sequence[str]:
        """All suggestions; none when another text was typed meanwhile."""
        self._asked += 1
        mine = self._asked
        await asyncio.sleep(pause_s)
        if mine != self._asked:
            return ()
        values = await self._ask(self._name, value)
        if mine != self._asked:
            return ()
        self._found(values)
        return values


_NUMBER_CHARACTERS = {FieldKind.INTEGER: r"[-+0-9]*", FieldKind.NUMBER: r"[-+0-9.eE]*"}
SHORT_EXAMPLE = 20
"""Characters up to which an example is shown with the prefix `e.g.`."""


class TextPart(FormPart):
    """A line of text. The placeholder shows an example, the limits or the kind of value."""

    DEFAULT_CSS = """
    TextPart Input { width: 1fr; background: $foreground 8%; padding: 0 1; }
    TextPart Input:focus { background: $primary 25%; }
    """
    node: TextNode
    input = query_one(LineField)

    def controls(self) -> Iterator[Widget]:
        field = self.node.field
        yield LineField(
            self.node.text,
            placeholder=self._placeholder(),
            password=field.kind is FieldKind.SECRET,
            restrict=_NUMBER_CHARACTERS.get(field.kind),
            compact=True,
        )

    @dataclass
    class Suggested(Message):
        """The server suggests values for the field with the focus."""

        values: Sequence[str]

    def suggest(self, ask: Ask) -> None:
        """Show suggestions while typing, which `ask` gets from the server."""
        self.input.suggester = Suggestions(self.node.field.key, ask, self._found)

    async def suggestions(self) -> Sequence[str]:
        """The suggestions for the present text."""
        asking = self.input.suggester
        return await asking.values(self.input.true_text) if isinstance(asking, Suggestions) else ()

    def on_descendant_focus(self) -> None:
        """Ask for suggestions before anything is typed."""
        if self.input.suggester is not None:
            self.run_worker(self.suggestions(), group="suggest", exclusive=True)

    def _found(self, values: Sequence[str]) -> None:
        if self.input.has_focus:
            self.post_message(self.Suggested(values))

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        text = self.input.true_text
        if text != self.node.text:
            self.node.edit(text)
            self.edited()

    def _placeholder(self) -> str:
        if self.node.is_null:
            return "null"
        field = self.node.field
        # A long example that is one word would be wrapped after the prefix, out of sight.
        example = f"e.g. {field.example}" if 0 < len(field.example) <= SHORT_EXAMPLE else field.example
        name = "" if field.kind is FieldKind.SECRET else field.kind.value
        shown = example or field.limits or ("JSON value" if field.kind is FieldKind.JSON else name)
        return one_line(shown, 60)


class LongTextPart(FormPart):
    """Several lines of text, or JSON. Tab leaves the field."""

    DEFAULT_CSS = """
    LongTextPart TextArea {
        width: 1fr; height: auto; max-height: 10; background: $foreground 8%; padding: 0 1;
    }
    LongTextPart TextArea.-text { min-height: 3; }
    LongTextPart TextArea:focus { background: $primary 15%; }
    """
    node: TextNode

    def controls(self) -> Iterator[Widget]:
        shown = "JSON value" if self.node.field.kind is FieldKind.JSON else self.node.field.example
        yield TextField(
            self.node.text,
            compact=True,
            soft_wrap=True,
            tab_behavior="focus",
            placeholder=one_line(shown, 60),
        )

    @on(TextArea.Changed)
    def _typed(self, event: TextArea.Changed) -> None:
        event.stop()
        text = self.query_one(TextField).true_text
        if text != self.node.text:
            self.node.edit(text)
            self.edited()


def text_part_for(node: TextNode) -> type[FormPart]:
    """The part for a text: of several lines where the field is meant for them, or holds them already."""
    roomy = node.field.kind in (FieldKind.LONG_TEXT, FieldKind.JSON) or "\n" in node.text
    return LongTextPart if roomy else TextPart


class ChoicePart(FormPart):
    """One of a few values, or a switch."""

    node: ChoiceNode

    @property
    def draws_null(self) -> bool:
        return True

    def controls(self) -> Iterator[Widget]:
        node = self.node
        index = next((at for at, choice in enumerate(node.choices) if choice.value is None), None)
        yield ChoiceBox(
            [choice.label for choice in node.choices],
            index if node.is_null else node.index,
            optional=not node.field.required,
        )

    @on(ChoiceBox.Picked)
    def _picked(self, event: ChoiceBox.Picked) -> None:
        event.stop()
        self.node.pick(event.index)
        self.edited()


class CheckList(LineList):
    """Lines to tick with space or enter."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("space", "choose", "Tick", show=False)]
    DEFAULT_CSS = """
    CheckList { height: auto; max-height: 8; width: 1fr; }
    CheckList > .lines--cursor { background: transparent; text-style: none; }
    """

    class Ticked(Message):
        """A line was ticked or unticked."""

    def __init__(self, labels: Iterable[str], ticked: frozenset[int]) -> None:
        super().__init__()
        self._labels = [one_line(label) for label in labels]
        self.ticked = ticked

    @property
    def row_count(self) -> int:
        return len(self._labels)

    def get_content_height(self, *_: object) -> int:
        return len(self._labels)

    def spans(self, index: int, width: int) -> Iterator[Span]:
        yield ("[x] " if index in self.ticked else "[ ] "), "lines--muted"
        yield self._labels[index], "lines--head" if index in self.ticked else ""

    def row_chosen(self, index: int) -> None:
        self.ticked = self.ticked ^ {index}
        self.refresh()
        self.post_message(self.Ticked())

    def action_cursor(self, by: int) -> None:
        """Move the cursor; beyond the first or last line move the focus to the neighbouring field."""
        if not 0 <= self.cursor + by < self.row_count:
            self.screen.focus_next() if by > 0 else self.screen.focus_previous()
        else:
            super().action_cursor(by)


class ManyPart(FormPart):
    """Several of a few values."""

    node: ManyNode

    def controls(self) -> Iterator[Widget]:
        yield CheckList((choice.label for choice in self.node.choices), self.node.chosen)

    @on(CheckList.Ticked)
    def _ticked(self, event: CheckList.Ticked) -> None:
        event.stop()
        self.node.pick(self.query_one(CheckList).ticked)
        self.edited()


class FixedPart(FormPart):
    """A constant, which is shown but cannot be edited."""

    node: FixedNode

    def controls(self) -> Iterator[Widget]:
        yield Label(Content.styled(one_line(compact(self.node.value()), 60), "$text-muted"))
