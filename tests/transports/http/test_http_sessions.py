"""Sessions end when unused, make room, and keep undelivered messages."""

from __future__ import annotations

import asyncio
import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from mcpdesk.auth.principal import Principal
from mcpdesk.errors import StorageError
from mcpdesk.protocol.handshake import SessionState
from mcpdesk.transports.base import Rules
from mcpdesk.transports.http.sessions import http_sessions, session_records, stored_sessions
from mcpdesk.transports.http.sessions.http_sessions import HttpSession, HttpSessions
from mcpdesk.transports.http.sessions.session_records import SessionRecord, SessionRecords, hash_id, seal
from mcpdesk.transports.http.sessions.stored_sessions import StoredSessions
from tests.support.blocking import blocking_calls
from tests.support.patience import WITHIN_S, until, within
from tests.support.served import Peer
from tests.support.site import serving


async def test_an_unused_session_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_sessions, "SWEEP_S", 0.01)
    kept = HttpSessions(ttl_s=0.0)
    session = HttpSession(Peer().endpoint, "t")
    kept.add(session)
    await until(lambda: session.is_closed)
    assert len(kept) == 0


async def test_the_longest_unused_session_makes_room() -> None:
    kept = HttpSessions(ttl_s=60, max_sessions=2)
    endpoint = Peer().endpoint
    first, second, third = (HttpSession(endpoint, "t") for _ in range(3))
    kept.add(first)
    kept.add(second)
    assert kept.get(first.id, endpoint.name) is first
    kept.add(third)
    assert second.is_closed
    assert kept.get(second.id, endpoint.name) is None
    assert kept.get(first.id, "another") is None
    kept.close()
    assert first.is_closed
    assert {each.conversation.transport for each in endpoint.dialogues.values()} == {"memory"}


async def test_sessions_in_use_make_no_room_and_a_new_one_is_told() -> None:
    async with serving(Rules(max_sessions=1)) as served:
        headers = await served.session()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        named["Accept"] = "text/event-stream"
        async with served.client.get(f"{served.url}/mcp/sample", headers=named):
            params = {"protocolVersion": "2025-11-25", "capabilities": {}}
            body = {"jsonrpc": "2.0", "id": 4, "method": "initialize", "params": params}
            refused = await served.post(body)
            assert (refused.status, (await refused.json())["id"]) == (503, 4)
            assert "max_sessions" in await refused.text()
        assert (await served.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, **headers)).status == 200


@pytest.mark.requirement("4.7", "12.3")
async def test_ids_cannot_be_guessed_and_are_plain_ascii() -> None:
    endpoint = Peer().endpoint
    identifiers = {HttpSession(endpoint, "t").id for _ in range(50)}
    assert len({each[:8] for each in identifiers}) == len({each[-8:] for each in identifiers}) == 50
    assert all(len(each) >= 32 and all("!" <= char <= "~" for char in each) for each in identifiers)


def record(name: str, **more: Any) -> SessionRecord:
    """A record of a session that was used just now."""
    state = SessionState({"protocolVersion": "2025-11-25"}, True)
    values = {"used": time.time(), "server": "place", "owner": seal(name, "", ""), "restarts": 0}
    return SessionRecord(hash_id(name), **{**values, "state": state, **more})


Opened = Callable[[Path], SessionRecords]


@pytest.fixture
def opened() -> Iterator[Opened]:
    """Makes records of sessions in a folder, which are closed after the test."""
    with ExitStack() as closing:

        def made(folder: Path) -> SessionRecords:
            records = SessionRecords(folder, 60)
            closing.callback(records.close, (), ())
            return records

        yield made


def left(folder: Path, *records: SessionRecord) -> None:
    """Write the records that a process leaves at its end."""
    SessionRecords(folder, 60).close(records, ())


def taken(records: SessionRecords, wanted: SessionRecord) -> SessionRecord | None:
    return records.claim(wanted.id, wanted.server, [wanted.owner])


def test_a_session_is_taken_by_one_process_alone_once_its_own_has_ended(
    tmp_path: Path, opened: Opened
) -> None:
    first = record("first")
    living, other, third = (opened(tmp_path) for _ in range(3))
    living.write([first])
    assert taken(other, first) is None
    living.close((), ())
    assert other.claim(first.id, "other_processes", [first.owner]) is None
    assert other.claim(first.id, first.server, [seal("first", "ada", "")]) is None
    assert taken(other, first) == replace(first, restarts=1)
    assert taken(third, first) is taken(other, first) is None
    other.write((), [first.id])
    other.close((), ())
    assert taken(third, first) is None
    # Nothing is left of the processes that ended.
    assert not [path for path in tmp_path.glob("*.lock") if path.name.startswith(f"{os.getpid()}-")][1:]


def test_what_cannot_be_written_costs_nobody_elses_session(tmp_path: Path, opened: Opened) -> None:
    nested: dict[str, Any] = {}
    for _ in range(20_000):
        nested = {"x": nested}
    deep = record("deep", state=SessionState({"capabilities": nested}))
    lone = record("lone", state=SessionState({"clientInfo": {"name": "\ud800"}}))
    name = "x" * session_records.MAX_STATE_BYTES
    long = record("long", state=SessionState({"clientInfo": {"name": name}}))
    usual = record("usual")
    left(tmp_path, deep, lone, long, usual)
    records = opened(tmp_path)
    assert taken(records, usual)
    assert not any(taken(records, each) for each in (deep, lone, long))


def test_a_damaged_file_is_replaced(tmp_path: Path, opened: Opened) -> None:
    left(tmp_path, record("lost"))
    path = tmp_path / session_records.FILE_NAME
    path.write_bytes(b"damaged" * 1_000)
    records, usual = opened(tmp_path), record("usual")
    assert taken(records, record("lost")) is None
    records.write([usual])
    records.close((), ())
    assert taken(opened(tmp_path), usual)


