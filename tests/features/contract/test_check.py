"""Tests of `mcpdesk check`: errors with file and line, and the cost of the rest."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest

from mcpdesk.features.contract.check_command import cost
from mcpdesk.link.values import CatalogueItem, ItemKind

if TYPE_CHECKING:
    from tests.cli.conftest import Run


@pytest.mark.process
def test_good_folder_is_listed_with_its_costs(mcpdesk: Run, folder: Path) -> None:
    finished = mcpdesk("check", str(folder))
    assert finished.returncode == 0, finished.stdout + finished.stderr
    greet = next(line for line in finished.stdout.splitlines() if "greet" in line)
    assert "tools/tools.py:3" in greet
    assert "tokens" in greet
    assert "8 items" in finished.stdout


@pytest.mark.process
def test_every_mistake_is_told_with_its_place(mcpdesk: Run, folder: Path) -> None:
    (folder / "tools" / "broken.py").write_text("import nothing_of_that_name\n")
    (folder / "tools" / "sync.py").write_text('def sync() -> str:\n    """No."""\n    return ""\n')
    (folder / "tools" / "typo.py").write_text("async def typo(:\n")
    finished = mcpdesk("check", str(folder))
    assert finished.returncode == 1
    assert "tools/broken.py:1: " in finished.stdout
    assert "tools/typo.py:1: " in finished.stdout
    assert "greet" in finished.stdout


@pytest.mark.process
def test_what_is_left_out_as_a_helper_is_told(mcpdesk: Run, folder: Path) -> None:
    (folder / "tools" / "shared.py").write_text("def double(n): return 2 * n\n")
    (folder / "tools" / "user.py").write_text(
        'from shared import double\nasync def twice(n: int) -> int:\n    """Twice."""\n    return double(n)\n'
    )
    assert (
        "tools/shared.py:1: note: double is not offered: tools/user.py"
        in mcpdesk("check", str(folder)).stdout
    )


@pytest.mark.process
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


@pytest.mark.process
def test_warnings_are_told_and_count_when_they_are_to(mcpdesk: Run, folder: Path) -> None:
    told = "tools/tools.py:12: warning: tool add: parameters without a description: a, b"
    for options, code in (((), 0), (("--strict",), 1)):
        finished = mcpdesk("check", str(folder), *options)
        assert (finished.returncode, told in finished.stdout.splitlines()) == (code, True), finished.stdout


@pytest.mark.process
def test_each_mode_has_its_sum(mcpdesk: Run, folder: Path) -> None:
    manifest = json.loads((folder / "mcp.json").read_text())
    (folder / "mcp.json").write_text(json.dumps(manifest | {"modes": {"quiet": {"tools": ["add"]}}}))
    looked = json.loads(mcpdesk("check", str(folder), "--json").stdout)
    [add] = [each for each in looked["items"] if each["name"] == "add"]
    assert looked["modes"] == {"quiet": {"count": 1, "bytes": add["bytes"], "tokens": add["tokens"]}}
    assert "1 tool in mode quiet" in mcpdesk("check", str(folder)).stdout


@pytest.mark.process
@pytest.mark.parametrize("name", ["dataviz", "desk", "hello", "profiles", "wallet"])
def test_samples_are_without_fault(mcpdesk: Run, name: str) -> None:
    finished = mcpdesk("check", f"sample_servers/{name}", "--strict")
    assert finished.returncode == 0, finished.stdout


def test_cost_counts_bytes_beyond_ascii() -> None:
    plain = CatalogueItem(ItemKind.TOOL, "t", "t", definition={"a": "x" * 100})
    wide = CatalogueItem(ItemKind.TOOL, "t", "t", definition={"a": "語" * 100})
    assert cost(plain) == (108, 30)
    assert cost(wide) == (308, 77)


@pytest.mark.process
def test_a_policy_for_a_tool_that_is_not_there_is_told(mcpdesk: Run, folder: Path) -> None:
    manifest = json.loads((folder / "mcp.json").read_text())
    (folder / "mcp.json").write_text(json.dumps(manifest | {"approvals": {"gret": "ask"}}))
    finished = mcpdesk("check", str(folder))
    assert finished.returncode == 1
    assert "mcp.json:1: error: approvals.gret: no tool 'gret'; did you mean greet?" in finished.stdout


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


@pytest.mark.process
def test_what_another_server_offers_is_checked_and_what_is_malformed_is_named(
    mcpdesk: Run, tmp_path: Path
) -> None:
    path = tmp_path / "habits.py"
    path.write_text(HABITS)
    done = mcpdesk("check", "--", sys.executable, str(path))
    assert done.returncode == 1, done.stderr
    for told in (
        "tools/list: error: tools 3 ('shapeless') has no inputSchema",
        "tools/list: error: tools 4 is not an object",
        "resources/templates/list: error: the result has no list called resourceTemplates",
        "error: tool odd: inputSchema: not a valid JSON Schema at ",
        "error: tool odd: annotations: readOnlyHint must be true or false, not 'yes'",
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


LISTED = """
import json, sys
CAPABILITIES, LISTS = json.loads(sys.argv[1])
for line in sys.stdin:
    asked = json.loads(line)
    said = {"jsonrpc": "2.0", "id": asked.get("id")}
    if asked["method"] == "initialize":
        about = {"serverInfo": {"name": "x", "version": "1"}, "capabilities": CAPABILITIES}
        said["result"] = {"protocolVersion": "2025-06-18", **about}
    elif asked["method"] in LISTS:
        said["result"] = LISTS[asked["method"]]
    else:
        said["error"] = {"code": -32601, "message": "Method not found"}
    if "id" in asked:
        print(json.dumps(said), flush=True)
