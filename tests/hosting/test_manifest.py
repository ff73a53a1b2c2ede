"""mcp.json: its members, and the messages about errors in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpdesk.errors import ManifestError
from mcpdesk.hosting.folder.manifest import (
    Auth,
    Icon,
    Manifest,
    placeholder_manifest,
    position_of,
    read_manifest,
    readable_settings,
)
from mcpdesk.server.asks.approval_policies import Policy


def test_folder_without_a_manifest_is_called_like_itself(tmp_path: Path) -> None:
    folder = tmp_path / "my first server!"
    folder.mkdir()
    assert read_manifest(folder).name == "my-first-server"


def test_everything_it_may_say_is_read(tmp_path: Path) -> None:
    (tmp_path / "mcp.json").write_text(
        """\ufeff{
        "name": "shop", "title": "Shop", "version": "2.0.0", "description": "d", "instructions": "i",
        "websiteUrl": "https://example.org", "icons": [{"src": "data:,", "sizes": ["48x48"]}],
        "builtins": ["Bash", "AskUserQuestion", "Bash"],
        "auth": {"requires_jwt": true, "jwt": {"algorithms": ["HS256"], "secret_env": "S", "leeway_s": 5}},
        "modes": {"review": {"tools": ["Bash"], "description": "look only"}},
        "commands": [{"stage": "image", "command": "resize", "run": ["convert", "{input}"],
                      "parameters": {"type": "object"}, "produces": ["{output}"], "timeout_ms": 5,
                      "progress": "percent"}],
        "approvals": {"Bash": "ask", "*": "allow"},
        "settings": {"tool_timeout_ms": 500, "max_body_bytes": "1M"}
        }""",
        "utf-8",
    )
    manifest = read_manifest(tmp_path)
    assert (manifest.name, manifest.title, manifest.version) == ("shop", "Shop", "2.0.0")
    assert manifest.builtins == ["Bash", "AskUserQuestion", "Bash"]
    assert manifest.approvals == {"Bash": Policy.ASK, "*": Policy.ALLOW}
    assert manifest.icons == [Icon(src="data:,", sizes=["48x48"])]
    assert manifest.auth.jwt is not None
    assert manifest.auth.jwt.leeway_s == 5
    assert manifest.modes["review"].tools == ["Bash"]
    assert manifest.commands[0]["run"] == ["convert", "{input}"]
    assert manifest.source("modes", "review") == "mcp.json:6"
    assert manifest.settings == {"tool_timeout_ms": 500, "max_body_bytes": "1M"}


@pytest.mark.sampled(12)
@pytest.mark.parametrize(
    ("text", "place", "complaint"),
    [
        ('{\n"name": "x",}', ":2:1", "not JSON"),
        ("", ":1:1:", "not JSON"),
        ("[]", ":1:1:", "must be an object"),
        ('{"name": "x",\n "tols": 1}', ":2:2:", "tols: unknown key; allowed: name, title"),
        ('{"verson": "1"}', ":1:2:", "did you mean version?"),
        ('{"port": 1}', ":1:2:", 'belongs into "settings"'),
        ('{"name": "a", "name": "b"}', ":1:15:", "given twice"),
        ('{"name": 3}', ":1:2:", "name: must be a text, got a whole number"),
        ('{"name": "a b"}', ":1:2:", "letters, digits"),
        ('{"name": "a/b"}', ":1:2:", "letters, digits"),
        (
            '{"approvals": {"Bash": "maybe"}}',
            ":1:16:",
            "approvals.Bash: 'maybe' is not allowed; allowed: allow, ask",
        ),
        ('{"approvals": {"*": 1}}', ":1:16:", "approvals.*: must be a text"),
        ('{"approvals": {"*": ["ask"]}}', ":1:16:", "approvals.*: must be a text"),
        ('{"approvals": ["Bash"]}', ":1:2:", "approvals: must be an object"),
        ('{"builtins": ["Bash", 3]}', ":1:23:", "builtins[1]: must be a text"),
        ('{"icons": [{}]}', ":1:12:", "icons[0]: lacks the key src"),
        ('{"icons": [{"src": "a", "size": "b"}]}', ":1:25:", "did you mean sizes?"),
        ('{"icons": [{"src": "data:,"}, {"src": "javascript:x"}]}', ":1:31:", "icons[1]: src must begin"),
        ('{"settings": {"port": "abc"}}', ":1:15:", "a whole number from 0 to 65535"),
        ('{"approvals": {"port": "ask"},\n "settings": {"port": "abc"}}', ":2:15:", "a whole number"),
        (
            '{"modes": {"jwt": {"tools": []}},\n "auth": {"jwt": {"secret_env": "S"}}}',
            ":2:11:",
            "needs at least one",
        ),
        ('{"settings": {"prt": 1}}', ":1:15:", "did you mean port?"),
        ('{"auth": {"jwt": {"algorithm": []}}}', ":1:19:", "did you mean algorithms?"),
        ('{"auth": {"requires_jwt": true}}', ":1:11:", "needs auth.jwt"),
        ('{"auth": {"jwt": {"algorithms": ["HS256"]}}}', ":1:11:", "exactly one of secret_env"),
        ('{"auth": {"jwt": {"algorithms": ["none"], "secret_env": "S"}}}', ":1:19:", 'never "none"'),
        ('{"modes": {"review": {"tool": []}}}', ":1:23:", "did you mean tools?"),
        ('{"modes": {"a b": {"tools": []}}}', ":1:12:", "modes.a b: this name is not allowed"),
        (
            '{"modes": {"a": {"tools": []},\n "b": ["x"]}}',
            ":2:2:",
            "modes.b: must be an object, got a list",
        ),
        (
            '{"modes": {"a": {"tools": []},\n "b": {"tools": "x"}}}',
            ":2:8:",
            "modes.b.tools: must be a list",
        ),
        ('{"auth": {"includes": {"all": "x"}}}', ":1:24:", "auth.includes.all: must be a list"),
        ('{"auth": {"tools": {"x": {"scopes": ["a", 2]}}}}', "", "auth.tools.x.scopes[1]: must be a text"),
        ('{"commands": {}}', ":1:2:", "commands: must be a list"),
        ("[" * 100_000, "", "nested too deeply"),
    ],
)
def test_mistake_is_named_with_its_place(tmp_path: Path, text: str, place: str, complaint: str) -> None:
    (tmp_path / "mcp.json").write_text(text, "utf-8")
    with pytest.raises(ManifestError) as caught:
        read_manifest(tmp_path)
    assert complaint in str(caught.value)
    assert f"mcp.json{place}" in str(caught.value)


def test_manifest_that_is_not_text_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mcp.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(ManifestError, match="cannot be read"):
        read_manifest(tmp_path)


def test_missing_folder_suggests_a_neighbour(tmp_path: Path) -> None:
    (tmp_path / "profiles").mkdir()
    with pytest.raises(ManifestError, match=r"does not exist; did you mean .*/profiles\?"):
        read_manifest(tmp_path / "profile")


def test_file_instead_of_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x", "utf-8")
    with pytest.raises(ManifestError, match="is a file, not a folder"):
        read_manifest(tmp_path / "file")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('{"name": "shop", "tols": 1}', "shop"),
        ('{"version": "1",\n "name" : "shop.2"', "shop.2"),
        ('{"name": "no name"', "the-folder"),
        ("{", "the-folder"),
    ],
)
def test_a_file_with_a_mistake_has_the_name_it_seems_to_have(tmp_path: Path, text: str, name: str) -> None:
    folder = tmp_path / "the folder"
    folder.mkdir()
    (folder / "mcp.json").write_text(text)
    assert placeholder_manifest(folder).name == name
    assert placeholder_manifest(folder) == Manifest(folder=folder.resolve(), name=name)


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ('{"auth": {"requires_jw": true}, "settings": {"port": 1}}', {"port": 1}),
        ('{"version": 3}', {}),
        ('{"setings": {"api_key": "k"}}', None),
        ('{"settings": {"api_kee": "k"}}', None),
        ('{"settings": {"port": "many"}}', None),
        ('{"settings": {"port": 1},', None),
        ('{"settings": null}', None),
    ],
)
def test_settings_are_certain_when_the_mistake_is_somewhere_else(
    tmp_path: Path, text: str, settings: dict[str, object] | None
) -> None:
    (tmp_path / "mcp.json").write_text(text)
    assert readable_settings(tmp_path) == settings


def test_of_a_missing_folder_nothing_is_guessed(tmp_path: Path) -> None:
    for look in (placeholder_manifest, readable_settings):
        with pytest.raises(ManifestError, match="does not exist"):
            look(tmp_path / "missing")


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
    assert auth.audiences == {"a", "b"}
    assert auth.tools["Bash"].requires_jwt and not auth.tools["list"].requires_jwt
    assert auth.includes == {"wallet": ["wallet:read"]}


def test_a_token_is_for_the_server_itself_unless_something_else_is_said(tmp_path: Path) -> None:
    assert read(tmp_path, {"jwt": SECRET}).audiences == frozenset()
    resource = "https://h.example/mcp/x"
    assert read(tmp_path, {"jwt": SECRET, "resource": resource}).audiences == {resource}
    assert read(tmp_path, {"jwt": SECRET | {"audience": "me"}, "resource": resource}).audiences == {"me"}


@pytest.mark.sampled(8)
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
            "RS256 cannot be used without jwks_file or jwks_url",
        ),
        ({"jwt": OTHERS | {"algorithms": ["HS256"]}}, "HS256 cannot be used without secret_env"),
        ({"jwt": OTHERS | {"jwks_url": "http://i.example/keys"}}, "auth.jwt.jwks_url: allowed: https"),
        ({"jwt": OTHERS | {"jwks_url": "file:///etc/passwd"}}, "auth.jwt.jwks_url"),
        ({"jwt": OTHERS | {"jwks_url": "https://user:word@i.example"}}, "auth.jwt.jwks_url"),
        ({"jwt": OTHERS | {"jwks_url": "https://[::1"}}, "auth.jwt.jwks_url"),
        ({"jwt": SECRET | {"leeway_s": -1}}, "0 to 600 are allowed, not -1"),
        ({"jwt": SECRET | {"leeway_s": 601}}, "0 to 600 are allowed, not 601"),
        ({"jwt": SECRET, "resource": "h.example/mcp"}, "auth.resource: must be an address"),
        ({"jwt": SECRET, "scopes": ["two words"]}, "'two words' is not a scope"),
        ({"jwt": SECRET, "includes": {"a": ['"']}}, "is not a scope"),
        ({"jwt": SECRET, "tools": {"x": {"scopes": [""]}}}, "'' is not a scope"),
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


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def trails(value: Any, before: tuple[str | int, ...] = ()) -> list[tuple[tuple[str | int, ...], Any]]:
    found: list[tuple[tuple[str | int, ...], Any]] = []
    members = (
        list(value.items())
        if isinstance(value, dict)
        else list(enumerate(value))
        if isinstance(value, list)
        else []
    )
    for step, inner in members:
        found += [((*before, step), inner), *trails(inner, (*before, step))]
    return found


@pytest.mark.slow
@given(JSON, st.sampled_from([None, 1, 3]), st.booleans())
def test_whatever_stands_at_a_place_is_what_was_looked_for(
    value: Any, indent: int | None, is_ascii: bool
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=is_ascii)
    lines = text.split("\n")
    for trail, inner in trails(value):
        line, column = position_of(text, *trail)
        assert line is not None and column is not None
        rest = "\n".join([lines[line - 1][column - 1 :], *lines[line:]])
        found, _ = json.JSONDecoder().raw_decode(rest)
        assert found == (trail[-1] if isinstance(trail[-1], str) else inner)
