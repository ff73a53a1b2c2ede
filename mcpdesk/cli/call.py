"""`mcpdesk call`: one tool, once."""

from __future__ import annotations

from typing import Any

import click

from mcpdesk.cli import completion
from mcpdesk.cli.arguments import fitted, given_as_text, parse_arguments
from mcpdesk.cli.printing import OK, TOOL_ERROR
from mcpdesk.cli.reach import Reach, reach_options

EPILOG = """\b
Examples:
  mcpdesk call sample_servers/hello greet name=Ada loudly=yes
  mcpdesk call sample_servers/hello greet --input '{"name": "Ada"}' --json
  mcpdesk call http://127.0.0.1:3333/mcp/hello greet name=Ada --key-env MCPDESK_API_KEY

Exit codes: 0 ok, 1 tool error, 2 usage, 3 cannot connect, 4 protocol error, 5 timed out.
"""


@click.command(name="call", epilog=EPILOG, short_help="Call a tool.")
@click.argument("target", shell_complete=completion.folder)
@click.argument("tool", shell_complete=completion.items("tools/list", "tools"))
@click.argument("arguments", nargs=-1, metavar="[KEY=VALUE | KEY:=JSON]...")
@click.option(
    "--input", "whole", metavar="JSON", help="All arguments as one JSON object; - reads it from stdin."
)
@click.option("--json", "as_json", is_flag=True, help="Print the whole result as JSON.")
@click.option("--timeout", "timeout_s", type=float, default=60.0, show_default=True, help="Seconds to wait.")
@reach_options
def command(
    target: str,
    tool: str,
    arguments: tuple[str, ...],
    whole: str | None,
    as_json: bool,
    timeout_s: float,
    reach: Reach,
) -> int:
    """Call TOOL of TARGET, a server folder or the URL of a server, and print its result.

    KEY=VALUE becomes what the tool's schema says: a text, a number, true or false; KEY:=JSON is any value.
    What the tool asks is asked in the terminal; without one it hears that nobody can answer. The timeout does
    not run while a question waits.
    """
    from mcpdesk.bridge.result_text import result_text
    from mcpdesk.cli.command_client import client
    from mcpdesk.cli.printing import print_json, print_text

    given, texts = parse_arguments(arguments, whole), given_as_text(arguments)
    with client(target, reach) as peer:
        if texts:
            known = peer.request_all("tools/list", "tools", timeout_s)
            schema: dict[str, Any] = next(
                (each["inputSchema"] for each in known if each.get("name") == tool), {}
            )
            given = fitted(given, texts, schema)
        params: dict[str, Any] = {"name": tool, "arguments": given}
        result = peer.request("tools/call", params, timeout_s)
    if as_json:
        print_json(result)
    else:
        print_text(result_text(result))
    return TOOL_ERROR if result.get("isError") else OK
