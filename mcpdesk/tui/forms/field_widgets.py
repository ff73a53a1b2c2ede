"""Form fields with one value: typed or selected, with label, hint and failure."""

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
from textual.message import Message
from textual.suggester import Suggester
from textual.widget import Widget
from textual.widgets import Input, Label, TextArea

from mcpdesk.plain_text import from_field, to_field
from mcpdesk.tui.forms.form_model import ChoiceNode, ConstantNode, MultiChoiceNode, Node, TextNode
from mcpdesk.tui.forms.schema_fields import UNSET, FieldKind, FormField, limits
from mcpdesk.tui.render.json_text import compact
from mcpdesk.tui.render.safe_text import one_line
from mcpdesk.tui.widgets.choice_box import Chip, ChoiceBox
from mcpdesk.tui.widgets.fields import LineField
from mcpdesk.tui.widgets.line_list import LineList, Span
from mcpdesk.tui.widgets.text_field import TextField

SuggestionSource = Callable[[str, str], Awaitable[Sequence[str]]]
"""Function that returns suggestions for a field's name and text, the best first."""
MAX_LABEL_WIDTH = 22
"""Maximum width in cells of a label."""


def _schema_fault(field: FormField) -> str:
    """Return a message about an invalid default in the field's schema, or "" if the schema is valid."""
    if field.invalid_default is UNSET:
        return ""
    return f"left unset: the default {compact(field.invalid_default):.60} does not fit the schema"


