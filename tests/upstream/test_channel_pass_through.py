"""Clients that reach a program through the desk, over real sockets and pipes."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import psutil
import pytest
from aiohttp import web
from aiohttp.test_utils import RawTestServer

from mcpdesk.client.targets import CommandTarget, RemoteTarget, UrlTarget
from mcpdesk.paths import sample_servers
from mcpdesk.upstream import channel_pass_through, passed_channel
from mcpdesk.upstream.upstream import UpstreamPlan
from tests.support import official
from tests.support.desk import RunningDesk, running_desk
from tests.support.patience import until, within
from tests.upstream.test_upstream import upstream

ROOT = Path(__file__).parents[2]
OFFICIAL = CommandTarget((sys.executable, "-m", "tests.support.official_server", "stdio"), folder=ROOT)
BOTH = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
NEWEST = "2026-07-28"


@asynccontextmanager
async def passing(target: RemoteTarget = OFFICIAL, **flags: Any) -> AsyncIterator[RunningDesk]:
    """A desk with a server on it that clients may reach without a key."""
    plan = UpstreamPlan("far", target)
    async with running_desk(upstreams=[plan], http=True, **{"no_auth": True, **flags}) as desk:
        yield desk


@asynccontextmanager
async def official_at(way: str) -> AsyncIterator[RemoteTarget]:
    """The official SDK's server: a program, behind a URL, or of the older transport, named so or probed."""
    if way == "program":
        yield OFFICIAL
        return
    kind = "http" if way == "url" else "sse"
    command = (sys.executable, "-m", "tests.support.official_server", kind)
    there = await asyncio.create_subprocess_exec(*command, stdout=PIPE, stderr=DEVNULL, cwd=ROOT)
    assert there.stdout is not None
    try:
        path = "mcp" if way == "url" else "sse"
        url = f"http://127.0.0.1:{int(await there.stdout.readline())}/{path}"
        yield UrlTarget(url, kind="sse" if way == "named" else "")
    finally:
        there.kill()
        await there.wait()


@pytest.mark.process
@pytest.mark.parametrize(
    ("way", "revision"),
    [
        pytest.param("program", "2025-06-18", marks=pytest.mark.slow),
        pytest.param("program", "2025-11-25", marks=pytest.mark.slow),
        ("program", NEWEST),
        ("named", "2025-06-18"),
        ("probed", "2025-11-25"),
    ],
)
async def test_the_official_client_calls_asks_and_hears_progress(way: str, revision: str) -> None:
    answers, heard = official.Answers(), official.Heard()
    async with AsyncExitStack() as stack:
        desk = await stack.enter_async_context(passing(await stack.enter_async_context(official_at(way))))
        await until(lambda: upstream(desk, "far").state == "ready")
        place = desk.host.url("far")
        client = await stack.enter_async_context(official.answering(place, revision, answers))
        tools = await client.list_tools()
        assert {"add", "steps", "ask"} <= {tool.name for tool in tools.tools}
        summed = await client.call_tool("add", {"a": 2, "b": 3})
        assert summed.structured_content == {"sum": 5}
        await client.call_tool("steps", {}, progress_callback=heard.on_progress)
        await heard.sees(lambda: len(heard.progress) == 3)
        told = await client.call_tool("ask", {})
        assert "Ada" in str(told.content) and answers.asked == ["Who are you?"]
        desk.traffic.catch_up()
        methods = [each.method for each in desk.traffic.exchanges if each.peer != "desk"]
        assert methods.count("tools/call") >= 3
        [row] = [each for each in desk.view().clients if each.server == "far"]
        assert (row.revision, row.errors, row.transport) == (revision, 0, "http") and row.calls >= 3


@pytest.mark.slow
@pytest.mark.parametrize("revision", ["2025-06-18", NEWEST])
async def test_a_server_behind_a_web_socket_is_reached_and_its_end_ends_sessions(revision: str) -> None:
    async with running_desk(sample_servers() / "hello", http=True, no_auth=True) as there:
        url = there.host.url("hello").replace("http", "ws", 1) + "/ws"
        async with passing(UrlTarget(url, kind="ws")) as desk, aiohttp.ClientSession(headers=BOTH) as http:
            async with official.session(desk.host.url("far"), revision) as client:
                told = await client.call_tool("greet", {"name": "Ada"})
                assert "Ada" in str(told.content)
                address = desk.host.url("far").removesuffix("/mcp/far")
                async with http.get(f"{address}/status") as answered:
                    assert (await answered.json())["passed_clients"] == {"far": 1}
            headers = await begin(http, desk.host.url("far"))
            for row in there.view().clients:
                there.disconnect(row.connection)
            await until(lambda: all(row.left for row in there.view().clients))
            ping = {"jsonrpc": "2.0", "id": 5, "method": "ping"}
            status, answer_back = await answer(http, desk.host.url("far"), ping, headers)
            assert status == 404 and "initialize again" in answer_back["error"]["message"]


