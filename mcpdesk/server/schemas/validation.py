"""Validation against JSON Schema. Error messages name the location of the error and the allowed values.

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
    costly_name_patterns,
    name_problem,
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

    __slots__ = ("_compiled", "_name_patterns", "_schema", "accepts")

    def __init__(
        self, schema: dict[str, Any], compiled: jsonschema_rs.Validator, names: list[Pattern] | None = None
    ) -> None:
        """`names` has the costly patterns for member names, or None if no pattern is costly."""
        self._schema = schema
        self._compiled = compiled
        self._name_patterns = names
        self.accepts: Callable[[Any], bool] = compiled.is_valid if names is None else self._accepts

    def failures(self, value: Any, limit: int = 20) -> list[SchemaFailure]:
        """Return up to `limit` errors of a value, or an empty list if the value is valid.

        Only the first parts of a large value are searched. For an error in a later part, the path is that of
        an enclosing object or list.
        """
        if self._name_patterns is None:
            return [] if self.accepts(value) else self._errors(value, limit)
        if problem := name_problem(value, self._name_patterns):
            return [SchemaFailure((), problem)]
        is_valid, problem = self._check_with_budget(value)
        if is_valid:
            return []
        failures = self._errors(value, limit)
        if problem and all(each.message != problem for each in failures):
            failures = [SchemaFailure((), problem), *failures][:limit]
        return failures

    def _accepts(self, value: Any) -> bool:
        return not name_problem(value, self._name_patterns or []) and self._check_with_budget(value)[0]

    def _check_with_budget(self, value: Any) -> tuple[bool, str]:
        """Return True if the value is valid, and the limit that a costly pattern exceeded, or ""."""
        with pattern_budget() as budget:
            is_valid = self._compiled.is_valid(value)
            return is_valid and not budget.problem, budget.problem

    def _errors(self, value: Any, limit: int) -> list[SchemaFailure]:
        """Return the errors of an invalid value, or one error without details if none is found."""
        cut_paths: list[_Path] = []
        for max_parts in MAX_SEARCHED_PARTS:
            part, cut_paths = _first_parts(value, max_parts)
            with pattern_budget():
                errors = (
                    error
                    for error in self._compiled.iter_errors(part)
                    if error.kind.name in FINAL_ERRORS or tuple(error.instance_path) not in cut_paths
                )
                all_failures = (failure for error in errors for failure in explain(error, self._schema))
                failures = list(dict.fromkeys(islice(all_failures, limit)))
            if failures or not cut_paths:
                return failures
        return [
            SchemaFailure(cut_paths[0], f"is invalid, but not in its first {MAX_SEARCHED_PARTS[-1]:,} parts")
        ]


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
        names = costly_name_patterns(schema)
        compiled = jsonschema_rs.validator_for(
            schema, offline=True, pattern_options=engine, keywords={"pattern": BoundedPattern}
        )
    except ValueError as error:
        raise SchemaError(_schema_problem(error)) from None
    return Validator(schema, compiled, names)


def _first_parts(value: Any, max_parts: int) -> tuple[Any, list[_Path]]:
    """Return a copy of the first parts of a JSON value, outer parts first, and the paths of the objects and
    lists that were cut.
    """
    root: list[Any] = []  # the value is handled like the only item of a list
    cut_paths: list[_Path] = []
    pending: deque[tuple[Any, Any, _Path]] = deque([([value], root, ())])
    while pending:
        source, target, path = pending.popleft()
        is_object = isinstance(source, dict)
        for key in islice(source if is_object else range(len(source)), max_parts):
            child = source[key]
            if isinstance(child, dict | list):
                child_copy: Any = type(child)()
                pending.append((child, child_copy, (*path, key)))
            else:
                child_copy = child
            if is_object:
                target[key] = child_copy
            else:
                target.append(child_copy)
        max_parts -= len(target)
        if len(target) < len(source):
            cut_paths.append(path[1:])
    return root[0], cut_paths


def _schema_problem(error: ValueError) -> str:
    message = str(error).partition("\n")[0]
    path = tuple(getattr(error, "instance_path", ()))
    value, library_text, _ = message.partition(" is not valid under any of the schemas")
    if path[-1:] == ("type",) and library_text:
        message = f"{value} is not a type; the types are {TYPES}"
    location = "/".join(map(str, path))
    return f"not a valid JSON Schema{' at ' + location if location else ''}: {message}"


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
            faults.append(_schema_problem(error))
            if not _delete_part(usable, tuple(getattr(error, "instance_path", ()))):
                return faults, {}
        else:
            break
    try:
        compile_schema(usable)
    except SchemaError as error:
        return [*faults, str(error)], {}
    return faults, usable


def _delete_part(schema: Any, path: tuple[str | int, ...]) -> bool:
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
    details = kind.as_dict()
    match kind.name:
        case "required":
            yield SchemaFailure((*path, details["property"]), "is required")
        case "additionalProperties" | "unevaluatedProperties":
            known_names = _known_properties(schema, error.schema_path)
            for name in details["unexpected"]:
                yield SchemaFailure((*path, name), _unknown_name_message(name, known_names))
        case "anyOf" | "oneOf":
            yield from _alternatives(path, details["context"], schema)
        case "propertyNames":
            yield SchemaFailure(path, f"has a name that is not allowed: {requirement(details['error'])}")
        case _:
            yield SchemaFailure(path, requirement(error))


def requirement(error: ValidationError) -> str:
    """Return the text of the requirement that a value violates."""
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
    matching_branches = [
        branch for branch in branches if not any(_refuses_type(error, path) for error in branch)
    ]
    if not branches:
        yield SchemaFailure(path, "matches more than one of the alternatives, but must match exactly one")
    elif len(matching_branches) == 1:
        for error in matching_branches[0]:
            yield from explain(error, schema)
    else:
        yield SchemaFailure(path, " or ".join(dict.fromkeys(requirement(branch[0]) for branch in branches)))


def _refuses_type(error: ValidationError, path: tuple[str | int, ...]) -> bool:
    return error.kind.name in ("type", "const", "enum") and tuple(error.instance_path) == path


def _known_properties(schema: dict[str, Any], schema_path: list[str | int]) -> list[str]:
    node: Any = schema
    for part in schema_path[:-1]:
        node = node[part]
    properties = node.get("properties") if isinstance(node, dict) else None
    return list(properties) if isinstance(properties, dict) else []


def _unknown_name_message(name: str, known_names: list[str]) -> str:
    import difflib

    similar_names = difflib.get_close_matches(name, known_names, n=1) if len(name) <= MAX_NAME_LENGTH else []
    if similar_names:
        return f"is not known; did you mean {similar_names[0]}?"
    if not known_names:
        return "is not known; none are allowed here"
    return f"is not known; allowed: {_shortened_list(known_names)}"


def _shortened_list(names: list[str]) -> str:
    rest = f" and {len(names) - MAX_SHOWN_NAMES} more" if len(names) > MAX_SHOWN_NAMES else ""
    return ", ".join(names[:MAX_SHOWN_NAMES]) + rest


def _json(value: Any) -> str:
    import json

    return json.dumps(value, ensure_ascii=False)


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    return TYPE_NAMES.get(type(value), "an object")


def _enumeration(details: dict[str, Any], _value: Any) -> str:
    return f"must be one of: {_shortened_list([_json(option) for option in details['options']])}"


def _count_phrase(noun: str, bound: str) -> Phrase:
    def phrase(details: dict[str, Any], _value: Any) -> str:
        limit = details["limit"]
        return f"must have at {bound} {limit} {noun}{'' if limit == 1 else 's'}"

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
    "type": lambda details, value: (
        f"must be {' or '.join(EXPECTED[each] for each in details['types'])}, not {_type_of(value)}"
    ),
    "enum": _enumeration,
    "const": lambda details, _: f"must be {_json(details['expected_value'])}",
    "minimum": lambda details, _: f"must be at least {details['limit']}",
    "maximum": lambda details, _: f"must be at most {details['limit']}",
    "exclusiveMinimum": lambda details, _: f"must be more than {details['limit']}",
    "exclusiveMaximum": lambda details, _: f"must be less than {details['limit']}",
    "multipleOf": lambda details, _: f"must be a multiple of {details['multiple_of']}",
    "minLength": _count_phrase("character", "least"),
    "maxLength": _count_phrase("character", "most"),
    "minItems": _count_phrase("item", "least"),
    "maxItems": _count_phrase("item", "most"),
    "minProperties": _count_phrase("member", "least"),
    "maxProperties": _count_phrase("member", "most"),
    "pattern": lambda details, _: details.get("message") or f"must match the pattern {details['pattern']}",
    "uniqueItems": lambda _facts, _value: "must have no item twice",
    "contains": lambda _facts, _value: "lacks an item that it must contain",
    "not": lambda _facts, _value: "matches a schema that is not allowed",
    "falseSchema": lambda _facts, _value: "is not allowed here",
    "additionalItems": lambda details, _: f"must have at most {details['limit']} items",
}


MAX_NODES = 4_000
"""Maximum number of objects and lists in a schema."""
MAX_DEPTH = 48
"""Maximum depth of nested objects and lists in a schema."""
MAX_EVALUATIONS = 512
"""Maximum number of schemas that are evaluated for one location in a value."""
MAX_CHAIN_LENGTH = 128
"""Maximum length of a chain of schemas that refer to each other for the same location."""

REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
SAME_LOCATION_KEYWORDS = ("not", "if", "then", "else")
SAME_LOCATION_LISTS = ("allOf", "anyOf", "oneOf")
SAME_LOCATION_MAPS = ("dependentSchemas", "dependencies")
"""Keywords whose schemas apply to the value itself: one schema, a list, or schemas by name."""
SUBSCHEMA_KEYWORDS = (
    *("additionalProperties", "propertyNames", "unevaluatedProperties", "items", "additionalItems"),
    *("contains", "unevaluatedItems", "contentSchema"),
)
SUBSCHEMA_LISTS = ("prefixItems", "items")
SUBSCHEMA_MAPS = ("properties", "patternProperties", "$defs", "definitions")
"""Keywords with schemas of other values, such as members: one schema, a list, or schemas by name."""


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
    pending: list[Any] = [schema]
    while pending:
        node = pending.pop()
        if not isinstance(node, dict) or id(node) in seen:
            continue
        seen.add(id(node))
        document.evaluations(node)
        pending.extend(document.same_location_schemas(node))
        pending.extend(_child_schemas(node))


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
        for part in self.same_location_schemas(node):
            total += self.evaluations(part, (*chain, key))
        if total > MAX_EVALUATIONS:
            raise SchemaError(f"one part of a value would be checked more than {MAX_EVALUATIONS} times")
        self._costs[key] = total
        return total

    def same_location_schemas(self, node: dict[str, Any]) -> Iterator[Any]:
        """Yield the schemas that apply to the same location as `node`."""
        for keyword in REFERENCES:
            if isinstance(node.get(keyword), str):
                yield self._target(node[keyword])
        yield from _parts(node, SAME_LOCATION_KEYWORDS, SAME_LOCATION_LISTS, SAME_LOCATION_MAPS)

    def _target(self, reference: str) -> Any:
        """Return the schema that a reference names. Raises: SchemaError."""
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
            node = _child_at(node, part.replace("~1", "/").replace("~0", "~"), reference)
        return node


def _child_at(node: Any, part: str, reference: str) -> Any:
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
    pending: list[Any] = [root]
    while pending:
        node = pending.pop()
        if isinstance(node, dict):
            yield from _own_anchors(node, node is root)
        pending.extend(child for child in _values(node) if isinstance(child, dict | list))


def _own_anchors(node: dict[str, Any], is_root: bool) -> Iterator[tuple[str, Any]]:
    for keyword in ("$anchor", "$dynamicAnchor"):
        if isinstance(node.get(keyword), str):
            yield node[keyword], node
    identity = node.get("$id")
    if isinstance(identity, str) and identity.startswith("#"):
        yield identity[1:], node
    elif isinstance(identity, str) and not is_root:
        raise SchemaError(f"$id {identity!r} is inside the schema; only the schema root may have one")


def _child_schemas(node: dict[str, Any]) -> Iterator[Any]:
    return _parts(node, SUBSCHEMA_KEYWORDS, SUBSCHEMA_LISTS, SUBSCHEMA_MAPS)


def _parts(
    node: dict[str, Any], singles: tuple[str, ...], lists: tuple[str, ...], maps: tuple[str, ...]
) -> Iterator[Any]:
    """Yield the schemas that a node contains under some keywords."""
    for keyword in singles:
        if isinstance(node.get(keyword), dict):
            yield node[keyword]
    for keyword in lists:
        if isinstance(node.get(keyword), list):
            yield from node[keyword]
    for keyword in maps:
        if isinstance(node.get(keyword), dict):
            yield from node[keyword].values()
