"""Clients of every kind, each on a separate connection. They record wrong answers as complaints.

Each calls at least once, however late it gets its connection.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import aiohttp

from tests.load.tally import Tally
from tests.support.messages import request

REVISION = "2025-11-25"
HELLO = {"protocolVersion": REVISION, "capabilities": {}, "clientInfo": {"name": "load", "version": "1"}}
BOTH = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
Work: TypeAlias = Coroutine[Any, Any, None]
POLL_S = 0.1
LATEST_S = 60.0
"""Longest duration of any step."""


@asynccontextmanager
async def line() -> AsyncIterator[aiohttp.ClientSession]:
    """A client that keeps one connection."""
    connector = aiohttp.TCPConnector(limit=1, force_close=False)
    timeout = aiohttp.ClientTimeout(total=LATEST_S)
    async with aiohttp.ClientSession(connector=connector, timeout=timeout) as client:
        yield client


async def post(
    client: aiohttp.ClientSession, url: str, message: dict[str, Any], headers: dict[str, str] = BOTH
) -> tuple[Any, str]:
    """Answer to a message (the last one of a stream), and its session."""
    async with client.post(url, data=json.dumps(message), headers=headers) as answer:
        session = answer.headers.get("Mcp-Session-Id", "")
        if answer.content_type == "text/event-stream":
            events = (await answer.text()).split("\n")
            return json.loads([event for event in events if event.startswith("data: {")][-1][6:]), session
        return json.loads(await answer.read() or b"{}"), session


async def shake_hands(client: aiohttp.ClientSession, url: str) -> dict[str, str]:
    """Open a session and return its headers."""
    _, session = await post(client, url, request("initialize", HELLO))
    headers = BOTH | {"Mcp-Session-Id": session, "MCP-Protocol-Version": REVISION}
    await post(client, url, {"jsonrpc": "2.0", "method": "notifications/initialized"}, headers)
    return headers


def call(text: str, number: int) -> dict[str, Any]:
    """A call whose answer contains its own text; every tenth one reports progress."""
    params: dict[str, Any] = {"name": "echo", "arguments": {"text": text}}
    if not number % 10:
        params["_meta"] = {"progressToken": number}
    return request("tools/call", params, number)


def check(tally: Tally, answer: Any, text: str) -> None:
    """Count an answer, or complain."""
    content = (answer.get("result") or {}).get("content") or [{}]
    if content[0].get("text") == text:
        tally.answered += 1
    else:
        tally.complain(f"{text} was answered with {answer}")


async def sessionless(url: str, name: str, tally: Tally, pause_s: float, over: asyncio.Event) -> None:
    """Call without a session, as curl would, over one kept connection."""
    await _posting(url, name, tally, pause_s, over, in_session=False)


async def in_session(url: str, name: str, tally: Tally, pause_s: float, over: asyncio.Event) -> None:
    """Call in a session, without its standing stream."""
    await _posting(url, name, tally, pause_s, over, in_session=True)


async def _posting(
    url: str, name: str, tally: Tally, pause_s: float, over: asyncio.Event, *, in_session: bool
) -> None:
    async with line() as client:
        headers = await shake_hands(client, url) if in_session else BOTH
        number = 0
        while not number or not over.is_set():
            number += 1
            text = f"{name} {number}"
            tally.asked += 1
            check(tally, (await post(client, url, call(text, number), headers))[0], text)
            await rest(over, pause_s)
        if in_session:
            await _leave(client, url, headers)


async def on_a_socket(url: str, name: str, tally: Tally, pause_s: float, over: asyncio.Event) -> None:
    """Call over a WebSocket."""
    async with line() as client, client.ws_connect(f"{url}/ws", max_msg_size=0) as socket:
        await socket.send_json(request("initialize", HELLO))
        await socket.receive_json()
        await socket.send_json({"jsonrpc": "2.0", "method": "notifications/initialized"})
        number = 0
        while not number or not over.is_set():
            number += 1
            text = f"{name} {number}"
            tally.asked += 1
            await socket.send_json(call(text, number))
            async with asyncio.timeout(LATEST_S):
                while (answer := await socket.receive_json()).get("id") != number:
                    pass
            check(tally, answer, text)
            await rest(over, pause_s)


async def tasks(url: str, name: str, tally: Tally, over: asyncio.Event) -> None:
    """Make one call after the other that outlives its request, as a task of the protocol."""
    async with line() as client:
        headers = await shake_hands(client, url)
        number = 0
        while not number or not over.is_set():
            number += 1
            text = f"{name} {number}"
            tally.jobs_begun += 1
            params = {"name": "work", "arguments": {"text": text}, "task": {"ttl": 10_000}}
            begun, _ = await post(client, url, request("tools/call", params), headers)
            task = {"taskId": begun["result"]["task"]["taskId"]}
            status = "working"
            while status == "working":
                await asyncio.sleep(POLL_S)
                seen, _ = await post(client, url, request("tasks/get", task), headers)
                status = seen["result"]["status"]
            answer, _ = await post(client, url, request("tasks/result", task), headers)
            _count_job(tally, answer, text)
        await _leave(client, url, headers)


async def jobs(base: str, server: str, name: str, tally: Tally, over: asyncio.Event) -> None:
    """Make one call after the other that continues as a job of the gateway."""
    async with line() as client:
        number = 0
        while not number or not over.is_set():
            number += 1
            text = f"{name} {number}"
            tally.jobs_begun += 1
            params = {"name": "work", "arguments": {"text": text}, "mode": "async"}
            begun, _ = await post(client, f"{base}/v1/mcp?server={server}", request("tools/call", params))
            state = begun["result"]
            while state.get("status") in ("accepted", "queued", "running"):
                await asyncio.sleep(POLL_S)
                state = await _state(client, base + begun["result"]["poll"])
            _count_job(tally, state, text)


async def _leave(client: aiohttp.ClientSession, url: str, headers: dict[str, str]) -> None:
    async with client.delete(url, headers=headers):
        pass


async def _state(client: aiohttp.ClientSession, url: str) -> Any:
    async with client.get(url) as answer:
        return await answer.json()


def _count_job(tally: Tally, answer: Any, text: str) -> None:
    if f'"{text}"' in json.dumps(answer):
        tally.jobs_done += 1
    else:
        tally.complain(f"the job {text} ended as {answer}")


async def rest(over: asyncio.Event, seconds: float) -> None:
    """Wait `seconds`, or until `over` is set."""
    try:
        await asyncio.wait_for(over.wait(), seconds)
    except TimeoutError:
        return
