"""Almost valid answers of a server: clients get the same bytes, and the traffic shows the remark."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import aiohttp
import pytest

from mcpdesk.client.targets import CommandTarget
from mcpdesk.protocol.reading.remark import RemarkKind
from mcpdesk.recorder import readable_message
from mcpdesk.recorder.index.exchange import Status
from tests.support.desk import RunningDesk
from tests.support.patience import until
from tests.upstream.test_channel_pass_through import BOTH, passing
from tests.upstream.test_upstream import upstream

pytestmark = pytest.mark.process

SERVER = """
import json, sys
out = sys.stdout.buffer
def say(data): out.write(data); out.flush()
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked: continue
    number = json.dumps(asked["id"]).encode()
    plain = {"jsonrpc": "2.0", "id": asked["id"]}
    if asked["method"] == "initialize":
        about = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
        about["serverInfo"] = {"name": "x", "version": "1"}
        say(json.dumps({**plain, "result": about}).encode() + b"\\n")
    elif asked["method"] == "tools/list":
        tool = {"name": "t", "inputSchema": {"type": "object"}}
        say(json.dumps({**plain, "result": {"tools": [tool]}}).encode() + b"\\n")
    elif asked["method"] == "tools/call":
        HABIT
    else:
        say(json.dumps({**plain, "error": {"code": -32601, "message": "no"}}).encode() + b"\\n")
"""
RESULT = rb'"result":{"content":[{"type":"text","text":"x"}],"n":VALUE}}'


def answering(habit: str) -> CommandTarget:
    """A program that answers calls in this way."""
    return CommandTarget((sys.executable, "-c", SERVER.replace("HABIT", habit)))


def saying(answer: bytes) -> CommandTarget:
    """A program that answers calls with these bytes, NUMBER being the id."""
    return answering(f"say({answer!r}.replace(b'NUMBER', number) + b'\\n')")


def remarks(desk: RunningDesk, peer_is_desk: bool) -> list[str]:
    """The kinds of remarks on the calls of the desk, or of its clients."""
    desk.traffic.catch_up()
    calls = [each for each in desk.traffic.exchanges if each.method == "tools/call"]
    return [
        str(remark.kind)
        for each in calls
        if (each.peer == "desk") == peer_is_desk
        for remark in readable_message.remarks(desk.traffic, each)
    ]


ODD = [
    ("number", rb'{"jsonrpc":"2.0","id":NUMBER,' + RESULT.replace(b"VALUE", b"NaN")),
    ("encoding", rb'{"jsonrpc":"2.0","id":NUMBER,' + RESULT.replace(b"VALUE", b'"\xfc"')),
    ("surrogate", rb'{"jsonrpc":"2.0","id":NUMBER,' + RESULT.replace(b"VALUE", rb'"\ud83d"')),
    ("id-type", rb'{"jsonrpc":"2.0","id":"NUMBER",' + RESULT.replace(b"VALUE", b"1.50e1")),
    ("duplicate-key", rb'{"jsonrpc":"2.0","id":NUMBER,"id":NUMBER,' + RESULT.replace(b"VALUE", b"1")),
    ("unreadable", rb'{"jsonrpc":"2.0","id":NUMBER,"result":{"content":oops}}'),
    ("several-lines", b'{"jsonrpc": "2.0",\n "id": NUMBER,\n ' + RESULT.replace(b"VALUE", b"1.50e1")),
]


async def called(http: aiohttp.ClientSession, url: str) -> bytes:
    """The answer to a call with the id 7 in a new session."""
    about = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "c", "version": "1"},
    }
    opening = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
    async with http.post(url, json=opening) as answered:
        session = {"Mcp-Session-Id": answered.headers["Mcp-Session-Id"]}
    call = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "t", "arguments": {}}}
    async with http.post(url, json=call, headers=session) as answered:
        return await answered.read()


@pytest.mark.parametrize(("kind", "answer"), ODD)
async def test_a_client_gets_the_bytes_and_the_traffic_has_the_remark(kind: str, answer: bytes) -> None:
    async with passing(saying(answer)) as desk, aiohttp.ClientSession(headers=BOTH) as http:
        await until(lambda: upstream(desk, "far").state == "ready")
        assert await called(http, desk.host.url("far")) == answer.replace(b"NUMBER", b"7")
        await until(lambda: remarks(desk, False) == [kind])


async def test_answers_that_no_client_receives_are_in_the_traffic_byte_for_byte() -> None:
    first = rb'{"jsonrpc":"2.0","id":NUMBER,"result":{"content":[],"n":1.50e1}}'
    second = first.replace(b"1.50e1", b"2.50e1")
    odd = first.replace(b"1.50e1", b"NaN")
    unknown = first.replace(b"NUMBER", b"999")
    third = first.replace(b"1.50e1", b"3.50e1")
    answer = b"\n".join((first, second, odd, unknown, b"[" + third + b"]"))
    async with passing(saying(answer)) as desk, aiohttp.ClientSession(headers=BOTH) as http:
        await until(lambda: upstream(desk, "far").state == "ready")
        assert await called(http, desk.host.url("far")) == first.replace(b"NUMBER", b"7")
        index = desk.traffic

        def late() -> list[tuple[bytes, list[str]]]:
            """The bytes of the client's responses that no request waited for, and the remarks on them."""
            index.catch_up()
            return [
                (
                    index.frame_bytes(each.response),
                    sorted(str(remark.kind) for remark in readable_message.remarks(index, each)),
                )
                for each in index.exchanges
                if each.peer != "desk" and each.status is Status.LATE and each.response is not None
            ]

        await until(lambda: len(late()) == 4)
        assert late() == [
            (second.replace(b"NUMBER", b"7"), ["repeated-answer"]),
            (odd.replace(b"NUMBER", b"7"), ["number", "repeated-answer"]),
            (unknown, ["unknown-id"]),
            (third.replace(b"NUMBER", b"7"), ["repeated-answer"]),
        ]
        [call] = [each for each in index.exchanges if each.name == "t"]
        assert call.response is not None and index.frame_bytes(call.response) == first.replace(
            b"NUMBER", b"7"
        )
        assert not index.is_remarked(call.number)


