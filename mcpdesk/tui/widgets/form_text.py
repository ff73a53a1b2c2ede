"""Fields that are typed: text, secrets, dates, numbers, long text and JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from textual import on
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, TextArea

from mcpdesk.tui.render.form_field import Kind
from mcpdesk.tui.render.form_node import TextNode
from mcpdesk.tui.render.text import one_line
from mcpdesk.tui.requests import Ask
from mcpdesk.tui.widgets.fields import LineField, TextField
from mcpdesk.tui.widgets.form_part import FormPart
from mcpdesk.tui.widgets.suggestions import Suggestions

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
