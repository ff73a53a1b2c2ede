"""Taps whose program no longer exists are found and repaired."""

from __future__ import annotations

import json
import shlex
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from mcpdesk.cli.main import run
from mcpdesk.client.configs.own_program import started_command
from mcpdesk.features.tap import json_edits, toml_edits, yaml_edits

STARTS = [
    ("/opt/mcpdesk", ()),
    ("C:/x/mcpdesk.exe", ()),
    ("/usr/bin/python3", ("-m", "mcpdesk")),
    ("/bin/uvx", ("mcpdesk",)),
    ("uvx", ("--from", "/w/mcpdesk.whl", "mcpdesk")),
    ("uvx", ("mcpdesk@0.2.0",)),
    ("uv", ("tool", "run", "mcpdesk")),
    ("pipx", ("run", "--spec", "mcpdesk==0.2", "mcpdesk")),
]


@pytest.mark.parametrize(("command", "own"), STARTS)
def test_every_way_to_start_this_program_can_be_wrapped(command: str, own: tuple[str, ...]) -> None:
    text = '{"mcpServers": {"a": {"command": "x", "args": ["1"]}, "b": {"command": "y"}}}'
    toml = '[mcp_servers.a]\ncommand = "x"\nargs = ["1"]\n[mcp_servers.b]\ncommand = "y"\n'
    goose = "extensions:\n  a:\n    cmd: x\n    args:\n      - '1'\n  b: {cmd: y}\n"
    for edits, before in ((json_edits, text), (toml_edits, toml), (yaml_edits, goose)):
        edited = edits.wrapped(before, (command, *own))
        assert edited.changed == ("a", "b")
        assert edits.wrapped(edited.text, (command, *own)).changed == ()
        assert edits.unwrapped(edited.text).text == before
        later = edits.repaired(edited.text, ("/new/uvx", "--from", "w", "mcpdesk"), lambda words: True)
        assert later.changed == ("a", "b") and not later.unchanged
        assert later.text == edits.wrapped(before, ("/new/uvx", "--from", "w", "mcpdesk")).text


def test_only_the_program_is_repaired_in_every_language() -> None:
    def is_old(words: object) -> bool:
        return isinstance(words, tuple) and words[0] == "/old/mcpdesk"

    new = ("/bin/uvx", "mcpdesk")
    text = """{"mcpServers": { // mine
      "tap": {"command": "/old/mcpdesk", "args": ["stdio", "--", "x", "1"]},
      "folder": {"args": [ "stdio", "/srv" ], "command": "/old/mcpdesk"},
      "other": {"command": "/new/mcpdesk", "args": ["stdio", "--", "y"]}}}"""
    edited = json_edits.repaired(text, new, is_old)
    assert edited.changed == ("tap", "folder")
    expected = text.replace('"/old/mcpdesk"', '"/bin/uvx"')
    for before in ('"stdio", "--", "x"', '"stdio", "/srv"'):
        expected = expected.replace(before, f'"mcpdesk", {before}')
    assert edited.text == expected
    toml = '[mcp_servers.a]\nargs = [\n  "stdio", "/srv"]\ncommand = \'/old/mcpdesk\' # why\n'
    edited = toml_edits.repaired(toml, new, is_old)
    assert tomllib.loads(edited.text)["mcp_servers"]["a"]["args"] == ["mcpdesk", "stdio", "/srv"]
    assert "# why" in edited.text
    block = "extensions:\n  a:\n    args:\n      # first\n      - stdio\n      - /srv # last\n"
    block += "    cmd: /old/mcpdesk\n"
    edited = yaml_edits.repaired(block, new, is_old)
    entry = yaml.safe_load(edited.text)["extensions"]["a"]
    assert entry == {"cmd": "/bin/uvx", "args": ["mcpdesk", "stdio", "/srv"]} and "# last" in edited.text
    back = yaml_edits.repaired(edited.text, ("/old/mcpdesk",), lambda words: True)
    assert yaml.safe_load(back.text) == yaml.safe_load(block) and back.changed == ("a",)


def test_check_finds_dead_wraps_and_repairs_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    config, servers = tmp_path / "config.json", {"x": {"command": "cat"}, "far": {"url": "https://a.test"}}
    before = json.dumps({"mcpServers": servers})
    config.write_text(before)
    now = shlex.join(started_command("", sys.executable))
    monkeypatch.setenv("MCPDESK_PROGRAM", str(tmp_path / "gone" / "mcpdesk"))
    assert run(["wrap", str(config)]) == 0
    monkeypatch.setenv("MCPDESK_PROGRAM", now)
    capsys.readouterr()
    assert run(["wrap", "--check", str(config)]) == 0
    shown = capsys.readouterr().out
    assert "dead: x" in shown and "gone/mcpdesk does not exist" in shown and "repaired: x" in shown
    entry = json.loads(config.read_text())["mcpServers"]["x"]
    assert [entry["command"], *entry["args"]] == [*shlex.split(now), "stdio", "--", "cat"]
    assert run(["wrap", "--check", str(config)]) == 0
    again = capsys.readouterr()
    assert again.out == "" and "1 configuration file read" in again.err
    assert run(["unwrap", str(config)]) == 0 and config.read_text() == before


def test_check_looks_at_every_client(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("XDG_CONFIG_HOME", "CODEX_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    dead = {"command": "/gone/mcpdesk", "args": ["stdio", "/srv"]}
    (tmp_path / ".cursor").mkdir()
    (tmp_path / ".cursor" / "mcp.json").write_text(json.dumps({"mcpServers": {"a": dead}}))
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex" / "config.toml").write_text(
        '[mcp_servers]\ns.command = "/gone/mcpdesk"\ns.args = ["stdio", "/srv"]\n'
    )
    (tmp_path / ".mcp.json").write_text("{")
    assert run(["wrap", "--check"]) == 1
    shown = capsys.readouterr()
    assert "repaired: a" in shown.out and "s is unchanged: its form cannot be edited" in shown.out
    assert ".mcp.json" in shown.err and "2 configuration files read" in shown.err
    assert run(["wrap"]) == 2 and "Missing argument" in capsys.readouterr().err


def test_a_file_is_refused_where_the_program_does_not_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cache = tmp_path / "uv"
    own = cache / "archive-v0" / "h4sh" / "bin" / "mcpdesk"
    own.parent.mkdir(parents=True)
    (cache / "CACHEDIR.TAG").write_text("Signature: 8a477f597d28d172789f06886806bc55")
    own.write_text("#!/bin/sh\n")
    own.chmod(0o755)
    monkeypatch.delenv("MCPDESK_PROGRAM")
    monkeypatch.setattr(sys, "argv", [str(own)])
    monkeypatch.setenv("PATH", str(own.parent))
    config = tmp_path / "config.json"
    config.write_text('{"mcpServers": {"x": {"command": "cat"}}}')
    assert run(["wrap", str(config)]) == 2
    assert "temporary environment" in capsys.readouterr().err and "h4sh" not in config.read_text()
