"""Minimal values for JSON Schemas, as starting points for answers that a person writes."""

from __future__ import annotations

import math
from typing import Any, TypeGuard

from mcpdesk.protocol.catalogue.schema_shapes import (
    Schema,
    is_fitting,
    named_types,
    resolve,
    shape_alternatives,
)

_MAX_DEPTH = 8
"""Maximum nesting. Deeper values are left empty, so that recursive schemas end."""
_MAX_ITEMS = 20
"""Maximum number of list items, even if the schema requires more."""
_FORMAT_EXAMPLES = {
    "date-time": "2026-01-01T00:00:00Z",
    "date": "2026-01-01",
    "time": "00:00:00Z",
    "email": "name@example.com",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-0000-0000-000000000000",
}


def example_value(schema: Any, root: Schema, depth: int = 0) -> Any:
    """Return a value with all required members, using the schema's default or example if it has one.

    Patterns are ignored. Return None if the type is unknown.
    """
    shape = resolve(schema, root)
    for fixed_keyword in ("default", "const"):
        if fixed_keyword in shape and is_fitting(shape[fixed_keyword], shape, root):
            return shape[fixed_keyword]
    for keyword in ("examples", "enum"):
        value = shape.get(keyword)
        if isinstance(value, list) and value:
            return value[0]
    alternatives = [one for one in shape_alternatives(shape, root) if one != shape]
    if alternatives and depth < _MAX_DEPTH:
        # The first alternative that does not allow null, or else the first one.
        alternative = min(alternatives, key=lambda one: "null" in named_types(one))
        return example_value(alternative, root, depth + 1)
    kind = next((name for name in named_types(shape) if name != "null"), "null")
    match kind:
        case "object":
            return _object(shape, root, depth)
        case "array":
            count = min(_minimum_length(shape, "minItems"), _MAX_ITEMS) if depth < _MAX_DEPTH else 0
            return [example_value(shape.get("items", {}), root, depth + 1) for _ in range(count)]
        case "string":
            text = _FORMAT_EXAMPLES.get(str(shape.get("format", "")), "")
            return text or "x" * min(_minimum_length(shape, "minLength"), 1_000)
        case "integer" | "number":
            return _number(shape, kind)
        case "boolean":
            return False
    return {} if "properties" in shape else None


def _object(shape: Schema, root: Schema, depth: int) -> dict[str, Any]:
    members, required = shape.get("properties"), shape.get("required")
    if not isinstance(members, dict) or not isinstance(required, list) or depth >= _MAX_DEPTH:
        return {}
    return {name: example_value(members.get(name, {}), root, depth + 1) for name in dict.fromkeys(required)}


def _number(shape: Schema, kind: str) -> float | int:
    """Return zero, or the nearest value within the bounds."""
    step = 1 if kind == "integer" else 0.5
    lowest, highest = -math.inf, math.inf
    for keyword, distance in (("minimum", 0), ("exclusiveMinimum", step)):
        if _is_number(bound := shape.get(keyword)):
            lowest = max(lowest, bound + distance)
    for keyword, distance in (("maximum", 0), ("exclusiveMaximum", step)):
        if _is_number(bound := shape.get(keyword)):
            highest = min(highest, bound - distance)
    value = min(max(0, lowest), highest)
    if kind == "integer":
        return math.ceil(value) if value >= 0 else math.floor(value)
    return value


def _is_number(value: Any) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _minimum_length(shape: Schema, keyword: str) -> int:
    bound = shape.get(keyword)
    return int(bound) if _is_number(bound) and bound > 0 else 0
