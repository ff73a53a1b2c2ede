"""InvokeSkill: instructions found by name, filled in, with their files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcpdesk.errors import HandlerError
from mcpdesk.tools.skills import filled
from tests.tools.support import ToolContext, fields, use

REVIEW = """---
name: review
description: Review a change.
---
Review $1 for $2, as asked: $ARGUMENTS
"""


def write(base: Path, name: str, text: str = REVIEW, **files: str) -> Path:
    folder = base / name
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(text)
    for file, content in files.items():
        (folder / file).write_text(content)
    return folder


async def invoke(context: ToolContext, name: str, arguments: str = "") -> dict[str, Any]:
    body = fields(await use("InvokeSkill", context, skill_name=name, arguments=arguments))
    return body


async def test_a_skill_comes_with_its_arguments_filled_in(context: ToolContext) -> None:
    write(context.hosted.skills[0], "review")
    skill = await invoke(context, "review", "main.py 'slow loops'")
    assert skill["instructions"] == "Review main.py for slow loops, as asked: main.py 'slow loops'\n"


async def test_lines_may_end_as_on_windows(context: ToolContext) -> None:
    folder = write(context.hosted.skills[0], "review")
    (folder / "SKILL.md").write_text(REVIEW, newline="\r\n")
    skill = await invoke(context, "review", "a b")
    assert skill["instructions"] == "Review a for b, as asked: a b\n"


async def test_the_files_of_a_skill_are_listed_as_resources(context: ToolContext) -> None:
    folder = write(context.hosted.skills[0], "review", checklist="1. Tests")
    told = await use("InvokeSkill", context, skill_name="review")
    assert fields(told)["files"] == [
        {"uri": "skill://review/checklist", "path": "checklist", "size": 8},
    ]
    assert f"Files of this skill, in {folder}:\n- checklist (8 bytes)" in told.content[0]["text"]


async def test_a_folder_full_of_files_is_not_walked_to_its_end(
    context: ToolContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mcpdesk.tools.skills.MAX_FILES", 2)
    write(context.hosted.skills[0], "review", a="1", b="2", c="3", **{".env": "secret"})
    assert [each["path"] for each in (await invoke(context, "review"))["files"]] == ["a", "b"]


async def test_the_folders_own_skill_comes_before_the_users(context: ToolContext) -> None:
    write(context.hosted.skills[1], "review", "mine")
    write(context.hosted.skills[1], "deploy", "deploy it")
    write(context.hosted.skills[0], "review", "the folder's")
    assert (await invoke(context, "review"))["instructions"] == "the folder's"
    assert (await invoke(context, "deploy"))["instructions"] == "deploy it"


@pytest.mark.parametrize("name", ["reviews", "", "../review", "review/../review", "/etc", "a\0b", "x" * 500])
async def test_an_unknown_name_is_told_which_there_are(context: ToolContext, name: str) -> None:
    write(context.hosted.skills[0], "review")
    write(context.hosted.skills[1], "deploy")
    with pytest.raises(HandlerError, match=r"skill_name: no skill .* Available: deploy, review"):
        await invoke(context, name)


async def test_without_any_skill_it_says_how_one_is_made(context: ToolContext) -> None:
    with pytest.raises(HandlerError, match=r"none; create .*skills/NAME/SKILL\.md"):
        await invoke(context, "review")


async def test_a_skill_that_leads_out_of_its_folder_is_none(context: ToolContext, tmp_path: Path) -> None:
    outside = write(tmp_path / "elsewhere", "secret")
    base = context.hosted.skills[0]
    base.mkdir(parents=True)
    (base / "secret").symlink_to(outside)
    inside = write(base, "review")
    (inside / "leak.txt").symlink_to("/etc/passwd")
    with pytest.raises(HandlerError, match="Available: review"):
        await invoke(context, "secret")
    assert (await invoke(context, "review"))["files"] == []


async def test_a_skill_that_is_too_large_is_refused(context: ToolContext) -> None:
    write(context.hosted.skills[0], "review", "x" * (1 << 20) + "y")
    with pytest.raises(HandlerError, match="has more than 1048576 bytes, which is the limit"):
        await invoke(context, "review")


@pytest.mark.parametrize(
    ("text", "arguments", "result"),
    [
        ("Do $1.", "it now", "Do it."),
        ("Do $2 and $12.", "it", "Do  and ."),
        ("Costs $0 and $ARGUMENTSX", "a", "Costs $0 and $ARGUMENTSX\n\nARGUMENTS: a"),
        ("No place.", "a 'b", "No place.\n\nARGUMENTS: a 'b"),
        ("First $1", "it's", "First it's"),
        ("Nothing given: $ARGUMENTS", "", "Nothing given: "),
        ("$1", "'$2' x", "$2"),
    ],
)
def test_arguments_are_filled_in(text: str, arguments: str, result: str) -> None:
    assert filled(text, arguments) == result
