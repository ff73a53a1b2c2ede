"""Notices at a save of a folder that has a lock file."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpdesk.features import VARIABLE
from mcpdesk.features.contract.lock_file import lock_text
from mcpdesk.hosting.folder.manifest import LOCK_NAME
from mcpdesk.hosting.host import Host
from mcpdesk.hosting.hosted_folder import definitions
from mcpdesk.testing.connected_server import connected, isolated_host
from tests.support.folders import write

TOOL = """
    async def price(item: str{more}) -> str:
        \"""{told}\"""
        return "3"
    """
SKILL = """---
name: refunds
description: Process refunds as the policy says.
---
Pay it back.
"""


async def save(folder: Path, host: Host, more: str = "", told: str = "The price.") -> str:
    """Save the tool, read the folder again, and return the newest notice."""
    write(folder, {"tools/price.py": TOOL.format(more=more, told=told)})
    await host.folders["shop"].reload()
    return host.journal.notices()[-1].text


def lock(folder: Path, host: Host) -> None:
    """Write the lock file of the folder's current offer."""
    (folder / LOCK_NAME).write_text(lock_text(definitions(host.folders["shop"].server), "shop"))


async def test_a_save_is_judged_by_the_lock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"mcp.json": '{"name": "shop"}', "tools/price.py": TOOL.format(more="", told="The price.")}
    folder = write(tmp_path / "shop", files)
    host = isolated_host(folder, tmp_path / "state")
    async with connected(host):
        lock(folder, host)
        for told in ("The price.", "Another price."):
            said = await save(folder, host, ", shop: str", told)
            assert said.startswith(
                f'shop breaks {LOCK_NAME}: price: "shop" is new and required (tools/price.py:1) · reloaded'
            )
        assert "breaks" not in (await save(folder, host, ', shop: str = "this"'))
        (folder / LOCK_NAME).write_text("[")
        assert "breaks clients" in (await save(folder, host, ", shop: int"))
        await save(folder, host)
        lock(folder, host)
        monkeypatch.setenv(VARIABLE, "contract")
        assert "breaks clients" in (await save(folder, host, ", shop: int"))


async def test_a_save_breaks_a_lock_only_when_a_skill_is_published_no_more(tmp_path: Path) -> None:
    files = {"mcp.json": '{"name": "shop"}', "skills/refunds/SKILL.md": SKILL}
    folder = write(tmp_path / "office", files)
    skill = folder / "skills" / "refunds" / "SKILL.md"
    host = isolated_host(folder, tmp_path / "state")
    async with connected(host):
        lock(folder, host)
        skill.write_text(SKILL.replace("Pay it back", "Pay nothing"))
        await host.folders["shop"].reload()
        assert "breaks" not in host.journal.notices()[-1].text
        skill.write_text("Pay it back.")
        await host.folders["shop"].reload()
        said = [each.text for each in host.journal.notices() if "breaks" in each.text]
        assert f"breaks {LOCK_NAME}: skill://refunds/SKILL.md: was removed" in said[-1]
