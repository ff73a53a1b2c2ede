"""Fields that are picked: switches, one of a few, several of a few, and the one that is fixed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Label

from mcpdesk.tui.render.form_node import ChoiceNode, FixedNode, ManyNode
from mcpdesk.tui.render.json_text import compact
from mcpdesk.tui.render.text import one_line
from mcpdesk.tui.widgets.choice_box import ChoiceBox
from mcpdesk.tui.widgets.form_part import FormPart
from mcpdesk.tui.widgets.line_list import LineList, Span


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
