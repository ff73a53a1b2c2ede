"""`/mcp/<name>` as clients of both eras meet it."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import aiohttp
import orjson
import pytest

from mcpdesk.errors import TransportError
from mcpdesk.protocol.revisions import V2026_07_28
from mcpdesk.protocol.stateless import VERSION_KEY, request_meta
from mcpdesk.recorder.record import Direction
from mcpdesk.transports.base import Rules
from mcpdesk.transports.http.http_service import HttpService, PortTaken
from tests.support.callers import checking, good_headers, guarding
from tests.support.features import having
from tests.support.patience import in_time, within
from tests.support.site import events, serving

CALL = {
    "jsonrpc": "2.0",
    "id": 7,
    "method": "tools/call",
    "params": {"name": "echo", "arguments": {"text": "hi"}},
}
STEPS = {
    "jsonrpc": "2.0",
    "id": 7,
    "method": "tools/call",
    "params": {"name": "steps", "_meta": {"progressToken": "p"}},
}


@pytest.mark.requirement("4.2", "4.8", "4.9")
async def test_a_session_lives_until_it_is_deleted() -> None:
    async with serving() as served:
        headers = await served.session()
        answer = await served.post(CALL, **headers)
        assert (await answer.json())["result"]["isError"] is False
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        ended = await served.client.delete(f"{served.url}/mcp/sample", headers=named)
        assert ended.status == 204
        gone = await served.post(CALL, **headers)
        assert gone.status == 404
        assert (await gone.json())["id"] == 7


@pytest.mark.requirement("4.3")
async def test_progress_turns_the_answer_into_a_stream() -> None:
    async with serving() as served:
        answer = await served.post(STEPS)
        assert answer.content_type == "text/event-stream"
        assert answer.headers["X-Accel-Buffering"] == "no"
        messages = events(await answer.text())
        assert [m["params"]["progress"] for m in messages if m.get("method") == "notifications/progress"] == [
            1,
            2,
            3,
        ]
        assert messages[-1]["id"] == 7


@pytest.mark.requirement("4.3")
async def test_a_client_that_takes_json_only_gets_json_only() -> None:
    async with serving() as served:
        answer = await served.post(STEPS, Accept="application/json")
        assert answer.content_type == "application/json"
        assert (await answer.json())["id"] == 7


async def test_streaming_can_be_switched_off() -> None:
    async with serving(Rules(streaming=False)) as served:
        answer = await served.post(STEPS)
        assert answer.content_type == "application/json"
        assert (await answer.json())["result"]["isError"] is False


@pytest.mark.requirement("5.2")
async def test_a_stateless_call_needs_its_headers() -> None:
    async with serving() as served:
        good = await served.modern("tools/call", {"name": "echo", "arguments": {"text": "hi"}})
        assert (await good.json())["result"]["resultType"] == "complete"
        wrong = await served.modern("tools/call", {"name": "echo"}, Mcp_Name="other")
        assert wrong.status == 400
        assert (await wrong.json())["error"]["code"] == -32020


@pytest.mark.requirement("2.6", "2.10")
@pytest.mark.parametrize(
    ("method", "params", "status", "code"),
    [
        ("nope/nope", {}, 404, -32601),
        ("initialize", {"protocolVersion": "2025-11-25"}, 404, -32601),
        ("ping", {}, 404, -32601),
        ("tools/call", {"name": "nope"}, 400, -32602),
    ],
)
async def test_stateless_errors_travel_with_their_status(
    method: str, params: dict[str, object], status: int, code: int
) -> None:
    async with serving() as served:
        answer = await served.modern(method, params)
        assert answer.status == status
        body = await answer.json()
        assert (body["id"], body["error"]["code"]) == (1, code)


@pytest.mark.requirement("4.13")
async def test_an_unserved_version_header_is_refused_with_the_served_ones() -> None:
    async with serving() as served:
        answer = await served.post(CALL, MCP_Protocol_Version="1999-01-01")
        assert answer.status == 400
        error = (await answer.json())["error"]
        assert error["code"] == -32022
        assert error["data"]["requested"] == "1999-01-01"


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, -32700),
        (b"\xff", 400, -32700),
        (b"[" * 100_000, 400, -32700),
        (b"[]", 400, -32600),
        (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', 400, -32600),
    ],
)
async def test_broken_bodies_are_answered_in_json_rpc(body: bytes, status: int, code: int) -> None:
    async with serving() as served:
        answer = await served.post(body)
        assert answer.status == status
        assert (await answer.json())["error"]["code"] == code


@pytest.mark.requirement("12.11")
async def test_a_body_over_the_limit_names_size_and_limit() -> None:
    async with serving(Rules(max_body_bytes=1000)) as served:
        answer = await served.post(b"x" * 30_000)
        assert answer.status == 413
        error = (await answer.json())["error"]
        assert error["code"] == -32600
        assert "30000" in error["message"] and "1000" in error["message"]


@pytest.mark.requirement("4.4", "4.6")
async def test_the_standing_stream_carries_list_changes_and_may_be_opened_again_when_it_broke_off() -> None:
    async with serving() as served:
        headers = {name.replace("_", "-"): value for name, value in (await served.session()).items()}
        url, asked = f"{served.url}/mcp/sample", headers | {"Accept": "text/event-stream"}
        first = await served.client.get(url, headers=asked)
        assert first.status == 200 and await first.content.readline() == b"id: 0:0\n"
        assert (await served.client.get(url, headers=asked)).status == 409
        first.close()
        async with within():
            while (again := await served.client.get(url, headers=asked)).status == 409:
                pass
            served.peer.server.tools.replace([])
            while b"tools/list_changed" not in await again.content.readline():
                pass
        again.close()


@pytest.mark.requirement("4.13", "5.1")
@pytest.mark.parametrize("verb", ["GET", "DELETE"])
@pytest.mark.parametrize(("version", "status"), [("2026-07-28", 405), ("1999-01-01", 400)])
async def test_verbs_of_sessions_follow_the_version_header(verb: str, version: str, status: int) -> None:
    async with serving() as served:
        headers = (await served.session()) | {"MCP_Protocol_Version": version}
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        named["Accept"] = "text/event-stream"
        async with served.client.request(verb, f"{served.url}/mcp/sample", headers=named) as answer:
            assert answer.status == status
        assert (await served.post(CALL, **(headers | {"MCP_Protocol_Version": "2025-11-25"}))).status == 200


async def test_a_listener_gets_its_stream_where_other_answers_are_no_streams() -> None:
    async with serving(Rules(streaming=False)) as served:
        answer = await served.modern("subscriptions/listen", {"notifications": {}})
        assert (answer.status, answer.content_type) == (200, "text/event-stream")
        assert b"acknowledged" in await answer.content.readuntil(b"\n\n")
        answer.close()


@pytest.mark.requirement("2.3", "4.2", "4.3")
async def test_a_batch_over_http_is_answered_with_an_array_or_not_at_all() -> None:
    async with serving() as served:
        headers = await served.session("2025-03-26")
        noted = {"jsonrpc": "2.0", "method": "notifications/whatever"}
        pings = [{"jsonrpc": "2.0", "id": number, "method": "ping"} for number in (1, "1")]
        answer = await served.post([*pings, noted], **headers)
        assert [each["id"] for each in await answer.json()] == [1, "1"]
        answer = await served.post([noted, {"jsonrpc": "2.0", "id": 9, "result": {}}], **headers)
        assert (answer.status, await answer.read()) == (202, b"")
        answer = await served.post([STEPS], **headers)
        assert answer.content_type == "text/event-stream"
        last = (await answer.text()).strip().splitlines()[-1]
        assert last.startswith('data: [{"jsonrpc":"2.0","id":7,"result"')


async def test_frames_are_recorded_as_they_were_with_what_http_said() -> None:
    async with serving() as served:
        body = b'{ "jsonrpc":"2.0",  "id":1,"method":"tools/list"}'
        answer = await served.post(body, User_Agent="checker/2.0")
        sent = await answer.read()
        assert served.recorder.seen == [(Direction.IN, body), (Direction.OUT, sent)]
        assert served.recorder.notes[0].line == "POST /mcp/sample HTTP/1.1"
        assert ("User-Agent", "checker/2.0") in served.recorder.notes[0].headers
        assert next(iter(served.recorder.connections.values())).peer == "checker 2.0"


async def test_what_is_not_the_usual_answer_is_recorded_with_status_and_headers() -> None:
    async with serving() as served:
        await served.session()
        for body in ({"jsonrpc": "2.0", "id": 2, "method": "ping"}, b"no json"):
            await served.post(body)
        await served.post(CALL, Accept="text/event-stream")
        noted = [(note.line, dict(note.headers)) for note in served.recorder.notes]
        answers = [(line, headers) for line, headers in noted if line.startswith("HTTP")]
        assert [line for line, _ in answers] == [
            "HTTP/1.1 200 OK",
            "HTTP/1.1 400 Bad Request",
            "HTTP/1.1 200 OK",
        ]
        assert answers[0][1]["Mcp-Session-Id"]
        assert answers[2][1]["Content-Type"] == "text/event-stream"


@pytest.mark.requirement("4.14", "5.13")
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content_Type": "text/plain"}, 415),
        ({"Accept": "text/html"}, 406),
        ({"Origin": "http://evil.example"}, 403),
        ({"Host": "evil.example"}, 403),
        ({"Origin": "http://localhost:5000"}, 403),
    ],
)
async def test_what_a_request_must_bring(headers: dict[str, str], status: int) -> None:
    async with serving() as served:
        assert (await served.post(CALL, **headers)).status == status


@pytest.mark.parametrize("path", ["/sample/mcp", "/sample/mcp/"])
async def test_an_address_that_ends_with_mcp_is_the_same_endpoint(path: str) -> None:
    headers = {"Accept": "text/event-stream"}
    async with serving() as served:
        answer = await served.client.post(served.url + path, json=CALL)
        assert (await answer.json())["result"]["content"][0]["text"] == "hi"
        named = {name.replace("_", "-"): value for name, value in (await served.session()).items()}
        async with served.client.get(served.url + path, headers=headers | named) as stream:
            assert stream.status == 200
        assert (await served.client.delete(served.url + path, headers=named)).status == 204
        assert (await served.client.post(f"{served.url}/other/mcp", json=CALL)).status == 404


async def test_names_of_servers_are_told_to_those_alone_who_may_call() -> None:
    paths = ("/mcp/other", "/nothing", "/other/mcp", *having("gateway", "/v1/mcp?server=other"))
    key = {"X-API-Key": "s3cret"}
    async with serving(Rules(api_key="s3cret")) as asking, serving() as open_to_all:
        for path in paths:
            for served, headers, is_told in (
                (asking, {}, False),
                (asking, key, True),
                (open_to_all, {}, True),
            ):
                answer = await served.client.get(served.url + path, headers=headers)
                assert (answer.status, "sample" in await answer.text()) == (404, is_told), path
        assert (await open_to_all.client.patch(f"{open_to_all.url}/mcp/sample")).status == 405


async def test_names_of_servers_are_kept_from_those_without_a_token_where_tokens_count() -> None:
    async with guarding(checking()) as served:
        for headers, is_told in (
            ({}, False),
            ({"Authorization": "Bearer no"}, False),
            (good_headers(), True),
        ):
            answer = await served.client.get(f"{served.url}/mcp/other", headers=headers)
            assert (answer.status, "sample" in await answer.text()) == (404, is_told)


async def test_a_taken_port_fails_or_moves() -> None:
    async with serving() as served:
        taken = int(served.url.rpartition(":")[2])
        service = HttpService(served)
        with pytest.raises(PortTaken):
            await service.listen_tcp("127.0.0.1", taken, False)
        assert await service.listen_tcp("127.0.0.1", taken, True) > taken
        await service.close()


async def test_a_socket_that_cannot_be_is_refused_with_the_reason(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cases = {
        tmp_path / ("s" * 120): "path too long",
        tmp_path / "file": "a file that is not a socket has this path",
        tmp_path / "file" / "h.sock": "File exists",
    }
    async with serving() as served:
        for path, words in cases.items():
            with pytest.raises(TransportError, match=f"cannot listen on {path}: .*{words}"):
                await HttpService(served).listen_unix(path)


async def test_a_socket_whose_owner_accepts_nobody_is_left_to_it_at_once(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    path = tmp_path_factory.mktemp("u") / "h.sock"
    with socket.socket(socket.AF_UNIX) as owner, socket.socket(socket.AF_UNIX) as waiting:
        owner.bind(str(path))
        owner.listen(0)
        waiting.connect(str(path))
        async with serving() as served:
            # Beside the loop: what blocks would keep any time from being up.
            listening = asyncio.to_thread(asyncio.run, HttpService(served).listen_unix(path))
            with pytest.raises(TransportError, match="served by another process"):
                await in_time(listening)


async def test_the_unix_socket_serves_the_same(tmp_path_factory: pytest.TempPathFactory) -> None:
    async with serving() as served:
        service = HttpService(served)
        path = tmp_path_factory.mktemp("u") / "h.sock"
        await service.listen_unix(path)
        assert path.stat().st_mode & 0o777 == 0o600
        connector = aiohttp.UnixConnector(path=str(path))
        async with (
            aiohttp.ClientSession(connector=connector) as client,
            client.post("http://localhost/mcp", json=CALL) as answer,
        ):
            assert answer.status == 200
        await service.close()
        assert not path.exists()


async def test_a_listener_that_takes_no_stream_is_told_so() -> None:
    async with serving() as served:
        listening = {"notifications": {"toolsListChanged": True}}
        answer = await served.modern("subscriptions/listen", listening, Accept="application/json")
        assert answer.status == 406 and "text/event-stream" in (await answer.json())["error"]


async def test_clients_that_vanish_leave_no_dialogue_behind() -> None:
    async with serving() as served:
        host, port = served.url.removeprefix("http://").split(":")
        meta = request_meta(V2026_07_28, {"name": "t", "version": "1"})
        params = {"name": "forever", "_meta": meta}
        body = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})
        named = f"MCP-Protocol-Version: {V2026_07_28.name}\r\nMcp-Method: tools/call\r\nMcp-Name: forever\r\n"
        sizes = f"Host: {host}:{port}\r\nContent-Length: {len(body)}\r\n"
        head = f"POST /mcp/sample HTTP/1.1\r\n{sizes}{named}\r\n"
        for cut in (*range(0, len(body), 7), *[len(body)] * 20):
            _, writer = await asyncio.open_connection(host, int(port))
            writer.write(head.encode() + body[:cut])
            writer.transport.abort() if cut % 2 else writer.close()
        async with within():
            assert (await served.modern("tools/list")).status == 200
            while len(served.hosted.dialogues) > 1:
                assert (await served.client.get(f"{served.url}/health")).status == 200


async def test_a_handshake_opens_a_session_whatever_its_id() -> None:
    async with serving() as served:
        params = {"protocolVersion": "2025-11-25", "capabilities": {}}
        for identifier in (0, "f" * 36, "x" * 1000):
            message = {"jsonrpc": "2.0", "id": identifier, "method": "initialize", "params": params}
            answer = await served.post(message)
            assert "Mcp-Session-Id" in answer.headers
        refused = await served.post(message | {"params": {"protocolVersion": 5}})
        assert "Mcp-Session-Id" not in refused.headers


async def test_a_handshake_with_metadata_is_one_all_the_same() -> None:
    async with serving() as served:
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "_meta": {VERSION_KEY: "2026-07-28"}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
        for _ in range(2):
            answer = await served.post(message)
            assert (await answer.json())["result"]["protocolVersion"] == "2025-11-25"
            assert "Mcp-Session-Id" in answer.headers


async def test_a_stateless_client_posts_no_responses() -> None:
    async with serving() as served:
        answer = await served.post(
            {"jsonrpc": "2.0", "id": 1, "result": {}}, MCP_Protocol_Version="2026-07-28"
        )
        assert answer.status == 400
        assert (await answer.json())["error"]["code"] == -32600
        assert (await served.post({"jsonrpc": "2.0", "id": 1, "result": {}})).status == 202


async def test_a_routing_header_given_twice_is_a_mismatch() -> None:
    async with serving() as served:
        body = {"jsonrpc": "2.0", "id": 7, "method": "ping"}
        headers = [
            ("MCP-Protocol-Version", "2026-07-28"),
            ("Mcp-Method", "ping"),
            ("Mcp-Method", "tools/list"),
        ]
        answer = await served.client.post(f"{served.url}/mcp", json=body, headers=headers)
        assert answer.status == 400
        assert await answer.json() | {"error": None} == {"jsonrpc": "2.0", "id": 7, "error": None}
        assert (await answer.json())["error"]["code"] == -32020


BATCH = [CALL, {"jsonrpc": "2.0", "method": "notifications/x"}, CALL | {"id": 8}]


@pytest.mark.requirement("2.3")
@pytest.mark.parametrize("headers", [{}, {"MCP_Protocol_Version": "2025-03-26"}])
async def test_a_batch_without_a_session_is_one_of_the_revision_that_has_batches(
    headers: dict[str, str],
) -> None:
    async with serving() as served:
        answer = await served.post(BATCH, **headers)
        told = {each["id"]: each["result"]["content"][0]["text"] for each in await answer.json()}
        assert (answer.status, told) == (200, {7: "hi", 8: "hi"})
        assert (await served.post(BATCH[1:2], **headers)).status == 202
        opening = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}
        (refused,) = await (await served.post([opening], **headers)).json()
        assert refused["error"]["code"] == -32600


@pytest.mark.requirement("2.4")
@pytest.mark.parametrize("revision", ["2024-11-05", "2025-06-18", "2025-11-25", "2026-07-28"])
async def test_a_batch_of_any_other_revision_is_refused(revision: str) -> None:
    async with serving() as served:
        answer = await served.post(BATCH, MCP_Protocol_Version=revision)
        assert (answer.status, (await answer.json())["error"]["code"]) == (400, -32600)
