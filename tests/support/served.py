"""A small server built by hand, and a peer that talks with it frame by frame."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import orjson

from mcpdesk.errors import HandlerError
from mcpdesk.hosting.endpoint import HostedEndpoint
from mcpdesk.inbox.question import Option, Page
from mcpdesk.protocol.revisions import V2026_07_28
from mcpdesk.protocol.stateless import request_meta
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.server.calls.context import Context
from mcpdesk.server.calls.services import Services
from mcpdesk.server.offer.prompts import Prompt, PromptArgument
from mcpdesk.server.offer.resources import Resource, ResourceTemplate
from mcpdesk.server.offer.server import Server
from mcpdesk.server.offer.tool import Tool
from tests.support.message_log import MessageLog

TEXT_SCHEMA = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
PERSON = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


async def _echo(arguments: dict[str, Any], context: Context) -> Any:
    return arguments["text"]


async def _person(arguments: dict[str, Any], context: Context) -> Any:
    return {"name": 5} if arguments.get("wrong") else {"name": "Ada"}


async def _nothing(arguments: dict[str, Any], context: Context) -> Any:
    return None


async def _boom(arguments: dict[str, Any], context: Context) -> Any:
    if arguments.get("politely"):
        raise HandlerError("no such order", {"order": 7})
    raise ValueError("broken inside")


async def _steps(arguments: dict[str, Any], context: Context) -> Any:
    await context.info("starting")
    for step in (1, 2, 2, 3):
        await context.progress(step, 3, f"step {step}")
    return "done"


async def _forever(arguments: dict[str, Any], context: Context) -> Any:
    await asyncio.Event().wait()


async def _ask(arguments: dict[str, Any], context: Context) -> Any:
    question = await context.ask([Page("Which?", options=(Option("a"), Option("b")))])
    return {"state": question.state.value, "answers": [list(each.selected) for each in question.answers]}


async def _unsendable(arguments: dict[str, Any], context: Context) -> Any:
    return {"big": object()}


async def _read(uri: str, variables: dict[str, str], context: Context) -> Any:
    return f"{uri} {variables}"


async def _render(arguments: dict[str, str], context: Context) -> Any:
    return f"Summarize {arguments['topic']}"


def make_server() -> Server:
    """A server with one item for every behaviour the tests look at."""
    server = Server("sample", "1.0", title="Sample", instructions="Be kind.")
    server.tools.replace(
        [
            Tool("echo", _echo, TEXT_SCHEMA, description="Say it again."),
            Tool("person", _person, {"type": "object"}, output_schema=PERSON),
            Tool("nothing", _nothing, {"type": "object"}, output_schema=PERSON),
            Tool("boom", _boom, {"type": "object"}),
            Tool("steps", _steps, {"type": "object"}),
            Tool("forever", _forever, {"type": "object"}),
            Tool("brief", _forever, {"type": "object"}, timeout_s=0.1),
            Tool("ask", _ask, {"type": "object"}, timeout_s=0.1),
            Tool("unsendable", _unsendable, {"type": "object"}),
        ]
    )
    server.resources.replace([Resource("resource://note", "note", _read, path="resources/note.md")])
    server.templates.replace([ResourceTemplate("item://{id}", "item", _read, mime_type="text/plain")])
    server.prompts.replace(
        [Prompt("summarize", _render, arguments=(PromptArgument("topic", required=True),))]
    )
    return server


class Peer(MessageLog):
    """Speaks with a server over the in-memory channel. `received` holds every message that came back."""

    def __init__(self, server: Server | None = None, recording: Recording | None = None) -> None:
        super().__init__()
        self.server = server or make_server()
        self.logged: list[tuple[str, str, str]] = []
        self.traces: list[str] = []
        self.services = Services(self._log)
        self.inbox = self.services.inbox
        self.recording = recording or Recording(None)
        self.endpoint = HostedEndpoint(self.server, self.services, self.recording)
        self.frames: list[bytes] = []
        self.channel = self.endpoint.channel("memory", "tester", self._take)

    def send(self, message: Any) -> None:
        """Send one message as it is; bytes go unencoded."""
        self.channel.receive(message if isinstance(message, bytes) else orjson.dumps(message))

    def request(self, identifier: Any, method: str, params: dict[str, Any] | None = None) -> None:
        """Send a request of the handshake era."""
        message = {"jsonrpc": "2.0", "id": identifier, "method": method}
        self.send(message if params is None else message | {"params": params})

    def modern(self, identifier: Any, method: str, params: dict[str, Any] | None = None, **meta: Any) -> None:
        """Send a request of the stateless era."""
        own = request_meta(V2026_07_28, {"name": "tester", "version": "1"}) | meta
        self.request(identifier, method, (params or {}) | {"_meta": own})

    async def shake_hands(self, revision: str = "2025-11-25", **capabilities: Any) -> dict[str, Any]:
        """Open a session."""
        self.request(
            0,
            "initialize",
            {
                "protocolVersion": revision,
                "capabilities": capabilities,
                "clientInfo": {"name": "tester", "version": "1"},
            },
        )
        answer = await self.response(0)
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
        return answer

    def _take(self, frames: Sequence[bytes]) -> None:
        self.frames += frames
        for message in map(orjson.loads, frames):
            self.receive(message if isinstance(message, list) else [message])

    def _log(
        self,
        level: str,
        source: str,
        text: str,
        where: str = "",
        server: str = "",
        trace: str = "",
        call: object = None,
    ) -> None:
        self.logged.append((level, source, text))
        self.traces.append(trace)
