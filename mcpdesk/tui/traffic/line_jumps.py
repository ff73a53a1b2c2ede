"""Jumps in the list of the traffic: to the next error, slow call, line of the same kind, or mark.

Also finds the two lines that are compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from time import localtime, strftime

from mcpdesk.recorder.index.exchange import FAILED, STATUSES
from mcpdesk.recorder.index.query import AnyOf, QueryError, parse
from mcpdesk.recorder.index.traffic_index import Index
from mcpdesk.tui.actions import key_or_menu
from mcpdesk.tui.traffic.marked_lines import hidden_marks, shown_marks
from mcpdesk.tui.traffic.traffic_list import TrafficList

_FAILED_STATUSES = frozenset(map(STATUSES.index, FAILED))
_SINGLE_GROUP = re.compile(r"\([^()]*\)")
"""Pattern for a filter that is completely in parentheses."""
_KIND_KEYS = {"error": "e", "slow": "s", "same": "k"}
"""Kind of line -> key after `]` or `[` that goes to the next or previous line of this kind."""
_SINCE_MOMENT = re.compile(r"(^|\s+)since:\d\d:\d\d:\d\d\.\d{3}$")
"""Pattern for the end of a filter that `only_new` returned."""


def only_new(query: str, index: Index, now: float) -> str:
    """Return a filter for the exchanges that match `query` and start from now on.

    The clock of a remote core may be behind. The earliest start is therefore just after the start of the
    newest exchange, but at most `now`. An invalid `query` is ignored.
    """
    query = _SINCE_MOMENT.sub("", query.strip())
    try:
        has_alternatives = isinstance(parse(query, now), AnyOf)
    except QueryError:
        query, has_alternatives = "", False
    if has_alternatives and not _SINGLE_GROUP.fullmatch(query):
        query = f"({query})"
    table = index.table
    newest_row = len(table) - 1
    earliest_start = min(table.started[newest_row] + 0.001, now) if newest_row >= table.base else now
    clock_time = strftime("%H:%M:%S", localtime(earliest_start))
    return f"{query} since:{clock_time}.{int(earliest_start * 1000) % 1000:03}".strip()


def next_mark(listing: TrafficList, by: int) -> None:
    """Go to the next or previous marked exchange."""
    selected = -1 if listing.selected is None else listing.selected
    marks = shown_marks(listing)
    if by > 0:
        next_marks = [mark for mark in marks if mark > selected]
    else:
        next_marks = [mark for mark in reversed(marks) if mark < selected]
    if next_marks:
        listing.select(next_marks[0])
    elif marks:
        listing.notify(f"No mark {'below' if by > 0 else 'above'}.")
    elif hidden_note := hidden_marks(listing):
        listing.notify(f"{hidden_note}.")
    else:
        listing.notify("No line is marked: m marks one.")


def next_of_kind(listing: TrafficList, kind: str, by: int) -> None:
    """Go to the next or previous line of a kind: `error`, `slow`, `same` method and name, or any `line`.

    The search wraps around, with a notification, except for any line.
    """
    if kind == "line":
        _next_line(listing, by)
        return
    if listing.view.raw:
        listing.notify("Raw frames have no kind: v r shows exchanges again.")
        return
    lines, index = listing.ordered.lines, listing.index
    line = listing.line
    if line is None or line < index.table.base:
        return
    is_of_kind, noun, plural_noun = _kinds(listing, line)[kind]
    start = listing.ordered.position(index.line_of(line))
    key = _KIND_KEYS[kind]
    for position in range(start + by, start + by * len(lines), by):
        candidate = lines[position % len(lines)]
        if is_of_kind(candidate):
            listing.select(candidate)
            if by > 0 and position >= len(lines):
                listing.notify(f"No {noun} below: continued from the top · [ {key} goes up")
            elif position < 0:
                listing.notify(f"No {noun} above: continued from the bottom · ] {key} goes down")
            return
    listing.notify(f"No other {noun}" if is_of_kind(line) else f"No {plural_noun}")


def _next_line(listing: TrafficList, by: int) -> None:
    """Go to the next or previous line. If there is none, notify the person, who may not see the list."""
    line = listing.line
    listing.action_cursor(by)
    if listing.line == line:
        listing.notify(f"No line {'below' if by > 0 else 'above'}.")


def previous_of_kind(listing: TrafficList, exchange: int) -> int | None:
    """Return the last exchange above `exchange` with the same method and name, among the lines of the view.

    Return None if there is none, or if the list shows raw frames.
    """
    index, view = listing.index, listing.view
    if view.raw:
        return None
    line = index.line_of(exchange)
    is_same_kind, _, _ = _kinds(listing, line)["same"]
    for position in range(view.position(line) - 1, -1, -1):
        if is_same_kind(view.lines[position]):
            return view.lines[position]
    return None


def comparison_pair(listing: TrafficList, selected: int | None) -> tuple[int, int] | str:
    """Return the two exchanges to compare, or a message about the marks that are needed.

    They are the two marked exchanges, or the marked and the selected exchange. Without a mark, they are the
    selected exchange and the previous exchange of its kind. Marks that the filter hides count only if no
    shown line is marked.
    """
    marks_in_view = shown_marks(listing)
    marks = marks_in_view or sorted(listing.marks)
    hidden_note = "" if marks_in_view else hidden_marks(listing)
    if selected is not None and not marks:
        previous = previous_of_kind(listing, selected)
        marks = [] if previous is None else [previous, selected]
    elif len(marks) == 1 and selected is not None and selected not in marks:
        marks = [*marks, selected]
    elif hidden_note and marks:
        return f"{hidden_note}: esc clears the filter, or m marks two shown lines."
    if len(marks) > 2:
        menu = key_or_menu("traffic_list.clear_marks")
        return f"More than two exchanges are marked: m unmarks one, {menu} unmarks all."
    return (marks[0], marks[1]) if len(marks) == 2 else "Mark two exchanges with m, then compare them."


def _kinds(listing: TrafficList, line: int) -> dict[str, tuple[Callable[[int], bool], str, str]]:
    """Return kind -> (function that returns True for a line of the kind, noun, plural noun).

    `line` is the selected line, for the kind `same`.
    """
    table = listing.index.table
    label = table.label[line]
    return {
        "same": (lambda other: table.label[other] == label, "line of its kind", "lines of its kind"),
        "error": (lambda other: table.status[other] in _FAILED_STATUSES, "error", "errors"),
        "slow": (listing.index.is_slow, "slow call", "slow calls"),
    }
