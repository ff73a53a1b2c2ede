"""Rounds of two replicas over one engine: each runs once, also if a replica is cut off or ends."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mcpdesk.errors import StorageError
from mcpdesk.features.replicas.engine.engine import Engine
from mcpdesk.features.replicas.engine.engine_rounds import EngineRounds
from mcpdesk.server.asks.answered_rounds import OPERATION_ENDED
from mcpdesk.server.asks.rounds import ROUND_LOST
from mcpdesk.server.offer.tool import Tool
from tests.server.test_repeated_rounds import Paying, began, params_of, send
from tests.support.asked_client import ADA, Asked
from tests.support.engine import EngineServer, deployment, needs_engine, shared_engine
from tests.support.messages import text_of

__all__ = ["shared_engine"]

pytestmark = [needs_engine, pytest.mark.process]

SECRET = b"s" * 32


@asynccontextmanager
async def replicas(server: EngineServer, path: Path) -> AsyncIterator[tuple[Engine, Asked, Asked]]:
    """Two replicas `a` and `b` with valid leases; the returned engine is that of `a`."""
    engines = [Engine(server.url, deployment(path)) for _ in "ab"]
    peers = [Asked(Stepwise()) for _ in "ab"]
    for mark, engine, peer in zip("ab", engines, peers, strict=True):
        peer.services.mark, peer.services.shared_rounds = mark, EngineRounds(engine, mark)
        peer.services._request_state_keys = lambda: [SECRET]
        await lease(engine, mark, time.time() + 600)
    try:
        yield engines[0], peers[0], peers[1]
    finally:
        for peer in peers:
            peer.services.rounds.close()
        for engine in engines:
            await engine.close()


async def lease(engine: Engine, mark: str, until: float) -> None:
    await engine.run(lambda client: client.zadd(engine.key("leases"), {mark: until}))


class Stepwise(Paying):
    """Has a tool with two questions as well."""

    def __init__(self) -> None:
        super().__init__()
        self.server.tools.replace([*self.server.tools, Tool("steps", self.steps, {"type": "object"})])


def paid(peer: Asked) -> list[str]:
    assert isinstance(peer.asking, Paying)
    return peer.asking.paid


async def test_a_parked_round_does_not_run_without_its_claim(
    shared_engine: EngineServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with replicas(shared_engine, tmp_path) as (engine, here, other):
        asked = await here.round(1, "pay")
        asking: Any = other.asking
        asking.may_end.set()

        async def away(*_: object) -> None:
            raise StorageError("the engine is away")

        with monkeypatch.context() as patched:
            patched.setattr(engine, "script", away)
            refused = await here.round(2, "pay", **params_of(asked))
            assert refused["error"]["message"] == "the engine is away" and paid(here) == []
        # In the meantime another replica ran it.
        await lease(engine, "a", 0.0)
        assert text_of(await other.round(3, "pay", **params_of(asked))) == "paid 1"
        again = await here.round(4, "pay", **params_of(asked))
        assert again["error"]["message"] == OPERATION_ENDED and paid(here) == []


async def test_a_round_whose_replica_ended_in_the_middle_is_refused(
    shared_engine: EngineServer, tmp_path: Path
) -> None:
    async with replicas(shared_engine, tmp_path) as (engine, here, other):
        asked = await here.round(1, "pay")
        send(here, 2, params_of(asked))
        asking: Any = here.asking
        await began(asking)
        await lease(engine, "a", 0.0)
        refused = await other.round(3, "pay", **params_of(asked))
        assert refused["error"] == {"code": -32603, "message": ROUND_LOST} and paid(other) == []
        asking.may_end.set()
        assert text_of(await here.response(2)) == "paid 1"
        assert (await other.round(4, "pay", **params_of(asked)))["error"]["message"] in (
            ROUND_LOST,
            OPERATION_ENDED,
        )
        assert paid(other) == []


async def test_a_round_that_ended_with_a_question_runs_again_at_another_replica(
    shared_engine: EngineServer, tmp_path: Path
) -> None:
    async with replicas(shared_engine, tmp_path) as (engine, here, other):
        asked = await here.round(1, "steps")
        first = params_of(asked, tool="steps")
        (key,) = asked["result"]["inputRequests"]
        first["inputResponses"] = {key: ADA}
        del first["name"]
        assert list((await here.round(2, "steps", **first))["result"]["inputRequests"]) != [key]
        await lease(engine, "a", 0.0)
        again = await other.round(3, "steps", **first)
        assert again["result"]["resultType"] == "input_required"


async def test_the_first_request_that_still_waits_gets_the_progress_of_a_round(
    shared_engine: EngineServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with replicas(shared_engine, tmp_path) as (_, here, _):
        asked = await here.round(1, "pay")
        claims = here.services.shared_rounds
        assert claims is not None
        claim, is_asked, may_claim = claims.claim, asyncio.Event(), asyncio.Event()

        async def slow(state: str, ttl_s: float) -> str:
            is_asked.set()
            await may_claim.wait()
            return await claim(state, ttl_s)

        monkeypatch.setattr(claims, "claim", slow)
        send(here, 2, params_of(asked), progressToken="first")
        send(here, 3, params_of(asked), progressToken="second")
        await is_asked.wait()
        here.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 2}})
        send(here, 4, {"name": "nothing"})
        assert (await here.response(4))["error"]["code"] == -32602  # what came before has been taken
        may_claim.set()
        asking: Any = here.asking
        await began(asking)
        asking.may_end.set()
        assert text_of(await here.response(3)) == "paid 1"
        sent = [each["params"] for each in here.received if each.get("method") == "notifications/progress"]
        assert [each["progressToken"] for each in sent] == ["second", "second"]
