"""Skills of a folder, seen by a client: their files are resources, and a saved one is the new one at once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mcpdesk.hosting.skill_files import skill_resources
from mcpdesk.tools.skills import files_of
from tests.support.desk import RunningDesk, running_desk


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
    found = {each.uri: (each.mime_type, each.description) for each in skill_resources([shop / "skills"])}
    assert found == {
        "skill://review/SKILL.md": ("text/markdown", "Review a change."),
        "skill://review/lists/style%20guide.md": ("text/markdown", ""),
        "skill://review/logo.png": ("image/png", ""),
    }


def test_of_two_skills_with_one_name_the_earlier_base_counts(shop: Path, tmp_path: Path) -> None:
    mine = tmp_path / "mine" / "review"
    mine.mkdir(parents=True)
    (mine / "SKILL.md").write_text("mine")
    uris = [each.uri for each in skill_resources([mine.parent, shop / "skills"])]
    assert uris == ["skill://review/SKILL.md"]


def test_what_leads_out_of_a_skill_is_left_out(shop: Path) -> None:
    (shop / "skills" / "review" / "leak.txt").symlink_to("/etc/passwd")
    assert not any("leak" in each.uri for each in skill_resources([shop / "skills"]))


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
    assert [each.name.partition("/")[2] for each in skill_resources([shop / "skills"])] == listed


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
        refused = await call(link, "TaskManager", action="list", query="")
        assert refused["isError"] and "plan mode is on (goal: Move house)" in refused["content"][0]["text"]
        assert not (await call(link, "InvokeSkill", skill_name="review"))["isError"]
    async with running_desk(shop, state_dir=str(tmp_path / "state")) as link:
        assert (await call(link, "TaskManager", action="list", query=""))["isError"], "it outlives the server"
        await call(link, "PlanMode", action="exit")
        assert not (await call(link, "TaskManager", action="list", query=""))["isError"]


async def call(link: RunningDesk, name: str, **arguments: Any) -> dict[str, Any]:
    return await answer(link, "tools/call", {"name": name, "arguments": arguments})


async def answer(link: RunningDesk, method: str, params: dict[str, Any]) -> dict[str, Any]:
    outcome = await asyncio.wrap_future(link.request("shop", method, params).outcome)
    assert outcome.result is not None
    return outcome.result
