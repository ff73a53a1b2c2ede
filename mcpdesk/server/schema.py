"""JSON Schema compiled to a check that says what is wrong and where. Schemas may be 2020-12 or older drafts.

The library behind it is imported at the first schema compiled, never fetches anything and is given no schema
that could cost too much (see `schema_bounds`).
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from mcpdesk.server.schema_bounds import SchemaError, check_bounds
from mcpdesk.server.schema_words import Failure, explain

if TYPE_CHECKING:
    import jsonschema_rs

__all__ = ["Failure", "SchemaError", "Validator", "compile_schema"]

REGEX_SIZE_BYTES = 1 << 20
BACKTRACK_LIMIT = 10_000


class Validator:
    """One compiled schema. `accepts(value)` is the quick answer, `failures(value)` the helpful one."""

    __slots__ = ("_compiled", "_schema", "accepts")

    def __init__(self, schema: dict[str, Any], compiled: jsonschema_rs.Validator) -> None:
        self._schema = schema
        self._compiled = compiled
        self.accepts = compiled.is_valid

    def failures(self, value: Any, limit: int = 20) -> list[Failure]:
        """At most `limit` places where `value` does not fit; none when it is valid."""
        errors = self._compiled.iter_errors(value)
        found = (failure for error in errors for failure in explain(error, self._schema))
        return list(dict.fromkeys(islice(found, limit)))


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


def _why(error: ValueError) -> str:
    message = str(error).partition("\n")[0]
    where = "/".join(map(str, getattr(error, "instance_path", ())))
    return f"not a valid JSON Schema{' at ' + where if where else ''}: {message}"
