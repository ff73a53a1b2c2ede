"""Notifications between processes that use the state files of the same folder.

Two cores host one folder if two stdio clients run without a desk, or with `--alone`. The state files allow
this, because each change is one transaction. However, each core has a copy in memory. A core that has written
therefore sends one byte to the others, which then read the files again. A core that starts connects to the
running ones and sends its process id in the first line.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from mcpdesk.hosting.hosted_folder import HostedFolder
from mcpdesk.hosting.journal import Journal, Severity
from mcpdesk.jobs.schedule import SerialQueue, call_soon_safely
from mcpdesk.transports import rendezvous
from mcpdesk.transports.pipe import stop_accepting

WRITE_SIGNAL = b"w"
"""Byte that a process sends after it has changed the state files."""
MAX_UNREAD_BYTES = 4_096
"""Maximum number of unread bytes for each peer. More bytes are not sent, because one unread byte already
makes the peer read the files.
"""
GREETING_TIMEOUT_S = 2.0
"""Seconds within which a peer must send its process id."""
READ_BYTES = 4_096
"""Maximum number of bytes that are read from a peer at once."""


class StatePeers:
    """Other processes that use the state files of one folder. Used on the core's loop."""

    def __init__(self, folder: Path, state: Path, on_presence: Callable[[int, bool], object]) -> None:
        """Create the object without connections. `open` connects it.

        `on_presence` is called when another process starts or stops to use the files. Its arguments are the
        process id, and True for a start.
        """
        self.on_peer_write: Callable[[], object] = lambda: None
        """Function that is called when another process has changed the files."""
        self._folder, self._state, self._on_presence = folder, str(state), on_presence
        self._socket: rendezvous.ListeningSocket | None = None
        self._server: asyncio.Server | None = None
        """Server that accepts connections of processes that start later, or None."""
        self._peers: dict[asyncio.StreamWriter, int] = {}
        """Connections, each with the process id of the peer."""
        self._tasks: dict[asyncio.Task[None], asyncio.StreamWriter] = {}
        """Tasks, each with the connection that it reads from."""

    @property
    def pids(self) -> set[int]:
        """Ids of the other processes."""
        return set(self._peers.values())

    async def open(self) -> None:
        """Connect to running processes, and listen for those that start later. Raises: OSError."""
        self._socket = await asyncio.to_thread(self._listen)
        if self._socket is None:
            return  # another core of this process listens; they share the files in memory
        self._server = await asyncio.start_unix_server(self._accept, sock=self._socket.listener)
        sockets = await asyncio.to_thread(rendezvous.state_points, self._folder, self._state)
        for pid, socket_path in sockets.items():
            with suppress(OSError):  # the process has ended
                reader, writer = await asyncio.open_unix_connection(socket_path)
                writer.write(f"{os.getpid()}\n".encode())
                self._add_peer(pid, writer)
                self._start_reading(self._follow(reader, writer), writer)

    def notify_peers(self) -> None:
        """Notify the other processes that this process has changed the files."""
        for peer in self._peers:
            if peer.transport.get_write_buffer_size() < MAX_UNREAD_BYTES:
                peer.write(WRITE_SIGNAL)

    async def close(self) -> None:
        """Disconnect from the other processes."""
        self._on_presence = lambda pid, is_present: None
        if self._socket is not None:
            await asyncio.to_thread(self._socket.withdraw)
        if self._server is not None:
            await stop_accepting(self._server)
        tasks = dict(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for writer in tasks.values():  # a task that never started has not closed its connection
            writer.close()
        self._peers.clear()
        await asyncio.sleep(0)  # transports close in the next turn of the loop
        if self._socket is not None:
            await asyncio.to_thread(self._socket.leave)

    def _listen(self) -> rendezvous.ListeningSocket | None:
        """Open the socket of this process. None if this process already listens on it."""
        rendezvous.private_folder()
        return rendezvous.listen(rendezvous.state_point(self._folder, self._state))

    def _start_reading(self, reading: Coroutine[Any, Any, None], writer: asyncio.StreamWriter) -> None:
        """Start a task that reads from the connection of `writer`."""
        task = asyncio.create_task(reading)
        self._tasks[task] = writer
        task.add_done_callback(self._tasks.pop)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._start_reading(self._handshake(reader, writer), writer)

    async def _handshake(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Read the process id of a new peer, then follow its notifications."""
        try:
            async with asyncio.timeout(GREETING_TIMEOUT_S):
                pid = int(await reader.readline())
        except (OSError, ValueError):  # a peer may connect only to see if this process runs
            writer.close()
            return
        self._add_peer(pid, writer)
        await self._follow(reader, writer)

    def _add_peer(self, pid: int, writer: asyncio.StreamWriter) -> None:
        """Store a connection to another process, and report the process if it is new."""
        is_known = pid in self.pids
        self._peers[writer] = pid
        if not is_known:
            self._on_presence(pid, True)
            self.on_peer_write()  # the other process may have written earlier

    async def _follow(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Handle notifications of another process until it ends."""
        try:
            while await reader.read(READ_BYTES):
                self.on_peer_write()
        except OSError:
            return
        finally:
            pid = self._peers.pop(writer)
            writer.close()
            if pid not in self.pids:
                self._on_presence(pid, False)


class FolderPeers:
    """Other processes that use the state files of one core's folders. Use it on the core's loop."""

    def __init__(self, journal: Journal, state: Path) -> None:
        """`state` is the state folder of this core."""
        self._journal = journal
        self._state = state
        self._peers: dict[str, StatePeers] = {}
        """Other processes by name of the server."""
        self._reload_queue = SerialQueue(HostedFolder.reload_state)
        self._is_closed = False

    def pids(self, name: str) -> set[int]:
        """Return the ids of the other processes that use the state files of a server."""
        return self._peers[name].pids if name in self._peers else set()

    async def join(self, hosted: HostedFolder) -> None:
        """Connect to the other processes that use the state files of a folder, and follow their changes."""
        name, state = hosted.server.name, hosted.server.hosted
        assert state is not None
        peers = StatePeers(hosted.folder, self._state, partial(self._on_presence, name, hosted.folder))
        peers.on_peer_write = partial(self._reload_queue.ask, hosted)
        opening = asyncio.create_task(peers.open())
        try:
            await asyncio.shield(opening)
        except asyncio.CancelledError:
            await asyncio.gather(opening, return_exceptions=True)  # a thread may still be creating the socket
            await peers.close()
            raise
        except OSError as error:
            await peers.close()
            message = f"processes that also use the state of {hosted.folder} are not noticed: {error}"
            return self._journal.log("warning", "server", message, "", name)
        self._peers[name] = peers
        state.on_write = partial(call_soon_safely, asyncio.get_running_loop(), peers.notify_peers)

    async def leave(self, name: str) -> None:
        """Disconnect from the processes that use the state files of a server."""
        if (peers := self._peers.pop(name, None)) is not None:
            await peers.close()

    async def close(self) -> None:
        """Disconnect from all processes, and stop reading."""
        self._is_closed = True
        await self._reload_queue.close()
        await asyncio.gather(*map(self.leave, list(self._peers)))

    def _on_presence(self, name: str, folder: Path, pid: int, is_present: bool) -> None:
        """Report that another process started or stopped to use the state files of a folder."""
        if self._is_closed:
            return
        if not is_present:
            message = f"process {pid} no longer uses the state files of {folder}"
            return self._journal.log("info", "server", message, "", name)
        message = (
            f"{name}: process {pid} also hosts the folder. Both use its state files and read each other's "
            "changes; traffic, questions and background programs are separate"
        )
        self._journal.notify(message, Severity.INFO)
