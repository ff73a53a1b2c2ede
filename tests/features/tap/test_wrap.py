"""`mcpdesk wrap` and `unwrap`: add the tap to a client's configuration, and remove it."""

from __future__ import annotations

import json
import os
import stat
import sys
import tomllib
from pathlib import Path

import pytest

from mcpdesk.cli.main import run
from mcpdesk.client.config_files import read_config
from mcpdesk.features.tap import toml_edits, yaml_edits
from mcpdesk.features.tap.json_edits import unwrapped, wrapped

ODD = """\ufeff{\r
  // mine "quoted" { \r
\t"mcpServers" : {
    "files": { "command": "npx", "args": ["-y", /* why, "x" */ "fs", "${HOME}"], }, // trailing
    "solo": {"command": "serve-\\u00e9", "env": {"A": "1"}},
    "lines": {
      "type": "stdio",
      "args": [
        "a",
        "b", // last
      ],
      "command": "C:\\\\x \\"y\\""
    },
    "empty": {"command": "y", "args": []}, "none": {"command": "z", "args": null},
    "docs": {"url": "https://example.com/mcp"},
    "own": {"command": "/opt/mcpdesk", "args": ["stdio", "/srv/folder"]},
  },
  "other": {"command": "not a server"}
}
"""
NESTED = """{"mcp": {"servers": {"a": {"command": "x"}}},
"projects": {"/p": {"mcpServers": {"b": {"command":"y","args":["1"]}}, "history": []}}}"""
COMMAND = ("/bin/mcpdesk",)


def servers(text: str, tmp_path: Path) -> dict[str, tuple[str, ...]]:
    path = tmp_path / "read.json"
    path.write_bytes(text.encode())
    return {each.name: each.argv for each in read_config(path).servers}


@pytest.mark.parametrize("command", [COMMAND, ("/usr/bin/python3", "-m", "mcpdesk")])
def test_only_what_starts_a_server_changes_and_the_rest_keeps_its_place(
    command: tuple[str, ...], tmp_path: Path
) -> None:
    edited = wrapped(ODD, command)
    before, after = servers(ODD, tmp_path), servers(edited.text, tmp_path)
    assert edited.changed == ("files", "solo", "lines", "empty", "none") and set(edited.unchanged) == {
        "docs",
        "own",
    }
    for name in edited.changed:
        assert after[name] == (*command, "stdio", "--", *before[name])
    assert after["own"] == before["own"]
    for kept in ('// mine "quoted" { \r\n', '/* why, "x" */ "fs"', '        "b", // last\n', "\ufeff{\r\n"):
        assert kept in edited.text
    again = wrapped(edited.text, ("/elsewhere/mcpdesk",))
    assert again.text == edited.text and not again.changed
    assert servers(unwrapped(edited.text).text, tmp_path) == before
    assert unwrapped(edited.text).text == ODD.replace('"args": null', '"args": []')


def test_servers_of_every_place_are_found() -> None:
    edited = wrapped(NESTED, COMMAND)
    assert edited.changed == ("a", "b") and unwrapped(edited.text).text == NESTED
    found = json.loads(edited.text)
    assert found["projects"]["/p"]["mcpServers"]["b"]["args"] == ["stdio", "--", "y", "1"]


def test_an_entry_that_starts_nothing_is_named_with_the_right_reason() -> None:
    far, near = {"httpUrl": "http://x"}, {"command": "x"}
    entries: dict[str, object] = {"none": None, "text": "x", "bare": {}, "far": far, "a": near | {"args": []}}
    text = json.dumps({"mcpServers": entries})
    edited = wrapped(text, COMMAND)
    assert edited.changed == ("a",) and unwrapped(edited.text).text == text
    reasons = {name: reason.partition(",")[0] for name, reason in edited.unchanged.items()}
    nothing = "this file starts no program for it"
    assert reasons == {"none": nothing, "text": nothing, "bare": nothing, "far": "it is reached by a URL"}


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "there" / "config.json"
    path.parent.mkdir()
    path.write_bytes(ODD.encode())
    path.chmod(0o640)
    return path


