"""JSON Schema as form fields: the constraints of each value, and the control for it.

References are resolved, `allOf` is merged and null is split off. This module depends on no widget.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum
from typing import Any, Final, NamedTuple

from msgspec import Struct

from mcpdesk.protocol.catalogue.schema_shapes import (
    Schema,
    alternatives,
    is_fitting,
    resolve,
    split_null,
    with_branches,
)
from mcpdesk.tui.render.json_text import compact

_LIMIT_SIGNS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
"""Keyword of JSON Schema -> sign before its value."""
_FORMAT_EXAMPLES = {"date": "2026-01-31", "time": "13:45:00Z", "date-time": "2026-01-31T13:45:00Z"}
"""Example that a field shows, by format."""


class FieldChoice(NamedTuple):
    """Value that can be selected, and its label."""

    label: str
    value: Any


def constants(shapes: Iterable[Schema]) -> list[FieldChoice]:
    """Return the values of a union of constants. Each is labelled by its title or its JSON.

    Empty if a member of the union is not a constant.
    """
    choices: list[FieldChoice] = []
    for shape in shapes:
        values = [shape["const"]] if "const" in shape else shape.get("enum", [])
        if not values:
            return []
        title = shape.get("title", "") if len(values) == 1 else ""
        choices += [FieldChoice(title or _label(value), value) for value in values]
    return choices


def _label(value: Any) -> str:
    return value if isinstance(value, str) and value else compact(value)


def limits(shape: Schema) -> str:
    """Describe the limits of a value. Return "" if its schema has no limits."""
    if "minimum" in shape and "maximum" in shape:
        parts = [f"{shape['minimum']} … {shape['maximum']}"]
    else:
        parts = [f"{sign} {shape[keyword]}" for keyword, sign in _LIMIT_SIGNS.items() if keyword in shape]
    parts += [_range(shape, "Length", "characters"), _range(shape, "Items", "items")]
    if "multipleOf" in shape:
        parts.append(f"multiple of {shape['multipleOf']}")
    if "pattern" in shape:
        parts.append(f"matches {shape['pattern']}")
    if shape.get("format", "password") not in ("password", *_FORMAT_EXAMPLES):
        parts.append(f"format {shape['format']}")
    return ", ".join(part for part in parts if part)


def _range(shape: Schema, keyword_suffix: str, unit: str) -> str:
    """Describe the limits of a length: `2 to 5 items`. For the suffix `Items`, these are `minItems` and
    `maxItems`.
    """
    minimum, maximum = shape.get(f"min{keyword_suffix}"), shape.get(f"max{keyword_suffix}")
    if minimum and maximum:
        return f"{minimum} to {maximum} {unit}"
    if minimum:
        return f"at least {minimum} {unit}" if minimum != 1 else "not empty"
    return f"at most {maximum} {unit}" if maximum is not None else ""


MAX_DEPTH = 12
"""Maximum nesting depth. Deeper fields are edited as JSON text, because recursive schemas have no end."""
MAX_ONE_LINE_LENGTH = 200
"""Maximum `maxLength` in characters of a text field of one line."""
_LONG_TEXT_NAMES = re.compile("text|body|content|code|diff|html|markdown|message|notes|plan|prompt|script")
"""Names of members whose text has several lines, unless the schema limits it."""
_LONG_FORMATS = frozenset({"textarea", "markdown", "html", "multiline"})
"""Values of `format` for texts of several lines."""


class Unset(Enum):
    """Type of `UNSET`."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET
"""Marks a missing value. An object leaves out a member with this value."""


class FieldKind(Enum):
    """Kind of control."""

    TEXT = "text"
    LONG_TEXT = "long text"
    SECRET = "secret"
    MOMENT = "moment"
    INTEGER = "integer"
    NUMBER = "number"
    SWITCH = "switch"
    CHOICE = "choice"
    MULTI_CHOICE = "many"
    CONSTANT = "fixed"
    OBJECT = "object"
    LIST = "list"
    MAP = "map"
    UNION = "union"
    JSON = "JSON"


