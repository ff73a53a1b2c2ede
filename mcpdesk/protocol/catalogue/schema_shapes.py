"""Normalization of JSON Schemas: follow references, merge `allOf`, separate null, list alternatives.

A normalized schema is called a shape. The form, the shell and `check` read schemas through these functions,
so they agree on the meaning of a schema. Schemas are untrusted: bad references and cycles give an empty
shape, never an error.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import islice
from typing import Any
from urllib.parse import unquote

Schema = dict[str, Any]

_MAX_DEPTH = 16
"""Maximum nesting of references and `allOf`."""
_MAX_PARTS = 200
"""Maximum number of references and parts of `allOf` in one shape.

Their number can multiply with each level.
"""
_MAX_BRANCHES = 1_000
"""Maximum number of alternatives and branches that are searched for a member."""
_UNION_KEYWORDS = ("anyOf", "oneOf")
_BRANCH_KEYWORDS = ("then", "else")
_DEPENDENT_KEYWORDS = ("dependentSchemas", "dependencies")
_DEFINITION_KEYWORDS = ("$defs", "definitions")
MAX_SHAPES = 64
"""Maximum number of shapes per property. Each level of nested alternatives multiplies their number."""


def resolve(schema: Any, root: Schema) -> Schema:
    """Return the schema with references followed and `allOf` merged, or an empty shape if that is
    impossible.
    """
    return _resolved(schema, root, 0, iter(range(_MAX_PARTS)))


def _resolved(schema: Any, root: Schema, depth: int, steps: Iterator[int]) -> Schema:
    """Like `resolve`, for a part at a given depth. Each part takes one of `steps`; an exhausted iterator
    gives an empty shape.
    """
    if not isinstance(schema, dict) or depth > _MAX_DEPTH or next(steps, None) is None:
        return {}
    rules = (
        (keyword, _usable_value(keyword, rule))
        for keyword, rule in schema.items()
        if keyword not in ("$ref", "allOf")
    )
    shape = {keyword: rule for keyword, rule in rules if rule is not _UNUSABLE}
    if "$ref" in schema:
        shape = merge(_resolved(_reference_target(schema["$ref"], root), root, depth + 1, steps), shape)
    for part in _parts(schema, "allOf"):
        shape = merge(shape, _resolved(part, root, depth + 1, steps))
    return shape


def _usable_value(keyword: str, rule: Any) -> Any:
    """Remove parts of a wrong type from a keyword's value. Return `_UNUSABLE` if nothing remains."""
    allowed_types = _KEYWORD_TYPES.get(keyword)
    if allowed_types is None:
        return rule
    if not isinstance(rule, allowed_types) or isinstance(rule, bool):
        return _UNUSABLE
    if keyword in _NAME_LIST_KEYWORDS and isinstance(rule, list):
        return [name for name in rule if isinstance(name, str)] or _UNUSABLE
    return rule


def merge(base: Schema, other: Schema) -> Schema:
    """Return both schemas merged into one. Properties and required names are united.

    For any other keyword that both have, `other` has precedence.
    """
    merged = base | other
    base_members, other_members = base.get("properties"), other.get("properties")
    if isinstance(base_members, dict) and isinstance(other_members, dict):
        merged["properties"] = base_members | other_members
    if required := [*_parts(base, "required"), *_parts(other, "required")]:
        merged["required"] = required
    return merged


def split_null(shape: Schema, root: Schema) -> tuple[Schema, bool]:
    """Return the schema without its null alternative, and True if it had a null alternative."""
    types = shape.get("type")
    if isinstance(types, list) and "null" in types:
        other_types = [name for name in types if name != "null"]
        return {**shape, "type": other_types[0] if len(other_types) == 1 else other_types}, bool(other_types)
    for keyword in _UNION_KEYWORDS:
        others = [part for part in _parts(shape, keyword) if not _is_null(resolve(part, root))]
        if others and len(others) < len(shape[keyword]):
            return _with_alternatives(shape, keyword, others, root), True
    if None in _parts(shape, "enum") and len(shape["enum"]) > 1:
        return {**shape, "enum": [value for value in shape["enum"] if value is not None]}, True
    return shape, shape.get("nullable") is True