@pytest.mark.parametrize(("kind", "answer"), ODD)
async def test_the_desk_s_own_call_is_recorded_with_its_bytes_and_the_remark(
    kind: str, answer: bytes
) -> None:
    async with passing(saying(answer)) as desk:
        await until(lambda: upstream(desk, "far").state == "ready")
        running = desk.request("far", "tools/call", {"name": "t", "arguments": {}})
        await until(running.outcome.done)
        await until(lambda: remarks(desk, True) == [kind])
        [one] = [each for each in desk.traffic.exchanges if each.method == "tools/call"]
        assert one.response is not None
        raw = desk.traffic.frame_bytes(one.response)
        assert raw == answer.replace(b"NUMBER", str(one.id).encode())
        expected = Status.MALFORMED if kind == RemarkKind.UNREADABLE else Status.OK
        assert one.status is expected


async def test_what_a_server_sends_by_itself_is_recorded_byte_for_byte() -> None:
    note = rb'{"jsonrpc":"2.0","method":"notifications/message","params":{"data":1.50e1,"x":"\u00fc"}}'
    second = rb'{"jsonrpc":"2.0","id":NUMBER,"result":{"content":[],"n":2.50e1}}'
    unknown = rb'{"jsonrpc":"2.0","id":999,"result":{"n":3.50e1}}'
    twice = rb'{"jsonrpc":"2.0","method":"notifications/message","params":{"data":1,"data":2}}'
    answer = b"\n".join((note, second.replace(b"2.50", b"1.50"), second, unknown, twice))
    async with passing(saying(answer)) as desk:
        await until(lambda: upstream(desk, "far").state == "ready")
        running = desk.request("far", "tools/call", {"name": "t", "arguments": {}})
        await until(running.outcome.done)

        def seen() -> list[bytes]:
            index = desk.traffic
            return [index.frame_bytes(at) for at in range(index.frame_count)]

        await until(lambda: twice in seen())
        assert note in seen() and unknown in seen()
        assert any(b"2.50e1" in each for each in seen())
        desk.traffic.catch_up()
        told = [
            str(remark.kind)
            for each in desk.traffic.exchanges
            if each.request is not None and desk.traffic.frame_bytes(each.request) == twice
            for remark in readable_message.remarks(desk.traffic, each)
        ]
        assert told == ["duplicate-key"]


async def test_an_answer_without_id_fails_every_client_that_waits_for_one(tmp_path: Path) -> None:
    habit = "if asked['params']['name'] == 'last': say(b'{\"jsonrpc\":\"2.0\",\"result\":{\"n\":1}}\\n')"
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "c", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    async with passing(answering(habit)) as desk, aiohttp.ClientSession(headers=BOTH) as http:
        await until(lambda: upstream(desk, "far").state == "ready")

        async def called(name: str, number: int) -> str:
            params = {"name": name, "arguments": {}, "_meta": meta}
            call = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
            headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": name}
            async with http.post(desk.host.url("far"), json=call, headers=headers) as answered:
                return await answered.text()

        first = asyncio.ensure_future(called("first", 1))

        def is_sent() -> bool:
            desk.traffic.catch_up()
            return any(each.name == "first" for each in desk.traffic.exchanges)

        await until(is_sent)
        answers = [json.loads(await called("last", 2)), json.loads(await first)]
    assert [each["id"] for each in answers] == [2, 1]
    assert all("a response has no id" in each["error"]["message"] for each in answers)
