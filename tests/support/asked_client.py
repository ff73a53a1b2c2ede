"""A server whose handlers ask their client, and a client that answers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from mcpdesk.errors import ClientError
from mcpdesk.protocol.stateless import CAPABILITIES_KEY
from mcpdesk.server.calls.context import Context
from mcpdesk.server.offer.prompts import Prompt
from mcpdesk.server.offer.resources import Resource
from mcpdesk.server.offer.server import Limits, Server
from mcpdesk.server.offer.tool import Tool
from tests.support.served import Peer

NAME: Any = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
EVERYTHING: dict[str, Any] = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"tools": {}},
    "roots": {},
}
ANYTHING = {"type": "object"}
ADA = {"action": "accept", "content": {"name": "Ada"}}
WRITTEN = {"role": "assistant", "content": {"type": "text", "text": "Paris"}, "model": "m1"}
ROOTS = {"roots": [{"uri": "file:///home/ada", "name": "home"}]}


@dataclass
class Person:
    name: str
    age: int = 30


class AskingServer:
    """Counts how often handlers started and ended, which shows whether a call was parked."""

    def __init__(self) -> None:
        self.started = 0
        self.ended: list[str] = []
        self.server = Server("asking", "1", limits=Limits(tool_timeout_s=5, question_timeout_s=60))
        tools = (
            self.greet, self.person, self.visit, self.connect, self.capital, self.places,
            self.all, self.steps, self.careful, self.loud,
        )  # fmt: skip
        self.server.tools.replace([Tool(each.__name__, each, ANYTHING) for each in tools])
        self.server.resources.replace([Resource("asking://note", "note", self.read)])
        self.server.prompts.replace([Prompt("letter", self.render)])

    async def greet(self, arguments: dict[str, Any], context: Context) -> Any:
        self.started += 1
        try:
            answer = await context.elicit("What is your name?", NAME, key="user_name")
        except asyncio.CancelledError:
            self.ended.append("cancelled")
            raise
        return f"Hello, {answer.content['name']}!" if answer.accepted else answer.action

    async def person(self, arguments: dict[str, Any], context: Context) -> Any:
        answer = await context.elicit("Who?", Person)
        assert answer.accepted
        return f"{type(answer.content).__name__} {answer.content.name} {answer.content.age}"

    async def visit(self, arguments: dict[str, Any], context: Context) -> Any:
        return (await context.elicit_url("Sign in", "https://example.org/in")).action

    async def connect(self, arguments: dict[str, Any], context: Context) -> Any:
        answer = await context.elicit_url("Sign in", "https://example.org/in")
        await context.complete_elicitation(answer)
        return answer.action

    async def capital(self, arguments: dict[str, Any], context: Context) -> Any:
        reply = await context.sample("The capital of France?", max_tokens=50, system="Be brief.")
        return f"{reply.model}: {reply.text}"

    async def places(self, arguments: dict[str, Any], context: Context) -> Any:
        return [root.uri for root in await context.list_roots()]

    async def all(self, arguments: dict[str, Any], context: Context) -> Any:
        name, reply, roots = await asyncio.gather(
            context.elicit("Name?", NAME, key="who"), context.sample("A greeting"), context.list_roots()
        )
        return f"{name.content['name']} {reply.text} {len(roots)}"

    async def steps(self, arguments: dict[str, Any], context: Context) -> Any:
        self.started += 1
        await context.progress(1, 2)
        first = await context.elicit("Name?", NAME)
        second = await context.elicit(f"And the name of {first.content['name']}'s cat?", NAME)
        await context.progress(2, 2)
        return f"{first.content['name']} and {second.content['name']}"

    async def careful(self, arguments: dict[str, Any], context: Context) -> Any:
        try:
            return (await context.sample("Hm?")).text
        except ClientError as error:
            return f"without: {error.message}"

    async def loud(self, arguments: dict[str, Any], context: Context) -> Any:
        self.background = asyncio.create_task(context.list_roots())
        return "done"

    async def read(self, uri: str, variables: dict[str, str], context: Context) -> Any:
        return (await context.elicit("Which note?", NAME)).content["name"]

    async def render(self, arguments: dict[str, str], context: Context) -> Any:
        return (await context.elicit("For whom?", NAME)).content["name"]


class Asked(Peer):
    """A peer that receives questions."""

    def __init__(self, asking: AskingServer | None = None) -> None:
        self.asking = asking or AskingServer()
        super().__init__(self.asking.server)

    async def shake(self, capabilities: dict[str, Any], revision: str = "2025-11-25") -> None:
        """Open a session with these capabilities."""
        params = {
            "protocolVersion": revision,
            "capabilities": capabilities,
            "clientInfo": {"name": "t", "version": "1"},
        }
        self.request(0, "initialize", params)
        await self.response(0)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    async def question(self, method: str) -> dict[str, Any]:
        """Wait for a request of the server's."""
        return await self.message(lambda message: message.get("method") == method and "id" in message)

    def answer(self, question: dict[str, Any], result: Any) -> None:
        """Answer one."""
        self.send({"jsonrpc": "2.0", "id": question["id"], "result": result})

    async def round(
        self, identifier: int, tool: str, capabilities: dict[str, Any] | None = None, **more: Any
    ) -> dict[str, Any]:
        """One stateless `tools/call`; returns the whole response."""
        declared = EVERYTHING if capabilities is None else capabilities
        self.modern(identifier, "tools/call", {"name": tool} | more, **{CAPABILITIES_KEY: declared})
        return await self.response(identifier)
