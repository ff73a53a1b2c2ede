"""The `auth` part of a manifest: what goes together, and what is wrong with it in words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcpdesk.errors import ManifestError
from mcpdesk.hosting.folder.manifest import read_manifest
from mcpdesk.hosting.folder.manifest_auth import Auth, audiences

SECRET = {"algorithms": ["HS256"], "secret_env": "WALLET_SECRET"}
OTHERS = {"algorithms": ["RS256"], "jwks_url": "https://i.example/keys", "issuer": "https://i.example"}


def read(folder: Path, auth: dict[str, Any]) -> Auth:
    (folder / "mcp.json").write_text(json.dumps({"auth": auth}))
    return read_manifest(folder).auth


def test_everything_that_can_be_said_of_callers_is_read(tmp_path: Path) -> None:
    auth = read(
        tmp_path,
        {
            "requires_jwt": True,
            "jwt": OTHERS | {"audience": ["a", "b"], "leeway_s": 30},
            "scopes": ["wallet:read"],
            "includes": {"wallet": ["wallet:read"]},
            "authorization_servers": ["https://i.example", "http://127.0.0.1:9000"],
            "resource": "https://h.example/mcp/wallet",
            "tools": {"Bash": {}, "send": {"scopes": ["wallet:send"]}, "list": {"requires_jwt": False}},
        },
    )
    assert audiences(auth) == {"a", "b"}
    assert auth.tools["Bash"].requires_jwt and not auth.tools["list"].requires_jwt
    assert auth.includes == {"wallet": ["wallet:read"]}


def test_a_token_is_for_the_server_itself_unless_something_else_is_said(tmp_path: Path) -> None:
    assert audiences(read(tmp_path, {"jwt": SECRET})) == frozenset()
    resource = "https://h.example/mcp/x"
    assert audiences(read(tmp_path, {"jwt": SECRET, "resource": resource})) == {resource}
    assert audiences(read(tmp_path, {"jwt": SECRET | {"audience": "me"}, "resource": resource})) == {"me"}


@pytest.mark.parametrize(
    ("auth", "told"),
    [
        ({"requires_jwt": True}, "auth.requires_jwt: needs auth.jwt"),
        ({"scopes": ["a"]}, "auth.scopes: needs auth.jwt"),
        ({"tools": {"x": {}}}, "auth.tools: needs auth.jwt"),
        ({"authorization_servers": ["https://i.example"]}, "auth.authorization_servers: needs auth.jwt"),
        ({"jwt": {"algorithms": ["HS256"]}}, "exactly one of secret_env, jwks_file, jwks_url"),
        ({"jwt": SECRET | {"jwks_file": "keys.json"}}, "exactly one of"),
        ({"jwt": SECRET | {"algorithms": []}}, "needs at least one"),
        ({"jwt": SECRET | {"algorithms": ["HS256", "None"]}}, 'never "none"'),
        ({"jwt": SECRET | {"algorithms": ["HS265"]}}, "'HS265' is not known; known: HS256"),
        (
            {"jwt": SECRET | {"algorithms": ["RS256", "HS256"]}},
            "RS256 cannot do without jwks_file or jwks_url",
        ),
        ({"jwt": OTHERS | {"algorithms": ["HS256"]}}, "HS256 cannot do without secret_env"),
        ({"jwt": OTHERS | {"jwks_url": "http://i.example/keys"}}, "auth.jwt.jwks_url: allowed: https"),
        ({"jwt": OTHERS | {"jwks_url": "file:///etc/passwd"}}, "auth.jwt.jwks_url"),
        ({"jwt": OTHERS | {"jwks_url": "https://user:word@i.example"}}, "auth.jwt.jwks_url"),
        ({"jwt": OTHERS | {"jwks_url": "https://[::1"}}, "auth.jwt.jwks_url"),
        ({"jwt": SECRET | {"leeway_s": -1}}, "0 to 600 are allowed, not -1"),
        ({"jwt": SECRET | {"leeway_s": 601}}, "0 to 600 are allowed, not 601"),
        ({"jwt": SECRET, "resource": "h.example/mcp"}, "auth.resource: must be an address"),
        ({"jwt": SECRET, "scopes": ["two words"]}, "'two words' is no scope"),
        ({"jwt": SECRET, "includes": {"a": ['"']}}, "is no scope"),
        ({"jwt": SECRET, "tools": {"x": {"scopes": [""]}}}, "'' is no scope"),
        ({"jwt": OTHERS, "authorization_servers": ["https://i.example"]}, "needs issuer and audience"),
        ({"jwt": OTHERS, "authorization_servers": ["ftp://i.example"]}, "'ftp://i.example' is not allowed"),
        ({"jwt": SECRET | {"secret": "x"}}, "auth.jwt.secret: unknown key; did you mean secret_env?"),
        (
            {"jwt": SECRET, "tools": {"x": {"scope": "a"}}},
            "auth.tools.x.scope: unknown key; did you mean scopes",
        ),
        ({"jwt": SECRET, "tools": {"x": 5}}, "must be an object"),
    ],
)
def test_what_does_not_go_together_is_named(tmp_path: Path, auth: dict[str, Any], told: str) -> None:
    with pytest.raises(ManifestError) as refused:
        read(tmp_path, auth)
    assert told in str(refused.value)
