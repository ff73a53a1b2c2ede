"""Skills of a folder: as files of the tool, and as published by the skills extension."""

from __future__ import annotations

import os
from base64 import b64decode
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp.client.session import ClientSession

from mcpdesk.hosting.folder.skill_items import read_skills
from mcpdesk.protocol.catalogue.skill_entries import EXTENSION, entry_fault
from mcpdesk.tools.skills import files_of
from tests.support.desk import RunningDesk, running_desk
from tests.support.folders import save
from tests.support.official import HANDSHAKES, Heard, place_of, session, text_of


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
    assert [each.source.partition("review/")[2] for each in read_skills([shop / "skills"]).files()] == listed


async def test_a_client_reads_what_a_skill_refers_to(shop: Path, tmp_path: Path) -> None:
    async with running_desk(shop, state_dir=str(tmp_path / "state")) as link:
        skill = await link.call("shop", "InvokeSkill", skill_name="review", arguments="main.py")
        assert skill["structuredContent"]["instructions"] == "Look at main.py."
        uri = next(file["uri"] for file in skill["structuredContent"]["files"] if "style" in file["path"])
        read = await link.answer_of("shop", "resources/read", {"uri": uri})
        assert read["contents"][0]["text"] == "Short lines."


async def test_a_server_without_the_tool_shows_nobody_any_skill(shop: Path, tmp_path: Path) -> None:
    (shop / "mcp.json").write_text('{"name": "shop", "builtins": ["PlanMode"]}')
    async with running_desk(shop, state_dir=str(tmp_path / "state")) as link:
        assert (await link.answer_of("shop", "resources/list", {}))["resources"] == []


async def test_a_folders_own_resource_wins_over_what_comes_along(shop: Path, tmp_path: Path) -> None:
    (shop / "resources").mkdir()
    (shop / "resources" / "own.py").write_text(
        "from mcpdesk import resource\n"
        '@resource("skill://review/SKILL.md")\n'
        'async def mine() -> str:\n    return "mine"\n'
    )
    async with running_desk(shop, state_dir=str(tmp_path / "state")) as link:
        read = await link.answer_of("shop", "resources/read", {"uri": "skill://review/SKILL.md"})
        assert read["contents"][0]["text"] == "mine"


async def test_the_tool_names_the_skills_there_are_and_clients_hear_of_new_ones(shop: Path) -> None:
    heard = Heard()
    async with running_desk(shop, http=True, watch=True) as desk:
        place = place_of("json", desk.view().servers[0].url, shop)
        async with session(place, HANDSHAKES[-1], heard) as client:
            assert "Skills:\n- review: Review a change." in await described(client)
            (shop / "skills" / "greet").mkdir()
            save(shop / "skills" / "greet" / "SKILL.md", "---\ndescription: Greet a person.\n---\nHello $1.")
            await heard.sees(lambda: heard.has(types.ToolListChangedNotification))
            assert "Skills:\n- greet: Greet a person.\n- review:" in await described(client)


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
            assert refused.is_error and "skills/broken/SKILL.md" in text_of(refused)
            works = await client.call_tool("InvokeSkill", {"skill_name": "review", "arguments": "a.py"})
            assert not works.is_error


async def described(client: ClientSession) -> str:
    tools = (await client.list_tools()).tools
    return next(tool.description or "" for tool in tools if tool.name == "InvokeSkill")


REFUNDS = """---
name: refunds
description: Process refunds as the policy says.
license: MIT
metadata: {version: "2.0", reviewed: 2026-01-31, by: yes}
---
Pay it back. See forms/mail.md.
"""


@pytest.fixture
def office(tmp_path: Path) -> Path:
    """A folder with one skill of three files, and without the tool."""
    folder = tmp_path / "office"
    skill = folder / "skills" / "refunds"
    (skill / "forms" / "old").mkdir(parents=True)
    (skill / "SKILL.md").write_bytes(b"\xef\xbb\xbf" + REFUNDS.replace("\n", "\r\n").encode())
    (skill / "forms" / "mail à la carte.md").write_text("Dear customer")
    (skill / "forms" / "old" / "logo.png").write_bytes(b"\x89PNG\r\n\x1a\n\0")
    (folder / "mcp.json").write_text('{"name": "shop", "version": "1.0.0"}')
    return folder


async def test_a_skill_is_listed_with_its_front_matter_and_the_digest_of_every_file(office: Path) -> None:
    async with running_desk(office) as link:
        (skill,) = (await link.answer_of("shop", "skills/list", {}))["skills"]
        assert entry_fault(skill) == ""
        assert skill["uri"] == "skill://refunds/SKILL.md"
        assert skill["frontmatter"] == {
            "name": "refunds",
            "description": "Process refunds as the policy says.",
            "license": "MIT",
            "metadata": {"version": "2.0", "reviewed": "2026-01-31", "by": "yes"},
        }
        assert len(skill["resources"]) == 3
        for each in skill["resources"]:
            (read,) = (await link.answer_of("shop", "resources/read", {"uri": each["uri"]}))["contents"]
            data = read["text"].encode() if "text" in read else b64decode(read["blob"])
            assert len(data) == each["size"] and f"sha256:{sha256(data).hexdigest()}" == each["digest"]
        got = await link.answer_of("shop", "skills/get", {"uri": skill["uri"]})
        assert got["skill"] == skill
        assert (got["resultType"], got["cacheScope"], got["ttlMs"]) == ("complete", "private", 0)
        unknown = await error(link, "skills/get", {"uri": "skill://refunds/forms"})
        assert unknown == {"code": -32602, "message": "No skill exists at skill://refunds/forms"}


