"""Bodies behind known heads may come in pieces, within the budget and in time."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp.test_utils import make_mocked_request

from mcpdesk.transports.base import Rules
from mcpdesk.transports.http import listener
from mcpdesk.transports.http.arriving import Arriving
from mcpdesk.transports.http.budget import Budget, Holding
from mcpdesk.transports.http.head import Head
from mcpdesk.transports.http.repeated import Known
from tests.support.patience import WITHIN_S
from tests.support.rude import all_of, connected, posted, turn
from tests.support.site import serving

LIST = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'


def arriving(size: int, budget: Budget) -> Arriving:
    return Arriving(Known(b"", Head(make_mocked_request("POST", "/")), size, None), Holding(budget))


def test_pieces_make_a_whole_and_what_follows_is_left() -> None:
    budget = Budget(lambda: 100)
    body = arriving(5, budget)
    assert body.take(b"ab") == b""
    assert not body.is_whole
    assert body.take(b"cdefg") == b"fg"
    assert body.is_whole and body.body() == b"abcde"
    assert budget.held == 5
    body.give_back()
    assert not budget.held


def test_what_is_too_much_beside_others_is_not_taken() -> None:
    budget = Budget(lambda: 6)
    first, second = arriving(5, budget), arriving(5, budget)
    assert first.take(b"1234") == b""
    assert second.take(b"123") is None
    assert budget.held == 4
    second.give_back()
    assert budget.held == 4


async def test_a_body_that_stops_behind_a_known_head_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(listener, "SWEEP_S", 0.05)
    whole = posted(LIST)
    async with serving(Rules(request_timeout_s=0.2)) as served, connected(served) as (reader, writer):
        writer.write(whole)
        assert b"200" in await reader.readline()
        writer.write(whole[:-5])
        answer = await all_of(reader)
        assert b"HTTP/1.1 408 " in answer and b"request_timeout_s" in answer
        assert served.service._listener is not None and not served.service._listener.budget.held


async def test_a_connection_lost_within_a_body_gives_back_what_it_held() -> None:
    whole = posted(LIST)
    async with serving() as served:
        budget = served.service._listener.budget  # type: ignore[union-attr]
        async with connected(served) as (reader, writer):
            writer.write(whole)
            assert b"200" in await reader.readline()
            writer.write(whole[:-5])
            async with asyncio.timeout(WITHIN_S):
                while budget.held != len(LIST) - 5:
                    await turn()
        async with asyncio.timeout(WITHIN_S):
            while budget.held:
                await turn()
