"""Traffic of open connections on a running desk.

The desk finds the processes of `mcpdesk up`, also those that start later, and records a copy of their
messages. It does not count as a screen of these processes, so it neither keeps them open nor answers their
questions.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mcpdesk.hosting.channel import next_connection
from mcpdesk.hosting.host_part import HostPart, StartedCore
from mcpdesk.recorder.record import MAX_CONNECTIONS, ConnectionInfo
from mcpdesk.transports import rendezvous
from mcpdesk.version import __version__

if TYPE_CHECKING:
    from mcpdesk.link.attach_messages import TrafficBatch
    from mcpdesk.link.remote import RunningCore, UnixWire
    from mcpdesk.recorder.capture.recording import Recording

SEARCH_PERIOD_S = 2.0
"""Seconds between two checks whether the sockets' folder has changed."""
SEARCHES_AFTER_CHANGE = 3
"""Number of searches after a change of the folder, because a new process may not answer at once."""
PEER = "mcpdesk up"
"""Name of the client in copied connections. The client is the process of the open connection."""
_log = logging.getLogger(__name__)


class CopiedTraffic(HostPart):
    """Records the traffic of all open connections in a core."""

    def __init__(self, core: StartedCore) -> None:
        self._core = core
        self._follow_tasks: dict[str, asyncio.Task[None]] = {}
        """Tasks that copy the traffic of a process, by the path of its socket.

        A task that has ended is kept as long as the socket exists. If its process were followed again, its
        messages would be recorded a second time.
        """
        self._loop = asyncio.get_running_loop()
        self._folder_changed = asyncio.Event()
        """Set when the folder of the sockets has changed."""
        self._is_stopped = threading.Event()
        self._search_task = self._loop.create_task(self._run())
        threading.Thread(target=self._watch, name="open connections", daemon=True).start()

    async def stop(self) -> None:
        """End all copies."""
        self._is_stopped.set()
        tasks = [self._search_task, *self._follow_tasks.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _watch(self) -> None:
        """Report changes of the sockets' folder. Runs on a thread, because each timer of the loop would also
        refresh the screen.
        """
        folder = rendezvous.runtime_folder()
        last_time_ns: int | None = None
        while True:
            try:
                time_ns = os.stat(folder).st_mtime_ns
            except OSError:  # no process of this user has run so far
                time_ns = -1
            if time_ns != last_time_ns:
                last_time_ns = time_ns
                with suppress(RuntimeError):  # the loop is closed
                    self._loop.call_soon_threadsafe(self._folder_changed.set)
            if self._is_stopped.wait(SEARCH_PERIOD_S):
                return

    async def _run(self) -> None:
        """Search for processes when the folder of the sockets has changed."""
        while True:
            await self._folder_changed.wait()
            self._folder_changed.clear()
            for _ in range(SEARCHES_AFTER_CHANGE):
                with suppress(OSError):  # other users can write to the folder, so it cannot be trusted
                    await self._follow_new_processes()
                await asyncio.sleep(SEARCH_PERIOD_S)

    async def _follow_new_processes(self) -> None:
        """Follow the processes of open connections that are not followed yet."""
        from mcpdesk.link.remote import running_cores

        mark = rendezvous.state_mark(self._core.chosen_state)
        cores = await asyncio.to_thread(running_cores, self._core.chosen_state)
        paths = {core.path for core in cores}
        self._follow_tasks = {
            path: task for path, task in self._follow_tasks.items() if path in paths or not task.done()
        }
        for core in cores:
            welcome, socket_name = core.welcome, os.path.basename(core.path)
            is_ours = welcome.kind == "up" and socket_name == f"{welcome.pid}{mark}.attach"
            if is_ours and core.path not in self._follow_tasks:
                task = asyncio.get_running_loop().create_task(self._follow(core))
                self._follow_tasks[core.path] = task

    async def _follow(self, core: RunningCore) -> None:
        """Copy the traffic of a process until it ends."""
        from mcpdesk.link.core_copy import other_version
        from mcpdesk.link.remote import join

        name, journal = ", ".join(core.welcome.names), self._core.journal
        if core.welcome.mcpdesk != __version__:
            reason = other_version(core.welcome)
            journal.log(
                "warning", "server", f"the traffic of the open connection {name} is not shown: {reason}"
            )
            return
        try:
            _, wire = await join(core.path, viewers=0)
        except (EOFError, OSError):
            del self._follow_tasks[core.path]  # the next search tries again
            return
        journal.log("info", "server", f"the traffic of the open connection {name} is shown")
        try:
            await self._copy(wire, name)
        except (EOFError, OSError):
            journal.log("info", "server", f"the open connection {name} has ended")
        except Exception:
            _log.exception("the traffic of the open connection %s is no longer copied", name)
        finally:
            wire.close()

    async def _copy(self, wire: UnixWire, name: str) -> None:
        """Copy the messages of a process. Raises: EOFError or OSError when it has ended."""
        from mcpdesk.link.attach_messages import FromCore, TrafficBatch
        from mcpdesk.link.core_copy import message_decoder

        copy, decoder = _ConnectionCopy(self._core.recording), message_decoder()
        try:
            while True:
                message: FromCore = decoder.decode(await wire.receive())
                if isinstance(message, TrafficBatch):
                    if message.missed:
                        reason = message.why or "they were deleted before they could be read"
                        text = f"{message.missed:,} messages of the open connection {name} are not shown"
                        self._core.journal.log("warning", "server", f"{text}: {reason}")
                    copy.add(message)
        finally:
            copy.close()


class _ConnectionCopy:
    """Copy of the connections of one process in a recording, with numbers of this process."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._copies: dict[int, ConnectionInfo] = {}
        """Connections in the recording, by number at the other process. At most `MAX_CONNECTIONS`."""

    def add(self, batch: TrafficBatch) -> None:
        """Record a batch. A batch has only the beginning and the end of a large frame."""
        for info in batch.connections:
            earlier_copy = self._copies.get(info.number)
            number = next_connection() if earlier_copy is None else earlier_copy.number
            copy = replace(info, number=number, peer=PEER if info.peer == "desk" else info.peer)
            self._copies[info.number] = copy
            self._recording.connect(copy)
            if len(self._copies) > MAX_CONNECTIONS:
                closed_numbers = (key for key, each in self._copies.items() if each.closed is not None)
                oldest_number = next(iter(self._copies))
                del self._copies[next(closed_numbers, oldest_number)]
        for frame in batch.frames:
            if (frame_copy := self._copies.get(frame.connection)) is not None:
                self._recording.frame(
                    frame_copy.number,
                    frame.direction,
                    frame.data,
                    note=batch.notes.get(frame.number),
                    at=frame.time,
                    phases=frame.phases,
                    size=frame.size,
                    end=frame.end,
                )

    def close(self) -> None:
        """Record that the connections are closed."""
        now = time.time()
        for info in self._copies.values():
            if info.closed is None:
                self._recording.connect(replace(info, closed=max(now, info.opened)))
