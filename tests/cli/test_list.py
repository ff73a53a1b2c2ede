"""`mcpdesk list`: everything a server offers, over all pages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.cli.conftest import Run


def test_every_shelf_is_listed_over_all_pages(mcpdesk: Run, folder: Path) -> None:
    finished = mcpdesk("list", str(folder))
    assert finished.returncode == 0, finished.stderr
    for name in ("greet", "add", "refuse", "chatter", "wait", "resource://notes", "summarize"):
        assert f"\n  {name} " in finished.stdout
    assert "Greet somebody." in finished.stdout


def test_definitions_come_as_json(mcpdesk: Run, folder: Path) -> None:
    shelves = json.loads(mcpdesk("list", str(folder), "--json").stdout)
    assert {tool["name"] for tool in shelves["tools"]} == {"greet", "add", "refuse", "chatter", "wait"}
    assert shelves["prompts"][0]["arguments"][0]["name"] == "text"


def test_empty_folder_offers_nothing(mcpdesk: Run, tmp_path: Path) -> None:
    assert mcpdesk("list", str(tmp_path)).stdout == "nothing\n"


def test_what_is_not_offered_is_listed_with_its_reason(mcpdesk: Run, folder: Path) -> None:
    lacking = {"stage": "go", "command": "fast", "run": ["no-such-program-here"]}
    modes = {"small": {"tools": ["greet", "go-fast"]}}
    (folder / "mcp.json").write_text(json.dumps({"name": "small", "commands": [lacking], "modes": modes}))
    reason = "needs the program no-such-program-here, which is not installed or not in PATH"
    finished = mcpdesk("list", str(folder))
    assert finished.stdout.endswith(f"\n\nunavailable\n  tool go-fast  {reason}\n")
    shelves = json.loads(mcpdesk("list", str(folder), "--json", "--mode", "small").stdout)
    assert [tool["name"] for tool in shelves["tools"]] == ["greet"]
    assert shelves["unavailable"] == [{"kind": "tool", "name": "go-fast", "reason": reason}]
    refused = mcpdesk("call", str(folder), "add", "a:=1", "b:=1", "--mode", "small")
    assert refused.returncode == 4 and "Unknown tool: add" in refused.stderr
