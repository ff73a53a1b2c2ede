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
    whole = _schema(revision)
    if whole is None:
        return []
    home = "$defs" if "$defs" in whole else "definitions"
    assert definition in whole[home], f"{revision} has no {definition}"
    validator = _validator(revision, f"#/{home}/{definition}")
    return [
        f"{definition}{error.json_path[1:]}: {error.message[:300]}" for error in validator.iter_errors(value)
    ]


def strangers(revision: str, definition: str, value: dict[str, Any]) -> list[str]:
    """Members of an object that its definition does not name: legal, but newer than the revision."""
    whole = _schema(revision)
    if whole is None:
        return []
    named = (whole.get("$defs") or whole["definitions"])[definition]["properties"]
    return [f"{definition}.{name} is not of {revision}" for name in value if name not in named]


def knows(revision: str, definition: str) -> bool:
    """True if a revision has a definition."""
    whole = _schema(revision) or {}
    return definition in whole.get("$defs", whole.get("definitions", {}))


@lru_cache
def _schema(revision: str) -> dict[str, Any] | None:
    path = SCHEMAS / f"{revision}.json"
    if not path.is_file():
        return None
    whole = json.loads(path.read_text())
    _widen(whole)
    return dict(whole)


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
    whole = _schema(revision)
    assert whole is not None
    kind = jsonschema.validators.validator_for(whole)
    return kind(
        {**whole, "$ref": reference} if kind is not jsonschema.Draft7Validator else _rooted(whole, reference)
    )


def _rooted(whole: dict[str, Any], reference: str) -> dict[str, Any]:
    """Wrap a reference, because draft 7 ignores the members beside a `$ref`."""
    return {"allOf": [{"$ref": reference}], "definitions": whole["definitions"]}
