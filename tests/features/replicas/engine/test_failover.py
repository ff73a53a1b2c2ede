"""An engine that hands over to its replica during scripts, and machines whose clocks differ."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from mcpdesk.features.replicas.engine.engine import Engine, EngineUnavailable
from mcpdesk.features.replicas.engine.engine_database import EngineDatabase
from mcpdesk.storage import facts
from tests.load.faults import EngineLine
from tests.support.engine import EngineServer, deployment, engine_server, needs_engine, shared_engine
from tests.support.patience import until

__all__ = ["shared_engine"]

pytestmark = needs_engine


@pytest.mark.slow
async def test_what_was_confirmed_before_and_after_a_failover_is_there_once(tmp_path: Path) -> None:
    with engine_server() as first, engine_server() as second:
        second.ask("REPLICAOF", "127.0.0.1", str(first.port))
        await until(lambda: "master_link_status:up" in second.ask("INFO", "replication"))
        line = EngineLine(first.port)
        engine = Engine(f"redis://127.0.0.1:{await line.start()}/0", deployment(tmp_path))
        await engine.start()
        state, confirmed, is_over = EngineDatabase(engine, "mine"), list[str](), asyncio.Event()

        async def write() -> None:
            number = 0
            while not is_over.is_set():
                number += 1
                try:
                    await state.run(lambda c, key=f"key-{number}": facts.set_fact(c, key, "kept"))  # type: ignore[misc]
                    confirmed.append(f"key-{number}")
                except EngineUnavailable:
                    await asyncio.sleep(0.05)

        writing = asyncio.create_task(write())
        await until(lambda: len(confirmed) > 20)
        # It refuses until it knows that the replica has everything.
        await until(lambda: "OK" in first.ask("FAILOVER", "TO", "127.0.0.1", str(second.port)))
        await until(lambda: "role:master" in second.ask("INFO", "replication"))
        line.turn_to(second.port)
        before = len(confirmed)
        await until(lambda: len(confirmed) > before + 20)
        is_over.set()
        await writing
        kept = await state.run(lambda c: facts.facts(c, "key-"))
        assert set(confirmed) <= {f"key-{number}" for number in kept}
        state.close()
        await engine.close()
        await line.close()


@pytest.mark.process
async def test_machines_with_other_clocks_take_the_time_of_the_engine(
    shared_engine: EngineServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    true = time.time
    monkeypatch.setattr("mcpdesk.features.replicas.engine.engine.time.time", lambda: true() + 3600)
    late = Engine(shared_engine.url, deployment(tmp_path))
    await late.start()
    assert abs(late.clock() - true()) < 5
    await late.close()
