"""A tool's input schema in the dialect model APIs read: 2020-12, one object at the root, self-contained.

What cannot be said there is left out, and so is what is no schema: an API refuses a whole request for one bad
tool. The server checks the arguments against its own schema in any case.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from mcpdesk.bridge.names import Names

DEEPEST = 20
"""Levels of subschemas; what is below is described no further."""
MOST_GROUPS = 8
MOST_PARTS = 1_000
"""Parts of one root that are looked at: definitions may refer to each other without end."""

_DROPPED = frozenset(
    {"$schema", "$id", "id", "$comment", "$anchor", "$dynamicAnchor", "$dynamicRef", "$vocabulary",
     "additionalItems", "dependencies", "definitions", "nullable"}
)  # fmt: skip
_BY_NAME = frozenset({"properties", "patternProperties", "$defs", "dependentSchemas"})
_ONE = frozenset(
    {"items", "additionalProperties", "contains", "not", "if", "then", "else", "propertyNames",
     "unevaluatedItems", "unevaluatedProperties"}
)  # fmt: skip
_SEVERAL = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_ROOT_ONLY_IN_PARTS = ("allOf", "anyOf", "oneOf", "not", "enum", "const", "if", "then", "else", "$ref")
"""Keywords that no API takes at the root."""


class ModelSchema:
    """An input schema for a model. `schema` is what the API gets; `names` maps its arguments back;
    `groups` are alternative sets of required arguments, which the root of a schema cannot say; `faulty` are
    the arguments and keywords whose description is no JSON Schema."""

    def __init__(self, source: Mapping[str, Any], arguments: Callable[[list[str]], Names]) -> None:
        clean = _modern(source, 0)
        root = _Root(clean)
        properties: dict[str, Any] = root.properties
        self.names = arguments(list(properties))
        self.groups = [[self.names.legal(each) for each in group] for group in root.groups]
        schema = {key: value for key, value in clean.items() if key not in _ROOT_ONLY_IN_PARTS}
        schema |= {
            "type": "object",
            "properties": {self.names.legal(name): each for name, each in properties.items()},
        }
        schema.pop("required", None)
        if root.required:
            schema["required"] = [self.names.legal(name) for name in properties if name in root.required]
        self.schema = _without_dead_ends(schema, schema)
        self.faulty = _drop_faulty(self.schema)

    @property
    def hint(self) -> str:
        """The groups in words, for the description; empty without any."""
        if not self.groups:
            return ""
        told = [" and ".join(group) for group in self.groups[:MOST_GROUPS]]
        return f"Give one of: {'; '.join(told)}."


class _Root:
    """What all parts of a schema's root say together of the arguments."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._whole = schema
        self._left = MOST_PARTS
        self.properties: dict[str, Any] = {}
        self.groups: list[list[str]] = []
        self.required = self._take(schema, 0)

    def _take(self, part: Any, depth: int) -> set[str]:
        """Collect the arguments of one part; returns those it requires for sure."""
        self._left -= 1
        if not isinstance(part, dict) or depth > DEEPEST or self._left < 0:
            return set()
        for name, each in _mapping(part.get("properties")).items():
            known = self.properties.get(name)
            self.properties[name] = each if known is None or known == each else _either(known, each)
        required = {name for name in _list(part.get("required")) if isinstance(name, str)}
        if isinstance(part.get("$ref"), str):
            required |= self._take(_resolved(self._whole, part["$ref"]), depth + 1)
        for each in _list(part.get("allOf")):
            required |= self._take(each, depth + 1)
        for keyword in ("anyOf", "oneOf"):
            branches = [self._take(each, depth + 1) for each in _list(part.get(keyword))]
            if not branches:
                continue
            common = set.intersection(*branches)
            required |= common
            groups = [sorted(branch - common) for branch in branches]
            if all(groups):
                self.groups += groups
        for keyword in ("then", "else"):
            self._take(part.get(keyword), depth + 1)
        for name in required - self.properties.keys():
            self.properties[name] = {}
        return required


def _either(one: Any, other: Any) -> dict[str, Any]:
    known = one["anyOf"] if isinstance(one, dict) and list(one) == ["anyOf"] else [one]
    return {"anyOf": known if other in known else [*known, other]}


