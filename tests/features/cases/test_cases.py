"""`mcpdesk test` and the plugin for pytest, run as authors run them."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pexpect
import pytest

from mcpdesk.errors import CallError, DeskUserError
from mcpdesk.testing import ServerUnderTest, read_cases
from mcpdesk.testing.connected_server import MAX_LOG_LINES, ProgramLog
from tests.support.patience import WITHIN_S

ROOT = Path(__file__).parents[3]
HELLO = ROOT / "sample_servers" / "hello"
Run = Callable[..., subprocess.CompletedProcess[str]]
TOOLS = '''
from mcpdesk import Context

async def add(a: int, b: int) -> dict[str, int]:
    """Add."""
    print("adding")
    return {"sum": a + b}

async def fall(ctx: Context) -> str:
    """Fail."""
    raise RuntimeError("the bridge is down")

async def ask(ctx: Context) -> str:
    """Ask in every way a server may."""
    form = await ctx.elicit("How many?", {"type": "object", "properties": {"count": {"type": "integer"}}})
    said = await ctx.sample("Say it")
    roots = await ctx.list_roots()
    return f"{form.action} {form.content} {said.text} {[root.uri for root in roots]}"

async def slow() -> str:
    """Never end."""
    import asyncio
    await asyncio.sleep(3600)
    return "?"
'''
SHOP = """
import json, sys

schema = {"type": "object", "properties": {"total": {"type": "number"}}}
with_schema = [{"name": name, "outputSchema": schema} for name in ("order", "empty")]
about = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "shop", "version": "1"},
}
for line in sys.stdin:
    message = json.loads(line)
    result = {"content": [{"type": "text", "text": "19.90"}]}
    match message["method"]:
        case "initialize":
            result = about
        case "tools/list":
            definitions = [*with_schema, {"name": "plain"}]
            result = {"tools": [each | {"inputSchema": {"type": "object"}} for each in definitions]}
        case "tools/call" if message["params"]["name"] == "order":
            result["structuredContent"] = {"total": "19.90"}
        case "server/discover":
            error = {"code": -32601, "message": "no"}
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}), flush=True)
            continue
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""
PROMPT = "---\narguments:\n  - name: text\n---\nShorten {{text}}.\n"
SUMMANDS = {"a": 1, "b": 2}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A server folder with the tools above and no cases."""
    (tmp_path / "server" / "tools").mkdir(parents=True)
    (tmp_path / "server" / "tools" / "all.py").write_text(TOOLS)
    (tmp_path / "server" / "resources").mkdir()
    (tmp_path / "server" / "resources" / "note.md").write_text("A note.\n")
    (tmp_path / "server" / "prompts").mkdir()
    (tmp_path / "server" / "prompts" / "short.md").write_text(PROMPT)
    return tmp_path / "server"


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs `mcpdesk test` and returns how it ended."""

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "mcpdesk", "test", *arguments],
            cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

    return run


def write(folder: Path, cases: object, name: str = "all.json") -> Path:
    """Write a case file into a folder."""
    (folder / "cases").mkdir(exist_ok=True)
    file = folder / "cases" / name
    file.write_text(cases if isinstance(cases, str) else json.dumps(cases))
    return file


@pytest.mark.process
@pytest.mark.parametrize("over", ["memory", "memory,stdio,http"])
def test_the_cases_of_the_sample_pass(run: Run, over: str) -> None:
    finished = run(str(HELLO), "--over", over)
    ways = over.count(",") + 1
    assert (finished.returncode, finished.stderr) == (0, "")
    last = finished.stdout.splitlines()[-1]
    assert last.startswith(f"{4 * ways} cases: {4 * ways} passed in ")


@pytest.mark.process
def test_all_kinds_of_calls_and_answers(run: Run, folder: Path) -> None:
    answers = [{"elicitation": {"count": 3}}, {"sampling": "hm"}, {"roots": ["file:///x"]}]
    write(folder, [
        {"tool": "add", "arguments": SUMMANDS, "expect": {"structured": {"sum": 3}}},
        {"tool": "add", "arguments": SUMMANDS, "expect": {"schema": {"required": ["sum"]}}},
        {"tool": "add", "arguments": SUMMANDS, "expect": {"schema": True}},
        {"tool": "ask", "answers": answers, "expect": {"text": "accept {'count': 3} hm ['file:///x']"}},
        {"tool": "ask", "answers": [{"elicitation": "cancel"}, *answers[1:]], "expect": {"contains": "hm"}},
        {"tool": "fall", "expect": {"error": "the bridge"}},
        {"tool": "nobody", "expect": {"error": True}},
        {"tool": "slow", "timeout_s": 0.1, "expect": {"error": "no answer within 0.1 s"}},
        {"resource": "resource://note", "expect": {"matches": "^A n.te"}},
        {"prompt": "short", "arguments": {"text": "this"}, "expect": {"contains": ["Shorten", "this"]}},
    ])  # fmt: skip
    finished = run(str(folder))
    assert finished.returncode == 0, finished.stdout


