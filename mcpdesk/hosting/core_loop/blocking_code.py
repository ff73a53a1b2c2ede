"""Reaction to hosted code that blocks the core's loop.

The block is logged, and later calls of that folder run on separate event loops.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path

from mcpdesk.hosting.core_loop.changes import LoopTurns
from mcpdesk.hosting.core_loop.heartbeat import Heartbeat, Stuck
from mcpdesk.hosting.hosted_folder import HostedFolder
from mcpdesk.hosting.journal import Journal


class BlockingCodeWatcher:
    """Watches the core's loop for blocking code of hosted folders."""

    def __init__(self, folders: Mapping[str, HostedFolder], journal: Journal, turns: LoopTurns) -> None:
        self.heartbeat = Heartbeat(self._roots, self._tool_at, turns, self._on_stuck)
        self.on_stuck: Callable[[], None] = lambda: None
        """Function to call on a separate thread after the block was logged."""
        self._folders, self._journal = folders, journal
        self._loop: asyncio.AbstractEventLoop | None = None

    def start(self) -> None:
        """Start to watch the running loop."""
        self._loop = asyncio.get_running_loop()
        self.heartbeat.start()

    def _roots(self) -> list[Path]:
        """Return the paths of the hosted folders."""
        # The heartbeat calls this on other threads, even while folders are added.
        return [hosted.folder for hosted in list(self._folders.values())]

    def _tool_at(self, folder: Path, file: str, lines: range) -> str:
        """Return the name of the item whose function begins on one of `lines` of a file, or ""."""
        for hosted in list(self._folders.values()):
            if hosted.folder == folder:
                server = hosted.server
                for item in (*server.tools, *server.resources, *server.templates, *server.prompts):
                    source_file, _, line = item.source.rpartition(":")
                    if source_file == file and line.isdigit() and int(line) in lines:
                        return str(item.name)
        return ""

    def _on_stuck(self, stuck: Stuck) -> None:
        """Log the blocking code, and move its folder to separate event loops.

        Runs on the heartbeat's thread.
        """
        remark = f"blocked the server for {stuck.seconds:.1f} s"
        remark += "; await slow work, or write a plain def, which runs in a thread"
        folders = [hosted for hosted in list(self._folders.values()) if str(hosted.folder) == stuck.folder]
        if folders:
            remark += f". From now on {folders[0].server.name} runs on a separate thread"
        self._journal.log("warning", stuck.tool or "server", remark, stuck.where)
        for state in [hosted.server.hosted for hosted in folders]:
            if state is not None and self._loop is not None:
                with contextlib.suppress(RuntimeError):  # the loop is closed
                    self._loop.call_soon_threadsafe(state.isolate)
        self.on_stuck()
