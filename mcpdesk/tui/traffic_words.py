"""What the traffic pane says about its list: counts, what is switched on, what to do while it is empty."""

from __future__ import annotations

from mcpdesk.link.link import Link
from mcpdesk.link.values import CoreView
from mcpdesk.recorder.query import EVERYTHING
from mcpdesk.tui.render.safe_text import one_line, shown
from mcpdesk.tui.render.traffic_line import Cell
from mcpdesk.tui.widgets.traffic_list import TrafficList


def counts(listing: TrafficList) -> str:
    """How many lines there are, how many the filter lets pass, what is marked and what is gone."""
    view = listing.view
    lines = len(view.lines)
    noun = ("frame" if view.raw else "exchange") + ("" if view.total == 1 else "s")
    parts = [f"{lines:,} {noun}" if listing.node == EVERYTHING else f"{lines:,} of {view.total:,} {noun}"]
    if view.done < 1:
        parts.append(f"searching {view.done:.0%}")
    if listing.marks:
        parts.append(f"{len(listing.marks)} marked")
    if listing.index.table.base:
        parts.append(f"{listing.index.table.base:,} older in the capture")
    if listing.index.gone:
        parts.append(f"{listing.index.gone:,} frames gone")
    return " · ".join(parts)


def mode(listing: TrafficList) -> str:
    """Following, or how to."""
    if listing.paused:
        return f"paused · {listing.view.held_back:,} waiting · p goes on"
    return "following" if listing.following else "f follows"


def lesson(link: Link, view: CoreView, width: int) -> list[Cell]:
    """How to make something pass, on lines of at most `width` cells."""
    lines: list[Cell] = [("", ""), ("  No message has passed yet.", "traffic--name"), ("", "")]
    if not view.servers:
        return lines
    server = view.servers[0]
    lines.append(("  Call a tool on the workbench (1), or connect a client:", ""))
    for title, client in (("Claude Code", "claude-code"), ("by hand", "curl")):
        lines += [("", ""), (f"  {title}", "traffic--muted")]
        command = shown(link.client_config(server.name, client), view.api_key, width - 4)
        lines += [(f"    {line}", "traffic--peer") for line in command]
    lines += [("", ""), ("  U copies the configuration other clients need.", "traffic--muted")]
    return [(one_line(text), style) for text, style in lines]
