"""Published schemas of documents about a server; each names its source and licence."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any, Literal

import jsonschema_rs

FOLDER = Path(__file__).with_name("published")
Published = Literal["server-card-v1", "server-2025-12-11", "mcpb-manifest-0.4"]


def faults(schema: Published, value: Any) -> list[str]:
    """Differences between a value and a schema, formats included."""
    return [f"{each.instance_path}: {each.message}" for each in _validator(schema).iter_errors(value)]


@cache
def _validator(schema: Published) -> jsonschema_rs.Validator:
    text = (FOLDER / f"{schema}.json").read_text()
    return jsonschema_rs.validator_for(json.loads(text), validate_formats=True, offline=True)
