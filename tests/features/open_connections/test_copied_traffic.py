"""A running desk shows the traffic of open connections, and forgets those that end."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from mcpdesk.features.open_connections import copied_traffic
from mcpdesk.features.open_connections.copied_traffic import PEER, CopiedTraffic
from mcpdesk.hosting.core_loop.core_thread import CoreThread
from mcpdesk.hosting.host import Host
from mcpdesk.hosting.host_plan import plan_for
from mcpdesk.hosting.journal import Journal
from mcpdesk.link import remote
from mcpdesk.link.attach_messages import TrafficBatch, Welcome, pack
from mcpdesk.link.local.local_link import LocalLink
from mcpdesk.link.remote import RunningCore
from mcpdesk.paths import sample_servers
from mcpdesk.recorder.capture.recording import Recording
from mcpdesk.recorder.record import ConnectionInfo, Direction, Frame
from mcpdesk.transports import rendezvous
from mcpdesk.version import __version__
from tests.features.open_connections.conftest import SERVER, Shell
from tests.support.patience import until, wait_until, within


def calls(link: LocalLink, server: str) -> list[tuple[str, str]]:
    """Clients and methods of the recorded requests to a server."""
    while link.traffic.catch_up():
        pass
    return [(each.peer, each.method) for each in link.traffic.exchanges if each.server == server]


@pytest.mark.slow
async def test_connections_opened_later_appear_and_ended_ones_are_closed(shell: Shell) -> None:
    shell.succeed("up", "--name", "early", *SERVER)
    shell.succeed("call", "early", "inc")
    environ = shell.environ | {"MCPDESK_HOST": "127.0.0.1"}
    plan = plan_for([sample_servers() / "hello"], {"port": 0}, environ, http=False)
    host = Host(replace(plan, draws_first=True))
    await asyncio.to_thread(host.load)
    core, link = CoreThread(host), LocalLink(host)
    core.start()
    host.screen_drawn()
    try:
        async with within():
            await asyncio.wrap_future(core.started)
        await until(lambda: (PEER, "tools/call") in calls(link, "early"))
        await asyncio.to_thread(shell.succeed, "up", "--name", "late", *SERVER)
        await asyncio.to_thread(shell.succeed, "call", "late", "inc")
        await until(lambda: (PEER, "tools/call") in calls(link, "late"))
        (row,) = [row for row in await asyncio.to_thread(shell.connections) if row["name"] == "late"]
        assert row["clients"] == 0, "the desk does not count as a client"
        infos = host.recording.index.connections
        await asyncio.to_thread(shell.succeed, "down", "late")
        await until(
            lambda: all(each.closed is not None for each in list(infos.values()) if each.server == "late")
        )
        assert any(each.closed is None for each in infos.values() if each.server == "early")
        assert not [each for each in link.view().servers if each.name in ("early", "late")]
        await asyncio.to_thread(shell.succeed, "up", "--name", "brief", "--idle", "5", *SERVER)
        await until(lambda: any("brief has ended" in line.text for line in host.journal.lines()))
        assert any("late has ended" in line.text for line in host.journal.lines())
    finally:
        link.close()
        await asyncio.to_thread(core.stop)


class Wire:
    """Connection to a process that sends these messages, and then `end` if it is given."""

    def __init__(self, *batches: TrafficBatch, end: bytes = b"") -> None:
        self._messages = [bytes(pack(each)) for each in batches] + ([end] if end else [])
        self.is_closed = False

    async def receive(self) -> bytes:
        if not self._messages:
            await asyncio.Event().wait()
        return self._messages.pop(0)

    def close(self) -> None:
        self.is_closed = True


class Copying:
    """Copied traffic of one process, whose connections are fakes."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        *wires: Wire,
        version: str = __version__,
        search_period_s: float = 60.0,
    ) -> None:
        welcome = Welcome(mcpdesk=version, pid=7, kind="up", names=("tea",))
        self.joined, self._wires = 0, list(wires)
        self.cores = [RunningCore(welcome, "/run/7.attach")]
        self.journal, self.recording = Journal(), Recording(None)
        monkeypatch.setattr(remote, "running_cores", lambda state: self.cores)
        monkeypatch.setattr(remote, "join", self._join)
        monkeypatch.setattr(copied_traffic, "SEARCH_PERIOD_S", search_period_s)
        core: Any = SimpleNamespace(chosen_state="", journal=self.journal, recording=self.recording)
        self.part = CopiedTraffic(core)

    async def _join(self, path: str, viewers: int) -> tuple[None, Wire]:
        self.joined += 1
        if not self._wires:
            raise ConnectionRefusedError(path)
        return None, self._wires.pop(0)

    def said(self, text: str) -> bool:
        return any(text in line.text for line in self.journal.lines())


