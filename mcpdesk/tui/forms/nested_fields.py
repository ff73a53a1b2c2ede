"""The fields of a form that hold fields: objects, lists, maps and unions."""

from __future__ import annotations

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
from mcpdesk.tui.forms.form_model import ListNode, MapNode, ObjectNode, UnionNode
from mcpdesk.tui.widgets.choice_box import Chip, ChoiceBox
from mcpdesk.tui.widgets.fields import LineField


class ObjectPart(FormPart):
    """The members of an object; an optional object is added and removed as a whole."""

    DEFAULT_CSS = """
    ObjectPart.-bare > .body { border: none; margin: 0; padding: 0; }
    ObjectPart.-bare > .row { display: none; }
    """
    node: ObjectNode

    def compose(self) -> ComposeResult:
        """Without a frame for the outermost object and for the chosen alternative of a union."""
        self.set_class(not self.label, "-bare")
        yield from super().compose()

    def controls(self) -> Iterator[Widget]:
        if not self.node.field.required:
            yield Chip("✕ unset", "present") if self.node.present else Chip("+ set", "present")

    def compose_body(self) -> Iterator[Widget]:
        if self.node.present and not self.node.is_null:
            yield from self.nested(iter(self.node.members.items()))
            if self.node.takes_others or self.node.others.entries:
                yield self.make(self.node.others, "other members")

    @on(Chip.Pressed, ".present")
    async def _toggle(self, event: Chip.Pressed) -> None:
        event.stop()
        self.node.set_present(not self.node.present)
        await self.rebuild()
        focus_first(self if self.node.present else None, self)


class GrowingPart(FormPart):
    """A field whose members are added and removed one by one."""

    node: ListNode | MapNode
    brackets: ClassVar[str]
    """Shown around the number of members."""
    add_tip: ClassVar[str]
    BINDINGS: ClassVar[list[BindingType]] = bindings_for("form")
    DEFAULT_CSS = """
    GrowingPart .member { height: auto; }
    GrowingPart .member > FormPart { width: 1fr; }
    GrowingPart .member > Input { width: 24; background: $foreground 8%; padding: 0 1; margin-right: 1; }
    GrowingPart .count { width: auto; color: $text-muted; padding-right: 1; }
    """

    def controls(self) -> Iterator[Widget]:
        count = len(list(self.node.children()))
        yield Label(Content(f"{self.brackets[0]}{count}{self.brackets[1]}"), classes="count")
        yield Chip("+ add", "add", self.add_tip)

    def member(self, *widgets: Widget) -> Horizontal:
        """A row with a member and its buttons."""
        remove = Chip("✕", "remove", "Remove (alt+x)", focusable=False)
        return Horizontal(*widgets, remove, classes="member")

    @property
    def members(self) -> list[Horizontal]:
        """The rows of the members, in order."""
        body = self.query_one_optional(".body")
        return [] if body is None else list(body.query_children(".member").results(Horizontal))

    def index_of(self, widget: Widget | None) -> int | None:
        """The index of the member that a widget belongs to."""
        above = set(widget.ancestors_with_self) if widget else set()
        return next((at for at, row in enumerate(self.members) if row in above), None)

    async def action_add_item(self) -> None:
        """Add a member and move the focus to it."""
        self.node.add()
        await self.rebuild()
        focus_first(self.members[-1], self)

    async def action_remove_item(self) -> None:
        """Remove the member with the focus."""
        await self._remove(self.index_of(self.screen.focused))

    @on(Chip.Pressed, ".add")
    async def _add_pressed(self, event: Chip.Pressed) -> None:
        event.stop()
        await self.action_add_item()

    @on(Chip.Pressed, ".remove")
    async def _remove_pressed(self, event: Chip.Pressed) -> None:
        event.stop()
        await self._remove(self.index_of(event.chip))

    async def _remove(self, index: int | None) -> None:
        if index is None:
            return
        self.node.remove(index)
        await self.rebuild()
        rows = self.members
        focus_first(rows[min(index, len(rows) - 1)] if rows else None, self)


class ListPart(GrowingPart):
    """The items of a list, which can be reordered."""

    node: ListNode
    brackets = "[]"
    add_tip = "Add an item (ctrl+n)"

    def compose_body(self) -> Iterator[Widget]:
        for part in self.nested(self.node.children()):
            up = Chip("↑", "up", "Move up (alt+up)", focusable=False)
            down = Chip("↓", "down", "Move down (alt+down)", focusable=False)
            yield self.member(part, up, down)

    async def action_move_item(self, by: int) -> None:
        """Move the item with the focus."""
        await self._move(self.index_of(self.screen.focused), by)

    @on(Chip.Pressed, ".up, .down")
    async def _move_pressed(self, event: Chip.Pressed) -> None:
        event.stop()
        await self._move(self.index_of(event.chip), -1 if event.chip.has_class("up") else 1)

    async def _move(self, index: int | None, by: int) -> None:
        if index is None:
            return
        target = self.node.move(index, by)
        await self.rebuild()
        focus_first(self.members[target], self)


class MapPart(GrowingPart):
    """Members under free names: each name beside its value."""

    node: MapNode
    brackets = "{}"
    add_tip = "Add a member (ctrl+n)"

    def compose_body(self) -> Iterator[Widget]:
        for entry in self.node.entries:
            name = LineField(
                entry.key, placeholder="name", compact=True, classes="key", select_on_focus=False
            )
            yield self.member(name, self.make(entry.node, ""))

    @on(Input.Changed, ".key")
    def _name_typed(self, event: Input.Changed) -> None:
        event.stop()
        index, name = self.index_of(event.input), from_field(event.value)
        if index is not None and self.node.entries[index].key != name:
            self.node.entries[index].key = name
            self.edited()


class UnionPart(FormPart):
    """One of several alternatives."""

    node: UnionNode

    def controls(self) -> Iterator[Widget]:
        titles = [field.title for field in self.node.alternatives]
        yield ChoiceBox(titles, self.node.at, optional=not self.node.field.required)

    def compose_body(self) -> Iterator[Widget]:
        if self.node.chosen is not None and not self.node.is_null:
            yield self.make(self.node.chosen, "")

    @on(ChoiceBox.Picked)
    async def _picked(self, event: ChoiceBox.Picked) -> None:
        event.stop()
        self.node.pick(event.index)
        await self.rebuild()
        self.query_one(ChoiceBox).focus()


def focus_first(widget: Widget | None, otherwise: Widget) -> None:
    """Move the focus to the first input inside `widget`, or inside `otherwise` when there is none."""
    for place in (widget, otherwise):
        controls = [found for found in place.query("*") if found.focusable] if place else []
        entered = [found for found in controls if not isinstance(found, Chip)]
        if controls:
            (entered or controls)[0].focus()
            return
