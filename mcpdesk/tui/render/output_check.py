"""Structured results against the schema the tool announced."""

from __future__ import annotations

from typing import Any

from mcpdesk.tui.render.form_schema import Schema
from mcpdesk.tui.render.json_text import Path

MAX_MARKS = 50


def marks(schema: Schema | None, value: Any) -> dict[Path, str]:
    """Where a value does not fit its schema, and why; empty when it does, or when the schema is unusable."""
    if not schema or value is None:
        return {}
    import jsonschema_rs

    try:
        validator = jsonschema_rs.validator_for(schema, offline=True)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError):
        return {}
    found: dict[Path, str] = {}
    for failure in validator.iter_errors(value):
        found.setdefault(tuple(failure.instance_path), failure.message)
        if len(found) >= MAX_MARKS:
            break
    return found