async def test_a_directory_of_a_skill_lists_its_direct_children(office: Path) -> None:
    async with running_desk(office, page_size=1) as link:
        first = await link.answer_of("shop", "resources/directory/read", {"uri": "skill://refunds/forms"})
        assert [each["name"] for each in first["resources"]] == ["refunds/forms/mail à la carte.md"]
        cursor = {"uri": "skill://refunds/forms", "cursor": first["nextCursor"]}
        last = await link.answer_of("shop", "resources/directory/read", cursor)
        assert last["resources"] == [
            {"uri": "skill://refunds/forms/old", "name": "old", "mimeType": "inode/directory"}
        ]
        assert "nextCursor" not in last
        for uri in ("skill://refunds/SKILL.md", "skill://refunds/", "skill://", "skill://refunds/../refunds"):
            assert (await error(link, "resources/directory/read", {"uri": uri}))["code"] == -32602
        bad = await error(link, "resources/directory/read", {"uri": "skill://refunds", "cursor": "nonsense"})
        assert "cursor" in bad["message"]


async def test_a_server_without_skills_has_no_such_methods(office: Path) -> None:
    (office / "skills" / "refunds" / "SKILL.md").unlink()
    async with running_desk(office) as link:
        refused = await error(link, "skills/list", {})
        assert refused["code"] == -32601 and "skills capability" in refused["message"]


async def test_the_extension_is_declared_in_every_revision(office: Path) -> None:
    async with running_desk(office, http=True) as desk:
        place = place_of("json", desk.view().servers[0].url, office)
        for handshake in HANDSHAKES:
            async with session(place, handshake) as client:
                offered = (await client.initialize()).capabilities.model_dump(mode="json")
                assert offered["extensions"][EXTENSION] == {"directoryRead": True}


async def test_a_changed_file_changes_the_entry(office: Path) -> None:
    heard = Heard()
    async with running_desk(office, http=True, watch=True) as desk:
        place = place_of("json", desk.view().servers[0].url, office)
        (before,) = (await desk.answer_of("shop", "skills/list", {}))["skills"]
        async with session(place, HANDSHAKES[-1], heard):
            save(office / "skills" / "refunds" / "SKILL.md", REFUNDS.replace("Pay it back", "Pay nothing"))
            await heard.sees(lambda: heard.has(types.ResourceListChangedNotification))
        (after,) = (await desk.answer_of("shop", "skills/list", {}))["skills"]
        assert before["resources"][1:] == after["resources"][1:]
        assert before["resources"][0] != after["resources"][0]


def mistakes() -> Iterator[tuple[str, str, str]]:
    """Name of a folder, text of its SKILL.md, and the reason it is not published."""
    fine = "---\nname: {}\ndescription: It does it.\n---\nDo it."
    yield "plain", "Do it.", "does not begin with front matter"
    yield "nameless", "---\ndescription: It does it.\n---\nDo it.", "needs a name, a text"
    yield "silent", "---\nname: silent\n---\nDo it.", "needs a description, a text"
    yield "other", fine.format("refunds"), "says name: refunds, but its folder is called other"
    yield "Loud_Name", fine.format("Loud_Name"), "single hyphens between them, not 'Loud_Name'"
    yield "two--hyphens", fine.format("two--hyphens"), "single hyphens between them"
    yield "number", "---\nname: number\ndescription: 7\n---\nDo it.", "needs a description, a text"


@pytest.mark.parametrize(("name", "text", "reason"), list(mistakes()))
def test_a_skill_that_cannot_be_published_says_why_and_can_be_invoked_all_the_same(
    office: Path, name: str, text: str, reason: str
) -> None:
    skill = office / "skills" / name
    skill.mkdir()
    (skill / "SKILL.md").write_text(text)
    shelf = read_skills([office / "skills"])
    assert [each.name for each in shelf.entries] == ["refunds"]
    assert not shelf.broken and name in shelf.descriptions
    (told,) = shelf.unpublished
    assert reason in told.reason and told.source.startswith(f"skills/{name}/SKILL.md")


def test_a_skill_over_the_limits_of_the_extension_is_not_published(office: Path) -> None:
    skill = office / "skills" / "refunds"
    with (skill / "film.bin").open("wb") as file:
        os.truncate(file.fileno(), 17 << 20)
    (told,) = read_skills([office / "skills"]).unpublished
    assert "bytes together, more than the limit of 16777216 for clients" in told.reason
    (skill / "film.bin").unlink()
    for number in range(509):
        (skill / f"{number}.txt").touch()
    assert len(read_skills([office / "skills"]).entries[0].files) == 512
    (skill / "more.txt").touch()
    (told,) = read_skills([office / "skills"]).unpublished
    assert told.reason.startswith("it has more than 512 files")


def test_what_a_link_leads_out_of_a_skill_is_no_file_of_it(office: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    (office / "skills" / "refunds" / "leak.txt").symlink_to(tmp_path / "secret.txt")
    (office / "skills" / "refunds" / "deep").symlink_to(tmp_path)
    (office / "skills" / "away").symlink_to(office / "skills" / "refunds" / "forms")
    shelf = read_skills([office / "skills"])
    assert [file.uri.rpartition("/")[2] for file in shelf.entries[0].files] == [
        "SKILL.md",
        "mail%20%C3%A0%20la%20carte.md",
        "logo.png",
    ]
    assert not shelf.unpublished and not shelf.broken


async def error(link: RunningDesk, method: str, params: dict[str, Any]) -> dict[str, Any]:
    outcome = await link.outcome("shop", method, params)
    assert outcome.error is not None
    return outcome.error
