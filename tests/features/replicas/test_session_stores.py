"""HTTP sessions that continue in another process: from disk after a restart, or from the engine."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Protocol

import pytest

from mcpdesk.errors import StorageError
from mcpdesk.features.replicas.group.replica_group import ReplicaGroup
from mcpdesk.protocol.handshake import SessionState
from mcpdesk.transports.base import SharedSession
from mcpdesk.transports.http.sessions import session_records
from mcpdesk.transports.http.sessions.session_records import SessionRecord, SessionRecords
from tests.support.engine import EngineServer, deployment, needs_engine, shared_engine

__all__ = ["shared_engine"]

TTL_S = 60.0
STATE = SessionState(
    {"protocolVersion": "2025-11-25", "capabilities": {}}, True, "error", ("resource://a",), "mark"
)


class Store(Protocol):
    """A place of sessions, as two processes use it one after the other."""

    async def write(self, identifier: str, owner: str, state: SessionState, used: float) -> None:
        """The first process serves a session."""

    async def end(self, identifier: str) -> None:
        """The client ends it at the first process."""

    async def go_on(self, identifier: str, server: str, owners: list[str]) -> SessionState | None:
        """Ask the second process for it after the first has released it."""


class OnDisk:
    def __init__(self, place: Path) -> None:
        self._place = place
        self._first, self._ended = SessionRecords(place, TTL_S), list[str]()

    async def write(self, identifier: str, owner: str, state: SessionState, used: float) -> None:
        self._first.write([SessionRecord(identifier, used, "calc", owner, 0, state)])

    async def end(self, identifier: str) -> None:
        self._ended.append(identifier)

    async def go_on(self, identifier: str, server: str, owners: list[str]) -> SessionState | None:
        self._first.close([], self._ended)
        second = SessionRecords(self._place, TTL_S)
        found = second.claim(identifier, server, owners)
        second.close([], [])
        return None if found is None else found.state


class InEngine:
    def __init__(self, first: ReplicaGroup, second: ReplicaGroup) -> None:
        self._first, self._second = first, second
        self._written: dict[str, SharedSession] = {}

    async def write(self, identifier: str, owner: str, state: SessionState, used: float) -> None:
        known = self._written.get(identifier)
        base, version = (state, 0) if known is None else (known.state, known.version)
        now = SharedSession(identifier, "calc", owner, used, state, version)
        written = await self._first.sessions.write(now, base)
        assert written is not None
        self._written[identifier] = written

    async def end(self, identifier: str) -> None:
        await self._first.sessions.end(identifier)

    async def go_on(self, identifier: str, server: str, owners: list[str]) -> SessionState | None:
        found = await self._second.sessions.join(identifier, server, owners)
        return None if found is None else found.state


@pytest.fixture(params=["disk", pytest.param("engine", marks=needs_engine)])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    if request.param == "disk":
        yield OnDisk(tmp_path)
        return
    server: EngineServer = request.getfixturevalue("shared_engine")
    groups = [ReplicaGroup(server.url, deployment(tmp_path), TTL_S, lambda told: None) for _ in range(2)]
    yield InEngine(*groups)
    for group in groups:
        await group.close()


@pytest.mark.process
async def test_a_session_goes_on_as_it_stood(store: Store) -> None:
    await store.write("ab", "ada", STATE, time.time())
    assert await store.go_on("ab", "calc", ["bo", "ada"]) == STATE


@pytest.mark.process
async def test_the_latest_state_counts(store: Store) -> None:
    await store.write("ab", "ada", SessionState(STATE.opening), time.time())
    await store.write("ab", "ada", STATE, time.time())
    assert await store.go_on("ab", "calc", ["ada"]) == STATE


@pytest.mark.process
@pytest.mark.parametrize(("server", "owner"), [("other", "ada"), ("calc", "bo")])
async def test_another_server_and_another_caller_do_not_get_it(store: Store, server: str, owner: str) -> None:
    await store.write("ab", "ada", STATE, time.time())
    assert await store.go_on("ab", server, [owner]) is None


@pytest.mark.process
async def test_one_that_its_client_ended_is_gone(store: Store) -> None:
    await store.write("ab", "ada", STATE, time.time())
    await store.end("ab")
    assert await store.go_on("ab", "calc", ["ada"]) is None


@pytest.mark.process
async def test_one_that_never_was_is_not_found(store: Store) -> None:
    await store.write("ab", "ada", STATE, time.time())
    assert await store.go_on("cd", "calc", ["ada"]) is None


def test_a_session_file_that_another_process_holds_is_an_error_and_not_a_missing_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_records, "WRITE_TIMEOUT_S", 0.01)
    first = SessionRecords(tmp_path, TTL_S)
    first.write([SessionRecord("ab", time.time(), "calc", "ada", 0, STATE)])
    first.close([], [])
    second = SessionRecords(tmp_path, TTL_S)
    with closing(sqlite3.connect(tmp_path / session_records.FILE_NAME, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StorageError, match="is held by another process"):
            second.claim("ab", "calc", ["ada"])
    found = second.claim("ab", "calc", ["ada"])
    second.close([], [])
    assert found is not None and found.state == STATE
