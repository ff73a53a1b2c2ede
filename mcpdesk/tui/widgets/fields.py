"""The text fields of the screen, and a pane that is filtered by one. All text is edited in these fields.

A field may contain text of strangers: a default, an argument of a client, a suggestion, a paste. It shows
control characters as stand-ins of one cell, so that cursor, width and drawing agree. `true_text` is the text
with its real characters; nothing is lost.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable
from typing import Any

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input, TextArea
from textual.widgets.text_area import Edit, EditResult

from mcpdesk.plain_text import from_field, stand_ins, to_field


class LineField(Input):
    """A field of one line. `value` is the text as shown, `true_text` the real text."""

    def __init__(self, text: str = "", **options: Any) -> None:
        super().__init__(to_field(text), **options)

    def validate_value(self, value: str) -> str:
        """Replace control characters by stand-ins; Textual calls this whenever the value is set."""
        return stand_ins(value)

    @property
    def true_text(self) -> str:
        """The text that was entered, with its control characters."""
        return from_field(self.value)

    @true_text.setter
    def true_text(self, text: str) -> None:
        self.value = to_field(text)


class TextField(TextArea):
    """A field of several lines. `text` is the text as shown, `true_text` the real text."""

    def __init__(self, text: str = "", **options: Any) -> None:
        super().__init__(to_field(text, lines=True), **options)

    @property
    def true_text(self) -> str:
        """The text that was entered, with its control characters."""
        return from_field(self.text)

    def load_text(self, text: str) -> None:
        """Edit another text."""
        super().load_text(to_field(text, lines=True))

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw the lines; blank ones while the styles are missing, which Textual treats as an error."""
        try:
            self.get_component_styles("text-area--gutter")
        except KeyError:
            return [Strip.blank(crop.width)] * crop.height
        return super().render_lines(crop)

    def edit(self, edit: Edit) -> EditResult:
        """Change the text; Textual calls this for what is typed, pasted and inserted."""
        edit.text = stand_ins(edit.text, lines=True)
        return super().edit(edit)


def has_words(words: Collection[str], texts: Iterable[str]) -> bool:
    """Whether these texts of a row together contain all `words`, which are in lower case."""
    whole = " ".join(texts).lower() if words else ""
    return all(word in whole for word in words)


class FilterPane(Vertical):
    """A pane with a list and, above it, a field for words that its rows must contain. Hidden while unused."""

    DEFAULT_CSS = """
    FilterPane > LineField { display: none; border: none; height: 1; padding: 0 1; background: $panel; }
    FilterPane > LineField:focus { border: none; }
    FilterPane.-filtering > LineField { display: block; }
    """

    def __init__(self, placeholder: str) -> None:
        super().__init__()
        self.filter_field = LineField(placeholder=placeholder, compact=True)
        self.words: tuple[str, ...] = ()
        """Words that a row must contain to be shown, in lower case."""

    @property
    @abstractmethod
    def listing(self) -> Widget:
        """The list."""

    @abstractmethod
    def apply_filter(self) -> None:
        """Show only the rows with `words`."""

    def compose(self) -> ComposeResult:
        yield self.filter_field

    def action_filter(self) -> None:
        """Go to the field."""
        self.add_class("-filtering")
        self.filter_field.focus()

    def close_filter(self) -> None:
        """Show all rows, and hide the field."""
        self.remove_class("-filtering")
        self.filter_field.value = ""

    @on(Input.Changed)
    def _filter_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.words = tuple(event.value.lower().split())
        self.apply_filter()

    @on(Input.Submitted)
    def _filter_submitted(self, event: Input.Submitted) -> None:
        """Go back to the list; an empty filter is hidden."""
        event.stop()
        self.set_class(bool(self.words), "-filtering")
        self.listing.focus()
