"""Skills of a folder in its lock file: a published skill is part of the contract, its text is not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support.skill_server import TEXT

if TYPE_CHECKING:
    from tests.cli.conftest import Run


@pytest.mark.process
def test_a_skill_is_part_of_the_contract_and_its_words_are_not(mcpdesk: Run, tmp_path: Path) -> None:
    skill = tmp_path / "office" / "skills" / "refunds" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text(TEXT)
    (tmp_path / "office" / "mcp.json").write_text('{"name": "office"}')
    assert mcpdesk("check", str(tmp_path / "office"), "--update").returncode == 0
    assert "sha256" not in (tmp_path / "office" / "mcp.lock.json").read_text()
    skill.write_text(f"{TEXT}And be quick.\n")
    kept = mcpdesk("check", str(tmp_path / "office"), "--lock")
    assert kept.returncode == 0 and "breaking" not in kept.stdout
    skill.write_text("Pay it back.")
    broken = mcpdesk("check", str(tmp_path / "office"), "--lock")
    assert broken.returncode == 1
    assert "breaking: skill skill://refunds/SKILL.md: was removed" in broken.stdout
