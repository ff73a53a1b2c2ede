"""`mcpdesk prompt`: one prompt, filled in."""

from __future__ import annotations

from typing import Any

import click

from mcpdesk.cli import completion
from mcpdesk.cli.call import texts_only
from mcpdesk.cli.options import Reach, reach_options

EPILOG = """\b
Examples:
  mcpdesk prompt sample_servers/profiles summarize text='Once upon a time ...'
  mcpdesk prompt sample_servers/profiles summarize text=hello --json
"""


@click.command(name="prompt", epilog=EPILOG, short_help="Get a prompt.")
@click.argument("target", shell_complete=completion.folder)
@click.argument("name", shell_complete=completion.items("prompts/list", "prompts"))
@click.argument("arguments", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--json", "as_json", is_flag=True, help="Print the whole result as JSON.")
@click.option("--timeout", "timeout_s", type=float, default=60.0, show_default=True, help="Seconds to wait.")
@reach_options
def command(
    target: str, name: str, arguments: tuple[str, ...], as_json: bool, timeout_s: float, reach: Reach
) -> None:
    """Get the prompt NAME of TARGET, a server folder or the URL of a server, with its arguments filled in."""
    from mcpdesk.bridge.result_text import content_text
    from mcpdesk.cli.command_client import client
    from mcpdesk.cli.printing import print_json, print_text

    params: dict[str, Any] = {"name": name, "arguments": texts_only(arguments)}
    with client(target, reach) as peer:
        result = peer.request("prompts/get", params, timeout_s)
    if as_json:
        print_json(result)
        return
    messages = result.get("messages", [])
    told_apart = len(messages) > 1
    for message in messages:
        text = content_text(message["content"])
        print_text(f"{message['role']}:\n{text}" if told_apart else text)