class FormField(Struct, frozen=True):
    """Constraints of one value. `shape` is its schema with resolved references, `root` the full schema."""

    kind: FieldKind
    key: str
    shape: Schema
    root: Schema
    required: bool
    nullable: bool
    depth: int

    @property
    def title(self) -> str:
        """Title of the schema, else its type."""
        return str(self.shape.get("title") or _type_name(self.shape) or self.kind.value)

    @property
    def description(self) -> str:
        """Description in the schema."""
        return str(self.shape.get("description") or "")

    @property
    def default(self) -> Any:
        """Prefilled value, or `UNSET` if the schema has no default or an invalid one."""
        return UNSET if self.invalid_default is not UNSET else self.shape.get("default", UNSET)

    @property
    def invalid_default(self) -> Any:
        """Default in the schema that violates the schema, or `UNSET`."""
        if "default" not in self.shape:
            return UNSET
        value = self.shape["default"]
        if value is None and self.nullable:
            return UNSET
        return UNSET if is_fitting(value, self.shape, self.root) else value

    @property
    def example(self) -> str:
        """Example of a value, or "" if the schema has no example."""
        examples = self.shape.get("examples") or [_FORMAT_EXAMPLES.get(self.shape.get("format", ""), "")]
        return examples[0] if isinstance(examples[0], str) else compact(examples[0])

    @property
    def choices(self) -> tuple[FieldChoice, ...]:
        """Values that can be selected, for `SWITCH`, `CHOICE` and `MULTI_CHOICE`."""
        if self.kind is FieldKind.MULTI_CHOICE:
            return tuple(_choices(resolve(self.shape.get("items"), self.root), self.root))
        options = _choices(self.shape, self.root)
        if self.kind is FieldKind.SWITCH:
            options = [FieldChoice("on", True), FieldChoice("off", False)]
        return (*options, FieldChoice("null", None)) if self.nullable else tuple(options)

    def properties(self) -> tuple[FormField, ...]:
        """Return the members of an object: required ones first, otherwise in the order of the schema."""
        required_names = set(self.shape.get("required", ()))
        members = self.shape.get("properties", {})
        fields = (self._inside(schema, key, key in required_names) for key, schema in members.items())
        return tuple(sorted(fields, key=lambda field: not field.required))

    def item(self) -> FormField:
        """Return the field of a list item."""
        return self._inside(self.shape.get("items"), "", True)

    @property
    def allows_other_members(self) -> bool:
        """True if an object may have members that its schema does not name."""
        return self.shape.get("additionalProperties") not in (None, False)

    def entry(self) -> FormField:
        """Return the field of a member with a free name."""
        return self._inside(self.shape.get("additionalProperties"), "", True)

    def alternatives(self) -> tuple[FormField, ...]:
        """Return the fields of a union's alternatives."""
        return tuple(self._inside(shape, self.key, True) for shape in alternatives(self.shape, self.root))

    def _inside(self, schema: Any, key: str, required: bool) -> FormField:
        return field_for(schema, self.root, key, required, self.depth + 1)


def form_for(schema: Schema) -> FormField:
    """Return the field for the arguments of a tool: an object, even if the schema does not declare it."""
    shape = with_branches(resolve(schema, schema), schema)
    if not alternatives(shape, schema):
        shape = {**shape, "type": "object"}
        return FormField(FieldKind.OBJECT, "", shape, schema, True, False, 0)
    return field_for(shape, schema)


def field_for(schema: Any, root: Schema, key: str = "", required: bool = True, depth: int = 0) -> FormField:
    """Return the field for a schema. If no control fits, the field is edited as JSON text."""
    shape, nullable = split_null(with_branches(resolve(schema, root), root), root)
    kind = _kind(shape, root, key) if depth < MAX_DEPTH else FieldKind.JSON
    if kind is FieldKind.CONSTANT and not required:
        kind = FieldKind.CHOICE
    return FormField(kind, key, shape, root, required, nullable, depth)


def _kind(shape: Schema, root: Schema, key: str) -> FieldKind:
    if "const" in shape:
        return FieldKind.CONSTANT
    if _choices(shape, root):
        return FieldKind.CHOICE
    if alternatives(shape, root):
        return FieldKind.UNION
    match _type_name(shape):
        case "string":
            return _text_kind(shape, key)
        case "array":
            return _array_kind(shape, root)
        case "object" if shape.get("properties"):
            return FieldKind.OBJECT
        case "object" if isinstance(shape.get("additionalProperties"), dict):
            return FieldKind.MAP
        case type_name:
            return _SIMPLE_KINDS.get(type_name, FieldKind.JSON)


_SIMPLE_KINDS = {
    "integer": FieldKind.INTEGER,
    "number": FieldKind.NUMBER,
    "boolean": FieldKind.SWITCH,
}
"""Type in JSON Schema -> kind of field. Any other type is edited as JSON."""


def _text_kind(shape: Schema, key: str) -> FieldKind:
    format_name = shape.get("format", "")
    if format_name == "password" or shape.get("writeOnly") is True:
        return FieldKind.SECRET
    if format_name in _FORMAT_EXAMPLES:
        return FieldKind.MOMENT
    may_be_long = shape.get("maxLength", 0) > MAX_ONE_LINE_LENGTH or "\n" in str(shape.get("default", ""))
    is_long = may_be_long or format_name in _LONG_FORMATS or "contentMediaType" in shape
    has_long_text_name = (
        _LONG_TEXT_NAMES.fullmatch(key.lower()) and "maxLength" not in shape and "pattern" not in shape
    )
    return FieldKind.LONG_TEXT if is_long or has_long_text_name else FieldKind.TEXT


def _array_kind(shape: Schema, root: Schema) -> FieldKind:
    items = shape.get("items")
    if "prefixItems" in shape or not isinstance(items, dict) or not items:
        return FieldKind.JSON
    return FieldKind.MULTI_CHOICE if _choices(resolve(items, root), root) else FieldKind.LIST


def _type_name(shape: Schema) -> str:
    """Return the type that a schema declares or implies, or "" if it has none or several."""
    implied_type = "object" if "properties" in shape else "array" if "items" in shape else ""
    type_name = shape.get("type", implied_type)
    return type_name if isinstance(type_name, str) else ""


def _choices(shape: Schema, root: Schema) -> list[FieldChoice]:
    return constants([shape] if "const" in shape or "enum" in shape else alternatives(shape, root))
