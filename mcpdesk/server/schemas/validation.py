"""Validation against JSON Schema, with error messages that say where the error is and what is allowed.

Schemas may be of draft 2020-12 or older. Messages never contain the value itself.

jsonschema_rs is imported when the first schema is compiled. The library never downloads anything, but it has
no time limit. A schema that doubles the work at every level, or that refers to itself at the same location,
would block or crash the interpreter. Such schemas are rejected. `costly_patterns` checks costly regular
expressions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from itertools import islice
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from msgspec import Struct

from mcpdesk.errors import DeskError
from mcpdesk.protocol.patterns import backtracking_engine, tiny_engine
from mcpdesk.server.schemas.costly_patterns import (
    BoundedPattern,
    check_long_patterns,
    check_names,
    costly_names,
    pattern_budget,
)

if TYPE_CHECKING:
    import jsonschema_rs
    from jsonschema_rs import ValidationError

    from mcpdesk.protocol.patterns import Pattern

Phrase = Callable[[dict[str, Any], Any], str]
MAX_FAULTS = 20
"""Maximum number of errors that are listed for one schema."""
TYPES = "string, number, integer, boolean, object, array and null"
MAX_SHOWN_NAMES = 12
"""Maximum number of names or values in one message."""
MAX_NAME_LENGTH = 100
"""Maximum length in characters of a name in a search for similar names."""
MAX_SEARCHED_PARTS = (100, 2_000)
"""Maximum number of parts of a value that are searched for errors, in a first and in a second pass.

