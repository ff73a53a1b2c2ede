"""Servers that other clients accept: unusual HTTP, lost sessions, broken streams, programs that end early."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest

from mcpdesk.client import child_process
from mcpdesk.client.child_process import ChildProcess, ProgramCommand
from mcpdesk.client.connection import ServerConnection
from mcpdesk.client.http_transports import HttpRequests, HttpSse, StreamableHttp
from mcpdesk.client.transport import ClientTransport
from mcpdesk.errors import CallError, HttpError, InvalidAnswer, RpcError
from mcpdesk.protocol.revisions import V2025_03_26, V2025_06_18, V2025_11_25, Revision
from tests.support.patience import within
from tests.support.scripted import Seen, event, http, json, result, scripted, stream

ABOUT = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "x"}}
DONE = {"content": [{"type": "text", "text": "done"}]}


@asynccontextmanager
async def connected(
    transport: ClientTransport, revision: Revision | None = V2025_11_25
) -> AsyncIterator[tuple[ServerConnection, list[str]]]:
    """A connection, and the kinds of the remarks on its messages."""
    connection, kinds = ServerConnection(transport, {"name": "t", "version": "1"}, revision=revision), []
    connection.remark_listeners.append(lambda remark, request: kinds.append(str(remark.kind)))
    try:
        async with within():
            yield connection, kinds
    finally:
        await connection.close()


async def call(connection: ServerConnection) -> Any:
    """The result of a call."""
    return await connection.result("tools/call", {"name": "t", "arguments": {}})


def session(answer: Callable[[Seen], bytes | None]) -> Callable[[Seen], bytes | None]:
    """A server of the handshake era; `answer` is for everything after the handshake."""

    def answering(seen: Seen) -> bytes | None:
        message = seen.message if seen.body else {}
        if message.get("method") == "initialize":
            return json(result(seen, ABOUT), Mcp_Session_Id=f"s{len(seen.headers)}")
        if seen.body and "id" not in message:
            return http(202)
        return answer(seen)

    return answering


@pytest.mark.parametrize("kind", ["text/plain", "application/json-rpc", ""])
@pytest.mark.parametrize("is_stream", [False, True])
async def test_an_answer_of_another_type_is_read_with_a_remark(kind: str, is_stream: bool) -> None:
    def answer(seen: Seen) -> bytes:
        done = result(seen, DONE)
        return http(200, event(done) if is_stream else orjson.dumps(done), kind)

    async with (
        scripted(session(answer)) as server,
        connected(StreamableHttp(server.url, {})) as (connection, kinds),
    ):
        assert await call(connection) == DONE
    assert kinds == ["content-type"]


async def test_json_on_an_event_stream_is_read_with_a_remark() -> None:
    def answer(seen: Seen) -> bytes:
        return stream(orjson.dumps(result(seen, DONE)).decode())

    async with (
        scripted(session(answer)) as server,
        connected(StreamableHttp(server.url, {})) as (connection, kinds),
    ):
        assert await call(connection) == DONE
    assert kinds == ["content-type"]


async def test_an_event_without_its_end_is_read_with_a_remark() -> None:
    async with (
        scripted(session(lambda seen: stream(event(result(seen, DONE)).rstrip()))) as server,
        connected(StreamableHttp(server.url, {})) as (connection, kinds),
    ):
        assert await call(connection) == DONE
    assert kinds == ["unterminated"]


async def test_a_stream_that_ends_within_a_message_is_named() -> None:
    async with (
        scripted(session(lambda seen: stream('data: {"jsonrpc":'))) as server,
        connected(StreamableHttp(server.url, {})) as (connection, _),
    ):
        with pytest.raises(InvalidAnswer, match="ended in the middle of a message"):
            await call(connection)


async def test_a_wrong_content_encoding_is_named() -> None:
    def answer(seen: Seen) -> bytes:
        return json(result(seen, DONE), Content_Encoding="gzip")

    async with (
        scripted(session(answer)) as server,
        connected(StreamableHttp(server.url, {})) as (connection, _),
    ):
        with pytest.raises(HttpError, match="does not match its Content-Encoding"):
            await call(connection)


@pytest.mark.parametrize(
    "refusal",
    [
        http(404, "gone"),
        json({"jsonrpc": "2.0", "id": None, "error": {"code": -32001, "message": "Session not found"}}, 404),
        json(
            {"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": "No valid session ID"}}, 400
        ),
        http(400, "invalid or expired session", "text/plain"),
        http(410, "gone", "text/plain"),
        http(409, "session expired", "text/plain"),
    ],
)
async def test_a_lost_session_is_opened_again(refusal: bytes) -> None:
    opened: list[Seen] = []

    def answer(seen: Seen) -> bytes:
        if not opened:
            opened.append(seen)
            return refusal
        return json(result(seen, DONE))

    async with (
        scripted(session(answer)) as server,
        connected(StreamableHttp(server.url, {})) as (connection, _),
    ):
        assert await call(connection) == DONE
    begun = [seen for seen in server.seen if seen.body and seen.message["method"] == "initialize"]
    assert len(begun) == 2


async def test_another_400_does_not_begin_a_session() -> None:
    refusal = {"jsonrpc": "2.0", "id": None, "error": {"code": -32602, "message": "no such tool"}}
    async with (
        scripted(session(lambda seen: json(refusal, 400))) as server,
        connected(StreamableHttp(server.url, {})) as (connection, _),
    ):
        with pytest.raises(RpcError, match="no such tool"):
            await call(connection)
    assert sum(b'initialize"' in seen.body for seen in server.seen) == 1


@pytest.mark.parametrize("status", [301, 307, 308])
async def test_a_redirect_to_the_same_origin_is_followed_with_a_remark(status: int) -> None:
    serve = session(lambda seen: json(result(seen, DONE)))

    def answer(seen: Seen) -> bytes | None:
        return serve(seen) if seen.path == "/mcp/" else http(status, location="/mcp/")

    async with (
        scripted(answer) as server,
        connected(StreamableHttp(server.url, {"X-Key": "k"})) as (connection, kinds),
    ):
        assert await call(connection) == DONE
    assert kinds == ["redirect"]


@pytest.mark.parametrize("location", ["http://localhost:{port}/mcp/", "https://127.0.0.1:{port}/mcp/"])
async def test_other_redirects_are_not_followed(location: str) -> None:
    def answer(seen: Seen) -> bytes:
        return http(307, location=location.format(port=seen.headers["host"].partition(":")[2]))

    async with (
        scripted(answer) as server,
        connected(StreamableHttp(server.url, {})) as (connection, _),
    ):
        with pytest.raises(HttpError, match="redirects are not followed"):
            await call(connection)
    assert len(server.seen) == 1


async def test_a_stream_that_breaks_is_taken_up_after_its_last_event() -> None:
    def answer(seen: Seen) -> bytes:
        if seen.method == "POST":  # fewer bytes come than are announced
            return stream("retry: 1", "id: 4", "data:", "", "", Content_Length="900", Connection="close")
        done = {"jsonrpc": "2.0", "id": asked[0], "result": DONE}
        return stream("id: 5", event(done))

    asked: list[int] = []

    def noted(seen: Seen) -> bytes:
        asked.extend([seen.message["id"]] if seen.body else [])
        return answer(seen)

    async with (
        scripted(session(noted)) as server,
        connected(StreamableHttp(server.url, {})) as (connection, _),
    ):
        assert await call(connection) == DONE
    assert [seen.headers["last-event-id"] for seen in server.seen if seen.method == "GET"] == ["4"]


async def test_a_stream_that_breaks_without_an_id_fails() -> None:
    async with (
        scripted(session(lambda seen: stream("data:", "", Content_Length="900"))) as server,
        connected(StreamableHttp(server.url, {})) as (connection, _),
    ):
        with pytest.raises(HttpError, match="the connection broke before the answer was complete"):
            await call(connection)


@pytest.mark.parametrize(
    "refuse",
    [
        lambda seen: http(400, "Unsupported protocol version (2025-06-18, 2025-03-26)", "text/plain"),
        lambda seen: json(
            {
                "jsonrpc": "2.0",
                "id": seen.message["id"],
                "error": {
                    "code": -32602,
                    "message": "no",
                    "data": {"supported": ["2025-06-18", "2030-01-01"]},
                },
            }
        ),
    ],
)
async def test_a_refusal_that_names_revisions_is_followed(refuse: Callable[[Seen], bytes]) -> None:
    def answer(seen: Seen) -> bytes | None:
        message = seen.message
        if message["method"] == "initialize" and message["params"]["protocolVersion"] == "2025-06-18":
            return json(result(seen, ABOUT | {"protocolVersion": "2025-06-18"}))
        return refuse(seen) if "id" in message else http(202)

    async with (
        scripted(answer) as server,
        connected(StreamableHttp(server.url, {}), None) as (connection, _),
    ):
        assert (await connection.open()).revision is V2025_06_18
    assert server.seen


PICKY = """
import json, os, sys
for line in sys.stdin:
    asked = json.loads(line)
    if asked["method"] == "server/discover":
        HABIT
    if "id" in asked:
        about = {"protocolVersion": "2025-03-26", "capabilities": {}, "serverInfo": {"name": "p"}}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": about}), flush=True)
