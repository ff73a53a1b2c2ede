"""List of log lines: equal tracebacks are counted, and each failure has one entry."""

from __future__ import annotations

import json
import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from operator import attrgetter
from typing import Any

from rich.cells import cell_len
from textual.reactive import reactive

from mcpdesk.link.values import LogLine
from mcpdesk.recorder.index.exchange import Exchange, Id
from mcpdesk.recorder.masking import mask_text
from mcpdesk.tui.render.amounts import clock, counted
from mcpdesk.tui.render.safe_text import REASON_TAIL, clean, ending, one_line, shortened
from mcpdesk.tui.widgets.line_list import RowList, Span, column
from mcpdesk.tui.widgets.section import has_words

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
MIN_SOURCE_WIDTH = 10
"""Minimum width in cells of the source column."""
MAX_SOURCE_WIDTH = 20
"""Maximum width in cells of the source column."""
ROOMY_LINE_WIDTH = 100
"""Minimum width in cells of a line whose source column may be wider than `MIN_SOURCE_WIDTH`."""
MAX_LINES = 20_000
"""Maximum number of lines. If there are more, the oldest fifth is removed."""
_LEVEL_STYLES = {
    "debug": (" ", "lines--muted"),
    "warning": ("!", "lines--warn"),
    **dict.fromkeys(LEVELS[LEVELS.index("error") :], ("✕", "lines--bad")),
}
"""Level -> glyph and style. Other levels have neither."""


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Filter of lines: at or above `level`, of `source` if it is not empty, with all of `words`."""

    level: str = LEVELS[0]
    source: str = ""
    words: tuple[str, ...] = ()
    call: tuple[int, Id] | None = None
    """Connection and id of the request whose lines are shown. None to show the lines of all requests."""
    after: int = -1
    """Number of the last line that is hidden because it is old."""

    def admits(self, line: LogLine) -> bool:
        """Return True if a line is shown."""
        if line.number <= self.after or (self.call is not None and line.call != self.call):
            return False
        if rank(line.level) < rank(self.level) or (self.source and line.source != self.source):
            return False
        searched = (line.text, line.source, line.where, line.server, line.trace, line.core)
        return has_words(self.words, searched)


def rank(level: str) -> int:
    """Return the position of a level in `LEVELS`. An unknown level has the rank of info."""
    return LEVELS.index(level) if level in LEVELS else 1


CORE_WIDTH = 10
"""Width in cells of the core column, which exists only if there are several cores."""
MAX_SERVER_WIDTH = 16
"""Maximum width in cells of the server column, which exists only if there are lines of several servers."""
MAX_CALLER_WIDTH = 26
"""Maximum width in cells of the caller and the id of its call."""
MIN_WIDTH_WITH_CALLER = 120
"""Minimum width in cells of a line that shows the caller."""
MAX_UNFOLDED_ROWS = 30
"""Maximum number of rows below one entry. If it has more lines, the last row but one counts the lines that
are left out, and the last row has the last line. Enter shows all lines."""


class LogList(RowList[LogLine]):
    """List that keeps the last `MAX_LINES` lines and shows the lines that match the filter.

    The newest traceback is unfolded. While the list does not follow new lines, a new traceback does not
    change which one is unfolded. Equal tracebacks share one entry, which shows their number and is at the
    position of the newest. Errors of one call that report the same exception also share one entry.
    """

    DEFAULT_CSS = """
    LogList { height: 1fr; }
    """
    following: reactive[bool] = reactive(True)
    rows: list[LogLine]

    def __init__(self, peer_of: Callable[[int], str] = lambda _: "") -> None:
        """Create the list. `peer_of` returns the client's name by number of the connection, or ""."""
        super().__init__()
        self.lines: list[LogLine] = []
        self._peer_of = peer_of
        self.rows = []
        """Entry of each row. An unfolded entry occurs once more for each row below it."""
        self.entries: list[LogLine] = []
        """All lines that match the filter, including lines that share an entry with a newer equal line."""
        self._newest_lines: dict[TracebackKey, LogLine] = {}
        """Newest line with each traceback."""
        self._counts: dict[int, int] = {}
        """Number of the newest line of each traceback -> count of equal lines."""
        self._auto_unfolded: LogLine | None = None
        """Entry of the newest traceback, which is unfolded automatically."""
        self._unmerged_errors: dict[tuple[int, Id], list[LogLine]] = {}
        """Shown errors of each call that were not merged into a later error of the call."""
        self._merged_into: dict[int, LogLine] = {}
        """Number of an error line -> later line of the same call whose entry includes it."""
        self.reports: dict[int, list[LogLine]] = {}
        """Number of a line -> earlier lines about the same failure, which have no entry."""
        self._servers: set[str] = set()
        self._line_numbers: list[int] = []
        """Line number within the entry, for each row. 0 is the entry itself."""
        self._has_several_cores = False
        """True if lines come from several cores, whose names are shown in a column."""
        self._source_width = MIN_SOURCE_WIDTH
        """Width in cells of the source column: the longest source so far, within the limits."""
        self._unfold_choices: dict[int, bool] = {}
        """Number of an entry -> True if the person unfolded the entry, False if the person folded it."""
        self.filter = LogFilter()

    @property
    def match_count(self) -> int:
        """Number of lines that match the filter."""
        return len(self.entries)

    def count_of(self, line: LogLine) -> int:
        """Return the number of equal lines that share the entry of this line."""
        return self._counts.get(line.number, 1)

    def entry_of(self, line: LogLine) -> LogLine:
        """Return the line whose entry shows this line.

        This is the line itself, the newest line with an equal traceback, or the line that reports the same
        failure.
        """
        line = self._merged_into.get(line.number, line)
        key = _traceback_key(line)
        return line if key is None else self._newest_lines.get(key, line)

    def extend(self, lines: Sequence[LogLine]) -> None:
        """Add newer lines. Lines of several cores are sorted by time."""
        selected_line = self.selected
        self._has_several_cores = self._has_several_cores or any(line.core for line in lines)
        widths = (min(len(line.source), MAX_SOURCE_WIDTH) for line in lines)
        self._source_width = max([self._source_width, *widths])
        self._servers.update(line.server for line in lines if line.server)
        removed_lines: list[LogLine] = []
        if self._has_several_cores:
            removed_lines, lines = self._merge_by_time(lines)
        self.lines.extend(lines)
        is_full = len(self.lines) > MAX_LINES
        if is_full:
            del self.lines[: len(self.lines) - MAX_LINES * 4 // 5]
        if is_full or any(map(_traceback_key, removed_lines)):  # the assignment of lines to entries changes
            self._rebuild(selected_line)
        else:
            self._add(lines)
            self._restore_cursor(selected_line)

    def _merge_by_time(self, lines: Sequence[LogLine]) -> tuple[list[LogLine], list[LogLine]]:
        """Remove the lines of the list that are later than the earliest new line.

        Return the removed lines, and the lines to add: the removed and the new lines, sorted by time.
        """
        new_lines = sorted(lines, key=_time_of)
        start = bisect_right(self.lines, new_lines[0].time, key=_time_of)
        removed_lines, self.lines[start:] = self.lines[start:], []
        numbers = {line.number for line in removed_lines}
        while self.rows and self.rows[-1].number in numbers:
            self.rows.pop()
            self._line_numbers.pop()
        while self.entries and self.entries[-1].number in numbers:
            self.entries.pop()
        return removed_lines, sorted([*removed_lines, *new_lines], key=_time_of)

    def set_filter(self, log_filter: LogFilter) -> None:
        """Apply another filter. The selected line stays selected if it is still shown."""
        selected_line, self.filter = self.selected, log_filter
        self._rebuild(selected_line)

    def _rebuild(self, selected_line: LogLine | None) -> None:
        self.rows, self._line_numbers, self.entries = [], [], []
        self._newest_lines, self._counts, self._auto_unfolded = {}, {}, None
        self._unmerged_errors, self._merged_into, self.reports = {}, {}, {}
        self._add(self.lines)
        self._restore_cursor(selected_line)

    def fold(self, is_folded: bool) -> None:
        """Hide the lines below the selected entry, or show them."""
        if (line := self.selected) is not None and _other_lines(shown_text(line.text)):
            self._unfold_choices[line.number] = not is_folded
            self.following = False
            self.set_filter(self.filter)

    def _add(self, lines: Iterable[LogLine]) -> None:
        for line in filter(self.filter.admits, lines):
            self.entries.append(line)
            if line.call is not None and rank(line.level) >= rank("error"):
                self._merge_reports(line.call, line)
            if (key := _traceback_key(line)) is not None:
                self._replace_equal(key, line)
                self._unfold_newest(line)
            row_count = 1 + self._row_count_below(line)
            self.rows.extend([line] * row_count)
            self._line_numbers.extend(range(row_count))

    def _row_count_below(self, line: LogLine) -> int:
        if not self._is_unfolded(line):
            return 0
        return min(len(_other_lines(shown_text(line.text))), MAX_UNFOLDED_ROWS)

    def _merge_reports(self, call: tuple[int, Id], line: LogLine) -> None:
        """Remove the earlier entries of a call that report the exception of `line`.

        A tool often logs or prints an exception before it raises it.
        """
        earlier_errors = self._unmerged_errors.setdefault(call, [])
        if (reason := _exception_text(line.text)) is not None:
            reports = [report for report in earlier_errors if reason in report.text]
            for report in reports:
                self._merged_into[report.number] = line
                earlier_errors.remove(report)
                self._remove_report(report)
            if reports:
                self.reports[line.number] = reports
        earlier_errors.append(line)

    def _remove_report(self, line: LogLine) -> None:
        """Remove the entry of a line, or reduce the count of the entry that shows it."""
        key = _traceback_key(line)
        entry = line if key is None else self._newest_lines[key]
        if key is not None:
            self._counts[entry.number] -= 1
            if self._counts[entry.number]:
                return
            del self._newest_lines[key], self._counts[entry.number]
        self._remove_rows(entry)

    def _unfold_newest(self, line: LogLine) -> None:
        """Unfold a new traceback instead of the previous one, unless the person is reading older lines."""
        previous = self._auto_unfolded
        if previous is None or previous.number in self._merged_into:
            self._auto_unfolded = line
            return
        key = _traceback_key(previous)
        is_equal = key is not None and self._newest_lines[key] is line
        if self.following or is_equal:
            self._auto_unfolded = line
            if previous is not line and previous.number not in self._unfold_choices:
                start, stop = self._rows_of(previous)
                del self.rows[start + 1 : stop], self._line_numbers[start + 1 : stop]

    def _replace_equal(self, key: TracebackKey, line: LogLine) -> None:
        """Replace the entry of an equal traceback by `line`, which gets its count and fold state."""
        previous = self._newest_lines.get(key)
        self._newest_lines[key], self._counts[line.number] = line, 1
        if previous is None:
            return
        self._counts[line.number] += self._counts.pop(previous.number)
        if previous.number in self._unfold_choices:
            self._unfold_choices[line.number] = self._unfold_choices.pop(previous.number)
        self._remove_rows(previous)

    def _rows_of(self, line: LogLine) -> tuple[int, int]:
        """Return the index of the first row of an entry, and the index after its last row."""
        order = _time_of if self._has_several_cores else _number_of
        start = bisect_left(self.rows, order(line), key=order)
        while start < len(self.rows) and self.rows[start] is not line:
            start += 1
        stop = start
        while stop < len(self.rows) and self.rows[stop] is line:
            stop += 1
        return start, stop

    def _remove_rows(self, line: LogLine) -> None:
        start, stop = self._rows_of(line)
        del self.rows[start:stop], self._line_numbers[start:stop]

    def _is_unfolded(self, line: LogLine) -> bool:
        return self._unfold_choices.get(line.number, line is self._auto_unfolded)

    def spans(self, index: int, width: int) -> Iterable[Span]:
        line, line_number = self.rows[index], self._line_numbers[index]
        if line_number:
            other_lines = _other_lines(shown_text(line.text))
            text = other_lines[line_number - 1]
            is_cut = len(other_lines) > MAX_UNFOLDED_ROWS
            if is_cut and line_number == MAX_UNFOLDED_ROWS - 1:
                text = f"… {len(other_lines) - line_number} more lines: enter"
            elif is_cut and line_number == MAX_UNFOLDED_ROWS:
                text = other_lines[-1]
            yield " " * (24 if width >= 70 else 12), ""
            yield "│ ", "lines--muted"
            style = "" if text.startswith("    ") else "lines--muted"
            yield one_line(text.expandtabs(4), max(1, width)), style
            return
        glyph, style = _LEVEL_STYLES.get(line.level, (" ", ""))
        is_wide = width >= 70
        yield f" {clock(line.time)[: 12 if is_wide else 8]} ", "lines--muted"
        yield f"{glyph} {column(line.level, 8)} ", style
        if self._has_several_cores:
            yield column(line.core, CORE_WIDTH) + " ", "lines--muted"
            width -= CORE_WIDTH + 1
        if len(self._servers) > 1:
            cells = min(MAX_SERVER_WIDTH, max(map(cell_len, self._servers)), max(8, width // 8))
            yield column(shortened(line.server, cells), cells) + " ", "lines--muted"
            width -= cells + 1
        caller = self.caller_of(line) if is_wide and width >= MIN_WIDTH_WITH_CALLER else ""
        caller = f"  {shortened(caller, MAX_CALLER_WIDTH)}" if caller else ""
        source_width = MIN_SOURCE_WIDTH if width < ROOMY_LINE_WIDTH else self._source_width
        yield column(line.source, source_width) + " ", "lines--key"
        location = f"  {ending(line.where, 40)} " if line.where and width >= 90 else ""
        count_text = f"×{count:,} " if (count := self.count_of(line)) > 1 else ""
        if count_text:
            yield count_text, style
        fixed_width = 26 if is_wide else 22  # time, glyph, level and gaps
        other_widths = source_width + cell_len(location) + len(count_text) + cell_len(caller)
        room = max(10, width - fixed_width - other_widths)
        other_count = len(_other_lines(shown_text(line.text)))
        more_text = ""
        if other_count and not self._is_unfolded(line):
            more_text = f" (+{counted(other_count, 'line')})"
        text = shortened(_main_line(shown_text(line.text)), room - len(more_text), REASON_TAIL) + more_text
        yield text + " " * max(0, room - cell_len(text)), "lines--muted" if line.level == "debug" else ""
        yield caller, "lines--muted"
        yield location, "lines--muted"

    def caller_of(self, line: LogLine) -> str:
        """Return the client and the id of the call that wrote a line: `claude-code #42`, or empty."""
        if line.call is None:
            return ""
        connection, identifier = line.call
        return f"{self._peer_of(connection)} #{identifier}".strip()

    def action_cursor(self, by: int) -> None:
        """Move the cursor by `by` entries. The lines below an entry are skipped."""
        entry_rows = [row for row, line_number in enumerate(self._line_numbers) if line_number == 0]
        position = bisect_right(entry_rows, self.cursor) - 1
        if entry_rows and position + by < len(entry_rows):
            self.cursor = entry_rows[max(0, position + by)]
        self.handle_cursor_move()

    def select_next(self, by: int, matches: Callable[[LogLine], bool], noun: str) -> None:
        """Go to the next entry (`by` 1) or the previous entry (-1) for which `matches` returns True.

        After the last row, continue with the first, and notify the person. Also notify the person if there is
        no such entry. `noun` names an entry in notifications.
        """
        count = len(self.rows)
        for index in range(self.cursor + by, self.cursor + by * count, by):
            row = self.rows[index % count]
            if self._line_numbers[index % count] == 0 and matches(row) and row is not self.selected:
                self.cursor = index % count
                self.handle_cursor_move()
                if not 0 <= index < count:
                    end = "below: continued from the top" if by > 0 else "above: continued from the bottom"
                    self.notify(f"No {noun} {end}.", markup=False)
                return
        self.notify(f"No other {noun}.", markup=False)

    def handle_cursor_move(self) -> None:
        """Follow new lines if the cursor is on the last entry. Otherwise stop following."""
        self.following = bool(self.rows) and self.selected is self.rows[-1]

    def on_mouse_scroll_up(self) -> None:
        """Stop following when the person scrolls up."""
        self.following = False

    def watch_following(self, following: bool) -> None:
        """Go to the end when following begins."""
        if following and self.rows:
            self.cursor = len(self.rows) - 1
        self.post_message(self.Moved())

    def _is_at_or_after(self, row: LogLine, line: LogLine) -> bool:
        """Return True if the entry of a row is `line` or a later line."""
        if self._has_several_cores:
            return row is line or row.time > line.time
        return row.number >= line.number

    def _restore_cursor(self, selected_line: LogLine | None) -> None:
        self.rows_changed()
        if self.following or selected_line is None:
            self.cursor = len(self.rows) - 1
        else:
            entry = self.entry_of(selected_line)
            later_rows = (row for row, line in enumerate(self.rows) if self._is_at_or_after(line, entry))
            self.cursor = next(later_rows, 0)
        self.post_message(self.Moved())


_time_of = attrgetter("time")
_number_of = attrgetter("number")
TracebackKey = tuple[str, str, str, str, str]
"""Level, source, server, core and text. Lines with equal keys share one entry."""


def _traceback_key(line: LogLine) -> TracebackKey | None:
    """Return the key of an error with several lines, or None for any other line."""
    if rank(line.level) < rank("error") or "\n" not in line.text.rstrip():
        return None
    return line.level, line.source, line.server, line.core, line.text


def _exception_text(text: str) -> str | None:
    """Return the message of the exception in a traceback, or its type if it has no message.

    Return None if `text` is not a traceback.
    """
    lines = text.rstrip().split("\n")
    if len(lines) < 2 or not any(map(_is_traceback_line, lines)):
        return None
    exception_type, _, message = lines[-1].strip().partition(": ")
    return message or exception_type


def lines_of(lines: Iterable[LogLine], exchange: Exchange) -> list[LogLine]:
    """Return the log lines of a call.

    If no line names the call, return the lines that its server wrote during the call.
    """
    call, end_time = (exchange.connection, exchange.id), exchange.ended or time.time()

    def is_during_call(line: LogLine) -> bool:
        return exchange.started <= line.time <= end_time and line.server in (exchange.server, "")

    candidates = [line for line in lines if line.call == call or is_during_call(line)]
    return [line for line in candidates if line.call == call] or candidates


@lru_cache(maxsize=2_000)
def shown_text(text: str) -> str:
    """Mask the secrets in the text of a line, because the text may be copied or seen by other people."""
    return mask_text(text)


def as_text(lines: Iterable[LogLine]) -> str:
    """Return lines of the log as plain text with date and time, and secrets masked."""
    return "".join(f"{_date(line)}  {'  '.join(filter(None, _text_parts(line)))}\n" for line in lines)


def as_json_lines(lines: Iterable[LogLine]) -> str:
    """Return one JSON object for each line of the log, with secrets masked."""
    return "".join(json.dumps(_members(line), ensure_ascii=False) + "\n" for line in lines)


def _date(line: LogLine) -> str:
    return datetime.fromtimestamp(line.time).astimezone().isoformat(timespec="milliseconds")


def _text_parts(line: LogLine) -> tuple[str, ...]:
    return (line.level, line.core, line.server, line.source, line.where, clean(shown_text(line.text)))


def _members(line: LogLine) -> dict[str, Any]:
    members = {
        "time": _date(line),
        "level": line.level,
        "core": line.core,
        "server": line.server,
        "logger": line.source,
        "message": shown_text(line.text),
        "tool": line.tool,
        "request": line.call and line.call[1],
        "trace": line.trace,
        "where": line.where,
    }
    return {name: value for name, value in members.items() if value not in ("", None)}


def _main_line(text: str) -> str:
    """Return the most informative line: the first, or the last of a traceback, which names the exception."""
    first, *other_lines = text.rstrip().split("\n")
    return other_lines[-1] if other_lines and _is_traceback_line(first) else first


def _other_lines(text: str) -> list[str]:
    """Return all lines except the one that `_main_line` returns, in order."""
    first, *other_lines = text.rstrip().split("\n")
    return [first, *other_lines[:-1]] if other_lines and _is_traceback_line(first) else other_lines


def _is_traceback_line(line: str) -> bool:
    return line.lstrip(" ╭─┌").startswith(('File "', "Traceback (most recent"))