"""
TOOL = {"name": "t", "description": "Does it.", "inputSchema": {"type": "object"}}


def check_lists(run: Run, folder: Path, capabilities: dict[str, Any], **lists: Any) -> str:
    """Output of `check` about a server with these capabilities; `tools` is what tools/list answers."""
    program = folder / "listed.py"
    program.write_text(LISTED)
    answers = {f"{key}/list": {key: items} for key, items in lists.items()}
    return run("check", "--", sys.executable, str(program), json.dumps([capabilities, answers])).stdout


@pytest.mark.process
def test_a_declared_list_that_is_missing_is_an_error(mcpdesk: Run, tmp_path: Path) -> None:
    told = check_lists(mcpdesk, tmp_path, {"tools": {}, "prompts": {}}, tools=[TOOL])
    assert (
        "prompts/list: error: Method not found (-32601); the server declares the capability 'prompts'" in told
    )
    assert "tool    t" in told


@pytest.mark.process
@pytest.mark.parametrize("capabilities", [{}, {"prompts": {}}])
def test_a_list_that_is_not_declared_is_named(
    mcpdesk: Run, tmp_path: Path, capabilities: dict[str, Any]
) -> None:
    told = check_lists(mcpdesk, tmp_path, capabilities, tools=[TOOL], prompts=[])
    assert "tools/list: error: the server does not declare the capability 'tools'" in told
    assert "resources/list" not in told


@pytest.mark.process
@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"description": "Adds.\u202e"},
            "description has hidden text (characters that reorder text): Adds.‹202e›",
        ),
        ({"title": "\x1b[2J"}, "title has hidden text (escape or other control characters): ␛[2J"),
        (
            {"inputSchema": {"properties": {"a": {"description": "\U000e0041"}}}},
            "inputSchema.properties.a.description",
        ),
        ({"inputSchema": {"properties": {"a\u200b": {}}}}, "inputSchema.properties.a‹200b› has hidden text"),
    ],
)
def test_hidden_text_in_definitions_is_named(
    mcpdesk: Run, tmp_path: Path, changes: dict[str, Any], said: str
) -> None:
    assert f"tool t: {said}" in check_lists(mcpdesk, tmp_path, {"tools": {}}, tools=[TOOL | changes])


@pytest.mark.process
def test_hidden_text_of_a_folder_is_named_with_its_place(mcpdesk: Run, tmp_path: Path) -> None:
    folder = tmp_path / "hiding"
    (folder / "tools").mkdir(parents=True)
    (folder / "mcp.json").write_text('{"name": "hiding"}')
    (folder / "tools" / "add.py").write_text(
        'async def add(a: int) -> int:\n    """Add\u200b it."""\n    return a\n'
    )
    told = mcpdesk("check", str(folder)).stdout
    assert (
        "tools/add.py:1: warning: tool add: description has hidden text (other invisible characters)" in told
    )


ADDED = """
async def echo(text: str{more}) -> str:
    \"\"\"{told}

    Args:
        text: What to say.
        times: How often.
    \"\"\"
    return text
