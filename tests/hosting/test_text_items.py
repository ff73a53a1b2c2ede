"""Files that are resources and prompts by themselves."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mcp_types as types
import pytest
from mcp.client.session import ClientSession

from mcpdesk.errors import RegistrationError, RemoteProtocolError
from mcpdesk.hosting.folder import text_items
from mcpdesk.hosting.folder.file_items import FileItems
from mcpdesk.hosting.folder.text_items import (
    read_document,
    read_prompt_file,
    read_resource_file,
    read_skills,
)
from mcpdesk.server.offer.prompts import Prompt, PromptArgument
from mcpdesk.server.offer.resources import Resource
from mcpdesk.tools.skills import files_of
from tests.support.desk import RunningDesk, running_desk
from tests.support.folders import save
from tests.support.official import HANDSHAKES, Heard, place_of, session

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
        ("{audience: user}", "annotations: audience is a list of user and assistant, not 'user'"),
        ("{priority: high}", "annotations: priority is a number from 0 to 1, not 'high'"),
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
    monkeypatch.setattr(text_items, "SMALL_BYTES", 10)
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
        "prompts/ask.md: {{b}} is not among the arguments of ask and stays as it is",
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


def test_front_matter_is_split_from_the_body() -> None:
    document = read_document("---\r\ntitle: Q&A *now*\r\n---\r\nbody\n---\nmore\n", "a.md")
    assert document.fields == {"title": "Q&A *now*"}
    assert document.body.splitlines() == ["body", "---", "more"]


@pytest.mark.parametrize(
    ("text", "place", "complaint"),
    [
        ("---\ntitle: x\nbody", "a.md:1", "not closed"),
        ("---\ntitle: x\nbad: [1\n---\n", "a.md:4", "cannot be read"),
        ("---\na: &x 1\nb: *x\n---\n", "a.md:2", "alias"),
        ("---\n- one\n---\n", "a.md:1", "must be a mapping"),
        ("---\n!!python/object:os.system {}\n---\n", "a.md:2", "cannot be read"),
        ("---\na: " + "x" * 70_000 + "\n---\n", "a.md:1", "longer than"),
    ],
)
def test_unusable_front_matter_is_refused_with_its_line(text: str, place: str, complaint: str) -> None:
    with pytest.raises(RegistrationError, match=complaint) as caught:
        read_document(text, "a.md")
    assert caught.value.source == place


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    folder = tmp_path / "shop"
    skill = folder / "skills" / "review"
    (skill / "lists").mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\ndescription: Review a change.\n---\nLook at $1.")
    (skill / "lists" / "style guide.md").write_text("Short lines.")
    (skill / "logo.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    (folder / "mcp.json").write_text(
        '{"name": "shop", "builtins": ["InvokeSkill", "PlanMode", "TaskManager"]}'
    )
    return folder


def test_the_files_of_a_skill_are_those_the_tool_lists(shop: Path) -> None:
    skill = shop / "skills" / "review"
    (skill / ".git").mkdir()
    for hidden in (".env", ".git/config"):
        (skill / hidden).write_text("secret")
    (skill / "circle.md").symlink_to("circle.md")
    (shop / "skills" / "circle").mkdir()
    (shop / "skills" / "circle" / "SKILL.md").symlink_to("SKILL.md")
    listed = [path.relative_to(skill).as_posix() for path, _ in files_of(skill)]
    assert listed == ["SKILL.md", "logo.png", "lists/style guide.md"]
    assert [each.name.partition("/")[2] for each in read_skills([shop / "skills"]).resources] == listed


async def test_a_client_reads_what_a_skill_refers_to(shop: Path, tmp_path: Path) -> None:
    async with running_desk(shop, state_dir=str(tmp_path / "state")) as link:
        skill = await call(link, "InvokeSkill", skill_name="review", arguments="main.py")
        assert skill["structuredContent"]["instructions"] == "Look at main.py."
        uri = next(file["uri"] for file in skill["structuredContent"]["files"] if "style" in file["path"])
        read = await answer(link, "resources/read", {"uri": uri})
        assert read["contents"][0]["text"] == "Short lines."


async def test_a_server_without_the_tool_shows_nobody_any_skill(shop: Path, tmp_path: Path) -> None:
    (shop / "mcp.json").write_text('{"name": "shop", "builtins": ["PlanMode"]}')
    async with running_desk(shop, state_dir=str(tmp_path / "state")) as link:
        assert (await answer(link, "resources/list", {}))["resources"] == []


async def test_a_folders_own_resource_wins_over_what_comes_along(shop: Path, tmp_path: Path) -> None:
    (shop / "resources").mkdir()
    (shop / "resources" / "own.py").write_text(
        "from mcpdesk import resource\n"
        '@resource("skill://review/SKILL.md")\n'
        'async def mine() -> str:\n    return "mine"\n'
    )
    async with running_desk(shop, state_dir=str(tmp_path / "state")) as link:
        read = await answer(link, "resources/read", {"uri": "skill://review/SKILL.md"})
        assert read["contents"][0]["text"] == "mine"


async def call(link: RunningDesk, name: str, **arguments: Any) -> dict[str, Any]:
    return await answer(link, "tools/call", {"name": name, "arguments": arguments})


async def answer(link: RunningDesk, method: str, params: dict[str, Any]) -> dict[str, Any]:
    outcome = await asyncio.wrap_future(link.request("shop", method, params).outcome)
    assert outcome.result is not None
    return outcome.result


async def test_the_tool_names_the_skills_there_are_and_clients_hear_of_new_ones(shop: Path) -> None:
    heard = Heard()
    async with running_desk(shop, http=True, watch=True) as desk:
        place = place_of("json", desk.view().servers[0].url, shop)
        async with session(place, HANDSHAKES[-1], heard) as client:
            assert "Skills:\n- review: Review a change." in await described(client)
            (shop / "skills" / "greet").mkdir()
            save(shop / "skills" / "greet" / "SKILL.md", "---\ndescription: Greet somebody.\n---\nHello $1.")
            await heard.until(lambda: heard.has(types.ToolListChangedNotification))
            assert "Skills:\n- greet: Greet somebody.\n- review:" in await described(client)


async def test_a_skill_with_broken_front_matter_is_left_out_and_told_with_its_line(shop: Path) -> None:
    broken = shop / "skills" / "broken"
    broken.mkdir()
    (broken / "SKILL.md").write_text("---\nname: x\ndescription: [\n---\nDo it.")
    async with running_desk(shop, http=True) as desk:
        place = place_of("json", desk.view().servers[0].url, shop)
        told = [item for item in desk.catalogue("shop").items if item.name == "skill broken"]
        assert [item.source.rpartition(":")[0] for item in told] == ["skills/broken/SKILL.md"]
        assert "the front matter cannot be read" in told[0].problem
        async with session(place, HANDSHAKES[-1]) as client:
            assert "broken" not in await described(client)
            refused = await client.call_tool("InvokeSkill", {"skill_name": "broken"})
            assert refused.is_error and "skills/broken/SKILL.md" in refused.content[0].text  # type: ignore[union-attr]
            works = await client.call_tool("InvokeSkill", {"skill_name": "review", "arguments": "a.py"})
            assert not works.is_error


async def described(client: ClientSession) -> str:
    tools = (await client.list_tools()).tools
    return next(tool.description or "" for tool in tools if tool.name == "InvokeSkill")
