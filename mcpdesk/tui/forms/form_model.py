"""State of a form: one node per field, with nested nodes for objects, lists and unions.

A node without a value has the value `UNSET` and is left out of the value of its parent. This module depends
on no widget.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

from mcpdesk.plain_text import json_escaped
from mcpdesk.protocol.catalogue.schema_shapes import Schema
from mcpdesk.tui.forms.schema_fields import UNSET, FieldChoice, FieldKind, FormField, form_for
from mcpdesk.tui.render.json_text import Path, json_problem, pretty, same

MAX_PREFILLED_ITEMS = 5
"""Maximum number of items that a required list begins with."""


class Node(ABC):
    """State of one field."""

    def __init__(self, field: FormField) -> None:
        self.field = field
        self.reset()

    def reset(self) -> None:
        """Return to the default, or to no value if there is none.

        An optional field whose default is null starts with no value: it is shown as empty and is not sent.
        """
        self.unset()
        default = self.field.default
        if default is not UNSET and (default is not None or self.field.required):
            self.put(default)

    def unset(self) -> None:
        """Remove the value, also a default."""
        self.is_null = False
        self._empty()

    def value(self) -> Any:
        """Return the value of the node, or `UNSET`."""
        return None if self.is_null else self._value()

    def put(self, value: Any) -> None:
        """Set a value. Parts of it that do not fit the field are left out."""
        self.is_null = value is None and self.field.nullable
        if not self.is_null:
            self._put(value)

    @property
    def problem(self) -> str:
        """Reason why the typed text is not a valid value, or "" if the text is valid."""
        return ""

    def children(self) -> Iterable[tuple[str | int, Node]]:
        """Return nodes inside this one, by key or index."""
        return ()

    @abstractmethod
    def _empty(self) -> None: ...

    @abstractmethod
    def _value(self) -> Any: ...

    @abstractmethod
    def _put(self, value: Any) -> None: ...


class TextNode(Node):
    """Text. An empty text of an optional field means no value. A required field has no value until it is
    edited.
    """

    text: str
    has_value: bool

    def edit(self, text: str) -> None:
        """Set the typed text."""
        self.text, self.is_null = text, False
        self.has_value = bool(text) or self.field.required

    def _empty(self) -> None:
        self.text, self.has_value = "", False

    def _value(self) -> Any:
        return self.text if self.has_value else UNSET

    def _put(self, value: Any) -> None:
        if value is None:  # a field that is not nullable cannot send null
            self._empty()
            return
        self.text, self.has_value = value if isinstance(value, str) else pretty(value), True


class NumberNode(TextNode):
    """Number as typed. If the text is not a number, the value is the text, so that the validator reports
    it.
    """

    def _value(self) -> Any:
        text = self.text.strip()
        for convert in (int, float):
            try:
                number = convert(text)
            except ValueError:
                continue
            return number if isinstance(number, int) or math.isfinite(number) else text
        return text or UNSET


class JsonNode(TextNode):
    """Any value, as JSON text."""

    def _value(self) -> Any:
        if not self.text.strip() or self.problem:
            return UNSET
        return json.loads(self.text)

    def _put(self, value: Any) -> None:
        self.text, self.has_value = json_escaped(pretty(value)), True

    @property
    def problem(self) -> str:
        """Location of the JSON syntax error, or "" if the text is valid."""
        return json_problem(self.text) if self.text.strip() else ""


class OptionsNode(Node):
    """One or several of a few values."""

    @cached_property
    def choices(self) -> tuple[FieldChoice, ...]:
        """Values that can be selected."""
        return self.field.choices

    def _index(self, value: Any) -> int | None:
        return next((index for index, choice in enumerate(self.choices) if same(choice.value, value)), None)


class ChoiceNode(OptionsNode):
    """One of a few values."""

    index: int | None

    def pick(self, index: int | None) -> None:
        """Select a value, or none."""
        self.index, self.is_null = index, False

    def _empty(self) -> None:
        self.index = None

    def _value(self) -> Any:
        return UNSET if self.index is None else self.choices[self.index].value

    def _put(self, value: Any) -> None:
        self.index = self._index(value)


class MultiChoiceNode(OptionsNode):
    """Several of a few values, in the order of the choices."""

    selected_indexes: frozenset[int]

    def pick(self, selected_indexes: frozenset[int]) -> None:
        """Select these values."""
        self.selected_indexes, self.is_null = selected_indexes, False

    def _empty(self) -> None:
        self.selected_indexes = frozenset()

    def _value(self) -> Any:
        values = [choice.value for index, choice in enumerate(self.choices) if index in self.selected_indexes]
        return values if values or self.field.required else UNSET

    def _put(self, value: Any) -> None:
        indexes = (self._index(item) for item in value) if isinstance(value, list) else ()
        self.selected_indexes = frozenset(index for index in indexes if index is not None)


class ConstantNode(Node):
    """Constant of a `const` schema."""

    def _empty(self) -> None:
        pass

    def _value(self) -> Any:
        return self.field.shape["const"]

    def _put(self, value: Any) -> None:
        pass


@dataclass(slots=True)
class Entry:
    """Member of a list or map. `key` is the name that the person typed. In a list, `key` is empty."""

    key: str
    node: Node


class CollectionNode(Node):
    """Members of one kind, which are added and removed individually."""

    entries: list[Entry]
    has_value: bool
    """True if members were added or a value was set. If False, an optional field without members has no
    value."""

    @abstractmethod
    def member(self) -> FormField:
        """Return the field of each member."""

    def add(self, key: str = "") -> Node:
        """Append a member, and return its node."""
        node = node_for(self.member())
        self.entries.append(Entry(key, node))
        self.has_value, self.is_null = True, False
        return node

    def remove(self, index: int) -> None:
        """Remove a member. An optional field whose last member is removed has no value."""
        del self.entries[index]
        self.has_value = bool(self.entries)

    def _empty(self) -> None:
        self.entries, self.has_value = [], False

    @property
    def _is_omitted(self) -> bool:
        return not (self.entries or self.has_value or self.field.required)


class ListNode(CollectionNode):
    """Items of a list."""

    def member(self) -> FormField:
        """Return the field of each item."""
        return self.field.item()

    def move(self, index: int, offset: int) -> int:
        """Move an item, and return its new index."""
        target = max(0, min(len(self.entries) - 1, index + offset))
        self.entries.insert(target, self.entries.pop(index))
        return target

    def children(self) -> Iterable[tuple[str | int, Node]]:
        """Return items by index."""
        return enumerate(entry.node for entry in self.entries)

    def _empty(self) -> None:
        super()._empty()
        if self.field.required:
            for _ in range(min(self.field.shape.get("minItems", 0), MAX_PREFILLED_ITEMS)):
                self.add()

    def _value(self) -> Any:
        if self._is_omitted:
            return UNSET
        return [value for entry in self.entries if (value := entry.node.value()) is not UNSET]

    def _put(self, value: Any) -> None:
        self.entries, self.has_value = [], True
        for item in value if isinstance(value, list) else ():
            self.add().put(item)


class MapNode(CollectionNode):
    """Members with free names. Members without a name are left out of the value."""

    def member(self) -> FormField:
        """Return the field of each member."""
        return self.field.entry()

    def children(self) -> Iterable[tuple[str | int, Node]]:
        """Return values by name."""
        return ((entry.key, entry.node) for entry in self.entries)

    def _value(self) -> Any:
        if self._is_omitted:
            return UNSET
        pairs = ((entry.key, entry.node.value()) for entry in self.entries if entry.key)
        return {key: item for key, item in pairs if item is not UNSET}

    def _put(self, value: Any) -> None:
        self.entries, self.has_value = [], True
        for key, item in value.items() if isinstance(value, dict) else ():
            self.add(key).put(item)


class ObjectNode(Node):
    """Members of the schema, and others if the schema allows them. An optional object is initially absent."""

    is_present: bool
    members: dict[str, Node]
    """Members that the schema names."""
    others: MapNode
    """All other members."""
    labels: Mapping[str, str] = MappingProxyType({})
    """Key -> label, for members that are shown under another name."""

    def set_present(self, is_present: bool) -> None:
        """Add or remove the whole object."""
        self.is_present, self.is_null = is_present, False
        if is_present and not self.members:
            self.members = {field.key: node_for(field) for field in self.field.properties()}

    def children(self) -> Iterable[tuple[str | int, Node]]:
        """Return members by name."""
        if not self.is_present or self.is_null:
            return ()
        return (*self.members.items(), *self.others.children())

    def _empty(self) -> None:
        field = self.field
        shape = {"additionalProperties": field.shape.get("additionalProperties")}
        self.others = MapNode(FormField(FieldKind.MAP, "", shape, field.root, False, False, field.depth))
        self.members, self.is_present = {}, False
        if field.required:
            self.set_present(True)

    def _value(self) -> Any:
        if not self.is_present:
            return UNSET
        named_members = {
            key: value for key, node in self.members.items() if (value := node.value()) is not UNSET
        }
        return named_members | (self.others.value() if self.others.entries else {})

    def _put(self, value: Any) -> None:
        self._empty()
        self.set_present(True)
        values = value if isinstance(value, dict) else {}
        for key, node in self.members.items():
            node.unset()
            if key in values:
                node.put(values[key])
        for key, item in values.items():
            if key not in self.members:
                self.others.add(key).put(item)


class UnionNode(Node):
    """One of several alternatives, or none."""

    selected_index: int | None
    """Index of the selected alternative, or None."""
    alternative_nodes: dict[int, Node]
    """Nodes of the alternatives that were selected so far, with their entered values."""

    @cached_property
    def alternatives(self) -> tuple[FormField, ...]:
        """Fields that can be selected."""
        return self.field.alternatives()

    @property
    def selected_node(self) -> Node | None:
        """Node of the selected alternative. It has the same path as the union."""
        if self.selected_index is None:
            return None
        if self.selected_index not in self.alternative_nodes:
            self.alternative_nodes[self.selected_index] = node_for(self.alternatives[self.selected_index])
        return self.alternative_nodes[self.selected_index]

    def pick(self, index: int | None) -> None:
        """Select an alternative."""
        self.selected_index, self.is_null = index, False

    def _empty(self) -> None:
        self.alternative_nodes, self.selected_index = {}, 0 if self.field.required else None

    def _value(self) -> Any:
        return self.selected_node.value() if self.selected_node else UNSET

    def _put(self, value: Any) -> None:
        """Select the first alternative that represents the complete value. If there is none, do nothing."""
        for index, field in enumerate(self.alternatives):
            node = node_for(field)
            node.put(value)
            if same(node.value(), value):
                self.alternative_nodes[index], self.selected_index = node, index
                return


_NODES: dict[FieldKind, type[Node]] = {
    FieldKind.INTEGER: NumberNode,
    FieldKind.NUMBER: NumberNode,
    FieldKind.SWITCH: ChoiceNode,
    FieldKind.CHOICE: ChoiceNode,
    FieldKind.MULTI_CHOICE: MultiChoiceNode,
    FieldKind.CONSTANT: ConstantNode,
    FieldKind.OBJECT: ObjectNode,
    FieldKind.LIST: ListNode,
    FieldKind.MAP: MapNode,
    FieldKind.UNION: UnionNode,
    FieldKind.JSON: JsonNode,
}
"""Node classes of all kinds of fields except texts."""


def node_for(field: FormField) -> Node:
    """Return a node for a field, with its default."""
    return _NODES.get(field.kind, TextNode)(field)


def form_node(schema: Schema) -> Node:
    """Return the node of a tool's arguments."""
    return node_for(form_for(schema))


def walk(node: Node, path: Path = ()) -> Iterator[tuple[Path, Node]]:
    """Yield every node with its path in the value. A node comes before the nodes inside it."""
    yield path, node
    if isinstance(node, UnionNode) and node.selected_node is not None:
        yield from walk(node.selected_node, path)
    for key, child in node.children():
        yield from walk(child, (*path, key))


def clear_secrets(node: Node) -> None:
    """Empty all secret fields, so that the value may be written to disk."""
    for _, inner in list(walk(node)):
        if inner.field.kind is FieldKind.SECRET:
            inner.unset()