@pytest.mark.slow
async def test_messages_for_a_client_that_does_not_read_are_counted_when_they_are_dropped(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(passed_channel, "MAX_HELD_BYTES", 100_000)
    is_full, sent = asyncio.Event(), 0

    async def there(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal sent
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for message in socket:
            asked = json.loads(message.data)
            if asked["method"] != "tools/call":
                continue
            told = {"jsonrpc": "2.0", "method": "notifications/message"}
            while not is_full.is_set():
                note = told | {"params": {"level": "info", "data": f"{sent} " + "x" * 60_000}}
                sent += 1
                await socket.send_str(json.dumps(note))
                await asyncio.sleep(0)
            result = {"jsonrpc": "2.0", "id": asked["id"], "result": {"content": []}}
            await socket.send_str(json.dumps(result))
        return socket

    async with RawTestServer(there) as server:
        url = str(server.make_url("/ws")).replace("http", "ws", 1)
        async with passing(UrlTarget(url, kind="ws")) as desk, aiohttp.ClientSession(headers=BOTH) as http:
            message, headers = alone(1, "much")
            passed = desk.host.pass_throughs["far"]
            async with http.post(desk.host.url("far"), data=json.dumps(message), headers=headers) as got:
                await until(lambda: passed.dropped > 2)
                is_full.set()
                whole = (await got.read()).decode()
            received = whole.count('"notifications/message"')
            assert '"result"' in whole.splitlines()[-2] or '"result"' in whole.rstrip().splitlines()[-1]
            assert passed.dropped == sent - received > 2
            address = desk.host.url("far").removesuffix("/mcp/far")
            async with http.get(f"{address}/metrics") as answered:
                figures = (await answered.text()).splitlines()
            assert f"mcpdesk_passed_messages_dropped_total {float(passed.dropped)}" in figures
            logged = [text for text in caplog.messages if "does not read" in text]
            assert len(logged) == 1 and logged[0].startswith("far: a client does not read")
            desk.traffic.catch_up()
            told = [each for each in desk.traffic.exchanges if each.method == "notifications/message"]
            assert len(told) == sent, "what is dropped is in the traffic all the same"


@pytest.mark.slow
async def test_a_session_is_only_for_who_began_it_and_its_token_is_sent_on() -> None:
    seen: list[str] = []

    async def there(request: web.BaseRequest) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        seen.append(request.headers.get("Authorization", ""))
        await socket.prepare(request)
        async for message in socket:
            asked = json.loads(message.data)
            if asked["method"] == "initialize":
                about = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "x"}}
                pretty = {"jsonrpc": "2.0", "id": asked["id"], "result": about}
                await socket.send_str(json.dumps(pretty, indent=1))
        return socket

    async with RawTestServer(there) as server:
        url = str(server.make_url("/ws")).replace("http", "ws", 1)
        async with passing(UrlTarget(url, kind="ws")) as desk, aiohttp.ClientSession(headers=BOTH) as http:
            place, token = desk.host.url("far"), {"Authorization": "Bearer mine"}
            headers = await begin(http, place, token)
            assert "Bearer mine" in seen  # the desk opens a separate connection as well
            ping = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            for sent, status in ((headers, 404), (headers | token, 202)):
                async with http.post(place, data=json.dumps(ping), headers=sent) as got:
                    assert got.status == status


