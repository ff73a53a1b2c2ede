"""`mcpdesk read`: one resource."""

from __future__ import annotations

import base64

import click

from mcpdesk.cli import completion
from mcpdesk.cli.options import Reach, reach_options
from mcpdesk.errors import InvalidAnswer

EPILOG = """\b
Examples:
  mcpdesk read sample_servers/profiles resource://getting-started
  mcpdesk read sample_servers/profiles resource://getting-started --json
"""


@click.command(name="read", epilog=EPILOG, short_help="Read a resource.")
@click.argument("target", shell_complete=completion.folder)
@click.argument("uri")
@click.option("--json", "as_json", is_flag=True, help="Print the whole result as JSON.")
@click.option("--timeout", "timeout_s", type=float, default=60.0, show_default=True, help="Seconds to wait.")
@reach_options
def command(target: str, uri: str, as_json: bool, timeout_s: float, reach: Reach) -> None:
    """Read the resource URI of TARGET, a server folder or the URL of a server.

    A pipe or a file gets the contents byte for byte, texts and binary ones alike. On a terminal control
    characters in a text are made visible, and binary contents are described.
    """
    from mcpdesk.cli.command_client import client
    from mcpdesk.cli.printing import print_bytes, print_json, print_text

    with client(target, reach) as peer:
        result = peer.request("resources/read", {"uri": uri}, timeout_s)
    if as_json:
        print_json(result)
        return
    found = result.get("contents", ())
    for contents in found:
        if contents.get("text") is not None:
            print_text(contents["text"], exact=len(found) == 1)
        else:
            print_bytes(decoded(contents.get("blob") or ""), contents.get("mimeType", ""))


def decoded(blob: str) -> bytes:
    """The bytes of binary contents. Raises: InvalidAnswer when they are none."""
    try:
        return base64.b64decode(blob, validate=True)
    except ValueError:
        raise InvalidAnswer("the contents are no Base64") from None
