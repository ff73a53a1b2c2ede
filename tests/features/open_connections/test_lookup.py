"""Which targets name the same server, and which options prevent the use of an open connection."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from mcpdesk.cli.reach import open_connection
from mcpdesk.client.oauth.login_options import LoginOptions, Secret
from mcpdesk.client.targets import CommandTarget, FolderTarget, UrlTarget, command_text
from mcpdesk.errors import DeskUserError
from mcpdesk.features.open_connections import FEATURE, commands, lookup, sockets
from mcpdesk.features.open_connections.commands import duration
from mcpdesk.features.open_connections.lookup import target_key
from mcpdesk.features.open_connections.plan import decoded_plan, encoded, plan_of
from mcpdesk.features.open_connections.report import ConnectionDescription, ConnectionReport, ConnectionState
from mcpdesk.transports import rendezvous
from mcpdesk.upstream.target_transport import Reach


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".cursor").mkdir()
    entry = {"command": "${WICKED}"}
    (tmp_path / ".cursor" / "mcp.json").write_text(json.dumps({"mcpServers": {"tea": entry}}))
    (tmp_path / "server.py").write_text("")
    (tmp_path / "pot").mkdir()
    return tmp_path


def test_targets_of_the_same_server_have_the_same_key(home: Path) -> None:
    for one, other in (
        ("cursor:tea", ".cursor/mcp.json:tea"),
        ("server.py", f"{home}/server.py"),
        ("pot", "./pot/"),
        ("https://example.com/mcp", "https://example.com/mcp"),
        (command_text(["npx", "a b"]), "$ npx  'a b'"),
    ):
        assert target_key(one) == target_key(other) != ""
    keys = [target_key(each) for each in ("cursor:tea", "server.py", "server.py:app", "pot", "https://a")]
    assert len(set(keys)) == 5
    before = target_key("cursor:tea")
    (home / ".cursor" / "mcp.json").write_text(json.dumps({"mcpServers": {"tea": {"command": "other"}}}))
    assert target_key("cursor:tea") not in ("", before), "a changed entry is another server"
    assert target_key("nowhere") == target_key("cursor:coffee") == ""


def described(name: str, key: str, folder: str = "") -> ConnectionDescription:
    state = ConnectionState.READY
    report = ConnectionReport(
        name, "t", "stdio", state, "", "", "", "", "", None, 1, 0.0, 0, 0, 0.0, 60, folder
    )
    return ConnectionDescription(report, key)


def test_options_for_a_new_connection_use_no_open_one(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = [described("tea", target_key("server.py"))]
    monkeypatch.setattr(lookup, "may_have_connections", lambda: True)
    monkeypatch.setattr(lookup, "open_connections", lambda: kept)
    monkeypatch.setattr(
        lookup, "description_of", lambda name: next((k for k in kept if k.report.name == name), None)
    )
    found = open_connection("server.py", Reach())
    assert found is not None and found.name == "tea"
    assert open_connection("server.py", Reach(revision="2025-06-18")) is None
    assert open_connection("server.py", Reach(token="t")) is None
    with pytest.raises(DeskUserError, match="cannot get other options"):
        open_connection("tea", Reach(headers=(("A", "b"),)))
    kept.append(described("second", target_key("server.py")))
    with pytest.raises(DeskUserError, match="2 open connections: tea, second"):
        open_connection("server.py", Reach())


def test_a_folder_of_sockets_that_others_can_open_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rendezvous, "runtime_folder", lambda: str(tmp_path))
    tmp_path.chmod(0o755)
    assert open_connection("tea", Reach()) is None
    with pytest.raises(DeskUserError, match="open to other users"):
        sockets.open_connections()


def test_names_are_not_completed_from_a_folder_that_others_can_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise DeskUserError("Open connections cannot be found: others can write to the folder.")

    monkeypatch.setattr(sockets, "open_connections", refuse)
    monkeypatch.setattr(commands, "open_connections", refuse)
    context = click.Context(commands.down_command)
    assert commands.complete_name(context, context.command.params[0], "") == []
    assert list(FEATURE.open_connection_names()) == []


def test_a_plan_arrives_with_its_secrets_and_paths() -> None:
    login = LoginOptions("id", Secret("secret"))
    reach = Reach(token="t", headers=(("A", "b"),), login=login)
    for target in (
        UrlTarget("https://a/mcp", {"X": "y"}, "sse", login=login),
        CommandTarget(("a", "b"), {"K": "v"}, Path("/tmp"), watched=(Path("/a"),)),
        FolderTarget(Path("/tmp/pot")),
    ):
        plan = plan_of("tea", "text", "key", 60, target, reach)
        assert decoded_plan(encoded(plan)) == plan


def test_a_second_connection_has_the_options_of_the_first() -> None:
    login = LoginOptions("id", Secret("secret"))
    reach = Reach("review", "t", "k", (("A", "b"),), "2025-06-18", account="work", login=login)
    target = UrlTarget("https://a/mcp", {"X": "y", "A": "c"})
    opened, options = plan_of("tea", "text", "key", 60, target, reach, "X-Key").server_and_options
    headers = {"X": "y", "A": "b", "X-Key": "k", "Authorization": "Bearer t"}
    assert opened == UrlTarget("https://a/mcp", headers, account="work", login=login)
    assert options == Reach("review", revision="2025-06-18")
    program = CommandTarget(("a",))
    assert plan_of("tea", "text", "key", 60, program, Reach()).server_and_options == (program, Reach())


def test_durations_are_short() -> None:
    assert [duration(each) for each in (0.4, 59, 1800, 7500, 86_400)] == [
        "0 s", "59 s", "30 min", "2 h 5 min", "24 h",
    ]  # fmt: skip
