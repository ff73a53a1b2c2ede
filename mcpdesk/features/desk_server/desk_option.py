"""Option `--desk` of the commands that serve clients."""

from __future__ import annotations

import click

from mcpdesk.feature import CoreOption

DESK = CoreOption(
    "desk_server",
    click.option(
        "--desk",
        "desk_server",
        is_flag=True,
        help="Offer the desk itself as an MCP server at /desk/mcp, for agents that have the operator's key.",
    ),
    lambda is_given: "yes" if is_given else "",
    "mcpdesk serve ~/servers/a --desk                    an agent with the operator's key reads the traffic",
)
