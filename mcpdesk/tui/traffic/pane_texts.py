"""Texts of the traffic screen: instructions for an empty list, an invalid filter, and the status line."""

from __future__ import annotations

from textwrap import wrap

from rich.cells import cell_len

from mcpdesk.link.values import CoreView
from mcpdesk.recorder.index.query import EVERYTHING
from mcpdesk.tui.actions import key_or_palette
from mcpdesk.tui.core_answers import ClientConfigs
from mcpdesk.tui.render.amounts import counted
from mcpdesk.tui.render.safe_text import one_line
from mcpdesk.tui.traffic.line_cells import Cell
from mcpdesk.tui.traffic.line_columns import column_label
from mcpdesk.tui.traffic.marked_lines import shown_marks
from mcpdesk.tui.traffic.traffic_list import TrafficList

_MIN_UNREAD_FRAMES = 10_000
"""Number of frames that are not yet paired, above which the progress of reading is shown."""
_MIN_WRAPPED_WIDTH = 36
"""Minimum width of a wrapped message in cells."""
_MAX_LINES = 2
"""Maximum number of lines of a wrapped message, if the screen is wide enough."""


def pointed_message(column: int, message: str, width: int) -> str:
    """Return an error message with an arrow below the cell `column`, on lines of at most `width` cells."""
    message_width = cell_len(message)
    if column + 2 + message_width > width and message_width < column:
        return f"{' ' * (column - message_width - 1)}{message} ↑"
    wrapped_width = max(_MIN_WRAPPED_WIDTH, message_width // _MAX_LINES)
    indent = " " * min(column, max(0, width - 2 - wrapped_width))
    lines = wrap(message, max(1, width), initial_indent=f"{indent}↑ ", subsequent_indent=f"{indent}  ")
    return "\n".join(lines)


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


def counts_text(listing: TrafficList) -> str:
    """Return the numbers of all, matching, marked and deleted lines, and the progress of searches."""
    view = listing.view
    line_count = len(view.lines)
    noun = ("frame" if view.raw else "exchange") + ("" if view.total == 1 else "s")
    total_text = "" if listing.node == EVERYTHING else f" of {view.total:,}"
    parts = [f"{line_count:,}{total_text} {noun}"]
    index = listing.index
    if index.frame_count - index.paired > _MIN_UNREAD_FRAMES:
        parts.append(f"reading {index.paired / index.frame_count:.0%}")
    if view.done < 1:
        parts.append(f"searching {view.done:.0%}")
    if listing.sorted_lines is not None and listing.sorted_lines.done < 1:
        parts.append(f"sorting {listing.sorted_lines.done:.0%}")
    if listing.marks:
        hidden_count = len(listing.marks) - len(shown_marks(listing))
        hidden_text = f" ({hidden_count} hidden)" if hidden_count else ""
        parts.append(f"{len(listing.marks)} marked{hidden_text}")
    if index.table.base:
        parts.append(f"{index.table.base:,} older in the capture")
    if index.removed:
        parts.append(f"{counted(index.removed, 'frame')} removed from the capture")
    if index.missing_frames:
        parts.append(f"{counted(index.missing_frames, 'frame')} deleted")
    if index.remarks_left_out:
        parts.append(f"{counted(index.remarks_left_out, 'remark')} left out")
    return " · ".join(parts)


def mode_text(listing: TrafficList) -> str:
    """Return the mode: following, paused or sorted, with the key to change it."""
    if listing.paused:
        return f"paused · {listing.view.held_back:,} waiting · p resumes"
    if (order := listing.sorted_lines) is not None:
        sort_state = "sorted" if order.done >= 1 else "sorting"
        arrow = "↓" if order.is_descending else "↑"
        return f"{sort_state} by {column_label(order.column)} {arrow} · s changes it · f by arrival"
    return "following" if listing.following else "f follows"
