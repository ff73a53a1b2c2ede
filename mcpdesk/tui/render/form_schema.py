"""JSON Schema reduced to what a form needs: references followed, `allOf` merged, null split off. Pure."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

Schema = dict[str, Any]

_DEPTH = 16
"""How deep references and `allOf` are followed before giving up."""
_UNIONS = ("anyOf", "oneOf")
_TOLD = frozenset({"password", "date", "time", "date-time"})
"""Formats the control itself makes plain."""


def resolve(schema: Any, root: Schema, depth: int = 0) -> Schema:
    """The schema with references followed and `allOf` merged; empty where that is impossible."""
    if not isinstance(schema, dict) or depth > _DEPTH:
        return {}
    shape = {word: rule for word, rule in schema.items() if word not in ("$ref", "allOf")}
    if "$ref" in schema:
        shape = merge(resolve(_target(schema["$ref"], root), root, depth + 1), shape)
    for part in schema.get("allOf", ()):
        shape = merge(shape, resolve(part, root, depth + 1))
    return shape


def merge(base: Schema, more: Schema) -> Schema:
    """Both at once; where they disagree, `more` counts. Properties and required names add up."""
    merged = base | more
    if "properties" in base and "properties" in more:
        merged["properties"] = base["properties"] | more["properties"]
    if "required" in base and "required" in more:
        merged["required"] = [*base["required"], *more["required"]]
    return merged


def split_null(shape: Schema, root: Schema) -> tuple[Schema, bool]:
    """The schema without its null alternative, and whether it had one."""
    types = shape.get("type")
    if isinstance(types, list) and "null" in types:
        rest = [name for name in types if name != "null"]
        return {**shape, "type": rest[0] if len(rest) == 1 else rest}, bool(rest)
    for word in _UNIONS:
        kept = [part for part in shape.get(word, ()) if not _is_null(resolve(part, root))]
        if kept and len(kept) < len(shape[word]):
            return _with_alternatives(shape, word, kept, root), True
    if None in shape.get("enum", ()) and len(shape["enum"]) > 1:
        return {**shape, "enum": [value for value in shape["enum"] if value is not None]}, True
    return shape, shape.get("nullable") is True


def alternatives(shape: Schema, root: Schema) -> list[Schema]:
    """The members of a union, each with what the union says besides; empty when it is none."""
    types = shape.get("type")
    if isinstance(types, list) and len(types) > 1:
        return [{**shape, "type": name} for name in types]
    for word in _UNIONS:
        parts = shape.get(word, ())
        if any(set(resolve(part, root)) - {"required", "description", "not"} for part in parts):
            rest = {
                key: rule
                for key, rule in shape.items()
                if key not in (word, "title", "description", "default")
            }
            return [merge(rest, resolve(part, root)) for part in parts]
    return []


def constants(shapes: list[Schema]) -> list[tuple[str, Any]] | None:
    """Titles and values of a union whose members are constants; None when any is not."""
    found: list[tuple[str, Any]] = []
    for shape in shapes:
        values = [shape["const"]] if "const" in shape else shape.get("enum", [])
        if not values:
            return None
        found += [(shape.get("title", "") if len(values) == 1 else "", value) for value in values]
    return found or None


def limits(shape: Schema) -> str:
    """The bounds a value has to keep, in a few words; empty when there are none."""
    low = _bound(shape, "minimum", "≥", "exclusiveMinimum", ">")
    high = _bound(shape, "maximum", "≤", "exclusiveMaximum", "<")
    if "minimum" in shape and "maximum" in shape:
        low, high = f"{shape['minimum']} … {shape['maximum']}", ""
    sizes = (_range(shape, "Length", "characters"), _range(shape, "Items", "items"))
    others = (
        f"multiple of {shape['multipleOf']}" if "multipleOf" in shape else "",
        f"matches {shape['pattern']}" if "pattern" in shape else "",
        f"format {shape['format']}" if shape.get("format", "password") not in _TOLD else "",
    )
    return ", ".join(part for part in (low, high, *sizes, *others) if part)


def _bound(shape: Schema, word: str, sign: str, strict_word: str, strict_sign: str) -> str:
    if strict_word in shape:
        return f"{strict_sign} {shape[strict_word]}"
    return f"{sign} {shape[word]}" if word in shape else ""


def _range(shape: Schema, word: str, unit: str) -> str:
    low, high = shape.get(f"min{word}"), shape.get(f"max{word}")
    if low and high:
        return f"{low} to {high} {unit}"
    if low:
        return f"at least {low} {unit}" if low != 1 else "not empty"
    return f"at most {high} {unit}" if high is not None else ""


def _target(reference: Any, root: Schema) -> Any:
    if not isinstance(reference, str) or not reference.startswith("#"):
        return {}
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


def _is_null(shape: Schema) -> bool:
    return shape.get("type") == "null" or ("const" in shape and shape["const"] is None)


def _with_alternatives(shape: Schema, word: str, kept: list[Any], root: Schema) -> Schema:
    if len(kept) > 1:
        return {**shape, word: kept}
    rest = {key: rule for key, rule in shape.items() if key != word}
    return split_null(merge(resolve(kept[0], root), rest), root)[0]
