"""The era of a server is detected once, newest first; each era is then used as specified."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from mcpdesk.bridge.client import IDENTITY
from mcpdesk.client.connection import ServerConnection
from mcpdesk.client.http_transports import StreamableHttp
from mcpdesk.client.subscriptions.resource_watch import ResourceWatch
from mcpdesk.errors import HttpError, InvalidAnswer, RpcError
from tests.support.patience import until, within
from tests.support.scripted import (
    DISCOVERED,
    Answerer,
    Scripted,
    Seen,
    event,
    http,
    json,
    modern,
    result,
    stream,
)
from tests.support.scripted import scripted as serving

UNSUPPORTED = {
    "code": -32022,
    "message": "Unsupported protocol version",
    "data": {"supported": ["2025-11-25"]},
}
UNKNOWN = {"code": -32601, "message": "Method not found"}


Meet = Callable[[Scripted], Awaitable[ServerConnection]]


@pytest.fixture
async def met() -> AsyncIterator[Meet]:
    """Opens connections, and closes them after the test."""
    opened: list[ServerConnection] = []

    async def meeting(server: Scripted) -> ServerConnection:
        transport = StreamableHttp(server.url, {"Authorization": "Bearer t"})
        opened.append(ServerConnection(transport, IDENTITY))
        async with within():
            await opened[-1].open()
        return opened[-1]

    yield meeting
    for connection in opened:
        await connection.close()


async def value(connection: ServerConnection, method: str, params: dict[str, Any]) -> dict[str, Any]:
    """The result of a request, unchecked."""
    return (await connection.request(method, params)).value()


NO_REVISIONS: list[Any] = [[], "2025-06-18", None]
"""Revisions in a discovery that lists none."""


def handshake(
    answer: Answerer, refusal: Any = None, version: Any = "2025-11-25", session: str = "s1"
) -> Answerer:
    """A server of the older era; `refusal` is its answer to the newer one."""

    def all_of_it(seen: Seen) -> bytes | None:
        method = seen.message.get("method") if seen.body else ""
        if method == "server/discover":
            return (
                refusal if isinstance(refusal, bytes) else json({"jsonrpc": "2.0", "id": 1, "error": UNKNOWN})
            )
        if method == "initialize":
            told = {
                "protocolVersion": version,
                "capabilities": {},
                "serverInfo": {"name": "old", "version": "1"},
            }
            more: dict[str, Any] = {"Mcp_Session_Id": session} if session else {}
            return json(result(seen, told | {"instructions": "Slowly."}), **more)
        if method == "notifications/initialized":
            return http(202)
        return answer(seen)

    return all_of_it


async def test_stateless_server_is_asked_once_and_every_request_stands_alone(met: Meet) -> None:
    async with serving(modern(lambda seen: json(result(seen, {"a": 1})))) as server:
        connection = await met(server)
        assert await value(connection, "tools/call", {"name": "größe"}) == {"a": 1}
        settled = await connection.open()
        await connection.close()
    assert settled.revision.is_stateless
    assert settled.server == {"name": "script", "version": "1"} and settled.instructions == "Be kind."
    asked, called = server.seen
    assert asked.headers["mcp-method"] == "server/discover"
    assert called.headers["mcp-protocol-version"] == "2026-07-28"
    assert called.headers["mcp-method"] == "tools/call"
    assert called.headers["mcp-name"] == "=?base64?Z3LDtsOfZQ==?="
    assert called.headers["authorization"] == "Bearer t"
    assert "mcp-session-id" not in called.headers
    meta = called.message["params"]["_meta"]
    assert meta["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
    assert meta["io.modelcontextprotocol/clientCapabilities"] == {}
    assert meta["io.modelcontextprotocol/clientInfo"]["name"] == "mcpdesk-bridge"


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "refusal",
    [
        json({"jsonrpc": "2.0", "id": 1, "error": UNKNOWN}),
        json({"jsonrpc": "2.0", "id": 1, "error": UNKNOWN}, 404),
        json({"jsonrpc": "2.0", "id": None, "error": {"code": -32000, "message": "no session"}}, 400),
        json({"jsonrpc": "2.0", "id": 1, "error": UNSUPPORTED}, 400),
        json({"jsonrpc": "2.0", "id": 1, "result": DISCOVERED | {"supportedVersions": ["2025-06-18"]}}),
        http(400, "Bad Request: no session", "text/plain"),
        http(400),
        http(405),
        http(406, "x", "text/html"),
        http(415),
        *map(http, (403, 500, 501, 503)),
        *(
            json({"jsonrpc": "2.0", "id": 1, "result": DISCOVERED | {"supportedVersions": listed}})
            for listed in NO_REVISIONS
        ),
    ],
)
async def test_any_other_refusal_leads_to_a_handshake(refusal: bytes, met: Meet) -> None:
    async with serving(handshake(lambda seen: json(result(seen, {"b": 2})), refusal)) as server:
        connection = await met(server)
        assert await value(connection, "tools/list", {}) == {"b": 2}
        settled = await connection.open()
    assert not settled.revision.is_stateless
    assert settled.server["name"] == "old" and settled.instructions == "Slowly."
    opened, done, listed = server.seen[1:]
    assert opened.message["params"]["protocolVersion"] == "2025-11-25"
    assert "_meta" not in opened.message["params"] and "mcp-protocol-version" not in opened.headers
    assert done.message == {"jsonrpc": "2.0", "method": "notifications/initialized"}
    for seen in (done, listed):
        assert seen.headers["mcp-session-id"] == "s1"
        assert seen.headers["mcp-protocol-version"] == "2025-11-25"


@pytest.mark.parametrize(
    ("version", "header"), [("2024-11-05", None), ("2025-03-26", None), ("2025-06-18", "2025-06-18")]
)
async def test_revision_the_server_chose_is_spoken(version: str, header: str | None, met: Meet) -> None:
    async with serving(handshake(lambda seen: json(result(seen, {})), None, version, "")) as server:
        connection = await met(server)
        await value(connection, "tools/list", {})
        assert (await connection.open()).revision.name == version
    assert server.seen[-1].headers.get("mcp-protocol-version") == header
    assert "mcp-session-id" not in server.seen[-1].headers


@pytest.mark.parametrize("version", ["1999-01-01", "2026-07-28", "", None, 5])
async def test_revision_nobody_knows_is_taken_for_the_nearest_one(version: Any, met: Meet) -> None:
    def answer(seen: Seen) -> bytes:
        return json(result(seen, {"tools": []}))

    async with serving(handshake(answer, None, version)) as server:
        connection = await met(server)
        assert (await connection.open()).revision.name == "2025-11-25"
        assert await value(connection, "tools/list", {}) == {"tools": []}
    named = version if version and isinstance(version, str) else "2025-11-25"
    assert server.seen[-1].headers["mcp-protocol-version"] == named


@pytest.mark.parametrize(
    ("refusal", "status"),
    [(json({"error": "no"}, 401), 401), (http(302), 302)],
)
async def test_refusals_that_say_nothing_of_the_era_are_told(refusal: bytes, status: int, met: Meet) -> None:
    async with serving(lambda seen: refusal) as server:
        with pytest.raises(HttpError) as caught:
            await met(server)
    assert caught.value.status == status
    assert len(server.seen) == 1


@pytest.mark.parametrize("status", [403, 500, 503])
async def test_a_server_that_refuses_the_probe_and_the_handshake_is_reported(status: int, met: Meet) -> None:
    async with serving(lambda seen: http(status)) as server:
        with pytest.raises(HttpError) as caught:
            await met(server)
    assert caught.value.status == status
    assert [each.message["method"] for each in server.seen] == ["server/discover", "initialize"]


async def test_server_of_a_later_revision_alone_is_told_with_both_lists(met: Meet) -> None:
    discovered = DISCOVERED | {"supportedVersions": ["2031-01-01"]}
    async with serving(lambda seen: json(result(seen, discovered))) as server:
        with pytest.raises(InvalidAnswer, match=r"2031-01-01, this client 2024-11-05"):
            await met(server)


async def test_session_the_server_forgot_is_opened_again_once(met: Meet) -> None:
    forgotten = {"s1"}

    def answer(seen: Seen) -> bytes:
        known = seen.headers["mcp-session-id"] not in forgotten
        return json(result(seen, {"again": True})) if known else json({"error": "unknown session"}, 404)

    names = iter(["s1", "s2", "s3"])

    def everything(seen: Seen) -> bytes | None:
        if seen.body and seen.message.get("method") == "initialize":
            return handshake(answer, session=next(names))(seen)
        return handshake(answer)(seen)

    async with serving(everything) as server:
        connection = await met(server)
        found = await asyncio.gather(*(value(connection, "tools/list", {}) for _ in range(3)))
        assert found == [{"again": True}] * 3
        assert sum(seen.message["method"] == "initialize" for seen in server.seen) == 2
        forgotten |= {"s2", "s3"}
        with pytest.raises(HttpError) as caught:
            await value(connection, "tools/list", {})
        assert caught.value.status == 404


async def test_questions_of_the_server_are_answered_on_the_way(met: Meet) -> None:
    ping = {"jsonrpc": "2.0", "id": "p", "method": "ping"}
    ask = {"jsonrpc": "2.0", "id": "q", "method": "roots/list"}

    def answer(seen: Seen) -> bytes:
        if "method" not in seen.message:
            return http(202)
        return stream(event(ping), event(ask), event(result(seen, {"done": True})))

    async with serving(handshake(answer)) as server:
        connection = await met(server)
        assert await value(connection, "tools/call", {"name": "x"}) == {"done": True}
        await connection.close()  # waits for the answers to arrive
    answers = {
        seen.message["id"]: seen.message for seen in server.seen if seen.body and "method" not in seen.message
    }
    assert answers["p"] == {"jsonrpc": "2.0", "id": "p", "result": {}}
    assert answers["q"]["error"]["code"] == -32601


async def test_cancelled_request_of_a_session_is_told_to_the_server(met: Meet) -> None:
    called = asyncio.Event()

    def answer(seen: Seen) -> bytes | None:
        if seen.method == "DELETE":
            return http(200)
        if seen.message["method"] == "notifications/cancelled":
            return http(202)
        called.set()
        return None

    async with serving(handshake(answer)) as server, within():
        connection = await met(server)
        work = asyncio.create_task(value(connection, "tools/call", {"name": "x"}))
        await called.wait()
        work.cancel()
        await asyncio.wait([work])
        await connection.close()
    told = server.seen[-2].message
    assert told["method"] == "notifications/cancelled"
    assert told["params"]["requestId"] == server.seen[-3].message["id"]
    assert server.seen[-1].method == "DELETE"
    assert server.seen[-1].headers["mcp-session-id"] == "s1"


async def test_cancelled_stateless_request_closes_its_connection(met: Meet) -> None:
    called = asyncio.Event()

    def answer(seen: Seen) -> None:
        called.set()

    async with serving(modern(answer)) as server, within():
        connection = await met(server)
        work = asyncio.create_task(value(connection, "tools/call", {"name": "x"}))
        await called.wait()
        work.cancel()
        await asyncio.wait([work])
        await server.left.wait()
        await connection.close()
    assert len(server.seen) == 2


async def test_session_ends_even_when_the_server_is_gone(met: Meet) -> None:
    async with serving(handshake(lambda seen: json(result(seen, {})))) as server:
        connection = await met(server)
    async with within():
        await connection.close()


async def test_error_of_the_handshake_is_the_servers(met: Meet) -> None:
    def answer(seen: Seen) -> bytes:
        return json(
            {"jsonrpc": "2.0", "id": seen.message["id"], "error": {"code": -32602, "message": "too old"}}
        )

    async with serving(answer) as server:
        with pytest.raises(RpcError, match="too old"):
            await met(server)


async def test_session_hears_what_belongs_to_no_request_on_a_stream_that_is_resumed(met: Meet) -> None:
    streams: list[Seen] = []

    def answer(seen: Seen) -> bytes:
        if seen.method == "DELETE":
            return http(200)
        if seen.method == "POST":
            return json(result(seen, {}))
        streams.append(seen)
        if len(streams) == 3:
            return http(405)
        updated = {"method": "notifications/resources/updated", "params": {"uri": "a://"}}
        whole = event({"jsonrpc": "2.0"} | updated)
        return stream("retry: 1", f"id: a:{len(streams)}", whole, "id: a:9", "data: cut of")

    async with serving(handshake(answer)) as server, within():
        watch = ResourceWatch(await met(server))
        watch.add("a://")
        await until(lambda: len(streams) == 3)
        assert watch.updates == {"a://": 2}
    assert [seen.headers.get("last-event-id") for seen in streams] == [None, "a:1", "a:2"]
    assert {seen.headers["mcp-session-id"] for seen in streams} == {"s1"}