The second pass is made if the first pass finds no errors. The validator creates all errors before it returns
the first one, each with a copy of the invalid part. Without a limit, a few megabytes of invalid data would
need gigabytes of memory and minutes of time.
"""
FINAL_ERRORS = frozenset(
    {"type", "additionalProperties", "propertyNames", "maxItems", "maxProperties", "uniqueItems"}
)
"""Kinds of errors that are final even if only the beginning of an object or list was checked, because further
parts cannot correct them.
"""

_Path = tuple[str | int, ...]


class SchemaFailure(Struct, frozen=True):
    """Invalid part of a value: its path of keys and indexes, and the reason as text."""

    path: tuple[str | int, ...]
    message: str


class Validator:
    """Compiled schema. `accepts(value)` is fast, and `failures(value)` lists the errors."""

    __slots__ = ("_compiled", "_names", "_schema", "accepts")

    def __init__(
        self, schema: dict[str, Any], compiled: jsonschema_rs.Validator, names: list[Pattern] | None = None
    ) -> None:
        """`names` has the costly patterns for member names, or None if no pattern is costly."""
        self._schema = schema
        self._compiled = compiled
        self._names = names
        self.accepts: Callable[[Any], bool] = compiled.is_valid if names is None else self._accepts

    def failures(self, value: Any, limit: int = 20) -> list[SchemaFailure]:
        """Return up to `limit` errors of a value, or an empty list if the value is valid.

        Only the beginning of a large value is searched. An error after that is reported without its path.
        """
        if self._names is None:
            return [] if self.accepts(value) else self._errors(value, limit)
        if problem := check_names(value, self._names):
            return [SchemaFailure((), problem)]
        is_valid, problem = self._checked(value)
        if is_valid:
            return []
        failures = self._errors(value, limit)
        if problem and all(each.message != problem for each in failures):
            failures = [SchemaFailure((), problem), *failures][:limit]
        return failures

    def _accepts(self, value: Any) -> bool:
        return not check_names(value, self._names or []) and self._checked(value)[0]

    def _checked(self, value: Any) -> tuple[bool, str]:
        """Return True if the value is valid, and the reason if a costly pattern exceeded its limit."""
        with pattern_budget() as budget:
            is_valid = self._compiled.is_valid(value)
            return is_valid and not budget.problem, budget.problem

    def _errors(self, value: Any, limit: int) -> list[SchemaFailure]:
        cut: list[_Path] = []
        for most in MAX_SEARCHED_PARTS:
            part, cut = _beginning(value, most)
            with pattern_budget():
                errors = (
                    error
                    for error in self._compiled.iter_errors(part)
                    if error.kind.name in FINAL_ERRORS or tuple(error.instance_path) not in cut
                )
                explained = (failure for error in errors for failure in explain(error, self._schema))
                failures = list(dict.fromkeys(islice(explained, limit)))
            if failures or not cut:
                return failures
        return [SchemaFailure(cut[0], f"does not fit; its first {MAX_SEARCHED_PARTS[-1]:,} parts do")]


def compile_schema(schema: dict[str, Any]) -> Validator:
    """Compile a schema. Its draft is given by `$schema`; the default is 2020-12.

    Raises: SchemaError if the schema is invalid, refers to another document, or could need too much time.
    """
    import jsonschema_rs

    check_bounds(schema)
    with suppress(ValueError):
        return Validator(
            schema, jsonschema_rs.validator_for(schema, offline=True, pattern_options=tiny_engine())
        )
    engine = backtracking_engine()
    try:
        check_long_patterns(schema)
        # An invalid schema raises an exception with an explanation.
        jsonschema_rs.validator_for(schema, offline=True, pattern_options=engine)
        names = costly_names(schema)
        compiled = jsonschema_rs.validator_for(
            schema, offline=True, pattern_options=engine, keywords={"pattern": BoundedPattern}
        )
    except ValueError as error:
        raise SchemaError(_why(error)) from None
    return Validator(schema, compiled, names)


def _beginning(value: Any, most: int) -> tuple[Any, list[_Path]]:
    """Return a copy of the first parts of a JSON value, outer parts first, and the paths that were cut."""
    root: list[Any] = []
    cut: list[_Path] = []
    waiting: deque[tuple[Any, Any, _Path]] = deque([([value], root, ())])
    while waiting:
        schema, part, path = waiting.popleft()
        is_object = isinstance(schema, dict)
        for key in islice(schema if is_object else range(len(schema)), most):
            each = schema[key]
            if isinstance(each, dict | list):
                copy: Any = type(each)()
                waiting.append((each, copy, (*path, key)))
            else:
                copy = each
            if is_object:
                part[key] = copy
            else:
                part.append(copy)
        most -= len(part)
        if len(part) < len(schema):
            cut.append(path[1:])
    return root[0], cut


def _why(error: ValueError) -> str:
    message = str(error).partition("\n")[0]
    path = tuple(getattr(error, "instance_path", ()))
    if path[-1:] == ("type",) and (sent := message.partition(" is not valid under any of the schemas"))[1]:
        message = f"{sent[0]} is not a type; the types are {TYPES}"
    where = "/".join(map(str, path))
    return f"not a valid JSON Schema{' at ' + where if where else ''}: {message}"


def schema_faults(schema: Any) -> tuple[list[str], dict[str, Any]]:
    """Return up to `MAX_FAULTS` errors of a schema, and a copy without its invalid parts.

    The library stops at the first error. Each invalid part is therefore removed before the schema is checked
    again.
    """
    import jsonschema_rs

    if not isinstance(schema, dict):
        return ["the schema must be an object"], {}
    try:
        _check_size(schema)
    except SchemaError as error:
        return [str(error)], {}
    usable: dict[str, Any] = deepcopy(schema)
    faults = list[str]()
    while len(faults) < MAX_FAULTS:
        try:
            jsonschema_rs.meta.validate(usable)
        except ValueError as error:
            faults.append(_why(error))
            if not _take_out(usable, tuple(getattr(error, "instance_path", ()))):
                return faults, {}
        else:
            break
    try:
        compile_schema(usable)
    except SchemaError as error:
        return [*faults, str(error)], {}
    return faults, usable


def _take_out(schema: Any, path: tuple[str | int, ...]) -> bool:
    """Delete the part of a schema at a path. Return False if the path is empty."""
    for step in path[:-1]:
        schema = schema[step]
    if path:
        del schema[path[-1]]
    return bool(path)


def explain(error: ValidationError, schema: dict[str, Any]) -> Iterator[SchemaFailure]:
    """Yield the failures that describe one error of the validator. `schema` is the whole document."""
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
    """Return what is allowed at the path of an error."""
    phrase = PHRASES.get(error.kind.name)
    if phrase is None:
        return str(error.message)
    return phrase(error.kind.as_dict(), error.instance)


def _alternatives(
    path: tuple[str | int, ...], branches: list[list[ValidationError]], schema: dict[str, Any]
) -> Iterator[SchemaFailure]:
    """Yield the failures of the only branch whose type matches.

    If no branch or several branches match, yield one failure that describes all branches.
    """
    branches = [branch for branch in branches if branch]
    meant = [branch for branch in branches if not any(_refuses_type(error, path) for error in branch)]
    if not branches:
        yield SchemaFailure(path, "fits more than one of the alternatives, and must fit exactly one")
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

    near = difflib.get_close_matches(name, known, n=1) if len(name) <= MAX_NAME_LENGTH else []
    if near:
        return f"is not known; did you mean {near[0]}?"
    return f"is not known; allowed: {_listed(known)}" if known else "is not known; none are allowed here"


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - MAX_SHOWN_NAMES} more" if len(names) > MAX_SHOWN_NAMES else ""
    return ", ".join(names[:MAX_SHOWN_NAMES]) + more


def _json(value: Any) -> str:
    import json

    return json.dumps(value, ensure_ascii=False)


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    return TYPE_NAMES.get(type(value), "an object")


def _enumeration(facts: dict[str, Any], _value: Any) -> str:
    return f"must be one of: {_listed([_json(option) for option in facts['options']])}"


def _counted(one: str, bound: str) -> Phrase:
    def phrase(facts: dict[str, Any], _value: Any) -> str:
        limit = facts["limit"]
        return f"must have at {bound} {limit} {one}{'' if limit == 1 else 's'}"

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
        f"must be {' or '.join(EXPECTED[each] for each in facts['types'])}, not {_type_of(value)}"
    ),
    "enum": _enumeration,
    "const": lambda facts, _: f"must be {_json(facts['expected_value'])}",
    "minimum": lambda facts, _: f"must be at least {facts['limit']}",
    "maximum": lambda facts, _: f"must be at most {facts['limit']}",
    "exclusiveMinimum": lambda facts, _: f"must be more than {facts['limit']}",
    "exclusiveMaximum": lambda facts, _: f"must be less than {facts['limit']}",
    "multipleOf": lambda facts, _: f"must be a multiple of {facts['multiple_of']}",
    "minLength": _counted("character", "least"),
    "maxLength": _counted("character", "most"),
    "minItems": _counted("item", "least"),
    "maxItems": _counted("item", "most"),
    "minProperties": _counted("member", "least"),
    "maxProperties": _counted("member", "most"),
    "pattern": lambda facts, _: facts.get("message") or f"must match the pattern {facts['pattern']}",
    "uniqueItems": lambda _facts, _value: "must have no item twice",
    "contains": lambda _facts, _value: "lacks an item that it must contain",
    "not": lambda _facts, _value: "matches a schema that is not allowed",
    "falseSchema": lambda _facts, _value: "is not allowed here",
    "additionalItems": lambda facts, _: f"must have at most {facts['limit']} items",
}


MAX_NODES = 4_000
MAX_DEPTH = 48
MAX_EVALUATIONS = 512
"""Maximum number of schemas that are evaluated for one location in a value."""
MAX_CHAIN_LENGTH = 128
"""Maximum length of a chain of schemas that refer to each other for the same location."""

REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
SAME_VALUE_KEYWORDS = ("not", "if", "then", "else")
SAME_VALUE_LISTS = ("allOf", "anyOf", "oneOf")
SAME_VALUE_MAPS = ("dependentSchemas", "dependencies")
SUBSCHEMA_KEYWORDS = (
    *("additionalProperties", "propertyNames", "unevaluatedProperties", "items", "additionalItems"),
    *("contains", "unevaluatedItems", "contentSchema"),
)
SUBSCHEMA_LISTS = ("prefixItems", "items")
SUBSCHEMA_MAPS = ("properties", "patternProperties", "$defs", "definitions")


class SchemaError(DeskError):
    """The schema cannot be used. The message contains the reason."""


def check_bounds(schema: dict[str, Any]) -> None:
    """Reject a schema that could need too much time.

    Raises: SchemaError for references to other documents, for dangling or endless references, and for too
    many nodes, levels or evaluations.
    """
    _check_size(schema)
    document = _Document(schema)
    seen: set[int] = set()
    waiting: list[Any] = [schema]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, dict) or id(node) in seen:
            continue
        seen.add(id(node))
        document.evaluations(node)
        waiting.extend(document.same_place(node))
        waiting.extend(_deeper(node))


class _Document:
    """Schema document: its anchors, and the number of evaluations of its parts."""

    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._anchors = dict(_anchors(root))
        self._costs: dict[int, int] = {}

    def evaluations(self, node: Any, chain: tuple[int, ...] = ()) -> int:
        """Return the number of schemas that apply to the same location as `node`, including `node`."""
        if not isinstance(node, dict):
            return 1
        key = id(node)
        if key in self._costs:
            return self._costs[key]
        if key in chain:
            raise SchemaError("the schema refers to itself without going deeper into the value")
        if len(chain) >= MAX_CHAIN_LENGTH:
            raise SchemaError(f"more than {MAX_CHAIN_LENGTH} schemas apply to one value through each other")
        total = 1
        for part in self.same_place(node):
            total += self.evaluations(part, (*chain, key))
        if total > MAX_EVALUATIONS:
            raise SchemaError(f"one part of a value would be checked more than {MAX_EVALUATIONS} times")
        self._costs[key] = total
        return total

    def same_place(self, node: dict[str, Any]) -> Iterator[Any]:
        """Yield the schemas that apply to the same location as `node`."""
        for word in REFERENCES:
            if isinstance(node.get(word), str):
                yield self._target(node[word])
        yield from _parts(node, SAME_VALUE_KEYWORDS, SAME_VALUE_LISTS, SAME_VALUE_MAPS)

    def _target(self, reference: str) -> Any:
        if not reference.startswith("#"):
            raise SchemaError(
                f"$ref {reference!r} leaves the schema; only references that start with # are allowed"
            )
        fragment = unquote(reference[1:])
        if fragment and not fragment.startswith("/"):
            if fragment not in self._anchors:
                raise SchemaError(f"$ref {reference!r} does not exist")
            return self._anchors[fragment]
        node: Any = self._root
        for part in fragment.split("/")[1:]:
            node = _step(node, part.replace("~1", "/").replace("~0", "~"), reference)
        return node


def _step(node: Any, part: str, reference: str) -> Any:
    if isinstance(node, dict) and part in node:
        return node[part]
    if isinstance(node, list) and part.isdecimal() and int(part) < len(node):
        return node[int(part)]
    raise SchemaError(f"$ref {reference!r} does not exist")


def _check_size(schema: dict[str, Any]) -> None:
    """Count containers level by level. This ends even if a structure contains itself."""
    level: list[Any] = [schema]
    nodes = depth = 0
    while level:
        depth += 1
        nodes += len(level)
        if depth > MAX_DEPTH:
            raise SchemaError(f"the schema is nested more than {MAX_DEPTH} levels deep")
        if nodes > MAX_NODES:
            raise SchemaError(f"the schema has more than {MAX_NODES} objects and lists")
        level = [child for node in level for child in _values(node) if isinstance(child, dict | list)]


def _values(node: Any) -> Iterator[Any]:
    return iter(node.values() if isinstance(node, dict) else node)


def _anchors(root: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    waiting: list[Any] = [root]
    while waiting:
        node = waiting.pop()
        if isinstance(node, dict):
            yield from _own_anchors(node, node is root)
        waiting.extend(child for child in _values(node) if isinstance(child, dict | list))


def _own_anchors(node: dict[str, Any], is_root: bool) -> Iterator[tuple[str, Any]]:
    for word in ("$anchor", "$dynamicAnchor"):
        if isinstance(node.get(word), str):
            yield node[word], node
    identity = node.get("$id")
    if isinstance(identity, str) and identity.startswith("#"):
        yield identity[1:], node
    elif isinstance(identity, str) and not is_root:
        raise SchemaError(f"$id {identity!r} is inside the schema; only the schema root may have one")


def _deeper(node: dict[str, Any]) -> Iterator[Any]:
    return _parts(node, SUBSCHEMA_KEYWORDS, SUBSCHEMA_LISTS, SUBSCHEMA_MAPS)


def _parts(
    node: dict[str, Any], singles: tuple[str, ...], lists: tuple[str, ...], maps: tuple[str, ...]
) -> Iterator[Any]:
    for word in singles:
        if isinstance(node.get(word), dict):
            yield node[word]
    for word in lists:
        if isinstance(node.get(word), list):
            yield from node[word]
    for word in maps:
        if isinstance(node.get(word), dict):
            yield from node[word].values()
