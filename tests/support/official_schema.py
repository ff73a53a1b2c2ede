"""The published JSON Schemas of the protocol, if a copy is beside the checkout."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import jsonschema

SCHEMAS = Path(__file__).parents[2].parent / "shared" / "mcp" / "schema"
NARROW = ["string", "integer", "boolean"]
"""Type in the schemas of values that are numbers in the prose and in the TypeScript source."""


def problems(revision: str, definition: str, value: Any) -> list[str]:
    """Differences between a value and a definition of a revision; empty if the schema is not available."""
    full_schema = _schema(revision)
    if full_schema is None:
        return []
    home = "$defs" if "$defs" in full_schema else "definitions"
    assert definition in full_schema[home], f"{revision} has no {definition}"
    validator = _validator(revision, f"#/{home}/{definition}")
    return [
        f"{definition}{error.json_path[1:]}: {error.message[:300]}" for error in validator.iter_errors(value)
    ]


def strangers(revision: str, definition: str, value: dict[str, Any]) -> list[str]:
    """Members of an object that its definition does not name: legal, but newer than the revision."""
    full_schema = _schema(revision)
    if full_schema is None:
        return []
    named = (full_schema.get("$defs") or full_schema["definitions"])[definition]["properties"]
    return [f"{definition}.{name} is not of {revision}" for name in value if name not in named]


def knows(revision: str, definition: str) -> bool:
    """True if a revision has a definition."""
    full_schema = _schema(revision) or {}
    return definition in full_schema.get("$defs", full_schema.get("definitions", {}))


@lru_cache
def _schema(revision: str) -> dict[str, Any] | None:
    path = SCHEMAS / f"{revision}.json"
    if not path.is_file():
        return None
    document = json.loads(path.read_text())
    _widen(document)
    return dict(document)


def _widen(node: Any) -> None:
    if isinstance(node, dict):
        if node.get("type") == NARROW:
            node["type"] = ["string", "number", "boolean"]
        for value in node.values():
            _widen(value)
    elif isinstance(node, list):
        for value in node:
            _widen(value)


@lru_cache
def _validator(revision: str, reference: str) -> Any:
    full_schema = _schema(revision)
    assert full_schema is not None
    kind = jsonschema.validators.validator_for(full_schema)
    return kind(
        {**full_schema, "$ref": reference}
        if kind is not jsonschema.Draft7Validator
        else _rooted(full_schema, reference)
    )


def _rooted(schema: dict[str, Any], reference: str) -> dict[str, Any]:
    """Wrap a reference, because draft 7 ignores the members beside a `$ref`."""
    return {"allOf": [{"$ref": reference}], "definitions": schema["definitions"]}