"""


def echo(folder: Path, told: str = "Say it.", more: str = "") -> None:
    """Write the tool `echo` into a folder."""
    (folder / "tools" / "echo.py").write_text(ADDED.format(told=told, more=more))


@pytest.mark.process
@pytest.mark.parametrize(
    ("change", "code", "said"),
    [
        ({}, 0, None),
        ({"told": "Say it again."}, 0, "tools/echo.py:2: wording: tool echo: the description changed"),
        ({"more": ", times: int = 1"}, 0, 'tools/echo.py:2: compatible: tool echo: "times" is new'),
        ({"more": ", times: int"}, 1, 'tools/echo.py:2: breaking: tool echo: "times" is new and required'),
        (None, 1, "mcp.lock.json: breaking: tool echo: was removed"),
    ],
    ids=["same", "wording", "compatible", "breaking", "gone"],
)
def test_differences_from_the_lock_are_judged(
    mcpdesk: Run, folder: Path, change: dict[str, str] | None, code: int, said: str | None
) -> None:
    echo(folder)
    written = mcpdesk("check", str(folder), "--update")
    assert (written.returncode, "mcp.lock.json; keep it" in written.stderr) == (0, True)
    if change is None:
        (folder / "tools" / "echo.py").unlink()
    else:
        echo(folder, **change)
    compared = mcpdesk("check", str(folder), "--lock")
    assert (compared.returncode, compared.stderr) == (code, "")
    verdicts = ("breaking", "compatible", "wording")
    judged = [
        line for line in compared.stdout.splitlines() if any(f": {each}: " in line for each in verdicts)
    ]
    assert judged == ([] if said is None else [said])
    assert mcpdesk("check", str(folder), "--update").returncode == 0
    assert ": breaking: " not in mcpdesk("check", str(folder), "--lock").stdout


@pytest.mark.process
def test_a_lock_is_written_of_what_is_without_fault_only(mcpdesk: Run, folder: Path) -> None:
    (folder / "tools" / "broken.py").write_text("1 / 0\n")
    finished = mcpdesk("check", str(folder), "--update")
    assert finished.returncode == 1
    assert "is not written until the errors are fixed" in finished.stderr
    assert not (folder / "mcp.lock.json").exists()


@pytest.mark.process
@pytest.mark.parametrize("content", ["", "[]", '{"version": 2}', '{"version": 1, "tool": []}', "[" * 100_000])
def test_a_damaged_lock_is_told(mcpdesk: Run, folder: Path, content: str) -> None:
    (folder / "mcp.lock.json").write_text(content)
    finished = mcpdesk("check", str(folder), "--lock")
    assert finished.returncode == 2
    assert "mcp.lock.json" in finished.stderr
    assert "--update" in finished.stderr
    assert "Traceback" not in finished.stderr


@pytest.mark.process
def test_a_budget_of_tokens_fails(mcpdesk: Run, folder: Path) -> None:
    finished = mcpdesk("check", str(folder), "--max-tokens", "10")
    assert finished.returncode == 1
    assert "error: all tools: the definitions cost about" in finished.stdout
    assert mcpdesk("check", str(folder), "--max-tokens", "100000").returncode == 0


@pytest.mark.process
def test_reports_for_machines_have_the_place_of_each_mistake(
    mcpdesk: Run, folder: Path, tmp_path: Path
) -> None:
    echo(folder)
    mcpdesk("check", str(folder), "--update")
    echo(folder, more=", times: int")
    junit, sarif = tmp_path / "junit.xml", tmp_path / "report.sarif"
    told = mcpdesk(
        "check", str(folder), "--lock", "--json", "--junit", str(junit), "--sarif", str(sarif)
    ).stdout
    [change] = json.loads(told)["contract"]
    assert (change["verdict"], change["place"], change["subject"]) == (
        "breaking",
        "tools/echo.py:2",
        "tool echo",
    )
    suite = ElementTree.parse(junit).getroot()
    [failed] = [case for case in suite if case.find("failure") is not None]
    assert (failed.attrib["name"], suite.attrib["failures"]) == ("echo", "1")
    [run] = json.loads(sarif.read_text())["runs"]
    [result] = [each for each in run["results"] if each["ruleId"] == "breaking"]
    location = result["locations"][0]["physicalLocation"]
    assert result["level"] == "error"
    assert location["artifactLocation"]["uri"].endswith("/tools/echo.py")
    assert location["region"] == {"startLine": 2}
    for rule in run["tool"]["driver"]["rules"]:  # code scanning of GitHub wants all of them
        assert all(rule[member]["text"] for member in ("shortDescription", "fullDescription", "help"))


@pytest.mark.process
def test_what_has_no_line_of_its_own_is_reported_at_the_manifest_or_at_the_lock_file(
    mcpdesk: Run, folder: Path, tmp_path: Path
) -> None:
    lock, sarif = tmp_path / "old.json", tmp_path / "report.sarif"
    echo(folder)
    mcpdesk("check", str(folder), f"--lock={lock}", "--update")
    (folder / "tools" / "echo.py").unlink()
    reports = ("--sarif", str(sarif), "--clients")
    assert mcpdesk("check", str(folder), f"--lock={lock}", *reports).returncode == 1
    [run] = json.loads(sarif.read_text())["runs"]
    places = {
        each["ruleId"]: (where["artifactLocation"]["uri"].rpartition("/")[2], where["region"])
        for each in run["results"]
        for where in [each["locations"][0]["physicalLocation"]]
    }
    assert places["breaking"] == ("old.json", {"startLine": 1})
    assert ("mcp.json", {"startLine": 1}) in places.values()


@pytest.mark.process
def test_any_server_has_a_lock(mcpdesk: Run, folder: Path, tmp_path: Path) -> None:
    lock = ("--lock", str(tmp_path / "shop.lock.json"))
    command = ("--", sys.executable, "-m", "mcpdesk", "stdio", str(folder))
    unnamed = mcpdesk("check", "--lock", *command)
    assert unnamed.returncode == 2 and "--lock NAME.lock.json --update -- " in unnamed.stderr
    assert mcpdesk("check", *lock, "--update", *command).returncode == 0
    echo(folder)
    finished = mcpdesk("check", *lock, *command)
    assert finished.returncode == 0, finished.stderr
    assert "compatible: tool echo: is new" in finished.stdout


@pytest.mark.process
@pytest.mark.parametrize("named", [(), ("typo.lock.json",)], ids=["default", "named"])
def test_a_missing_lock_is_no_pass_and_nothing_is_written(
    mcpdesk: Run, folder: Path, named: tuple[str, ...], tmp_path: Path
) -> None:
    lock = ("--lock", *(str(tmp_path / each) for each in named))
    before = sorted(tmp_path.rglob("*.json"))
    finished = mcpdesk("check", *lock, str(folder), CI="true")
    assert finished.returncode == 2 and sorted(tmp_path.rglob("*.json")) == before
    command = finished.stderr.partition("Write it with `")[2].partition("`")[0]
    assert mcpdesk(*shlex.split(command)[1:]).returncode == 0
    written = sorted(set(tmp_path.rglob("*.json")) - set(before))
    assert [each.name for each in written] == [*(named or ("mcp.lock.json",))]
    assert json.loads(written[0].read_text())["server"] == folder.name
    content = written[0].read_bytes()
    echo(folder)
    assert mcpdesk("check", *lock, str(folder)).returncode == 0
    assert written[0].read_bytes() == content


@pytest.mark.process
def test_the_lock_of_another_server_is_not_compared_with(mcpdesk: Run, folder: Path, tmp_path: Path) -> None:
    lock = tmp_path / "a.lock.json"
    lock.write_text('{"version": 1, "server": "other", "tool": {"x": {"name": "x"}}}')
    before = lock.read_bytes()
    for more in ((), ("--update",)):
        finished = mcpdesk("check", str(folder), "--lock", str(lock), *more)
        assert finished.returncode == 2 and "lock of the server 'other'" in finished.stderr
        assert lock.read_bytes() == before
    shutil.copy(lock, folder / "mcp.lock.json")  # as after a change of the folder's name
    assert mcpdesk("check", str(folder), "--lock").returncode == 2
    assert mcpdesk("check", str(folder), "--update").returncode == 0
    assert mcpdesk("check", str(folder), "--lock").returncode == 0
    lock.write_text('{"version": 1, "tool": {}}')  # of an earlier version
    assert mcpdesk("check", str(folder), "--lock", str(lock)).returncode == 0


@pytest.mark.process
@pytest.mark.parametrize("kind", ["program", "python file", "no file"])
def test_sarif_of_a_server_without_a_folder_points_to_a_file_that_exists(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long_name = "say_it_again_and_again_and_again_and_again_until_it_is_heard_x"
    source = "from mcp.server.mcpserver import MCPServer\nserver = MCPServer('shop')\n"
    source += f"@server.tool()\ndef {long_name}(a: int) -> str:\n    return ''\n"
    (tmp_path / "shop.py").write_text(source + "if __name__ == '__main__':\n    server.run()\n")
    program = [sys.executable, str(tmp_path / "shop.py")]
    if kind == "no file":
        monkeypatch.chdir(tmp_path)
        (tmp_path / "README.md").write_text("Shop")
        (tmp_path / "src").mkdir()
        (tmp_path / "shop.py").rename(tmp_path / "src" / "shop.py")
        program = [sys.executable, "-c", "import runpy; runpy.run_path('src/shop.py', run_name='__main__')"]
    words = ["shop.py"] if kind == "python file" else ["--", *program]
    sarif = ["--sarif", "report.sarif", "--clients"]
    finished = subprocess.run(
        [sys.executable, "-m", "mcpdesk", "check", *sarif, *words],
        cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
        env={**os.environ, "VIRTUAL_ENV": sys.prefix},
    )  # fmt: skip
    assert finished.returncode == 0, finished.stderr
    [run] = json.loads((tmp_path / "report.sarif").read_text())["runs"]
    places = {each["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] for each in run["results"]}
    assert places == {"README.md" if kind == "no file" else "shop.py"}


@pytest.mark.process
def test_what_known_clients_do_is_told_with_its_source(mcpdesk: Run, folder: Path, tmp_path: Path) -> None:
    long_name = "say_it_again_and_again_and_again_and_again_until_it_is_heard"
    (folder / "tools" / "again.py").write_text(
        f'async def {long_name}(ctx) -> str:\n    """Say it."""\n    return (await ctx.sample("x")).text\n'
    )
    plain = mcpdesk("check", str(folder))
    assert plain.returncode == 0 and "Cursor" not in plain.stdout
    junit, sarif = tmp_path / "junit.xml", tmp_path / "report.sarif"
    reports = ("--junit", str(junit), "--sarif", str(sarif))
    finished = mcpdesk("check", str(folder), "--client", "Cursor", "--client", "vs-code", *reports)
    assert finished.returncode == 0, finished.stderr
    lines = finished.stdout.splitlines()
    name = long_name.replace("_", "-")
    [cut] = [line for line in lines if "Cursor: omits the tool" in line]
    assert cut.startswith(f"tools/again.py:1: warning: tool {name}: with its server it is ")
    number = cut.rpartition(" ")[2]
    source = f"{number} 2026-02-27 https://github.com/ComposioHQ/composio/issues/2788"
    assert f"{source} (older than 90 days)" in lines
    assert "(limit: 59 characters)" in cut
    assert any(line.startswith("note: sampling is used in tools/again.py:3; Cursor: ") for line in lines)
    assert "Claude Code" not in "".join(line for line in lines if line.startswith("note"))
    [case] = [each for each in ElementTree.parse(junit).getroot() if each.attrib["name"] == name]
    assert "Cursor: omits the tool" in (case.findtext("system-out") or "")
    [run] = json.loads(sarif.read_text())["runs"]
    [result] = [each for each in run["results"] if each["ruleId"] == "cursor/called"]
    assert result["level"] == "warning"
    rules = {rule["id"]: rule.get("helpUri") for rule in run["tool"]["driver"]["rules"]}
    assert rules["cursor/called"] == "https://github.com/ComposioHQ/composio/issues/2788"
    assert mcpdesk("check", str(folder), "--clients", "--strict").returncode == 1
    refused = mcpdesk("check", str(folder), "--client", "netscape")
    assert refused.returncode == 2 and "Unknown client 'netscape'" in refused.stderr
    assert "Known: claude-code, claude-desktop, cursor" in refused.stderr


@pytest.mark.process
def test_what_clients_do_with_any_server_comes_as_json(mcpdesk: Run, tmp_path: Path) -> None:
    path = tmp_path / "habits.py"
    path.write_text(HABITS)
    looked = json.loads(mcpdesk("check", "--clients", "--json", "--", sys.executable, str(path)).stdout)
    [refused] = [each for each in looked["clients"] if each["subject"] == "tool good one"]
    assert refused == {
        "level": "warning",
        "place": "",
        "subject": "tool good one",
        "message": "its name of 8 characters does not match [A-Za-z0-9_-]{1,128}; "
        "Claude Code: sends the name unchanged, and the model API refuses every request",
        "client": "Claude Code",
        "version": "",
        "fact": "its name of 8 characters does not match [A-Za-z0-9_-]{1,128}",
        "effect": "sends the name unchanged, and the model API refuses every request",
        "source": "https://github.com/microsoft/wassette/issues/56",
        "date": "2025-08-03",
        "limit": "",
        "stale": True,
    }