def _modern(schema: Any, depth: int) -> Any:
    """A schema of any draft as one of 2020-12."""
    if isinstance(schema, bool):
        return {} if schema else {"not": {}}
    if not isinstance(schema, Mapping) or depth > DEEPEST:
        return {}
    fresh: dict[str, Any] = {}
    for keyword, value in schema.items():
        if keyword in _DROPPED or keyword.startswith("x-"):
            continue
        if keyword in _BY_NAME:
            fresh[keyword] = {name: _modern(each, depth + 1) for name, each in _mapping(value).items()}
        elif keyword in _SEVERAL:
            fresh[keyword] = [_modern(each, depth + 1) for each in _list(value)]
        elif keyword in _ONE:
            is_list = isinstance(value, list)
            fresh[keyword] = value if isinstance(value, bool | list) else _modern(value, depth + 1)
            if is_list:  # a tuple of the older drafts
                fresh["prefixItems"] = [_modern(each, depth + 1) for each in value]
                fresh["items"] = _modern(schema.get("additionalItems", True), depth + 1)
        elif not _is_deeper(value, DEEPEST):
            fresh[keyword] = value
    _definitions(schema, fresh, depth)
    _bounds(fresh)
    _dependencies(schema, fresh, depth)
    _type(schema, fresh)
    return fresh


def _definitions(schema: Mapping[str, Any], fresh: dict[str, Any], depth: int) -> None:
    older = _mapping(schema.get("definitions"))
    if older:
        named = {name: _modern(each, depth + 1) for name, each in older.items()}
        fresh["$defs"] = named | fresh.get("$defs", {})
    reference = fresh.get("$ref")
    if reference is None:
        return
    if isinstance(reference, str) and reference.startswith("#"):
        fresh["$ref"] = reference.replace("#/definitions/", "#/$defs/", 1)
    else:
        del fresh["$ref"]  # it leads out of the schema


def _bounds(fresh: dict[str, Any]) -> None:
    """Bounds that were switches in the oldest draft."""
    for switch, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(fresh.get(switch), bool):
            is_on = fresh.pop(switch)
            if is_on and bound in fresh:
                fresh[switch] = fresh.pop(bound)


def _dependencies(schema: Mapping[str, Any], fresh: dict[str, Any], depth: int) -> None:
    for name, each in _mapping(schema.get("dependencies")).items():
        if isinstance(each, list):
            fresh.setdefault("dependentRequired", {})[name] = each
        else:
            fresh.setdefault("dependentSchemas", {})[name] = _modern(each, depth + 1)


def _type(schema: Mapping[str, Any], fresh: dict[str, Any]) -> None:
    kind = fresh.get("type")
    if schema.get("nullable") is True and isinstance(kind, str):
        kind = fresh["type"] = [kind, "null"]
    if (kind == "array" or (isinstance(kind, list) and "array" in kind)) and "items" not in fresh:
        fresh["items"] = {}  # one API refuses arrays of anything unless that is said


def _without_dead_ends(part: Any, whole: dict[str, Any]) -> Any:
    """The schema without references to what is no longer in it."""
    if isinstance(part, list):
        return [_without_dead_ends(each, whole) for each in part]
    if not isinstance(part, dict):
        return part
    kept = {}
    for key, value in part.items():
        if key == "$ref" and isinstance(value, str) and _resolved(whole, value) is None:
            continue
        kept[key] = _without_dead_ends(value, whole)
    return kept


def _drop_faulty(schema: dict[str, Any]) -> list[str]:
    """Take out what is no JSON Schema; returns the names of arguments and keywords that were touched."""
    from jsonschema_rs import meta

    if meta.is_valid(schema):
        return []
    arguments = schema["properties"]
    faulty = [name for name, each in arguments.items() if not meta.is_valid(each)]
    for name in faulty:
        about = arguments[name].get("description") if isinstance(arguments[name], dict) else None
        arguments[name] = {"description": about} if isinstance(about, str) else {}
    words = [
        word for word, value in schema.items() if word != "properties" and not meta.is_valid({word: value})
    ]
    for word in words:
        del schema[word]
    return faulty + words


def _resolved(whole: Any, reference: str) -> Any:
    """What a local reference points to; None when there is nothing."""
    found = whole
    for step in reference.removeprefix("#").split("/")[1:]:
        step = step.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and step.isdigit() and int(step) < len(found):
            found = found[int(step)]
        elif isinstance(found, Mapping) and step in found:
            found = found[step]
        else:
            return None
    return found


def _is_deeper(value: Any, levels: int) -> bool:
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list) else ()
    return bool(inner) and (levels == 0 or any(_is_deeper(each, levels - 1) for each in inner))


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
