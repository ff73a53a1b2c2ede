"""`mcpdesk check`: mistakes with file and line, and what the rest costs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from mcpdesk.cli.check import cost
from mcpdesk.link.values import CatalogueItem, ItemKind

if TYPE_CHECKING:
    from tests.cli.conftest import Run


def test_good_folder_is_listed_with_its_costs(mcpdesk: Run, folder: Path) -> None:
    finished = mcpdesk("check", str(folder))
    assert finished.returncode == 0, finished.stdout + finished.stderr
    greet = next(line for line in finished.stdout.splitlines() if "greet" in line)
    assert "tools/tools.py:3" in greet
    assert "tokens" in greet
    assert "8 items" in finished.stdout


def test_every_mistake_is_told_with_its_place(mcpdesk: Run, folder: Path) -> None:
    (folder / "tools" / "broken.py").write_text("import nothing_of_that_name\n")
    (folder / "tools" / "sync.py").write_text('def sync() -> str:\n    """No."""\n    return ""\n')
    (folder / "tools" / "typo.py").write_text("async def typo(:\n")
    finished = mcpdesk("check", str(folder))
    assert finished.returncode == 1
    assert "tools/broken.py:1: " in finished.stdout
    assert "tools/typo.py:1: " in finished.stdout
    assert "greet" in finished.stdout


def test_findings_come_as_json(mcpdesk: Run, folder: Path) -> None:
    (folder / "tools" / "broken.py").write_text("1 / 0\n")
    findings = json.loads(mcpdesk("check", str(folder), "--json").stdout)
    assert len(findings["problems"]) == 1
    assert {"kind": "prompt", "name": "summarize"}.items() <= findings["items"][-1].items()


def test_cost_counts_bytes_beyond_ascii() -> None:
    plain = CatalogueItem(ItemKind.TOOL, "t", "t", definition={"a": "x" * 100})
    wide = CatalogueItem(ItemKind.TOOL, "t", "t", definition={"a": "語" * 100})
    assert cost(plain) == (108, 30)
    assert cost(wide) == (308, 77)


def test_a_policy_for_a_tool_that_is_not_there_is_told(mcpdesk: Run, folder: Path) -> None:
    manifest = json.loads((folder / "mcp.json").read_text())
    (folder / "mcp.json").write_text(json.dumps(manifest | {"approvals": {"gret": "ask"}}))
    finished = mcpdesk("check", str(folder))
    assert finished.returncode == 1
    assert "mcp.json:1: approvals.gret: there is no tool 'gret'; did you mean greet?" in finished.stdout
