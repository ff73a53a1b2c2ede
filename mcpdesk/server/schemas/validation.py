"""JSON Schema compiled to a check that says what is wrong and where. Schemas may be 2020-12 or older drafts.

The library behind it is imported at the first schema compiled, never fetches anything and is given no schema
that could cost too much (see `schema_bounds`).
"""

from __future__ import annotations

from collections import deque
from itertools import islice
from typing import TYPE_CHECKING, Any

from mcpdesk.server.schemas.schema_bounds import SchemaError, check_bounds
from mcpdesk.server.schemas.schema_messages import SchemaFailure, explain

if TYPE_CHECKING:
    import jsonschema_rs

__all__ = ["SchemaError", "SchemaFailure", "Validator", "compile_schema"]

REGEX_SIZE_BYTES = 1 << 20
BACKTRACK_LIMIT = 10_000
LOOKED_AT = (100, 2_000)
"""Parts of a value that are looked at for what is wrong with it: at first, and if nothing is found there.

The validator makes all errors of what it is given before it hands out the first one, each with a copy of the
part it is about, so that a few megabytes of mistakes would take gigabytes and minutes.
"""
HOLDS = frozenset(
    {"type", "additionalProperties", "propertyNames", "maxItems", "maxProperties", "uniqueItems"}
)
"""What is wrong with the beginning of an object or a list is wrong with all of it, if it is one of these."""

_Path = tuple[str | int, ...]


class Validator:
    """One compiled schema. `accepts(value)` is the quick answer, `failures(value)` the helpful one."""

    __slots__ = ("_compiled", "_schema", "accepts")

    def __init__(self, schema: dict[str, Any], compiled: jsonschema_rs.Validator) -> None:
        self._schema = schema
        self._compiled = compiled
        self.accepts = compiled.is_valid

    def failures(self, value: Any, limit: int = 20) -> list[SchemaFailure]:
        """At most `limit` places where `value` does not fit; none when it is valid.

        Of a large value the beginning is looked at; what is wrong behind it is told without its place.
        """
        if self.accepts(value):
            return []
        cut: list[_Path] = []
        for most in LOOKED_AT:
            part, cut = _beginning(value, most)
            errors = (
                error
                for error in self._compiled.iter_errors(part)
                if error.kind.name in HOLDS or tuple(error.instance_path) not in cut
            )
            found = (failure for error in errors for failure in explain(error, self._schema))
            failures = list(dict.fromkeys(islice(found, limit)))
            if failures or not cut:
                return failures
        return [SchemaFailure(cut[0], f"does not fit; its first {LOOKED_AT[-1]:,} parts do")]


def compile_schema(schema: dict[str, Any]) -> Validator:
    """Compile a schema. The draft is what `$schema` says, 2020-12 without one.

    Raises: SchemaError when it is not a schema, refers out of itself or could cost too much.
    """
    import jsonschema_rs

    check_bounds(schema)
    linear = jsonschema_rs.RegexOptions(size_limit=REGEX_SIZE_BYTES)
    try:
        return Validator(schema, jsonschema_rs.validator_for(schema, offline=True, pattern_options=linear))
    except ValueError:
        # Look-around and back references are beyond the linear engine; the other one has a step limit.
        backtracking = jsonschema_rs.FancyRegexOptions(backtrack_limit=BACKTRACK_LIMIT)
    try:
        return Validator(
            schema, jsonschema_rs.validator_for(schema, offline=True, pattern_options=backtracking)
        )
    except ValueError as error:
        raise SchemaError(_why(error)) from None


def _beginning(value: Any, most: int) -> tuple[Any, list[_Path]]:
    """A copy of a JSON value with its first parts, outer ones before inner ones; and where some lack."""
    root: list[Any] = []
    cut: list[_Path] = []
    waiting: deque[tuple[Any, Any, _Path]] = deque([([value], root, ())])
    while waiting:
        whole, part, path = waiting.popleft()
        is_object = isinstance(whole, dict)
        for key in islice(whole if is_object else range(len(whole)), most):
            each = whole[key]
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
        if len(part) < len(whole):
            cut.append(path[1:])
    return root[0], cut


def _why(error: ValueError) -> str:
    message = str(error).partition("\n")[0]
    where = "/".join(map(str, getattr(error, "instance_path", ())))
    return f"not a valid JSON Schema{' at ' + where if where else ''}: {message}"
