"""Large facts of jobs and answers of upstream servers wait for the same room as answers of tools."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from mcpdesk.client.targets import CommandTarget, RemoteTarget, UrlTarget
from mcpdesk.transports import unread_answers
from mcpdesk.transports.base import Rules
from mcpdesk.transports.http import connections
from mcpdesk.transports.unread_answers import UNREAD
from mcpdesk.upstream.upstream import UpstreamPlan
from tests.support.desk import running_desk
from tests.support.features import needs_feature
from tests.support.folders import write
from tests.support.gateway import gateway
from tests.support.patience import until, within
from tests.support.rude import connected_socket
from tests.support.wire import Wire

SIZE = 8 << 20
"""Bytes of an answer: more than the buffers of the system take."""
ROOM = 3 * SIZE + SIZE // 2
JSON = {"Content-Type": "application/json", "Accept": "application/json"}
CALL = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "large"}})
LARGE = orjson.dumps(
    {"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "x" * SIZE}]}}
)
TOOL = f'''
async def large() -> str:
    """Be large."""
    return "x" * {SIZE}


async def small() -> str:
    """Be small."""
    return "y"
'''
SMALL = b'{"jsonrpc":"2.0","id":1,"result":{"content":[]}}'


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "SWEEP_S", 0.05)
    monkeypatch.setattr(unread_answers, "WAIT_S", 0.05)


@asynccontextmanager
async def unread(base: str, count: int, request: bytes, size: int) -> AsyncIterator[None]:
    """Clients that ask for at least `size` bytes each and read none of them, one after the other."""
    place, writers = urlsplit(base), []
    try:
        async with within():
            for number in range(count):
                sock = connected_socket(str(place.hostname), int(place.port or 0))
                _, writer = await asyncio.open_connection(sock=sock, limit=64 << 10)
                writers.append(writer)
                writer.write(request)
                await until(lambda: UNREAD.held_bytes >= (number + 1) * size)
        yield
    finally:
        for writer in writers:
            writer.transport.abort()
        await until(lambda: not (UNREAD.held_bytes))


async def refused(answer: aiohttp.ClientResponse) -> str:
    """The text of a refusal for want of room."""
    assert answer.status == 503 and answer.headers["Retry-After"], await answer.text()
    return await answer.text()


@needs_feature("gateway")
async def test_large_facts_of_a_job_are_refused_without_room_and_small_ones_are_not() -> None:
    async with gateway(rules=Rules(unread_answers_max_bytes=ROOM)) as gate:
        large = await gate.begin("make-huge", {"size": SIZE})
        small = await gate.begin("make-huge", {"size": 1})
        assert (await gate.over(small))["status"] == "succeeded"
        await gate.over(large)
        request = f"GET {large['poll']} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode()
        async with unread(gate.url, 3, request, SIZE):
            before = UNREAD.refused_count
            told = await refused(await gate.client.get(gate.url + large["poll"]))
            assert "unread_answers_max_bytes" in told and UNREAD.refused_count == before + 1
            assert (await gate.get(small["poll"]))["status"] == "succeeded"
            assert UNREAD.held_bytes <= ROOM
        assert len((await gate.get(large["poll"]))["result"]["content"][0]["text"]) == SIZE


async def upstream(request: web.Request) -> web.Response:
    """Answer with as much as the call asks for."""
    name = (await request.json()).get("params", {}).get("name")
    return web.Response(body=LARGE if name == "large" else SMALL, content_type="application/json")


@asynccontextmanager
async def full_desk(tmp_path: Path, target: RemoteTarget) -> AsyncIterator[str]:
    """A desk with the upstream server `far` and no room for a further answer; gives its address."""
    folder = write(tmp_path / "own", {"mcp.json": '{"name": "own"}', "tools/large.py": TOOL})
    flags: dict[str, Any] = {"no_auth": True, "unread_answers_max_bytes": ROOM}
    async with running_desk(folder, upstreams=[UpstreamPlan("far", target)], http=True, **flags) as desk:
        base = desk.host.url("own").rpartition("/mcp/")[0]
        asked = b"POST /mcp/own HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        asked += b"Accept: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(CALL), CALL)
        async with unread(base, 3, asked, SIZE + 64):  # 64: more than before it is encoded
            left = ROOM - UNREAD.held_bytes
            UNREAD.promise(left)  # not a byte more
            try:
                yield base
            finally:
                UNREAD.promise(-left)


async def test_an_upstream_answer_that_comes_in_pieces_needs_no_room(tmp_path: Path) -> None:
    app = web.Application()
    app.router.add_post("/mcp", upstream)
    async with (
        TestServer(app) as server,
        aiohttp.ClientSession() as client,
        full_desk(tmp_path, UrlTarget(str(server.make_url("/mcp")))) as base,
    ):
        before = UNREAD.refused_count
        async with client.post(f"{base}/mcp/far", data=CALL, headers=JSON) as answer:
            assert (answer.status, await answer.read()) == (200, LARGE)
        assert UNREAD.refused_count == before


@pytest.mark.process
async def test_a_large_message_of_an_upstream_program_is_refused_without_room(tmp_path: Path) -> None:
    files = {"mcp.json": '{"name": "far"}', "tools/large.py": TOOL}
    program = CommandTarget((sys.executable, "-m", "mcpdesk", "stdio", str(write(tmp_path / "far", files))))
    async with full_desk(tmp_path, program) as base, aiohttp.ClientSession() as client:
        wire = Wire(client, f"{base}/mcp/far")
        await wire.open()
        refusal = await wire.post("tools/call", {"name": "large", "arguments": {}})
        assert "unread_answers_max_bytes" in refusal["error"]["message"]
        answer = await wire.post("tools/call", {"name": "small", "arguments": {}})
        assert answer["result"]["content"][0]["text"] == "y"
