"""A plan made with only the thirteen tools in one session of a real process, beside another session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import aiohttp
import pytest
from mcp.client.session import ClientSession

from tests.support.official import text_of
from tests.support.toolbox import KEY, toolbox

REFUSED: dict[str, dict[str, Any]] = {
    "Bash": {"command": "touch made"},
    "BackgroundBash": {"command": "touch made"},
    "KillBgTask": {"task_id": 1},
    "TaskManager": {"action": "create", "query": "x"},
    "SetCallback": {"action": "set", "message": "x", "delay_seconds": 60},
}
ALLOWED: dict[str, dict[str, Any]] = {
    "TaskManager": {"action": "list", "query": ""},
    "SetCallback": {"action": "list"},
    "ListBgTasks": {},
    "InvokeSkill": {"skill_name": "greet", "arguments": "Ada"},
    "PlanMode": {"action": "status"},
}


async def use(client: ClientSession, name: str, arguments: dict[str, Any]) -> tuple[str, Any]:
    """Text and structured content of a result; of a refusal, only the text."""
    result = await client.call_tool(name, arguments)
    return text_of(result), None if result.is_error else result.structured_content


async def plan(client: ClientSession, **arguments: Any) -> Any:
    text, status = await use(client, "PlanMode", arguments)
    assert status is not None, text
    return status


@pytest.mark.slow
@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25"])
async def test_a_plan_is_made_in_one_session_while_another_works(tmp_path: Path, revision: str) -> None:
    with toolbox(tmp_path) as box, box.served() as url:
        async with box.over_http(url, revision) as planner, box.over_http(url, revision) as worker:
            await use(planner, "Bash", {"command": "true"})  # it was the usual call before
            begun = await plan(planner, action="enter", goal="Move house", plan_file="plan.md")
            assert begun["active"] and begun["plan_file"] == str(box.folder / "plan.md")
            for name, arguments in REFUSED.items():
                text, structured = await use(planner, name, arguments)
                assert structured is None and f"{name} is not read-only" in text and "action enter" in text
            for name, arguments in ALLOWED.items():
                text, structured = await use(planner, name, arguments)
                assert structured is not None, (name, text)
            assert not (box.folder / "made").exists()
            assert (await use(worker, "Bash", {"command": "echo on"}))[1]["stdout"] == "on\n"
            assert not (await plan(worker, action="status"))["active"]
            await plan(planner, action="enter", goal="1. Pack\n2. Carry")
            written = await plan(planner, action="enter", goal="3. Unpack")
            assert written["plan"] == "# Plan: Move house\n\n1. Pack\n2. Carry\n\n3. Unpack\n"
            anew = await plan(planner, action="enter", goal="# Move house\n\n1. Hire a mover")
            assert (box.folder / "plan.md").read_text() == anew["plan"] == "# Move house\n\n1. Hire a mover\n"
            text, done = await use(planner, "PlanMode", {"action": "exit"})
            assert "1. Hire a mover" in text and not done["active"]
            assert (await use(planner, "Bash", {"command": "echo done"}))[1]["stdout"] == "done\n"


@pytest.mark.slow
async def test_the_plan_mode_of_a_session_ends_with_it_and_its_plan_stays(tmp_path: Path) -> None:
    with toolbox(tmp_path) as box:
        async with box.over_stdio("2025-11-25") as client:
            file = (await plan(client, action="enter", goal="Move house"))["plan_file"]
            await plan(client, action="enter", goal="1. Pack")
        async with box.over_stdio("2025-11-25") as client:
            assert (await use(client, "Bash", {"command": "echo on"}))[1]["stdout"] == "on\n"
        assert Path(file).read_text() == "# Plan: Move house\n\n1. Pack\n"


@pytest.mark.slow
async def test_a_client_without_a_session_cannot_begin_plan_mode(tmp_path: Path) -> None:
    with toolbox(tmp_path) as box, box.served() as url:
        async with box.over_http(url, "2026-07-28") as client:
            text, structured = await use(client, "PlanMode", {"action": "enter", "goal": "Move house"})
            assert structured is None and "plan mode belongs to a session" in text
            assert not (await plan(client, action="status"))["active"]
            assert (await use(client, "Bash", {"command": "true"}))[1] is not None


@pytest.mark.slow
async def test_a_session_that_never_said_that_it_is_ready_has_a_plan_mode_of_its_own(tmp_path: Path) -> None:
    headers = {"Accept": "application/json, text/event-stream", "X-API-Key": KEY}
    info = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}

    async def post(http: aiohttp.ClientSession, session: str, method: str, params: dict[str, Any]) -> Any:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        extra = {"Mcp-Session-Id": session} if session else {}
        async with http.post(url, json=message, headers=headers | extra) as response:
            return response.headers.get("Mcp-Session-Id", ""), await response.text()

    with toolbox(tmp_path) as box, box.served() as url:
        async with aiohttp.ClientSession() as http:
            first, second = [(await post(http, "", "initialize", info))[0] for _ in range(2)]
            enter = {"name": "PlanMode", "arguments": {"action": "enter", "goal": "g"}}
            bash = {"name": "Bash", "arguments": {"command": "echo on"}}
            await post(http, first, "tools/call", enter)
            assert "plan mode is on" in (await post(http, first, "tools/call", bash))[1]
            assert "plan mode is on" not in (await post(http, second, "tools/call", bash))[1]


@pytest.mark.process
async def test_what_was_there_before_is_added_to_and_never_replaced(tmp_path: Path) -> None:
    with toolbox(tmp_path) as box:
        (box.folder / "notes.md").write_text("my notes")
        async with box.over_stdio("2025-11-25") as client:
            await plan(client, action="enter", goal="Move house", plan_file="notes.md")
            status = await plan(client, action="enter", goal="# Replaced?")
            assert status["plan"] == "my notes\n\n# Replaced?\n"
            for arguments, told in (
                ({"action": "enter", "goal": "x", "plan_file": "other.md"}, "plan_file: the plan is in"),
                ({"action": "enter"}, "goal: is missing"),
                ({"action": "enter", "goal": "x" * 100_001}, "at most 100000"),
            ):
                text, structured = await use(client, "PlanMode", arguments)
                assert structured is None and told in text
            description = next(
                tool.description for tool in (await client.list_tools()).tools if tool.name == "PlanMode"
            )
            assert "enter adds the Markdown text" in " ".join((description or "").split())
