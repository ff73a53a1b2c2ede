"""`mcpdesk attach [NAME or PID]`: a screen on a core, or a tap, that runs on this machine already."""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from mcpdesk.cli.core_process import StopRequests, require_unix
from mcpdesk.cli.desk import CAPTURE_GRACE_S, THEME, require_terminal, show_capture
from mcpdesk.cli.printing import aligned
from mcpdesk.cli.taps import RunningTap, running_taps
from mcpdesk.client.targets import program_name
from mcpdesk.errors import DeskUserError
from mcpdesk.paths import state_folder

if TYPE_CHECKING:
    from mcpdesk.link.remote import RunningCore

EXAMPLES = """\b
Examples:
  mcpdesk attach            the one core that runs, or a list of those that do
  mcpdesk attach profiles   the core that has the server `profiles`
  mcpdesk attach 4711       the core, or the tap, with that process id
  mcpdesk attach --list     what runs: name, pid, kind, since when, address

With a state folder chosen by MCPDESK_STATE_DIR, only cores with the same one are seen.
"""


@click.command(name="attach", epilog=EXAMPLES, short_help="Open a screen on a core that already runs.")
@click.argument("who", default="", metavar="[NAME or PID]")
@click.option("--list", "is_list", is_flag=True, help="Print what runs and attach to nothing.")
@THEME
def attach_command(who: str, is_list: bool, theme: str | None) -> int:
    """Open a screen on a desk, a `mcpdesk serve` or a lone `mcpdesk stdio` of yours. Leaving it leaves the
    core running. Of a tap (`mcpdesk stdio -- COMMAND`) the screen shows what passes, read only."""
    require_unix("`mcpdesk attach`")
    there = running()
    if not there:
        raise DeskUserError("No core of mcpdesk runs on this machine.", "Start one: mcpdesk serve FOLDER")
    if is_list or (not who and len(there) > 1):
        print("\n".join(listed(there)))
        return 0
    found = chosen(there, who)
    require_terminal("`mcpdesk attach --list` needs none.")
    if isinstance(found.at, RunningTap):
        told = f"attached to {found.title}, read only: it goes on when you leave"
        return show_capture(Path(found.at.capture), theme, told)
    return run_screen(found.at, theme)


class Attachable(NamedTuple):
    """A core or a tap that runs, as it is listed."""

    names: tuple[str, ...]
    """Of its servers."""
    pid: int
    kind: str
    since: float
    """Unix time in seconds."""
    place: str
    """Where clients reach its first server; of a tap its capture."""
    at: RunningCore | RunningTap

    @property
    def title(self) -> str:
        """How to speak of it: `serve hello (pid 4711)`."""
        return f"{self.kind} {' '.join(self.names)} (pid {self.pid})"


def running() -> list[Attachable]:
    """The cores of this user on this machine, then the taps, each the oldest first."""
    from mcpdesk.link.remote import running_cores

    found: list[Attachable] = []
    for core in running_cores():
        said = core.welcome
        found.append(Attachable(said.names, said.pid, said.kind, said.since, said.address, core))
    for tap in reversed(running_taps(state_folder())):
        name = program_name(tap.command)
        found.append(Attachable((name,), tap.pid, "tap", tap.started, tap.capture, tap))
    return found


def chosen(there: list[Attachable], who: str) -> Attachable:
    """What a person means by the name of a server, a pid, or nothing where there is but one.

    Raises: DeskUserError when there is none, or more than one.
    """
    found = [each for each in there if not who or who in each.names or who == str(each.pid)]
    if len(found) == 1:
        return found[0]
    if found:
        pids = ", ".join(str(each.pid) for each in found)
        raise DeskUserError(f"{len(found)} cores have a server {who!r}.", f"Name one by its pid: {pids}")
    titles = ", ".join(each.title for each in there)
    raise DeskUserError(f"No core that runs has a server {who!r} or that pid.", f"There is {titles}.")


def listed(there: list[Attachable]) -> list[str]:
    """A line for each, under a line of titles."""
    rows = [("NAME", "PID", "KIND", "SINCE", "ADDRESS")]
    for each in there:
        since = time.strftime("%Y-%m-%d %H:%M", time.localtime(each.since))
        rows.append((",".join(each.names) or "-", str(each.pid), each.kind, since, each.place or "-"))
    return list(aligned(rows))


def run_screen(core: RunningCore, theme: str | None = None) -> int:
    """Show a core until the person leaves; returns the exit code. Raises: DeskUserError."""
    from mcpdesk.cli.screen_runs import ScreenRuns, Terminal
    from mcpdesk.hosting.journal import logging_to
    from mcpdesk.link.remote import RemoteLink
    from mcpdesk.link.values import Severity
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
