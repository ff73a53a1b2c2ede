"""What a form holds where nothing is nested: texts, numbers, choices, JSON, constants. Pure.

A node that holds nothing has the value `UNSET` and is left out of what encloses it.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

from mcpdesk.plain_text import json_escaped
from mcpdesk.tui.render.form_field import UNSET, Choice, Field
from mcpdesk.tui.render.json_text import json_problem, pretty, same


class Node(ABC):
    """The state of one field."""

    def __init__(self, field: Field) -> None:
        self.field = field
        self.is_null = False
        self.clear()

    def clear(self) -> None:
        """Back to the default, or to nothing."""
        self.is_null = False
        self._empty()
        if self.field.default is not UNSET:
            self.put(self.field.default)

    def value(self) -> Any:
        """What the node holds, or `UNSET`."""
        return None if self.is_null else self._value()

    def put(self, value: Any) -> None:
        """Hold this value; what does not fit is held as far as it does."""
        self.is_null = value is None and self.field.nullable
        if not self.is_null:
            self._put(value)

    @property
    def problem(self) -> str:
        """Why what was typed is no value at all; empty when it is one."""
        return ""

    def children(self) -> Iterator[tuple[str | int, Node]]:
        """Nodes inside this one, by key or index."""
        return iter(())

    @abstractmethod
    def _empty(self) -> None: ...

    @abstractmethod
    def _value(self) -> Any: ...

    @abstractmethod
    def _put(self, value: Any) -> None: ...


class TextNode(Node):
    """Text. An optional one that is empty holds nothing; a required one does so until somebody edits it."""

    text: str
    given: bool

    def edit(self, text: str) -> None:
        """Take what was typed."""
        self.text, self.is_null = text, False
        self.given = bool(text) or self.field.required

    def _empty(self) -> None:
        self.text, self.given = "", False

    def _value(self) -> Any:
        return self.text if self.given else UNSET

    def _put(self, value: Any) -> None:
        self.text, self.given = value if isinstance(value, str) else pretty(value), True


class NumberNode(TextNode):
    """A number as typed; what is none is passed on as text, for the validator to complain about."""

    def _value(self) -> Any:
        return _number(self.text.strip()) if self.text.strip() else UNSET


class JsonNode(TextNode):
    """Any value, as JSON text."""

    def _value(self) -> Any:
        if not self.text.strip() or self.problem:
            return UNSET
        return json.loads(self.text)

    def _put(self, value: Any) -> None:
        self.text, self.given = json_escaped(pretty(value)), True

    @property
    def problem(self) -> str:
        """Where the text stops being JSON."""
        return json_problem(self.text) if self.text.strip() else ""


class ChoiceNode(Node):
    """One of a few values."""

    index: int | None

    def __init__(self, field: Field) -> None:
        self.choices = field.choices
        super().__init__(field)

    def pick(self, index: int | None) -> None:
        """Take one, or none."""
        self.index, self.is_null = index, False

    def _empty(self) -> None:
        self.index = None

    def _value(self) -> Any:
        return UNSET if self.index is None else self.choices[self.index].value

    def _put(self, value: Any) -> None:
        self.index = _index(self.choices, value)


class ManyNode(Node):
    """Several of a few values, in the order of the choices."""

    chosen: frozenset[int]

    def __init__(self, field: Field) -> None:
        self.choices = field.choices
        super().__init__(field)

    def pick(self, chosen: frozenset[int]) -> None:
        """Take these."""
        self.chosen, self.is_null = chosen, False

    def _empty(self) -> None:
        self.chosen = frozenset()

    def _value(self) -> Any:
        values = [choice.value for at, choice in enumerate(self.choices) if at in self.chosen]
        return values if values or self.field.required else UNSET

    def _put(self, value: Any) -> None:
        found = (_index(self.choices, item) for item in value) if isinstance(value, list) else ()
        self.chosen = frozenset(at for at in found if at is not None)


class FixedNode(Node):
    """The one value there can be."""

    def _empty(self) -> None:
        pass

    def _value(self) -> Any:
        return self.field.shape["const"]

    def _put(self, value: Any) -> None:
        pass


def _number(text: str) -> Any:
    for read in (int, float):
        try:
            number = read(text)
        except ValueError:
            continue
        return number if abs(number) != float("inf") and number == number else text
    return text


def _index(choices: tuple[Choice, ...], value: Any) -> int | None:
    return next((at for at, choice in enumerate(choices) if same(choice.value, value)), None)
