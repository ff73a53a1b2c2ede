"""What all fields of a form have in common: a label, a control, and a line for hint or failure below."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.suggester import Suggester
from textual.widget import Widget
from textual.widgets import Input, Label, TextArea

from mcpdesk.plain_text import from_field, to_field
from mcpdesk.tui.forms.form_model import ChoiceNode, FixedNode, ManyNode, Node, TextNode
from mcpdesk.tui.forms.schema_fields import Kind
from mcpdesk.tui.render.json_text import compact
from mcpdesk.tui.render.safe_text import one_line
from mcpdesk.tui.widgets.choice_box import Chip, ChoiceBox
from mcpdesk.tui.widgets.fields import LineField, TextField
from mcpdesk.tui.widgets.line_list import LineList, Span
from mcpdesk.tui.workbench.item_requests import Ask

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


PAUSE_S = 0.15
"""How long nobody types before the server is asked."""


class Suggestions(Suggester):
    """Those for one field. `found` hears of what the server said to the latest text."""

    def __init__(self, name: str, ask: Ask, found: Callable[[Sequence[str]], None]) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._name = name
        self._ask = ask
        self._found = found
        self._asked = 0

    async def get_suggestion(self, value: str) -> str | None:
        """The first suggestion that goes on from what stands in the field, as the field shows it; None while
        somebody types on."""
        values = await self.values(from_field(value), PAUSE_S)
        typed = value.casefold()
        shown = (to_field(one) for one in values)
        return next((one for one in shown if one.casefold().startswith(typed) and one != value), None)

    async def values(self, value: str, pause_s: float = 0.0) -> Sequence[str]:
        """All suggestions; none when another text was asked about meanwhile."""
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


_NUMBER_CHARACTERS = {Kind.INTEGER: r"[-+0-9]*", Kind.NUMBER: r"[-+0-9.eE]*"}
SHORT_EXAMPLE = 20
"""Characters up to which an example is introduced as one."""


class TextPart(FormPart):
    """A line of text; `null` and bounds are told by the placeholder."""

    DEFAULT_CSS = """
    TextPart Input { width: 1fr; background: $foreground 8%; padding: 0 1; }
    TextPart Input:focus { background: $primary 25%; }
    """
    node: TextNode

    def controls(self) -> Iterator[Widget]:
        """An input of one line."""
        field = self.node.field
        yield LineField(
            self.node.text,
            placeholder=self._placeholder(),
            password=field.kind is Kind.SECRET,
            restrict=_NUMBER_CHARACTERS.get(field.kind),
            compact=True,
        )

    class Suggested(Message):
        """The server suggests something for the field with the focus."""

        def __init__(self, values: Sequence[str]) -> None:
            super().__init__()
            self.values = values

    @property
    def input(self) -> LineField:
        """Where it is typed."""
        return self.query_one(LineField)

    def suggest(self, ask: Ask) -> None:
        """Ask for suggestions from now on."""
        self.input.suggester = Suggestions(self.node.field.key, ask, self._found)

    async def suggestions(self) -> Sequence[str]:
        """What the server suggests now."""
        asking = self.input.suggester
        return await asking.values(self.input.true_text) if isinstance(asking, Suggestions) else ()

    def on_descendant_focus(self) -> None:
        """Say what may stand here before anything is typed."""
        if self.input.suggester is not None:
            self.run_worker(self.suggestions(), group="suggest", exclusive=True)

    def _found(self, values: Sequence[str]) -> None:
        if self.input.has_focus:
            self.post_message(self.Suggested(values))

    @on(Input.Changed)
    def take(self, event: Input.Changed) -> None:
        """Hold what was typed."""
        event.stop()
        text = self.input.true_text
        if text != self.node.text:
            self.node.edit(text)
            self.edited()

    def _placeholder(self) -> str:
        if self.node.is_null:
            return "null"
        field = self.node.field
        # A long example that is one word would be wrapped behind the prefix, out of sight.
        example = f"e.g. {field.example}" if 0 < len(field.example) <= SHORT_EXAMPLE else field.example
        name = "" if field.kind is Kind.SECRET else field.kind.value
        told = example or field.limits or ("JSON value" if field.kind is Kind.JSON else name)
        return one_line(told, 60)


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
        """A text area."""
        shown = "JSON value" if self.node.field.kind is Kind.JSON else self.node.field.example
        yield TextField(
            self.node.text,
            compact=True,
            soft_wrap=True,
            tab_behavior="focus",
            placeholder=one_line(shown, 60),
        )

    @on(TextArea.Changed)
    def take(self, event: TextArea.Changed) -> None:
        """Hold what was typed."""
        event.stop()
        text = self.query_one(TextField).true_text
        if text != self.node.text:
            self.node.edit(text)
            self.edited()


def text_part_for(node: TextNode) -> type[FormPart]:
    """Several lines where the field is made for them, or already holds them."""
    roomy = node.field.kind in (Kind.LONG_TEXT, Kind.JSON) or "\n" in node.text
    return LongTextPart if roomy else TextPart


class ChoicePart(FormPart):
    """One of a few values, or on and off."""

    node: ChoiceNode

    @property
    def draws_null(self) -> bool:
        """Null is one of the choices."""
        return True

    def controls(self) -> Iterator[Widget]:
        """The labels side by side, or a menu."""
        node = self.node
        index = next((at for at, choice in enumerate(node.choices) if choice.value is None), None)
        yield ChoiceBox(
            [choice.label for choice in node.choices],
            index if node.is_null else node.index,
            optional=not node.field.required,
        )

    @on(ChoiceBox.Picked)
    def take(self, event: ChoiceBox.Picked) -> None:
        """Hold what was picked."""
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
        """Other lines are ticked now."""

    def __init__(self, labels: Iterable[str], ticked: frozenset[int]) -> None:
        super().__init__()
        self._labels = [one_line(label) for label in labels]
        self.ticked = ticked

    @property
    def row_count(self) -> int:
        """One row a label."""
        return len(self._labels)

    def get_content_height(self, *_: object) -> int:
        """As high as there are labels."""
        return len(self._labels)

    def spans(self, index: int, width: int) -> Iterator[Span]:
        """A box and the label."""
        yield ("[x] " if index in self.ticked else "[ ] "), "lines--muted"
        yield self._labels[index], "lines--head" if index in self.ticked else ""

    def row_chosen(self, index: int) -> None:
        """Tick or untick."""
        self.ticked = self.ticked ^ {index}
        self.refresh()
        self.post_message(self.Ticked())

    def action_cursor(self, by: int) -> None:
        """Beyond the last line the next field follows, before the first the previous one."""
        if not 0 <= self.cursor + by < self.row_count:
            self.screen.focus_next() if by > 0 else self.screen.focus_previous()
        else:
            super().action_cursor(by)


class ManyPart(FormPart):
    """Several of a few values."""

    node: ManyNode

    def controls(self) -> Iterator[Widget]:
        """A list to tick."""
        yield CheckList((choice.label for choice in self.node.choices), self.node.chosen)

    @on(CheckList.Ticked)
    def take(self, event: CheckList.Ticked) -> None:
        """Hold what is ticked."""
        event.stop()
        self.node.pick(self.query_one(CheckList).ticked)
        self.edited()


class FixedPart(FormPart):
    """A constant, shown but not edited."""

    node: FixedNode

    def controls(self) -> Iterator[Widget]:
        """The value."""
        yield Label(Content.styled(one_line(compact(self.node.value()), 60), "$text-muted"))
