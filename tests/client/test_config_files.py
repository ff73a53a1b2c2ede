"""The configuration files of other clients, as people have them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcpdesk.client.config_files import ConfigFile, read_config, without_comments
from mcpdesk.client.configs.servers import InputVariable
from mcpdesk.client.configs.variables import expanded
from mcpdesk.errors import DeskUserError

CLAUDE = """{
  "mcpServers": {
    "files": {"command": "npx", "args": ["-y", "fs", "${HOME}/notes"], "env": {"LOG": "1", "PORT": 5}},
    "remote": {"type": "http", "url": "https://a.test/mcp", "headers": {"Authorization": "Bearer ${TOKEN}"}}
  }
}"""
CODE = """// my servers
{
  "inputs": [{"id": "key", "type": "promptString", "description": "The API key", "password": true},],
  "servers": {
    "one": {"type": "stdio", "command": "uvx", "args": ["one" /* the first */, "--key=${input:key}"]},
    "two": {"type": "sse", "url": "http://localhost:1/sse?a=//b", "gallery": "x", "surprise": 1},
  }
}"""


def _read(tmp_path: Path, text: str) -> ConfigFile:
    path = tmp_path / "mcp.json"
    path.write_text(text)
    return read_config(path)


def _file(servers: object) -> str:
    return json.dumps({"mcpServers": servers})


def _nobody(variable: InputVariable) -> str:
    raise AssertionError("nobody is to be asked")


def test_a_file_of_claude_names_commands_and_urls(tmp_path: Path) -> None:
    config = _read(tmp_path, CLAUDE)
    environ = {"HOME": "/home/ada", "TOKEN": "t0p ${HOME}"}
    files, remote = (expanded(each, environ, config.inputs, _nobody, tmp_path) for each in config.servers)
    assert files.argv == ("npx", "-y", "fs", "/home/ada/notes")
    assert files.environment == {"LOG": "1", "PORT": "5"}
    assert (remote.url, remote.kind) == ("https://a.test/mcp", "http")
    assert remote.headers == {"Authorization": "Bearer t0p ${HOME}"}
    assert "t0p" not in repr(remote)


def test_a_file_of_vs_code_has_comments_and_asks(tmp_path: Path) -> None:
    config = _read(tmp_path, CODE)
    asked: list[InputVariable] = []

    def ask(variable: InputVariable) -> str:
        asked.append(variable)
        return "secret"

    one, two = (expanded(each, {}, config.inputs, ask, tmp_path) for each in config.servers)
    assert one.argv == ("uvx", "one", "--key=secret")
    assert [(each.description, each.is_secret) for each in asked] == [("The API key", True)]
    assert (two.url, two.kind) == ("http://localhost:1/sse?a=//b", "sse")
    assert two.remarks == ("'surprise' is not allowed here",)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${A}", "a"), ("${env:A}", "a"), ("${B:-b}", "b"), ("${A:-b}", "a"), ("$A {A}", "$A {A}"),
        ("${workspaceFolder}/x", "FOLDER/x"), ("a${A}b${A}", "aaba"), ("${B:-}", ""),
    ],
)  # fmt: skip
def test_variables_are_replaced_once(text: str, value: str, tmp_path: Path) -> None:
    config = _read(tmp_path, _file({"x": {"command": "c", "args": [text]}}))
    server = expanded(config.servers[0], {"A": "a"}, config.inputs, _nobody, tmp_path)
    assert server.argv[1] == value.replace("FOLDER", str(tmp_path))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("${NO}", r"\$\{NO\} has no value: the environment variable is not set"),
        ("${input:no}", r"\$\{input:no\} has no value: inputs contains nothing"),
        ("${command:x}", r"allowed: \$\{NAME\}"),
    ],
)
def test_a_variable_without_a_value_is_named(text: str, told: str, tmp_path: Path) -> None:
    config = _read(tmp_path, _file({"x": {"command": text}}))
    with pytest.raises(DeskUserError, match=f"x: .*{told}"):
        expanded(config.servers[0], {}, config.inputs, _nobody, tmp_path)


@pytest.mark.parametrize("text", ["${A\n`rm -rf ~`\x1b[2J}", "${input:A\n`rm -rf ~`\x1b[2J}"])
def test_the_name_of_a_variable_cannot_look_like_a_command_of_ours(text: str, tmp_path: Path) -> None:
    config = _read(tmp_path, _file({"x": {"command": text}}))
    with pytest.raises(DeskUserError, match=r"A⏎'rm -rf ~'␛\[2J\} has no value") as refused:
        expanded(config.servers[0], {}, config.inputs, _nobody, tmp_path)
    assert not {"\n", "`", "\x1b"} & set(f"{refused.value}{refused.value.hint}")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('{"mcpServers": {\n  "x": nothing}}', r"mcp\.json:2:8: Expecting value"),
        ("[]", "contains no servers"),
        ('{"mcpServers": []}', "contains no servers"),
        ("[" * 100_000, "nested too deeply"),
        ("", "Expecting value"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_the_place(text: str, told: str, tmp_path: Path) -> None:
    with pytest.raises(DeskUserError, match=told):
        _read(tmp_path, text)


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ("5", "must be an object"),
        ("{}", "needs either a command or a url"),
        ('{"command": "a", "url": "b"}', "needs either a command or a url"),
        ('{"command": "a", "args": "b"}', "args must be a list"),
        ('{"url": "a", "headers": []}', "headers must be an object"),
        ('{"url": "a", "type": "pigeon"}', "type is 'pigeon'; allowed: stdio"),
        ('{"command": " "}', "its command is empty"),
    ],
)
def test_a_broken_entry_is_marked_and_the_others_stay(entry: str, told: str, tmp_path: Path) -> None:
    config = _read(tmp_path, _file({"bad": json.loads(entry), "good": {"command": "c"}}))
    assert told in config.server("bad").problem
    assert not config.server("good").problem


def test_a_server_that_is_not_there_is_told_with_those_that_are(tmp_path: Path) -> None:
    with pytest.raises(DeskUserError, match="no server 'x'") as refused:
        _read(tmp_path, CLAUDE).server("x")
    assert refused.value.hint == "Its servers: files, remote."


@pytest.mark.parametrize("text", ["/* " * 200_000, '{"a":"' + '\\"' * 300_000])
def test_comments_and_strings_without_an_end_are_read_once(text: str) -> None:
    assert without_comments(text) == text
