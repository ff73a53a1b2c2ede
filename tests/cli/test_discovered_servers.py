"""`mcpdesk list` without a target, and servers of client configurations as targets."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from mcpdesk.cli.desk_targets import desk_targets
from mcpdesk.cli.main import run, with_command
from mcpdesk.cli.reach import similar_servers
from mcpdesk.errors import DeskUserError
from mcpdesk.upstream.target_transport import Reach
from tests.cli.conftest import Run
from tests.cli.test_completion import offered
from tests.support.made_up_home import SECRET, make_home
from tests.support.trusting import agree


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made, project, environment = make_home(tmp_path)
    for name, value in {**environment, "MCPDESK_STATE_DIR": str(tmp_path / "state")}.items():
        monkeypatch.setenv(name, value)
    for name in ("CODEX_HOME", "CLAUDE_CONFIG_DIR", "COPILOT_HOME", "MCPDESK_TRUST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(project)
    return made


def test_list_without_a_target_is_a_table_of_all_servers(
    home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (home / ".codex" / "config.toml").write_text("[mcp_servers\n")
    assert run(["list"]) == 0
    shown, messages = capfd.readouterr()
    lines = shown.splitlines()
    assert lines[0].split() == ["server", "transport", "program", "or", "url", "trusted", "file"]
    assert len(lines) == 13 and lines[1].split() == [
        "cursor:github", "http", "mcp.example.com/mcp", "no", "~/code/shop/.cursor/mcp.json",
    ]  # fmt: skip
    assert "codex:" in messages and "config.toml" in messages
    assert "cursor:both cannot be used: it needs either a command or a url" in messages
    assert SECRET not in shown + messages


def test_the_hint_names_a_server_that_can_be_used_as_a_word_of_a_shell(
    home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    servers = {
        "off": {"command": "c", "disabled": True},
        "odd": {"command": "c", "url": "https://example.com"},
        "on;reboot": {"command": "c"},
    }
    (home / "code" / "shop" / ".cursor" / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    assert run(["list"]) == 0
    assert "Use a server: mcpdesk list 'cursor:on;reboot'\n" in capfd.readouterr().err


def test_a_similar_name_in_a_hint_is_a_word_of_a_shell(home: Path) -> None:
    text = json.dumps({"mcpServers": {"files`reboot`": {"command": "c"}}})
    (home / "code" / "shop" / ".cursor" / "mcp.json").write_text(text)
    hint = similar_servers("files`reboot")
    assert "`" not in hint
    assert shlex.split(hint.removesuffix("?"))[-1] == "cursor:files'reboot'"


def test_list_as_json_says_what_is_trusted(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["trust", str(home / ".cursor" / "mcp.json"), "--yes"]) == 0
    capfd.readouterr()
    assert run(["list", "--json"]) == 0
    answer = json.loads(capfd.readouterr().out)
    assert len(answer["servers"]) == 14 and answer["problems"] == []
    trusted = [each["target"] for each in answer["servers"] if each["trusted"]]
    assert trusted[1:] == ["cursor:files", "cursor:both"] and trusted[0].endswith("mcp.json:github")
    assert answer["servers"][0] == {
        "target": "cursor:github", "client": "cursor", "name": "github", "scope": "project",
        "file": str(home / "code" / "shop" / ".cursor" / "mcp.json"), "project": "", "transport": "http",
        "address": "mcp.example.com/mcp", "trusted": False, "problem": "", "remarks": [],
        "disabled": False,
    }  # fmt: skip


def test_a_server_that_is_not_trusted_is_not_started(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(["call", "cursor:files", "anything"]) == 2
    assert "mcpdesk trust" in capfd.readouterr().err
    assert run(["call", "cursor:fils", "anything", "--json"]) == 2
    assert "cursor:files" in capfd.readouterr().err


def test_the_desk_takes_the_name_as_it_is(home: Path) -> None:
    assert with_command(["cursor:files"]) == ["desk", "cursor:files"]
    with pytest.raises(DeskUserError) as error:
        with_command(["opencod:time"])
    assert error.value.hint == "Did you mean opencode:time?"
    plans = desk_targets(["cursor:files", "codex:docs"], Reach(), agree=agree).upstreams
    assert [each.name for each in plans] == ["files", "docs"]


@pytest.mark.process
def test_a_trusted_server_answers_and_names_are_completed(home: Path, mcpdesk: Run) -> None:
    assert mcpdesk("list", "cursor:files", "--trust").returncode == 0
    assert "plain,cursor:files" in offered(mcpdesk, "list", "curs")
    assert {"plain,codex:search", "plain,codex:docs"} <= set(offered(mcpdesk, "code"))
