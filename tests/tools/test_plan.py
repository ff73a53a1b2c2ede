"""PlanMode: the plan is a file, and until it is done only reading is allowed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from mcpdesk.errors import HandlerError, StorageError
from mcpdesk.server.state.server_state import PLAN_PREFIX, ServerState
from mcpdesk.storage.facts import set_fact
from tests.tools.support import ToolContext, fields, use


async def plan(context: ToolContext, action: str, **more: Any) -> dict[str, Any]:
    body = fields(await use("PlanMode", context, action=action, **more))
    return body


async def test_a_plan_begins_with_a_file_of_its_own(context: ToolContext) -> None:
    status = await plan(context, "enter", goal="Move house")
    assert status["active"] and status["goal"] == "Move house"
    assert Path(status["plan_file"]).read_text() == "# Plan: Move house\n\n"
    assert Path(status["plan_file"]).is_relative_to(context.hosted.state)


async def test_what_was_written_to_the_file_is_the_plan(context: ToolContext) -> None:
    status = await plan(context, "enter", goal="Move house", plan_file="docs/plan.md")
    path = context.hosted.folder / "docs" / "plan.md"
    assert status["plan_file"] == str(path)
    path.write_text("1. Pack\n")
    assert (await plan(context, "status"))["plan"] == "1. Pack\n"
    done = await use("PlanMode", context, action="exit")
    assert "1. Pack" in done.content[0]["text"] and not fields(done)["active"]


async def test_what_is_no_file_any_more_is_not_waited_for(context: ToolContext) -> None:
    path = Path((await plan(context, "enter", goal="Move house"))["plan_file"])
    path.unlink()
    os.mkfifo(path)
    assert (await plan(context, "status"))["plan"] is None
    assert not (await plan(context, "exit"))["active"]


async def test_a_long_plan_is_given_from_its_beginning(context: ToolContext) -> None:
    path = Path((await plan(context, "enter", goal="Move house"))["plan_file"])
    path.write_text("x" * 200_007)
    text = (await plan(context, "status"))["plan"]
    assert len(text) < 30_000 and text.endswith(f" bytes more; the full text is in {path}]")


async def test_a_plan_that_is_there_is_gone_on_with(context: ToolContext) -> None:
    (context.hosted.folder / "plan.md").write_text("half of it")
    assert (await plan(context, "enter", goal="Rest", plan_file="plan.md"))["plan"] == "half of it"


async def test_plan_mode_survives_the_server(home: ServerState, context: ToolContext) -> None:
    await plan(context, "enter", goal="Move house")
    await home.close()
    again = ServerState(home.folder, home.state)
    await again.wake()
    kept = again.plans["session:client"]
    assert kept.is_active and kept.goal == "Move house" and kept.client == "client"
    ((_, shown),) = again.shown_plans
    assert not shown.is_active, "its session ended with the process"
    again.join("session:client")
    assert again.shown_plans == [("session:client", kept)]
    await again.close()


async def test_a_plan_nobody_can_read_can_be_forgotten(home: ServerState, context: ToolContext) -> None:
    await home.data.run(lambda connection: set_fact(connection, f"{PLAN_PREFIX}session:x", '{"goal": 5}'))
    with pytest.raises(StorageError, match="cannot be read; PlanMode reset discards it"):
        await plan(context, "enter", goal="Move house")
    assert not (await plan(context, "reset"))["active"]
    assert (await plan(context, "enter", goal="Move house"))["active"]


async def test_another_process_sees_the_plan_there_is(home: ServerState, context: ToolContext) -> None:
    other = ServerState(home.folder, home.state)
    assert not (await plan(ToolContext(home=other), "status"))["active"]
    await plan(context, "enter", goal="Move house")
    rules = home.rules_version
    with pytest.raises(HandlerError, match="already on, for: Move house"):
        await plan(ToolContext(home=other), "enter")
    await plan(ToolContext(home=other), "exit")
    assert not (await plan(context, "status"))["active"] and home.rules_version == rules + 1
    await plan(context, "status")
    assert home.rules_version == rules + 1, "nothing has changed"
    await other.close()


async def test_reset_forgets_the_plan_and_leaves_its_file(home: ServerState, context: ToolContext) -> None:
    path = Path((await plan(context, "enter", goal="Move house"))["plan_file"])
    assert await plan(context, "reset") == {
        "active": False,
        "goal": None,
        "since": None,
        "plan_file": None,
        "plan": None,
    }
    assert path.exists() and home.plan is None


async def test_json_is_the_status_as_data(context: ToolContext) -> None:
    await plan(context, "enter", goal="Move house")
    told = await use("PlanMode", context, action="json")
    assert '"active":true' in told.content[0]["text"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"action": "enter"}, "goal: is missing"),
        ({"action": "enter", "goal": "g" * 2001}, "goal: has 2001 characters"),
        ({"action": "exit"}, "plan mode is off"),
        ({"action": "enter", "goal": "g", "plan_file": "../plan.md"}, "is outside the server folder"),
        ({"action": "enter", "goal": "g", "plan_file": "/etc/plan.md"}, "is outside the server folder"),
        ({"action": "enter", "goal": "g", "plan_file": "run.sh"}, r"must end with \.md"),
        (
            {"action": "enter", "goal": "g", "plan_file": "a\0.md"},
            r"plan_file: contains the control character",
        ),
        ({"action": "enter", "goal": "g", "plan_file": "taken.md"}, "is not a file"),
        ({"action": "enter", "goal": "g", "plan_file": "circle.md"}, "is not a file"),
        ({"action": "enter", "goal": "g", "plan_file": "link/plan.md"}, "is outside the server folder"),
    ],
)
async def test_what_cannot_be_done_says_why(
    context: ToolContext, tmp_path: Path, arguments: dict[str, Any], complaint: str
) -> None:
    (context.hosted.folder / "taken.md").mkdir()
    (context.hosted.folder / "link").symlink_to(tmp_path)
    (context.hosted.folder / "circle.md").symlink_to("circle.md")
    with pytest.raises(HandlerError, match=complaint):
        await use("PlanMode", context, **arguments)
    assert context.hosted.plan is None
