"""Puts core and screen together in one process, and takes them apart again whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING

from mcpdesk.cli.claiming import claiming
from mcpdesk.cli.signals import Ending
from mcpdesk.cli.terminal import Terminal

if TYPE_CHECKING:
    from mcpdesk.hosting.core_thread import CoreThread
    from mcpdesk.hosting.host import Plan
    from mcpdesk.link.link import Link

GRACE_S = 8.0
"""How long screen and core may take to end before they are ended."""


def run_desk(plan: Plan) -> int:
    """Show the desk until the person leaves; returns the exit code.

    Raises: DeskError when the core cannot start.
    """
    from mcpdesk.hosting.core_thread import CoreThread
    from mcpdesk.hosting.host import Host
    from mcpdesk.link.local import LocalLink

    host = Host(plan)
    with claiming(host, "screen") as claimed:
        host.load()
        core = CoreThread(host)
        link = LocalLink(host)
        terminal = Terminal(claimed.stderr_fd)
        try:
            code = _show(link, core, claimed.redirect_prints, terminal)
        finally:
            link.close()
            core.stop()
    if core.started.done():
        core.started.result()
    return code


def _show(link: Link, core: CoreThread, redirect_prints: Callable[[], None], terminal: Terminal) -> int:
    from mcpdesk.tui.app import DeskApp

    class Desk(DeskApp):
        """The desk of this process: the core begins once the screen stands."""

        def on_ready(self) -> None:
            redirect_prints()
            self.leave = asyncio.get_running_loop().call_soon_threadsafe
            core.started.add_done_callback(self._core_started)
            core.start()

        def _core_started(self, started: Future[None]) -> None:
            if started.exception() is not None:
                self.leave(self.exit)

        def ask_to_leave(self, reason: str) -> None:
            self.leave(self.exit)

    desk = Desk(link)
    with Ending(desk.ask_to_leave, grace_s=GRACE_S, last=terminal.restore, with_parent=True):
        desk.run()
    return desk.return_code or 0
