"""Puts core and screen together in one process, and takes them apart again whatever happens."""

from __future__ import annotations

import gc
from functools import partial
from typing import TYPE_CHECKING

from msgspec.structs import replace

from mcpdesk.cli.board import give_dashboard
from mcpdesk.cli.claiming import claiming
from mcpdesk.cli.screen_runs import ScreenRuns
from mcpdesk.cli.signals import Ending
from mcpdesk.cli.terminal import Terminal

if TYPE_CHECKING:
    from pathlib import Path

    from mcpdesk.cli.screen_runs import MakeApp
    from mcpdesk.hosting.core_thread import CoreThread
    from mcpdesk.hosting.host_plan import Plan
    from mcpdesk.link.link import Link
    from mcpdesk.transports.descriptors import Claimed

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
        try:
            history = plan.settings.state_dir / "calls.jsonl"
            app = partial(DeskApp, link, theme, history=history, settled=host.screen_drawn)
            code = _show(app, core, claimed, plan.settings.state_dir, link)
        finally:
            link.close()
            core.stop()
    if core.started.done():
        core.started.result()
    return code


def _show(app: MakeApp, core: CoreThread, claimed: Claimed, state: Path, link: Link) -> int:
    """Run the screen; the core loads its folders and begins to serve once the screen stands."""
    terminal = Terminal(claimed.stderr_fd)

    def begin() -> None:
        gc.enable()
        claimed.redirect_prints()
        core.started.add_done_callback(lambda started: runs.stop() if started.exception() else None)
        core.start()

    def serving() -> str:
        urls = [server.url for server in link.view().servers if server.url]
        return f"The server goes on at {', '.join(urls)}." if urls else "The server goes on."

    runs = ScreenRuns(app, state, terminal, keys_fd=claimed.stdin_fd, begin=begin, what_goes_on=serving)
    with Ending(runs.stop, grace_s=GRACE_S, last=terminal.restore, with_parent=True):
        return runs.run()
