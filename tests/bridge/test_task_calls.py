"""Tools that exist as tasks only are called like all others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcpdesk.bridge.client import Client
from mcpdesk.bridge.tools import client_tools
from mcpdesk.errors import CallError, CallTimeout, InvalidAnswer, RpcError
from tests.support.folders import write
from tests.support.patience import in_time, until
from tests.support.scripted import Seen, json, modern, result, scripted

TOOLS = '''
    import asyncio
    from pathlib import Path

    from mcpdesk import Context, fail, tool

    @tool(task="required")
    async def bake(cakes: int, ctx: Context) -> dict[str, int]:
        """Bake some cakes, which takes a while."""
        await asyncio.sleep(0.05)
        if cakes > 9:
            fail("That is too many.")
        return {"cakes": cakes}

    @tool(task="required")
    async def wait() -> str:
        """Never end, but say so when it is ended."""
        try:
            await asyncio.Event().wait()
        finally:
            Path(__file__).with_name("ended.txt").touch()
        return ""
    '''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder whose tools are tasks."""
    return write(tmp_path / "bakery", {"tools/bake.py": TOOLS})


@pytest.mark.slow
async def test_call_of_a_task_has_the_result_of_a_call(client: Client) -> None:
    assert (await client.call_tool("bake", {"cakes": 2}))["structuredContent"] == {"cakes": 2}
    tools = await client_tools(client)
    assert await tools["bake"](cakes=3) == '{"cakes":3}'
    assert await tools["bake"](cakes=10) == "Error: That is too many."
    assert (await client.call_tool("bake", {"cakes": "x"}))["isError"]


@pytest.mark.slow
async def test_task_nobody_waits_for_is_cancelled(client: Client, folder: Path) -> None:
    await client.connect()
    with pytest.raises(CallTimeout):
        await client.call_tool("wait", timeout_s=1)
    await until((folder / "tools" / "ended.txt").exists)


async def test_other_refusals_stay_what_they_are(client: Client) -> None:
    with pytest.raises(RpcError, match="nobody"):
        await client.call_tool("nobody")


def task(**more: Any) -> dict[str, Any]:
    return {"resultType": "task", "taskId": "t-1", "status": "working", "pollIntervalMs": 1} | more


def tasks_of(*states: dict[str, Any]) -> Any:
    """A stateless server whose call is a task that goes through these states."""
    left = iter(states)

    def answer(seen: Seen) -> bytes:
        message = seen.message
        declared = message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]
        if "extensions" not in declared:
            needed: Any = {"requiredCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}}
            error = {"code": -32021, "message": "a task", "data": needed}
            return json({"jsonrpc": "2.0", "id": message["id"], "error": error}, 400)
        if message["method"] == "tools/call":
            return json(result(seen, task()))
        return json(result(seen, task(resultType="complete") | next(left)))

    return modern(answer)


async def test_task_is_polled_by_its_name_until_it_is_over() -> None:
    done = {"status": "completed", "result": {"content": [{"type": "text", "text": "baked"}]}}
    async with scripted(tasks_of({}, {}, done)) as server, Client(server.url) as client:
        assert (await client.call_tool("bake"))["content"][0]["text"] == "baked"
    polls = [seen for seen in server.seen if seen.headers["mcp-method"] == "tasks/get"]
    assert len(polls) == 3 and {seen.headers["mcp-name"] for seen in polls} == {"t-1"}


@pytest.mark.parametrize(
    ("state", "kind", "told"),
    [
        ({"status": "failed", "error": {"code": -32602, "message": "no flour"}}, RpcError, "no flour"),
        ({"status": "cancelled"}, CallError, "the task was cancelled"),
        ({"status": "input_required", "inputRequests": {}}, InvalidAnswer, "cannot answer any"),
        ({"status": "completed"}, InvalidAnswer, "completed' without an outcome"),
        ({"status": "failed"}, InvalidAnswer, "without an outcome"),
        ({"status": "completed", "result": {}}, InvalidAnswer, "no list called content"),
        ({"status": 5}, InvalidAnswer, "'5'"),
    ],
)
async def test_task_that_ends_otherwise_is_told(state: Any, kind: type[Exception], told: str) -> None:
    async with scripted(tasks_of(state)) as server, Client(server.url) as client:
        with pytest.raises(kind, match=told):
            await in_time(client.call_tool("bake"))


async def test_task_without_a_name_is_no_answer() -> None:
    def answer(seen: Seen) -> bytes:
        return json(result(seen, {"resultType": "task", "status": "working"}))

    async with scripted(tasks_of()) as server, Client(server.url) as client:
        server.answer = modern(
            lambda seen: answer(seen) if "extensions" in seen.body.decode() else tasks_of()(seen)
        )
        with pytest.raises(InvalidAnswer, match="no taskId"):
            await client.call_tool("bake")
