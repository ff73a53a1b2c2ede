"""Texts of the traffic screen: instructions for an empty list, and the message about an invalid filter."""

from __future__ import annotations

from textwrap import wrap

from rich.cells import cell_len

from mcpdesk.link.values import CoreView
from mcpdesk.tui.actions import key_or_palette
from mcpdesk.tui.core_answers import ClientConfigs
from mcpdesk.tui.render.safe_text import one_line
from mcpdesk.tui.traffic.line_cells import Cell

_MIN_WRAPPED_WIDTH = 36
"""Minimum width of a wrapped message in cells."""
_MAX_LINES = 2


def pointed_message(column: int, message: str, width: int) -> str:
    """Return an error message with an arrow below the cell `before`, on lines of at most `width` cells."""
    message_width = cell_len(message)
    if column + 2 + message_width > width and message_width < column:
        return f"{' ' * (column - message_width - 1)}{message} ↑"
    indent = " " * min(column, max(0, width - 2 - max(_MIN_WRAPPED_WIDTH, message_width // _MAX_LINES)))
    return "\n".join(
        wrap(message, max(1, width), initial_indent=f"{indent}↑ ", subsequent_indent=f"{indent}  ")
    )


def connect_instructions(configs: ClientConfigs, view: CoreView, width: int) -> list[Cell]:
    """Return instructions to produce traffic, on lines of at most `width` cells."""
    lines: list[Cell] = [("", ""), ("  No messages yet.", "traffic--name"), ("", "")]
    if not view.servers:
        return lines
    if width <= 0:  # not laid out yet
        return []
    server = view.servers[0]
    lines.append(("  Call a tool on the workbench (1), or connect a client:", ""))
    clients = [("Claude Code", "claude-code")]
    if server.url or not server.is_started:  # the URL exists as soon as the port is open
        clients.append(("by hand", "curl"))
    for title, client in clients:
        lines += [("", ""), (f"  {title}", "traffic--muted")]
        command = configs.lines(view, server, client, width - 5)
        lines += [(f"    {line}", "traffic--peer") for line in command]
    lines += [("", ""), (f"  For other clients: {key_or_palette('main.client_config')}", "traffic--muted")]
    return [(one_line(text), style) for text, style in lines]
