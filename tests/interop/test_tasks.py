"""Tasks over real sockets and pipes, in both designs; the official client has the extension plugged in."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any, Literal

import aiohttp
import mcp_types as types
import orjson
import pydantic
import pytest
from mcp import Client
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim

from mcpdesk.hosting.endpoint import HostedEndpoint
from mcpdesk.paths import sample_servers
from mcpdesk.protocol.revisions import V2026_07_28
from mcpdesk.protocol.stateless import CAPABILITIES_KEY, request_meta
from mcpdesk.protocol.task_shapes import EXTENSION
from tests.support.asked_client import ADA, EVERYTHING
from tests.support.desk import running_desk
from tests.support.official import stdio, text_of
from tests.support.official_schema import problems
from tests.support.patience import in_time
from tests.support.site import Served, events, serving
from tests.support.stdio_server import Server
from tests.support.task_server import EXTENDED, FINAL, TaskServer, become

DECLARED = {"_meta": {CAPABILITIES_KEY: EXTENDED}}


def hosting(site: Served) -> TaskServer:
    tasks = TaskServer()
    tasks.server.name = "sample"
    site.hosted = HostedEndpoint(tasks.server, site.peer.services, site.recorder)
    return tasks


async def result(site: Served, method: str, params: dict[str, Any], **headers: str) -> dict[str, Any]:
    """Result of a request of the stateless era with the extension."""
    answer = await site.modern(method, params | DECLARED, **headers)
    assert answer.status == 200, await answer.text()
    body: dict[str, Any] = (await answer.json())["result"]
    return body


async def start(site: Served, tool: str) -> str:
    created = await result(site, "tools/call", {"name": tool})
    assert created["resultType"] == "task"
    return str(created["taskId"])


async def over(site: Served, task: str) -> dict[str, Any]:
    """Result of `tasks/get` after the end of a task."""
    await become(site.peer.services.jobs, task, *FINAL)
    return await result(site, "tasks/get", {"taskId": task})


async def messages(stream: Any) -> AsyncIterator[dict[str, Any]]:
    async for line in stream.content:
        if line.startswith(b"data: {"):
            yield orjson.loads(line[6:])


@pytest.mark.requirement("8.6", "8.11")
async def test_a_task_is_begun_by_one_connection_and_fetched_by_another() -> None:
    async with serving() as site:
        tasks = hosting(site)
        task = await start(site, "wait")
        await tasks.running.wait()
        await site.client.connector.close()  # type: ignore[union-attr]
        async with aiohttp.ClientSession() as another:
            site.client = another
            assert (await result(site, "tasks/get", {"taskId": task}))["status"] == "working"
            tasks.go.set()
            assert (await over(site, task))["result"]["structuredContent"] == {"waited": ""}
        assert tasks.ended == ["done"]
        site.peer.services.jobs.close()


@pytest.mark.requirement("8.10", "8.11")
async def test_headers_and_capabilities_are_checked_before_anything_runs() -> None:
    async with serving() as site:
        hosting(site)
        task = await start(site, "wait")
        for wrong in ({"Mcp_Name": "other"}, {"Mcp_Name": task.upper()}, {"Mcp_Method": "tasks/cancel"}):
            answer = await site.modern("tasks/get", {"taskId": task} | DECLARED, **wrong)
            assert (answer.status, (await answer.json())["error"]["code"]) == (400, -32020)
        meta = request_meta(V2026_07_28, {"name": "t", "version": "1"}) | DECLARED["_meta"]
        params = {"taskId": task, "_meta": meta}
        bare = {"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": params}
        answer = await site.post(bare, MCP_Protocol_Version=V2026_07_28.name, Mcp_Method="tasks/get")
        assert (answer.status, (await answer.json())["error"]["code"]) == (400, -32020)
        for method in ("tasks/update", "tasks/cancel"):
            named = {"taskId": task, "inputResponses": {}} | DECLARED
            answer = await site.modern(method, named, Mcp_Name="other")
            assert (answer.status, (await answer.json())["error"]["code"]) == (400, -32020)
        for method in ("tasks/get", "tasks/cancel"):
            answer = await site.modern(method, {"taskId": task})
            assert (answer.status, (await answer.json())["error"]["code"]) == (400, -32021)
        for method in ("tasks/result", "tasks/list"):
            message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
            answer = await site.post(message, MCP_Protocol_Version=V2026_07_28.name, Mcp_Method=method)
            assert (answer.status, (await answer.json())["error"]["code"]) == (404, -32601)
        unknown = await site.modern("tasks/get", {"taskId": "unheard-of"} | DECLARED)
        assert (unknown.status, (await unknown.json())["error"]["code"]) == (400, -32602)
        must = await site.modern("tools/call", {"name": "must"})
        error = (await must.json())["error"]
        assert (must.status, error["code"]) == (400, -32021)
        assert (
            problems(
                V2026_07_28.name,
                "MissingRequiredClientCapabilityError",
                {"jsonrpc": "2.0", "id": 1, "error": error},
            )
            == []
        )
        site.peer.services.jobs.close()


async def opened(site: Served) -> dict[str, str]:
    identity = {"name": "t", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": EVERYTHING, "clientInfo": identity}
    answer = await site.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
    headers = {"Mcp_Session_Id": answer.headers["Mcp-Session-Id"], "MCP_Protocol_Version": "2025-11-25"}
    await site.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, **headers)
    return headers


def request(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}


@pytest.mark.requirement("8.2")
async def test_in_a_session_the_stream_of_the_result_carries_the_question() -> None:
    async with serving() as site:
        hosting(site)
        headers = await opened(site)
        created = await (await site.post(request("tools/call", name="ask", task={}), **headers)).json()
        task = created["result"]["task"]["taskId"]
        stream = await site.post(request("tasks/result", taskId=task), **headers)
        seen: list[dict[str, Any]] = []
        async for message in messages(stream):
            seen.append(message)
            if message.get("method") == "elicitation/create":
                answer = {"jsonrpc": "2.0", "id": message["id"], "result": ADA}
                assert (await site.post(answer, **headers)).status == 202
        related = {"io.modelcontextprotocol/related-task": {"taskId": task}}
        assert [message.get("method") for message in seen] == ["elicitation/create", None]
        assert seen[0]["params"]["_meta"] == seen[1]["result"]["_meta"] == related
        assert seen[1]["result"]["content"][0]["text"] == "Hello, Ada!"
        got = await (await site.post(request("tasks/get", taskId=task), **headers)).json()
        assert got["result"]["status"] == "completed"


@pytest.mark.requirement("8.4")
async def test_the_standing_stream_tells_of_changes_and_the_end_of_the_session_ends_its_tasks() -> None:
    async with serving() as site:
        tasks = hosting(site)
        headers, stranger = await opened(site), await opened(site)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        stream = await site.client.get(
            f"{site.url}/mcp/sample", headers=named | {"Accept": "text/event-stream"}
        )
        created = await (await site.post(request("tools/call", name="ask", task={}), **headers)).json()
        task = created["result"]["task"]["taskId"]
        async for message in messages(stream):
            assert message["method"] == "notifications/tasks/status"
            assert problems("2025-11-25", "TaskStatusNotification", message) == []
            break
        assert message["params"]["status"] == "input_required"
        foreign = await (await site.post(request("tasks/get", taskId=task), **stranger)).json()
        assert foreign["error"]["code"] == -32602
        working = request("tools/call", name="wait", task={})
        await site.post(working, **headers)
        await tasks.running.wait()
        await site.client.delete(f"{site.url}/mcp/sample", headers=named)
        await in_time(tasks.over.wait())
        assert len(site.peer.services.jobs) == 0


async def test_without_a_session_there_is_no_task_of_the_core_design() -> None:
    async with serving() as site:
        tasks = hosting(site)
        tasks.go.set()
        headers = {"MCP_Protocol_Version": "2025-11-25"}
        answer = await site.post(request("tools/call", name="wait", task={}), **headers)
        *_, plain = events((await answer.read()).decode())
        assert plain["result"]["structuredContent"] == {"waited": ""}
        must = await (await site.post(request("tools/call", name="must", task={}), **headers)).json()
        assert must["error"]["code"] == -32601


@pytest.mark.requirement("8.4")
async def test_tasks_of_nobody_in_particular_are_listed_for_nobody() -> None:
    async with serving() as site:
        hosting(site)
        task = await start(site, "ask")
        sessionless = {"MCP_Protocol_Version": "2025-11-25"}
        for headers in (sessionless, await opened(site)):
            listed = await (await site.post(request("tasks/list"), **headers)).json()
            assert listed["result"] == {"tasks": []}
            for method in ("tasks/get", "tasks/result", "tasks/cancel"):
                refused = await (await site.post(request(method, taskId=task), **headers)).json()
                assert refused["error"]["code"] == -32602
        assert (await result(site, "tasks/get", {"taskId": task}))["status"] == "input_required"
        site.peer.services.jobs.close()


@pytest.mark.slow
def test_a_program_behind_a_pipe_serves_both_designs() -> None:
    server = Server(sample_servers() / "conformance")
    try:
        meta = request_meta(V2026_07_28, {"name": "t", "version": "1"}) | {CAPABILITIES_KEY: EXTENDED}
        call = {"name": "slow_compute", "arguments": {"seconds": 0.01, "label": "x"}, "_meta": meta}
        task = server.ask("tools/call", call)["result"]["taskId"]
        seen: dict[str, Any] = {}
        for number in range(2, 1000):
            seen = server.ask("tasks/get", {"taskId": task, "_meta": meta}, number)["result"]
            if seen["status"] in FINAL:
                break
        assert seen["result"]["content"][0]["text"] == "Computed x in 0.01 s"
        identity = {"name": "t", "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": identity}
        assert "tasks" in server.ask("initialize", params, 5000)["result"]["capabilities"]
        server.stdin.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
        call = {"name": "failing_job", "arguments": {}, "task": {"ttl": 60_000}}
        created = server.ask("tools/call", call, 5001)["result"]["task"]
        assert created["ttl"] == 60_000
        wanted = {
            "jsonrpc": "2.0",
            "id": 5002,
            "method": "tasks/result",
            "params": {"taskId": created["taskId"]},
        }
        server.stdin.write(json.dumps(wanted).encode() + b"\n")
        server.stdin.flush()
        told, answer = json.loads(server.stdout.readline()), json.loads(server.stdout.readline())
        assert (told["method"], told["params"]["status"]) == ("notifications/tasks/status", "failed")
        assert answer["id"] == 5002 and answer["result"]["isError"]
    finally:
        server.close()


class TaskMade(types.Result):
    """Result of a call that became a task."""

    result_type: Literal["task"] = pydantic.Field(alias="resultType")
    task_id: str = pydantic.Field(alias="taskId")


class OfTask(types.RequestParams):
    task_id: str = pydantic.Field(alias="taskId")
    input_responses: dict[str, Any] | None = pydantic.Field(None, alias="inputResponses")


class GetTask(types.Request[OfTask, Literal["tasks/get"]]):
    name_param = "taskId"
    method: Literal["tasks/get"] = "tasks/get"


class UpdateTask(types.Request[OfTask, Literal["tasks/update"]]):
    name_param = "taskId"
    method: Literal["tasks/update"] = "tasks/update"


class Anything(types.Result):
    model_config = pydantic.ConfigDict(extra="allow")


class OfficialTasks(ClientExtension):
    """The extension as an official client would have it: polls, and answers Ada to every question."""

    identifier = EXTENSION

    def __init__(self) -> None:
        self.seen: list[str] = []

    def claims(self) -> list[ResultClaim[Any]]:
        return [ResultClaim(result_type="task", model=TaskMade, resolve=self.resolve)]

    async def resolve(self, made: TaskMade, context: ClaimContext) -> types.CallToolResult:
        while True:
            polled = await context.session.send_request(
                GetTask(params=OfTask(taskId=made.task_id, inputResponses=None)), Anything
            )
            task = polled.model_dump(by_alias=True)
            self.seen.append(task["status"])
            if task["status"] in FINAL:
                return types.CallToolResult.model_validate(task["result"])
            if task["status"] == "input_required":
                answers = dict.fromkeys(task["inputRequests"], ADA)
                update = UpdateTask(params=OfTask(taskId=made.task_id, inputResponses=answers))
                await context.session.send_request(update, Anything)


@contextlib.asynccontextmanager
async def sample(transport: str) -> AsyncIterator[Any]:
    """Place of the sample for the official suite."""
    folder = sample_servers() / "conformance"
    if transport == "stdio":
        yield stdio(folder, "--alone")
        return
    async with running_desk(folder, http=True) as desk:
        yield desk.view().servers[0].url


async def fill(context: Any, params: Any) -> Any:
    return types.ElicitResult(action="accept", content={"name": "Ada"})


@pytest.mark.parametrize("transport", ["http", pytest.param("stdio", marks=pytest.mark.slow)])
async def test_the_official_client_runs_tasks_as_an_extension(transport: str) -> None:
    tasks = OfficialTasks()
    async with (
        sample(transport) as place,
        Client(place, mode=V2026_07_28.name, extensions=[tasks], elicitation_callback=fill) as client,
    ):
        done = await client.call_tool("slow_compute", {"seconds": 0.01, "label": "x"})
        assert text_of(done) == "Computed x in 0.01 s"
        assert tasks.seen[-1] == "completed"
        both = await client.call_tool("multi_input", {})
        assert text_of(both) == "Ada lives with Ada."
        assert "input_required" in tasks.seen
        first = await client.call_tool("test_tool_with_task", {})
        assert text_of(first) == "Hello, Ada! The work is done."
        failed = await client.call_tool("failing_job", {})
        assert failed.is_error
        greeted = len(tasks.seen)
        assert text_of(await client.call_tool("greet", {"name": "Eve"})) == "Hello, Eve!"
        assert len(tasks.seen) == greeted
