"""Tests of the targets that the desk command adds, and of their names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcpdesk.cli.desk_targets import DeskTargets, desk_targets, typed_targets
from mcpdesk.client.targets import BrokenTarget, CommandTarget, UrlTarget, command_text, find_target
from mcpdesk.errors import DeskUserError
from mcpdesk.paths import sample_servers
from mcpdesk.settings import resolve
from mcpdesk.upstream.target_transport import Reach
from mcpdesk.upstream.upstream import UpstreamPlan
from tests.support import odd_server
from tests.support.terminal import Desk
from tests.support.trusting import agree

SETTINGS = resolve({"trust": True}, {}).settings
HELLO = sample_servers() / "hello"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (command_text(["npx", "-y", "@modelcontextprotocol/server-everything@2.1"]), "server-everything"),
        (command_text(["python3", "-u", "/srv/weather.py", "--fast"]), "weather"),
        (command_text(["docker", "run", "-i", "mcp/git"]), "git"),
        (command_text(["./my server"]), "my-server"),
        ("https://example.com/mcp", "example.com"),
        ("ws://[::1]:9/ws", "1"),
    ],
)
def test_a_server_is_named_after_its_program_or_host(text: str, name: str) -> None:
    assert [each.name for each in desk_targets([text], Reach(), agree=agree).upstreams] == [name]


def test_every_server_of_a_file_comes_onto_the_desk_a_broken_one_with_its_problem(tmp_path: Path) -> None:
    path = tmp_path / ".mcp.json"
    servers = {
        "one": {"command": "run-one", "cwd": "sub"},
        "two": {"url": "https://example.com/mcp", "headers": {"X-A": "b"}},
        "bad": {"args": []},
        "unset": {"command": "c", "env": {"KEY": "${SURELY_NOT_SET}"}},
    }
    path.write_text(json.dumps({"mcpServers": servers}))
    found = desk_targets(
        [str(path), str(HELLO), "https://one.test"], Reach(headers=(("X-C", "d"),)), agree=agree
    )
    assert found.folders == (HELLO,)
    targets = {each.name: each.target for each in found.upstreams}
    assert list(targets) == ["one", "two", "bad", "unset", "one.test"]
    one, two, bad, unset = (targets[name] for name in ("one", "two", "bad", "unset"))
    assert isinstance(one, CommandTarget) and one.folder == tmp_path / "sub"
    assert isinstance(two, UrlTarget) and two.headers == {"X-A": "b"}
    assert isinstance(bad, BrokenTarget) and "needs either a command or a url" in bad.problem
    assert isinstance(unset, BrokenTarget) and "${SURELY_NOT_SET}" in unset.problem
    assert [bool(each.reach.headers) for each in found.upstreams] == [False, True, True, True, True]
    assert [each.leads for each in found.upstreams] == [True, True, True, True, False], "before the folder"


def test_a_disabled_entry_of_a_file_is_neither_expanded_nor_started(tmp_path: Path) -> None:
    path = tmp_path / ".mcp.json"
    servers = {
        "off": {"command": "run-off", "env": {"KEY": "${SURELY_NOT_SET}"}, "disabled": True},
        "other": {"url": "https://example.com/mcp", "enabled": False},
        "on": {"command": "run-on", "disabled": False},
    }
    path.write_text(json.dumps({"mcpServers": servers}))
    targets = {each.name: each.target for each in desk_targets([str(path)], Reach(), agree=agree).upstreams}
    assert targets["off"] == targets["other"] == BrokenTarget(f"it is disabled in {path}", is_disabled=True)
    assert isinstance(targets["on"], CommandTarget)
    named = desk_targets([f"{path}:other"], Reach(), agree=agree).upstreams
    assert isinstance(named[0].target, UrlTarget), "the person named this entry"


def test_the_only_entry_of_a_file_is_not_used_without_its_name_if_it_is_disabled(tmp_path: Path) -> None:
    path = tmp_path / ".mcp.json"
    path.write_text(json.dumps({"mcpServers": {"off": {"command": "run-off", "disabled": True}}}))
    with pytest.raises(DeskUserError, match=r"off is disabled in .*\.mcp\.json") as raised:
        find_target(str(path), {}, lambda variable: "", agree)
    assert raised.value.hint == f"Use it anyway: {path}:off."


def test_the_same_name_gets_a_number() -> None:
    found = desk_targets(["https://a.test/x", "https://a.test/y"], Reach(), agree=agree)
    assert [each.name for each in found.upstreams] == ["a.test", "a.test-2"]


def test_what_is_nothing_is_told(tmp_path: Path) -> None:
    with pytest.raises(DeskUserError, match="No folder or file"):
        desk_targets([str(tmp_path / "nothing")], Reach(), agree=agree)


@pytest.mark.slow
def test_a_program_is_opened_in_a_terminal(tmp_path: Path) -> None:
    arguments = ["--port", "0", "--", "python3", odd_server.PROGRAM]
    state = {"MCPDESK_STATE_DIR": str(tmp_path)}
    with Desk(arguments, columns=100, rows=30, environ=state) as desk:
        desk.see("● connected · 2025-06-18")
        desk.see("grow")
        desk.press("\x11")
        assert desk.end() == 0


def test_what_is_typed_at_the_desk_is_read_as_on_the_command_line(tmp_path: Path) -> None:
    text = "mcpdesk --header X-A=b https://a.test/mcp -- npx -y 'some server'"
    found = typed_targets(text, ("a.test",), SETTINGS)
    url, program = found.upstreams
    assert found.folders == typed_targets("$ mcpdesk desk https://a.test", (), SETTINGS).folders == ()
    assert (url.name, url.reach.headers, program.name) == ("a.test-2", (("X-A", "b"),), "some-server")
    assert isinstance(program.target, CommandTarget) and program.target.argv[-1] == "some server"
    config = tmp_path / "mcp.json"
    inputs = [{"id": "key", "type": "promptString"}]
    config.write_text(json.dumps({"inputs": inputs, "servers": {"a": {"command": "${input:key}"}}}))
    (broken,) = typed_targets(str(config), (), SETTINGS).upstreams
    assert isinstance(broken.target, BrokenTarget) and "typed in a terminal" in broken.target.problem
    spaced = tmp_path / "My Server"
    spaced.mkdir()
    assert typed_targets(str(spaced), (), SETTINGS).folders == (spaced,)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "Missing target: a folder, a URL, a file or `-- COMMAND ARGS`"),
        ("mcpdesk --", "A command must follow `--`"),
        ("'half", "No closing quotation"),
        ("--bogus x", "No such option"),
        ("--header X https://a.test", "'X' is not a header"),
    ],
)
def test_what_is_typed_wrongly_is_told(text: str, told: str) -> None:
    with pytest.raises(DeskUserError, match=told):
        typed_targets(text, (), SETTINGS)


def test_only_programs_can_be_restarted_when_other_files_change(tmp_path: Path) -> None:
    program = UpstreamPlan("a", CommandTarget(("a",), watched=(tmp_path / "own",)))
    remote = UpstreamPlan("b", UrlTarget("http://127.0.0.1:1/mcp"))
    found = DeskTargets((), (program, remote)).watching([tmp_path])
    assert isinstance(found.upstreams[0].target, CommandTarget)
    assert found.upstreams[0].target.watched == (tmp_path / "own", tmp_path.resolve())
    assert found.upstreams[1] == remote
    assert DeskTargets((tmp_path,), ()).watching([]) == DeskTargets((tmp_path,), ())
    with pytest.raises(DeskUserError, match="--watch is for programs"):
        DeskTargets((tmp_path,), (remote,)).watching([tmp_path])