@pytest.mark.process
@pytest.mark.parametrize("accept", ["application/json", BOTH["Accept"]])
async def test_a_batch_of_the_revision_that_has_them_is_answered_as_one(tmp_path: Path, accept: str) -> None:
    async with passing(noting(tmp_path)) as desk, aiohttp.ClientSession(headers=BOTH) as http:
        url = desk.host.url("far")
        batch: list[dict[str, Any]] = [
            {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
            {"jsonrpc": "2.0", "method": "notifications/later"},
            {"jsonrpc": "2.0", "id": 2, "method": "no/such"},
        ]

        async def sent(headers: dict[str, str], messages: object) -> tuple[int, str]:
            async with http.post(url, data=json.dumps(messages), headers=headers | {"Accept": accept}) as got:
                return got.status, await got.text()

        headers = await begin(http, url, revision="2025-03-26")
        status, told = await sent(headers, batch)
        parts = json.loads(told) if told.startswith("[") else [json.loads(each[6:]) for each in data(told)]
        answers = [each for each in parts if "id" in each]
        assert status == 200 and {each["id"]: "result" in each for each in answers} == {1: True, 2: False}
        assert await sent(headers, batch[1:2]) == (202, "")
        for wrong in ([], [1], [batch[0], batch[0]], [batch[0] | {"method": "initialize"}]):
            assert (await sent(headers, wrong))[0] == 400, wrong
        later = await begin(http, url)
        status, told = await sent(later, batch)
        assert status == 400 and "2025-03-26 only" in told


@pytest.mark.process
async def test_headers_that_repeat_arguments_must_fit_them(tmp_path: Path) -> None:
    async with passing(noting(tmp_path)) as desk, aiohttp.ClientSession(headers=BOTH) as http:
        await until(lambda: upstream(desk, "far").state == "ready")
        message, headers = alone(1, "whoami")
        message["params"]["arguments"] = {"region": "eu"}
        for region, status in (("", 400), ("us", 400), ("eu", 200)):
            given = headers | ({"Mcp-Param-Region": region} if region else {})
            found, told = await answer(http, desk.host.url("far"), message, given)
            assert found == status and (status == 200 or told["error"]["code"] == -32020)


@pytest.mark.slow
async def test_fifty_megabytes_go_to_a_program_and_come_back(tmp_path: Path) -> None:
    message, headers = alone(1, "echo")
    text = message["params"]["arguments"]["text"] = "x" * (50 << 20)
    async with passing(noting(tmp_path)) as desk, aiohttp.ClientSession(headers=BOTH) as http:
        await until(lambda: upstream(desk, "far").state == "ready")
        body = io.BytesIO(json.dumps(message).encode())
        async with http.post(desk.host.url("far"), data=body, headers=headers) as got:
            told = (await got.text()).rpartition("data: ")[2]  # a stream, where it takes long
        assert (got.status, json.loads(told)["result"]["content"][0]["text"] == text) == (200, True)


@pytest.mark.process
async def test_two_clients_have_a_program_each_and_one_that_leaves_takes_its_own_along(
    tmp_path: Path,
) -> None:
    async with passing(noting(tmp_path)) as desk:
        await until(lambda: len(pids(tmp_path)) == 1)
        async with official.session(desk.host.url("far"), "2025-06-18") as first:
            async with official.session(desk.host.url("far"), "2025-06-18") as second:
                both = await asyncio.gather(*(each.call_tool("whoami", {}) for each in (first, second)))
                texts = {str(each.content) for each in both}
                assert len(texts) == 2 and len(pids(tmp_path)) == 3
            await until(lambda: len(living(tmp_path)) == 2)
            assert str((await first.call_tool("whoami", {})).content) in texts


@pytest.mark.process
async def test_a_program_that_is_killed_in_a_call_fails_it_and_its_session(tmp_path: Path) -> None:
    async with passing(noting(tmp_path)) as desk, aiohttp.ClientSession(headers=BOTH) as http:
        url = desk.host.url("far")
        headers = await begin(http, url)
        call = {
            "jsonrpc": "2.0",
            "id": 7,
            "method": "tools/call",
            "params": {"name": "wait", "arguments": {}},
        }
        waiting = asyncio.create_task(answer(http, url, call, headers))
        await until(lambda: (tmp_path / "waits").exists())
        os.kill(int((tmp_path / "waits").read_text()), signal.SIGKILL)
        status, told = await waiting
        assert (status, told["id"]) == (200, 7) and "far: the program ended by SIGKILL" in told["error"][
            "message"
        ]
        status, told = await answer(http, url, call, headers)
        assert status == 404 and "initialize again" in told["error"]["message"]
        await begin(http, url)


@pytest.mark.process
async def test_sessions_go_on_with_a_program_that_is_started_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_pass_through, "RETIREMENT_TIMEOUT_S", 0.1)
    async with passing(noting(tmp_path)) as desk, aiohttp.ClientSession(headers=BOTH) as http:
        url = desk.host.url("far")
        await until(lambda: upstream(desk, "far").state == "ready")
        headers = await begin(http, url)
        said: list[dict[str, object]] = [
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": "a:b"}},
            {"jsonrpc": "2.0", "id": 2, "method": "resources/subscribe", "params": {"uri": "a:c"}},
            {"jsonrpc": "2.0", "id": 3, "method": "resources/unsubscribe", "params": {"uri": "a:b"}},
            {"jsonrpc": "2.0", "id": 4, "method": "logging/setLevel", "params": {"level": "error"}},
        ]
        for message in said:
            async with http.post(url, data=json.dumps(message), headers=headers) as got:
                assert got.status == (200 if "id" in message else 202)
        whoami = {"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "whoami"}}
        _, before = await answer(http, url, whoami, headers)
        call = {"jsonrpc": "2.0", "id": 6, "method": "tools/call", "params": {"name": "wait"}}
        waiting = asyncio.create_task(answer(http, url, call, headers))
        await until(lambda: (tmp_path / "waits").exists())
        async with http.get(url, headers=headers) as stream:
            desk.reload("far")
            assert b'"notifications/tools/list_changed"' in await stream.content.readuntil(b"\n\n")
            status, after = await answer(http, url, whoami | {"id": 7}, headers)
            fresh = after["result"]["content"][0]["text"]
            assert status == 200 and fresh != before["result"]["content"][0]["text"]
            heard = [json.loads(line) for line in (tmp_path / f"{fresh}.log").read_text().splitlines()]
            assert [each.get("id", "-") for each in heard] == [0, "-", 2, 4, 7], "what still counts, in order"
            assert "the program ended" in (await waiting)[1]["error"]["message"]


@pytest.mark.process
async def test_a_client_is_disconnected_at_the_desk_and_leaves_no_program(tmp_path: Path) -> None:
    async with passing(noting(tmp_path)) as desk, aiohttp.ClientSession(headers=BOTH) as http:
        url = desk.host.url("far")
        headers = await begin(http, url)
        call = {
            "jsonrpc": "2.0",
            "id": 7,
            "method": "tools/call",
            "params": {"name": "wait", "arguments": {}},
        }
        waiting = asyncio.create_task(answer(http, url, call, headers))
        await until(lambda: (tmp_path / "waits").exists())
        [row] = desk.view().clients
        assert (row.name, row.calls, row.seen, row.revision) == ("t 1", 1, None, "2025-06-18")
        desk.disconnect(row.connection)
        with pytest.raises(aiohttp.ClientError):
            await waiting
        await until(lambda: len(living(tmp_path)) == 1 and desk.view().clients[0].left is not None)
        [row] = desk.view().clients
        detail = desk.client(row.connection)
        assert row.calls == 1 and detail is not None and detail.has_left


@pytest.mark.process
async def test_what_belongs_to_no_request_comes_on_the_standing_stream(tmp_path: Path) -> None:
    async with passing(noting(tmp_path)) as desk, aiohttp.ClientSession(headers=BOTH) as http:
        url = desk.host.url("far")
        headers = await begin(http, url)
        later = {"jsonrpc": "2.0", "method": "notifications/later"}
        async with http.post(url, data=json.dumps(later), headers=headers) as sent:
            assert sent.status == 202
        async with http.get(url, headers=headers) as stream:
            assert b'"method": "notifications/tools/list_changed"' in await stream.content.readuntil(b"\n\n")
            async with http.get(url, headers=headers) as second:
                assert second.status == 409
            async with http.delete(url, headers=headers) as ended:
                assert ended.status == 204
            async with within():
                assert await stream.content.read() == b""
        async with http.get(url, headers=headers) as gone:
            assert gone.status == 404


@pytest.mark.process
async def test_requests_that_stand_alone_share_a_program_and_keep_their_ids_and_bytes(tmp_path: Path) -> None:
    async with passing(noting(tmp_path)) as desk, aiohttp.ClientSession(headers=BOTH) as http:
        url = desk.host.url("far")
        await until(lambda: pids(tmp_path))  # that of the desk itself
        slow = [asyncio.create_task(raw_answer(http, url, *alone(1, "together"))) for _ in range(2)]
        found = await asyncio.gather(*slow)
        (shared,) = {json.loads(each)["result"]["content"][0]["text"] for each in found}
        content = [{"type": "text", "text": shared}]
        plain = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"content": content}})
        assert found == [plain, plain], "also the answer whose id was another one on the way"
        seen = [line for line in lines(tmp_path) if '"together"' in line]
        message, _ = alone(1, "together")
        assert len(seen) == 2 and seen[0] == json.dumps(message) and json.loads(seen[1])["id"] != 1
        assert seen[1] == json.dumps(message | {"id": json.loads(seen[1])["id"]})
        status, told = await answer(http, url, *alone(3, "no such tool"))
        assert (status, told["error"]["code"]) == (400, -32602)
        status, told = await answer(http, url, alone(4, "echo")[0], {"Mcp-Method": "tools/list"})
        assert (status, told["error"]["code"]) == (400, -32020)
        message = alone(5, "")[0] | {"method": "initialize"}
        headers = {"MCP-Protocol-Version": NEWEST, "Mcp-Method": "initialize"}
        status, told = await answer(http, url, message, headers)
        assert (status, told["error"]["code"]) == (404, -32601), "there is no handshake in this era"
        assert len(pids(tmp_path)) == 2


