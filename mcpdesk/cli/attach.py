"""`mcpdesk attach [NAME or PID]`: a screen on a core that runs on this machine already."""

from __future__ import annotations

import sys
import time
from functools import partial
from typing import TYPE_CHECKING

import click

from mcpdesk.cli.core_process import StopRequests, require_unix
from mcpdesk.cli.desk import CAPTURE_GRACE_S, THEME, require_terminal
from mcpdesk.errors import DeskUserError

if TYPE_CHECKING:
    from mcpdesk.link.remote import RunningCore

EXAMPLES = """\b
Examples:
  mcpdesk attach            the one core that runs, or a list of those that do
  mcpdesk attach profiles   the core that has the server `profiles`
  mcpdesk attach 4711       the core with that process id
  mcpdesk attach --list     what runs: name, pid, kind, since when, address

With a state folder chosen by MCPDESK_STATE_DIR, only cores with the same one are seen.
"""


@click.command(name="attach", epilog=EXAMPLES, short_help="Open a screen on a core that already runs.")
@click.argument("who", default="", metavar="[NAME or PID]")
@click.option("--list", "is_list", is_flag=True, help="Print what runs and attach to nothing.")
@THEME
def attach_command(who: str, is_list: bool, theme: str | None) -> int:
    """Open a screen on a desk, a `mcpdesk serve` or a lone `mcpdesk stdio` of yours. Leaving it leaves the
    core running."""
    require_unix("`mcpdesk attach`")
    from mcpdesk.link.remote import running_cores

    cores = running_cores()
    if not cores:
        raise DeskUserError("No core of mcpdesk runs on this machine.", "Start one: mcpdesk serve FOLDER")
    if is_list or (not who and len(cores) > 1):
        print("\n".join(listed(cores)))
        return 0
    core = chosen(cores, who)
    require_terminal("`mcpdesk attach --list` needs none.")
    return run_screen(core, theme)


def chosen(cores: list[RunningCore], who: str) -> RunningCore:
    """The core a person means by the name of a server, a pid, or nothing where there is but one.

    Raises: DeskUserError when there is none, or more than one.
    """
    found = [core for core in cores if not who or who in core.welcome.names or who == str(core.welcome.pid)]
    if len(found) == 1:
        return found[0]
    if found:
        pids = ", ".join(str(core.welcome.pid) for core in found)
        raise DeskUserError(f"{len(found)} cores have a server {who!r}.", f"Name one by its pid: {pids}")
    there = ", ".join(core.welcome.title for core in cores)
    raise DeskUserError(f"No core that runs has a server {who!r} or that pid.", f"There is {there}.")


def listed(cores: list[RunningCore]) -> list[str]:
    """A line for each core, under a line of titles."""
    rows = [("NAME", "PID", "KIND", "SINCE", "ADDRESS")]
    for core in cores:
        welcome = core.welcome
        since = time.strftime("%Y-%m-%d %H:%M", time.localtime(welcome.since))
        name = ",".join(welcome.names) or "-"
        rows.append((name, str(welcome.pid), welcome.kind, since, welcome.address or "-"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def run_screen(core: RunningCore, theme: str | None = None) -> int:
    """Show a core until the person leaves; returns the exit code. Raises: DeskUserError."""
    from mcpdesk.cli.screen_runs import ScreenRuns, Terminal
    from mcpdesk.hosting.journal import logging_to
    from mcpdesk.link.remote import RemoteLink
    from mcpdesk.link.values import Severity
    from mcpdesk.paths import state_folder
    from mcpdesk.tui.app import DeskApp

    state = state_folder()
    link = RemoteLink(core)
    told = f"attached to {link.core.title}: it goes on when you leave"
    link.journal.notify(told, Severity.INFO)
    try:
        with logging_to(link.journal, lambda: ()):
            app = partial(DeskApp, link, theme, history=state / "calls.jsonl")
            terminal = Terminal(sys.stderr.fileno())
            runs = ScreenRuns(app, state, terminal, what_goes_on=lambda: f"{link.core.title} goes on.")
            with StopRequests(runs.stop, grace_s=CAPTURE_GRACE_S, last=terminal.restore, with_parent=True):
                return runs.run()
    finally:
        link.close()
