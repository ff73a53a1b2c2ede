"""`mcpdesk [FOLDER ...]`: the desk, a core and the screen on it."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from mcpdesk.cli import completion
from mcpdesk.cli.options import given_flags, mode_option, server_folder, setting_options
from mcpdesk.errors import DeskUserError

EPILOG = """\b
Examples:
  mcpdesk                              the bundled sample
  mcpdesk ~/servers/profiles           a folder of yours
  mcpdesk ~/servers/a ~/servers/b --port 4000
"""


@click.command(name="desk", epilog=EPILOG, short_help="Open the desk (the default command).")
@click.argument("folders", nargs=-1, metavar="[FOLDER]...", shell_complete=completion.folder)
@click.option("--theme", metavar="NAME", help="The theme to wear; without it, the one worn last.")
@mode_option
@setting_options
def command(folders: tuple[str, ...], theme: str | None, mode: str, **values: Any) -> int:
    """Host the FOLDERs, serve them to clients, and open the desk on them. Without one: the bundled sample."""
    from mcpdesk import paths

    places = tuple(map(server_folder, folders)) or (paths.sample_servers() / "desk",)
    flags = given_flags(values)
    require_terminal()
    from mcpdesk.cli.screen import run_desk
    from mcpdesk.hosting.host_plan import plan_for

    plan = plan_for(places, flags, os.environ, may_move=True, mode=mode, waits=True)
    return run_desk(plan, theme)


def require_terminal(instead: str = "Without one, `mcpdesk serve FOLDER` runs the same server.") -> None:
    """Raises: DeskUserError, with `instead` as hint, where no terminal is to draw on and read keys from."""
    is_typed, is_shown, is_drawn = (
        each is not None and each.isatty() for each in (sys.stdin, sys.stdout, sys.stderr)
    )
    if is_typed and is_shown and not is_drawn:
        # Said where the person looks, too: stderr is a file.
        told = "The desk draws on stderr, which is not a terminal: leave the redirection out."
        print(f"mcpdesk: {told}")
        raise DeskUserError(told, "Its log is on the screen, under 5.")
    if not (is_typed and is_drawn):
        raise DeskUserError("The desk needs a terminal.", instead)
    if os.environ.get("TERM") == "dumb":
        raise DeskUserError("The desk cannot draw on a dumb terminal.", "Use `mcpdesk serve FOLDER`.")
