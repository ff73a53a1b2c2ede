"""Configurations to paste, for every client we know."""

from __future__ import annotations

import json
import shlex

import pytest

from mcpdesk.errors import DeskUserError
from mcpdesk.hosting.client_config import client_config

FACTS = ("profiles", "/srv/my profiles", "http://127.0.0.1:3333/mcp/profiles", "k3y", "X-API-Key")


@pytest.mark.parametrize(
    ("client", "root"), [("claude-desktop", "mcpServers"), ("cursor", "mcpServers"), ("vscode", "servers")]
)
def test_desktop_clients_start_a_pipe(client: str, root: str) -> None:
    entry = json.loads(client_config(client, *FACTS))[root]["profiles"]
    assert [entry["command"], *entry["args"]] == ["mcpdesk", "stdio", "/srv/my profiles"]


def test_claude_code_gets_a_command_with_the_key() -> None:
    words = shlex.split(client_config("claude-code", *FACTS))
    assert words[:3] == ["claude", "mcp", "add"]
    assert words[-2:] == ["--header", "X-API-Key: k3y"]


def test_claude_code_falls_back_to_the_pipe() -> None:
    words = shlex.split(client_config("claude-code", "p", "/srv/my p", "", "", "X-API-Key"))
    assert words[-3:] == ["mcpdesk", "stdio", "/srv/my p"]


def test_curl_reaches_unix_sockets_too() -> None:
    text = client_config("curl", "p", "/srv/p", "unix:/tmp/x y.sock", "", "X-API-Key")
    words = shlex.split(text)
    assert words[words.index("--unix-socket") + 1] == "/tmp/x y.sock"


def test_an_unknown_client_is_named() -> None:
    with pytest.raises(DeskUserError, match="nope"):
        client_config("nope", *FACTS)
