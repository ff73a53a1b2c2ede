"""Every message a server sends is what the published schema of its revision says, in all five revisions."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from mcpdesk.hosting.effective import plan_for
from mcpdesk.hosting.host import Host
from mcpdesk.protocol.revisions import BY_NAME, REVISIONS
from mcpdesk.protocol.stateless import request_meta
from tests.support.gallery import gallery
from tests.support.official_schema import SCHEMAS, knows, problems, strangers

RESULTS = {
    "initialize": "InitializeResult",
    "server/discover": "DiscoverResult",
    "ping": "EmptyResult",
    "tools/list": "ListToolsResult",
    "tools/call": "CallToolResult",
    "resources/list": "ListResourcesResult",
    "resources/templates/list": "ListResourceTemplatesResult",
    "resources/read": "ReadResourceResult",
    "resources/subscribe": "EmptyResult",
    "resources/unsubscribe": "EmptyResult",
    "prompts/list": "ListPromptsResult",
    "prompts/get": "GetPromptResult",
    "completion/complete": "CompleteResult",
    "logging/setLevel": "EmptyResult",
    "subscriptions/listen": "SubscriptionsListenResult",
}
NOTIFICATIONS = {
    "notifications/progress": "ProgressNotification",
    "notifications/message": "LoggingMessageNotification",
    "notifications/cancelled": "CancelledNotification",
    "notifications/tools/list_changed": "ToolListChangedNotification",
    "notifications/prompts/list_changed": "PromptListChangedNotification",
    "notifications/resources/list_changed": "ResourceListChangedNotification",
    "notifications/resources/updated": "ResourceUpdatedNotification",
    "notifications/subscriptions/acknowledged": "SubscriptionsAcknowledgedNotification",
}
LISTS = {
    "tools/list": "tools",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
    "prompts/list": "prompts",
}
ITEMS = {
    "tools": "Tool",
    "resources": "Resource",
    "resourceTemplates": "ResourceTemplate",
    "prompts": "Prompt",
}
BLOCKS = {
    "text": "TextContent",
    "image": "ImageContent",
    "audio": "AudioContent",
    "resource": "EmbeddedResource",
    "resource_link": "ResourceLink",
}
"""What an object is called in the schemas, by its list or its type."""
CALLS = ("blocks", "numbers", "table", "nothing", "explicit", "refused")
READS = ("data://facts", "data://bytes", "item://7", "resource://notes", "resource://dot")
COMPLETED = (
    ({"type": "ref/prompt", "name": "plain"}, "a"),
    ({"type": "ref/prompt", "name": "talk"}, "tone"),
    ({"type": "ref/resource", "uri": "item://{number}"}, "number"),
)
MISTAKES: tuple[tuple[str, dict[str, Any], int], ...] = (
    ("tools/dance", {}, -32601),
    ("tools/call", {"name": "unheard-of"}, -32602),
    ("tools/call", {}, -32602),
    ("tools/call", {"name": "table", "arguments": [1]}, -32602),
    ("tools/list", {"cursor": "made up"}, -32602),
    ("prompts/get", {"name": "talk"}, -32602),
    ("prompts/get", {"name": "unheard-of"}, -32602),
    ("completion/complete", {"ref": {"type": "ref/prompt", "name": "?"}, "argument": {}}, -32602),
    ("resources/read", {"uri": "broken://it"}, -32603),
)


class Client:
    """Speaks one revision through a pipe of a host, and keeps every message that comes."""

    def __init__(self, host: Host, revision: str) -> None:
        self.revision = revision
        self.received: list[dict[str, Any]] = []
        self.asked: dict[Any, str] = {}
        self._meta = request_meta(BY_NAME[revision], {"name": "tester", "version": "1"}, "debug")
        self._came = asyncio.Event()
        self._pipe = host.open_pipe("gallery", "stdio", self._take)

    @property
    def is_stateless(self) -> bool:
        return BY_NAME[self.revision].is_stateless

    async def ask(self, method: str, params: dict[str, Any] | None = None, **meta: Any) -> dict[str, Any]:
        """Send a request and wait for its response."""
        identifier = self.begin(method, params, **meta)
        return await self.response(identifier)

    def begin(self, method: str, params: dict[str, Any] | None = None, **meta: Any) -> int:
        """Send a request and return its id."""
        identifier = len(self.asked) + 1
        self.asked[identifier] = method
        meta = (self._meta if self.is_stateless else {}) | meta
        sent = (params or {}) | ({"_meta": meta} if meta else {})
        self.send({"jsonrpc": "2.0", "id": identifier, "method": method, "params": sent})
        return identifier

    def send(self, message: Any) -> None:
        self._pipe.feed(orjson.dumps(message) + b"\n")

    async def response(self, identifier: int) -> dict[str, Any]:
        return await self.until(lambda each: each.get("id") == identifier and "method" not in each)

    async def notified(self, method: str) -> dict[str, Any]:
        return await self.until(lambda each: each.get("method") == method)

    async def until(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        async with asyncio.timeout(5):
            while True:
                for message in self.received:
                    if wanted(message):
                        return message
                self._came.clear()
                await self._came.wait()

    def complaints(self) -> Iterator[str]:
        """What the schema has against anything received."""
        for message in self.received:
            for problem in self._check(message):
                yield f"{problem}\n  in {str(message)[:400]}"

    def _check(self, message: dict[str, Any]) -> list[str]:
        if "method" in message:
            return problems(self.revision, NOTIFICATIONS[message["method"]], message)
        if "error" in message:
            new = knows(self.revision, "JSONRPCErrorResponse")
            return problems(self.revision, "JSONRPCErrorResponse" if new else "JSONRPCError", message)
        new = knows(self.revision, "JSONRPCResultResponse")
        envelope = problems(self.revision, "JSONRPCResultResponse" if new else "JSONRPCResponse", message)
        return envelope + problems(self.revision, RESULTS[self.asked[message["id"]]], message["result"])

    def _take(self, data: bytes) -> None:
        self.received += map(orjson.loads, data.splitlines())
        self._came.set()


@asynccontextmanager
async def hosting(folder: Path) -> AsyncIterator[Host]:
    plan = plan_for((folder,), {}, {}, http=False)
    host = Host(dataclasses.replace(plan, meet=False, watch=False, capture=None))
    await host.start()
    try:
        yield host
    finally:
        await host.stop()


@pytest.mark.requirement("1.5", "3.5")
@pytest.mark.parametrize("revision", [revision.name for revision in REVISIONS])
async def test_everything_sent_is_valid(tmp_path: Path, revision: str) -> None:
    folder = gallery(tmp_path / "gallery")
    async with hosting(folder) as host:
        client = Client(host, revision)
        await (discovers(client) if client.is_stateless else shakes_hands(client))
        listing = await lists(client)
        assert len(listing["tools"]) == 9 and len(listing["prompts"]) == 2
        await calls_and_reads(client)
        await makes_mistakes(client)
        await hears_changes(client, host, folder)
    told = {message["method"] for message in client.received if "method" in message}
    assert told >= {"notifications/progress", "notifications/message", "notifications/resources/updated"}
    assert list(client.complaints()) == []
    results = [message["result"] for message in client.received if "result" in message]
    assert [each for result in results for each in newer(revision, result)] == []


def newer(revision: str, result: dict[str, Any]) -> Iterator[str]:
    """Members and kinds of content that came only after a revision."""
    for key, definition in ITEMS.items():
        for item in result.get(key, ()):
            yield from strangers(revision, definition, item)
            if definition != "Tool":
                yield from newer_annotations(revision, item)
    for argument in [each for prompt in result.get("prompts", ()) for each in prompt.get("arguments", ())]:
        yield from strangers(revision, "PromptArgument", argument)
    blocks = [*result.get("content", ()), *[each["content"] for each in result.get("messages", ())]]
    for block in blocks:
        if not knows(revision, BLOCKS[block["type"]]) and SCHEMAS.is_dir():
            yield f"{block['type']} is not of {revision}"
        else:
            yield from strangers(revision, BLOCKS[block["type"]], block)
        yield from newer_annotations(revision, block)
    if "serverInfo" in result:
        yield from strangers(revision, "Implementation", result["serverInfo"])


def newer_annotations(revision: str, item: dict[str, Any]) -> list[str]:
    """The first revision has them without a name of their own, and with the same members as the second."""
    first = not knows(revision, "Annotations")
    return strangers("2025-03-26" if first else revision, "Annotations", item.get("annotations", {}))


@pytest.mark.parametrize("revision", [revision.name for revision in REVISIONS])
def test_the_schemas_find_fault_where_there_is_one(revision: str) -> None:
    if not SCHEMAS.is_dir():
        return
    assert problems(revision, "ListToolsResult", {"tools": [{"name": "x", "inputSchema": {"type": "array"}}]})
    assert problems(revision, "CallToolResult", {"content": [{"type": "text"}]})
    assert strangers(revision, "Tool", {"name": "x", "inputSchema": {}, "colour": "red"})


async def shakes_hands(client: Client) -> None:
    identity = {"name": "tester", "version": "1"}
    params = {"protocolVersion": client.revision, "capabilities": {}, "clientInfo": identity}
    assert (await client.ask("initialize", params))["result"]["protocolVersion"] == client.revision
    client.send({"jsonrpc": "2.0", "method": "notifications/initialized"})
    await client.ask("ping")
    await client.ask("logging/setLevel", {"level": "debug"})


async def discovers(client: Client) -> None:
    result = (await client.ask("server/discover"))["result"]
    assert result["supportedVersions"][0] == client.revision
    outdated = {"io.modelcontextprotocol/protocolVersion": "2099-01-01"}
    assert (await client.ask("tools/list", **outdated))["error"]["code"] == -32022


async def lists(client: Client) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for method, key in LISTS.items():
        result = (await client.ask(method))["result"]
        found[key] = result[key]
        while "nextCursor" in result:
            result = (await client.ask(method, {"cursor": result["nextCursor"]}))["result"]
            found[key] += result[key]
    return found


async def calls_and_reads(client: Client) -> None:
    for name in CALLS:
        assert "result" in await client.ask("tools/call", {"name": name, "arguments": {}})
    for token in ("p", 7):
        await client.ask("tools/call", {"name": "steps"}, progressToken=token)
    for uri in READS:
        assert "result" in await client.ask("resources/read", {"uri": uri})
    assert "result" in await client.ask("prompts/get", {"name": "talk", "arguments": {"topic": "tea"}})
    assert "result" in await client.ask("prompts/get", {"name": "plain", "arguments": {"a": "b"}})
    for ref, name in COMPLETED:
        params = {"ref": ref, "argument": {"name": name, "value": ""}}
        assert "result" in await client.ask("completion/complete", params)


async def makes_mistakes(client: Client) -> None:
    wrong = await client.ask("tools/call", {"name": "table", "arguments": {"rows": "many", "legs": 4}})
    assert wrong["result"]["isError"]
    for method, params, code in MISTAKES:
        assert (await client.ask(method, params))["error"]["code"] == code, (method, params)
    missing = (await client.ask("resources/read", {"uri": "data://missing"}))["error"]
    assert missing["code"] == BY_NAME[client.revision].resource_not_found


async def hears_changes(client: Client, host: Host, folder: Path) -> None:
    kinds = ("tools", "prompts", "resources")
    if client.is_stateless:
        wanted = {f"{kind}ListChanged": True for kind in kinds} | {
            "resourceSubscriptions": ["resource://notes"]
        }
        listening = client.begin("subscriptions/listen", {"notifications": wanted | {"taskIds": ["t"]}})
        told = await client.notified("notifications/subscriptions/acknowledged")
        assert told["params"]["notifications"] == wanted
    else:
        await client.ask("resources/subscribe", {"uri": "resource://notes"})
    (folder / "tools" / "more.py").write_text("async def more() -> str:\n    return 'more'\n")
    (folder / "prompts" / "more.md").write_text("More.")
    (folder / "resources" / "more.txt").write_text("more")
    (folder / "resources" / "notes.md").write_text("# Other notes\n")
    host.reload("gallery")
    for kind in kinds:
        await client.notified(f"notifications/{kind}/list_changed")
    updated = await client.notified("notifications/resources/updated")
    assert updated["params"]["uri"] == "resource://notes"
    if client.is_stateless:
        host.services.subscriptions.close()
        assert "result" in await client.response(listening)
    else:
        await client.ask("resources/unsubscribe", {"uri": "resource://notes"})