"""


@pytest.mark.process
@pytest.mark.parametrize(
    "habit", ["sys.exit(3)", "print('{\"jsonrpc\"', flush=True); os._exit(0)", "continue"]
)
async def test_a_program_that_does_not_bear_the_first_request_gets_a_handshake(
    habit: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if habit == "continue":
        monkeypatch.setattr(child_process, "PROBE_S", 0.05)
    program = ChildProcess(ProgramCommand((sys.executable, "-c", PICKY.replace("HABIT", habit))))
    async with connected(program, None) as (connection, _):
        assert (await connection.open()).revision is V2025_03_26


@pytest.mark.process
async def test_a_program_that_ends_late_on_the_first_request_gets_a_handshake(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(child_process, "PROBE_S", 0.01)
    text = "import time; time.sleep(0.2)" + PICKY.replace("HABIT", "sys.exit(3)")
    program = ChildProcess(ProgramCommand((sys.executable, "-c", text)))
    async with connected(program, None) as (connection, _):
        assert (await connection.open()).revision is V2025_03_26


@pytest.mark.parametrize(
    ("shape", "words"),
    [
        ({"error": "it broke"}, r"it broke \(0\)"),
        ({"error": {"message": "it broke"}}, r"it broke \(0\)"),
        ({"error": {"code": "E_X", "message": "it broke"}}, r"it broke \(E_X\) \(0\)"),
        ({"error": {"code": 1.5, "message": "it broke"}}, r"it broke \(1\.5\) \(0\)"),
        ({"error": {"code": [], "message": "it broke"}}, r"it broke \(\[\]\) \(0\)"),
        ({"error": {"code": -7.0, "message": "it broke"}}, r"it broke \(-7\)"),
        ({"error": {"code": "-7", "message": None, "data": {"detail": "why"}}}, r"why \(-7\)"),
        ({"error": [1], "result": {}}, r"\[1\] \(0\)"),
        ({"error": {"code": 1, "message": "it broke"}, "result": None}, r"it broke \(1\)"),
    ],
)
async def test_errors_of_every_shape_are_told_in_their_words(shape: dict[str, Any], words: str) -> None:
    def answer(seen: Seen) -> bytes:
        return json({"jsonrpc": "2.0", "id": seen.message["id"]} | shape)

    async with (
        scripted(session(answer)) as server,
        connected(StreamableHttp(server.url, {})) as (connection, kinds),
    ):
        with pytest.raises(RpcError, match=words):
            await call(connection)
    assert kinds == ["error-shape"]


async def test_a_null_error_beside_a_result_is_no_error() -> None:
    async with (
        scripted(session(lambda seen: json(result(seen, DONE) | {"error": None}))) as server,
        connected(StreamableHttp(server.url, {})) as (connection, kinds),
    ):
        assert await call(connection) == DONE
    assert kinds == ["error-shape"]


async def test_a_stream_whose_posts_fail_leaves_nothing_to_be_complained_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def answer(seen: Seen) -> bytes:
        if seen.method == "GET":
            return stream("event: endpoint", "data: /wrong", "", "")
        return http(404)

    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
    async with (
        scripted(answer) as server,
        connected(HttpSse(HttpRequests(server.url, {}))) as (connection, _),
    ):
        with pytest.raises(CallError), caplog.at_level(logging.ERROR):
            await call(connection)
    import gc

    gc.collect()
    assert not complaints
