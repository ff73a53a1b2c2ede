"""The tools of the peers, equal to those of the measured folder."""

from __future__ import annotations

from typing import Any

TEXT = {"type": "string"}
TOOLS: list[dict[str, Any]] = [
    {
        "name": "echo",
        "description": "Say it again.",
        "inputSchema": {"type": "object", "properties": {"text": TEXT}, "required": ["text"]},
    },
    {
        "name": "tick",
        "description": "Report progress `count` times.",
        "inputSchema": {
            "type": "object",
            "properties": {"count": {"type": "integer"}},
            "required": ["count"],
        },
    },
]


def tools(more: int) -> list[dict[str, Any]]:
    """The two working tools, and `more` others for the list."""
    return TOOLS + [_one_of_many(number) for number in range(more)]


def _one_of_many(number: int) -> dict[str, Any]:
    return {
        "name": f"tool_{number:04}",
        "description": f"Say it again, number {number}.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "text": {**TEXT, "description": "What to say."},
                "count": {"type": "integer", "default": 1, "description": "How many times."},
                "loud": {"type": "boolean", "default": False, "description": "Whether to shout."},
            },
            "required": ["text"],
            "additionalProperties": False,
        },
    }