@pytest.mark.process
@pytest.mark.parametrize(
    ("case", "said"),
    [
        ({"tool": "add", "arguments": SUMMANDS, "expect": {"text": "4"}}, "the text differs"),
        ({"tool": "add", "arguments": SUMMANDS, "expect": {"structured": {"sum": 4}}}, '-   "sum": 4'),
        ({"tool": "add", "arguments": SUMMANDS, "expect": {"contains": "x"}}, "expected 'x' in the text"),
        ({"tool": "add", "arguments": SUMMANDS, "expect": {"matches": "^x"}}, "to match '^x'"),
        ({"tool": "add", "arguments": SUMMANDS, "expect": {"error": True}}, "expected an error"),
        ({"tool": "add", "arguments": SUMMANDS, "expect": {"schema": {"required": ["x"]}}}, "the schema: "),
        ({"tool": "add", "arguments": SUMMANDS, "expect": {"under_ms": 1e-6}}, "expected under 1e-06"),
        ({"tool": "fall"}, "it failed: "),
        ({"tool": "fall"}, 'RuntimeError("the bridge is down")'),
        ({"tool": "ask"}, "the case has no answer to a question (elicitation): How many?"),
        (
            {"tool": "ask", "answers": [{"question": "Which tea", "answer": 1}]},
            "the next answer does not match the question: How many?",
        ),
        (
            {"tool": "add", "arguments": SUMMANDS, "answers": [{"sampling": "hm"}]},
            'no question was asked for this answer: {"sampling": "hm"}',
        ),
    ],
)  # fmt: skip
def test_a_failure_says_what_differs_and_where(
    run: Run, folder: Path, tmp_path: Path, case: dict[str, object], said: str
) -> None:
    file, report = write(folder, [case]), tmp_path / "report.xml"
    finished = run(str(folder), "--junit", str(report))
    assert (finished.returncode, said in finished.stdout) == (1, True), finished.stdout
    assert f"{file}:1" in finished.stdout
    assert "1 case: 0 passed, 1 failed" in finished.stdout
    suite = ElementTree.parse(report).getroot()
    failure = suite.find("testcase/failure")
    assert suite.attrib["failures"] == "1"
    assert failure is not None
    assert said in (failure.text or "")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("- tool: [", 1, "invalid YAML"),
        ("tool: add", 0, "must be a list of cases"),
        ("- a", 1, "must be an object"),
        ("- tool: a\n- arguments: {}", 2, "one of tool, resource, prompt"),
        ("- tool: a\n  prompt: b", 1, "one of tool, resource, prompt"),
        ("- tool: 3", 1, '"tool" must be a text'),
        ("- tool: a\n  argument: {}", 1, 'no key "argument"; allowed: name, tool'),
        ("- tool: a\n  expect: {texts: b}", 1, 'expect has no key "texts"; allowed: text, contains'),
        ("- tool: a\n  expect: {matches: '('}", 1, "is not a regular expression"),
        ("- tool: a\n  expect: {like: {b: 1}}", 1, 'for structured content, use "structured_like"'),
        ("- tool: a\n  expect: {schema: false}", 1, '"schema" must be a JSON Schema, or true'),
        ("- tool: a\n  expect: {schema: null}", 1, '"schema" must be a JSON Schema, or true'),
        ("- tool: a\n  expect: {under_ms: -1}", 1, "must be a number above 0"),
        ("- tool: a\n  answers: [{question: b}]", 1, '"answer" is missing'),
        ("- tool: a\n  answers: [{elicitation: perhaps}]", 1, "accept, decline or cancel"),
        ("- tool: a\n  answers: [{nothing: b}]", 1, "one of question, elicitation, sampling, roots"),
        ("- tool: a\n  arguments: {b: .inf}", 1, '"arguments.b" has a value that JSON does not have'),
        ("- resource: a\n  arguments: {b: 1}", 1, "a resource has no arguments"),
        ("- tool: a\n  arguments: !!python/object:os.x {}", 2, "invalid YAML"),
        ("[" * 100_000, 0, "invalid YAML"),
        ("\udcff", 0, "is not UTF-8"),
    ],
)  # fmt: skip
def test_a_case_that_cannot_be_used_is_told_with_its_line(
    tmp_path: Path, text: str, line: int, said: str
) -> None:
    file = tmp_path / "bad.yaml"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(DeskUserError) as caught:
        read_cases(file)
    told = str(caught.value)
    assert said in told
    assert told.startswith(f"{file}:{line}: " if line else f"{file}")


