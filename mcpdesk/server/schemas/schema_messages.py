"""What is wrong with a value, in words that name what is allowed and never repeat the value itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError

Phrase = Callable[[dict[str, Any], Any], str]
MAX_SHOWN = 12
"""Names or values listed in one message."""
LONGEST_NAME = 100
"""Characters beyond which a name is not compared with those there are: that grows faster than the name."""


class SchemaFailure(Struct, frozen=True):
    """One place where a value does not fit: keys and indexes from the root, and why in words."""

    path: tuple[str | int, ...]
    message: str


def explain(error: ValidationError, schema: dict[str, Any]) -> Iterator[SchemaFailure]:
    """The failures one error of the validator stands for; `schema` is the whole document."""
    path = tuple(error.instance_path)
    kind = error.kind
    facts = kind.as_dict()
    match kind.name:
        case "required":
            yield SchemaFailure((*path, facts["property"]), "is required")
        case "additionalProperties" | "unevaluatedProperties":
            known = _known_properties(schema, error.schema_path)
            for name in facts["unexpected"]:
                yield SchemaFailure((*path, name), _unknown(name, known))
        case "anyOf" | "oneOf":
            yield from _alternatives(path, facts["context"], schema)
        case "propertyNames":
            yield SchemaFailure(path, f"has a name that is not allowed: {words(facts['error'])}")
        case _:
            yield SchemaFailure(path, words(error))


def words(error: ValidationError) -> str:
    """What is allowed where one error occurred."""
    phrase = PHRASES.get(error.kind.name)
    if phrase is None:
        return str(error.message)
    return phrase(error.kind.as_dict(), error.instance)


def _alternatives(
    path: tuple[str | int, ...], branches: list[list[ValidationError]], schema: dict[str, Any]
) -> Iterator[SchemaFailure]:
    """Speak of the branch that was meant, if one can be told: the only one whose type fits at all."""
    branches = [branch for branch in branches if branch]
    meant = [branch for branch in branches if not any(_refuses_type(error, path) for error in branch)]
    if not branches:
        yield SchemaFailure(path, "fits more than one of the alternatives, and has to fit exactly one")
    elif len(meant) == 1:
        for error in meant[0]:
            yield from explain(error, schema)
    else:
        yield SchemaFailure(path, " or ".join(dict.fromkeys(words(branch[0]) for branch in branches)))


def _refuses_type(error: ValidationError, path: tuple[str | int, ...]) -> bool:
    return error.kind.name in ("type", "const", "enum") and tuple(error.instance_path) == path


def _known_properties(schema: dict[str, Any], schema_path: list[str | int]) -> list[str]:
    node: Any = schema
    for part in schema_path[:-1]:
        node = node[part]
    properties = node.get("properties") if isinstance(node, dict) else None
    return list(properties) if isinstance(properties, dict) else []


def _unknown(name: str, known: list[str]) -> str:
    import difflib

    near = difflib.get_close_matches(name, known, n=1) if len(name) <= LONGEST_NAME else []
    if near:
        return f"is not known; did you mean {near[0]}?"
    return f"is not known; allowed: {_listed(known)}" if known else "is not known; none are allowed here"


def _listed(values: list[Any]) -> str:
    shown = [value if isinstance(value, str) else _json(value) for value in values[:MAX_SHOWN]]
    more = len(values) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")


def _json(value: Any) -> str:
    import json

    return json.dumps(value, ensure_ascii=False)


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    return TYPE_NAMES.get(type(value), "an object")


def _enumeration(facts: dict[str, Any], _value: Any) -> str:
    options = facts["options"]
    more = f" and {len(options) - MAX_SHOWN} more" if len(options) > MAX_SHOWN else ""
    return f"has to be one of: {', '.join(map(_json, options[:MAX_SHOWN]))}{more}"


def _counted(one: str, bound: str) -> Phrase:
    def phrase(facts: dict[str, Any], _value: Any) -> str:
        limit = facts["limit"]
        return f"has to have at {bound} {limit} {one}{'' if limit == 1 else 's'}"

    return phrase


TYPE_NAMES = {bool: "a boolean", int: "an integer", float: "a number", str: "a string", list: "an array"}
EXPECTED = {
    "boolean": "true or false",
    "integer": "an integer",
    "number": "a number",
    "string": "a string",
    "array": "an array",
    "object": "an object",
    "null": "null",
}
PHRASES: dict[str, Phrase] = {
    "type": lambda facts, value: (
        f"has to be {' or '.join(EXPECTED[each] for each in facts['types'])}, not {_type_of(value)}"
    ),
    "enum": _enumeration,
    "const": lambda facts, _: f"has to be {_json(facts['expected_value'])}",
    "minimum": lambda facts, _: f"has to be at least {facts['limit']}",
    "maximum": lambda facts, _: f"has to be at most {facts['limit']}",
    "exclusiveMinimum": lambda facts, _: f"has to be more than {facts['limit']}",
    "exclusiveMaximum": lambda facts, _: f"has to be less than {facts['limit']}",
    "multipleOf": lambda facts, _: f"has to be a multiple of {facts['multiple_of']}",
    "minLength": _counted("character", "least"),
    "maxLength": _counted("character", "most"),
    "minItems": _counted("item", "least"),
    "maxItems": _counted("item", "most"),
    "minProperties": _counted("member", "least"),
    "maxProperties": _counted("member", "most"),
    "pattern": lambda facts, _: f"has to match the pattern {facts['pattern']}",
    "uniqueItems": lambda _facts, _value: "has to have no item twice",
    "contains": lambda _facts, _value: "lacks an item that it has to contain",
    "not": lambda _facts, _value: "has a form that is ruled out",
    "falseSchema": lambda _facts, _value: "is not allowed here",
    "additionalItems": lambda facts, _: f"has to have at most {facts['limit']} items",
}
