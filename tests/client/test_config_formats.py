"""Configuration files of every supported client, with its own keys and variables."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mcpdesk.client.config_files import ConfigFile, read_config
from mcpdesk.client.configs.formats import FORMATS
from mcpdesk.client.configs.servers import InputVariable
from mcpdesk.client.oauth.login_options import LoginOptions, Secret
from mcpdesk.client.targets import BrokenTarget, CommandTarget, RemoteTarget, UrlTarget, configured_targets
from mcpdesk.client.trust import describe_untrusted
from mcpdesk.errors import DeskUserError
from tests.support.trusting import agree

ENVIRON = {"KEY": "from outside", "TOKEN": "t1"}


def targets(path: Path, text: str, environ: dict[str, str] = ENVIRON) -> dict[str, RemoteTarget]:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return dict(configured_targets(path, environ, _ask, agree))


def _ask(variable: InputVariable) -> str:
    return f"<{variable.name}>"


def command(*argv: str, folder: Path | None = None, **environment: str) -> CommandTarget:
    return CommandTarget(argv, environment, folder)


CODEX = """
model = "m"
[mcp_servers.files]
command = "sh"
args = ["-c", "exit"]
startup_timeout_sec = 20
[mcp_servers.files.env]
LEVEL = 3
[mcp_servers.far]
url = "https://a.test/mcp"
bearer_token_env_var = "TOKEN"
http_headers = { X-Region = "eu" }
env_http_headers = { X-Key = "KEY" }
"""
ZED = """{
  "theme": "One", // mine
  "context_servers": {
    "new": {"source": "custom", "command": "sh", "args": ["-c"], "env": {"A": "1"}},
    "old": {"command": {"path": "sh", "args": ["-l"], "env": {"B": "2"}}, "settings": {}},
    "theirs": {"source": "extension", "settings": {"k": 1}},
    "far": {"url": "https://a.test/mcp", "headers": {"X-A": "b"}},
  }
}"""
OPENCODE = """{"mcp": {
  "near": {"type": "local", "command": ["sh", "-c", "{env:TOKEN}"], "environment": {"A": "{env:KEY}"}},
  "far": {"type": "remote", "url": "https://a.test/mcp", "headers": {"Authorization": "Bearer {env:TOKEN}"}},
  "secret": {"type": "remote", "url": "https://a.test/mcp", "headers": {"X": "{file:~/.key}"}},
  "text": {"type": "local", "command": "sh -c"}, "none": {"type": "local", "command": []}
}}"""
GOOSE = """
extensions:
  near: {type: stdio, cmd: sh, args: [-c, on], envs: {A: "1"}, env_keys: [TOKEN], enabled: true, timeout: 300}
  far: {type: streamable_http, uri: "https://a.test/mcp", headers: {X-A: b}}
  old: {type: sse, uri: "https://a.test/sse"}
  developer: {type: builtin, name: developer, enabled: true}
"""
CONTINUE = """
name: mine
mcpServers:
  - name: near
    command: sh
    args: [-c, "${{ secrets.TOKEN }}"]
    env: {A: 1}
  - name: far
    type: streamable-http
    url: https://a.test/mcp
    requestOptions: {headers: {X-A: "${{ inputs.KEY }}"}}
  - name: near
    url: https://b.test/mcp
    apiKey: abc
  - uses: someone/block
  - command: sh
