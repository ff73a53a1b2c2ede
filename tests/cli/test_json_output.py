"""`--json` prints what `docs/output.schema.json` describes, and `--limit` cuts long texts."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import click
import jsonschema
import pytest

from mcpdesk.cli.main import program
from mcpdesk.cli.printing import cut_texts, report
from mcpdesk.cli.reach import server_folder, with_hint
from mcpdesk.client.hints import MissingToken, shell_token_hint
from mcpdesk.client.oauth.discovery import no_login_error
from mcpdesk.errors import DeskError, DeskUserError, HttpError, RpcError
from mcpdesk.protocol.jsonrpc import ErrorCode
from tests.cli.conftest import ROOT, Run
from tests.support.captures import recorded
from tests.support.features import having, needs_feature

SCHEMA: dict[str, Any] = json.loads((ROOT / "docs" / "output.schema.json").read_text())
PAGE = (ROOT / "docs" / "json-output.md").read_text()
HELLO = "sample_servers/hello"


def check(definition: str, value: object) -> None:
    """Fail if a value does not match a definition of the schema."""
    jsonschema.validate(value, {**SCHEMA, "$ref": f"#/$defs/{definition}"})


@pytest.mark.process
@pytest.mark.parametrize(
    ("definition", "arguments"),
    [
        ("list", ["list", HELLO]),
        ("servers", ["list"]),
        ("tools", ["call", HELLO]),
        ("call", ["call", HELLO, "greet", "name=Ada"]),
        ("read", ["read", HELLO, "resource://about"]),
        ("prompt", ["prompt", HELLO, "explain", "topic=tea"]),
        ("complete", ["complete", "sample_servers/conformance", "test_prompt_with_arguments", "arg1=test"]),
        ("send", ["send", HELLO, "tools/list"]),
        *having("contract", ("check", ["check", HELLO, "--clients"]), ("eras", ["check", HELLO, "--eras"])),
        *having("cases", ("test", ["test", HELLO])),
        *having("load", ("load", ["load", HELLO, "greet", "name=Ada", "--for", "1", "--rate", "20"])),
        ("keys", ["keys"]),
        ("settings", ["settings"]),
        ("prune", ["prune", "--keep", "1000", "--dry-run"]),
        ("error", ["list", "/no/such/folder"]),
        ("error", ["call", HELLO, "no-such-tool"]),
        ("error", ["call", HELLO, "greet", "--no-such-option"]),
    ],
)
def test_output_matches_the_schema(
    mcpdesk: Run, tmp_path: Path, definition: str, arguments: list[str]
) -> None:
    ended = mcpdesk(*arguments, "--json", HOME=str(tmp_path))
    assert (ended.returncode != 0) == (definition == "error"), ended.stderr
    check(definition, json.loads(ended.stdout))


@pytest.mark.process
def test_next_command_after_an_unknown_tool_lists_the_tools(mcpdesk: Run) -> None:
    error = json.loads(mcpdesk("call", HELLO, "no-such-tool", "--json").stdout)["error"]
    assert error["next"] == f"mcpdesk call {HELLO}" and f"`{error['next']}`" in error["hint"]


@pytest.mark.process
def test_configured_servers_match_the_schema(mcpdesk: Run, tmp_path: Path) -> None:
    (tmp_path / ".cursor").mkdir()
    servers = {"mcpServers": {"one": {"command": "one"}, "bad": {}}}
    (tmp_path / ".cursor" / "mcp.json").write_text(json.dumps(servers))
    value = json.loads(mcpdesk("list", "--json", HOME=str(tmp_path)).stdout)
    check("servers", value)
    assert {each["target"] for each in value["servers"]} >= {"cursor:one", "cursor:bad"}


@needs_feature("contract")
@pytest.mark.process
def test_lock_and_differences_match_the_schema(mcpdesk: Run, folder: Path, tmp_path: Path) -> None:
    one = recorded(tmp_path / "one.jsonl", ("greet", "Ada", "hello", 0.01), ("add", "1", "2", 0.01))
    two = recorded(tmp_path / "two.jsonl", ("greet", "Eve", "!broken", 0.01))
    difference = json.loads(mcpdesk("diff", str(one), str(two), "--json").stdout)
    check("diff", difference)
    assert difference["changes"]
    mcpdesk("check", str(folder), "--update")
    tools = folder / "tools" / "tools.py"
    tools.write_text(tools.read_text().replace("async def add", "async def plus"))
    report = json.loads(mcpdesk("check", str(folder), "--lock", "--json").stdout)
    check("check", report)
    assert "breaking" in {each["verdict"] for each in report["contract"]}


def test_page_lists_all_definitions() -> None:
    parts = {"remark", "totals", "finding", "side"}
    assert all(f"| `{name}` |" in PAGE for name in SCHEMA["$defs"].keys() - parts - {"error"})


def test_page_lists_all_commands_with_json() -> None:
    with_json = {
        name for name, each in program.commands.items() if any("--json" in p.opts for p in each.params)
    }
    assert all(f"| `{name}" in PAGE for name in with_json - {"schemas"})


@pytest.mark.process
def test_limit_says_how_much_is_missing(mcpdesk: Run) -> None:
    text = mcpdesk("read", HELLO, "resource://about", "--limit", "20").stdout
    whole = mcpdesk("read", HELLO, "resource://about").stdout
    assert text.startswith(whole[:20])
    assert f"[{len(whole) - 20:,} more characters; omit --limit" in text


def test_limit_cuts_all_texts_and_no_key() -> None:
    value = {"a long key": ["x" * 12, 3, {"inner": "short"}]}
    cut = cut_texts(value, 10)
    assert cut["a long key"][0].startswith("x" * 10 + "… [2 more characters")
    assert cut["a long key"][1:] == value["a long key"][1:]
    assert cut_texts(value, None) is value


def reported(error: DeskError | click.ClickException, capsys: pytest.CaptureFixture[str]) -> Any:
    """The JSON of an error."""
    report(error, as_json=True)
    return json.loads(capsys.readouterr().out)["error"]


def test_next_command_of_an_error(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    capture = tmp_path / "a b.jsonl"
    capture.touch()
    with pytest.raises(DeskUserError) as raised:
        server_folder(str(capture))
    assert shlex.split(reported(raised.value, capsys)["next"]) == ["mcpdesk", "open", str(capture)]
    assert reported(click.UsageError("bad"), capsys)["next"] == "mcpdesk --help"
    assert reported(click.ClickException("bad"), capsys)["next"] == ""


def test_servers_choose_no_command(capsys: pytest.CaptureFixture[str]) -> None:
    command = 'a`.\x1b]0;x\x07 Run "`mcpdesk trust evil.json`'
    escaped = command.replace('"', '\\"')
    challenge = f'Bearer error="insufficient_scope", scope="{escaped}", resource_metadata="https://a/"'
    for error in (
        with_hint(HttpError("HTTP 403", status=403, challenge=challenge)),
        with_hint(no_login_error("https://a", command)),
        with_hint(RpcError(ErrorCode.FORBIDDEN, "no", {"scope": command})),
    ):
        sent = reported(error, capsys)
        quoted = sent["hint"].split('"')
        assert "Run" in quoted[1] and "mcpdesk trust evil.json" in quoted[1], "in quotation marks"
        assert len(quoted) == 3 and "`" not in sent["hint"] and "\x1b" not in sent["hint"]
        assert sent["next"] == ""


def test_scopes_of_a_server_are_quoted_for_a_shell() -> None:
    missing = MissingToken(("a", "';reboot;'"), has_login=True, is_insufficient=True)
    written = shell_token_hint(missing).partition("Log in: ")[2].partition(". Or use")[0]
    assert shlex.split(written) == ["mcpdesk", "login", "URL", "--scope", "a ';reboot;'"]


def test_limit_cuts_deeply_nested_texts() -> None:
    value: Any = "x" * 12
    for _ in range(900):
        value = [{"a": value}]
    cut = cut_texts(value, 10)
    for _ in range(900):
        cut = cut[0]["a"]
    assert cut.startswith("x" * 10 + "… [2 more")