@pytest.mark.process
async def test_a_client_that_leaves_cancels_what_stands_alone(tmp_path: Path) -> None:
    async with passing(noting(tmp_path)) as desk, aiohttp.ClientSession(headers=BOTH) as http:
        message, headers = alone("x", "wait")
        going = asyncio.create_task(answer(http, desk.host.url("far"), message, headers))
        await until(lambda: (tmp_path / "waits").exists())
        going.cancel()
        await until(lambda: any("notifications/cancelled" in line for line in lines(tmp_path)))
        [told] = [line for line in lines(tmp_path) if "notifications/cancelled" in line]
        assert json.loads(told)["params"]["requestId"] == "x"


@pytest.mark.process
async def test_a_program_takes_the_key_and_one_that_cannot_start_is_named() -> None:
    async with passing(CommandTarget(("no-such-program",)), no_auth=False) as desk:
        url, key = desk.host.url("far"), {"X-API-Key": desk.host.rules.api_key}
        assert desk.host.rules.api_key
        async with aiohttp.ClientSession(headers=BOTH) as http:
            async with http.post(url, data=b'{"jsonrpc":"2.0","id":1,"method":"initialize"}') as got:
                assert got.status == 403
            status, told = await answer(http, url, {"jsonrpc": "2.0", "id": 1, "method": "initialize"}, key)
            assert (status, told["id"]) == (502, 1)
            assert told["error"]["message"] == "far cannot be asked: program 'no-such-program' does not exist"


