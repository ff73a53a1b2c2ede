"""Commands asking servers that are not folders: programs, Python files, configuration files, URLs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner

from mcpdesk.cli.reach import reach_options
from mcpdesk.client.targets import CommandTarget, FolderTarget, UrlTarget, command_text, find_target
from mcpdesk.errors import DeskUserError
from mcpdesk.paths import sample_servers
from mcpdesk.upstream.target_transport import Reach
from tests.support import odd_server
from tests.support.trusting import TRUSTING, agree

if TYPE_CHECKING:
    from tests.cli.conftest import Run

HELLO = [sys.executable, "-m", "mcpdesk", "stdio", "--alone", str(sample_servers() / "hello")]
SDK = '''
from mcp.server import MCPServer

served = MCPServer("from a file")


@served.tool()
def shout(text: str) -> str:
    """Say it loudly."""
    return text.upper()


if __name__ == "__main__":
    raise SystemExit("it is not to be run by itself")
'''


@pytest.mark.process
def test_a_command_comes_last(mcpdesk: Run) -> None:
    done = mcpdesk("call", "greet", "name=Ada", "loudly=yes", "--", *HELLO)
    assert (done.returncode, done.stdout) == (0, "HELLO, ADA!\n")
    assert "greet" in mcpdesk("list", "--", *HELLO).stdout
    assert "greet" in mcpdesk("schemas", "--for", "openai", "--", *HELLO).stdout


@pytest.mark.process
def test_what_a_program_prints_on_stdout_is_told_once(mcpdesk: Run, tmp_path: Path) -> None:
    done = mcpdesk("list", "--", "sh", "-c", 'echo loading; echo more; exec "$@"', "sh", *HELLO)
    assert done.returncode == 0 and "greet" in done.stdout
    assert (done.stderr.count("loading"), done.stderr.count("(stdout) more")) == (1, 1)
    file = tmp_path / "srv.py"
    file.write_text('print("loading")\nprint("more")\n')
    failed = mcpdesk("list", str(file))
    assert failed.returncode == 3
    assert (failed.stderr.count("loading"), failed.stderr.count("(stdout) more")) == (1, 1)
    assert failed.stderr.count("has no server object") == 2, "in its log, and in the error"


@pytest.mark.process
def test_what_a_program_logs_while_it_connects_is_told_only_if_that_fails(mcpdesk: Run) -> None:
    odd = [sys.executable, odd_server.PROGRAM]
    done = mcpdesk("call", "echo", "text=hi", "--", *odd)
    assert (done.stdout, done.stderr) == ("hi\n", "")
    assert "out of memory" in mcpdesk("call", "die", "--", *odd).stderr
    failed = mcpdesk("list", "--", *odd, "brief")
    assert failed.returncode == 3
    assert failed.stderr.startswith("it begins\nno configuration\n")


@pytest.mark.process
def test_a_configuration_file_names_its_servers(mcpdesk: Run, tmp_path: Path) -> None:
    path = tmp_path / ".mcp.json"
    entry = {"command": "${PYTHON}", "args": HELLO[1:], "env": {"PYTHONPATH": str(Path.cwd())}}
    servers = {"hello": entry, "bad": {"args": []}, "gone": {"command": "no-such-program"}}
    path.write_text(json.dumps({"mcpServers": servers}))
    done = mcpdesk("call", f"{path}:hello", "greet", "name=Ada", PYTHON=sys.executable, **TRUSTING)
    assert (done.returncode, done.stdout) == (0, "Hello, Ada!\n")
    several = mcpdesk("list", str(path), **TRUSTING)
    assert several.returncode == 2
    assert "Name one as" in several.stderr and "hello, bad, gone" in several.stderr
    assert "needs either a command or a url" in mcpdesk("list", f"{path}:bad", **TRUSTING).stderr
    missing = mcpdesk("list", f"{path}:gone", **TRUSTING)
    assert "program 'no-such-program' does not exist" in missing.stderr
    assert "has no server 'x'" in mcpdesk("list", f"{path}:x", **TRUSTING).stderr


@pytest.mark.process
def test_a_value_that_has_to_be_typed_is_asked_for_only_in_a_terminal(mcpdesk: Run, tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    entry = {"command": "c", "args": ["${input:key}"]}
    path.write_text(json.dumps({"servers": {"a": entry}, "inputs": [{"id": "key"}]}))
    done = mcpdesk("list", str(path), **TRUSTING)
    assert done.returncode == 2
    assert "${input:key} must be typed in" in done.stderr


@pytest.mark.slow  # the SDK takes long to import
def test_a_python_file_of_another_framework_is_run(mcpdesk: Run, tmp_path: Path) -> None:
    path = tmp_path / "weather.py"
    path.write_text(SDK)
    environ = {"VIRTUAL_ENV": sys.prefix}
    done = mcpdesk("call", str(path), "shout", "text=hi", **environ)
    assert (done.returncode, done.stdout) == (0, "HI\n")
    assert mcpdesk("call", f"{path}:served", "shout", "text=hi", **environ).stdout == "HI\n"
    wrong = mcpdesk("list", f"{path}:nothing", **environ)
    assert wrong.returncode == 3
    assert "has no nothing" in wrong.stderr
    path.write_text("x = 1")
    assert "no server object to run" in mcpdesk("list", str(path), **environ).stderr


@pytest.mark.process
@pytest.mark.parametrize("file", ["server.py", "__init__.py"])
def test_a_file_of_a_package_keeps_its_relative_imports(mcpdesk: Run, tmp_path: Path, file: str) -> None:
    package = tmp_path / "src" / "shop" / "web"
    package.mkdir(parents=True)
    (package.parent / "__init__.py").write_text("")
    (package.parent / "words.py").write_text("WORD = 'tea'\n")
    (package / "__init__.py").write_text("")
    (package / "beside.py").write_text("END = '!'\n")
    (package / file).write_text(
        "import beside\nfrom shop.words import WORD as whole\nfrom ..words import WORD\n"
        + SDK.replace("text.upper()", "text + WORD + whole + beside.END + __name__")
    )
    done = mcpdesk("call", str(package / file), "shout", "text=a ", VIRTUAL_ENV=sys.prefix)
    module = "shop.web.server" if file == "server.py" else "shop.web"
    assert (done.returncode, done.stdout) == (0, f"a teatea!{module}\n"), done.stderr


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("https://a.test/mcp", UrlTarget("https://a.test/mcp")),
        ("ws://a.test/ws", UrlTarget("ws://a.test/ws", kind="ws")),
        (command_text(["a", "b c", "$d"]), CommandTarget(("a", "b c", "$d"))),
        (str(sample_servers() / "hello"), FolderTarget(sample_servers() / "hello")),
    ],
)
def test_targets_are_told_apart(text: str, expected: object) -> None:
    assert find_target(text, {}, lambda variable: "", agree) == expected


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("nowhere", None, "No folder or file"),
        ("a.jsonl", '{"capture":1,"part":1,"first":0,"time":0}\n', "is a capture"),
        ("a.json", "{", "a.json:1:2"),
        ("a.py", "# /// script\n# dependencies = [\n# ///\n", "script block is not valid TOML"),
        ("a.py", '# /// script\n# dependencies = ["fastmcp"]\n# ///\n', "a.py needs fastmcp, which uv"),
    ],
)
def test_what_cannot_be_used_is_said(
    name: str, text: str | None, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(DeskUserError, match=told):
        find_target(str(tmp_path / name), {}, lambda variable: "", agree)


def test_uv_brings_what_a_file_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uv = tmp_path / "uv"
    uv.write_text("#!/bin/sh\n")
    uv.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    path = tmp_path / "a.py"
    path.write_text('# /// script\n# dependencies = ["fastmcp>=2"]\n# ///\n')
    found = find_target(f"{path}:app", {}, lambda variable: "", agree, ["httpx"])
    assert isinstance(found, CommandTarget)
    assert found.argv[:5] == (str(uv), "run", "--no-project", "--with=fastmcp>=2", "--with=httpx")
    assert found.argv[-2:] == (str(path), "app")


def test_options_of_servers_arrive_as_one_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN", " t0k\n")
    found: list[Reach] = []

    @click.command()
    @click.argument("target")
    @reach_options
    def command(target: str, reach: Reach) -> None:
        found.append(reach)

    for given in (
        ["--mode", "calm", "--token-env", "A_TOKEN", "--header", "X-A=b=c", "--era", "handshake"],
        ["--revision", "2024-11-05", "--with", "a", "--with", "b"],
        [],
    ):
        assert CliRunner().invoke(command, ["x", *given]).exit_code == 0
    assert found == [
        Reach("calm", "t0k", None, (("X-A", "b=c"),), "2025-11-25"),
        Reach(revision="2024-11-05", packages=("a", "b")),
        Reach(),
    ]


@pytest.mark.process
@pytest.mark.parametrize(
    ("given", "code", "told"),
    [
        (["list", "hello", "--header", "no header"], 2, "--header: 'no header' is not a header"),
        (
            ["list", str(sample_servers() / "hello"), "--era", "handshake"],
            2,
            "Keys, headers, revisions and packages cannot",
        ),
        (["list", "--mode", "x", "--", "true"], 2, "A program cannot receive a mode"),
        (["list", "--", "true"], 3, "ended with exit code 0"),
        (["list", "ws://127.0.0.1:9/ws"], 3, "cannot be reached"),
    ],
)
def test_what_means_nothing_is_refused(given: list[str], code: int, told: str, mcpdesk: Run) -> None:
    done = mcpdesk(*given)
    assert done.returncode == code
    assert told in done.stderr


@pytest.mark.process
def test_malformed_items_are_told_and_the_rest_is_listed(mcpdesk: Run) -> None:
    done = mcpdesk("list", "--", sys.executable, odd_server.PROGRAM)
    assert done.returncode == 0 and "\n  echo " in done.stdout
    assert "malformed: tools 5 ('shapeless') has no inputSchema" in done.stderr
