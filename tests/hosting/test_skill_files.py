"""Skills of a folder, seen by a client: their files are resources, and a saved one is the new one at once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
from mcp.client.session import ClientSession

from mcpdesk.hosting.folder.text_items import read_skills
from mcpdesk.tools.skills import files_of
from tests.support.desk import RunningDesk, running_desk
from tests.support.folders import save
from tests.support.official import HANDSHAKES, Heard, place_of, session


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


def test_each_file_is_a_resource_with_its_type(shop: Path) -> None:
    resources = read_skills([shop / "skills"]).resources
    found = {each.uri: (each.mime_type, each.description) for each in resources}
    assert found == {
        "skill://review/SKILL.md": ("text/markdown", "Review a change."),
        "skill://review/lists/style%20guide.md": ("text/markdown", ""),
        "skill://review/logo.png": ("image/png", ""),
    }


def test_of_two_skills_with_one_name_the_earlier_base_counts(shop: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine" / "review"
    mine.mkdir(parents=True)
    (mine / "SKILL.md").write_text("mine")
    uris = [each.uri for each in read_skills([mine.parent, shop / "skills"]).resources]
    assert uris == ["skill://review/SKILL.md"]


def test_what_leads_out_of_a_skill_is_left_out(shop: Path) -> None:
    (shop / "skills" / "review" / "leak.txt").symlink_to("/etc/passwd")
    assert not any("leak" in each.uri for each in read_skills([shop / "skills"]).resources)


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


async def test_plan_mode_refuses_what_is_not_read_only(shop: Path, tmp_path: Path) -> None:
    async with running_desk(shop, state_dir=str(tmp_path / "state")) as link:
        await call(link, "PlanMode", action="enter", goal="Move house")
        refused = await call(link, "TaskManager", action="create", query="Rest")
        assert refused["isError"] and "plan mode is on (goal: Move house)" in refused["content"][0]["text"]
        assert not (await call(link, "InvokeSkill", skill_name="review"))["isError"]
    async with running_desk(shop, state_dir=str(tmp_path / "state")) as link:
        assert (await call(link, "TaskManager", action="create", query="x"))["isError"], (
            "it outlives the server"
        )
        await call(link, "PlanMode", action="exit")
        assert not (await call(link, "TaskManager", action="list", query=""))["isError"]


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
