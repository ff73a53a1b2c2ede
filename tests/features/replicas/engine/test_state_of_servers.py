"""A server's state does the same in a file and in the engine: each test runs over both."""

from __future__ import annotations

import asyncio
import gc
import sqlite3
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Protocol

import pytest

from mcpdesk.errors import HandlerError, StorageError
from mcpdesk.features.replicas.engine import engine_database
from mcpdesk.features.replicas.engine.engine import Engine
from mcpdesk.features.replicas.engine.engine_database import EngineDatabase
from mcpdesk.storage import approvals, callbacks, facts, tasks
from mcpdesk.storage.database import Database, Work
from tests.support.engine import EngineServer, deployment, needs_engine, shared_engine

__all__ = ["shared_engine"]


class State(Protocol):
    """Common interface of both stores."""

    async def run(self, work: Work[object]) -> object: ...

    def close(self) -> None: ...


Opener = Callable[[], State]
"""Opens the same state once more, as another process or replica does."""


@pytest.fixture(params=["file", pytest.param("engine", marks=needs_engine)])
async def opened(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Opener]:
    made: list[State] = []
    engines: list[Engine] = []
    if request.param == "engine":
        server: EngineServer = request.getfixturevalue("shared_engine")
        engines.append(Engine(server.url, deployment(tmp_path)))

    def opener() -> State:
        each = EngineDatabase(engines[0], "mine") if engines else Database(tmp_path / "state.sqlite")
        made.append(each)
        return made[-1]

    yield opener
    for state in made:
        state.close()
    for engine in engines:
        await engine.close()


def add(connection: sqlite3.Connection) -> int:
    return connection.execute("INSERT INTO tasks (name, created) VALUES ('tea', 0)").lastrowid or 0


