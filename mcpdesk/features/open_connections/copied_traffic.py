"""Traffic of open connections on a running desk.

The desk finds the processes of `mcpdesk up`, also those that start later, and records a copy of their
messages. It does not count as a screen of these processes, so it neither keeps them open nor answers their
questions.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mcpdesk.hosting.channel import next_connection
from mcpdesk.hosting.host_part import HostPart, StartedCore
from mcpdesk.recorder.record import ConnectionInfo
from mcpdesk.transports import rendezvous
from mcpdesk.version import __version__

if TYPE_CHECKING:
    from mcpdesk.link.attach_messages import TrafficBatch
    from mcpdesk.link.remote import RunningCore
    from mcpdesk.recorder.capture.recording import Recording

SEARCH_PERIOD_S = 2.0
"""Seconds between two looks at the time of the sockets' folder."""
SEARCHES_AFTER_CHANGE = 3
"""Number of searches after a change of the folder, because a new process may not answer at once."""
PEER = "mcpdesk up"
"""Name of the client that has a connection to a server, which is the process of the open connection."""
_log = logging.getLogger(__name__)


class CopiedTraffic(HostPart):
    """Records the traffic of all open connections in a core."""

    def __init__(self, core: StartedCore) -> None:
        self._core = core
        self._followed: dict[str, asyncio.Task[None]] = {}
        """Tasks that copy the traffic of a process, by the path of its socket."""
        self._search = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """End all copies."""
        tasks = [self._search, *self._followed.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self) -> None:
        """Search for processes when the folder of the sockets has changed."""
        folder, known_time, searches = rendezvous.runtime_folder(), -1, 0
        while True:
            try:
                changed = os.stat(folder).st_mtime_ns
            except OSError:  # no process of this user has run so far
                changed = -1
            if changed != known_time:
                known_time, searches = changed, SEARCHES_AFTER_CHANGE
            if searches:
                searches -= 1
                with suppress(OSError):  # other users can write to the folder, so it cannot be trusted
                    await self._find()
            await asyncio.sleep(SEARCH_PERIOD_S)

    async def _find(self) -> None:
        """Follow the processes of open connections that are not followed yet."""
        from mcpdesk.link.remote import running_cores

        mark = rendezvous.state_mark(self._core.chosen_state)
        for core in await asyncio.to_thread(running_cores, self._core.chosen_state):
            welcome, file = core.welcome, os.path.basename(core.path)
            is_ours = welcome.kind == "up" and file == f"{welcome.pid}{mark}.attach"
            if is_ours and welcome.mcpdesk == __version__ and core.path not in self._followed:
                task = asyncio.get_running_loop().create_task(self._follow(core))
                self._followed[core.path] = task
                task.add_done_callback(partial(self._forget, core.path))

    def _forget(self, path: str, task: asyncio.Task[None]) -> None:
        self._followed.pop(path, None)

    async def _follow(self, core: RunningCore) -> None:
        """Copy the traffic of a process until it ends."""
        from mcpdesk.link.attach_messages import FromCore, TrafficBatch
        from mcpdesk.link.core_copy import message_decoder
        from mcpdesk.link.remote import join

        name, journal = ", ".join(core.welcome.names), self._core.journal
        copy, decoder = _ConnectionCopy(self._core.recording), message_decoder()
        try:
            _, wire = await join(core.path, viewers=0)
            journal.log("info", "server", f"the traffic of the open connection {name} is shown")
            try:
                while True:
                    message: FromCore = decoder.decode(await wire.receive())
                    if isinstance(message, TrafficBatch):
                        copy.add(message)
            finally:
                wire.close()
        except (EOFError, OSError):
            journal.log("info", "server", f"the open connection {name} has ended")
        except Exception:
            _log.exception("the traffic of an open connection cannot be copied")
        finally:
            copy.close()


class _ConnectionCopy:
    """Copy of the connections of one process in a recording, with numbers of this process."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._copies: dict[int, ConnectionInfo] = {}
        """Connections in the recording, by number at the other process."""

    def add(self, batch: TrafficBatch) -> None:
        """Record a batch. Of a large frame, only the beginning and the end are here."""
        for info in batch.connections:
            known = self._copies.get(info.number)
            number = next_connection() if known is None else known.number
            copied = replace(info, number=number, peer=PEER if info.peer == "desk" else info.peer)
            self._copies[info.number] = copied
            self._recording.connect(copied)
        for frame in batch.frames:
            if (copied_info := self._copies.get(frame.connection)) is not None:
                self._recording.frame(
                    copied_info.number,
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