class FormPart(Vertical):
    """One field: label and control, a line for hint or failure, and nested fields below.

    Subclasses override `controls`, and also `compose_body` if fields are nested.
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

    def __init__(self, node: Node, name: str, width: int = 0) -> None:
        super().__init__()
        self.node = node
        self.label = name
        self.label_width = width
        self.is_touched = False
        self._failure = ""
        self.set_class(bool(self.hint), "-hinted")
        self.set_class(not name, "-bare")

    @property
    def hint(self) -> str:
        """Description and limits of the value."""
        field = self.node.field
        title = str(field.shape.get("title", ""))
        text = field.description or (title if title != self.label else "")
        parts = (text, limits(field.shape), _schema_fault(field))
        return one_line(" ".join(" · ".join(part for part in parts if part).split()))

    def compose(self) -> ComposeResult:
        with Horizontal(classes="row"):
            yield self._name_label()
            yield from self.controls()
            if self.node.field.nullable and not isinstance(self.node, ChoiceNode):  # a ChoiceNode offers null
                yield Chip("null", "null -on" if self.node.is_null else "null", "Send null")
        if self.hint or self._failure:
            yield self._note_label()
        body = list(self.compose_body())
        if body:
            with Vertical(classes="body"):
                yield from body

    def controls(self) -> Iterable[Widget]:
        """Return the controls, right of the label."""
        return ()

    def compose_body(self) -> Iterable[Widget]:
        """Return the nested parts."""
        return ()

    def fail(self, message: str) -> None:
        """Show the reason why the value is invalid. An empty message shows the hint again."""
        if message != self._failure:
            self._failure = message
            self.set_class(bool(message), "-failed")
            note = next(iter(self.query_children(".note").results(Label)), None)
            if note is not None:
                note.update(self._note_text)
            elif message:
                self.mount(self._note_label(), after=0)

    def report_edit(self) -> None:
        """Report a change of the value to the form."""
        self.is_touched = True
        self.post_message(self.Edited())

    @on(Chip.Pressed, ".null")
    def toggle_null(self, event: Chip.Pressed) -> None:
        """Toggle between null and the entered value."""
        event.stop()
        self.node.is_null = not self.node.is_null
        event.chip.set_class(self.node.is_null, "-on")
        self.report_edit()

    @property
    def _note_text(self) -> Content:
        return Content(f"✗ {one_line(self._failure)}" if self._failure else self.hint)

    def _note_label(self) -> Label:
        note = Label(self._note_text, classes="note")
        note.styles.margin = (0, 0, 0, self.label_width + 1 if self.label_width else 0)
        return note

    def _name_label(self) -> Label:
        field = self.node.field
        is_required = field.required and field.depth > 0 and bool(field.key)
        label = one_line(self.label, MAX_LABEL_WIDTH) + (" *" if is_required else "")
        name = Label(Content(label), classes="name -required" if is_required else "name")
        name.display = bool(self.label)
        if self.label_width:
            name.styles.width = self.label_width + 1
        return name


TYPING_PAUSE_S = 0.15
"""Seconds without typing before the server is asked for suggestions."""


class Suggestions(Suggester):
    """Suggestions of the server for one field. `on_suggestions` receives them for the latest text."""

    def __init__(
        self, name: str, source: SuggestionSource, on_suggestions: Callable[[Sequence[str]], None]
    ) -> None:
        super().__init__(use_cache=False, case_sensitive=True)
        self._name = name
        self._source = source
        self._on_suggestions = on_suggestions
        self._request_count = 0

    async def get_suggestion(self, value: str) -> str | None:
        """Return the first suggestion that begins with the text, or None if the text changes in the
        meantime.
        """
        values = await self.values(from_field(value), TYPING_PAUSE_S)
        typed_text = value.casefold()
        field_texts = (to_field(text) for text in values)
        return next(
            (text for text in field_texts if text.casefold().startswith(typed_text) and text != value), None
        )

    async def values(self, value: str, pause_s: float = 0.0) -> Sequence[str]:
        """Return all suggestions. Empty if another text was typed in the meantime."""
        self._request_count += 1
        request_number = self._request_count
        await asyncio.sleep(pause_s)
        values = await self._source(self._name, value) if request_number == self._request_count else ()
        if request_number != self._request_count:
            return ()
        self._on_suggestions(values)
        return values


_NUMBER_CHARACTERS = {FieldKind.INTEGER: r"[-+0-9]*", FieldKind.NUMBER: r"[-+0-9.eE]*"}
"""Regular expressions of the texts that can be typed in the fields of numbers."""
_PLACEHOLDERS = {FieldKind.SECRET: "", FieldKind.LONG_TEXT: "", FieldKind.JSON: "JSON value"}
"""Placeholders for the kinds of fields whose own name would not help the person."""
MAX_PREFIXED_EXAMPLE_LENGTH = 20
"""Maximum length in characters of an example that has the prefix `e.g.`."""


class TextPart(FormPart):
    """Text field. It has several lines if the schema suggests that or if the value has several lines.

    Tab moves the focus to the next field. The placeholder of an empty field shows an example, the limits or
    the kind of value.
    """

    DEFAULT_CSS = """
    TextPart Input { width: 1fr; background: $foreground 8%; padding: 0 1; }
    TextPart Input:focus { background: $primary 25%; }
    TextPart TextArea { width: 1fr; height: auto; max-height: 10; background: $foreground 8%; padding: 0 1; }
    TextPart TextArea:focus { background: $primary 15%; }
    """
    node: TextNode

    @dataclass
    class Suggested(Message):
        """The server suggests values for the focused field."""

        values: Sequence[str]

    def __init__(self, node: TextNode, name: str, width: int = 0) -> None:
        super().__init__(node, name, width)
        kind = node.field.kind
        self.control: LineField | TextField
        if kind in (FieldKind.LONG_TEXT, FieldKind.JSON) or "\n" in node.text:
            self.control = TextField(
                node.text,
                compact=True,
                soft_wrap=True,
                tab_behavior="focus",
                placeholder=self._placeholder(),
            )
        else:
            self.control = LineField(
                node.text,
                placeholder=self._placeholder(),
                password=kind is FieldKind.SECRET,
                restrict=_NUMBER_CHARACTERS.get(kind),
                compact=True,
            )

    def controls(self) -> Iterable[Widget]:
        return (self.control,)

    def suggest(self, source: SuggestionSource) -> None:
        """Show suggestions of `source` during typing."""
        if isinstance(self.control, LineField):
            self.control.suggester = Suggestions(self.node.field.key, source, self._on_suggestions)

    async def suggestions(self) -> Sequence[str]:
        """Return the suggestions for the current text."""
        suggester = self.control.suggester if isinstance(self.control, LineField) else None
        return await suggester.values(self.control.entered_text) if isinstance(suggester, Suggestions) else ()

    def on_descendant_focus(self) -> None:
        """Request suggestions before anything is typed."""
        if isinstance(self.control, LineField) and self.control.suggester is not None:
            self.run_worker(self.suggestions(), group="suggest", exclusive=True)

    def _on_suggestions(self, values: Sequence[str]) -> None:
        if self.control.has_focus:
            self.post_message(self.Suggested(values))

    @on(Input.Changed)
    @on(TextArea.Changed)
    def _typed(self, event: Input.Changed | TextArea.Changed) -> None:
        event.stop()
        text = self.control.entered_text
        if text != self.node.text:
            self.node.edit(text)
            self.report_edit()

    def _placeholder(self) -> str:
        field = self.node.field
        if self.node.is_null:
            return "null"
        # A long example has no prefix, because a long word after it would wrap to the next line, which is
        # hidden.
        example = (
            f"e.g. {field.example}"
            if 0 < len(field.example) <= MAX_PREFIXED_EXAMPLE_LENGTH
            else field.example
        )
        return one_line(example or limits(field.shape) or _PLACEHOLDERS.get(field.kind, field.kind.value), 60)


class ChoicePart(FormPart):
    """Choice of one value, or a switch."""

    node: ChoiceNode

    def controls(self) -> Iterable[Widget]:
        node = self.node
        null_index = next(
            (position for position, choice in enumerate(node.choices) if choice.value is None), None
        )
        labels = [choice.label for choice in node.choices]
        index = null_index if node.is_null else node.index
        return (ChoiceBox(labels, index, optional=not node.field.required),)

    @on(ChoiceBox.Picked)
    def _picked(self, event: ChoiceBox.Picked) -> None:
        event.stop()
        self.node.pick(event.index)
        self.report_edit()


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
        """Indexes of the ticked lines."""

    @property
    def row_count(self) -> int:
        return len(self._labels)

    def spans(self, index: int, width: int) -> Iterator[Span]:
        yield ("[x] " if index in self.ticked else "[ ] "), "lines--muted"
        yield self._labels[index], "lines--head" if index in self.ticked else ""

    def choose_row(self, index: int) -> None:
        self.ticked = self.ticked ^ {index}
        self.refresh()
        self.post_message(self.Ticked())

    def action_cursor(self, by: int) -> None:
        """Move the cursor. Beyond the first or last line, focus the neighbouring field."""
        if 0 <= self.cursor + by < self.row_count:
            super().action_cursor(by)
        elif by > 0:
            self.screen.focus_next()
        else:
            self.screen.focus_previous()


class MultiChoicePart(FormPart):
    """Choice of any number of values from a list."""

    node: MultiChoiceNode

    def controls(self) -> Iterable[Widget]:
        return (CheckList((choice.label for choice in self.node.choices), self.node.selected_indexes),)

    @on(CheckList.Ticked)
    def _ticked(self, event: CheckList.Ticked) -> None:
        event.stop()
        self.node.pick(self.query_one(CheckList).ticked)
        self.report_edit()


class ConstantPart(FormPart):
    """Constant, which is shown but cannot be edited."""

    node: ConstantNode

    def controls(self) -> Iterable[Widget]:
        return (Label(Content.styled(one_line(compact(self.node.value()), 60), "$text-muted")),)