def count(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM tasks").fetchone()[0])


@pytest.mark.process
async def test_what_was_written_is_there_for_the_next_to_open_it(opened: Opener) -> None:
    assert await opened().run(add) == 1
    assert await opened().run(count) == 1


@pytest.mark.process
async def test_work_that_fails_leaves_nothing_behind(opened: Opener) -> None:
    state = opened()

    def work(connection: sqlite3.Connection) -> None:
        add(connection)
        raise HandlerError("no")

    with pytest.raises(HandlerError, match="no"):
        await state.run(work)
    assert await state.run(count) == 0


@pytest.mark.process
async def test_what_two_write_at_the_same_time_is_all_there(opened: Opener) -> None:
    several = [opened() for _ in range(3)]
    numbers = await asyncio.gather(*(state.run(add) for _ in range(10) for state in several))
    assert sorted(numbers) == list(range(1, 31))  # type: ignore[type-var]
    assert [await state.run(count) for state in several] == [30, 30, 30]


@pytest.mark.process
async def test_a_callback_fires_in_one_place_only(opened: Opener) -> None:
    one, two = opened(), opened()
    made = await one.run(lambda c: callbacks.add(c, "tea", 5.0, 2, "ada", 1000.0))
    assert isinstance(made, callbacks.Callback)
    fired = await asyncio.gather(
        *(each.run(lambda c: callbacks.fire(c, made, 1006.0)) for each in (one, two, one))
    )
    assert sorted(fired) == [False, False, True]  # type: ignore[type-var]


@pytest.mark.process
async def test_policies_grants_tasks_and_facts_are_seen_by_the_other(opened: Opener) -> None:
    one, two = opened(), opened()
    await one.run(lambda c: approvals.set_policy(c, "Bash", "deny"))
    await one.run(lambda c: approvals.grant(c, "Edit", "ada", 1.0))
    await one.run(lambda c: facts.set_fact(c, "plan:", "{}"))
    await one.run(add)
    assert await two.run(approvals.policies) == {"Bash": "deny"}
    grants = await two.run(approvals.grants)
    assert [(each.tool, each.peer) for each in grants] == [("Edit", "ada")]  # type: ignore[attr-defined]
    assert await two.run(lambda c: facts.facts(c, "plan:")) == {"": "{}"}
    named = await two.run(lambda c: tasks.named(c, "", 10))
    assert [each.name for each in named] == ["tea"]  # type: ignore[attr-defined]


@pytest.mark.process
async def test_what_is_closed_says_so(opened: Opener) -> None:
    state = opened()
    await state.run(add)
    state.close()
    with pytest.raises(StorageError, match="is closed"):
        await state.run(count)


@pytest.mark.process
@needs_engine
async def test_a_state_that_is_too_large_is_refused_and_stays_as_it_was(
    shared_engine: EngineServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine_database, "MAX_BYTES", 60_000)
    engine = Engine(shared_engine.url, deployment(tmp_path))
    state = EngineDatabase(engine, "mine")
    await state.run(add)
    with pytest.raises(StorageError, match="at most 60000"):
        await state.run(lambda c: facts.set_fact(c, "x", "y" * 70_000))
    assert await state.run(count) == 1
    assert await state.run(lambda c: facts.fact(c, "x")) is None
    state.close()
    await engine.close()


@pytest.mark.process
@needs_engine
async def test_an_answer_that_was_lost_is_not_written_twice(
    shared_engine: EngineServer, tmp_path: Path
) -> None:
    engine = Engine(shared_engine.url, deployment(tmp_path))
    key = engine.key("state", "mine")
    told = ["kind", "from", "facts"]

    async def store(base: int, write: str, writer: str = "me") -> int:
        keys = [key, engine.key("bus"), engine.key("state-writer", writer)]
        stored: int = await engine.script(engine_database.STORE, keys, [base, b"image", write, *told])
        return stored

    assert (await store(0, "a"), await store(0, "a"), await store(0, "b", "you")) == (1, 1, -1)
    assert (await store(1, "c", "you"), await store(0, "a"), await store(1, "d")) == (2, 0, -1)
    assert (await store(2, "d"), await store(2, "d")) == (3, 3)
    await engine.close()


@pytest.mark.process
@needs_engine
async def test_state_that_is_closed_while_the_engine_is_asked_refuses_the_work(
    shared_engine: EngineServer, tmp_path: Path
) -> None:
    engine = Engine(shared_engine.url, deployment(tmp_path))
    loop, complaints = asyncio.get_running_loop(), list[object]()
    loop.set_exception_handler(lambda _, context: complaints.append(context["message"]))
    for is_cancelled in (False, True):
        state = EngineDatabase(engine, "mine")
        running = asyncio.create_task(state.run(add))
        for _ in range(3):  # until the engine is asked
            await asyncio.sleep(0)
        if is_cancelled:
            running.cancel()
        state.close()
        with pytest.raises(asyncio.CancelledError if is_cancelled else StorageError):
            await running
    await engine.close()
    for _ in range(3):
        await asyncio.sleep(0)
    gc.collect()
    assert complaints == []


@pytest.mark.process
@needs_engine
async def test_work_is_stored_once_though_its_reply_was_lost_and_another_replica_wrote_since(
    shared_engine: EngineServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = Engine(shared_engine.url, deployment(tmp_path))
    one, two = EngineDatabase(engine, "mine"), EngineDatabase(engine, "mine")
    script, stores = engine.script, 0

    async def lossy(source: str, keys: Sequence[str], arguments: Sequence[object] = ()) -> object:
        """Run the first write twice, as after a lost reply, and let the other replica write in between."""
        nonlocal stores
        result = await script(source, keys, arguments)
        stores += source == engine_database.STORE
        if source == engine_database.STORE and stores == 1:
            await two.run(add)
            result = await script(source, keys, arguments)
        return result

    monkeypatch.setattr(engine, "script", lossy)
    assert await one.run(add) == 1
    assert await one.run(count) == await two.run(count) == 2
    assert await one.run(add) == 3
    for state in (one, two):
        state.close()
    await engine.close()
