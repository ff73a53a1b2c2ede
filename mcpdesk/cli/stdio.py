"""`mcpdesk stdio FOLDER`: what a client's configuration starts.

The plain form never comes this far: `__main__` serves it before click is imported.
"""

from __future__ import annotations

import click

from mcpdesk.cli import completion
from mcpdesk.cli.core_process import require_unix
from mcpdesk.cli.options import server_folder

EPILOG = """\b
Example, in a client's configuration:
  {"command": "mcpdesk", "args": ["stdio", "/home/ada/servers/profiles"]}

A desk that hosts FOLDER serves the client, and shows its calls, whichever of the two began first. Without
one, this process does.
Logs go to stderr.
"""


@click.command(name="stdio", epilog=EPILOG, short_help="Serve one client over stdin and stdout.")
@click.argument("folder", metavar="FOLDER", shell_complete=completion.folder)
@click.option("--mode", default="", metavar="NAME", help="Offer only the tools of this mode of the server.")
@click.option("--alone", is_flag=True, help="Serve from this process even if a desk hosts FOLDER.")
def command(folder: str, mode: str, alone: bool) -> int:
    """Serve FOLDER over stdin and stdout until the client closes its end."""
    require_unix("`mcpdesk stdio`")
    from mcpdesk.cli import lone_core
    from mcpdesk.transports import pump

    place = server_folder(folder)
    if alone:
        ended = lone_core.run(place, mode, is_alone=True)
        return ended if isinstance(ended, int) else 0
    return pump.serve(str(place), mode, lambda client_state: lone_core.run(place, mode, client_state))
