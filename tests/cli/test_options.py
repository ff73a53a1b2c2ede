"""Flags and folders the commands share."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from mcpdesk.cli.options import given_flags, setting_options, with_web_address
from mcpdesk.cli.reach import server_folder
from mcpdesk.errors import DeskUserError
from mcpdesk.setting_values import SettingKind
from mcpdesk.settings import SETTINGS


def flags_of(*arguments: str) -> dict[str, object]:
    """Parse flags with a command and return its values."""
    found: dict[str, object] = {}

    @click.command
    @setting_options
    def command(**values: object) -> None:
        found.update(given_flags(values))

    result = CliRunner().invoke(command, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return {name: value for name, value in found.items() if value is not None}


def test_every_setting_but_secrets_has_a_flag() -> None:
    assert flags_of() == {}
    for setting in SETTINGS:
        if setting.kind is SettingKind.SECRET or setting.name == "trust":  # whose flag goes with every target
            continue
        value = [] if setting.name == "no_auth" else ["true"]
        assert list(flags_of(setting.flag, *value)) == [setting.name]


@pytest.mark.parametrize(
    ("http", "flags"),
    [
        ("0.0.0.0:80", {"host": "0.0.0.0", "port": "80"}),
        ("[::1]:3333", {"host": "::1", "port": "3333"}),
        ("localhost:0", {"host": "localhost", "port": "0"}),
        (":4000", {"port": "4000"}),
        ("4000", {"port": "4000"}),
        ("", {}),
    ],
)
def test_http_is_short_for_host_and_port(http: str, flags: dict[str, str]) -> None:
    assert flags_of("--http", http) == flags


@pytest.mark.parametrize("http", ["localhost", "::1:80", "a:b"])
def test_http_that_is_not_understood_is_told(http: str) -> None:
    with pytest.raises(DeskUserError, match="--http"):
        flags_of("--http", http)


def test_folder_is_told_from_what_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert server_folder(str(tmp_path)) == tmp_path.resolve()
    for text, message in (
        (str(tmp_path / "none"), "^Folder .*/none' does not exist"),
        (str(tmp_path / "file"), "is a file"),
        ("http://localhost:1", "only a server folder"),
    ):
        with pytest.raises(DeskUserError, match=message) as caught:
            server_folder(text)
        assert caught.value.hint


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        (["--web"], ["--web", "127.0.0.1:3334"]),
        (["--web", "a", "b"], ["--web", "127.0.0.1:3334", "a", "b"]),
        (["a", "--web", "--theme", "x"], ["a", "--web", "127.0.0.1:3334", "--theme", "x"]),
        (["--web", "4000", "a"], ["--web", "4000", "a"]),
        (["--web", "[::1]:80"], ["--web", "[::1]:80"]),
        (["--web", "desk.example:0", "a"], ["--web", "desk.example:0", "a"]),
        (["--web", "--", "npx", "x"], ["--web", "127.0.0.1:3334", "--", "npx", "x"]),
        (["--", "program", "--web"], ["--", "program", "--web"]),
        (["--web=5", "a"], ["--web=5", "a"]),
        (["a"], ["a"]),
    ],
)
def test_web_needs_no_value(given: list[str], meant: list[str]) -> None:
    assert with_web_address(given) == meant


@pytest.mark.parametrize(("name", "arguments"), [("mcp.json", "{folder}"), ("run.jsonl", "open {file}")])
def test_a_file_instead_of_a_folder_has_a_hint_with_the_command_for_it(
    name: str, arguments: str, tmp_path: Path
) -> None:
    file = tmp_path / name
    file.touch()
    with pytest.raises(DeskUserError, match="is a file, not a folder") as raised:
        server_folder(str(file))
    assert f"`mcpdesk {arguments.format(folder=tmp_path, file=file)}`" in str(raised.value.hint)
