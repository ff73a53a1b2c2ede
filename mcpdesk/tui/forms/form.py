"""Form that edits a node: nested fields, their failures, and the keys that move between fields."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from textual import on, work
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.events import DescendantBlur, DescendantFocus
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Label

from mcpdesk.link.values import SchemaFailure
from mcpdesk.plain_text import from_field
from mcpdesk.tui.actions import bindings_for
from mcpdesk.tui.forms.field_widgets import (
    MAX_LABEL_WIDTH,
    ChoicePart,
    ConstantPart,
    FormPart,
    MultiChoicePart,
    SuggestionSource,
    TextPart,
)
from mcpdesk.tui.forms.form_model import (
    CollectionNode,
    ListNode,
    MapNode,
    Node,
    ObjectNode,
    TextNode,
    UnionNode,
    walk,
)
from mcpdesk.tui.forms.schema_fields import FieldKind
from mcpdesk.tui.render.json_text import Path, path_text
from mcpdesk.tui.render.safe_text import one_line
from mcpdesk.tui.widgets.choice_box import Chip, ChoiceBox
from mcpdesk.tui.widgets.fields import LineField
from mcpdesk.tui.widgets.first_size import WithFirstResize
from mcpdesk.tui.widgets.menu import Choice, Menu


class NestedPart(FormPart):
    """Field that contains fields."""

    def nested(self, nodes: Iterable[tuple[str | int, Node]]) -> list[FormPart]:
        """Return parts for nested nodes, with aligned labels."""
        children = [(str(key), node) for key, node in nodes]
        width = min(MAX_LABEL_WIDTH, max((len(key) + 2 for key, _ in children), default=0))
        return [part_for(node, key, width) for key, node in children]

    async def rebuild(self) -> None:
        """Compose the part again after nested nodes were added or removed."""
        await self.recompose()
        self.report_edit()


class ObjectPart(NestedPart):
    """Members of an object. An optional object is added and removed as a whole.

    The outermost object and the selected alternative of a union have neither label nor frame.
    """

    DEFAULT_CSS = """
    ObjectPart.-bare > .body { border: none; margin: 0; padding: 0; }
    ObjectPart.-bare > .row { display: none; }
    """
    node: ObjectNode

    def controls(self) -> Iterator[Widget]:
        if not self.node.field.required:
            yield Chip("✕ unset" if self.node.is_present else "+ set", "present")

    def compose_body(self) -> Iterator[Widget]:
        if self.node.is_present and not self.node.is_null:
            labels = self.node.labels
            yield from self.nested((labels.get(key, key), node) for key, node in self.node.members.items())
            if self.node.field.allows_other_members or self.node.others.entries:
                yield part_for(self.node.others, "other members")

    @on(Chip.Pressed, ".present")
    async def _toggle(self, event: Chip.Pressed) -> None:
        event.stop()
        self.node.set_present(not self.node.is_present)
        await self.rebuild()
        focus_first(self if self.node.is_present else None, self)


class CollectionPart(NestedPart):
    """Field whose members are added and removed individually."""

    node: CollectionNode
    brackets: ClassVar[str]
    """Brackets around the number of members."""
    BINDINGS: ClassVar[list[BindingType]] = bindings_for("form")
    DEFAULT_CSS = """
    CollectionPart .member { height: auto; }
    CollectionPart .member > FormPart { width: 1fr; }
    CollectionPart .member > Input { width: 24; background: $foreground 8%; padding: 0 1; margin-right: 1; }
    CollectionPart .count { width: auto; color: $text-muted; padding-right: 1; }
    """

    def controls(self) -> Iterator[Widget]:
        count = f"{self.brackets[0]}{len(self.node.entries)}{self.brackets[1]}"
        yield Label(Content(count), classes="count")
        yield Chip("+ add", "add", "Add one (ctrl+n)")

    def row(self, *widgets: Widget) -> Horizontal:
        """Return a row with a member and its buttons."""
        remove_chip = Chip("✕", "remove", "Remove (alt+x)", focusable=False)
        return Horizontal(*widgets, remove_chip, classes="member")

    @property
    def rows(self) -> list[Horizontal]:
        """Rows of the members, in order."""
        body = self.query_one_optional(".body")
        return [] if body is None else list(body.query_children(".member").results(Horizontal))

    def index_of(self, widget: Widget | None) -> int | None:
        """Return the index of the member that contains a widget, or None."""
        ancestors = set(widget.ancestors_with_self) if widget else set()
        return next((index for index, row in enumerate(self.rows) if row in ancestors), None)

    async def rebuild_at(self, index: int) -> None:
        """Compose the part again, and focus this member or the last one."""
        await self.rebuild()
        rows = self.rows
        focus_first(rows[min(index, len(rows) - 1)] if rows else None, self)

    async def action_add_item(self) -> None:
        """Add a member and focus it."""
        self.node.add()
        await self.rebuild_at(len(self.node.entries))

    async def action_remove_item(self) -> None:
        """Remove the focused member."""
        await self._remove(self.screen.focused)

    @on(Chip.Pressed, ".add")
    async def _add_pressed(self, event: Chip.Pressed) -> None:
        event.stop()
        await self.action_add_item()

    @on(Chip.Pressed, ".remove")
    async def _remove_pressed(self, event: Chip.Pressed) -> None:
        event.stop()
        await self._remove(event.chip)

    async def _remove(self, widget: Widget | None) -> None:
        """Remove the member that contains a widget."""
        index = self.index_of(widget)
        if index is not None:
            self.node.remove(index)
            await self.rebuild_at(index)


class ListPart(CollectionPart):
    """Items of a list, which can be reordered."""

    node: ListNode
    brackets = "[]"

    def compose_body(self) -> Iterator[Widget]:
        for part in self.nested(self.node.children()):
            up_chip = Chip("↑", "up", "Move up (alt+up)", focusable=False)
            down_chip = Chip("↓", "down", "Move down (alt+down)", focusable=False)
            yield self.row(part, up_chip, down_chip)

    async def action_move_item(self, by: int) -> None:
        """Move the focused item."""
        await self._move(self.screen.focused, by)

    @on(Chip.Pressed, ".up, .down")
    async def _move_pressed(self, event: Chip.Pressed) -> None:
        event.stop()
        await self._move(event.chip, -1 if event.chip.has_class("up") else 1)

    async def _move(self, widget: Widget | None, by: int) -> None:
        """Move the item that contains a widget."""
        index = self.index_of(widget)
        if index is not None:
            await self.rebuild_at(self.node.move(index, by))


class MapPart(CollectionPart):
    """Members with free names: each name beside its value."""

    node: MapNode
    brackets = "{}"

    def compose_body(self) -> Iterator[Widget]:
        for entry in self.node.entries:
            name = LineField(
                entry.key, placeholder="name", compact=True, classes="key", select_on_focus=False
            )
            yield self.row(name, part_for(entry.node, ""))

    @on(Input.Changed, ".key")
    def _name_typed(self, event: Input.Changed) -> None:
        event.stop()
        index, name = self.index_of(event.input), from_field(event.value)
        if index is not None and self.node.entries[index].key != name:
            self.node.entries[index].key = name
            self.report_edit()


class UnionPart(NestedPart):
    """One of several alternatives."""

    node: UnionNode

    def controls(self) -> Iterator[Widget]:
        titles = [field.title for field in self.node.alternatives]
        yield ChoiceBox(titles, self.node.selected_index, optional=not self.node.field.required)

    def compose_body(self) -> Iterator[Widget]:
        if self.node.selected_node is not None and not self.node.is_null:
            yield part_for(self.node.selected_node, "")

    @on(ChoiceBox.Picked)
    async def _picked(self, event: ChoiceBox.Picked) -> None:
        event.stop()
        self.node.pick(event.index)
        await self.rebuild()
        self.query_one(ChoiceBox).focus()


_PARTS: dict[FieldKind, type[FormPart]] = {
    FieldKind.SWITCH: ChoicePart,
    FieldKind.CHOICE: ChoicePart,
    FieldKind.MULTI_CHOICE: MultiChoicePart,
    FieldKind.CONSTANT: ConstantPart,
    FieldKind.OBJECT: ObjectPart,
    FieldKind.LIST: ListPart,
    FieldKind.MAP: MapPart,
    FieldKind.UNION: UnionPart,
}
"""Widgets of all kinds except texts."""


def part_for(node: Node, name: str, width: int = 0) -> FormPart:
    """Return the widget that edits a node.

    `width` is the width of its label in cells. If 0, the label is as wide as its text.
    """
    if isinstance(node, TextNode):
        return TextPart(node, name, width)
    return _PARTS[node.field.kind](node, name, width)


def focus_first(widget: Widget | None, fallback: Widget) -> bool:
    """Focus the first input inside `widget`, or inside `fallback` if `widget` has no input.

    Return False if both have no input.
    """
    for candidate in (widget, fallback):
        controls = [child for child in candidate.query("*") if child.focusable] if candidate else []
        inputs = [child for child in controls if not isinstance(child, Chip)]
        if controls:
            (inputs or controls)[0].focus()
            return True
    return False


class Form(VerticalScroll, WithFirstResize, can_focus=False):
    """Form that edits a node.

    A field shows its failure after it was edited. All fields show their failures after `show_failures` was
    called with `show_all`.
    """

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
    class HintChanged(Message):
        """The focus moved to a field with this hint."""

        text: str

    @dataclass
    class PositionChanged(Message):
        """The position to show has changed, because the focus moved or the form was resized."""

        text: str
        """Position such as `19 of 60`. Without a focused field, `60 fields`. Empty if all fields are
        visible."""

    def __init__(self, node: Node | None = None, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.node = node
        self._max_rows_with_hints: int | None = None
        """Rows in which all hints must fit to be shown, or None to use the height of the form."""
        self._position = ""
        self._show_all = False
        self._load_lock = asyncio.Lock()

    @property
    def has_fields(self) -> bool:
        """True if there is anything to enter."""
        node = self.node
        if isinstance(node, ObjectNode):
            return node.field.allows_other_members or bool(node.children())
        return node is not None

    def compose(self) -> Iterable[FormPart | Label]:
        if self.node is not None and self.has_fields:
            yield part_for(self.node, "")
        else:
            yield Label(Content("No arguments."), classes="empty")

    async def load(self, node: Node, source: SuggestionSource | None = None) -> None:
        """Edit another node. `source` returns suggestions of the server for text fields.

        Loading is shielded from cancellation: Textual would close the screen if it were cancelled while
        fields are removed.
        """
        await asyncio.shield(self._load(node, source))

    async def _load(self, node: Node, source: SuggestionSource | None) -> None:
        async with self._load_lock:
            await self.remove_children()
            self.node, self._show_all = node, False
            self._fit()
            await self.mount_all(self.compose())
            self.call_after_refresh(self._report_position)
            if source is not None:
                for part in self.query(TextPart):
                    part.suggest(source)

    def focus_first(self) -> bool:
        """Focus the first field. Return False if the form has no fields."""
        return focus_first(self, self)

    @work(exclusive=True, group="suggest")
    async def action_suggest(self) -> None:
        """Choose a suggestion of the server for the focused field."""
        part = next((field for field in self.query(TextPart) if field.has_focus_within), None)
        values = await part.suggestions() if part is not None else ()
        if part is None or not values:
            self.notify("The server has no suggestions for this field.", markup=False)
            return
        choices = [Choice(one_line(value, 60), value) for value in values]
        menu = Menu(f"Suggestions for {one_line(part.label, 30)}", choices, filtered=True)
        suggestion = await self.app.push_screen_wait(menu)
        if suggestion is not None and isinstance(part.control, LineField):
            part.control.entered_text = suggestion

    @work(exclusive=True, group="find")
    async def action_find_field(self) -> None:
        """Choose a field by its name, and focus it."""
        fields = self._fields
        if not fields:
            self.notify("The form has no fields.", markup=False)
            return
        choices = [Choice(_path_of(part), part, one_line(part.hint, 60)) for part in fields]
        selected_part = await self.app.push_screen_wait(Menu("Find a field", choices, filtered=True))
        if selected_part is not None and selected_part.is_attached:
            focus_first(selected_part, self)

    @property
    def _fields(self) -> list[FormPart]:
        """Fields that contain no other fields, from top to bottom."""
        return [part for part in self.query(FormPart) if not isinstance(part, NestedPart)]

    def problems(self) -> list[SchemaFailure]:
        """Return a failure for each text that is not a valid value, such as invalid JSON."""
        nodes = walk(self.node) if self.node else ()
        return [SchemaFailure(path, node.problem) for path, node in nodes if node.problem]

    def show_failures(self, failures: Iterable[SchemaFailure], show_all: bool = False) -> None:
        """Show each failure at its field."""
        self._show_all = self._show_all or show_all
        parts = {id(part.node): part for part in self.query(FormPart)}
        parts_by_path: dict[Path, FormPart] = {}
        for path, node in walk(self.node) if self.node else ():
            if id(node) in parts:
                parts_by_path.setdefault(path, parts[id(node)])
        messages: dict[FormPart, str] = {}
        for failure in failures:
            path, message = _failure_position(failure, parts_by_path)
            if path in parts_by_path:
                messages.setdefault(parts_by_path[path], message)
        for part in parts.values():
            part.fail(messages.get(part, "") if self._show_all or part.is_touched else "")

    def focus_failure(self) -> None:
        """Focus the first field with a failure."""
        failed_part = next(iter(self.query("FormPart.-failed")), None)
        if failed_part is not None:
            focus_first(failed_part, self)

    @on(FormPart.Edited)
    def _edited(self, event: FormPart.Edited) -> None:
        event.stop()
        self.post_message(self.Changed())

    @on(Input.Submitted)
    def _next_field(self, event: Input.Submitted) -> None:
        """Focus the next field on enter. In the last field, submit the form."""
        event.stop()
        own_widgets = [widget for widget in self.screen.focus_chain if self in widget.ancestors]
        if own_widgets and own_widgets[-1] is event.input:
            self.post_message(self.Submitted())
        else:
            self.screen.focus_next()

    def on_descendant_focus(self, event: DescendantFocus) -> None:
        part = next(
            (ancestor for ancestor in event.widget.ancestors_with_self if isinstance(ancestor, FormPart)),
            None,
        )
        if part is not None:
            self.post_message(self.HintChanged(part.hint))

    @on(DescendantFocus)
    @on(DescendantBlur)
    def _focus_moved(self) -> None:
        self.call_after_refresh(self._report_position)

    def on_resize(self) -> None:
        self._fit()
        self.call_after_refresh(self._report_position)

    def fit_into(self, max_rows: int | None, max_rows_with_hints: int | None = None) -> None:
        """Set the height to the height of the fields, but at most `max_rows`. If None, the parent sets the
        height.

        All hints are shown if the fields and hints fit in `max_rows_with_hints`, by default `max_rows`.
        """
        self.styles.max_height = max_rows
        self._max_rows_with_hints = max_rows if max_rows_with_hints is None else max_rows_with_hints
        self._fit()

    def _fit(self) -> None:
        """Show a hint below every field if all of them fit."""
        node_count = len(list(walk(self.node))) if self.node else 0
        max_rows = self.size.height if self._max_rows_with_hints is None else self._max_rows_with_hints
        self.set_class(0 < 2 * node_count <= max_rows, "-roomy")

    def _report_position(self) -> None:
        """Report the position of the focused field if not all fields are visible."""
        if not self.is_attached:
            return
        focused = self.screen.focused
        ancestors = set(focused.ancestors) if focused is not None else set()
        fields = self._fields
        focused_number = next((number for number, part in enumerate(fields, 1) if part in ancestors), 0)
        text = ""
        if self.max_scroll_y:
            text = f"{focused_number} of {len(fields)}" if focused_number else f"{len(fields)} fields"
        if text != self._position:
            self._position = text
            self.post_message(self.PositionChanged(text))


def _path_of(part: FormPart) -> str:
    """Return the labels of a field and of the fields around it, such as `address / city`."""
    labelled_parts = [
        ancestor for ancestor in part.ancestors_with_self if isinstance(ancestor, FormPart) and ancestor.label
    ]
    return " / ".join(one_line(ancestor.label, 40) for ancestor in reversed(labelled_parts)) or "value"


def _failure_position(failure: SchemaFailure, parts_by_path: dict[Path, FormPart]) -> tuple[Path, str]:
    """Return the path of the field that shows a failure, and the message.

    If a required member is missing, this is its field. Otherwise it is the field of the value or of the
    nearest value around it.
    """
    if "required" in failure.message:
        for name in failure.message.split('"')[1::2]:
            if (*failure.path, name) in parts_by_path:
                return (*failure.path, name), "required"
    path = failure.path
    while path not in parts_by_path and path:
        path = path[:-1]
    inner_path = failure.path[len(path) :]
    return path, f"{path_text(inner_path)}: {failure.message}" if inner_path else one_line(failure.message)
