"""Jobs and tasks behind a balancer without stickiness: seen, awaited, cancelled and downloaded anywhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest
import pytest_asyncio

from mcpdesk.protocol.marked_ids import process_mark
from tests.support.engine import EngineServer, needs_engine, shared_engine
from tests.support.features import needs_feature
from tests.support.patience import WITHIN_S, within
from tests.support.replicas import ReplicaCluster, replica_cluster
from tests.support.session_client import events

__all__ = ["shared_engine"]

pytestmark = [
    needs_engine,
    needs_feature("gateway"),
    needs_feature("program_tools"),
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="module"),
]

TOOLS = '''
import asyncio
import os
from pathlib import Path
from mcpdesk import Context, tool

RUNS = Path(__file__).parent.parent / "runs"

@tool(task="optional")
async def slow(seconds: float, ctx: Context) -> str:
    """Take its time."""
    await ctx.progress(1, 2, "begun")
    await asyncio.sleep(seconds)
    return "slept"

@tool(task="optional", resume=True)
async def again(seconds: float, mark: str) -> str:
    """May run twice."""
    with open(RUNS, "a") as file:
        file.write(f"{mark} began {os.getpid()}\\n")
    await asyncio.sleep(seconds)
    with open(RUNS, "a") as file:
        file.write(f"{mark} ended {os.getpid()}\\n")
    return f"done by {os.getpid()}"

@tool(task="optional")
async def ask_name(ctx: Context) -> str:
    """Ask the client."""
    given = await ctx.elicit("Who?", {"type": "object", "properties": {"name": {"type": "string"}}})
    return f"{given.action} {given.content}"

async def ask_twice(ctx: Context) -> str:
    """Ask the client, and again."""
    run = os.urandom(4).hex()
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    first = await ctx.elicit("Who?", schema)
    known = RUNS.with_name(f"run-{run}")
    known.touch()
    second = await ctx.elicit("And who?", schema)
    runs = len(list(RUNS.parent.glob("run-*")))
    known.unlink()
    return f"{first.content['name']} {second.content['name']} in {'one run' if runs == 1 else runs}"

async def make(name: str, ctx: Context) -> str:
    """Make a file."""
    path = Path(ctx.folder) / "made" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text("the content")
    ctx.produced(path)
    return "made"
'''
SLEEP = "import sys, time; print('out', flush=True); time.sleep(float(sys.argv[1]))"
COMMAND = {
    "stage": "long",
    "command": "run",
    "run": [
        "{python}",
        "-c",
        "import sys, time; print('out', flush=True); time.sleep(float(sys.argv[1]))",
        "{s}",
    ],
    "parameters": {"type": "object", "properties": {"s": {"type": "number"}}, "required": ["s"]},
    "resume": True,
}
TASKS = "io.modelcontextprotocol/tasks"
META: dict[str, Any] = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"extensions": {TASKS: {}}, "elicitation": {"form": {}}},
    "io.modelcontextprotocol/clientInfo": {"name": "tester", "version": "1"},
}


def make_folder(place: Path) -> Path:
    made = place / "work"
    (made / "tools").mkdir(parents=True)
    builtins = ["BackgroundBash", "ReadBgOutput", "ListBgTasks", "KillBgTask"]
    manifest = {"name": "work", "commands": [COMMAND], "builtins": builtins}
    (made / "mcp.json").write_text(orjson.dumps(manifest).decode())
    (made / "tools" / "work.py").write_text(TOOLS)
    return made


class Caller:
    """Speaks to a cluster, each request on a new connection and therefore at the next replica."""

    def __init__(self, cluster: ReplicaCluster, http: aiohttp.ClientSession) -> None:
        self.cluster, self.http, self.url = cluster, http, cluster.url

    async def post(self, path: str, message: Any, **headers: str) -> tuple[int, Any, dict[str, str]]:
        named = {"Content-Type": "application/json", "Accept": "application/json"} | headers
        async with self.http.post(self.url + path, data=orjson.dumps(message), headers=named) as answer:
            body = await answer.read()
            if answer.content_type == "text/event-stream":
                body = [line for line in body.split(b"\n") if line.startswith(b"data: {")][-1][6:]
            return answer.status, orjson.loads(body) if body else None, dict(answer.headers)

    async def begin(self, name: str, arguments: dict[str, Any]) -> str:
        """Begin a job of the gateway; returns its id."""
        params = {"name": name, "arguments": arguments, "mode": "async"}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        status, body, _ = await self.post("/v1/mcp", message)
        assert status == 200, body
        return str(body["result"]["job_id"])

    async def stateless(self, method: str, **params: Any) -> Any:
        """The answer to a request of the stateless era."""
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params | {"_meta": META}}
        headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
        name = params.get("name") or params.get("taskId")
        if name:
            headers["Mcp-Name"] = name
        headers["Accept"] = "application/json, text/event-stream"
        return (await self.post("/mcp/work", message, **headers))[1]

    async def task(self, task: str, is_enough: Callable[[Any], bool], within_s: float = WITHIN_S) -> Any:
        """A task of the stateless era once it is as it should be."""
        async with within(within_s=within_s):
            while True:
                answer = await self.stateless("tasks/get", taskId=task)
                if "result" in answer and is_enough(answer["result"]):
                    return answer["result"]
                await asyncio.sleep(0.05)

    async def plainly(self, name: str, **more: Any) -> Any:
        """The answer to a call in the stateless era of a client that knows no tasks."""
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
            "io.modelcontextprotocol/clientInfo": {"name": "tester", "version": "1"},
        }
        params = {"name": name, "arguments": {}, "_meta": meta} | more
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": name}
        headers["Accept"] = "application/json, text/event-stream"
        _, body, _ = await self.post("/mcp/work", message, **headers)
        assert "result" in body, body
        return body

    async def get(self, path: str, expected: int = 200) -> Any:
        async with self.http.get(self.url + path) as answer:
            body = await answer.read()
            assert answer.status == expected, (answer.status, body)
            return orjson.loads(body)

    async def over(self, job: str, within_s: float = WITHIN_S) -> Any:
        """Final state of a job."""
        async with within(within_s=within_s):
            while True:
                async with self.http.get(f"{self.url}/jobs/{job}") as answer:
                    facts = orjson.loads(await answer.read())
                if answer.status == 200 and facts["status"] not in ("running", "queued"):
                    return facts
                await asyncio.sleep(0.1)


class Session:
    """A session of 2025-11-25."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.headers: dict[str, str] = {"Accept": "application/json, text/event-stream"}
        self._number = 0

    async def open(self) -> None:
        info = {"name": "tester", "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
        message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
        status, body, headers = await self.caller.post("/mcp/work", message, **self.headers)
        assert status == 200, body
        self.headers["Mcp-Session-Id"] = headers["Mcp-Session-Id"]
        message = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        await self.caller.post("/mcp/work", message, **self.headers)

    async def ask(self, method: str, **params: Any) -> Any:
        self._number += 1
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        status, body, _ = await self.caller.post("/mcp/work", message, **self.headers)
        assert status == 200 and "result" in body, body
        return body["result"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def steady(
    shared_engine: EngineServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[ReplicaCluster]:
    """A cluster whose replicas are not killed."""
    place = tmp_path_factory.mktemp("jobs")
    async with replica_cluster(3, [make_folder(place)], shared_engine, place, MCPDESK_NO_AUTH="true") as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def caller(steady: ReplicaCluster) -> AsyncIterator[Caller]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as http:
        yield Caller(steady, http)


async def test_programs_in_the_background_are_read_and_ended_through_any_replica(caller: Caller) -> None:
    async def called(name: str, **arguments: Any) -> Any:
        return (await caller.stateless("tools/call", name=name, arguments=arguments))["result"]

    numbers = []
    for name in ("one", "two", "three"):
        begun = await called("BackgroundBash", command=f"echo {name}; exec sleep 600")
        numbers.append(begun["structuredContent"]["task_id"])
    assert len(set(numbers)) == 3

    async def listed(count: int) -> list[list[Any]]:
        """Lists of these programs by three replicas, once each knows all of them."""
        found = list[list[Any]]()
        async with within():
            while len(found) < count:
                tasks = (await called("ListBgTasks"))["structuredContent"]["tasks"]
                known = [each for each in tasks if each["task_id"] in numbers]
                found = [*found, known] if len(known) == 3 else []
        return found

    for known in await listed(3):
        assert [each["task_id"] for each in known] == numbers
        assert {each["status"] for each in known} == {"running"} and "echo two" in known[1]["command"]
    for number, name in zip(numbers, ("one", "two", "three"), strict=True):
        said = ""
        async with within():
            while name not in said:
                said = (await called("ReadBgOutput", task_id=number))["structuredContent"]["output"]
        ended = await called("KillBgTask", task_id=number)
        assert ended["structuredContent"]["status"] == "killed", ended
    async with within():
        while any(each["status"] != "killed" for known in await listed(3) for each in known):
            pass
    unknown = await called("ReadBgOutput", task_id=7)
    assert unknown["isError"] and "no background task 7" in unknown["content"][0]["text"]


async def test_a_job_is_seen_awaited_and_listed_anywhere(caller: Caller) -> None:
    job = await caller.begin("slow", {"seconds": 2})
    for _ in range(3):
        assert (await caller.get(f"/jobs/{job}"))["status"] in ("running", "queued", "succeeded")
    async with caller.http.get(f"{caller.url}/v1/mcp/progress/{job}?interval_ms=50") as answer:
        events = [line async for line in answer.content if line.startswith(b"data: ")]
    assert orjson.loads(events[-1][6:])["status"] == "succeeded"
    for _ in range(3):
        facts = await caller.get(f"/jobs/{job}")
        assert facts["status"] == "succeeded" and facts["stdout"] == "slept"
    await caller.get("/jobs/nosuchjob", 404)


async def test_a_socket_is_relayed(caller: Caller) -> None:
    for _ in range(3):
        job = await caller.begin("slow", {"seconds": 0.3})
        async with caller.http.ws_connect(f"{caller.url}/ws/jobs/{job}") as socket:
            said = [orjson.loads(message.data) async for message in socket]
        assert said[-1]["status"] == "succeeded" and socket.close_code == 1000


async def test_a_job_is_cancelled_through_any_replica(caller: Caller) -> None:
    for _ in range(3):
        job = await caller.begin("slow", {"seconds": 60})
        async with caller.http.delete(f"{caller.url}/jobs/{job}") as answer:
            assert answer.status == 200, await answer.text()
            assert (await answer.json())["status"] == "canceled"
        for _ in range(3):
            assert (await caller.get(f"/jobs/{job}"))["status"] == "canceled"
        async with caller.http.delete(f"{caller.url}/jobs/{job}") as answer:
            assert answer.status == 409


async def test_files_are_downloaded_through_any_replica(caller: Caller) -> None:
    job = await caller.begin("make", {"name": "a.txt"})
    await caller.over(job)
    for _ in range(3):
        manifest = await caller.get(f"/jobs/{job}/manifest")
        assert [each["size"] for each in manifest["files"]] == [11]
        headers = {"Range": "bytes=4-"}
        async with caller.http.get(f"{caller.url}/jobs/{job}/download", headers=headers) as answer:
            assert (answer.status, await answer.read()) == (206, b"content")


async def test_jobs_of_a_session_are_listed_from_every_replica(caller: Caller) -> None:
    info = {"name": "tester", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info}
    message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
    status, body, headers = await caller.post("/v1/mcp", message)
    assert status == 200, body
    session = {"Mcp-Session-Id": headers["Mcp-Session-Id"]}
    await caller.post("/v1/mcp", {"jsonrpc": "2.0", "method": "notifications/initialized"}, **session)
    begun = set()
    for number in range(6):
        named = {"name": "slow", "arguments": {"seconds": 0}, "mode": "async"}
        call = {"jsonrpc": "2.0", "id": number + 2, "method": "tools/call", "params": named}
        status, body, _ = await caller.post("/v1/mcp", call, **session)
        begun.add(body["result"]["job_id"])
    for job in begun:
        await caller.over(job)
    for _ in range(3):
        async with caller.http.get(f"{caller.url}/jobs", headers=session) as answer:
            listed = (await answer.json())["jobs"]
        assert {each["job_id"] for each in listed} == begun
        assert {each["status"] for each in listed} == {"succeeded"}


async def test_a_task_of_the_stateless_era_is_asked_for_anywhere(caller: Caller) -> None:
    made = (await caller.stateless("tools/call", name="slow", arguments={"seconds": 0.5}))["result"]
    task = made["taskId"]
    found = await caller.task(task, lambda each: each["status"] != "working")
    assert found["result"]["content"][0]["text"] == "slept"
    made = (await caller.stateless("tools/call", name="slow", arguments={"seconds": 60}))["result"]
    tasks = [(await caller.stateless("tasks/get", taskId=made["taskId"]))["result"] for _ in range(3)]
    assert [each["status"] for each in tasks] == ["working"] * 3
    assert (await caller.stateless("tasks/cancel", taskId=made["taskId"]))["result"] is not None
    for _ in range(3):
        found = (await caller.stateless("tasks/get", taskId=made["taskId"]))["result"]
        assert found["status"] == "cancelled"
    unknown = await caller.stateless("tasks/get", taskId="none")
    assert unknown["error"]["code"] == -32602


async def test_a_question_of_a_task_is_answered_through_any_replica(caller: Caller) -> None:
    for name in ("Ada", "Bo", "Cy"):
        made = (await caller.stateless("tools/call", name="ask-name", arguments={}))["result"]
        task = made["taskId"]
        found = await caller.task(task, lambda each: "inputRequests" in each)
        (key,) = found["inputRequests"]
        answers = {key: {"action": "accept", "content": {"name": name}}}
        told = await caller.stateless("tasks/update", taskId=task, inputResponses=answers)
        assert "result" in told, told
        found = await caller.task(task, lambda each: each["status"] == "completed")
        assert f"'name': '{name}'" in found["result"]["content"][0]["text"]


async def test_a_listener_is_told_of_tasks_of_every_replica(caller: Caller) -> None:
    tasks = [
        (await caller.stateless("tools/call", name="ask-name", arguments={}))["result"]["taskId"]
        for _ in range(3)
    ]
    assert len({process_mark(each) for each in tasks}) == 3
    told: dict[str, list[str]] = {task: [] for task in tasks}
    params = {"notifications": {"taskIds": tasks}, "_meta": META}
    message = {"jsonrpc": "2.0", "id": "ear", "method": "subscriptions/listen", "params": params}
    headers = {
        "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "subscriptions/listen",
    }  # fmt: skip
    async with (
        caller.http.post(f"{caller.url}/mcp/work", json=message, headers=headers) as stream,
        within(),
    ):
        async for _, event in events(stream):
            assert event["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == "ear"
            if event["method"] == "notifications/subscriptions/acknowledged":
                assert event["params"]["notifications"] == {"taskIds": tasks}
                continue
            assert event["method"] == "notifications/tasks"
            task, status = event["params"]["taskId"], event["params"]["status"]
            if status not in told[task]:
                told[task].append(status)
                if status == "input_required":  # the answer uses only data of the notification
                    (key,) = event["params"]["inputRequests"]
                    answers = {key: {"action": "accept", "content": {"name": "Ada"}}}
                    await caller.stateless("tasks/update", taskId=task, inputResponses=answers)
                if status == "completed":
                    assert "'name': 'Ada'" in event["params"]["result"]["content"][0]["text"]
            if all("completed" in each for each in told.values()):
                break
    assert all(each[0] == "input_required" and each[-1] == "completed" for each in told.values()), told


async def test_rounds_go_on_where_they_are_parked(caller: Caller) -> None:
    for name in ("Ada", "Bo", "Cy"):
        asked = (await caller.plainly("ask-twice"))["result"]
        state = asked["requestState"]
        for number in (1, 2):
            (key,) = asked["inputRequests"]
            answers = {key: {"action": "accept", "content": {"name": f"{name}{number}"}}}
            asked = (await caller.plainly("ask-twice", inputResponses=answers, requestState=state))["result"]
            state = asked.get("requestState")
        text = asked["content"][0]["text"]
        assert text.startswith(f"{name}1 {name}2 in one run"), text


async def test_a_round_posted_twice_at_different_replicas_runs_once(caller: Caller) -> None:
    asked = (await caller.plainly("ask-twice"))["result"]
    for number in (1, 2):
        (key,) = asked["inputRequests"]
        answers = {key: {"action": "accept", "content": {"name": f"Di{number}"}}}
        more = {"inputResponses": answers, "requestState": asked["requestState"]}
        both = await asyncio.gather(*(caller.plainly("ask-twice", **more) for _ in range(3)))
        later = await caller.plainly("ask-twice", **more)
        assert [each["result"] for each in both] == [later["result"]] * 3
        asked = later["result"]
    assert asked["content"][0]["text"].startswith("Di1 Di2 in one run")


async def test_a_task_of_a_session_is_asked_for_anywhere(caller: Caller) -> None:
    session = Session(caller)
    await session.open()
    begun = []
    for _ in range(4):
        made = await session.ask("tools/call", name="slow", arguments={"seconds": 0.3}, task={})
        begun.append(made["task"]["taskId"])
    for task in begun:
        for _ in range(2):
            assert (await session.ask("tasks/get", taskId=task))["taskId"] == task
        ended = await session.ask("tasks/result", taskId=task)
        assert ended["content"][0]["text"] == "slept"
    for _ in range(3):
        listed = (await session.ask("tasks/list"))["tasks"]
        assert [each["taskId"] for each in listed] == begun
        assert {each["status"] for each in listed} == {"completed"}
    made = await session.ask("tools/call", name="slow", arguments={"seconds": 60}, task={})
    task = made["task"]["taskId"]
    assert (await session.ask("tasks/cancel", taskId=task))["status"] == "cancelled"
    assert (await session.ask("tasks/get", taskId=task))["status"] == "cancelled"


async def test_a_message_reaches_the_stream_of_its_connection(caller: Caller) -> None:
    headers = {"Accept": "text/event-stream"}
    async with caller.http.get(f"{caller.url}/mcp/work/sse", headers=headers) as stream:
        lines = (line.strip() async for line in stream.content if line.startswith(b"data: "))
        where = (await anext(lines))[6:].decode()
        params = {
            "protocolVersion": "2024-11-05",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        }
        first = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
        for number in range(6):
            message = {"jsonrpc": "2.0", "id": number, "method": "ping"} if number else first
            status, _, _ = await caller.post(where, message)
            assert status == 202
            async with within():
                assert orjson.loads((await anext(lines))[6:])["id"] == number
    status, _, _ = await caller.post(where, first)
    assert status == 404


async def test_a_task_of_another_replica_is_known_on_a_socket(caller: Caller) -> None:
    capabilities: dict[str, Any] = {"extensions": {TASKS: {}}}
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
        "io.modelcontextprotocol/clientInfo": {"name": "tester", "version": "1"},
    }
    begun = [
        (await caller.stateless("tools/call", name="slow", arguments={"seconds": 60}))["result"]["taskId"]
        for _ in range(3)
    ]
    async with caller.http.ws_connect(f"{caller.url}/mcp/work/ws") as socket:

        async def ask(method: str, task: str) -> Any:
            params = {"taskId": task, "_meta": meta}
            await socket.send_json({"jsonrpc": "2.0", "id": method, "method": method, "params": params})
            return (await socket.receive_json())["result"]

        for task in begun:
            assert (await ask("tasks/get", task))["status"] == "working"
            await ask("tasks/cancel", task)
            assert (await ask("tasks/get", task))["status"] == "cancelled"
