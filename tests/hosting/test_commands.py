"""`commands` of mcp.json as tools: one mistake leaves out one, and saving the file swaps them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpdesk.hosting.commands.command_entry import Command
from mcpdesk.hosting.commands.command_tools import read_commands
from mcpdesk.hosting.folder.manifest import Manifest
from mcpdesk.hosting.hosted_folder import HostedFolder
from mcpdesk.hosting.journal import Journal
from mcpdesk.server.registry import Unavailable
from mcpdesk.settings import resolve
from tests.support.desk import running_desk, until
from tests.support.served import Peer


def command(name: str, *run: str, **more: Any) -> dict[str, Any]:
    return {"stage": "go", "command": name, "run": list(run) or ["true"], "description": f"Do {name}."} | more


def write(folder: Path, *commands: Any, **more: Any) -> None:
    folder.mkdir(exist_ok=True)
    lines = ",\n".join(json.dumps(each) for each in commands)
    rest = "".join(f"{json.dumps(key)}: {json.dumps(value)},\n" for key, value in more.items())
    (folder / "mcp.json").write_text(f'{{"name": "go",\n{rest}"commands": [\n{lines}\n]}}')


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "go"


def host(folder: Path) -> tuple[HostedFolder, Journal]:
    journal = Journal()
    return HostedFolder(
        folder, resolve({"state_dir": folder.parent / "state"}, {}).settings, journal
    ), journal


def names(hosted: HostedFolder) -> list[str]:
    return [tool.name for tool in hosted.server.tools]


def left_out(hosted: HostedFolder) -> dict[str, Unavailable]:
    return {each.name: each for each in hosted.server.tools.unavailable}


def test_each_command_is_a_tool_that_runs_programs(folder: Path) -> None:
    given = {"properties": {"a": {"type": "string", "description": "A."}}, "required": ["a"]}
    write(folder, command("one", "echo", "{a}", parameters=given, timeout_ms=1500, title="One"))
    hosted, journal = host(folder)
    (tool,) = hosted.server.tools
    assert (tool.name, tool.title, tool.description, tool.source) == (
        "go-one",
        "One",
        "Do one.",
        "mcp.json:3",
    )
    assert tool.input_schema == {"type": "object", "additionalProperties": False} | given
    assert tool.output_schema is not None and "exit_code" in tool.output_schema["required"]
    assert (tool.timeout_s, tool.runs_programs, hosted.server.runs_programs) == (1.5, True, True)
    assert journal.lines() == []


def test_mistakes_leave_out_one_each_and_are_told_with_their_lines(folder: Path) -> None:
    write(
        folder,
        command("good"),
        command("typo", "echo", "{x}"),
        5,
        command("good"),
        command("absent", "no-such-program-here"),
        command("unused", "true", parameters={"properties": {"x": {}}}),
    )
    hosted, journal = host(folder)
    assert names(hosted) == ["go-good", "go-unused"]
    told = {(line.where, line.text) for line in journal.lines()}
    assert told == {
        ("mcp.json:4", "go-typo: run[1]: '{x}': there is no parameter 'x'; parameters: none"),
        ("mcp.json:5", "commands[2]: has to be an object, not 5"),
        (
            "mcp.json:6",
            "go-good: the tool 'go-good' is defined twice: in mcp.json:3 (serving) and in mcp.json:6",
        ),
        (
            "mcp.json:7",
            "go-absent: needs the program no-such-program-here, which is not installed or not in PATH",
        ),
        ("", "mcp.json:8: go-unused: no placeholder takes the parameter 'x'"),
    }
    assert left_out(hosted)["go-absent"].is_fit and not left_out(hosted)["go-typo"].is_fit


def test_tool_of_a_file_and_command_of_one_name_are_told_with_both_places(folder: Path) -> None:
    write(folder, command("one"))
    (folder / "tools").mkdir()
    (folder / "tools/one.py").write_text(
        'from mcpdesk import tool\n\n@tool(name="go-one")\nasync def one() -> str:\n    """Do."""\n'
    )
    hosted, _ = host(folder)
    (clash,) = hosted.server.tools.unavailable
    assert "tools/one.py:4 (serving) and in mcp.json:3" in clash.reason


async def test_saving_the_manifest_swaps_commands_in_open_sessions(folder: Path) -> None:
    write(folder, command("one", "echo", "first"), command("two"))
    hosted, journal = host(folder)
    peer = Peer(hosted.server)
    await peer.shake_hands()

    async def says(number: int) -> Any:
        peer.request(number, "tools/call", {"name": "go-one", "arguments": {}})
        return (await peer.response(number))["result"]["structuredContent"]["stdout"]

    assert await says(1) == "first\n"
    write(folder, command("one", "echo", "second"), command("three"))
    changes = hosted.reload()
    assert (changes.added, changes.changed, changes.removed) == (("go-three",), ("go-one",), ("go-two",))
    assert await says(2) == "second\n"
    assert any(each.get("method") == "notifications/tools/list_changed" for each in peer.received)
    assert not hosted.reload()
    # What breaks keeps its last version; what is repaired is told.
    write(folder, command("one", "echo", "{x}"), command("three"))
    assert hosted.reload().broken == ("go-one",)
    assert left_out(hosted)["go-one"].serving
    assert await says(3) == "second\n"
    write(folder, command("one", "echo", "second"), command("three"))
    assert hosted.reload().repaired == ("go-one",)
    assert "1 broken: go-one" in " ".join(notice.text for notice in journal.notices())


def test_program_that_appears_brings_its_tool_and_one_that_leaves_takes_it(folder: Path) -> None:
    write(folder, command("own", "./own.sh"))
    hosted, _ = host(folder)
    assert names(hosted) == []
    own = folder / "own.sh"
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    assert hosted.reload().added == ("go-own",)
    own.unlink()
    changes = hosted.reload()
    assert (names(hosted), changes.broken) == ([], ())
    assert left_out(hosted)["go-own"].reason == "needs the program ./own.sh, which is not there"


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
KEYS = st.sampled_from(list(Command.__struct_fields__))
ENTRIES = st.one_of(
    JSON, st.builds(lambda more: command("x", "true", "{a}") | more, st.dictionaries(KEYS, JSON))
)


@settings(max_examples=300, deadline=None)
@given(st.lists(ENTRIES, max_size=4))
def test_nothing_in_an_entry_keeps_the_good_one_from_serving(entries: list[Any]) -> None:
    given = [command("good"), *entries]
    manifest = Manifest(
        Path(__file__).parent, "x", commands=tuple(given), text=json.dumps({"commands": given})
    )
    found = read_commands(manifest, {"PATH": "/usr/bin:/bin"})
    assert found.items[0].name == "go-good"  # type: ignore[union-attr]
    assert len(found.items) + len(found.broken) == len(given)
    assert all(each.reason and each.source == "mcp.json:1" for _, each in found.broken)


async def test_gateway_tells_failures_and_bad_arguments_as_errors(folder: Path) -> None:
    given = {"properties": {"out": {"type": "string"}}, "required": ["out"]}
    write(
        folder,
        command("fail", "sh", "-c", "echo said; echo why >&2; exit 4"),
        command("make", "touch", "--", "{out}", parameters=given, produces=["{out}"]),
    )
    async with running_desk(folder, http=True, no_auth=True) as desk, aiohttp.ClientSession() as client:
        url = desk.view().servers[0].url.partition("/mcp/")[0] + "/v1/mcp"

        async def answer(name: str, **args: Any) -> Any:
            params = {"stage": "go", "command": name, "args": args}
            body = {"jsonrpc": "2.0", "id": 1, "method": "callTool", "params": params}
            async with client.post(url, json=body) as response:
                return await response.json()

        assert (await answer("fail"))["error"] == {
            "code": -32000,
            "message": "go-fail failed with exit code 4",
            "data": {"exit_code": 4, "stage": "go", "command": "fail", "stderr": "why\n", "stdout": "said\n"},
        }
        error = (await answer("make", out="/etc/made"))["error"]
        assert error["code"] == -32602 and "- out: no file may be written at '/etc/made'" in error["message"]
        result = (await answer("make", out="made.txt"))["result"]
        assert (result["status"], result["exit_code"]) == ("ok", 0)
        assert [Path(each).name for each in result["structuredContent"]["output_files"]] == ["made.txt"]


async def test_command_makes_a_key_due(folder: Path) -> None:
    write(folder, command("one"))
    async with running_desk(folder, http=True) as desk:
        assert desk.view().protection == "key"
        write(folder)
        desk.reload("go")
        await until(lambda: desk.view().protection == "loopback")
