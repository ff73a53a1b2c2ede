"""Fields that hold fields: objects, lists, maps and unions."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input, Label

from mcpdesk.plain_text import from_field
from mcpdesk.tui.actions import bindings_for
from mcpdesk.tui.forms.field_widgets import FormPart
from mcpdesk.tui.forms.form_model import Entry, ListNode, MapNode, ObjectNode, UnionNode
from mcpdesk.tui.widgets.choice_box import Chip, ChoiceBox
from mcpdesk.tui.widgets.fields import LineField


class ObjectPart(FormPart):
    """Named members; an optional object is added and dropped as a whole."""

    DEFAULT_CSS = """
    ObjectPart.-bare > .body { border: none; margin: 0; padding: 0; }
    ObjectPart.-bare > .row { display: none; }
    """
    node: ObjectNode

    def compose(self) -> ComposeResult:
        """The outermost object, and the shape a union chose, have no frame of their own."""
        self.set_class(not self.label, "-bare")
        yield from super().compose()

    def controls(self) -> Iterator[Widget]:
        """Add or drop."""
        if not self.node.field.required:
            yield Chip("✕ unset", "present") if self.node.present else Chip("+ set", "present")

    def compose_body(self) -> Iterator[Widget]:
        """The members, then those without a field of their own."""
        if self.node.present and not self.node.is_null:
            yield from self.nested(iter(self.node.members.items()))
            if self.node.takes_others or self.node.others.entries:
                yield self.make(self.node.others, "other members")

    @on(Chip.Pressed, ".present")
    async def toggle(self, event: Chip.Pressed) -> None:
        """Add or drop the object."""
        event.stop()
        self.node.set_present(not self.node.present)
        await self.rebuild()
        focus_first(self if self.node.present else None, self)


class Growing(FormPart):
    """A part whose members are added and removed one by one."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_for("form")
    DEFAULT_CSS = """
    Growing .member { height: auto; }
    Growing .member > FormPart { width: 1fr; }
    Growing .member > Input { width: 24; background: $foreground 8%; padding: 0 1; margin-right: 1; }
    Growing .count { width: auto; color: $text-muted; padding-right: 1; }
    """

    def member(self, index: int, *widgets: Widget) -> Horizontal:
        """A row: the member and its small buttons."""
        tools = [Chip("✕", "remove", "Remove (alt+x)", focusable=False)]
        return Horizontal(*widgets, *tools, classes="member")

    @property
    def members(self) -> list[Horizontal]:
        """The rows, in order."""
        return (
            list(self.query_one(".body").query_children(".member").results(Horizontal))
            if self.has_body
            else []
        )

    @property
    def has_body(self) -> bool:
        """Whether there is any member."""
        return self.query_one_optional(".body") is not None

    def index_of(self, widget: Widget | None) -> int | None:
        """Which member a widget belongs to."""
        above = set(widget.ancestors_with_self) if widget else set()
        return next((at for at, row in enumerate(self.members) if row in above), None)

    @abstractmethod
    def append(self) -> None:
        """Add a member to the node."""

    @abstractmethod
    def drop(self, index: int) -> None:
        """Remove a member from the node."""

    async def action_add_item(self) -> None:
        """Add a member and go there."""
        self.append()
        await self.rebuild()
        focus_first(self.members[-1], self)

    async def action_remove_item(self) -> None:
        """Remove the member that has the focus."""
        await self._remove(self.index_of(self.screen.focused))

    @on(Chip.Pressed, ".add")
    async def add_pressed(self, event: Chip.Pressed) -> None:
        """The add button."""
        event.stop()
        await self.action_add_item()

    @on(Chip.Pressed, ".remove")
    async def remove_pressed(self, event: Chip.Pressed) -> None:
        """A member's remove button."""
        event.stop()
        await self._remove(self.index_of(event.chip))

    async def _remove(self, index: int | None) -> None:
        if index is None:
            return
        self.drop(index)
        await self.rebuild()
        rows = self.members
        focus_first(rows[min(index, len(rows) - 1)] if rows else None, self)


