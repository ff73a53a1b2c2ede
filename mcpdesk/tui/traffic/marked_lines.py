"""Marked lines of the traffic, and which of them the filter shows or hides."""

from __future__ import annotations

from mcpdesk.tui.render.amounts import counted
from mcpdesk.tui.traffic.traffic_list import TrafficList


def shown_marks(listing: TrafficList) -> list[int]:
    """Return the marked exchanges that match the filter, in ascending order."""
    return [mark for mark in sorted(listing.marks) if _is_shown(listing, mark)]


def _is_shown(listing: TrafficList, exchange: int) -> bool:
    index, view = listing.index, listing.view
    if view.raw:
        one = index.exchange(exchange)
        lines = [frame for frame in (one.request, one.response) if frame is not None]
    else:
        lines = [exchange, index.line_of(exchange)]
    places = [(line, view.position(line)) for line in lines]
    return any(at < len(view.lines) and view.lines[at] == line for line, at in places)


def hidden_marks(listing: TrafficList) -> str:
    """Return how many marked lines the filter hides, or an empty text."""
    count = len(listing.marks) - len(shown_marks(listing))
    return f"The filter hides {counted(count, 'marked line')}" if count else ""
