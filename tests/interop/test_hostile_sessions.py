"""Abandoned sessions, guessed ids, unread streams: each is limited, refused or forgotten."""

from __future__ import annotations

import asyncio
import gc
import secrets
from typing import Any

import orjson
import pytest

from mcpdesk.protocol.event_store import TOTAL_FACTOR
from mcpdesk.server.calls.context import Context
from mcpdesk.server.calls.conversation import Conversation
from mcpdesk.server.offer.tool import Tool
from mcpdesk.transports.base import Rules
from mcpdesk.transports.http import connections as listening
from mcpdesk.transports.http import event_stream
from mcpdesk.transports.http.sessions import http_sessions
from tests.support.patience import WITHIN_S, until, within
from tests.support.rude import connected, posted
from tests.support.site import Served, serving

MANY = 10_000
AT_A_TIME = 100
INITIALIZE = orjson.dumps(
    {"jsonrpc": "2.0", "id": 0, "method": "initialize",
     "params": {"protocolVersion": "2025-11-25", "capabilities": {}}}
)  # fmt: skip


async def opened(served: Served, count: int) -> list[bytes]:
    """Open `count` sessions over one connection; return their ids."""
    identifiers = []
    async with connected(served) as (reader, writer):
        for _ in range(count // AT_A_TIME):
            writer.write(posted(INITIALIZE) * AT_A_TIME)
            for _ in range(AT_A_TIME):
                size = 0
                while line := (await reader.readline()).strip():
                    name, _, value = line.partition(b": ")
                    if name.lower() == b"mcp-session-id":
                        identifiers.append(value)
                    size = int(value) if name.lower() == b"content-length" else size
                await reader.readexactly(size)
    return identifiers


def kept(served: Served) -> http_sessions.HttpSessions:
    return served.service._mcp.sessions


def conversations() -> int:
    gc.collect()
    return sum(isinstance(each, Conversation) for each in gc.get_objects())


@pytest.mark.slow
async def test_ten_thousand_sessions_opened_and_left_are_bounded_and_expire(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_sessions, "SWEEP_S", 0.05)
    async with serving(Rules(max_sessions=2_000, session_ttl_s=3600)) as served:
        before = conversations()
        identifiers = await opened(served, MANY)
        assert len(set(identifiers)) == MANY
        assert len(kept(served)) == 2_000
        assert conversations() <= before + 2_000 + 10
        assert (await served.modern("tools/list")).status == 200
        kept(served).ttl_s = 0.0
        await until(lambda: not len(kept(served)))
        assert kept(served).event_budget.size == 0
        assert conversations() <= before + 10
        assert len(served.hosted.dialogues) <= 10
        assert len(served.peer.services.subscriptions) == 0


@pytest.mark.slow
async def test_what_all_sessions_keep_stays_within_one_bound() -> None:
    async with serving(Rules(resume_bytes=1_000)) as served:
        for _ in range(200):
            await served.session()
        for number in range(20):
            served.peer.server.tools.replace([Tool(f"a{number}", None, {"type": "object"})])  # type: ignore[arg-type]
        bound = 1_000 * TOTAL_FACTOR
        assert 0 < kept(served).event_budget.size <= bound
        for session in list(kept(served)._sessions.values()):
            assert session.events.size <= 1_000
            kept(served).end(session, "over")
        assert kept(served).event_budget.size == 0


async def test_guessed_sessions_are_nobodys() -> None:
    async with serving() as served:
        headers = await served.session()
        known = headers["Mcp_Session_Id"]
        guesses = [
            known[:-1] + ("A" if known[-1] != "A" else "B"), known.swapcase(), known + "A", known[:-1],
            known * 2, "0", "1", " ", "*", "null", "../" + known, "%00", secrets.token_urlsafe(24),
        ]  # fmt: skip
        ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        for guess in guesses:
            answer = await served.post(ping, **(headers | {"Mcp_Session_Id": guess}))
            assert answer.status == 404, guess
            named = {"Mcp-Session-Id": guess, "Accept": "text/event-stream"}
            for verb in ("GET", "DELETE"):
                refused = await served.client.request(verb, f"{served.url}/mcp/sample", headers=named)
                assert refused.status == (404 if guess.strip() else 405), guess
        assert (await served.post(ping, **headers)).status == 200


async def test_events_of_another_session_cannot_be_asked_for() -> None:
    async with serving() as served:
        tool = Tool("secret", _secret, {"type": "object"})
        served.peer.server.tools.replace([tool])
        owner, thief = await served.session(), await served.session()
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
        params = {"name": "secret", "_meta": {"progressToken": 1}}
        await (await served.post(call | {"params": params}, **owner)).text()
        named = {name.replace("_", "-"): value for name, value in thief.items()} | {
            "Accept": "text/event-stream"
        }
        for last in (
            "1:0",
            "1:1",
            "2:0",
            "999999999:0",
            "1:999999999",
            "-1:0",
            "1",
            ":",
            "1:0:0",
            "١:٠",
            "9" * 50,
        ):
            answer = await served.client.get(
                f"{served.url}/mcp/sample", headers=named | {"Last-Event-ID": last.encode().decode("latin-1")}
            )
            assert answer.status == 400, last
            assert b"hidden" not in await answer.read()


async def test_guessed_cursors_are_refused_and_show_nothing() -> None:
    async with serving() as served:
        for cursor in ("", "0", "100", "WzEwMF0=", "e30=", "bnVsbA==", "W251bGwsbnVsbCxudWxsXQ==", "\ud800"):
            params = {"cursor": cursor.encode("utf-8", "replace").decode()}
            answer = await served.modern("tools/list", params)
            assert (await answer.json())["error"]["code"] == -32602, cursor
        huge = "WzEwMDAwMDAwMDAwMDAwMDAwMDAsImEiLCJiIl0="
        body = await (await served.modern("tools/list", {"cursor": huge})).json()
        assert body.get("result", {}).get("tools", []) == []


@pytest.mark.requirement("4.9")
async def test_ending_a_session_ends_its_streams_and_calls() -> None:
    async with serving() as served:
        headers = await served.session()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        standing = await served.client.get(
            f"{served.url}/mcp/sample", headers=named | {"Accept": "text/event-stream"}
        )
        began, ended = asyncio.Event(), asyncio.Event()

        async def forever(arguments: dict[str, Any], context: Context) -> Any:
            try:
                await context.progress(1)
                began.set()
                await asyncio.Event().wait()
            finally:
                ended.set()

        served.peer.server.tools.replace([Tool("forever", forever, {"type": "object"})])
        params = {"name": "forever", "_meta": {"progressToken": 1}}
        call = await served.post(
            {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, **headers
        )
        async with within():
            await began.wait()
            assert (await served.client.delete(f"{served.url}/mcp/sample", headers=named)).status == 204
            await ended.wait()
            await standing.text()
            assert '"result"' not in await call.text()
        again = await served.post({"jsonrpc": "2.0", "id": 2, "method": "ping"}, **headers)
        assert again.status == 404
        assert kept(served).event_budget.size == 0


async def test_streams_nobody_reads_do_not_hold_up_the_end() -> None:
    async with serving() as served:
        headers = await served.session()
        named = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        head = f"GET /mcp/sample HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/event-stream\r\n{named}\r\n"
        async with connected(served) as (reader, writer):
            writer.write(head.encode())
            assert b"200" in await reader.readline()
            async with within():
                await served.service.close()


async def test_listeners_who_do_not_read_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "UNREAD_LIMIT", 64 << 10)
    monkeypatch.setattr(listening, "SWEEP_S", 0.05)
    body = orjson.dumps(
        {"jsonrpc": "2.0", "id": "s" * 50_000, "method": "subscriptions/listen",
         "params": {"notifications": {"promptsListChanged": True},
                    "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                              "io.modelcontextprotocol/clientCapabilities": {}}}}
    )  # fmt: skip
    named = b"MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\n"
    async with serving() as served:
        subscriptions = served.peer.services.subscriptions
        streams = [connected(served) for _ in range(10)]
        for each in streams:
            _, writer = await each.__aenter__()
            writer.write(posted(body, named))
        await until(lambda: len(subscriptions) == 10)
        prompts = list(served.peer.server.prompts)
        async with within(within_s=4 * WITHIN_S):
            while len(subscriptions):
                served.peer.server.prompts.replace(prompts[:0])
                served.peer.server.prompts.replace(prompts)
                assert (await served.modern("tools/list")).status == 200
        for each in streams:
            await each.__aexit__(None, None, None)


async def _secret(arguments: dict[str, Any], context: Context) -> Any:
    await context.progress(1, message="hidden")
    return "hidden"


async def test_ended_sessions_and_connections_leave_at_once_not_when_garbage_is_collected() -> None:
    async with serving() as served:
        await served.post({"jsonrpc": "2.0", "id": 1, "method": "ping"})
        before = conversations()
        gc.disable()
        try:
            for _ in range(5):
                await served.session()
            for session in list(kept(served)._sessions.values()):
                kept(served).end(session, "over")
            del session
            for _ in range(5):
                async with connected(served) as (reader, writer):
                    writer.write(posted(b'{"jsonrpc":"2.0","id":1,"method":"ping"}'))
                    await reader.readline()
            await until(lambda: len(served.hosted.dialogues) <= 1)
            left = sum(isinstance(each, Conversation) for each in gc.get_objects())
        finally:
            gc.enable()
        assert left <= before
