"""`mcpdesk list`: what a server offers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from mcpdesk.cli import completion
from mcpdesk.cli.options import Reach, reach_options

EPILOG = """\b
Examples:
  mcpdesk list sample_servers/hello
  mcpdesk list sample_servers/hello --json
  mcpdesk list sample_servers/dataviz --mode look
  mcpdesk list http://127.0.0.1:3333/mcp/hello
"""
SHELVES: dict[str, tuple[str, str]] = {
    "tools": ("tools/list", "name"),
    "resources": ("resources/list", "uri"),
    "resourceTemplates": ("resources/templates/list", "uriTemplate"),
    "prompts": ("prompts/list", "name"),
}
"""Key of the answer -> method, and the field that names an item."""


@click.command(name="list", epilog=EPILOG, short_help="List tools, resources and prompts.")
@click.argument("target", shell_complete=completion.folder)
@click.option("--json", "as_json", is_flag=True, help="Print the definitions as JSON.")
@click.option("--timeout", "timeout_s", type=float, default=60.0, show_default=True, help="Seconds to wait.")
@reach_options
def command(target: str, as_json: bool, timeout_s: float, reach: Reach) -> None:
    """List the tools, resources and prompts of TARGET, a server folder or the URL of a server, and what of a
    folder is not offered."""
    from mcpdesk.cli.command_client import client
    from mcpdesk.cli.printing import aligned, print_json, print_text

    with client(target, reach) as peer:
        shelves = {key: peer.request_all(method, key, timeout_s) for key, (method, _) in SHELVES.items()}
        left_out = peer.left_out()
    if as_json:
        missing = [{"kind": each.kind, "name": each.name, "reason": each.problem} for each in left_out]
        print_json(shelves | {"unavailable": missing})
        return
    texts = [shelf_text(key, items) for key, items in shelves.items() if items]
    if left_out:
        rows = [(f"{each.kind} {each.name}", each.problem) for each in left_out]
        texts.append("\n".join(["unavailable", *aligned(rows, "  ")]))
    print_text("\n\n".join(texts) or "nothing")


def shelf_text(key: str, items: list[dict[str, Any]]) -> str:
    """One kind of items: a heading, and a line for each."""
    from mcpdesk.cli.printing import aligned

    rows = [(str(item.get(SHELVES[key][1])), summary(item)) for item in items]
    heading = "resource templates" if key == "resourceTemplates" else key
    return "\n".join([heading, *aligned(rows, "  ")])


def summary(item: Mapping[str, Any]) -> str:
    """The first line of an item's description, else its title."""
    text = str(item.get("description") or item.get("title") or "").strip()
    return text.partition("\n")[0]
