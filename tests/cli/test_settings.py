"""`mcpdesk settings`: every value with its origin."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcpdesk.cli.main import run
from mcpdesk.settings import SETTINGS


def output(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert run(["settings", *arguments]) == 0
    return capsys.readouterr().out


def test_every_setting_is_shown_with_value_and_origin(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PORT", "4000")
    shown = output(capsys, "--page-size", "7")
    lines = {line.split()[0]: line for line in shown.splitlines() if line}
    assert {setting.name for setting in SETTINGS} <= set(lines)
    assert lines["port"].split() == ["port", "4000", "environment", "PORT"]
    assert lines["page_size"].split() == ["page_size", "7", "flag", "--page-size"]
    assert lines["host"].split() == ["host", "127.0.0.1", "default"]


def test_place_of_the_captures_is_shown(capsys: pytest.CaptureFixture[str], own_folders: Path) -> None:
    assert f"captures       {own_folders / 'state' / 'captures'}" in output(capsys)


def test_folder_has_its_say(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    (folder / "mcpdesk-env.txt").write_text("TOOLS=false # none today\n")
    facts = json.loads(output(capsys, str(folder), "--json"))
    assert facts["page_size"] == {"value": "2", "origin": "mcp.json:1"}
    assert facts["tools"] == {"value": "false", "origin": "mcpdesk-env.txt:1 TOOLS"}


def test_secret_is_masked(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZYRA_API_KEY", "hush-hush")
    shown = output(capsys)
    assert "hush" not in shown
    assert "environment ZYRA_API_KEY" in shown


def test_explanation_covers_every_setting(capsys: pytest.CaptureFixture[str]) -> None:
    shown = output(capsys, "--explain")
    for setting in SETTINGS:
        assert setting.help in shown
        assert setting.environment[-1] in shown