def test_the_file_is_byte_for_byte_what_it_was_with_its_mode_and_the_link_to_it(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    link = tmp_path / "link.json"
    link.symlink_to(config)
    assert run(["wrap", str(link), "files"]) == 0
    assert "added the tap to files" in capsys.readouterr().out
    assert run(["wrap", str(link)]) == 0
    told = capsys.readouterr().out
    assert (
        "added the tap to solo, lines, empty, none" in told
        and "docs is unchanged: it is reached by a URL" in told
    )
    backup = Path(told.partition("is kept: ")[2].strip())
    assert backup.read_bytes() == ODD.encode() and stat.S_IMODE(backup.stat().st_mode) == 0o600
    written = config.read_bytes()
    assert run(["wrap", str(link)]) == 0
    assert "nothing to do" in capsys.readouterr().out and config.read_bytes() == written
    assert run(["unwrap", str(link)]) == 0
    assert config.read_bytes() == ODD.encode() and link.is_symlink()
    assert stat.S_IMODE(config.stat().st_mode) == 0o640 and os.listdir(config.parent) == ["config.json"]
    capsys.readouterr()
    assert run(["unwrap", str(link)]) == 0
    assert "is not wrapped" in capsys.readouterr().out and config.read_bytes() == ODD.encode()


def test_what_was_changed_meanwhile_stays(config: Path) -> None:
    def changed(text: str) -> str:
        return (
            text.replace('"other"', '"another"').replace('"fs"', '"fs", "more"').replace("// mine", "// ours")
        )

    assert run(["wrap", str(config)]) == 0
    config.write_bytes(changed(config.read_bytes().decode()).encode())
    assert run(["unwrap", str(config)]) == 0
    assert config.read_bytes().decode() == changed(ODD).replace('"args": null', '"args": []')


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"mcpServers": {"a": }}', "Expecting value"),
        ("[]", "must contain an object"),
        (None, "config.json does not exist."),
        ('{"mcpServers": {"a": {"command": "x"}}}', "has no server 'nope'"),
    ],
)
def test_a_mistake_is_told_and_nothing_is_changed(
    text: str | None, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "config.json"
    if text is not None:
        path.write_text(text)
    assert run(["wrap", str(path), "nope"]) == 2
    assert said in capsys.readouterr().err
    assert text is None or path.read_text() == text


def test_a_backup_that_cannot_be_kept_leaves_the_file_alone(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MCPDESK_STATE_DIR", str(config))
    assert run(["wrap", str(config)]) == 2
    assert "cannot be written" in capsys.readouterr().err and config.read_bytes() == ODD.encode()


def test_settings_without_servers_give_way_to_those_that_have_some(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home, folder = tmp_path / "home", tmp_path / "project"
    text = '{"context_servers": {"a": {"command": "x"}}}'
    for path, content in ((folder / ".zed", '{"tab_size": 4}'), (home / ".config" / "zed", text)):
        path.mkdir(parents=True)
        (path / "settings.json").write_text(content)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    settings = home / ".config" / "zed" / "settings.json"
    assert run(["trust", "zed", "--yes"]) == 0
    assert f"{settings} is trusted" in capsys.readouterr().out
    assert run(["wrap", "zed"]) == 0
    assert json.loads(settings.read_text())["context_servers"]["a"]["args"][-1] == "x"


@pytest.mark.process
def test_a_wrapped_server_answers_and_is_recorded(
    tmp_path: Path, own_folders: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    server = {"command": sys.executable, "args": ["-m", "tests.support.official_server", "stdio"]}
    root = str(Path(__file__).parents[3])
    (tmp_path / ".mcp.json").write_text(
        json.dumps({"mcpServers": {"sums": server | {"env": {"PYTHONPATH": root}}}})
    )
    assert run(["trust", "claude-code", "--yes"]) == 0
    assert run(["wrap", "claude-code"]) == 0
    # A busy machine may take longer to start it than a server may take to answer the first probe.
    assert run(["call", ".mcp.json:sums", "add", "a=2", "b=3", "--era", "handshake"]) == 0
    assert "5" in capsys.readouterr().out
    (capture,) = (own_folders / "state" / "captures").glob("*official_server*.jsonl")
    assert b'"method":"tools/call"' in capture.read_bytes()


OTHERS = {
    "zed": '{"context_servers": {"a": {"command": "x" , "args": ["1"]},\n'
    ' "old": {"command": {"path": "y", "args": [], "env": {}}}, "ext": {"settings": {}}}, // end\n}',
    "opencode": '{"mcp": {\n\t"a": {"type":"local","command":[ "x" ,"1" ], "environment": {}},\n'
    ' "old": {"command": ["y"]}, "far": {"type": "remote", "url": "https://a.test"}}}',
}


@pytest.mark.parametrize("client", OTHERS)
@pytest.mark.parametrize("command", [COMMAND, ("/usr/bin/python3", "-m", "mcpdesk")])
def test_files_of_other_clients_are_wrapped_and_unwrapped(
    client: str, command: tuple[str, ...], tmp_path: Path
) -> None:
    before = OTHERS[client]
    edited = wrapped(before, command)
    assert edited.changed == ("a", "old")
    found = servers(edited.text, tmp_path)
    assert found["a"] == (*command, "stdio", "--", "x", "1")
    assert found["old"] == (*command, "stdio", "--", "y")
    assert wrapped(edited.text, command).text == edited.text
    assert unwrapped(edited.text).text == before


GOOSE = """\ufeff# mine
extensions:
  files:
    type: stdio
    cmd: 'npx' # here
    args:
      # why
      - -y   # first
      - "fs: x"
    envs: {cmd: no}
  "a b":\r
    cmd: uvx --fast # a plain text\r
    enabled: true\r
  empty: {type: stdio, cmd: "x", args: [],}
  flow: { cmd: y, args: [ -v, # "]
     more ] }
  solo: {cmd: z}
  none: {cmd: z, args: ~}
  indentless:
    cmd: w
    args:
    - 1
  developer: {type: builtin}
  far:
    type: streamable_http
    uri: https://a.test
  folded:
    cmd: >-
      many
      lines
  anchored: {cmd: &it x}
  alias:
    cmd: *it
other: {cmd: no}"""
CONTINUE = """name: mine
mcpServers:
- command: npx
  name: files
  args: ["-y", fs]
- name: solo
  command: "s\u00e9"
- {name: comma, command: a}
- name: far
  url: https://a.test
"""


@pytest.mark.sampled(1)
@pytest.mark.parametrize("command", [COMMAND, ("/usr/bin/python3", "-m", "mcpdesk")])
@pytest.mark.parametrize(
    ("text", "left"),
    [(GOOSE, {"developer", "far", "folded", "alias"}), (CONTINUE, {"far"})],
    ids=["goose", "continue"],
)
def test_files_in_yaml_are_wrapped_and_unwrapped(
    text: str, left: set[str], command: tuple[str, ...], tmp_path: Path
) -> None:
    edited = yaml_edits.wrapped(text, command)
    assert set(edited.unchanged) == left
    before, after = _yaml_servers(text, tmp_path), _yaml_servers(edited.text, tmp_path)
    assert set(edited.changed) == {name for name, argv in before.items() if argv} - left
    for name in edited.changed:
        assert after[name] == (*command, "stdio", "--", *before[name])
    again = yaml_edits.wrapped(edited.text, command)
    assert again.text == edited.text and not again.changed
    assert yaml_edits.unwrapped(edited.text).text == text.replace("args: ~", "args: []")


def _yaml_servers(text: str, tmp_path: Path) -> dict[str, tuple[str, ...]]:
    path = tmp_path / "config.yaml"
    path.write_bytes(text.encode())
    return {each.name: each.argv for each in read_config(path).servers}


def test_a_form_of_yaml_that_is_not_edited_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "goose.yaml"
    path.write_text(GOOSE)
    assert run(["wrap", str(path), "folded", "files"]) == 0
    shown = capsys.readouterr().out
    assert "added the tap to files" in shown and "folded is unchanged: its form cannot be edited" in shown
    assert run(["unwrap", str(path)]) == 0
    assert path.read_bytes() == GOOSE.encode()


CODEX = """model = "m" # mine
[mcp_servers.files]
command = 'C:\\x' # here
args = [
  "-y", # why
  "fs",
]
[mcp_servers.files.env]
command = "no"
[mcp_servers."a b"]\r
command = "s\u00e9"\r
[mcp_servers.none]
args = []
command = "y"
[mcp_servers.far]
url = "https://a.test"
[mcp_servers]
inline = { env = {command = "no", args = "]"}, command = "z" } # { }
"in two" = {args=["}", # why
  'b'], command='C:\\y'}
dotted.command = "d"
"""
INLINE = """mcp_servers = {a = {command = "x", args = []}, b = {command = "x"}}"""


@pytest.mark.parametrize("command", [COMMAND, ("/usr/bin/python3", "-m", "mcpdesk")])
def test_the_file_of_codex_is_wrapped_and_unwrapped(command: tuple[str, ...]) -> None:
    edited = toml_edits.wrapped(CODEX, command)
    assert edited.changed == ("files", "a b", "none", "inline", "in two")
    assert set(edited.unchanged) == {"far", "dotted"} and "cannot be edited" in edited.unchanged["dotted"]
    before, after = tomllib.loads(CODEX)["mcp_servers"], tomllib.loads(edited.text)["mcp_servers"]
    for name in edited.changed:
        own = [before[name]["command"], *before[name].get("args", [])]
        assert [after[name]["command"], *after[name]["args"]] == [*command, "stdio", "--", *own]
    assert after["files"]["env"] == before["files"]["env"]
    assert toml_edits.wrapped(edited.text, command).text == edited.text
    assert toml_edits.unwrapped(edited.text).text == CODEX
    edited = toml_edits.wrapped(INLINE, command)
    assert edited.changed == ("a", "b") and toml_edits.unwrapped(edited.text).text == INLINE


BY_MODULE = '[mcp_servers.a]\ncommand = "/old/python3"\nargs = [{before}"-m", "mcpdesk", "stdio", {rest}]\n'


@pytest.mark.parametrize(
    "text",
    [
        BY_MODULE.format(before="# mine\n", rest='"/srv"'),
        BY_MODULE.format(before="", rest='"/srv"').replace("command", '"command"'),
        BY_MODULE.format(before="", rest='"/srv"').replace("args", "'args'"),
    ],
    ids=["comment", "command", "args"],
)
def test_a_form_of_toml_that_is_not_edited_is_kept_and_named(text: str) -> None:
    edited = toml_edits.repaired(text, COMMAND, lambda words: True)
    assert (edited.text, edited.changed) == (text, ())
    assert edited.unchanged == {"a": "its form cannot be edited"}
    tapped = text.replace('"/srv"', '"--", "cat"')
    edited = toml_edits.unwrapped(tapped)
    assert (edited.text, edited.changed, edited.unchanged) == (tapped, (), {})


def test_a_command_of_toml_under_a_quoted_key_is_not_wrapped() -> None:
    text = '[mcp_servers.a]\n"command" = "x"\n'
    edited = toml_edits.wrapped(text, COMMAND)
    assert (edited.text, edited.changed) == (text, ())
    assert edited.unchanged == {"a": "its form cannot be edited; add the tap by hand"}


def test_the_commands_wrap_and_unwrap_toml(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(CODEX.encode())
    assert run(["wrap", str(path), "files"]) == 0
    assert "added the tap to files" in capsys.readouterr().out and path.read_bytes() != CODEX.encode()
    path.write_bytes(path.read_bytes().replace(b"# why", b"# changed"))
    assert run(["unwrap", str(path)]) == 0
    assert path.read_bytes() == CODEX.replace("# why", "# changed").encode()
