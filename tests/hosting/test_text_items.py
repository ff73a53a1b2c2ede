"""Files that are resources and prompts by themselves."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from mcpdesk.errors import RemoteProtocolError
from mcpdesk.hosting.folder import text_items
from mcpdesk.hosting.folder.file_items import FileItems
from mcpdesk.hosting.folder.text_items import read_prompt_file, read_resource_file
from mcpdesk.server.offer.prompts import Prompt, PromptArgument
from mcpdesk.server.offer.resources import Resource

CONTEXT: Any = SimpleNamespace(context=None)
PNG = b"\x89PNG\r\n\x1a\n\0\0"


def resource(folder: Path, name: str, data: bytes | str) -> Resource:
    found = offered(folder, f"resources/{name}", data)
    assert found.broken == []
    (item,) = found.items
    assert isinstance(item, Resource)
    return item


def offered(folder: Path, name: str, data: bytes | str) -> FileItems:
    path = folder.resolve() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    base = folder.resolve() / name.split("/")[0]
    read = read_resource_file if base.name == "resources" else read_prompt_file
    return read(path, folder.resolve(), path.relative_to(base).with_suffix("").as_posix())


def prompt(folder: Path, text: str) -> Prompt:
    found = offered(folder, "prompts/ask.md", text)
    assert found.broken == []
    (item,) = found.items
    assert isinstance(item, Prompt)
    return item


async def read(item: Resource) -> Any:
    return await item.reader(item.uri, {}, CONTEXT)


@pytest.mark.parametrize(
    ("annotations", "reason"),
    [
        ("{audience: user}", "annotations: audience must be a list of user and assistant, not 'user'"),
        ("{priority: high}", "annotations: priority must be a number from 0 to 1, not 'high'"),
        ("{lastModified: 2026-01-12T15:00:58Z, priority: 1}", ""),
    ],
)
def test_annotations_are_those_clients_take(tmp_path: Path, annotations: str, reason: str) -> None:
    found = offered(tmp_path, "resources/a.md", f"---\nannotations: {annotations}\n---\nA")
    assert [(each.reason, each.source) for _, each in found.broken] == (
        [(reason, "resources/a.md:1")] if reason else []
    )


async def test_front_matter_describes_and_is_not_content(tmp_path: Path) -> None:
    text = "---\nname: start here\ntitle: T\ndescription: D\nannotations:\n  priority: 0.5\n---\n# Grüße\n"
    item = resource(tmp_path, "a.md", text)
    assert (item.uri, item.name, item.title, item.description) == (
        "resource://start%20here",
        "start here",
        "T",
        "D",
    )
    assert (item.mime_type, item.annotations) == ("text/markdown", {"priority": 0.5})
    assert (item.path, item.source) == ("resources/a.md", "resources/a.md:1")
    assert await read(item) == "# Grüße\n"
    assert item.size == len("# Grüße\n".encode())


@pytest.mark.parametrize(
    ("name", "data", "mime_type", "content"),
    [
        ("data.json", '{"a": 1}', "application/json", '{"a": 1}'),
        ("conf.yaml", "---\na: 1\n", "application/yaml", "---\na: 1\n"),
        ("logo.png", PNG, "image/png", PNG),
        ("logo.svg", "<svg/>", "image/svg+xml", "<svg/>"),
        ("README", "plain", "text/plain", "plain"),
        ("blob", b"\0\1\2", "application/octet-stream", b"\0\1\2"),
        ("latin.txt", b"caf\xe9", "text/plain", b"caf\xe9"),
        ("bom.txt", "\ufeffx", "text/plain", "x"),
        ("empty.txt", "", "text/plain", ""),
    ],
)
async def test_type_decides_between_text_and_bytes(
    tmp_path: Path, name: str, data: bytes | str, mime_type: str, content: bytes | str
) -> None:
    item = resource(tmp_path, name, data)
    assert item.mime_type == mime_type
    assert await read(item) == content


async def test_large_file_is_read_whole_without_being_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(text_items, "MAX_COMPARED_BYTES", 10)
    item = resource(tmp_path, "big.txt", "x" * 100)
    assert item.size == 100
    assert await read(item) == "x" * 100


@pytest.mark.requirement("12.12")
async def test_file_that_became_a_link_out_of_the_folder_is_no_resource(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    inside = tmp_path / "inside"
    item = resource(inside, "a.txt", "fine")
    (tmp_path / "secret").write_text("secret", "utf-8")
    (inside / "resources/a.txt").unlink()
    (inside / "resources/a.txt").symlink_to(tmp_path / "secret")
    assert await read(item) is None
    assert "a.txt is a link that leaves the server folder" in caplog.text


async def test_file_that_is_gone_or_became_something_else_is_no_resource(tmp_path: Path) -> None:
    item = resource(tmp_path, "a.txt", "fine")
    path = tmp_path / "resources/a.txt"
    path.unlink()
    assert await read(item) is None
    path.mkdir()
    assert await read(item) is None
    path.rmdir()
    os.mkfifo(path)
    assert await read(item) is None


def test_bad_front_matter_leaves_the_file_out(tmp_path: Path) -> None:
    ((kind, unavailable),) = offered(tmp_path, "resources/a.md", "---\ntitle: [x\n---\n").broken
    assert (kind, unavailable.name) == ("resource", "resource://a")
    assert unavailable.source.startswith("resources/a.md:")


PROMPT = """---
title: T
description: D
arguments:
  - name: text
    description: what
    required: true
  - tone
