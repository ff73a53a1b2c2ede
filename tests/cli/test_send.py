"""`mcpdesk send`, and `mcpdesk call` without a tool or with an unknown one."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from mcpdesk.cli.tool_examples import example_command
from mcpdesk.client.targets import command_text
from mcpdesk.server.offer.registry import similar_name

if TYPE_CHECKING:
    from tests.cli.conftest import Run

SDK = '''
from mcp.server import MCPServer

served = MCPServer("from a file")


@served.tool()
def shout(text: str) -> str:
    """Say it loudly."""
    raise ValueError(text)
'''
ECHO = """
import json, sys

seen = []
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        seen.append([message["method"], message.get("params")])
        continue
    result = {"capabilities": {}, "protocolVersion": "2025-06-18"}
    result["serverInfo"] = {"name": "echo", "version": "1"}
    error = None
    if message["method"] == "initialize":
        pass
    elif message["method"] == "acme/seen":
        result = {"params": message["params"], "seen": seen, "tools": "not a list"}
    else:
        error = {"code": -32601, "message": "no " + message["method"]}
    answer = {"error": error} if error else {"result": result}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"]} | answer), flush=True)
"""


@pytest.mark.process
def test_any_request_is_sent_and_its_result_printed_unchecked(mcpdesk: Run, tmp_path: Path) -> None:
    program = tmp_path / "echo.py"
    program.write_text(ECHO)
    server = ("--", sys.executable, str(program))
    answered = json.loads(mcpdesk("send", "acme/seen", '{"a": [1]}', *server).stdout)
    assert answered["params"]["a"] == [1] and answered["tools"] == "not a list"
    piped = json.loads(mcpdesk("send", "acme/seen", "-", *server, stdin='{"b": null}').stdout)
    assert piped["params"]["b"] is None
    refused = mcpdesk("send", "acme/none", "--json", *server)
    assert refused.returncode == 4
    assert json.loads(refused.stdout)["error"]["rpc_code"] == -32601


@pytest.mark.process
def test_a_notification_is_sent_without_waiting_for_an_answer(mcpdesk: Run, tmp_path: Path) -> None:
    program = tmp_path / "note.py"
    program.write_text(ECHO.replace("continue", "print(message, file=sys.stderr)\n        continue"))
    server = ("--", sys.executable, str(program))
    for words in (["notifications/acme", '{"n": 1}'], ["acme/done", '{"n": 1}', "--notify"]):
        sent = mcpdesk("send", *words, *server)
        assert (sent.returncode, sent.stdout) == (0, "")
        assert f"sent: {words[0]}\n" in sent.stderr
        assert f"'method': '{words[0]}', 'params': {{'n': 1}}" in sent.stderr


@pytest.mark.process
@pytest.mark.parametrize("params", ["[1]", "{", "7", '{"a": NaN}', '{"a": 1, "a": 2}'])
def test_params_that_are_no_json_object_are_refused(mcpdesk: Run, folder: Path, params: str) -> None:
    refused = mcpdesk("send", str(folder), "tools/list", params)
    assert refused.returncode == 2
    assert refused.stderr.startswith("mcpdesk: params: ") and "For example" in refused.stderr


@pytest.mark.process
def test_a_folder_gets_any_request(mcpdesk: Run, folder: Path) -> None:
    sent = mcpdesk("send", str(folder), "tools/call", '{"name": "add", "arguments": {"a": 1, "b": 2}}')
    assert json.loads(sent.stdout)["structuredContent"] == {"sum": 3}


@pytest.mark.process
def test_without_a_tool_each_is_listed_with_an_example_that_runs(mcpdesk: Run, folder: Path) -> None:
    rows = json.loads(mcpdesk("call", str(folder), "--json").stdout)["tools"]
    assert {row["name"] for row in rows} == {"greet", "add", "refuse", "chatter", "wait"}
    examples = {row["name"]: shlex.split(row["example"]) for row in rows}
    assert examples["greet"][1:] == ["call", str(folder), "greet", "name=TEXT"]
    assert mcpdesk(*examples["greet"][1:]).stdout == "Hello, TEXT!\n"
    assert mcpdesk(*examples["add"][1:]).returncode == 0
    assert mcpdesk("call", str(folder), "--input", "{}").returncode == 2
    listed = mcpdesk("call", str(folder)).stdout
    assert f"greet\n  Greet somebody.\n  mcpdesk call {folder} greet name=TEXT\n" in listed


@pytest.mark.process
def test_an_unknown_tool_has_one_exit_code_and_a_hint(mcpdesk: Run, folder: Path) -> None:
    refused = mcpdesk("call", str(folder), "gret", "name=Ada")
    assert refused.returncode == 4
    assert f"`mcpdesk call {folder}` lists the tools" in refused.stderr


@pytest.mark.slow  # the SDK takes long to import
def test_an_unknown_tool_of_the_official_sdk_has_the_same_exit_code(mcpdesk: Run, tmp_path: Path) -> None:
    path = tmp_path / "loud.py"
    path.write_text(SDK)
    unknown = mcpdesk("call", str(path), "shuot", "text=hi", VIRTUAL_ENV=sys.prefix)
    assert unknown.returncode == 4
    assert "shuot" in unknown.stderr and "Did you mean 'shout'?" in unknown.stderr
    failed = mcpdesk("call", str(path), "shout", "text=hi", VIRTUAL_ENV=sys.prefix)
    assert failed.returncode == 1


def test_examples_quote_what_a_shell_would_change() -> None:
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "path": {"type": "string", "default": "a b; rm -r ~"},
            "count": {"type": "integer", "minimum": 3},
            "tags": {"type": "array", "items": {"type": "string"}, "minItems": 1},
        },
        "required": ["path", "count", "tags"],
    }
    command = example_command("https://example.com/mcp", {"name": "find it", "inputSchema": schema})
    assert shlex.split(command)[2:] == [
        "https://example.com/mcp",
        "find it",
        "path=a b; rm -r ~",
        "count=3",
        'tags:=[""]',
    ]
    odd = {"type": "object", "properties": {"a=b": {"const": 1}}, "required": ["a=b"]}
    program = command_text(["npx", "-y", "server"])
    words = shlex.split(example_command(program, {"name": "t", "inputSchema": odd}))
    assert words == ["mcpdesk", "call", "t", "--input", '{"a=b": 1}', "--", "npx", "-y", "server"]
    broken: Any
    for broken in (None, [], {"type": 7}, {"required": 3}):
        assert example_command("x", {"name": "t", "inputSchema": broken}) == "mcpdesk call x t"


def test_examples_name_any_target_and_hide_what_a_shell_takes_for_an_option() -> None:
    tool = {"name": "t"}
    assert shlex.split(example_command("cursor:my server", tool)) == [
        "mcpdesk",
        "call",
        "cursor:my server",
        "t",
    ]
    assert example_command("x", {"name": "--trust"}) == ""
    long = {"type": "object", "properties": {"a": {"default": "x" * 9_999}}, "required": ["a"]}
    assert example_command("x", {"name": "t", "inputSchema": long}) == "mcpdesk call x t"


@pytest.mark.process
def test_the_example_of_a_program_runs(mcpdesk: Run, folder: Path) -> None:
    server = [sys.executable, "-m", "mcpdesk", "stdio", "--alone", str(folder)]
    rows = json.loads(mcpdesk("call", "--json", "--", *server).stdout)["tools"]
    [example] = [row["example"] for row in rows if row["name"] == "greet"]
    assert mcpdesk(*shlex.split(example)[1:]).stdout == "Hello, TEXT!\n"


def test_a_similar_name_ignores_case_and_separators_first() -> None:
    assert similar_name("Read_File", ["read-files", "read-file"]) == "read-file"
    assert similar_name("zzz", ["read-file"]) == ""
    assert similar_name("x" * 100_000, ["x"]) == ""
