"""mcp.json: what it may say, and how mistakes in it are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpdesk.errors import ManifestError
from mcpdesk.hosting.folder.manifest import Manifest, certain_settings, placeholder_manifest, read_manifest
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
    assert manifest.builtins == ("Bash", "AskUserQuestion")
    assert manifest.approvals == {"Bash": Policy.ASK, "*": Policy.ALLOW}
    assert manifest.icons == ({"src": "data:,", "sizes": ["48x48"]},)
    assert manifest.auth.jwt is not None
    assert manifest.auth.jwt.leeway_s == 5
    assert manifest.modes["review"].tools == ["Bash"]
    assert manifest.commands[0]["run"] == ["convert", "{input}"]
    assert manifest.source("modes", "review") == "mcp.json:6"
    assert manifest.settings == {"tool_timeout_ms": 500, "max_body_bytes": "1M"}


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
        ('{"approvals": {"*": 1}}', ":1:16:", "approvals.*: 1 is not allowed"),
        ('{"approvals": {"*": ["ask"]}}', ":1:16:", "approvals.*: ['ask'] is not allowed"),
        ('{"approvals": ["Bash"]}', ":1:2:", "approvals: must be an object"),
        ('{"builtins": ["Bash", 3]}', ":1:23:", "builtins[1]: must be a text"),
        ('{"icons": [{}]}', ":1:12:", "icons[0]: lacks the key src"),
        ('{"icons": [{"src": "a", "size": "b"}]}', ":1:25:", "did you mean sizes?"),
        ('{"icons": [{"src": "data:,"}, {"src": "javascript:x"}]}', ":1:31:", "icons[1]: src begins with"),
        ('{"settings": {"port": "abc"}}', ":1:15:", "a whole number from 0 to 65535"),
        ('{"approvals": {"port": "ask"},\n "settings": {"port": "abc"}}', ":2:15:", "a whole number"),
        (
            '{"modes": {"jwt": {"tools": []}},\n "auth": {"jwt": {"secret_env": "S"}}}',
            ":2:11:",
            "needs at least one",
        ),
        ('{"settings": {"prt": 1}}', ":1:15:", "did you mean port?"),
        ('{"settings": {"no_auth": true}}', ":1:15:", "only a flag or the environment"),
        ('{"auth": {"jwt": {"algorithm": []}}}', ":1:19:", "did you mean algorithms?"),
        ('{"auth": {"requires_jwt": true}}', ":1:11:", "needs auth.jwt"),
        ('{"auth": {"jwt": {"algorithms": ["HS256"]}}}', ":1:11:", "exactly one of secret_env"),
        ('{"auth": {"jwt": {"algorithms": ["none"], "secret_env": "S"}}}', ":1:19:", 'never "none"'),
        ('{"modes": {"review": {"tool": []}}}', ":1:23:", "did you mean tools?"),
        ('{"modes": {"a b": {"tools": []}}}', ":1:12:", "modes: 'a b' is not allowed as a name"),
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
    assert placeholder_manifest(folder) == Manifest(folder.resolve(), name)


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
    assert certain_settings(tmp_path) == settings


def test_of_a_missing_folder_nothing_is_guessed(tmp_path: Path) -> None:
    for look in (placeholder_manifest, certain_settings):
        with pytest.raises(ManifestError, match="does not exist"):
            look(tmp_path / "missing")
