"""Servers in the configurations of all clients are found, and nothing of them is started or expanded."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path

import pytest

from mcpdesk.client import config_files, discovery
from mcpdesk.client.configs.client_places import (
    CLIENTS,
    client_files,
    config_paths,
    is_client_server,
    platform_rows,
    row_paths,
)
from mcpdesk.client.discovery import FoundServers, discover, find_configured_server
from mcpdesk.client.targets import CommandTarget, find_target
from mcpdesk.errors import DeskUserError
from tests.support.made_up_home import SECRET, make_home
from tests.support.trusting import agree

Home = tuple[Path, Path, dict[str, str]]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    made = make_home(tmp_path)
    for name, value in made[2].items():
        monkeypatch.setenv(name, value)
    for name in ("CODEX_HOME", "CLAUDE_CONFIG_DIR", "COPILOT_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(made[1] / "src")
    return made


def targets(found: FoundServers) -> list[str]:
    return [each.target for each in found.servers]


def test_every_server_has_a_name_and_files_of_the_project_come_first(home: Home) -> None:
    found = discover()
    assert found.problems == () and not found.is_cut
    shadowed = f"{home[0] / '.cursor' / 'mcp.json'}:github"
    assert sorted(targets(found)) == sorted(
        (
            "claude-code:notes", "claude-code:linear", "claude-code:database", "claude-desktop:git",
            "codex:search", "codex:docs", "cursor:github", shadowed, "cursor:files", "cursor:both",
            "goose:fetch", "goose:developer", "opencode:memory", "opencode:time",
        )
    )  # fmt: skip
    by_name = {each.target: each for each in found.servers}
    assert len(by_name) == 14 and targets(found)[:2] == ["cursor:github", "opencode:time"]
    assert by_name["cursor:github"].scope == "project" and by_name[shadowed].scope == "user"
    assert [name for name, each in by_name.items() if each.server.problem] == [
        "cursor:both",
        "goose:developer",
    ]
    assert by_name["claude-code:database"].server.project == str(home[1])
    assert by_name["claude-code:linear"].transport == "sse"
    assert by_name["opencode:memory"].server.argv == ("npx", "-y", "@x/server-memory")


def test_addresses_have_no_arguments_passwords_or_queries(home: Home) -> None:
    addresses = {each.target: each.address for each in discover().servers}
    assert addresses["cursor:github"] == "mcp.example.com/mcp"
    assert addresses["goose:fetch"] == "mcp-server-fetch"
    assert not any(SECRET in each for each in addresses.values())


def test_broken_files_are_reported_and_stop_nothing(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    (home[0] / ".codex" / "config.toml").write_text("[mcp_servers\n")
    (home[1] / ".vscode").mkdir()
    (home[1] / ".vscode" / "mcp.json").write_bytes(b'{"servers": {"x": "\xff"}}')
    (home[0] / ".gemini" / "settings.json").write_text("{" + " " * 5000)
    os.mkfifo(home[1] / ".mcp.json")
    monkeypatch.setattr(config_files, "MAX_FILE_BYTES", 5000)
    found = discover()
    reasons = {each.client: each.reason for each in found.problems}
    assert reasons.keys() == {"codex", "vscode", "gemini"}
    assert "not UTF-8" in reasons["vscode"] and "at most 5000 bytes" in reasons["gemini"]
    assert ":1:" in reasons["codex"] or "line 1" in reasons["codex"]
    assert len(found.servers) == 12


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError("disk fault"), "disk fault"),
        (KeyError("source"), "reading the file triggers a bug of mcpdesk"),
    ],
)
def test_a_file_whose_content_raises_an_unexpected_error_stops_nothing(
    home: Home, monkeypatch: pytest.MonkeyPatch, error: Exception, reason: str
) -> None:
    def read(path: Path) -> config_files.ConfigFile:
        if path.name == "config.toml":
            raise error
        return config_files.read_config(path)

    monkeypatch.setattr(discovery, "read_config", read)
    found = discover()
    assert [(each.client, each.reason) for each in found.problems] == [("codex", reason)]
    assert len(found.servers) == 12


def test_a_search_has_limits(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discovery, "MAX_SERVERS", 5)
    assert len(discover().servers) == 5 and discover().is_cut
    monkeypatch.setattr(discovery, "MAX_SERVERS", 2000)
    monkeypatch.setattr(discovery, "MAX_FILES", 2)
    assert discover().files == 2 and discover().is_cut


def test_a_name_is_a_target_and_a_similar_one_is_suggested(home: Home) -> None:
    found = find_target("cursor:files", {}, lambda variable: "", agree)
    assert isinstance(found, CommandTarget) and SECRET in found.argv
    assert find_configured_server("cursor:github")[0] == home[1] / ".cursor" / "mcp.json"
    for text, hint in (
        ("cursor:fils", "Did you mean cursor:files?"),
        ("codex:zzzzz", "Its servers: search, docs."),
        ("zed:x", "`mcpdesk list` lists the servers of all clients."),
        ("curser:files", "Did you mean cursor:files?"),
    ):
        with pytest.raises(DeskUserError) as error:
            find_target(text, {}, lambda variable: "", agree)
        assert error.value.hint == hint


def test_names_in_hints_are_words_of_a_shell_without_control_characters(home: Home) -> None:
    path = home[1] / ".cursor" / "mcp.json"
    names = ["files. Run `reboot`", "files;reboot", "files\x1b]0;x\x07"]
    path.write_text(json.dumps({"mcpServers": {name: {"command": "c"} for name in names}}))
    for text in ("cursor:filess", "cursor:zzzzz", str(path), f"{path}:none"):
        with pytest.raises(DeskUserError) as error:
            find_target(text, {}, lambda variable: "", agree)
        hint = error.value.hint
        assert "files" in hint and "`" not in hint and "\x1b" not in hint
        assert not {"reboot", "reboot?", "reboot,"} & set(shlex.split(hint.removesuffix("."))), hint


def test_a_path_or_url_is_not_the_name_of_a_server(home: Home) -> None:
    (home[1] / "src" / "cursor:x").mkdir()
    for text in ("cursor:x", "http://cursor:1", "https:x", "./cursor:y", "cursor:", "cursor", "$ cursor:z"):
        assert not is_client_server(text)
    assert is_client_server("cursor:anything at all")


def test_nothing_is_returned_unless_the_person_agrees(home: Home) -> None:
    def refuse(config: config_files.ConfigFile) -> None:
        raise DeskUserError(f"{config.path.name} is not trusted")

    with pytest.raises(DeskUserError, match=r"mcp\.json is not trusted"):
        find_target("cursor:files", {}, lambda variable: "", refuse)


def test_the_table_names_a_source_and_a_date_for_every_client_and_platform(tmp_path: Path) -> None:
    assert {row.client for row in client_files()} == set(CLIENTS)
    assert all(row.source.startswith("https://") and len(row.date) == 10 for row in client_files())
    for platform in ("darwin", "linux", "win32"):
        environ = {"APPDATA": "/roaming"} if platform == "win32" else {}
        assert {row.client for row in platform_rows(platform)} == set(CLIENTS)
        (place,) = config_paths("claude-desktop", tmp_path, tmp_path, environ, platform)
        assert place.name == "claude_desktop_config.json"
        assert place.is_relative_to("/roaming") == (platform == "win32")


def test_blocks_of_continue_are_files_of_a_folder(tmp_path: Path) -> None:
    blocks = tmp_path / ".continue" / "mcpServers"
    blocks.mkdir(parents=True)
    for name in ("b.yaml", "a.json", "README.md"):
        (blocks / name).write_text("")
    row = next(each for each in client_files() if each.path.startswith("{project}/.continue"))
    assert [path.name for path in row_paths(row, tmp_path, tmp_path, {})] == ["a.json", "b.yaml"]