---
Summarize {{text}}, {{ tone }}. {{text}}
"""


async def test_prompt_fills_in_its_arguments(tmp_path: Path) -> None:
    item = prompt(tmp_path, PROMPT)
    assert (item.name, item.title, item.description) == ("ask", "T", "D")
    assert item.arguments == (PromptArgument("text", "what", required=True), PromptArgument("tone"))
    assert (
        await item.renderer({"text": "{{tone}}", "tone": "dry"}, CONTEXT)
        == "Summarize {{tone}}, dry. {{tone}}"
    )
    assert await item.renderer({"text": "x"}, CONTEXT) == "Summarize x, . x"


async def test_missing_required_argument_is_named(tmp_path: Path) -> None:
    with pytest.raises(RemoteProtocolError, match="lacks the required argument text") as caught:
        await prompt(tmp_path, PROMPT).renderer({}, CONTEXT)
    assert caught.value.code == -32602


def test_placeholders_are_arguments_unless_arguments_are_declared(tmp_path: Path) -> None:
    item = prompt(tmp_path, "Tell {{who}} about {{what}} and {{who}}")
    assert item.arguments == (PromptArgument("who", required=True), PromptArgument("what", required=True))


async def test_undeclared_placeholder_stays_and_is_remarked(tmp_path: Path) -> None:
    found = offered(tmp_path, "prompts/ask.md", "---\narguments: [a]\ntitel: x\n---\n{{a}} {{b}}")
    assert found.remarks == [
        "prompts/ask.md: {{b}} is not an argument of ask and stays unchanged",
        "prompts/ask.md: unknown key 'titel' in the front matter; did you mean title?",
    ]
    (item,) = found.items
    assert isinstance(item, Prompt)
    assert await item.renderer({"a": "1"}, CONTEXT) == "1 {{b}}"


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("text", "must be a list"),
        ("[{description: x}]", "needs a name"),
        ("[{name: a, requried: true}]", "unknown key 'requried'"),
        ("[{name: a, required: maybe}]", "true or false"),
        ("[a, a]", "declares an argument twice"),
    ],
)
def test_bad_arguments_are_refused(tmp_path: Path, arguments: str, reason: str) -> None:
    found = offered(tmp_path, "prompts/ask.md", f"---\narguments: {arguments}\n---\nx")
    ((kind, unavailable),) = found.broken
    assert (kind, unavailable.name) == ("prompt", "ask")
    assert reason in unavailable.reason


def test_prompt_that_is_not_text_is_refused(tmp_path: Path) -> None:
    ((_, unavailable),) = offered(tmp_path, "prompts/ask.md", PNG).broken
    assert "UTF-8" in unavailable.reason
