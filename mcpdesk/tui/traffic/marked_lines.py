"""Marked lines of the traffic: the lines that match the filter, and the number of hidden lines."""

from __future__ import annotations

from mcpdesk.tui.render.amounts import counted
from mcpdesk.tui.traffic.traffic_list import TrafficList


def shown_marks(listing: TrafficList) -> list[int]:
    """Return the marked exchanges that match the filter, in ascending order."""
    return [mark for mark in sorted(listing.marks) if _is_shown(listing, mark)]


def _is_shown(listing: TrafficList, number: int) -> bool:
    """Return True if the view contains an exchange, the call it belongs to, or one of its raw frames."""
    index, view = listing.index, listing.view
    if view.raw:
        exchange = index.exchange(number)
        lines = [frame for frame in (exchange.request, exchange.response) if frame is not None]
    else:
        lines = [number, index.line_of(number)]
    positions = [(line, view.position(line)) for line in lines]
    return any(position < len(view.lines) and view.lines[position] == line for line, position in positions)


def hidden_marks(listing: TrafficList) -> str:
    """Return a text with the number of marked lines that the filter hides, or "" if it hides none."""
    count = len(listing.marks) - len(shown_marks(listing))
    return f"The filter hides {counted(count, 'marked line')}" if count else ""