@pytest.mark.process
@pytest.mark.parametrize(
    ("method", "headers", "body", "status", "told"),
    [
        ("POST", {}, b"{no", 400, "Parse error"),
        ("POST", {}, b"[]", 400, "Mcp-Session-Id is missing"),
        ("POST", {}, b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}', 400, "Mcp-Session-Id is missing"),
        (
            "POST",
            {"Mcp-Session-Id": "x"},
            b'{"jsonrpc":"2.0","id":1,"method":"ping"}',
            404,
            "initialize again",
        ),
        ("GET", {}, b"", 405, "by POST"),
        ("DELETE", {"Mcp-Session-Id": "x"}, b"", 404, "initialize again"),
    ],
)
async def test_what_is_no_message_or_of_no_session_is_refused(
    method: str, headers: dict[str, str], body: bytes, status: int, told: str
) -> None:
    async with (
        passing() as desk,
        aiohttp.ClientSession(headers=BOTH) as http,
        http.request(method, desk.host.url("far"), data=body or None, headers=headers) as got,
    ):
        assert got.status == status and told in (await got.json())["error"]["message"]


@pytest.mark.process
async def test_the_longest_unused_session_makes_room_and_a_silent_one_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channel_pass_through, "MAX_CHANNELS", 1)
    async with (
        passing(noting(tmp_path), session_ttl_s=1) as desk,
        aiohttp.ClientSession(headers=BOTH) as http,
    ):
        url = desk.host.url("far")
        first = await begin(http, url)
        call = {
            "jsonrpc": "2.0",
            "id": 7,
            "method": "tools/call",
            "params": {"name": "wait", "arguments": {}},
        }
        await begin(http, url)
        assert (await answer(http, url, call, first))[0] == 404
        await until(lambda: len(living(tmp_path)) == 1)


@pytest.mark.process
async def test_an_unused_channel_of_calls_without_sessions_makes_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        passing(noting(tmp_path)) as desk,
        aiohttp.ClientSession(headers=BOTH) as http,
    ):
        url = desk.host.url("far")
        status, told = await answer(http, url, *alone(7, "whoami"))
        assert status == 200
        program = int(told["result"]["content"][0]["text"])
        monkeypatch.setattr(channel_pass_through, "MAX_CHANNELS", 1)
        await begin(http, url)
        await until(lambda: program not in living(tmp_path))


