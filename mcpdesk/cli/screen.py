"""Puts core and screen together in one process, and takes them apart again whatever happens."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mcpdesk.cli.board import give_dashboard
from mcpdesk.cli.claiming import claiming
from mcpdesk.cli.signals import Ending
from mcpdesk.cli.terminal import Terminal

if TYPE_CHECKING:
    from mcpdesk.hosting.core_thread import CoreThread
    from mcpdesk.hosting.effective import Plan
    from mcpdesk.tui.app import DeskApp

GRACE_S = 8.0
"""How long screen and core may take to end before they are ended."""


def run_desk(plan: Plan, theme: str | None = None) -> int:
    """Show the desk until the person leaves; returns the exit code. Without a `theme`: the one worn last.

    Raises: DeskError when the core cannot start.
    """
    # What is made until the screen stands is there to stay: looking for garbage in it is in vain.
    gc.disable()
    from mcpdesk.hosting.core_thread import CoreThread
    from mcpdesk.hosting.host import Host
    from mcpdesk.link.local import LocalLink
    from mcpdesk.tui.app import DeskApp

    host = Host(replace(plan, draws_first=True))
    give_dashboard(host)
    with claiming(host, "screen") as claimed:
        core = CoreThread(host)
        link = LocalLink(host)
        terminal = Terminal(claimed.stderr_fd)
        try:
            history = plan.settings.state_dir / "calls.jsonl"
            app = partial(DeskApp, link, theme, history=history, settled=host.screen_drawn)
            code = _show(app, core, claimed.redirect_prints, terminal)
        finally:
            link.close()
            core.stop()
    if core.started.done():
        core.started.result()
    return code


def _show(
    app: Callable[..., DeskApp], core: CoreThread, redirect_prints: Callable[[], None], terminal: Terminal
) -> int:
    """Run the screen; the core loads its folders and begins to serve once the screen stands."""
    leaving: list[Callable[[], object]] = []

    def begin() -> None:
        gc.enable()
        redirect_prints()
        leaving.append(partial(asyncio.get_running_loop().call_soon_threadsafe, desk.exit))
        core.started.add_done_callback(lambda started: stop("") if started.exception() else None)
        core.start()

    def stop(reason: str) -> None:
        for leave in leaving:
            leave()

    desk = app(begin=begin)
    if sys.__stderr__ is not None:
        desk.error_console.file = sys.__stderr__  # `sys.stderr` is the journal's by now
    with Ending(stop, grace_s=GRACE_S, last=terminal.restore, with_parent=True):
        desk.run()
    return desk.return_code or 0
