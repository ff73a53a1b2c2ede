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
    assert shown.count("A folder may set it: ") == len(SETTINGS)
    assert "Environment: MCPDESK_HOST, DZX_HOST.\n  A folder may set it: no." in shown


def test_values_a_folder_may_not_set_are_reported_with_place_and_flag(
    capsys: pytest.CaptureFixture[str], folder: Path
) -> None:
    (folder / "mcp.json").write_text('{"name": "small",\n "settings": {"host": "0.0.0.0"}}')
    (folder / "mcpdesk-env.txt").write_text("MCPDESK_API_KEY=hush-hush\nLD_PRELOAD=./x.so\n")
    assert run(["settings", str(folder), "--json"]) == 0
    shown = capsys.readouterr()
    facts = json.loads(shown.out)
    assert facts["host"] == {"value": "127.0.0.1", "origin": "default"}
    assert facts["api_key"]["origin"] == "default"
    assert "hush" not in shown.err
    assert shown.err.splitlines() == [
        "mcpdesk: mcp.json:2: settings.host: '0.0.0.0' is ignored: a server folder may not set it. "
        "Use the flag --host or the environment variable MCPDESK_HOST.",
        "mcpdesk: mcpdesk-env.txt:1: MCPDESK_API_KEY: •••• is ignored: a server folder may not set it. "
        "Use the environment variable MCPDESK_API_KEY.",
        "mcpdesk: mcpdesk-env.txt:2: LD_PRELOAD: is ignored: a server folder may not set it. "
        "Set it in the environment of mcpdesk.",
    ]
