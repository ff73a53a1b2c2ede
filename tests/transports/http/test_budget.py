"""Large bodies share one budget, and give back what they held."""

from __future__ import annotations

import asyncio
import gc
import weakref

import orjson
import pytest
from aiohttp import web

from mcpdesk.transports.base import Rules
from mcpdesk.transports.http import body as module
from mcpdesk.transports.http.connections import HttpConnections
from tests.support.rude import HEAD, WITHIN_S, all_of, connected, posted, turn
from tests.support.site import serving

LARGE = 1 << 20


def large(size: int = LARGE) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": "y" * size}})


async def test_what_is_held_is_bounded_and_given_back_once() -> None:
    pool = HttpConnections(no_answer, lambda: Rules(max_bodies_bytes=10))
    first, second = pool(), pool()
    assert second.hold(1)
    assert [first.hold(6), first.hold(6), first.hold(3)] == [True, False, True]
    for _ in range(2):
        first.end()
        assert pool.budget.held == 1


async def no_answer(request: web.BaseRequest) -> web.StreamResponse:
    raise AssertionError(request)


@pytest.mark.parametrize("header", [b"Expect: 100-continue\r\n", b"Content-Encoding: identity\r\n"])
async def test_a_body_that_came_whole_is_held_no_longer_than_its_request(header: bytes) -> None:
    ping = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'
    async with serving() as served, connected(served) as (reader, writer):
        listener = served.service._listener
        assert listener is not None
        async with asyncio.timeout(WITHIN_S):
            for _ in range(3):
                writer.write(posted(ping, header))
                await reader.readuntil(b'"result":{}}')
                while listener.budget.held:
                    await turn()


async def test_unfinished_bodies_are_bounded_together_and_given_back() -> None:
    async with serving(Rules(max_bodies_bytes=4 * LARGE)) as served:
        listener = served.service._listener
        assert listener is not None
        body = large()
        holding = [connected(served) for _ in range(2)]
        for each in holding:
            _, writer = await each.__aenter__()
            writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body[:-1])
        async with asyncio.timeout(WITHIN_S):
            while listener.budget.held < 2 * LARGE:
                await turn()
        async with connected(served) as (reader, writer):
            writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            assert b"200" in await reader.readline()
        async with connected(served) as (reader, writer):
            much = large(3 * LARGE)
            writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % len(much) + much)
            answer = await all_of(reader)
            assert answer.startswith(b"HTTP/1.1 503") and b"max_bodies_bytes" in answer
        assert (await served.modern("tools/list")).status == 200
        for each in holding:
            await each.__aexit__(None, None, None)
        async with asyncio.timeout(WITHIN_S):
            while listener.budget.held:
                await turn()


class Held(bytearray):
    """A body that can be watched."""


async def test_a_body_that_broke_off_is_not_kept_by_its_error(monkeypatch: pytest.MonkeyPatch) -> None:
    held: list[weakref.ref[Held]] = []

    def watched() -> Held:
        body = Held()
        held.append(weakref.ref(body))
        return body

    monkeypatch.setattr(module, "bytearray", watched, raising=False)
    gc.collect()
    gc.disable()
    try:
        async with serving() as served:
            listener = served.service._listener
            assert listener is not None
            async with connected(served) as (_, writer):
                writer.write(HEAD + b"Content-Length: %d\r\n\r\n" % (2 * LARGE) + b"z" * LARGE)
                async with asyncio.timeout(WITHIN_S):
                    while listener.budget.held < LARGE:
                        await turn()
            async with asyncio.timeout(WITHIN_S):
                while listener.budget.held:
                    await turn()
            assert held and all(alive() is None for alive in held)
    finally:
        gc.enable()
