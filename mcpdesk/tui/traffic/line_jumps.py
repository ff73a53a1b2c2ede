"""Jumps in the list of the traffic: to the next error, slow call, line of the same kind, or mark."""

from __future__ import annotations

from collections.abc import Callable

from mcpdesk.recorder.index.exchange import FAILED, STATUSES
from mcpdesk.tui.traffic.traffic_list import TrafficList

_FAILED = frozenset(map(STATUSES.index, FAILED))
_LETTERS = {"error": "e", "slow": "s", "same": "k"}


def next_mark(listing: TrafficList, by: int) -> None:
    """Go to the next or previous marked exchange."""
    here = -1 if listing.selected is None else listing.selected
    later = sorted(mark for mark in listing.marks if (mark > here if by > 0 else mark < here))
    if later:
        listing.select(later[0 if by > 0 else -1])
    elif listing.marks:
        listing.notify(f"No mark {'below' if by > 0 else 'above'}.")
    else:
        listing.notify("No line is marked: m marks one.")


def next_like(listing: TrafficList, what: str, by: int) -> None:
    """Go to the next or previous line of a kind: `error`, `slow`, or `same` method and name.

    The search wraps around, with a notification.
    """
    if listing.view.raw:
        listing.notify("Raw frames have no kind: v r shows exchanges again.")
        return
    lines, index = listing.ordered.lines, listing.index
    line = listing.line
    if line is None or line < index.table.base:
        return
    fits, noun, nouns = _kinds(listing, line)[what]
    here = listing.ordered.position(index.line_of(line))
    letter = _LETTERS[what]
    for at in range(here + by, here + by * len(lines), by):
        if fits(lines[at % len(lines)]):
            listing.select(lines[at % len(lines)])
            if by > 0 and at >= len(lines):
                listing.notify(f"No {noun} below: continued from the top · [ {letter} goes up")
            elif at < 0:
                listing.notify(f"No {noun} above: continued from the bottom · ] {letter} goes down")
            return
    listing.notify(f"No other {noun}" if fits(line) else f"No {nouns}")


def previous_of_kind(listing: TrafficList, exchange: int) -> int | None:
    """Return the exchange before this one with the same method and name, among the shown lines, or None."""
    index, lines = listing.index, listing.view
    if lines.raw:
        return None
    fits = _kinds(listing, index.line_of(exchange))["same"][0]
    here = lines.position(index.line_of(exchange))
    return next((lines.lines[at] for at in range(here - 1, -1, -1) if fits(lines.lines[at])), None)


def _kinds(listing: TrafficList, line: int) -> dict[str, tuple[Callable[[int], bool], str, str]]:
    """Return a test for each kind of lines, with its name in the singular and in the plural."""
    table = listing.index.table
    label = table.label[line]
    return {
        "same": (lambda each: table.label[each] == label, "line of its kind", "lines of its kind"),
        "error": (lambda each: table.status[each] in _FAILED, "error", "errors"),
        "slow": (listing.index.is_slow, "slow call", "slow calls"),
    }
