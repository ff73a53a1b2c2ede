"""Notices the saves of the selected servers on any screen, and shows what they changed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from textual.app import App
from textual.notifications import SeverityLevel
from textual.worker import Worker

from mcpdesk.link.link import Link
from mcpdesk.link.values import CoreView
from mcpdesk.tui.core_answers import fetch_exchanges
from mcpdesk.tui.render.safe_text import one_line

if TYPE_CHECKING:
    from mcpdesk.tui.workbench.recording import RecordingReplay, Saves


class SaveWatch:
    """Saves of the servers that were selected on the screen, and the calls that are repeated after a save.

    `refresh` shows new notices. It is called before the summary of repeated calls is shown.
    """

    def __init__(self, link: Link, refresh: Callable[[], object]) -> None:
        self._link = link
        self._refresh = refresh
        self._versions: dict[str, int] = {}
        """Versions of the catalogues that were compared last, by server."""
        self._replay_worker: Worker[None] | None = None

    @cached_property
    def _saves(self) -> Saves:
        from mcpdesk.tui.workbench.recording import Saves  # not needed before the screen is drawn

        return Saves()

    def follow(self, app: App[None], view: CoreView, selected: str) -> None:
        """Store the saves since the last call, of the selected server and of servers selected earlier.

        If the person has turned on repetition, repeat the recorded calls after a save.
        """
        for server in view.servers:
            version = self._versions.get(server.name)
            if version == server.catalogue_version or (version is None and server.name != selected):
                continue
            self._versions[server.name] = server.catalogue_version
            if not self._saves.add_if_changed(self._link.catalogue(server.name)):
                continue
            if self._saves.replays_at_every_save and not self._saves.latest(server.name).load_problems:
                self._start(app, server.name)
            elif self._saves.update_page is not None:
                app.run_worker(self._list_calls(app, server.name), group="recording")

    def open_page(self, app: App[None], server: str) -> None:
        """Show the changes of the last save, and the recorded calls. The calls are not repeated yet."""
        from mcpdesk.tui.workbench.save_page import SavePage

        def start() -> None:
            self._start(app, server)

        app.push_screen(SavePage(self._saves, server, start, self._stop))
        if self._saves.latest(server).replay is None:
            app.run_worker(self._list_calls(app, server), group="recording")

    def _start(self, app: App[None], server: str) -> None:
        self._stop()
        self._replay_worker = app.run_worker(self._repeat(app, server), group="recording")

    def _stop(self) -> None:
        """Make no further calls."""
        if self._replay_worker is not None:
            self._replay_worker.cancel()

    async def _list_calls(self, app: App[None], server: str) -> None:
        """Show the recorded calls of the current code, without making them."""
        save = self._saves.latest(server)
        replay = await self._new_replay(app, server)
        if save.replay is None:
            save.replay = replay
            self._saves.refresh_page()

    async def _repeat(self, app: App[None], server: str) -> None:
        """Repeat the recorded calls of a server. If their page is closed, show the result in a notice."""
        save = self._saves.latest(server)
        replay = save.replay = await self._new_replay(app, server)
        await replay.run(self._saves.refresh_page)
        if self._saves.update_page is None:
            is_breaking = save.is_breaking
            message = f"recording of {replay.server}: {replay.summary}{', breaking change' * is_breaking}"
            severity: SeverityLevel = "warning" if replay.has_differences or is_breaking else "information"
            self._refresh()  # show the notice about the save itself first
            app.notify(one_line(f"{message} · v d shows it"), severity=severity, markup=False)

    async def _new_replay(self, app: App[None], server: str) -> RecordingReplay:
        """Create a replay of the recorded calls of a server's read-only tools, and fetch all their bytes."""
        from mcpdesk.tui.workbench.recording import RecordingReplay, calls_of, read_only_tools

        tools = read_only_tools(self._link, server)
        calls = [call.number for call in calls_of(self._link, server, tools)]
        await fetch_exchanges(app, self._link.traffic, calls)
        return RecordingReplay(self._link, server)