def test_a_date_stays_the_text_that_was_written(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("- tool: a\n  arguments: {day: 2026-01-02}\n")
    assert read_cases(tmp_path / "a.yaml")[0].arguments == {"day": "2026-01-02"}


@pytest.mark.process
@pytest.mark.parametrize(
    ("options", "said"),
    [
        ([], "does not exist"),
        (["--over", "smoke"], "Allowed: memory, stdio, http"),
        (["--header", "a=b"], "for servers that are not a folder"),
    ],
)
def test_what_cannot_be_run_is_told(run: Run, folder: Path, options: list[str], said: str) -> None:
    finished = run(str(folder), *options)
    assert finished.returncode == 2
    assert said in finished.stderr
    assert "Traceback" not in finished.stderr


@pytest.mark.process
def test_any_server_runs_cases_and_only_some_of_them(run: Run, folder: Path) -> None:
    cases = write(
        folder, [{"name": "one", "tool": "fall"}, {"name": "two", "tool": "fall", "expect": {"error": ""}}]
    )
    command = ("--", sys.executable, "-m", "mcpdesk", "stdio", str(folder), "--alone")
    finished = run("--cases", str(cases), "--only", "two", *command)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "1 case: 1 passed" in finished.stdout
    assert run(*command).returncode == 2


@pytest.mark.process
def test_a_result_that_breaks_the_output_schema_of_its_tool_fails(run: Run, tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(SHOP)
    expect = {"contains": "19.90", "schema": True}
    cases = write(tmp_path, [{"tool": name, "expect": expect} for name in ("order", "empty", "plain")])
    finished = run("--cases", str(cases), "--", sys.executable, str(tmp_path / "shop.py"))
    assert finished.returncode == 1, finished.stdout + finished.stderr
    assert "the output schema: total: must be a number, not a string" in finished.stdout
    assert "expected structured content, because the tool has an output schema" in finished.stdout
    assert "expected a tool with an output schema" in finished.stdout


@pytest.mark.slow
def test_a_server_elsewhere_is_spoken_to_in_the_revision_that_is_named(run: Run, tmp_path: Path) -> None:
    server = "from mcp.server.mcpserver import Context, MCPServer\nserver = MCPServer('said')\n"
    server += "@server.tool()\ndef spoken(ctx: Context) -> str:\n"
    server += "    return ctx.request_context.protocol_version\nserver.run()\n"
    (tmp_path / "server.py").write_text(server)
    (tmp_path / "cases.yaml").write_text("- tool: spoken\n  expect: {contains: 2025-06-18}\n")
    cases = ["--cases", str(tmp_path / "cases.yaml")]
    command = ("--", sys.executable, str(tmp_path / "server.py"))
    assert run(*cases, *command).returncode == 1
    answer = run(*cases, "--revision", "2025-06-18", *command)
    assert answer.returncode == 0, answer.stdout


@pytest.mark.process
def test_a_token_goes_along_where_it_can(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wallet, secret = ROOT / "sample_servers" / "wallet", "a secret of at least 32 characters"
    monkeypatch.setenv("WALLET_SECRET", secret)
    issue = [sys.executable, str(wallet / "issue_token.py"), "ada", "wallet:read"]
    monkeypatch.setenv("TOKEN", subprocess.check_output(issue, text=True).strip())
    cases = tmp_path / "cases.yaml"
    cases.write_text("- tool: balance\n")
    given = (str(wallet), "--cases", str(cases), "--token-env", "TOKEN")
    assert run(*given, "--over", "memory,stdio,http").returncode == 0
    assert run(*given[:3]).returncode == 1


@pytest.mark.process
def test_cases_leave_the_state_of_the_server_alone(run: Run, folder: Path, tmp_path: Path) -> None:
    (folder / "mcp.json").write_text(json.dumps({"name": "server", "builtins": ["TaskManager"]}))
    create = {"tool": "TaskManager", "arguments": {"action": "create", "query": "a list"}}
    write(folder, [create])
    before = sorted(tmp_path.rglob("*.db*"))
    assert run(str(folder)).returncode == 0
    assert sorted(tmp_path.rglob("*.db*")) == before


@pytest.mark.process
def test_it_runs_again_at_every_save_until_it_is_ended(folder: Path) -> None:
    write(folder, [{"tool": "add", "arguments": SUMMANDS, "expect": {"structured": {"sum": 4}}}])
    with subprocess.Popen(
        [sys.executable, "-u", "-m", "mcpdesk", "test", str(folder), "--watch"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        try:
            lines = iter(process.stdout.readline, "")
            assert any("1 case: 0 passed, 1 failed" in line for line in lines)
            assert any("watching" in line for line in lines)
            (folder / "tools" / "all.py").write_text(TOOLS.replace("a + b", "a + b + 1"))
            assert any("1 case: 1 passed" in line for line in lines)
            assert any("watching" in line for line in lines)
            write(folder, "[")
            assert any("all.json:1: invalid JSON: " in line for line in lines)
            process.send_signal(signal.SIGINT)
            assert process.wait(WITHIN_S) == 0
        finally:
            process.kill()


TWO = [
    {"name": "one", "tool": "add", "arguments": SUMMANDS},
    {"name": "two", "tool": "add", "arguments": SUMMANDS, "expect": {"text": "4"}},
]


@pytest.mark.slow
def test_results_are_one_object_with_json(run: Run, folder: Path) -> None:
    file = write(folder, TWO)
    finished = run(str(folder), "--json", "--over", "memory,stdio")
    told = json.loads(finished.stdout)
    assert finished.returncode == 1 and (told["passed"], told["failed"]) == (2, 2)
    assert [(each["name"], each["over"], each["outcome"]) for each in told["cases"]] == [
        ("one", "memory", "passed"),
        ("two", "memory", "failed"),
        ("one", "stdio", "passed"),
        ("two", "stdio", "failed"),
    ]
    assert all(each["place"].startswith(str(file)) and each["duration_ms"] > 0 for each in told["cases"])
    assert "- 4" in told["cases"][1]["failures"][0] and "failures" not in told["cases"][0]
    refused = run(str(folder), "--json", "--watch")
    assert refused.returncode == 2 and "cannot be used together" in refused.stderr


@pytest.mark.slow
def test_results_have_colour_in_a_terminal_only(run: Run, folder: Path) -> None:
    write(folder, TWO)
    command = [sys.executable, "-m", "mcpdesk", "test", str(folder)]
    environ = {key: value for key, value in os.environ.items() if key != "NO_COLOR"} | {"TERM": "xterm"}
    shown, code = pexpect.run(shlex.join(command), withexitstatus=True, env=environ, timeout=60)
    assert code == 1
    for word in (b"\x1b[32mpassed\x1b[0m  one", b"\x1b[31mfailed\x1b[0m  two", b"\x1b[31m      - 4\x1b[0m"):
        assert word in shown, shown
    assert b"\x1b[31m2 cases: 1 passed, 1 failed" in shown
    plain = pexpect.run(shlex.join(command), env=environ | {"NO_COLOR": "1"}, timeout=60)
    assert b"\x1b[3" not in plain and "\x1b" not in run(str(folder)).stdout


@pytest.mark.process
def test_a_client_reports_a_server_that_cannot_be_reached() -> None:
    with pytest.raises(CallError, match="no-such-program"):
        ServerUnderTest("-- no-such-program")


def test_a_program_that_logs_a_lot_leaves_a_bounded_number_of_lines() -> None:
    logged = ProgramLog()
    for number in range(MAX_LOG_LINES + 9):
        logged.log(f"line {number}")
    logged.stray(b"x" * 1_000_000)
    found = logged()
    assert found[:2] == ["(11 earlier lines were dropped)", "line 11"] and len(found) == MAX_LOG_LINES
    assert found[-1].startswith("(stdout) xxx") and len(found[-1]) < 10_000
    assert logged() == []
