"""A server whose tools may be tasks, and a peer that calls them so in either design."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from mcpdesk.jobs.job import JobStore
from mcpdesk.protocol.content import text
from mcpdesk.protocol.stateless import CAPABILITIES_KEY
from mcpdesk.protocol.task_shapes import EXTENSION
from mcpdesk.server.calls.context import Context
from mcpdesk.server.offer.authoring import fail, refuse
from mcpdesk.server.offer.server import Limits, Server
from mcpdesk.server.offer.tool import Tool
from tests.support.asked_client import ANYTHING, EVERYTHING, NAME
from tests.support.patience import within
from tests.support.served import Peer

EXTENDED = EVERYTHING | {"extensions": {EXTENSION: {}}}
FINAL = ("completed", "failed", "cancelled")


class TaskServer:
    """`go` lets the waiting ones finish; `ended` says how they did."""

    def __init__(self, **limits: Any) -> None:
        self.go = asyncio.Event()
        self.running = asyncio.Event()
        self.over = asyncio.Event()
        self.ended: list[str] = []
        known = {"tool_timeout_s": 0.3, "question_timeout_s": 5.0, "max_tasks": 20} | limits
        self.server = Server("tasks", "1", limits=Limits(**known))
        optional = (self.wait, self.boom, self.refused, self.ask, self.two, self.unsendable, self.stuck)
        tools = [Tool(each.__name__, each, ANYTHING, task="optional", timeout_s=60) for each in optional]
        tools += [
            Tool("plain", self.plain, ANYTHING),
            Tool("brief", self.stuck, ANYTHING, task="optional", timeout_s=0.1),
            Tool("asking", self.ask, ANYTHING, task="optional", timeout_s=0.1),
            Tool("must", self.plain, ANYTHING, task="required"),
            Tool("first", self.first, ANYTHING, task="required", asks_first=True),
        ]
        self.server.tools.replace(tools)

    async def plain(self, arguments: dict[str, Any], context: Context) -> Any:
        return f"plain, {await context.become_task()}"

    async def wait(self, arguments: dict[str, Any], context: Context) -> Any:
        try:
            await context.progress(1, 2, "half way")
            await context.info("waiting")
            self.running.set()
            await self.go.wait()
        except asyncio.CancelledError:
            self.ended.append("cancelled")
            raise
        else:
            self.ended.append("done")
        finally:
            self.over.set()
        return {"waited": arguments.get("label", "")}

    async def stuck(self, arguments: dict[str, Any], context: Context) -> Any:
        await asyncio.Event().wait()

    async def boom(self, arguments: dict[str, Any], context: Context) -> Any:
        fail("no such order", order=7)

    async def refused(self, arguments: dict[str, Any], context: Context) -> Any:
        refuse("not today", 7, {"why": "closed"})

    async def unsendable(self, arguments: dict[str, Any], context: Context) -> Any:
        return [text("big") | {"_meta": {"example.org/big": object()}}]

    async def ask(self, arguments: dict[str, Any], context: Context) -> Any:
        answer = await context.elicit("What is your name?", NAME, key="user_name")
        return f"Hello, {answer.content['name']}!" if answer.accepted else answer.action

    async def two(self, arguments: dict[str, Any], context: Context) -> Any:
        first, second = await asyncio.gather(
            context.elicit("Name?", NAME, key="name"), context.elicit("Cat?", NAME, key="cat")
        )
        third = await context.elicit("Dog?", NAME, key="cat")
        return " ".join(each.content["name"] for each in (first, second, third))

    async def first(self, arguments: dict[str, Any], context: Context) -> Any:
        answer = await context.elicit("What is your name?", NAME, key="user_name")
        assert await context.become_task()
        await self.go.wait()
        return f"Hello, {answer.content['name']}!"


class TaskPeer(Peer):
    """Calls tools of a `TaskServer`: `core_*` after a handshake, `modern_*` with the extension."""

    def __init__(self, tasks: TaskServer | None = None, jobs: JobStore | None = None) -> None:
        self.tasks = tasks or TaskServer()
        super().__init__(self.tasks.server)
        if jobs is not None:
            vars(self.services)["jobs"] = jobs
            self.endpoint = type(self.endpoint)(self.server, self.services, self.recording)
            self.channel = self.endpoint.channel("memory", "tester", self._take)
        self._last = 0

    async def ask(self, method: str, params: dict[str, Any], declared: Any = None) -> dict[str, Any]:
        """One request of the stateless era with the extension; the whole response."""
        self._last += 1
        capabilities = EXTENDED if declared is None else declared
        self.modern(self._last, method, params, **{CAPABILITIES_KEY: capabilities})
        return await self.response(self._last)

    async def start(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """Begin a task of the extension; its first view."""
        response = await self.ask("tools/call", {"name": tool, "arguments": arguments})
        result: dict[str, Any] = response["result"]
        assert result["resultType"] == "task"
        return result

    async def get(self, identifier: str) -> dict[str, Any]:
        """State of a task of the extension."""
        result: dict[str, Any] = (await self.ask("tasks/get", {"taskId": identifier}))["result"]
        return result

    async def update(self, identifier: str, **answers: Any) -> dict[str, Any]:
        """Answer what a task asks; the whole response."""
        return await self.ask("tasks/update", {"taskId": identifier, "inputResponses": answers})

    async def shake(self, capabilities: dict[str, Any] | None = None, revision: str = "2025-11-25") -> Any:
        """Open a session."""
        declared = EVERYTHING if capabilities is None else capabilities
        identity = {"name": "t", "version": "1"}
        params = {"protocolVersion": revision, "capabilities": declared, "clientInfo": identity}
        answer = await self.core("initialize", params)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer["result"]

    def begin(self, method: str, params: dict[str, Any]) -> int:
        """Send a request of the handshake era; its id."""
        self._last += 1
        self.request(self._last, method, params)
        return self._last

    async def core(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """One request of the handshake era; the whole response."""
        return await self.response(self.begin(method, params))

    async def start_core(self, tool: str, ttl: int | None = None, **arguments: Any) -> dict[str, Any]:
        """Begin a task of the core design; its first view."""
        task = {} if ttl is None else {"ttl": ttl}
        params = {"name": tool, "arguments": arguments, "task": task, "_meta": {"progressToken": "p"}}
        created: dict[str, Any] = (await self.core("tools/call", params))["result"]["task"]
        return created

    async def told(self, method: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The parameters of a notification that `holds` accepts."""
        wanted = await self.message(
            lambda message: message.get("method") == method and holds(message["params"])
        )
        params: dict[str, Any] = wanted["params"]
        return params

    async def settled(self, identifier: str, *states: str) -> dict[str, Any]:
        """Wait until a task of this server is in one of these states, and look at it with the extension."""
        await become(self.services.jobs, identifier, *(states or FINAL))
        return await self.get(identifier)


async def become(jobs: JobStore, identifier: str, *states: str) -> None:
    """Wait until a job is in one of these states."""
    job = jobs._jobs[identifier]
    changed = asyncio.Event()
    forget = job.listen(changed.set)
    async with within():
        while job.status not in states:
            changed.clear()
            await changed.wait()
    forget()
