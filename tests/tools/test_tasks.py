"""TaskManager: stored tasks are found by later calls."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mcpdesk.errors import HandlerError
from mcpdesk.server.offer.tool import ToolResult
from mcpdesk.server.state.server_state import ServerState
from tests.tools.support import ToolContext, fields, use


async def manage(context: ToolContext, action: str, query: str = "", **more: Any) -> ToolResult[Any]:
    return await use("TaskManager", context, action=action, query=query, **more)


def text(result: ToolResult[Any]) -> str:
    return str(result.content[0]["text"])


async def test_a_created_task_is_the_current_one_and_takes_steps(context: ToolContext) -> None:
    created = await manage(context, "create", "Ship it")
    assert fields(created)["tasks"] == [
        {"task_id": 1, "name": "Ship it", "done": False, "current": True, "steps": []}
    ]
    await manage(context, "add", text="write")
    added = await manage(context, "add", text="test")
    assert fields(added)["step_id"] == 2
    assert text(added) == "Added step 2 to task 1:\n[ ] 1 Ship it (current)\n  1. [ ] write\n  2. [ ] test"


async def test_a_step_or_a_whole_task_is_completed(context: ToolContext) -> None:
    await manage(context, "create", "Ship it")
    await manage(context, "add", text="write")
    await manage(context, "add", text="test")
    (task,) = fields(await manage(context, "complete", step_id=1))["tasks"]
    assert ([step["done"] for step in task["steps"]], task["done"]) == ([True, False], False)
    (task,) = fields(await manage(context, "complete", task_id=1))["tasks"]
    assert all(step["done"] for step in task["steps"]) and task["done"]
    assert text(await manage(context, "pending")) == "No pending task."


async def test_a_completed_task_that_gets_a_step_is_open_again(context: ToolContext) -> None:
    await manage(context, "create", "Ship it")
    await manage(context, "complete")
    await manage(context, "add", text="once more")
    assert text(await manage(context, "pending")).startswith("1 pending task:")


async def test_only_what_changes_tasks_makes_the_screen_read_them_again(context: ToolContext) -> None:
    await manage(context, "create", "Ship it")
    todo = context.hosted.todo
    await todo.refresh()
    for action in ("list", "pending"):
        await manage(context, action)
        assert not todo.is_stale, action
    await manage(context, "add", text="write")
    assert todo.is_stale


async def test_lists_are_searched_by_name(context: ToolContext) -> None:
    for name in ("Water the plants", "Feed the cat", "Water the lawn"):
        await manage(context, "create", name)
    found = fields(await manage(context, "list", "water"))["tasks"]
    assert [task["name"] for task in found] == ["Water the plants", "Water the lawn"]
    assert text(await manage(context, "list", "dog")) == "No task with 'dog'."


async def test_the_current_task_is_switched_by_number_or_name(context: ToolContext) -> None:
    for name in ("one", "two"):
        await manage(context, "create", name)
    assert fields(await manage(context, "switch", task_id=1))["tasks"][0]["current"]
    assert fields(await manage(context, "switch", "two"))["tasks"][0]["task_id"] == 2
    assert fields(await manage(context, "add", text="here"))["tasks"][0]["task_id"] == 2


async def test_tasks_survive_the_server(home: ServerState, context: ToolContext) -> None:
    await manage(context, "create", "Remember me")
    await home.close()
    again = ServerState(home.folder, home.state)
    listed = await manage(ToolContext(home=again), "list")
    assert [(task["name"], task["current"]) for task in fields(listed)["tasks"]] == [("Remember me", True)]
    await again.close()


async def test_two_callers_at_once_lose_nothing(context: ToolContext) -> None:
    await manage(context, "create", "Both")
    await asyncio.gather(*(manage(context, "add", text=f"step {number}") for number in range(50)))
    (task,) = fields(await manage(context, "list"))["tasks"]
    assert [step["step_id"] for step in task["steps"]] == list(range(1, 51))


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ({"action": "create", "query": "  "}, "query: is missing"),
        ({"action": "create", "query": "x" * 501}, "query: has 501 characters; at most 500"),
        ({"action": "create", "query": "a\x1b[31m"}, r"query: contains the control character U\+001B"),
        ({"action": "add", "query": "", "text": "x", "task_id": 7}, "task_id: no task 7"),
        ({"action": "add", "query": "", "text": "x"}, "task_id: is missing, and no task is current"),
        ({"action": "complete", "query": "", "task_id": -1}, "task_id: no task -1"),
        ({"action": "complete", "query": "", "task_id": 1 << 80}, "task_id: no task"),
        ({"action": "switch", "query": ""}, "task_id or query: is missing"),
        (
            {"action": "switch", "query": "nothing"},
            "no task has a name that contains 'nothing'; give its task_id",
        ),
    ],
)
async def test_a_request_that_cannot_be_met_names_the_parameter(
    context: ToolContext, arguments: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(HandlerError, match=complaint):
        await use("TaskManager", context, **arguments)


async def test_an_unknown_step_is_told_which_there_are(context: ToolContext) -> None:
    await manage(context, "create", "Ship it")
    await manage(context, "add", text="write")
    with pytest.raises(HandlerError, match="step_id: task 1 has no step 5; its steps: 1"):
        await manage(context, "complete", step_id=5)