def test_a_disk_that_fails_is_told_of_once_and_written_when_it_can_be(
    tmp_path: Path, opened: Opened, caplog: pytest.LogCaptureFixture
) -> None:
    folder, one, two = tmp_path / "sessions", record("one"), record("two")
    folder.touch()
    records = opened(folder)
    with caplog.at_level(logging.WARNING):
        records.write([one])
        records.write([two])
    assert len(caplog.records) == 1
    folder.unlink()
    records.close((), ())
    next_process = opened(folder)
    assert taken(next_process, one) and taken(next_process, two)


def test_a_session_that_was_not_used_for_long_is_not_found(tmp_path: Path, opened: Opened) -> None:
    old = record("old", used=time.time() - 100)
    left(tmp_path, old)
    assert taken(opened(tmp_path), old) is None


INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "wire", "version": "1"},
    },
}
HOLDER = """
import sqlite3, sys
held = sqlite3.connect(sys.argv[1], isolation_level=None)
held.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
sys.stdin.read()
"""


@asynccontextmanager
async def locked(path: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """Another process has the file for itself until the block ends."""
    holder = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLDER, str(path), stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None and holder.stdin is not None
    try:
        assert await holder.stdout.readline() == b"held\n"
        yield holder
    finally:
        holder.stdin.close()
        await holder.wait()


@pytest.mark.process
async def test_a_locked_file_holds_up_nobody(tmp_path: Path) -> None:
    folder = tmp_path / session_records.FOLDER
    left(folder, record("other"))
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    async with (
        serving(state_dir=tmp_path) as served,
        within(),
        locked(folder / session_records.FILE_NAME) as holder,
    ):
        asking = [served.post(ping, Mcp_Session_Id=f"{number:048x}") for number in range(40)]
        unknown = await asyncio.gather(*asking)
        assert {each.status for each in unknown} == {404}
        assert (await served.client.get(f"{served.url}/health")).status == 200
        begun = await served.post(INITIALIZE)
        same = await served.post(ping, Mcp_Session_Id=begun.headers["Mcp-Session-Id"])
        assert begun.status == same.status == 200
        assert holder.returncode is None  # all of them were answered while the file was locked


@pytest.mark.process
async def test_a_session_behind_a_locked_file_is_asked_for_again_and_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_records, "WRITE_TIMEOUT_S", 0.05)
    folder, identifier = tmp_path / session_records.FOLDER, "ab" * 24
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    async with serving(state_dir=tmp_path) as first, within():
        begun = await first.post(INITIALIZE)
        identifier = begun.headers["Mcp-Session-Id"]
    async with serving(state_dir=tmp_path) as served, within():
        async with locked(folder / session_records.FILE_NAME):
            asking = [served.post(ping, Mcp_Session_Id=identifier) for _ in range(4)]
            for answer in await asyncio.gather(*asking):
                assert answer.status == 503 and answer.headers["Retry-After"]
        # Of several requests that come at once, one takes the session over and all have it.
        asking = [served.post(ping, Mcp_Session_Id=identifier) for _ in range(8)]
        assert [each.status for each in await asyncio.gather(*asking)] == [200] * 8


async def test_an_unknown_session_opens_no_file_on_the_loop(tmp_path: Path) -> None:
    left(tmp_path / session_records.FOLDER, record("other"))
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    async with serving(state_dir=tmp_path) as served, within():
        with blocking_calls() as seen:
            assert (await served.post(ping, Mcp_Session_Id="0" * 48)).status == 404
            begun = await served.post(INITIALIZE)
            written = tmp_path / session_records.FOLDER / f"{session_records.FILE_NAME}-wal"
            await until(written.exists)
            assert (await served.post(ping, Mcp_Session_Id=begun.headers["Mcp-Session-Id"])).status == 200
        await served.service.close()
        assert seen == []


async def test_a_session_stays_with_its_process_as_long_as_that_lives(tmp_path: Path, opened: Opened) -> None:
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    async with serving(state_dir=tmp_path) as first, serving(state_dir=tmp_path) as other, within():
        identifier = (await first.post(INITIALIZE)).headers["Mcp-Session-Id"]
        name, records = {"Mcp_Session_Id": identifier}, opened(tmp_path / session_records.FOLDER)
        wanted = hash_id(identifier), first.hosted.unique_key, [seal(identifier, "", "")]
        await until(lambda: records.may_have(*wanted))
        assert (await other.post(ping, **name)).status == 404
        assert (await first.post(ping, **name)).status == 200
        await first.service.close()
        assert (await other.post(ping, **name)).status == 200


async def test_only_so_many_sessions_are_looked_up_on_disk_at_once(
    tmp_path: Path, opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_sessions, "MAX_RESUMING", 2)
    records, may_end = opened(tmp_path), threading.Event()
    monkeypatch.setattr(records, "may_have", lambda *_: not may_end.wait(WITHIN_S))
    sessions = HttpSessions(ttl_s=60)
    kept = sessions.store = StoredSessions(sessions, records)
    endpoint, caller = Peer().endpoint, Principal("open")
    try:
        looking = [asyncio.create_task(kept.join(f"{n:048x}", endpoint, "t", caller)) for n in (1, 2, 2)]
        await asyncio.sleep(0)  # until each of them looks
        with pytest.raises(StorageError, match="2 sessions are already being looked up on disk"):
            await kept.join(f"{3:048x}", endpoint, "t", caller)
    finally:
        may_end.set()
    assert await asyncio.gather(*looking) == [None] * 3
    assert await kept.join(f"{3:048x}", endpoint, "t", caller) is None
    sessions.close()
