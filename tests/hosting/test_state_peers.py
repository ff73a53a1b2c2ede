"""Processes that use the same state files notice each other: real sockets, one process played by hand."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from mcpdesk.hosting.folder import state_peers
from mcpdesk.hosting.folder.state_peers import FolderPeers, StatePeers
from mcpdesk.hosting.hosted_folder import HostedFolder
from mcpdesk.hosting.journal import Journal
from mcpdesk.settings import resolve
from mcpdesk.transports import rendezvous
from tests.support.folders import write
from tests.support.patience import WITHIN_S, in_time, until, within

OTHER = 1
"""A process id that no test has."""


@pytest.fixture(autouse=True)
def place(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A runtime folder of the test's own."""
    path = tmp_path_factory.mktemp("run")
    path.chmod(0o700)
    monkeypatch.setattr(rendezvous, "runtime_folder", lambda: str(path))
    return path


class Watched:
    """A core's view of the other processes, and all its notifications."""

    def __init__(self, folder: Path) -> None:
        self.news: asyncio.Queue[tuple[int, bool] | str] = asyncio.Queue()
        self.peers = StatePeers(folder, folder / "state", lambda *told: self.news.put_nowait(told))
        self.peers.on_peer_write = lambda: self.news.put_nowait("on_peer_write")

    async def next(self) -> tuple[int, bool] | str:
        """Next notification."""
        return await in_time(self.news.get())


@pytest.fixture
async def watched(tmp_path: Path) -> AsyncIterator[Watched]:
    core = Watched(tmp_path)
    yield core
    await core.peers.close()


def other_point(folder: Path) -> str:
    own = rendezvous.state_point(folder, str(folder / "state"))
    return own.replace(f".{os.getpid()}.", f".{OTHER}.")


async def test_a_process_that_runs_already_is_met_and_hears_of_what_is_written(
    watched: Watched, tmp_path: Path
) -> None:
    visits: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()

    async def visited(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if line := await reader.readline():  # without one it was only looked whether this process lives
            assert line == f"{os.getpid()}\n".encode()
            visits.put_nowait((reader, writer))
        else:
            writer.close()

    async with await asyncio.start_unix_server(visited, other_point(tmp_path)):
        await watched.peers.open()
        reader, writer = await in_time(visits.get())
        assert [await watched.next(), await watched.next()] == [(OTHER, True), "on_peer_write"]
        assert watched.peers.pids == {OTHER}
        writer.write(b"w")
        assert await watched.next() == "on_peer_write"
        watched.peers.notify_peers()
        assert await in_time(reader.readexactly(1)) == b"w"
        writer.close()
        assert await watched.next() == (OTHER, False)
        assert watched.peers.pids == set()


async def test_a_process_that_begins_later_is_met_once_however_often_it_connects(
    watched: Watched, tmp_path: Path
) -> None:
    await watched.peers.open()
    point = rendezvous.state_point(tmp_path, str(tmp_path / "state"))
    links = [await asyncio.open_unix_connection(point) for _ in range(2)]
    for _, writer in links:
        writer.write(f"{OTHER}\n".encode())
    assert [await watched.next(), await watched.next()] == [(OTHER, True), "on_peer_write"]
    for _, writer in links:
        writer.write(b"w")
        assert await watched.next() == "on_peer_write"
    for _, writer in links:
        writer.close()
    assert await watched.next() == (OTHER, False)
    assert watched.news.empty()


async def test_what_is_no_process_of_ours_is_left_alone(
    watched: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_peers, "GREETING_TIMEOUT_S", 0.01)
    await watched.peers.open()
    point = rendezvous.state_point(tmp_path, str(tmp_path / "state"))
    for greeting in (b"", b"hello\n"):
        reader, writer = await asyncio.open_unix_connection(point)
        writer.write(greeting)
        assert await in_time(reader.read()) == b""
        writer.close()
    assert watched.news.empty() and watched.peers.pids == set()


async def test_the_place_is_gone_after_the_end_and_another_state_folder_is_another_place(
    watched: Watched, tmp_path: Path, place: Path
) -> None:
    await watched.peers.open()
    assert len(list(place.iterdir())) == 1
    stranger = StatePeers(tmp_path, tmp_path / "other", lambda *told: watched.news.put_nowait(told))
    await stranger.open()
    assert len(list(place.iterdir())) == 2
    await stranger.close()
    await watched.peers.close()
    assert list(place.iterdir()) == [] and watched.news.empty()


async def test_a_peer_that_reads_nothing_is_sent_a_bounded_number_of_bytes(
    watched: Watched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state_peers, "WRITE_SIGNAL", b"w" * 1_000_000)
    await watched.peers.open()
    point = rendezvous.state_point(tmp_path, str(tmp_path / "state"))
    reader, writer = await asyncio.open_unix_connection(point)
    writer.write(f"{OTHER}\n".encode())
    assert await watched.next() == (OTHER, True)
    [(link, _)] = watched.peers._peers.items()
    for _ in range(50):
        watched.peers.notify_peers()
    assert 0 < link.transport.get_write_buffer_size() < 2_000_000
    writer.close()
    del reader


async def test_a_visitor_that_has_not_greeted_is_disconnected_at_the_end(tmp_path: Path) -> None:
    core = Watched(tmp_path)
    await core.peers.open()
    reader, writer = await asyncio.open_unix_connection(
        rendezvous.state_point(tmp_path, str(tmp_path / "state"))
    )
    async with within():
        await until(lambda: core.peers._tasks)
        await core.peers.close()
        assert await reader.read() == b""
    writer.close()


@pytest.fixture
async def hosted(tmp_path: Path) -> AsyncIterator[HostedFolder]:
    folder = write(tmp_path / "tea", {"mcp.json": '{"name": "tea"}'})
    made = HostedFolder(folder, resolve({"state_dir": tmp_path / "state"}, {}).settings, Journal())
    yield made
    await made.close()


async def test_a_core_that_cannot_look_for_the_others_does_not_listen_either(
    hosted: HostedFolder, tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(folder: Path, state: str) -> dict[int, str]:
        raise PermissionError("refused")

    monkeypatch.setattr(rendezvous, "state_points", refused)
    journal = Journal()
    peers = FolderPeers(journal, tmp_path / "state")
    await peers.join(hosted)
    assert [line.text.partition(": ")[2] for line in journal.lines()] == ["refused"]
    assert list(place.iterdir()) == []
    await peers.close()


async def test_a_core_that_ends_while_it_begins_to_listen_leaves_no_socket(
    hosted: HostedFolder, tmp_path: Path, place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loop, may_listen = asyncio.get_running_loop(), threading.Event()
    has_begun, has_ended = asyncio.Event(), asyncio.Event()
    listen = rendezvous.listen

    def late(point: str) -> rendezvous.ListeningSocket | None:
        loop.call_soon_threadsafe(has_begun.set)
        may_listen.wait(WITHIN_S)
        try:
            return listen(point)
        finally:
            loop.call_soon_threadsafe(has_ended.set)

    monkeypatch.setattr(rendezvous, "listen", late)
    peers = FolderPeers(Journal(), tmp_path / "state")
    joining = asyncio.create_task(peers.join(hosted))
    async with within():
        await has_begun.wait()
        joining.cancel()
        await asyncio.sleep(0)
        may_listen.set()
        await has_ended.wait()
        await asyncio.wait({joining})
    assert joining.cancelled() and list(place.iterdir()) == []
    await peers.close()
