"""`mcpdesk serve FOLDER ...`: a core without a screen."""

from __future__ import annotations

import os
from typing import Any

import click

from mcpdesk.cli import completion
from mcpdesk.cli.options import given_flags, mode_option, server_folder, setting_options

EPILOG = """\b
Examples:
  mcpdesk serve ~/servers/profiles
  mcpdesk serve ~/servers/a ~/servers/b --http 127.0.0.1:4000
  mcpdesk serve ~/servers/a --socket /run/user/1000/a.sock
  mcpdesk serve ~/servers/a --mode review

With --socket HTTP is served there instead of on TCP.
Logs go to stderr. SIGTERM and Ctrl+C let running calls finish, then end with 0.
"""


@click.command(name="serve", epilog=EPILOG, short_help="Serve folders without a screen.")
@click.argument("folders", nargs=-1, required=True, metavar="FOLDER...", shell_complete=completion.folder)
@mode_option
@setting_options
def command(folders: tuple[str, ...], mode: str, **values: Any) -> int:
    """Serve the FOLDERs over HTTP, and to every `mcpdesk stdio FOLDER`, until told to stop."""
    places = tuple(map(server_folder, folders))
    from mcpdesk.cli.service import run_service
    from mcpdesk.hosting.host_plan import plan_for

    plan = plan_for(places, given_flags(values), os.environ, mode=mode, waits=True)
    return run_service(plan)
