"""`mcpdesk watch`: what a server notifies of, a line each, until somebody ends it."""

from __future__ import annotations

import json
import signal
import time
from typing import TYPE_CHECKING

import click

from mcpdesk.cli.printing import CANNOT_CONNECT, print_line, print_message
from mcpdesk.cli.reach import reach_options
from mcpdesk.cli.requests import TARGET
from mcpdesk.client.hints import CLOSED
from mcpdesk.errors import DeskUserError
from mcpdesk.plain_text import clean, json_escaped
from mcpdesk.upstream.target_transport import Reach

if TYPE_CHECKING:
    from mcpdesk.cli.command_client import Notification

EXAMPLES = """\b
Examples:
  mcpdesk watch sample_servers/hello
  mcpdesk watch https://example.com/mcp --resource file:///notes.md --json
  mcpdesk watch --era stateless -- npx -y some-server

ctrl+c or SIGTERM ends it, with exit code 0. When the server ends it or goes away: 3.
"""


@click.command(name="watch", epilog=EXAMPLES, short_help="Print notifications until ended.")
@TARGET
@click.option("--resource", "uris", multiple=True, metavar="URI", help="Follow this resource, too.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a line.")
@reach_options
def watch_command(target: str, uris: tuple[str, ...], as_json: bool, reach: Reach) -> None:
    """Print what TARGET notifies of: changed lists and resources, log messages, tasks.

    A folder is read again whenever its files change, and tells what changed.
    """
    from mcpdesk.cli.command_client import client

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with client(target, reach, watches=True) as server:
            for each in server.notifications(uris, lambda: print_message("watching; ctrl+c ends it")):
                print_line(as_line(each, as_json), server.output_fd)
    except KeyboardInterrupt:
        return
    raise DeskUserError("The server has ended the subscription.", CLOSED, CANNOT_CONNECT)


def as_line(one: Notification, as_json: bool) -> str:
    """Return a notification as one line."""
    if as_json:
        return json_escaped(json.dumps(one._asdict()))
    moment = time.strftime("%H:%M:%S", time.localtime(one.time))
    return f"{moment}  {one.method.removeprefix('notifications/')}  {_told(one)}".rstrip()


def _told(one: Notification) -> str:
    """The parameters of a notification in one line."""
    params = {key: value for key, value in one.params.items() if key != "_meta"}
    if one.method == "notifications/message":
        logger = params.get("logger")
        data = params.get("data")
        text = data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
        return clean(f"{params.get('level')}  {f'{logger}: ' if logger else ''}{text}", newlines=False)
    values = (
        value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for value in params.values()
    )
    return clean("  ".join(values), newlines=False)