# A program that notes down who it is and what it is sent

NOTING = """
import json, os, sys, threading, time
place, me = sys.argv[1], str(os.getpid())
open(os.path.join(place, me + ".pid"), "w").close()
log = open(os.path.join(place, me + ".log"), "w", buffering=1)
held = []
def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for line in sys.stdin:
    log.write(line)
    message = json.loads(line)
    method, params = message["method"], message.get("params") or {}
    if method == "notifications/later":
        send({"method": "notifications/tools/list_changed"})
    if "id" not in message:
        continue
    can = {"tools": {"listChanged": True}}
    about = {"protocolVersion": params.get("protocolVersion"), "capabilities": can}
    text = lambda said: {"id": message["id"], "result": {"content": [{"type": "text", "text": said}]}}
    if method == "initialize" and "_meta" not in params:
        send({"id": message["id"], "result": about | {"serverInfo": {"name": "noting", "version": "1"}}})
    elif method == "tools/list":
        region = {"type": "string", "x-mcp-header": "Region"}
        schema = {"type": "object", "properties": {"region": region}}
        send({"id": message["id"], "result": {"tools": [{"name": "whoami", "inputSchema": schema}]}})
    elif method != "tools/call":
        send({"id": message["id"], "error": {"code": -32601, "message": "no " + method}})
    elif params["name"] == "wait":
        with open(os.path.join(place, "waits.new"), "w") as file:
            file.write(me)
        os.rename(os.path.join(place, "waits.new"), os.path.join(place, "waits"))
    elif params["name"] == "together":
        held.append(text(me))
        if len(held) == 2:
            [send(each) for each in reversed(held)]
    elif params["name"] == "whoami":
        send(text(me))
    elif params["name"] == "echo":
        send(text(params["arguments"]["text"]))
    else:
        send({"id": message["id"], "error": {"code": -32602, "message": "no such tool"}})
"""


def noting(place: Path) -> CommandTarget:
    """The program, and the folder for its notes."""
    return CommandTarget((sys.executable, "-S", "-c", NOTING, str(place)))


def pids(place: Path) -> list[int]:
    """Process ids of all runs so far."""
    return [int(path.stem) for path in place.glob("*.pid")]


def living(place: Path) -> list[int]:
    """Runs that are still alive."""
    return [pid for pid in pids(place) if psutil.pid_exists(pid)]


def lines(place: Path) -> list[str]:
    """Lines that all runs received."""
    return [line for path in place.glob("*.log") for line in path.read_text().splitlines()]


def alone(identifier: int | str, tool: str) -> tuple[dict[str, Any], dict[str, str]]:
    """A call of the stateless era, and its headers."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": NEWEST,
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": tool, "arguments": {}, "_meta": meta}
    headers = {"MCP-Protocol-Version": NEWEST, "Mcp-Method": "tools/call", "Mcp-Name": tool}
    return {"jsonrpc": "2.0", "id": identifier, "method": "tools/call", "params": params}, headers


async def begin(
    http: aiohttp.ClientSession, url: str, more: dict[str, str] | None = None, revision: str = "2025-06-18"
) -> dict[str, str]:
    """The headers of a new session; `more` go with the first request."""
    params = {
        "protocolVersion": revision,
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    }
    message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    async with http.post(url, data=json.dumps(message), headers=more or {}) as got:
        assert (got.status, (await got.json())["id"]) == (200, 0)
        session = {"Mcp-Session-Id": got.headers["Mcp-Session-Id"]}
        return session if revision == "2025-03-26" else session | {"MCP-Protocol-Version": revision}


def data(events: str) -> list[str]:
    """The lines of an event stream that hold messages."""
    return [line for line in events.splitlines() if line.startswith("data: ")]


async def raw_answer(
    http: aiohttp.ClientSession, url: str, message: dict[str, Any], headers: dict[str, str]
) -> str:
    """The very text of the message that answers a request."""
    async with http.post(url, data=json.dumps(message), headers=headers) as got:
        body = await got.text()
        return body if got.content_type == "application/json" else data(body)[-1].removeprefix("data: ")


async def answer(
    http: aiohttp.ClientSession, url: str, message: dict[str, Any], headers: dict[str, str]
) -> tuple[int, dict[str, Any]]:
    """The status and the message that answers a request."""
    async with http.post(url, data=json.dumps(message), headers=headers) as got:
        body = await got.text()
        data = body if got.content_type == "application/json" else body.rpartition("data: ")[2]
        return got.status, json.loads(data)
