"""Large bodies share one budget, and give back what they held."""

from __future__ import annotations

import asyncio
import gc
import weakref

import orjson
import pytest

from mcpdesk.transports.base import Rules
from mcpdesk.transports.http import body as module
from mcpdesk.transports.http.budget import Budget
from tests.support.rude import HEAD, WITHIN_S, all_of, connected, turn
from tests.support.site import serving

LARGE = 1 << 20


def large(size: int = LARGE) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": {"x": "y" * size}})


async def test_what_a_task_took_is_given_back_when_it_is_over() -> None:
    budget = Budget(lambda: 10)

    async def work() -> list[bool]:
        holding = budget.holding()
        return [holding.take(6), holding.take(6), holding.take(4)]

    assert await asyncio.create_task(work()) == [True, False, True]
    await asyncio.sleep(0)
    assert budget.held == 0


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
