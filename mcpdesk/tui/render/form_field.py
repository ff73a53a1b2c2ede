"""One field of a form: what a schema asks for, and by which kind of control. Pure; a table picks the kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from mcpdesk.tui.render.form_schema import Schema, alternatives, constants, limits, resolve, split_null
from mcpdesk.tui.render.json_text import compact

MAX_DEPTH = 12
"""Nesting below which a field is edited as JSON text; recursive schemas end there."""
LONG_TEXT = 200
"""A `maxLength` above which a text gets several lines."""
_LONG_NAMES = frozenset(
    {
        "text",
        "body",
        "content",
        "code",
        "diff",
        "html",
        "markdown",
        "message",
        "notes",
        "plan",
        "prompt",
        "script",
    }
)
_LONG_FORMATS = frozenset({"textarea", "markdown", "html", "multiline"})
_MOMENTS = {"date": "2026-01-31", "time": "13:45:00Z", "date-time": "2026-01-31T13:45:00Z"}


class Unset(Enum):
    """The type of `UNSET`."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET
"""No value at all: the member is left out."""


class Kind(Enum):
    """Families of controls."""

    TEXT = "text"
    LONG_TEXT = "long text"
    SECRET = "secret"
    MOMENT = "moment"
    INTEGER = "integer"
    NUMBER = "number"
    SWITCH = "switch"
    CHOICE = "choice"
    MANY = "many"
    FIXED = "fixed"
    OBJECT = "object"
    LIST = "list"
    MAP = "map"
    UNION = "union"
    JSON = "JSON"


@dataclass(frozen=True, slots=True)
class Choice:
    """One value to pick, and how it is called."""

    label: str
    value: Any


@dataclass(frozen=True, slots=True)
class Field:
    """What one value has to be. `shape` is its schema, references followed; `root` is for those within."""

    kind: Kind
    key: str
    shape: Schema
    root: Schema
    required: bool
    nullable: bool
    depth: int

    @property
    def title(self) -> str:
        """The schema's title, else what it is."""
        return str(self.shape.get("title") or _type_name(self.shape) or self.kind.value)

    @property
    def description(self) -> str:
        """What the schema's author says about it."""
        return str(self.shape.get("description") or "")

    @property
    def limits(self) -> str:
        """Bounds in a few words."""
        return limits(self.shape)

    @property
    def default(self) -> Any:
        """The prefilled value, or `UNSET`."""
        return self.shape.get("default", UNSET)

    @property
    def example(self) -> str:
        """What a value may look like; empty when unknown."""
        examples = self.shape.get("examples") or [_MOMENTS.get(self.shape.get("format", ""), "")]
        return examples[0] if isinstance(examples[0], str) else compact(examples[0])

    @property
    def choices(self) -> tuple[Choice, ...]:
        """Values to pick from, for `SWITCH`, `CHOICE` and `MANY`."""
        if self.kind is Kind.SWITCH:
            found = [("on", True), ("off", False)]
        else:
            found = _choices(self.items_shape if self.kind is Kind.MANY else self.shape, self.root) or []
        null = [Choice("null", None)] if self.nullable and self.kind is not Kind.MANY else []
        return (*(Choice(label or _label(value), value) for label, value in found), *null)

    @property
    def items_shape(self) -> Schema:
        """The schema of a list's items."""
        return resolve(self.shape.get("items"), self.root)

    def properties(self) -> tuple[Field, ...]:
        """The members of an object: required ones first, otherwise in the author's order."""
        needed = set(self.shape.get("required", ()))
        members = self.shape.get("properties", {})
        fields = (self._inside(schema, key, key in needed) for key, schema in members.items())
        return tuple(sorted(fields, key=lambda field: not field.required))

    def item(self) -> Field:
        """An item of a list."""
        return self._inside(self.shape.get("items"), "", True)

    def entry(self) -> Field | None:
        """A member of an object under a name of the person's choice; None when there may be none."""
        schema = self.shape.get("additionalProperties")
        return None if schema in (None, False) else self._inside(schema, "", True)

    def alternatives(self) -> tuple[Field, ...]:
        """The members of a union."""
        return tuple(self._inside(shape, self.key, True) for shape in alternatives(self.shape, self.root))

    def _inside(self, schema: Any, key: str, required: bool) -> Field:
        return field_for(schema, self.root, key, required, self.depth + 1)


def form_for(schema: Schema) -> Field:
    """The field a tool's arguments are: an object, even where the schema does not say so."""
    shape = resolve(schema, schema)
    if not alternatives(shape, schema):
        shape = {**shape, "type": "object"}
        return Field(Kind.OBJECT, "", shape, schema, True, False, 0)
    return field_for(shape, schema)


def field_for(schema: Any, root: Schema, key: str = "", required: bool = True, depth: int = 0) -> Field:
    """The field for one schema. Anything no control fits becomes JSON text."""
    shape, nullable = split_null(resolve(schema, root), root)
    kind = _kind(shape, root, key) if depth < MAX_DEPTH else Kind.JSON
    if kind is Kind.FIXED and not required:
        kind = Kind.CHOICE
    return Field(kind, key, shape, root, required, nullable, depth)


def _kind(shape: Schema, root: Schema, key: str) -> Kind:
    if "const" in shape:
        return Kind.FIXED
    if _choices(shape, root):
        return Kind.CHOICE
    if alternatives(shape, root):
        return Kind.UNION
    rule = _BY_TYPE.get(_type_name(shape))
    return rule(shape, root, key) if rule else Kind.JSON


def _text_kind(shape: Schema, root: Schema, key: str) -> Kind:
    form = shape.get("format", "")
    if form == "password" or shape.get("writeOnly") is True:
        return Kind.SECRET
    if form in _MOMENTS:
        return Kind.MOMENT
    roomy = shape.get("maxLength", 0) > LONG_TEXT or "\n" in str(shape.get("default", ""))
    is_long = roomy or form in _LONG_FORMATS or "contentMediaType" in shape
    by_name = key.lower() in _LONG_NAMES and "maxLength" not in shape and "pattern" not in shape
    return Kind.LONG_TEXT if is_long or by_name else Kind.TEXT


def _array_kind(shape: Schema, root: Schema, key: str) -> Kind:
    items = shape.get("items")
    if "prefixItems" in shape or not isinstance(items, dict) or not items:
        return Kind.JSON
    return Kind.MANY if _choices(resolve(items, root), root) else Kind.LIST


def _object_kind(shape: Schema, root: Schema, key: str) -> Kind:
    if shape.get("properties"):
        return Kind.OBJECT
    return Kind.MAP if isinstance(shape.get("additionalProperties"), dict) else Kind.JSON


_BY_TYPE: dict[str, Callable[[Schema, Schema, str], Kind]] = {
    "string": _text_kind,
    "integer": lambda shape, root, key: Kind.INTEGER,
    "number": lambda shape, root, key: Kind.NUMBER,
    "boolean": lambda shape, root, key: Kind.SWITCH,
    "array": _array_kind,
    "object": _object_kind,
}


def _type_name(shape: Schema) -> str:
    named = shape.get("type", "object" if "properties" in shape else "array" if "items" in shape else "")
    return named if isinstance(named, str) else ""


def _choices(shape: Schema, root: Schema) -> list[tuple[str, Any]] | None:
    if "const" in shape or "enum" in shape:
        return constants([shape])
    return constants(alternatives(shape, root))


def _label(value: Any) -> str:
    return value if isinstance(value, str) and value else compact(value)
