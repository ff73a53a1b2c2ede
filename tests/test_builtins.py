"""The table of built-in tools: what is published about them, and what they cost to load."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from mcpdesk.tools import BUILTINS, Home

PUBLISHED: dict[str, list[tuple[str, str, str, str]]] = {
    "Bash": [
        ("command", "string", "required", "The bash command to execute"),
        ("timeout", "integer", "optional", "Timeout in milliseconds (default: 30000)"),
    ],
    "AskUserQuestion": [
        ("questions_json", "string", "required", "JSON string with questions and options"),
    ],
}
"""Name, type, status and description of every parameter, as the table of these tools has them."""


def parameters(schema: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    required = schema["required"]
    return [
        (name, field["type"], "required" if name in required else "optional", field["description"])
        for name, field in schema["properties"].items()
    ]


@pytest.mark.parametrize("name", sorted(BUILTINS))
def test_parameters_are_those_published(name: str, tmp_path: Path) -> None:
    tool = BUILTINS[name](Home(tmp_path, tmp_path / "state"))
    assert tool.name == name
    assert parameters(tool.input_schema) == PUBLISHED[name]
    assert tool.source == "built-in" and tool.title and tool.description
    assert {"readOnlyHint", "destructiveHint", "openWorldHint"} <= tool.annotations.keys()


@pytest.mark.parametrize("name", sorted(BUILTINS))
def test_schemas_are_valid(name: str, tmp_path: Path) -> None:
    tool = BUILTINS[name](Home(tmp_path, tmp_path / "state"))
    jsonschema.Draft202012Validator.check_schema(tool.input_schema)
    assert tool.output_schema is not None
    jsonschema.Draft202012Validator.check_schema(tool.output_schema)


def test_making_tools_touches_neither_disk_nor_psutil(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from mcpdesk.tools import BUILTINS, Home\n"
        f"home = Home(Path({str(tmp_path)!r}), Path({str(tmp_path)!r}) / 'state')\n"
        "print(len([make(home) for make in BUILTINS.values()]), 'psutil' in sys.modules)"
    )
    answer = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert answer.stdout.split() == [str(len(BUILTINS)), "False"]
    assert not list(tmp_path.iterdir())
