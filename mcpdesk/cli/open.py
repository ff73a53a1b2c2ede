"""`mcpdesk open FILE`: a capture from disk on the traffic screen."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mcpdesk.cli.desk import require_terminal

if TYPE_CHECKING:
    from mcpdesk.recorder.archive import Archive

EPILOG = """\b
Example:
  mcpdesk open ~/.local/state/mcpdesk/captures/20260728-101500.jsonl
"""
GRACE_S = 2.0


@click.command(name="open", epilog=EPILOG, short_help="Show a capture from disk.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--theme", metavar="NAME", help="The theme to wear; without it, the one worn last.")
def command(file: Path, theme: str | None) -> int:
    """Show the capture FILE, its further parts included, on the traffic screen. Nothing is hosted or changed.

    `mcpdesk settings` says where captures lie.
    """
    from mcpdesk.cli.core_process import require_unix

    require_unix("`mcpdesk open`")
    from mcpdesk.recorder.archive import Archive

    archive = Archive(file.expanduser())
    require_terminal("Only a terminal can show a capture; its lines are JSON for other programs.")
    try:
        return _show(archive, theme)
    finally:
        archive.close()


def _show(archive: Archive, theme: str | None) -> int:
    """Run the screen until the person leaves."""
    from mcpdesk.cli.core_process import StopRequests
    from mcpdesk.cli.screen_runs import ScreenRuns, Terminal
    from mcpdesk.link.capture_link import CaptureLink
    from mcpdesk.paths import state_folder
    from mcpdesk.tui.capture_app import CaptureApp

    terminal = Terminal(sys.stderr.fileno())
    runs = ScreenRuns(partial(CaptureApp, CaptureLink(archive), theme), state_folder(), terminal)
    with StopRequests(runs.stop, grace_s=GRACE_S, last=terminal.restore, with_parent=True):
        return runs.run()