class ListPart(Growing):
    """Items that can be reordered."""

    node: ListNode

    def controls(self) -> Iterator[Widget]:
        """How many there are, and one more."""
        yield Label(Content(f"[{len(self.node.items)}]"), classes="count")
        yield Chip("+ add", "add", "Add an item (ctrl+n)")

    def compose_body(self) -> Iterator[Widget]:
        """The items."""
        for index, part in enumerate(self.nested(self.node.children())):
            up = Chip("↑", "up", "Move up (alt+up)", focusable=False)
            down = Chip("↓", "down", "Move down (alt+down)", focusable=False)
            yield self.member(index, part, up, down)

    def append(self) -> None:
        """Add an item to the node."""
        self.node.add()

    def drop(self, index: int) -> None:
        """Remove an item from the node."""
        self.node.remove(index)

    async def action_move_item(self, by: int) -> None:
        """Move the item that has the focus."""
        await self._move(self.index_of(self.screen.focused), by)

    @on(Chip.Pressed, ".up")
    async def up_pressed(self, event: Chip.Pressed) -> None:
        """An item's button."""
        event.stop()
        await self._move(self.index_of(event.chip), -1)

    @on(Chip.Pressed, ".down")
    async def down_pressed(self, event: Chip.Pressed) -> None:
        """An item's button."""
        event.stop()
        await self._move(self.index_of(event.chip), 1)

    async def _move(self, index: int | None, by: int) -> None:
        if index is None:
            return
        target = self.node.move(index, by)
        await self.rebuild()
        focus_first(self.members[target], self)


class MapPart(Growing):
    """Members under names of the person's choice."""

    node: MapNode

    def controls(self) -> Iterator[Widget]:
        """How many there are, and one more."""
        yield Label(Content(f"{{{len(self.node.entries)}}}"), classes="count")
        yield Chip("+ add", "add", "Add a member (ctrl+n)")

    def compose_body(self) -> Iterator[Widget]:
        """Names beside values."""
        for index, entry in enumerate(self.node.entries):
            name = LineField(
                entry.key, placeholder="name", compact=True, classes="key", select_on_focus=False
            )
            yield self.member(index, name, self.make(entry.node, ""))

    def append(self) -> None:
        """Add a member to the node."""
        self.node.add()

    def drop(self, index: int) -> None:
        """Remove a member from the node."""
        self.node.remove(index)

    @on(Input.Changed, ".key")
    def rename(self, event: Input.Changed) -> None:
        """Hold the name that was typed."""
        event.stop()
        entry, name = self._entry(event.input), from_field(event.value)
        if entry is not None and entry.key != name:
            entry.key = name
            self.edited()

    def _entry(self, widget: Widget) -> Entry | None:
        index = self.index_of(widget)
        return None if index is None else self.node.entries[index]


class UnionPart(FormPart):
    """One of several shapes."""

    node: UnionNode

    def controls(self) -> Iterator[Widget]:
        """The shapes by title."""
        titles = [field.title for field in self.node.alternatives]
        yield ChoiceBox(titles, self.node.at, optional=not self.node.field.required)

    def compose_body(self) -> Iterator[Widget]:
        """The chosen shape."""
        if self.node.chosen is not None and not self.node.is_null:
            yield self.make(self.node.chosen, "")

    @on(ChoiceBox.Picked)
    async def take(self, event: ChoiceBox.Picked) -> None:
        """Show the shape that was picked."""
        event.stop()
        self.node.pick(event.index)
        await self.rebuild()
        self.query_one(ChoiceBox).focus()


def focus_first(widget: Widget | None, otherwise: Widget) -> None:
    """Focus the first control inside `widget` that takes input, else one of `otherwise`."""
    for place in (widget, otherwise):
        controls = [found for found in place.query("*") if found.focusable] if place else []
        entered = [found for found in controls if not isinstance(found, Chip)]
        if controls:
            (entered or controls)[0].focus()
            return
