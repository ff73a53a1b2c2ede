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
_LETTERS = {"error": "e", "slow": "s", "same": "k"}


_SINCE_MOMENT = re.compile(r"(^|\s+)since:\d\d:\d\d:\d\d\.\d{3}$")
"""End of a filter that `only_new` returned."""


def only_new(query: str, index: Index, now: float) -> str:
    """Return a filter that matches the exchanges of `query` that start from now.

    The clock of a remote core may be behind. The limit is therefore the start of the newest exchange, unless
    that is later than `now`. An invalid `query` is replaced.
    """
    query = _SINCE_MOMENT.sub("", query.strip())
    try:
        has_alternatives = isinstance(parse(query, now), AnyOf)
    except QueryError:
        query, has_alternatives = "", False
    if has_alternatives and not _SINGLE_GROUP.fullmatch(query):
        query = f"({query})"
    table = index.table
    newest = len(table) - 1
    moment = min(table.started[newest] + 0.001, now) if newest >= table.base else now
    clock_time = strftime("%H:%M:%S", localtime(moment))
    return f"{query} since:{clock_time}.{int(moment * 1000) % 1000:03}".strip()


def next_mark(listing: TrafficList, by: int) -> None:
    """Go to the next or previous marked exchange."""
    selected = -1 if listing.selected is None else listing.selected
    marks = shown_marks(listing)
    marks_in_direction = [mark for mark in marks if (mark > selected if by > 0 else mark < selected)]
    if marks_in_direction:
        listing.select(marks_in_direction[0 if by > 0 else -1])
    elif hidden_note := "" if marks else hidden_marks(listing):
        listing.notify(f"{hidden_note}.")
    elif marks:
        listing.notify(f"No mark {'below' if by > 0 else 'above'}.")
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
    is_of_kind, noun, nouns = _kinds(listing, line)[kind]
    start = listing.ordered.position(index.line_of(line))
    letter = _LETTERS[kind]
    for position in range(start + by, start + by * len(lines), by):
        if is_of_kind(lines[position % len(lines)]):
            listing.select(lines[position % len(lines)])
            if by > 0 and position >= len(lines):
                listing.notify(f"No {noun} below: continued from the top · [ {letter} goes up")
            elif position < 0:
                listing.notify(f"No {noun} above: continued from the bottom · ] {letter} goes down")
            return
    listing.notify(f"No other {noun}" if is_of_kind(line) else f"No {nouns}")


def _next_line(listing: TrafficList, by: int) -> None:
    """Go to the next or previous line. If there is none, notify the person, who may not see the list."""
    line = listing.line
    listing.action_cursor(by)
    if listing.line == line:
        listing.notify(f"No line {'below' if by > 0 else 'above'}.")


def previous_of_kind(listing: TrafficList, exchange: int) -> int | None:
    """Return the exchange before this one with the same method and name, among the shown lines, or None."""
    index, lines = listing.index, listing.view
    if lines.raw:
        return None
    is_of_kind = _kinds(listing, index.line_of(exchange))["same"][0]
    start = lines.position(index.line_of(exchange))
    return next(
        (lines.lines[position] for position in range(start - 1, -1, -1) if is_of_kind(lines.lines[position])),
        None,
    )


def comparison_pair(listing: TrafficList, selected: int | None) -> tuple[int, int] | str:
    """Return the exchanges to compare, or a text about the missing marks.

    These are two marked exchanges, or the marked and the selected exchange. Without a mark, they are the
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
    """Return a test for each kind of lines, with its name in the singular and in the plural."""
    table = listing.index.table
    label = table.label[line]
    return {
        "same": (lambda other: table.label[other] == label, "line of its kind", "lines of its kind"),
        "error": (lambda other: table.status[other] in _FAILED_STATUSES, "error", "errors"),
        "slow": (listing.index.is_slow, "slow call", "slow calls"),
    }
