"""Messages that can be held: notifications, questions, replies, batch members, on every transport."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import orjson
import pytest

from mcpdesk.features.holding.held_message import HeldMessage, Verdict
from mcpdesk.hosting.endpoint import HostedEndpoint
from mcpdesk.protocol.revisions import V2026_07_28
from mcpdesk.protocol.stateless import request_meta
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.server.calls.context import Context
from mcpdesk.server.offer.tool import Tool
from tests.features.holding.test_holds import HeardHolds
from tests.support.message_log import MessageLog
from tests.support.patience import until, within
from tests.support.site import serving

INITIALIZE = {"clientInfo": {"name": "t", "version": "1"}, "capabilities": {"elicitation": {}}}
META = request_meta(V2026_07_28, {"name": "t", "version": "1"})


async def _who(arguments: dict[str, Any], context: Context) -> Any:
    answer = await context.elicit("Who?", {"type": "object", "properties": {"name": {"type": "string"}}})
    return f"{answer.action} {answer.content}"


class ForwardedRequest(MessageLog):
    """A client on one transport."""

    def __init__(
        self, send: Callable[[Any], Awaitable[None]], holds: HeardHolds, endpoint: HostedEndpoint
    ) -> None:
        super().__init__()
        self.send = send
        self.holds = holds
        self.endpoint = endpoint

    async def held(self, what: str, after: int = 0) -> HeldMessage:
        def found() -> list[HeldMessage]:
            return [each for each in self.holds.view.messages if each.what == what and each.number > after]

        await until(found, self.holds.view, changed=self.holds.changed)
        return found()[0]

    async def shake_hands(self, revision: str = "2025-11-25") -> None:
        params = INITIALIZE | {"protocolVersion": revision}
        await self.send({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
        await self.response(0)
        await self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def hold(self, rule: str) -> None:
        self.holds.set_rule(rule, "both")
        self.endpoint.intercept(self.holds)


@asynccontextmanager
async def talking(way: str) -> AsyncIterator[ForwardedRequest]:
    """A client that has not sent anything yet."""
    async with serving() as served, asyncio.TaskGroup() as group:
        holds = HeardHolds(Recording(None))
        headers: dict[str, str] = {}
        connections: list[aiohttp.ClientResponse] = []
        served.peer.server.tools.replace(
            [*served.peer.server.tools.items.values(), Tool("who", _who, {"type": "object"})]
        )

        async def post(message: Any) -> None:
            async def exchange() -> None:
                meta = message.get("params", {}).get("_meta", {}) if isinstance(message, dict) else {}
                named = dict(headers)
                if "io.modelcontextprotocol/protocolVersion" in meta:
                    named = {"MCP_Protocol_Version": V2026_07_28.name, "Mcp_Method": message["method"]}
                    named["Mcp_Name"] = message["params"]["name"]
                async with await served.post(message, **named) as answer:
                    if session := answer.headers.get("Mcp-Session-Id"):
                        headers["Mcp_Session_Id"] = session
                    if answer.content_type == "text/event-stream":
                        async for line in answer.content:
                            if line.startswith((b"data: {", b"data: [")):
                                talk.receive(_messages(line[6:]))
                    elif body := await answer.read():
                        talk.receive(_messages(body))

            group.create_task(exchange())

        talk = ForwardedRequest(post, holds, served.hosted)
        told = asyncio.create_task(asyncio.sleep(0))
        if way == "pipe":
            channel = served.hosted.channel(
                "memory",
                "tester",
                lambda frames: talk.receive([each for frame in frames for each in _messages(frame)]),
            )

            async def put(message: Any) -> None:
                channel.receive(orjson.dumps(message))

            talk.send = put
        elif way == "websocket":
            socket = await served.client.ws_connect(f"{served.url}/mcp/sample/ws")
            talk.send = socket.send_json

            async def listen() -> None:
                async for message in socket:
                    if message.type is aiohttp.WSMsgType.TEXT:
                        talk.receive(_messages(message.data))

            told = asyncio.create_task(listen())
        elif way == "sse":
            stream = await served.client.get(
                f"{served.url}/mcp/sample/sse", headers={"Accept": "text/event-stream"}
            )
            connections.append(stream)
            place = asyncio.get_running_loop().create_future()

            async def read() -> None:
                async for line in stream.content:
                    if line.startswith(b"data: /"):
                        place.set_result(line[6:].decode().strip())
                    elif line.startswith(b"data: "):
                        talk.receive(_messages(line[6:]))

            told = asyncio.create_task(read())
            where = await place

            async def say(message: Any) -> None:
                async with served.client.post(served.url + where, json=message) as answer:
                    assert answer.status == 202

            talk.send = say
        try:
            yield talk
        finally:
            holds.close()
            told.cancel()
            await asyncio.wait({told})
            for opened in connections:
                opened.close()


def _messages(data: bytes) -> list[dict[str, Any]]:
    found = orjson.loads(data)
    return found if isinstance(found, list) else [found]


def call(identifier: int, tool: str, era: str = "handshake", **arguments: Any) -> dict[str, Any]:
    meta = {"progressToken": 1} | (META if era == "stateless" else {})
    params = {"name": tool, "arguments": arguments, "_meta": meta}
    return {"jsonrpc": "2.0", "id": identifier, "method": "tools/call", "params": params}


EVERYWHERE = ["pipe", "post", "websocket", "sse"]


@pytest.mark.parametrize("era", ["handshake", "stateless"])
@pytest.mark.parametrize("way", EVERYWHERE)
async def test_progress_is_held_and_changed_and_what_follows_waits_behind_it(way: str, era: str) -> None:
    async with talking(way) as talk:
        if era == "handshake":
            await talk.shake_hands("2024-11-05" if way == "sse" else "2025-11-25")
        talk.hold("method:notifications/progress")
        await talk.send(call(1, "steps", era))
        one = await talk.held("tells")
        assert one.is_sent and one.method == "notifications/progress"
        with pytest.raises(ValueError, match="cannot be answered"):
            talk.holds.decide(one.number, Verdict.ANSWER, "{}")
        talk.holds.decide(one.number, Verdict.CHANGE, one.text.replace('"progress": 1', '"progress": 1.5'))
        await talk.message(lambda each: each.get("params", {}).get("progress") == 1.5)
        second = await talk.held("tells", one.number)
        assert not any(each.get("id") == 1 for each in talk.received)
        talk.holds.decide(second.number, Verdict.DROP)
        talk.holds.decide((await talk.held("tells", second.number)).number, Verdict.PASS)
        assert "result" in await talk.response(1)
        steps = [each["params"]["progress"] for each in talk.received if "progress" in each.get("params", {})]
        assert steps == [1.5, 3]


@pytest.mark.parametrize("way", EVERYWHERE)
async def test_questions_and_the_replies_to_them_are_held_changed_and_answered_by_hand(way: str) -> None:
    async with talking(way) as talk:
        await talk.shake_hands()
        talk.hold("method:elicitation/create")
        await talk.send(call(1, "who"))
        one = await talk.held("asks")
        talk.holds.decide(one.number, Verdict.CHANGE, one.text.replace("Who?", "Who else?"))
        question = await talk.message(lambda each: each.get("method") == "elicitation/create")
        assert question["params"]["message"] == "Who else?"
        said = {"action": "accept", "content": {"name": "Ada"}}
        await talk.send({"jsonrpc": "2.0", "id": question["id"], "result": said})
        reply = await talk.held("reply")
        talk.holds.decide(reply.number, Verdict.CHANGE, reply.text.replace("Ada", "Grace"))
        assert "Grace" in str(await talk.response(1))
        await talk.send(call(2, "who"))
        one = await talk.held("asks", reply.number)
        talk.holds.decide(one.number, Verdict.ANSWER, '{"action": "decline"}')
        assert "decline" in str(await talk.response(2))
        hows = [mark.how for mark in talk.holds.recorded.index.marks]
        assert hows == [
            "elicitation/create changed", "changed", "elicitation/create answered by hand",
        ]  # fmt: skip


@pytest.mark.parametrize("way", EVERYWHERE)
async def test_faults_strike_what_is_told_where_their_filter_names_it(way: str) -> None:
    async with talking(way) as talk:
        await talk.shake_hands()
        talk.holds.set_faults(
            "lose for method:notifications/progress\ndelay 1ms for method:notifications/roots"
        )
        talk.endpoint.intercept(talk.holds)
        await talk.send({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"})
        await talk.send(call(1, "steps"))
        assert "result" in await talk.response(1)
        assert not any("progress" in each.get("params", {}) for each in talk.received)
        async with within():
            while talk.holds.view.struck < 4:
                talk.holds.changed.clear()
                await talk.holds.changed.wait()
        hows = sorted(mark.how for mark in talk.holds.recorded.index.marks)
        lost = "notifications/progress lost by the fault rule in line 1"
        assert hows == [lost] * 3 + ["notifications/roots/list_changed delayed by the fault rule in line 2"]


@pytest.mark.parametrize("way", EVERYWHERE)
async def test_what_a_client_tells_is_held_and_dropped(way: str) -> None:
    async with talking(way) as talk:
        await talk.shake_hands()
        talk.hold("method:notifications/roots")
        await talk.send({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"})
        one = await talk.held("tells")
        assert (one.is_sent, one.method) == (False, "notifications/roots/list_changed")
        talk.holds.decide(one.number, Verdict.DROP)
        await talk.send(call(1, "echo", text="on"))
        assert "on" in str(await talk.response(1))
        (mark,) = talk.holds.recorded.index.marks
        assert (mark.how, mark.id) == ("notifications/roots/list_changed dropped", one.method)


@pytest.mark.parametrize("way", EVERYWHERE)
async def test_a_member_of_a_batch_is_held_while_its_neighbours_are_served(way: str) -> None:
    async with talking(way) as talk:
        await talk.shake_hands("2025-03-26")
        talk.hold("tool:echo mine")
        await talk.send([call(1, "echo", text="mine"), call(2, "echo", text="theirs")])
        one = await talk.held("request")
        talk.holds.decide(one.number, Verdict.CHANGE, one.text.replace("mine", "ours"))
        assert "theirs" in str(await talk.response(2)) and "ours" in str(await talk.response(1))
