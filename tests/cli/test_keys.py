"""`mcpdesk keys` lists the actions of the screen with their keys, and checks `keys.toml`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcpdesk.cli.main import run
from mcpdesk.tui.actions import ACTIONS


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MCPDESK_CONFIG_DIR", str(tmp_path))
    return tmp_path


def test_each_action_is_listed_with_its_keys(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "keys.toml").write_text('"traffic.filter" = ["ctrl+f", "?"]\n"jobs.kill" = []\n')
    code = run(["keys", "--json"])
    out, err = capfd.readouterr()
    rows = {row["id"]: row for row in json.loads(out)}
    assert list(rows) == [action.id for action in ACTIONS]
    assert rows["traffic.filter"] == {
        "id": "traffic.filter",
        "keys": ["ctrl+f", "?"],
        "scope": "traffic",
        "title": "filter",
    }
    assert rows["jobs.kill"]["keys"] == []
    assert code == 1 and "two actions have the key ?: traffic.filter and app.show_help" in err


def test_the_table_has_short_names_of_keys(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "keys.toml").write_text('"traffic.filter" = "ctrl+f"\n')
    code = run(["keys"])
    out, err = capfd.readouterr()
    assert code == 0 and err == ""
    (line,) = [line for line in out.splitlines() if line.startswith("traffic.filter ")]
    assert line.split() == ["traffic.filter", "^f", "filter"]


def test_a_broken_file_is_named_with_its_line(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (folder / "keys.toml").write_text('\n"traffic.filte" = "ctrl+f"\n')
    code = run(["keys"])
    err = capfd.readouterr().err
    assert code == 1
    assert "keys.toml, line 2: no action has the id 'traffic.filte'; did you mean 'traffic.filter'?" in err
