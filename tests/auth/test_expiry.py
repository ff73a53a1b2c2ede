"""Everything opened with a token ends with it: streams of every kind, over real sockets, and their work."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace
from typing import Any, TypeAlias, TypeVar

import aiohttp
import orjson
import pytest

from mcpdesk.auth import principal as module
from mcpdesk.auth.principal import KEY, OPEN, Principal, until_expired
from tests.support.callers import JSON, call, checking, good_headers, guarding
from tests.support.features import having
from tests.support.patience import WITHIN_S, in_time, within
from tests.support.site import Served, events
from tests.support.tokens import token

T = TypeVar("T")
Headers: TypeAlias = dict[str, str]
STREAM = {"Accept": "text/event-stream"}
LEEWAY_S = 10
"""Seconds after its end for which these servers still accept a token."""
CLOSED = 1008, "the token has expired"


class TooLate(Exception):
    """The token expired before the stream was opened."""


async def with_short_token(opened: Callable[[Headers], Awaitable[T]]) -> T:
    """Result of a stream whose token expires while it is open; the stream must not end sooner."""
    lasts_s = 1.0
    while True:
        ends = time.time() + lasts_s
        text = token("RS256", header={"kid": "RS256-first"}, exp=ends - LEEWAY_S)
        try:
            async with within(within_s=lasts_s + WITHIN_S):
                came = await opened({"Authorization": f"Bearer {text}"})
        except TooLate:  # on a busy machine
            lasts_s *= 2
            continue
        assert time.time() >= ends
        return came


async def whole(answer: aiohttp.ClientResponse) -> str:
    """All of a stream. Raises if it ends without HTTP's end mark."""
    if answer.status == 401:
        raise TooLate
    assert (answer.status, answer.content_type) == (200, "text/event-stream")
    return await answer.text()


async def closing(served: Served, path: str, headers: Headers) -> tuple[int | None, str]:
    """Close code and reason of a WebSocket that the server closed."""
    try:
        async with served.client.ws_connect(served.url + path, headers=headers) as socket:
            while True:
                message = await socket.receive()
                if message.type is not aiohttp.WSMsgType.TEXT:
                    return socket.close_code, str(message.extra)
    except aiohttp.WSServerHandshakeError as refused:
        assert refused.status == 401
        raise TooLate from None


async def begun(served: Served) -> str:
    """Start a job that does not end; return its id."""
    message = call("forever") | {"params": {"name": "forever", "arguments": {}, "mode": "async"}}
    answer = await served.client.post(f"{served.url}/v1/mcp", json=message, headers=good_headers())
    return str((await answer.json())["result"]["job_id"])


async def session(served: Served) -> Headers:
    """Header of a session opened with a lasting token."""
    client = {"name": "t", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client}
    message = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}
    answer = await served.post(message, **good_headers())
    return {"Mcp-Session-Id": answer.headers["Mcp-Session-Id"]}


async def standing(served: Served, headers: Headers) -> Any:
    known = await session(served)
    answer = await served.client.get(f"{served.url}/mcp/sample", headers=known | STREAM | headers)
    await whole(answer)
    again = await served.client.get(f"{served.url}/mcp/sample", headers=known | STREAM | headers)
    return again.status


async def resumed(served: Served, headers: Headers) -> Any:
    more = await session(served) | STREAM | headers | {"Last-Event-ID": "0:0"}
    return "still here" in await whole(await served.client.get(f"{served.url}/mcp/sample", headers=more))


async def listening(served: Served, headers: Headers) -> Any:
    asked = {"notifications": {"toolsListChanged": True}}
    answer = await served.modern("subscriptions/listen", asked, identifier="s", **headers)
    told = events(await whole(answer))
    return [each.get("method", each.get("id")) for each in told]


async def oldest(served: Served, headers: Headers) -> Any:
    answer = await served.client.get(f"{served.url}/mcp/sample/sse", headers=STREAM | headers)
    text = await whole(answer)
    where = text.partition("data: ")[2].partition("\n")[0]
    ping = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"})
    gone = await served.client.post(served.url + where, data=ping, headers=JSON | good_headers())
    return gone.status


async def progress(served: Served, headers: Headers) -> Any:
    path = f"/v1/mcp/progress/{await begun(served)}?interval_ms=10"
    told = events(await whole(await served.client.get(served.url + path, headers=headers)))
    return {each["status"] for each in told} - {"queued"}


async def of_a_job(served: Served, headers: Headers) -> Any:
    return await closing(served, f"/ws/jobs/{await begun(served)}", headers)


async def plain(served: Served, headers: Headers) -> Any:
    return await closing(served, "/mcp/sample/ws", headers)


async def dialect(served: Served, headers: Headers) -> Any:
    return await closing(served, "/v1/ws/mcp", headers)


ENDS: dict[Callable[[Served, Headers], Awaitable[Any]], Any] = {
    standing: 401,
    resumed: True,
    listening: ["notifications/subscriptions/acknowledged", "s"],
    oldest: 404,
    plain: CLOSED,
}
ENDS |= having("gateway", (progress, {"running"}), (of_a_job, CLOSED), (dialect, CLOSED))
"""Each kind of stream, and what its client is left with."""


@pytest.mark.slow
@pytest.mark.requirement("11.1")
async def test_every_stream_ends_with_the_token_it_was_opened_with() -> None:
    async with guarding(checking()) as served:
        lasting = [asyncio.ensure_future(each(served, good_headers())) for each in ENDS]
        ended = await asyncio.gather(*(with_short_token(partial(each, served)) for each in ENDS))
        assert dict(zip(ENDS, ended, strict=True)) == ENDS
        assert not any(each.done() for each in lasting)
        for each in lasting:
            each.cancel()
        await asyncio.wait(lasting)
        await served.peer.services.jobs.stop()


# The block


def test_callers_without_a_token_cost_nothing() -> None:
    for principal in (OPEN, KEY):
        assert isinstance(until_expired(principal), nullcontext)


async def test_a_clock_that_was_set_counts_more_than_the_time_that_passed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [1_000.0]
    monkeypatch.setattr(module, "time", SimpleNamespace(time=lambda: now[0]))
    monkeypatch.setattr(module, "MAX_CLOCK_CHECK_S", 0.01)
    entered = asyncio.Event()

    async def wait() -> None:
        async with until_expired(Principal("token", expires=5_000.0)):
            entered.set()
            await asyncio.Event().wait()

    waiting = asyncio.create_task(wait())
    await entered.wait()
    now[0] = 6_000.0
    await in_time(waiting)


async def test_what_ends_a_block_otherwise_is_not_hidden() -> None:
    caller = Principal("token", expires=time.time() + 3600)
    with pytest.raises(TimeoutError, match="its own"):
        async with until_expired(caller):
            raise TimeoutError("its own")
    entered = asyncio.Event()

    async def wait() -> None:
        async with until_expired(caller):
            entered.set()
            await asyncio.Event().wait()

    waiting = asyncio.create_task(wait())
    await entered.wait()
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