def connection(number: int, closed: float | None = None) -> ConnectionInfo:
    return ConnectionInfo(number, "tea", "stdio", "desk", "2025-11-25", float(number), closed)


def frame(number: int, of: int) -> Frame:
    return Frame(number, 2.0, of, Direction.IN, b"{}", 2)


async def test_a_process_is_not_copied_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    wires = [Wire(TrafficBatch((connection(1),), (frame(0, 1),)), end=b"broken") for _ in range(2)]
    copying = Copying(monkeypatch, *wires)
    await until(lambda: wires[0].is_closed)
    await copying.part._follow_new_processes()
    assert copying.joined == 1 and copying.recording.index.frame_count == 1
    (cores, copying.cores) = copying.cores, []
    await copying.part._follow_new_processes()
    copying.cores = cores
    await copying.part._follow_new_processes()
    await until(lambda: wires[1].is_closed)
    assert copying.joined == 2, "another process has the same path"
    await copying.part.stop()


async def test_a_process_that_cannot_be_joined_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    copying = Copying(monkeypatch)
    await until(lambda: copying.joined == 1)
    await copying.part._follow_new_processes()
    await until(lambda: copying.joined == 2)
    await copying.part.stop()


async def test_a_process_of_another_version_is_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    copying = Copying(monkeypatch, version="0.0.1")
    await until(lambda: copying.said("the traffic of the open connection tea is not shown: "))
    await copying.part._follow_new_processes()
    await asyncio.sleep(0)
    assert copying.joined == 0 and len(copying.journal.lines()) == 1
    await copying.part.stop()


async def test_missed_messages_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    batch = TrafficBatch((connection(1),), (frame(1005, 1),), missed=1005, why="this screen read too slowly")
    copying = Copying(monkeypatch, Wire(batch))
    text = "1,005 messages of the open connection tea are not shown: this screen read too slowly"
    await until(lambda: copying.said(text))
    await copying.part.stop()


async def test_only_closed_connections_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copied_traffic, "MAX_CONNECTIONS", 2)
    infos = (connection(1), *(connection(number, closed=9.0) for number in (2, 3, 4)))
    frames = tuple(frame(number, number + 1) for number in range(4))
    copying = Copying(monkeypatch, Wire(TrafficBatch(infos, frames), end=b"broken"))
    index = copying.recording.index
    await until(lambda: index.frame_count == 2)
    infos_of_frames = [index.connections[each.connection] for each in index.frames(0, 2) if each is not None]
    assert [each.opened for each in infos_of_frames] == [1.0, 4.0], "the open one, and the newest"
    await copying.part.stop()


async def test_without_changes_the_loop_of_the_core_sleeps(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    looks, status_of = list[str](), os.stat

    def look(path: Any, **options: Any) -> os.stat_result:
        if path == str(tmp_path):
            looks.append(path)
        return status_of(path, **options)

    monkeypatch.setattr(rendezvous, "runtime_folder", lambda: str(tmp_path))
    monkeypatch.setattr(os, "stat", look)
    copying = Copying(monkeypatch, search_period_s=0.001)
    await until(lambda: copying.joined == copied_traffic.SEARCHES_AFTER_CHANGE)
    turns, seen = list[object](), len(looks)
    with monkeypatch.context() as patch:
        patch.setattr(asyncio.get_running_loop(), "call_soon_threadsafe", turns.append)
        wait_until(lambda: len(looks) > seen + 20)
        assert not turns and copying.joined == copied_traffic.SEARCHES_AFTER_CHANGE
        (tmp_path / "8.attach").touch()
        wait_until(lambda: turns)
    await copying.part.stop()
