"""Rules for every session over HTTP: the stream of each message, and the revision."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from mcpdesk.protocol.revisions import REVISIONS, V2026_07_28
from mcpdesk.server.calls.context import Context
from mcpdesk.server.offer.tool import Tool
from tests.support.site import Served, events, serving

LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
CALL = {
    "jsonrpc": "2.0",
    "id": 2,
    "method": "tools/call",
    "params": {"name": "busy", "arguments": {}, "_meta": {"progressToken": "p"}},
}
OLD = [each for each in REVISIONS if not each.is_stateless]
PROMPTS, TOOLS = (f"notifications/{kind}/list_changed" for kind in ("prompts", "tools"))


def employ(served: Served) -> None:
    """Offer a tool that reports, logs, and announces a changed list before it answers."""

    async def busy(arguments: dict[str, Any], context: Context) -> str:
        await context.progress(1)
        changed(served, "prompt")
        await context.info("there are other prompts")
        return "done"

    served.peer.server.tools.replace([Tool("busy", busy, {"type": "object"})])


def changed(served: Served, kind: str) -> None:
    """Announce once that a list changed."""
    served.peer.services.subscriptions.list_changed("sample", kind)


@asynccontextmanager
async def standing(served: Served, headers: dict[str, str]) -> AsyncIterator[aiohttp.ClientResponse]:
    """The stream of a session that belongs to no request."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    named["Accept"] = "text/event-stream"
    async with served.client.get(f"{served.url}/mcp/sample", headers=named) as stream:
        assert stream.status == 200
        yield stream


async def text_until(stream: aiohttp.ClientResponse, mark: str) -> str:
    """Text of a stream, to the line with a mark."""
    lines: list[str] = []
    while not lines or mark not in lines[-1]:
        lines.append((await stream.content.readline()).decode())
        assert lines[-1], f"the stream ended without {mark}"
    return "".join(lines)


def names(text: str) -> list[str]:
    """Methods of the messages on a stream."""
    return [message.get("method", "an answer") for message in events(text)]


@pytest.mark.requirement("4.5", "4.6")
async def test_each_message_travels_on_the_one_stream_it_belongs_to() -> None:
    async with serving() as served:
        employ(served)
        headers = await served.session()
        async with standing(served, headers) as stream, standing(served, await served.session()) as other:
            own = names(await (await served.post(CALL, **headers)).text())
            changed(served, "tool")
            for each in (stream, other):
                assert names(await text_until(each, TOOLS)) == [PROMPTS, TOOLS]
    assert own == ["notifications/progress", "notifications/message", "an answer"]


@pytest.mark.requirement("4.10")
async def test_no_event_id_comes_twice_in_a_session() -> None:
    async with serving() as served:
        employ(served)
        headers = await served.session()
        async with standing(served, headers) as stream:
            texts = [await (await served.post(CALL | {"id": number}, **headers)).text() for number in (2, 3)]
            changed(served, "tool")
            texts.append(await text_until(stream, TOOLS))
    given = [identifier for text in texts for identifier in re.findall(r"^id: (\S+)$", text, re.MULTILINE)]
    assert [text.count("id: ") for text in texts] == [4, 4, 4]
    assert len(set(given)) == len(given) == 12


@pytest.mark.requirement("4.4")
async def test_a_stream_is_opened_within_a_session_alone() -> None:
    async with serving() as served:
        headers = {"Accept": "text/event-stream"}
        async with served.client.get(f"{served.url}/mcp/sample", headers=headers) as answer:
            assert (answer.status, answer.headers["Allow"]) == (405, "POST")


@pytest.mark.requirement("1.2", "4.13")
async def test_without_a_version_header_a_session_goes_on_as_agreed_and_others_speak_the_default() -> None:
    async with serving() as served:
        sessions = [{"Mcp_Session_Id": (await served.session(each.name))["Mcp_Session_Id"]} for each in OLD]
        for headers, speaks in zip([*sessions, {}], [*OLD, REVISIONS[1]], strict=True):
            answer = await (await served.post(LIST, **headers)).json()
            (tool,) = [each for each in answer["result"]["tools"] if each["name"] == "person"]
            assert ("outputSchema" in tool) == ("outputSchema" in speaks.tool_fields), speaks


@pytest.mark.requirement("2.4")
@pytest.mark.parametrize("revision", ["2024-11-05", "2025-06-18", "2025-11-25", "2026-07-28"])
async def test_an_array_is_refused_in_every_revision_but_one(revision: str) -> None:
    async with serving() as served:
        named = {"MCP_Protocol_Version": revision}
        ways = [named] if revision == V2026_07_28.name else [named, await served.session(revision)]
        for headers in ways:
            answer = await served.post([LIST], **headers)
            assert (answer.status, (await answer.json())["error"]["code"]) == (400, -32600)
