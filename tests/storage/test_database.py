"""A state file keeps confirmed data, whatever other processes use it and however the process ends."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import stat
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from mcpdesk.errors import StorageError
from mcpdesk.storage.database import MIGRATIONS, Database

WRITER = """
import asyncio, sys
from pathlib import Path
from mcpdesk.storage.database import Database

async def main():
    data = Database(Path(sys.argv[1]))
    for number in range(1_000_000):
        name = f"{sys.argv[2]} {number}"
        await data.run(lambda c: c.execute("INSERT INTO tasks (name, created) VALUES (?, 0)", (name,)))
        print(name, flush=True)

asyncio.run(main())
"""
"""A program that adds rows without end, and prints each confirmed one."""


@pytest.fixture
async def data(tmp_path: Path) -> AsyncIterator[Database]:
    database = Database(tmp_path / "deep" / "state.sqlite")
    yield database
    database.close()


def add(connection: sqlite3.Connection) -> int:
    return connection.execute("INSERT INTO tasks (name, created) VALUES ('tea', 0)").lastrowid or 0


def names(connection: sqlite3.Connection) -> list[str]:
    return [name for (name,) in connection.execute("SELECT name FROM tasks ORDER BY id")]


def writer(path: Path, word: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", WRITER, path, word], stdout=subprocess.PIPE, text=True)


async def test_what_was_written_is_there_for_the_next_to_open_the_file(data: Database) -> None:
    assert await data.run(add) == 1
    again = Database(data.path)
    assert await again.run(names) == ["tea"]
    again.close()


async def test_a_commit_waits_for_the_journal_only_and_references_are_checked(data: Database) -> None:
    def options(connection: sqlite3.Connection) -> list[object]:
        names = ("journal_mode", "synchronous", "foreign_keys")
        return [connection.execute(f"PRAGMA {name}").fetchone()[0] for name in names]

    assert await data.run(options) == ["wal", 1, 1]


async def test_who_asked_hears_of_changes_and_of_nothing_else(tmp_path: Path) -> None:
    writes: list[int] = []
    data = Database(tmp_path / "state.sqlite", on_change=lambda: writes.append(1))
    await data.run(names)
    assert writes == []
    await data.run(add)
    assert writes == [1]
    with pytest.raises(StorageError):
        await data.run(lambda connection: (add(connection), connection.execute("nonsense")))
    await data.run(names)
    data.close()
    assert writes == [1]


async def test_only_its_owner_may_read_it(data: Database) -> None:
    await data.run(add)
    for path in [data.path, *data.path.parent.glob("*-wal")]:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_work_that_fails_leaves_nothing_behind(data: Database) -> None:
    def fail(connection: sqlite3.Connection) -> None:
        add(connection)
        raise LookupError("on purpose")

    with pytest.raises(LookupError):
        await data.run(fail)
    assert await data.run(names) == []


def garbage(path: Path) -> None:
    path.write_bytes(b"a letter to a friend, and nothing else at all" * 50)


def cut_off(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def overwritten(path: Path) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\x07" * (len(whole) - 4096))


def emptied_beside_its_journal(path: Path) -> None:
    path.write_bytes(b"")
    path.with_name(f"{path.name}-wal").write_bytes(b"what was not taken over")


@pytest.mark.parametrize("harm", [garbage, cut_off, overwritten, emptied_beside_its_journal])
async def test_a_damaged_file_is_set_aside_and_a_new_one_begun(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    path = tmp_path / "state.sqlite"
    before = Database(path)
    await before.run(lambda connection: [add(connection) for _ in range(5_000)])
    before.close()
    harm(path)
    damaged = path.read_bytes()
    told: list[str] = []
    data = Database(path, report=told.append)
    assert await data.run(add) == 1
    assert await data.run(names) == ["tea"]
    (aside,) = (one for one in tmp_path.glob("*.damaged-*") if not one.name.endswith(("-wal", "-shm")))
    assert aside.read_bytes() == damaged
    assert len(told) == 1 and str(aside) in told[0] and str(path) in told[0]
    data.close()


async def test_two_that_find_the_same_damage_set_it_aside_once(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    garbage(path)
    told: list[str] = []
    both = [Database(path, report=told.append) for _ in range(8)]
    assert {*await asyncio.gather(*(each.run(add) for each in both))} == {*range(1, 9)}
    assert len(told) == 1 and len(list(tmp_path.glob("*.damaged-*"))) == 1
    for each in both:
        each.close()


async def test_an_empty_file_is_simply_begun(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    path.write_bytes(b"")
    told: list[str] = []
    data = Database(path, report=told.append)
    assert await data.run(add) == 1
    data.close()
    assert told == [] and [one.name for one in tmp_path.glob("*.damaged-*")] == []


@pytest.mark.parametrize("code", [sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_READONLY])
async def test_a_file_that_only_cannot_be_written_now_stays_where_it_is(data: Database, code: int) -> None:
    await data.run(add)

    def fail(connection: sqlite3.Connection) -> None:
        error = sqlite3.OperationalError("not now")
        error.sqlite_errorcode = code
        raise error

    with pytest.raises(StorageError, match="not now"):
        await data.run(fail)
    assert await data.run(names) == ["tea"]
    assert not list(data.path.parent.glob("*.damaged-*"))


@pytest.mark.process
async def test_a_journal_left_by_a_killed_process_is_taken_over(tmp_path: Path) -> None:
    child = writer(tmp_path / "state.sqlite", "left")
    assert child.stdout is not None
    confirmed = [child.stdout.readline().strip() for _ in range(20)]
    child.kill()
    child.communicate()
    told: list[str] = []
    data = Database(tmp_path / "state.sqlite", report=told.append)
    assert set(await data.run(names)) >= set(confirmed) and told == []
    data.close()


async def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    blocked = Database(tmp_path / "taken" / "state.sqlite")
    with pytest.raises(StorageError, match="taken"):
        await blocked.run(names)
    blocked.close()


async def test_a_file_of_a_newer_version_is_left_alone(data: Database) -> None:
    await data.run(add)
    older = Database(data.path, MIGRATIONS[:0])
    with pytest.raises(StorageError, match="newer mcpdesk"):
        await older.run(names)
    older.close()
    assert await data.run(names) == ["tea"]


async def test_a_file_of_an_older_version_is_brought_up_and_keeps_what_it_holds(data: Database) -> None:
    await data.run(add)
    newer = Database(data.path, (*MIGRATIONS, "ALTER TABLE tasks ADD COLUMN colour TEXT"))
    assert await newer.run(names) == ["tea"]
    newer.close()


@pytest.mark.slow
async def test_nothing_confirmed_is_lost_to_a_process_that_is_killed_again_and_again(data: Database) -> None:
    confirmed: list[str] = []
    for round_ in range(5):
        child = writer(data.path, f"round {round_}")
        assert child.stdout is not None
        confirmed += [child.stdout.readline().strip() for _ in range(20)]
        os.kill(child.pid, signal.SIGKILL)
        confirmed += child.stdout.read().split("\n")[:-1]
        child.wait()
        child.stdout.close()
    kept = set(await data.run(names))
    assert kept >= {name for name in confirmed if name}
    assert (await data.run(lambda c: c.execute("PRAGMA integrity_check").fetchone())) == ("ok",)


@pytest.mark.slow
async def test_two_processes_write_to_one_file(data: Database) -> None:
    children = [writer(data.path, word) for word in ("left", "right")]
    confirmed = set()
    for child in children:
        assert child.stdout is not None
        confirmed |= {child.stdout.readline().strip() for _ in range(50)}
    for child in children:
        child.kill()
        child.communicate()
    assert set(await data.run(names)) >= confirmed


class Contended(sqlite3.Connection):
    """A connection whose first statements fail at once, because another process creates the file."""

    refusals = 3

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        """Refused a few times."""
        if arguments[0].startswith("PRAGMA journal_mode") and self.refusals:
            self.refusals -= 1
            error = sqlite3.OperationalError("database is locked")
            error.sqlite_errorcode = sqlite3.SQLITE_BUSY
            raise error
        return super().execute(*arguments)


async def test_a_file_that_another_process_is_just_making_is_waited_for(
    data: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = partial(sqlite3.connect, factory=Contended)
    monkeypatch.setattr("mcpdesk.storage.database.sqlite3.connect", connect)
    assert await data.run(add) == 1
    never = Database(data.path.with_name("never.sqlite"))
    monkeypatch.setattr("mcpdesk.storage.database.BUSY_TIMEOUT_S", 0.0)
    with pytest.raises(StorageError, match="locked"):
        await never.run(add)
    never.close()


async def test_many_may_make_a_file_at_once(data: Database) -> None:
    everybody = [Database(data.path) for _ in range(8)]
    assert {*await asyncio.gather(*(each.run(add) for each in everybody))} == {*range(1, 9)}
    for each in everybody:
        each.close()
