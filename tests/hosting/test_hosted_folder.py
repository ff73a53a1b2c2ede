"""A living server follows its folder; what breaks keeps serving."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpdesk.hosting.hosted_folder import HostedFolder
from mcpdesk.hosting.journal import Journal, Severity
from mcpdesk.settings import resolve


def make(folder: Path) -> tuple[HostedFolder, Journal]:
    journal = Journal()
    return HostedFolder(folder, resolve({}, {}).settings, journal), journal


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir()
    (tmp_path / "mcp.json").write_text(
        '{"name": "own", "builtins": ["AskUserQuestion", "Nope"]}', encoding="utf-8"
    )
    (tmp_path / "tools/a.py").write_text(
        'async def hello() -> str:\n    """Hi."""\n    return "hi"\n', encoding="utf-8"
    )
    return tmp_path


def test_builtins_join_the_folders_tools_and_unknown_ones_are_reported(folder: Path) -> None:
    hosted, journal = make(folder)
    assert {tool.name for tool in hosted.server.tools} == {"hello", "AskUserQuestion"}
    (refused,) = hosted.server.tools.unavailable
    assert refused.name == "Nope"
    assert "AskUserQuestion" in refused.reason
    assert any("Nope" in line.text for line in journal.lines())


def test_a_saved_change_is_served_and_said(folder: Path) -> None:
    hosted, journal = make(folder)
    (folder / "tools/b.py").write_text(
        'async def more() -> str:\n    """More."""\n    return ""\n', encoding="utf-8"
    )
    assert hosted.reload().added == ("more",)
    assert "1 added: more" in journal.notices()[-1].text
    assert not hosted.reload()
    assert len(journal.notices()) == 1


def test_a_broken_file_leaves_the_previous_version_serving(folder: Path) -> None:
    hosted, journal = make(folder)
    (folder / "tools/a.py").write_text("async def hello(:\n", encoding="utf-8")
    hosted.reload()
    assert hosted.server.tools.get("hello") is not None
    assert journal.notices()[-1].severity is Severity.ERROR
    assert any("tools/a.py:1" in line.where for line in journal.lines())


def test_a_broken_manifest_leaves_everything_serving(folder: Path) -> None:
    hosted, journal = make(folder)
    (folder / "mcp.json").write_text('{"name": "own",', encoding="utf-8")
    assert not hosted.reload()
    assert len(hosted.server.tools) == 2
    assert "mcp.json:1" in journal.notices()[-1].text