"""
PROJECTS = """{"mcpServers": {"one": {"command": "sh"}}, "projects": {
  "/src/shop": {"mcpServers": {"one": {"command": "sh", "args": ["${workspaceFolder}"]},
   "two": {"command": "sh"}}},
  "/src/empty": {"mcpServers": {}}, "/src/odd": {"mcpServers": 5}}}"""
FAR = UrlTarget("https://a.test/mcp")


def test_codex(tmp_path: Path) -> None:
    found = targets(tmp_path / "config.toml", CODEX)
    headers = {"X-Region": "eu", "X-Key": "from outside", "Authorization": "Bearer t1"}
    assert found == {
        "files": command("sh", "-c", "exit", LEVEL="3"),
        "far": UrlTarget("https://a.test/mcp", headers),
    }


def test_zed(tmp_path: Path) -> None:
    found = targets(tmp_path / "settings.json", ZED)
    assert found == {
        "new": command("sh", "-c", A="1"),
        "old": command("sh", "-l", B="2"),
        "theirs": found["theirs"],
        "far": UrlTarget("https://a.test/mcp", {"X-A": "b"}),
    }
    assert "comes from an extension of Zed" in _problem(found["theirs"])


def test_opencode(tmp_path: Path) -> None:
    found = targets(tmp_path / "opencode.json", OPENCODE)
    assert found["near"] == command("sh", "-c", "t1", A="from outside")
    assert found["far"] == UrlTarget("https://a.test/mcp", {"Authorization": "Bearer t1"})
    assert "{file:...} is not supported" in _problem(found["secret"])
    assert "command must be a list" in _problem(found["text"])
    assert "command is empty" in _problem(found["none"])


def test_goose(tmp_path: Path) -> None:
    found = targets(tmp_path / "config.yaml", GOOSE)
    assert found["near"] == command("sh", "-c", "on", TOKEN="t1", A="1")
    assert found["far"] == UrlTarget("https://a.test/mcp", {"X-A": "b"}, "http")
    assert found["old"] == UrlTarget("https://a.test/sse", kind="sse")
    assert "built into Goose" in _problem(found["developer"])


def test_continue_names_its_servers_in_a_list(tmp_path: Path) -> None:
    found = targets(tmp_path / "config.yaml", CONTINUE)
    assert list(found) == ["near", "far", "near-2", "server-4", "server-5"]
    assert found["near"] == command("sh", "-c", "t1", A="1")
    assert found["far"] == UrlTarget("https://a.test/mcp", {"X-A": "from outside"}, "http")
    assert found["near-2"] == UrlTarget("https://b.test/mcp", {"Authorization": "Bearer abc"})
    assert "Continue's hub" in _problem(found["server-4"])


def test_servers_of_projects_run_in_their_project(tmp_path: Path) -> None:
    shop = Path("/src/shop")
    found = targets(tmp_path / ".claude.json", PROJECTS)
    assert found == {
        "one": command("sh"),
        "one@shop": command("sh", "/src/shop", folder=shop),
        "two": command("sh", folder=shop),
    }


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({"httpUrl": "https://a.test/mcp", "trust": True}, UrlTarget("https://a.test/mcp", kind="http")),
        ({"serverUrl": "https://a.test/mcp"}, FAR),
        ({"uri": "https://a.test/mcp"}, FAR),
        ({"transport": "streamable_http", "url": "https://a.test/mcp"}, UrlTarget(FAR.url, kind="http")),
        ({"type": "streamableHttp", "url": "https://a.test/mcp"}, UrlTarget(FAR.url, kind="http")),
        ({"url": "ws://a.test/mcp"}, UrlTarget("ws://a.test/mcp", kind="ws")),
        ({"url": "WSS://a.test/mcp", "type": "http"}, UrlTarget("WSS://a.test/mcp", kind="ws")),
        ({"command": "sh", "args": [1, True, 2.5], "env": {"A": False, "B": None}},
         command("sh", "1", "true", "2.5", A="false")),
        ({"command": "sh", "args": ["${K}", "${KEY}", "${env:KEY}"], "env": {"K": "own", "KEY": "${KEY}!"}},
         command("sh", "own", "from outside!", "from outside", K="own", KEY="from outside!")),
        ({"command": "sh", "args": ["${B}"], "env": {"A": "a", "B": "${A}${A}"}},
         command("sh", "aa", A="a", B="aa")),
        ({"command": "sh", "args": ["${env:NOT_SET}", "${NOT_SET:-d}", "${input:i}"]},
         command("sh", "", "d", "<i>")),
    ],
)  # fmt: skip
@pytest.mark.parametrize("root", ["mcpServers", "servers"])
def test_plain_keys(entry: dict[str, object], expected: RemoteTarget, root: str, tmp_path: Path) -> None:
    inputs = [{"id": "i", "options": [{"label": "x", "value": "y"}]}, {"id": 5}, {"id": "j", "options": 5}]
    found = targets(tmp_path / "x.json", json.dumps({root: {"a": entry}, "inputs": inputs}))
    assert found == {"a": expected}


@pytest.mark.parametrize("root", [("servers",), ("mcp", "servers")])
def test_variables_and_files_of_vs_code(root: tuple[str, ...], tmp_path: Path) -> None:
    """The variables of editors are those of the project, and `env` comes before `envFile`."""
    project = tmp_path / "shop"
    entry = {
        "command": "sh",
        "args": [
            "${workspaceFolder}",
            "${workspaceFolderBasename}",
            "${cwd}",
            "${userHome}",
            "a${/}b",
            "${F}",
        ],
        "env": {"F2": "${F}", "OWN": "env"},
        "envFile": "${workspaceFolder}/.env",
    }
    content: object = {"a": entry, "lost": entry | {"envFile": "none.env"}}
    for key in reversed(root):
        content = {key: content}
    project.mkdir()
    (project / ".env").write_text(
        "\ufeff# mine\nexport F='a # b'\r\nOWN=file\n G = plain # why\nnonsense\nH=\"x\\ny\"\n"
    )
    found = targets(project / ".vscode" / "settings.json", json.dumps(content))
    words = (str(project), "shop", str(project), str(Path.home()), "a/b", "a # b")
    environment = {"F": "a # b", "OWN": "env", "G": "plain", "H": "x\ny", "F2": "a # b"}
    assert found["a"] == command("sh", *words, folder=project, **environment)
    assert _problem(found["lost"]) == f"envFile {project / 'none.env'} does not exist"


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (
            ["npx", "-y", "mcp-remote@latest", "https://a.test/mcp", "--header", "X-Two: b c", "--debug"],
            UrlTarget("https://a.test/mcp", {"X-Two": "b c"}),
        ),
        (
            ["npx", "mcp-remote", "https://a.test/mcp", "9696", "--header", "Authorization:${AUTH}",
             "--transport", "sse-only"],
            UrlTarget("https://a.test/mcp", {"Authorization": "Bearer me"}, "sse"),
        ),
        (["mcp-remote", "https://a.test/mcp"], FAR),
        (["npx", "mcp-remote", "https://a.test/mcp", "--resource", "https://a.test/", "--host", "localhost",
          "--static-oauth-client-metadata", "@metadata.json"], FAR),
        (
            ["npx", "mcp-remote", "https://a.test/mcp", "3334", "--static-oauth-client-info",
             '{"client_id": "me", "client_secret": "${AUTH}"}',
             "--static-oauth-client-metadata", '{"scope": "read write", "redirect_uris": []}'],
            UrlTarget("https://a.test/mcp", login=LoginOptions(
                "me", Secret("Bearer me"), scope="read write", callback_port=3334, callback_host="localhost",
                callback_path="/oauth/callback")),
        ),
    ],
)  # fmt: skip
def test_mcp_remote_is_reached_directly(argv: list[str], expected: RemoteTarget, tmp_path: Path) -> None:
    entry = {"command": argv[0], "args": argv[1:], "env": {"AUTH": "Bearer me"}}
    assert targets(tmp_path / "x.json", json.dumps({"mcpServers": {"a": entry}})) == {"a": expected}


@pytest.mark.parametrize(
    "argv",
    [
        ["npx", "-y", "mcp-remote-other", "https://a.test/mcp"],
        ["npx", "mcp-remote", "https://a.test/mcp", "--unheard-of"],
        ["npx", "mcp-remote", "https://a.test/mcp", "--header", "no colon"],
        ["npx", "mcp-remote", "https://a.test/mcp", "--static-oauth-client-info", "@client.json"],
        ["npx", "mcp-remote", "https://a.test/mcp", "--static-oauth-client-info", "{"],
        ["npx", "mcp-remote", "https://a.test/mcp", "9" * 5000, "--static-oauth-client-info",
         '{"client_id": "tea"}'],
        ["npx", "mcp-remote", "https://a.test/mcp", "--host", "away.test", "--static-oauth-client-info",
         '{"client_id": "me"}'],
        ["npx", "mcp-remote"],
    ],
)  # fmt: skip
def test_another_use_of_npx_starts_the_program(argv: list[str], tmp_path: Path) -> None:
    entry = {"command": argv[0], "args": argv[1:]}
    assert targets(tmp_path / "x.json", json.dumps({"mcpServers": {"a": entry}})) == {"a": command(*argv)}


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ('{"url": "ftp://a.test/"}', "its url must begin with http://"),
        ('{"url": "http://[a/"}', "Invalid URL"),
        ('{"url": "http://a:99999/"}', "Invalid URL"),
        ('{"url": " "}', "its url is empty"),
        ('{"url": "http://a/", "headers": {"a b": "c"}}', "'a b' is not a header name"),
        ('{"url": "http://a/", "headers": {"A": "b\\nc"}}', "header A has characters that cannot be sent"),
        ('{"url": "http://a/", "headers": {"A": {}}}', "headers.A must be a string"),
        ('{"command": "sh -c exit"}', "a command is one program. Write \"command\": \"sh\""),
        ('{"command": "sh", "url": "http://a/"}', "has both command and url"),
        ('{"command": ["sh"]}', "command must be a string"),
        ('{"command": "sh", "args": [[]]}', "args[0] must be a string"),
        ('{"command": "sh", "env": {"A=B": "c"}}', "'A=B', which is not a variable name"),
        ('{"command": "sh", "env": {"A": []}}', "env.A must be a string"),
        ('{"command": "sh", "type": []}', "type is '[]'; allowed: stdio"),
        ('{"command": "sh", "cwd": 5}', "cwd must be a string"),
        ('{"command": "sh", "envFile": {}}', "envFile must be a string"),
        ('{"command": "sh", "args": ["\\u0000"]}', "NUL character"),
        ('{"command": "${NOT_SET}"}', "the environment variable is not set"),
    ],
)  # fmt: skip
def test_a_faulty_entry_has_one_sentence_and_the_others_work(entry: str, reason: str, tmp_path: Path) -> None:
    found = targets(tmp_path / "x.json", f'{{"mcpServers": {{"bad": {entry}, "good": {{"command": "sh"}}}}}}')
    assert found["good"] == command("sh")
    assert reason in _problem(found["bad"])


def test_a_name_used_twice_is_named(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"mcpServers": {"a": {"command": "first"}, "a": {"command": "last"}}}')
    (server,) = read_config(path).servers
    assert server.argv == ("last",)
    assert server.remarks == ("the name is in the file more than once; the last entry is used",)


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("a.toml", "[mcp_servers\n", "a.toml:1:13: Expected ']'"),
        ("a.toml", "[mcp_servers.a]\ncommand='x'\n[mcp_servers.a]\n", "Cannot declare"),
        ("a.toml", "x = 1\n", "contains no servers"),
        ("a.yaml", "a: [\n", "a.yaml:2: "),
        ("a.yaml", "extensions: {a: *b}\n", "a.yaml:1: "),
        ("a.yml", "extensions: {ms-python.python: {version: 1}}\n", "contains no servers"),
        ("a.yml", "mcpServers: [5]\n", "contains no servers"),
        ("a.ini", "[mcp]\ncommand=x\n", "this format is not supported"),
        ("a.json", '{"mcpServers": ' + "1" * 5000 + "}", "integer string conversion"),
    ],
)
def test_a_file_that_cannot_be_read_has_one_sentence(
    name: str, text: str, reason: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(DeskUserError) as refused:
        read_config(tmp_path / name)
    assert reason in str(refused.value) and refused.value.hint


def test_the_preview_shows_files_and_variables_that_are_read(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    entry = {
        "command": "sh",
        "args": ["${OWN}", "${A}", "${env:B}", "${workspaceFolderBasename}", "${input:i}"],
        "env": {"OWN": "x", "C": "${C}", "BOTH": "${OWN}/${C}"},
        "envFile": "${D}/secrets.env",
        "odd": 1,
    }
    path.write_text(json.dumps({"servers": {"a": entry}}))
    lines = [line.strip() for line in describe_untrusted(read_config(path)).lines]
    assert "reads the variables in the file ${D}/secrets.env" in lines
    assert "reads the environment variables A, B, C, D" in lines
    assert "asks you for i" in lines and "note: 'odd' is not allowed here" in lines


def test_every_format_is_in_the_documentation() -> None:
    page = (Path(__file__).parents[2] / "docs" / "any-server.md").read_text()
    for kind in FORMATS:
        assert all(f"`{'.'.join(path)}`" in page for path in kind.paths[:2]), kind.clients


def _problem(target: RemoteTarget) -> str:
    assert isinstance(target, BrokenTarget)
    return target.problem


def test_a_file_is_read_as_the_configuration_of_a_project(tmp_path: Path) -> None:
    for name in (".gemini/settings.json", ".codex/config.toml", ".cursor/mcp.json", ".junie/mcp/mcp.json"):
        config = ConfigFile(tmp_path / name, (), {}, "")
        assert config.is_of_project and config.workspace == tmp_path
    config = ConfigFile(Path.home() / ".codex" / "config.toml", (), {}, "")
    assert not config.is_of_project
