"""Jumps in the list of the traffic: to the next error, slow call, line of the same kind, or mark.

Also finds the two lines that are compared.
"""

from __future__ import annotations

from collections.abc import Callable

from mcpdesk.recorder.index.exchange import FAILED, STATUSES
from mcpdesk.tui.traffic.marked_lines import hidden_marks, shown_marks
from mcpdesk.tui.traffic.traffic_list import TrafficList

_FAILED_STATUSES = frozenset(map(STATUSES.index, FAILED))
_LETTERS = {"error": "e", "slow": "s", "same": "k"}


def next_mark(listing: TrafficList, by: int) -> None:
    """Go to the next or previous marked exchange."""
    selected = -1 if listing.selected is None else listing.selected
    marks = shown_marks(listing)
    candidates = [mark for mark in marks if (mark > selected if by > 0 else mark < selected)]
    if candidates:
        listing.select(candidates[0 if by > 0 else -1])
    elif hidden := "" if marks else hidden_marks(listing):
        listing.notify(f"{hidden}.")
    elif marks:
        listing.notify(f"No mark {'below' if by > 0 else 'above'}.")
    else:
        listing.notify("No line is marked: m marks one.")


def next_of_kind(listing: TrafficList, kind: str, by: int) -> None:
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
    is_of_kind, noun, nouns = _kinds(listing, line)[kind]
    start = listing.ordered.position(index.line_of(line))
    letter = _LETTERS[kind]
    for at in range(start + by, start + by * len(lines), by):
        if is_of_kind(lines[at % len(lines)]):
            listing.select(lines[at % len(lines)])
            if by > 0 and at >= len(lines):
                listing.notify(f"No {noun} below: continued from the top · [ {letter} goes up")
            elif at < 0:
                listing.notify(f"No {noun} above: continued from the bottom · ] {letter} goes down")
            return
    listing.notify(f"No other {noun}" if is_of_kind(line) else f"No {nouns}")


def previous_of_kind(listing: TrafficList, exchange: int) -> int | None:
    """Return the exchange before this one with the same method and name, among the shown lines, or None."""
    index, lines = listing.index, listing.view
    if lines.raw:
        return None
    is_of_kind = _kinds(listing, index.line_of(exchange))["same"][0]
    start = lines.position(index.line_of(exchange))
    return next((lines.lines[at] for at in range(start - 1, -1, -1) if is_of_kind(lines.lines[at])), None)


def comparison_pair(listing: TrafficList, chosen: int | None) -> tuple[int, int] | str:
    """Return the exchanges to compare, or a text about the missing marks.

    Two marked exchanges, or the selected one with the marked one. Without a mark, the selected one with the
    previous one of its kind. Marks that the filter hides count only if no shown line is marked.
    """
    shown = shown_marks(listing)
    marks = shown or sorted(listing.marks)
    hidden = "" if shown else hidden_marks(listing)
    if chosen is not None and not marks:
        previous = previous_of_kind(listing, chosen)
        marks = [] if previous is None else [previous, chosen]
    elif len(marks) == 1 and chosen is not None and chosen not in marks:
        marks = [*marks, chosen]
    elif hidden and marks:
        return f"{hidden}: esc clears the filter, or m marks two shown lines."
    if len(marks) > 2:
        return "More than two exchanges are marked: m unmarks."
    return (marks[0], marks[1]) if len(marks) == 2 else "Mark two exchanges with m, then compare them."


def _kinds(listing: TrafficList, line: int) -> dict[str, tuple[Callable[[int], bool], str, str]]:
    """Return a test for each kind of lines, with its name in the singular and in the plural."""
    table = listing.index.table
    label = table.label[line]
    return {
        "same": (lambda each: table.label[each] == label, "line of its kind", "lines of its kind"),
        "error": (lambda each: table.status[each] in _FAILED_STATUSES, "error", "errors"),
        "slow": (listing.index.is_slow, "slow call", "slow calls"),
    }
