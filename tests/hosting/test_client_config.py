"""Configurations to paste, for every client we know, over stdio and over HTTP."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from mcpdesk.client.configs.own_program import started_command
from mcpdesk.errors import DeskUserError
from mcpdesk.hosting.client_config import CLIENTS, ClientTransport, ServerAddress, client_config

URL = "http://127.0.0.1:3333/mcp/profiles"
FACTS = ServerAddress("profiles", "/srv/my profiles", URL, "k3y", command=("/opt/x/mcpdesk",))
ROOTS = [("claude-desktop", "mcpServers"), ("cursor", "mcpServers"), ("vscode", "servers")]


@pytest.mark.parametrize(("client", "root"), ROOTS)
def test_desktop_clients_start_a_pipe(client: str, root: str) -> None:
    entry = json.loads(client_config(client, FACTS))[root]["profiles"]
    assert [entry["command"], *entry["args"]] == ["/opt/x/mcpdesk", "stdio", "/srv/my profiles"]


@pytest.mark.parametrize(("client", "root"), ROOTS[1:])
def test_clients_that_know_urls_get_one_with_the_key(client: str, root: str) -> None:
    entry = json.loads(client_config(client, FACTS, "http"))[root]["profiles"]
    assert entry["url"] == URL and entry["headers"] == {"X-API-Key": "k3y"}
    assert "command" not in entry
    plain = json.loads(client_config(client, FACTS._replace(key=""), "http"))[root]["profiles"]
    assert "headers" not in plain


def test_client_without_a_place_for_urls_says_so() -> None:
    with pytest.raises(DeskUserError, match="The configuration of claude-desktop cannot hold a URL"):
        client_config("claude-desktop", FACTS, "http")
    with pytest.raises(DeskUserError, match="curl cannot start servers"):
        client_config("curl", FACTS, "stdio")


def test_claude_code_gets_a_command_with_the_key() -> None:
    words = shlex.split(client_config("claude-code", FACTS))
    assert words == [
        "claude",
        "mcp",
        "add",
        "--transport",
        "http",
        "profiles",
        URL,
        "--header",
        "X-API-Key: k3y",
    ]


@pytest.mark.parametrize("facts", [FACTS, FACTS._replace(url=""), FACTS._replace(url="unix:/x.sock")])
def test_claude_code_starts_a_pipe_where_that_is_asked_or_all_there_is(facts: ServerAddress) -> None:
    words = shlex.split(client_config("claude-code", facts, "stdio" if facts is FACTS else ""))
    assert words == ["claude", "mcp", "add", "profiles", "--", "/opt/x/mcpdesk", "stdio", "/srv/my profiles"]


def test_claude_code_gets_a_name_it_takes() -> None:
    assert shlex.split(client_config("claude-code", FACTS._replace(server="my.server")))[5] == "my-server"


@pytest.mark.parametrize("client", CLIENTS)
def test_mode_is_in_every_configuration(client: str) -> None:
    facts = FACTS._replace(mode="re view")
    if CLIENTS[client].pipe:
        assert "--mode" in client_config(client, facts, "stdio")
    if CLIENTS[client].url:
        assert f"{URL}?mode=re%20view" in client_config(client, facts, "http")


@pytest.mark.parametrize("over", ["stdio", "http"])
def test_shell_lines_survive_any_folder_and_key(over: str) -> None:
    odd = """it's "quoted" $HOME `x` \\ end"""
    line = client_config("claude-code", ServerAddress("s", odd, URL, odd), over)  # type: ignore[arg-type]
    words = shlex.split(line)
    assert (odd in words) if over == "stdio" else (f"X-API-Key: {odd}" in words)


GUARDED = FACTS._replace(needs_token=True, key="")


@pytest.mark.parametrize(("client", "over"), [(name, way) for name in CLIENTS for way in ("stdio", "http")])
def test_a_configuration_that_nothing_would_answer_is_refused(client: str, over: ClientTransport) -> None:
    maker = CLIENTS[client].pipe if over == "stdio" else CLIENTS[client].url
    if maker is None or client == "curl":
        return
    with pytest.raises(DeskUserError, match="requires a token") as refused:
        client_config(client, GUARDED, over)
    assert f"--for {client} --token-env VAR" in refused.value.hint
    assert "s3cret" in client_config(client, GUARDED._replace(token="s3cret"), over)


def test_a_client_that_can_log_in_needs_no_token_for_a_url() -> None:
    facts = GUARDED._replace(has_login=True)
    assert "headers" not in client_config("cursor", facts, "http")
    with pytest.raises(DeskUserError):
        client_config("cursor", facts, "stdio")


def test_a_token_is_a_variable_of_the_command_and_a_header_of_the_url() -> None:
    facts = GUARDED._replace(token="a b", key="k3y")
    entry = json.loads(client_config("cursor", facts, "stdio"))["mcpServers"]["profiles"]
    assert entry["env"] == {"MCPDESK_TOKEN": "a b"}
    entry = json.loads(client_config("vscode", facts, "http"))["servers"]["profiles"]
    assert entry["headers"] == {"X-API-Key": "k3y", "Authorization": "Bearer a b"}
    words = shlex.split(client_config("claude-code", facts, "stdio"))
    assert words[3:8] == ["--env", "MCPDESK_TOKEN=a b", "--transport", "stdio", "profiles"]
    words = shlex.split(client_config("claude-code", facts, "http"))
    assert words[-4:] == ["--header", "X-API-Key: k3y", "--header", "Authorization: Bearer a b"]


def test_curl_takes_the_token_from_the_shell() -> None:
    assert '-H "Authorization: Bearer $MCPDESK_TOKEN"' in client_config("curl", GUARDED)
    assert "$MCPDESK_TOKEN" not in client_config("curl", GUARDED._replace(token="t"))


def test_curl_reaches_unix_sockets_too() -> None:
    text = client_config("curl", ServerAddress("p", "/srv/p", "unix:/tmp/x y.sock"))
    words = shlex.split(text)
    assert words[words.index("--unix-socket") + 1] == "/tmp/x y.sock"
    assert words[-1] == "http://localhost/mcp/p"


def test_an_unknown_client_is_named() -> None:
    with pytest.raises(DeskUserError, match="nope"):
        client_config("nope", FACTS)


@pytest.mark.process
def test_own_command_runs_from_anywhere(tmp_path: Path) -> None:
    command = started_command("/x/mcpdesk/__main__.py", sys.executable)
    finished = subprocess.run(
        [*command, "--version"],
        cwd=tmp_path,
        env={"PATH": "/nowhere"},
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert finished.stdout.startswith("mcpdesk "), finished.stderr
