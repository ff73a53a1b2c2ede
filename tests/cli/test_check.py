"""`mcpdesk check`: mistakes with file and line, and what the rest costs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mcpdesk.cli.folders import cost
from mcpdesk.link.values import CatalogueItem, ItemKind

if TYPE_CHECKING:
    from tests.cli.conftest import Run


def test_good_folder_is_listed_with_its_costs(mcpdesk: Run, folder: Path) -> None:
    finished = mcpdesk("check", str(folder))
    assert finished.returncode == 0, finished.stdout + finished.stderr
    greet = next(line for line in finished.stdout.splitlines() if "greet" in line)
    assert "tools/tools.py:3" in greet
    assert "tokens" in greet
    assert "8 items" in finished.stdout


def test_every_mistake_is_told_with_its_place(mcpdesk: Run, folder: Path) -> None:
    (folder / "tools" / "broken.py").write_text("import nothing_of_that_name\n")
    (folder / "tools" / "sync.py").write_text('def sync() -> str:\n    """No."""\n    return ""\n')
    (folder / "tools" / "typo.py").write_text("async def typo(:\n")
    finished = mcpdesk("check", str(folder))
    assert finished.returncode == 1
    assert "tools/broken.py:1: " in finished.stdout
    assert "tools/typo.py:1: " in finished.stdout
    assert "greet" in finished.stdout


def test_findings_come_as_json(mcpdesk: Run, folder: Path) -> None:
    (folder / "tools" / "broken.py").write_text("1 / 0\n")
    looked = json.loads(mcpdesk("check", str(folder), "--json").stdout)
    [error] = [each for each in looked["findings"] if each["level"] == "error"]
    assert (error["place"], error["subject"]) == ("tools/broken.py:1", "tool broken")
    assert "ZeroDivisionError" in error["message"]
    assert {"kind": "prompt", "name": "summarize"}.items() <= looked["items"][-1].items()
    costs = {each["name"]: each["bytes"] for each in looked["items"] if each["kind"] == "tool"}
    assert looked["tools"]["bytes"] == sum(costs.values())
    assert looked["total"]["count"] == len(looked["items"]) == 8


def test_warnings_are_told_and_count_when_they_are_to(mcpdesk: Run, folder: Path) -> None:
    told = "tools/tools.py:12: warning: tool add: parameters without a description: a, b"
    for options, code in (((), 0), (("--strict",), 1)):
        finished = mcpdesk("check", str(folder), *options)
        assert (finished.returncode, told in finished.stdout.splitlines()) == (code, True), finished.stdout


def test_each_mode_has_its_sum(mcpdesk: Run, folder: Path) -> None:
    manifest = json.loads((folder / "mcp.json").read_text())
    (folder / "mcp.json").write_text(json.dumps(manifest | {"modes": {"quiet": {"tools": ["add"]}}}))
    looked = json.loads(mcpdesk("check", str(folder), "--json").stdout)
    [add] = [each for each in looked["items"] if each["name"] == "add"]
    assert looked["modes"] == {"quiet": {"count": 1, "bytes": add["bytes"], "tokens": add["tokens"]}}
    assert "1 tool in mode quiet" in mcpdesk("check", str(folder)).stdout


@pytest.mark.parametrize("name", ["dataviz", "desk", "hello", "profiles", "wallet"])
def test_samples_are_without_fault(mcpdesk: Run, name: str) -> None:
    finished = mcpdesk("check", f"sample_servers/{name}", "--strict")
    assert finished.returncode == 0, finished.stdout


def test_cost_counts_bytes_beyond_ascii() -> None:
    plain = CatalogueItem(ItemKind.TOOL, "t", "t", definition={"a": "x" * 100})
    wide = CatalogueItem(ItemKind.TOOL, "t", "t", definition={"a": "語" * 100})
    assert cost(plain) == (108, 30)
    assert cost(wide) == (308, 77)


def test_a_policy_for_a_tool_that_is_not_there_is_told(mcpdesk: Run, folder: Path) -> None:
    manifest = json.loads((folder / "mcp.json").read_text())
    (folder / "mcp.json").write_text(json.dumps(manifest | {"approvals": {"gret": "ask"}}))
    finished = mcpdesk("check", str(folder))
    assert finished.returncode == 1
    assert (
        "mcp.json:1: error: approvals.gret: there is no tool 'gret'; did you mean greet?" in finished.stdout
    )


HABITS = """
import json, sys
ODD = {"type": "object", "properties": {"x": {"type": "strin"}}}
TOOLS = [
    {"name": "good one", "description": "Fine.", "inputSchema": {"type": "object"}},
    {"name": "odd", "description": "Odd.", "inputSchema": ODD, "annotations": {"readOnlyHint": "yes"}},
    {"name": "bare", "inputSchema": {"type": "object", "properties": {"y": {"type": "string"}}}},
    {"name": "shapeless"},
    7,
]
LISTS = {
    "tools/list": {"tools": TOOLS},
    "resources/list": {"resources": [{"uri": "no scheme", "name": "a"}, {"uri": "a://b", "name": "b"}]},
    "resources/templates/list": {"resourceTemplates": 3},
    "prompts/list": {"prompts": [{"name": "p", "description": "P.", "arguments": [{"name": "z"}]}]},
}
SERVER = {"name": "habits", "version": "1"}
CAPABILITIES = {"tools": {}, "resources": {}, "prompts": {}}
for line in sys.stdin:
    asked = json.loads(line)
    said = {"jsonrpc": "2.0", "id": asked.get("id")}
    if asked["method"] == "initialize":
        said["result"] = {"protocolVersion": "2025-06-18", "capabilities": CAPABILITIES, "serverInfo": SERVER}
    elif asked["method"] in LISTS:
        said["result"] = LISTS[asked["method"]]
    else:
        said["error"] = {"code": -32601, "message": "no"}
    if "id" in asked:
        print(json.dumps(said), flush=True)
"""


def test_what_another_server_offers_is_checked_and_what_is_malformed_is_named(
    mcpdesk: Run, tmp_path: Path
) -> None:
    path = tmp_path / "habits.py"
    path.write_text(HABITS)
    done = mcpdesk("check", "--", sys.executable, str(path))
    assert done.returncode == 1, done.stderr
    for told in (
        "tools/list: error: tools 3 ('shapeless') has no inputSchema",
        "tools/list: error: tools 4 is no object",
        "resources/templates/list: error: the result has no list called resourceTemplates",
        "error: tool odd: inputSchema is no JSON Schema: ",
        "error: tool odd: annotations: readOnlyHint is true or false, not 'yes'",
        "error: resource no scheme: its URI has no scheme",
        "warning: tool good one: model APIs take a name of letters",
        "warning: tool bare: has no description",
        "warning: tool bare: parameter without a description: y",
        "warning: prompt p: argument without a description: z",
    ):
        assert told in done.stdout, done.stdout
    looked = json.loads(mcpdesk("check", "--json", "--", sys.executable, str(path)).stdout)
    assert looked["tools"]["count"] == 3 and looked["total"]["count"] == 6
    assert all(each["tokens"] > 0 for each in looked["items"])
    assert mcpdesk("check", "sample_servers/hello", "--era", "handshake").returncode == 2
    unreachable = mcpdesk("check", "http://127.0.0.1:9/mcp", "--json")
    assert unreachable.returncode == json.loads(unreachable.stdout)["error"]["code"] == 3
