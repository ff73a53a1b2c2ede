"""Records of jobs do the same in a state file and in the engine: each test runs over both."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from mcpdesk.features.replicas.engine.engine import Engine
from mcpdesk.features.replicas.engine.engine_jobs import EngineJobTable
from mcpdesk.protocol.task_shapes import TaskStatus
from mcpdesk.storage.database import Database
from mcpdesk.storage.job_table import ErrorRecord, FileJobTable, JobRecord, JobRow, JobTable
from tests.support.engine import EngineServer, deployment, needs_engine, shared_engine

__all__ = ["shared_engine"]

LEASE_S = 60.0
Tables = Callable[[str], JobTable]
"""The table as a holder of that name uses it."""


class Holders:
    """Living holders: in the engine by their lease, otherwise by `dead`."""

    def __init__(self, engine: Engine | None) -> None:
        self.dead: set[str] = set()
        self._engine = engine

    async def die(self, name: str) -> None:
        """Mark a holder as dead."""
        self.dead.add(name)
        if (engine := self._engine) is not None:
            await engine.run(lambda client: client.zadd(engine.key("leases"), {name: 0}))

    def lives(self, name: str) -> bool:
        return name not in self.dead


@pytest.fixture(params=["file", pytest.param("engine", marks=needs_engine)])
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Tables, Holders]]:
    if request.param == "engine":
        server: EngineServer = request.getfixturevalue("shared_engine")
        engine = Engine(server.url, deployment(tmp_path))
        holders = Holders(engine)
        yield lambda name: EngineJobTable(engine, "mine", name, holders.lives, LEASE_S), holders
        await engine.close()
    else:
        data = Database(tmp_path / "state.sqlite")
        holders = Holders(None)
        yield lambda name: FileJobTable(data, name, holders.lives), holders
        data.close()


def row(identifier: str, holder: str, status: TaskStatus = TaskStatus.WORKING, fence: int = 1) -> JobRow:
    record = JobRecord("ada", "dig", "curl", "", 100.0, 101.0, 100.5, 3600.0, status, fence=fence)
    return JobRow(identifier, holder, record)


async def one(table: JobTable, identifier: str) -> JobRow | None:
    """The record of one job."""
    (found,) = await table.find([identifier])
    return found


@pytest.mark.process
async def test_a_record_is_found_as_it_was_written(place: tuple[Tables, Holders]) -> None:
    table = place[0]("a")
    full = row("j1", "a", TaskStatus.FAILED)
    error = ErrorRecord(-32000, "no", {"exit_code": 3})
    record = replace(full.record, stdout="deep", error=error, progress=(1.0, 2.0, "half"), request=b"x")
    full = JobRow("j1", "a", record)
    assert await table.write([full, row("j2", "a")], ()) == set()
    assert await one(table, "j1") == full
    assert await one(place[0]("b"), "j1") == full
    assert await table.find(["none", "j1"]) == [None, full]
    assert await table.write([], ["j1"]) == set()
    assert await one(table, "j1") is None


@pytest.mark.process
async def test_those_of_an_owner_are_listed_oldest_first(place: tuple[Tables, Holders]) -> None:
    one, other = place[0]("a"), place[0]("b")
    young, bobs = row("young", "a"), row("bobs", "a")
    young = JobRow("young", "a", replace(young.record, created=200.0))
    bobs = JobRow("bobs", "a", replace(bobs.record, owner="bob"))
    await one.write([young, bobs], ())
    await other.write([row("old", "b")], ())
    assert [each.id for each in await one.rows("ada")] == ["old", "young"]
    assert [each.id for each in await other.rows("bob")] == ["bobs"]
    await one.write([], ["young"])
    assert [each.id for each in await other.rows("ada")] == ["old"]


@pytest.mark.process
async def test_what_a_dead_holder_left_is_taken_over_once(place: tuple[Tables, Holders]) -> None:
    tables, holders = place
    await tables("a").write([row("runs", "a"), row("done", "a", TaskStatus.COMPLETED)], ())
    assert await tables("b").claim() == []
    await holders.die("a")
    claims = await asyncio.gather(*(tables(name).claim() for name in ("b", "c", "b", "c")))
    (claimed,) = [each for found in claims for each in found]
    assert (claimed.id, claimed.record.fence) == ("runs", 2)
    assert await tables("c").claim() == [] == await tables("b").claim()
    found = await one(tables("c"), "runs")
    assert found is not None and (found.holder, found.record.fence) == (claimed.holder, 2)


@pytest.mark.process
async def test_who_was_taken_for_dead_cannot_write_its_job_any_more(place: tuple[Tables, Holders]) -> None:
    tables, holders = place
    late = tables("a")
    await late.write([row("runs", "a")], ())
    await holders.die("a")
    (claimed,) = await tables("b").claim()
    ended = row("runs", "a", TaskStatus.COMPLETED)
    assert await late.write([ended, row("mine", "a")], ()) == {"runs"}
    assert await one(late, "mine") is not None
    final = JobRow("runs", "b", replace(claimed.record, status=TaskStatus.COMPLETED, stdout="of b"))
    assert await tables("b").write([final], ()) == set()
    assert await late.write([ended], ()) == {"runs"}
    assert await one(late, "runs") == final


@pytest.mark.process
async def test_an_end_that_is_written_stays_one(place: tuple[Tables, Holders]) -> None:
    table = place[0]("a")
    final = row("j", "a", TaskStatus.COMPLETED)
    await table.write([row("j", "a")], ())
    await table.write([final], ())
    assert await table.write([row("j", "a")], ()) == set()
    assert await one(table, "j") == final


@pytest.mark.process
async def test_a_job_changes_hands_as_often_as_holders_die(place: tuple[Tables, Holders]) -> None:
    tables, holders = place
    await tables("a").write([row("j", "a")], ())
    for fence, (dead, heir) in enumerate((("a", "b"), ("b", "c"), ("c", "d")), 2):
        await holders.die(dead)
        (claimed,) = await tables(heir).claim()
        assert (claimed.holder, claimed.record.fence) == (heir, fence)


async def test_ends_of_dead_holders_and_jobs_of_its_own_are_left_for_a_core(tmp_path: Path) -> None:
    data, holders = Database(tmp_path / "state.sqlite"), Holders(None)
    other, own = (FileJobTable(data, name, holders.lives) for name in ("a", "b"))
    done = row("done", "a", TaskStatus.COMPLETED)
    await other.write([row("runs", "a"), done], ())
    await own.write([row("own", "b")], ())
    assert await own.restorable() == [row("own", "b")]
    await holders.die("a")
    assert sorted(await own.restorable(), key=lambda each: each.id) == [done, row("own", "b")]
    data.close()


@pytest.mark.process
@needs_engine
async def test_a_replica_finds_what_it_took_over_without_hearing_of_it(
    shared_engine: EngineServer, tmp_path: Path
) -> None:
    engine = Engine(shared_engine.url, deployment(tmp_path))
    table = EngineJobTable(engine, "mine", "a", lambda name: True, LEASE_S)
    await table.write([row("j", "a"), row("over", "a", TaskStatus.CANCELLED)], ())
    assert await table.running() == {"j"}
    (again,) = await table.reclaim(await table.running())
    assert (again.id, again.holder, again.record.fence) == ("j", "a", 2)
    assert await table.write([row("j", "a")], ()) == {"j"}
    await engine.close()