def alternatives(shape: Schema, root: Schema) -> list[Schema]:
    """Return the alternatives of a union, each merged with the other rules, or an empty list if the shape is
    not a union.
    """
    types = shape.get("type")
    if isinstance(types, list) and len(types) > 1:
        return [{**shape, "type": name} for name in types]
    for keyword in _UNION_KEYWORDS:
        parts = _parts(shape, keyword)
        if any(set(resolve(part, root)) - {"required", "description", "not"} for part in parts):
            other_rules = {
                key: rule
                for key, rule in shape.items()
                if key not in (keyword, "title", "description", "default")
            }
            return [merge(other_rules, resolve(part, root)) for part in parts]
    return []


def _reference_target(reference: Any, root: Schema) -> Any:
    """Return the schema that a reference names, or an empty object if it cannot be found."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return {}
    if reference != "#" and not reference.startswith("#/"):
        return _anchor_target(unquote(reference[1:]), root)
    value: Any = root
    for part in unquote(reference[1:]).split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, list) and key.isdigit() and int(key) < len(value):
            value = value[int(key)]
        elif isinstance(value, dict) and key in value:
            value = value[key]
        else:
            return {}
    return value


def _anchor_target(name: str, root: Schema) -> Any:
    """Return the first schema in the definitions with an anchor, or an empty object if no schema has it."""
    for keyword in _DEFINITION_KEYWORDS:
        parts = root.get(keyword)
        for part in parts.values() if isinstance(parts, dict) else ():
            if isinstance(part, dict) and name in (part.get("$anchor"), part.get("$dynamicAnchor")):
                return part
    return {}


def _is_null(shape: Schema) -> bool:
    return shape.get("type") == "null" or ("const" in shape and shape["const"] is None)


def _with_alternatives(shape: Schema, keyword: str, remaining: list[Any], root: Schema) -> Schema:
    if len(remaining) > 1:
        return {**shape, keyword: remaining}
    other_rules = {key: rule for key, rule in shape.items() if key != keyword}
    return split_null(merge(resolve(remaining[0], root), other_rules), root)[0]


def with_branches(shape: Schema, root: Schema) -> Schema:
    """Return the shape with the members of `then`, `else` and `dependentSchemas` as optional members."""
    parts = _branches(shape)
    own_members = shape.get("properties")
    members: Schema = {}
    for part in parts:
        properties = resolve(part, root).get("properties")
        members = (properties | members) if isinstance(properties, dict) else members
    if not members:
        return shape
    declared = own_members if isinstance(own_members, dict) else {}
    return shape | {
        "properties": declared | {key: each for key, each in members.items() if key not in declared}
    }


def _branches(shape: Schema) -> list[Any]:
    parts = [shape.get(keyword) for keyword in _BRANCH_KEYWORDS]
    for keyword in _DEPENDENT_KEYWORDS:
        dependent = shape.get(keyword)
        parts += dependent.values() if isinstance(dependent, dict) else ()
    return parts


def property_shapes(schema: Any, key: str, root: Schema) -> Iterator[Schema]:
    """Yield every shape that an object schema gives its member `key`, including alternatives and branches."""
    yield from _property_shapes(schema, key, root, 0, iter(range(_MAX_BRANCHES)))


def _property_shapes(
    schema: Any, key: str, root: Schema, depth: int, steps: Iterator[int]
) -> Iterator[Schema]:
    """Like `property_shapes`, for a schema at a given depth. Each schema takes one of `steps`."""
    if depth > _MAX_DEPTH or next(steps, None) is None:
        return
    shape = resolve(schema, root)
    members = shape.get("properties")
    if isinstance(members, dict) and key in members:
        yield resolve(members[key], root)
    elif isinstance(shape.get("additionalProperties"), dict):
        yield resolve(shape["additionalProperties"], root)
    for keyword in _UNION_KEYWORDS:
        for part in _parts(shape, keyword):
            yield from _property_shapes(part, key, root, depth + 1, steps)
    for part in _branches(shape):
        if isinstance(part, dict):
            yield from _property_shapes(part, key, root, depth + 1, steps)


def shape_alternatives(shape: Schema, root: Schema, depth: int = 0) -> Iterator[Schema]:
    """Yield the shapes without `oneOf` and the like that a value may have: one for each combination of
    alternatives. Shapes that allow null are included.
    """
    shape = resolve(shape, root)
    unions = [] if depth > _MAX_DEPTH else [keyword for keyword in _UNION_KEYWORDS if _parts(shape, keyword)]
    if not unions:
        yield shape
    for keyword in unions:
        other_rules = {key: rule for key, rule in shape.items() if key != keyword}
        for part in _parts(shape, keyword):
            yield from shape_alternatives(merge(other_rules, resolve(part, root)), root, depth + 1)


def named_types(shape: Schema) -> tuple[str, ...]:
    """Return the JSON types that a shape names, or an empty tuple if it names no type."""
    types = shape.get("type", "object" if "properties" in shape else "array" if "items" in shape else ())
    return (types,) if isinstance(types, str) else tuple(each for each in types if isinstance(each, str))


def is_fitting(value: Any, schema: Any, root: Schema) -> bool:
    """Return False if a value violates the type, the constants or the bounds of a schema. Patterns and
    formats are not checked.
    """
    shapes = list(
        islice(shape_alternatives(schema if isinstance(schema, dict) else {}, root), MAX_SHAPES + 1)
    )
    return len(shapes) > MAX_SHAPES or any(_matches(value, shape) for shape in shapes)


def _matches(value: Any, shape: Schema) -> bool:
    known_types = [name for name in named_types(shape) if name in _PYTHON_TYPES]
    if "type" in shape and not any(is_of_type(value, name) for name in known_types):
        return not known_types  # a shape with only unknown types allows any value
    constants = [shape["const"]] if "const" in shape else shape.get("enum")
    if isinstance(constants, list) and not any(is_same(value, each) for each in constants):
        return False
    return all(_is_within_bound(value, shape, keyword) for keyword in _BOUND_RULES if keyword in shape)


def _is_within_bound(value: Any, shape: Schema, keyword: str) -> bool:
    value_type, measure, is_allowed = _BOUND_RULES[keyword]
    bound = shape[keyword]
    if not isinstance(value, value_type) or isinstance(value, bool):
        return True
    if isinstance(bound, bool) or not isinstance(bound, int | float):
        return True
    return bool(is_allowed(measure(value), bound))


def is_of_type(value: Any, name: str) -> bool:
    """Return True if a JSON value has a type. An integer is also a number, and 1.0 is also an integer."""
    if name == "integer" and isinstance(value, float):
        return math.isfinite(value) and value.is_integer()
    kind = _PYTHON_TYPES.get(name)
    return kind is not None and isinstance(value, kind) and (name == "boolean" or not isinstance(value, bool))


def is_same(value: Any, other: Any) -> bool:
    """Return True if two JSON values are equal. `true` is not equal to 1."""
    return value == other and isinstance(value, bool) is isinstance(other, bool)


def _parts(shape: Schema, keyword: str) -> list[Any]:
    parts = shape.get(keyword)
    return parts if isinstance(parts, list) else []


_UNUSABLE = object()
_NUMBER_TYPES = (int, float)
_KEYWORD_TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("properties", "patternProperties", "$defs", "definitions"), (dict,)),
    **dict.fromkeys(("required", "enum", "examples", "anyOf", "oneOf", "prefixItems", "enumNames"), (list,)),
    **dict.fromkeys(("title", "description", "format", "pattern", "contentMediaType"), (str,)),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), (int,)),
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _NUMBER_TYPES),
    "multipleOf": _NUMBER_TYPES,
    "type": (str, list),
}
"""Types that the value of a keyword can have. A keyword with another value is ignored."""
_NAME_LIST_KEYWORDS = ("type", "required")
"""Keywords whose list may only contain names."""
_PYTHON_TYPES: dict[str, Any] = {
    "string": str,
    "integer": int,
    "number": int | float,
    "boolean": bool,
    "object": dict,
    "array": list,
    "null": type(None),
}
_BOUND_RULES: dict[str, tuple[Any, Any, Any]] = {
    "minimum": (int | float, lambda value: value, lambda value, bound: value >= bound),
    "maximum": (int | float, lambda value: value, lambda value, bound: value <= bound),
    "exclusiveMinimum": (int | float, lambda value: value, lambda value, bound: value > bound),
    "exclusiveMaximum": (int | float, lambda value: value, lambda value, bound: value < bound),
    "minLength": (str, len, lambda value, bound: value >= bound),
    "maxLength": (str, len, lambda value, bound: value <= bound),
    "minItems": (list, len, lambda value, bound: value >= bound),
    "maxItems": (list, len, lambda value, bound: value <= bound),
}
"""For each keyword: the type of the values that it limits, the function that measures a value, and the
function that compares the measure with the bound.
"""
