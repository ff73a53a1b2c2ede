"""List of log lines: equal tracebacks are counted, and each failure has one entry."""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import attrgetter

from rich.cells import cell_len
from textual.reactive import reactive

from mcpdesk.link.values import LogLine
from mcpdesk.recorder.index.exchange import Exchange, Id
from mcpdesk.recorder.masking import mask_text
from mcpdesk.tui.render.amounts import clock
from mcpdesk.tui.render.safe_text import REASON_TAIL, ending, one_line, shortened
from mcpdesk.tui.widgets.line_list import RowList, Span, column
from mcpdesk.tui.widgets.section import has_words

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
MIN_SOURCE_WIDTH, ROOMY_LINE_WIDTH, MAX_SOURCE_WIDTH = 10, 100, 20
"""Minimum width in cells of the source column, minimum width of a line in which the column may be wider, and
maximum width of the column."""
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
    """Filter of lines: at or above `level`, of `source` (empty: any), with all of `words`."""

    level: str = LEVELS[0]
    source: str = ""
    words: tuple[str, ...] = ()
    call: tuple[int, Id] | None = None
    """Connection and id of the request whose lines are shown. None to show the lines of all requests."""

    def admits(self, line: LogLine) -> bool:
        """Return True if a line is shown."""
        if self.call is not None and line.call != self.call:
            return False
        if rank(line.level) < rank(self.level) or (self.source and line.source != self.source):
            return False
        searched = (line.text, line.source, line.where, line.server, line.trace, line.core)
        return has_words(self.words, searched)


def rank(level: str) -> int:
    """Return the severity, counted from 0. An unknown level counts as info."""
    return LEVELS.index(level) if level in LEVELS else 1


CORE_WIDTH = 10
"""Cells of the core column, which exists only with several cores."""
MAX_SERVER_WIDTH = 16
"""Maximum cells of the server column, which exists only with lines of several servers."""
MAX_CALLER_WIDTH = 26
"""Cells of the caller and the id of its call, in a line of at least `MIN_WIDTH_WITH_CALLER` cells."""
MIN_WIDTH_WITH_CALLER = 120
MAX_UNFOLDED_ROWS = 30
"""At most this many rows are shown below one entry. The last of them is the last line of the entry. Enter
shows the lines that are left out."""


class LogList(RowList[LogLine]):
    """Keeps the last `MAX_LINES` lines and shows those that match the filter.

    The newest traceback is unfolded. A person who does not follow keeps the one that was unfolded before.
    Equal tracebacks share one entry, which shows their number and is at the position of the newest. Errors
    of one call that report the same exception also share one entry.
    """

    DEFAULT_CSS = """
    LogList { height: 1fr; }
    """
    following: reactive[bool] = reactive(True)
    rows: list[LogLine]

    def __init__(self, peer_of: Callable[[int], str] = lambda _: "") -> None:
        """`peer_of` returns the name of the client of a connection. Empty if it is unknown."""
        super().__init__()
        self.lines: list[LogLine] = []
        self._peer_of = peer_of
        self.rows = []
        """Entry that each row belongs to. An unfolded entry occurs again for each row below it."""
        self.entries: list[LogLine] = []
        """All lines that match the filter, including the lines that share an entry with a newer equal
        line."""
        self._newest: dict[TracebackKey, LogLine] = {}
        """Newest line with each traceback."""
        self._counts: dict[int, int] = {}
        """Number of the newest line of each traceback -> count of equal lines."""
        self._unfolded: LogLine | None = None
        """Entry that is unfolded although the person did not unfold it."""
        self._reports: dict[tuple[int, Id], list[LogLine]] = {}
        """Shown errors of each call whose exception was not logged yet."""
        self._merged_into: dict[int, LogLine] = {}
        """Number of a report -> line whose entry includes it."""
        self.reports: dict[int, list[LogLine]] = {}
        """Number of a line -> other reports of the same failure, which have no entry."""
        self._servers: set[str] = set()
        self._parts: list[int] = []
        """Line number within the entry, for each row. 0 is the entry itself."""
        self._has_cores = False
        """True if lines come from several cores, whose names are shown in a column."""
        self._widest = MIN_SOURCE_WIDTH
        """Cells of the longest source so far, within the limits."""
        self._folds: dict[int, bool] = {}
        """Number of an entry -> True if the person unfolded it, False if folded."""
        self.filter = LogFilter()

    @property
    def shown(self) -> int:
        """Number of lines that match the filter."""
        return len(self.entries)

    def count_of(self, line: LogLine) -> int:
        """Return the count of lines that the entry of this line shows."""
        return self._counts.get(line.number, 1)

    def entry_of(self, line: LogLine) -> LogLine:
        """Return the line whose entry shows this line.

        This is the line itself, the newest line with an equal traceback, or the line that reports the same
        failure.
        """
        line = self._merged_into.get(line.number, line)
        key = _traceback_key(line)
        return line if key is None else self._newest.get(key, line)

    def extend(self, lines: Sequence[LogLine]) -> None:
        """Add newer lines. Lines of several cores are sorted by time."""
        chosen = self.selected
        self._has_cores = self._has_cores or any(line.core for line in lines)
        self._widest = max([self._widest, *(min(len(line.source), MAX_SOURCE_WIDTH) for line in lines)])
        self._servers.update(line.server for line in lines if line.server)
        later: list[LogLine] = []
        if self._has_cores:
            later, lines = self._merged(lines)
        self.lines.extend(lines)
        is_full = len(self.lines) > MAX_LINES
        if is_full:
            del self.lines[: len(self.lines) - MAX_LINES * 4 // 5]
        if is_full or any(map(_traceback_key, later)):  # the assignment of lines to entries changes
            self._rebuild(chosen)
        else:
            self._add(lines)
            self._restore_cursor(chosen)

    def _merged(self, lines: Sequence[LogLine]) -> tuple[list[LogLine], list[LogLine]]:
        """Remove the lines that are later than the earliest new line.

        Return the removed lines. Also return the removed and the new lines together, sorted by time.
        """
        ordered = sorted(lines, key=_time)
        start = bisect_right(self.lines, ordered[0].time, key=_time)
        later, self.lines[start:] = self.lines[start:], []
        numbers = {line.number for line in later}
        while self.rows and self.rows[-1].number in numbers:
            self.rows.pop()
            self._parts.pop()
        while self.entries and self.entries[-1].number in numbers:
            self.entries.pop()
        return later, sorted([*later, *ordered], key=_time)

    def narrow(self, wanted: LogFilter) -> None:
        """Apply another filter. The selected line stays selected if it is still shown."""
        chosen, self.filter = self.selected, wanted
        self._rebuild(chosen)

    def _rebuild(self, chosen: LogLine | None) -> None:
        self.rows, self._parts, self.entries = [], [], []
        self._newest, self._counts, self._unfolded = {}, {}, None
        self._reports, self._merged_into, self.reports = {}, {}, {}
        self._add(self.lines)
        self._restore_cursor(chosen)

    def fold(self, folded: bool) -> None:
        """Hide the lines below the selected entry, or show them."""
        if (line := self.selected) is not None and len(_below(shown_text(line.text))) > 0:
            self._folds[line.number] = not folded
            self.following = False
            self.narrow(self.filter)

    def _add(self, lines: Iterable[LogLine]) -> None:
        for line in filter(self.filter.admits, lines):
            self.entries.append(line)
            if line.call is not None and rank(line.level) >= rank("error"):
                self._merge_reports(line.call, line)
            if (key := _traceback_key(line)) is not None:
                self._join(key, line)
                self._unfold_newest(line)
            below = self._rows_below(line)
            self.rows.extend([line] * (1 + below))
            self._parts.extend(range(1 + below))

    def _rows_below(self, line: LogLine) -> int:
        return min(len(_below(shown_text(line.text))), MAX_UNFOLDED_ROWS) if self._is_unfolded(line) else 0

    def _merge_reports(self, call: tuple[int, Id], line: LogLine) -> None:
        """Remove the entries of the call that report the exception of `line`.

        A tool often logs or prints an exception before it raises it.
        """
        earlier = self._reports.setdefault(call, [])
        if (reason := _exception_text(line.text)) is not None:
            same = [each for each in earlier if reason in each.text]
            for each in same:
                self._merged_into[each.number] = line
                earlier.remove(each)
                self._remove_report(each)
            if same:
                self.reports[line.number] = same
        earlier.append(line)

    def _remove_report(self, line: LogLine) -> None:
        """Remove the entry of a line, or reduce the count of the entry that shows it."""
        key = _traceback_key(line)
        entry = line if key is None else self._newest[key]
        if key is not None:
            self._counts[entry.number] -= 1
            if self._counts[entry.number]:
                return
            del self._newest[key], self._counts[entry.number]
        self._remove_rows(entry)

    def _unfold_newest(self, line: LogLine) -> None:
        """Unfold a new traceback instead of the one before it, unless a person is reading older lines."""
        before = self._unfolded
        if before is not None and before.number in self._merged_into:
            before = None
        key = None if before is None else _traceback_key(before)
        if before is None or self.following or (key is not None and self._newest[key] is line):
            self._unfolded = line
            if before is not None and before is not line and self._folds.get(before.number) is None:
                start, stop = self._rows_of(before)
                del self.rows[start + 1 : stop], self._parts[start + 1 : stop]

    def _join(self, key: TracebackKey, line: LogLine) -> None:
        """Remove the entry of an equal traceback, which `line` replaces."""
        before = self._newest.get(key)
        self._newest[key], self._counts[line.number] = line, 1
        if before is None:
            return
        self._counts[line.number] += self._counts.pop(before.number)
        if before.number in self._folds:
            self._folds[line.number] = self._folds.pop(before.number)
        self._remove_rows(before)

    def _rows_of(self, before: LogLine) -> tuple[int, int]:
        """Return the first row of an entry, and the row behind it."""
        order = _time if self._has_cores else _number
        start = bisect_left(self.rows, order(before), key=order)
        while start < len(self.rows) and self.rows[start] is not before:
            start += 1
        stop = start
        while stop < len(self.rows) and self.rows[stop] is before:
            stop += 1
        return start, stop

    def _remove_rows(self, line: LogLine) -> None:
        start, stop = self._rows_of(line)
        del self.rows[start:stop], self._parts[start:stop]

    def _is_unfolded(self, line: LogLine) -> bool:
        return self._folds.get(line.number, line is self._unfolded)

    def spans(self, index: int, width: int) -> Iterable[Span]:
        line, part = self.rows[index], self._parts[index]
        if part:
            below = _below(shown_text(line.text))
            text = below[part - 1]
            if len(below) > MAX_UNFOLDED_ROWS and part == MAX_UNFOLDED_ROWS - 1:
                text = f"… {len(below) - part} more lines: enter"
            elif len(below) > MAX_UNFOLDED_ROWS == part:
                text = below[-1]
            yield " " * (24 if width >= 70 else 12), ""
            yield "│ ", "lines--muted"
            yield (
                one_line(text.expandtabs(4), max(1, width)),
                "" if text.startswith("    ") else "lines--muted",
            )
            return
        glyph, style = _LEVEL_STYLES.get(line.level, (" ", ""))
        is_wide = width >= 70
        yield f" {clock(line.time)[: 12 if is_wide else 8]} ", "lines--muted"
        yield f"{glyph} {column(line.level, 8)} ", style
        if self._has_cores:
            yield column(line.core, CORE_WIDTH) + " ", "lines--muted"
            width -= CORE_WIDTH + 1
        if len(self._servers) > 1:
            cells = min(MAX_SERVER_WIDTH, max(map(cell_len, self._servers)), max(8, width // 8))
            yield column(shortened(line.server, cells), cells) + " ", "lines--muted"
            width -= cells + 1
        caller = self.caller_of(line) if is_wide and width >= MIN_WIDTH_WITH_CALLER else ""
        caller = f"  {shortened(caller, MAX_CALLER_WIDTH)}" if caller else ""
        named = MIN_SOURCE_WIDTH if width < ROOMY_LINE_WIDTH else self._widest
        yield column(line.source, named) + " ", "lines--key"
        where = f"  {ending(line.where, 40)} " if line.where and width >= 90 else ""
        repeated = f"×{count:,} " if (count := self.count_of(line)) > 1 else ""
        if repeated:
            yield repeated, style
        room = max(
            10, width - (26 if is_wide else 22) - named - cell_len(where) - len(repeated) - cell_len(caller)
        )
        others = len(_below(shown_text(line.text)))
        more = f" (+{others} line{'s' * (others > 1)})" if others and not self._is_unfolded(line) else ""
        text = shortened(_main_line(shown_text(line.text)), room - len(more), REASON_TAIL) + more
        yield text + " " * max(0, room - cell_len(text)), "lines--muted" if line.level == "debug" else ""
        yield caller, "lines--muted"
        yield where, "lines--muted"

    def caller_of(self, line: LogLine) -> str:
        """Return the client and the id of the call that wrote a line: `claude-code #42`, or empty."""
        if line.call is None:
            return ""
        connection, identifier = line.call
        return f"{self._peer_of(connection)} #{identifier}".strip()

    def action_cursor(self, by: int) -> None:
        """Move by entries. The lines below an entry are skipped."""
        heads = [at for at, part in enumerate(self._parts) if part == 0]
        chosen = bisect_right(heads, self.cursor) - 1
        if heads and chosen + by < len(heads):
            self.cursor = heads[max(0, chosen + by)]
        self.handle_cursor_move()

    def select_next(self, by: int, is_wanted: Callable[[LogLine], bool], noun: str) -> None:
        """Go to the next entry (`by` 1) or the previous one (-1) for which `is_wanted` returns True.

        At the end, continue at the other end. Notify the person of this, and if no entry is wanted. `noun`
        names such an entry in notifications.
        """
        count = len(self.rows)
        for at in range(self.cursor + by, self.cursor + by * count, by):
            row = self.rows[at % count]
            if self._parts[at % count] == 0 and is_wanted(row) and row is not self.selected:
                self.cursor = at % count
                self.handle_cursor_move()
                if not 0 <= at < count:
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

    def _is_from(self, row: LogLine, chosen: LogLine) -> bool:
        """Return True if a row shows the chosen line or a later line."""
        if self._has_cores:
            return row is chosen or row.time > chosen.time
        return row.number >= chosen.number

    def _restore_cursor(self, chosen: LogLine | None) -> None:
        self.rows_changed()
        if self.following or chosen is None:
            self.cursor = len(self.rows) - 1
        else:
            entry = self.entry_of(chosen)
            self.cursor = next((n for n, row in enumerate(self.rows) if self._is_from(row, entry)), 0)
        self.post_message(self.Moved())


_time = attrgetter("time")
_number = attrgetter("number")
TracebackKey = tuple[str, str, str, str, str]
"""Level, source, server, core and text. Lines with equal keys share one entry."""


def _traceback_key(line: LogLine) -> TracebackKey | None:
    """Return the key of a multi-line error. None for any other line."""
    if rank(line.level) < rank("error") or "\n" not in line.text.rstrip():
        return None
    return line.level, line.source, line.server, line.core, line.text


def _exception_text(text: str) -> str | None:
    """Return the text of the exception of a traceback, or its type if it has no text.

    None for text that is not a traceback.
    """
    lines = text.rstrip().split("\n")
    if len(lines) < 2 or not any(map(_is_stack, lines)):
        return None
    kind, _, reason = lines[-1].strip().partition(": ")
    return reason or kind


def lines_of(lines: Iterable[LogLine], exchange: Exchange) -> list[LogLine]:
    """Return the log lines of a call.

    If no line names the call, return the lines that its server wrote during the call.
    """
    call, ended = (exchange.connection, exchange.id), exchange.ended or time.time()
    meanwhile = [
        line
        for line in lines
        if line.call == call
        or (exchange.started <= line.time <= ended and line.server in (exchange.server, ""))
    ]
    return [line for line in meanwhile if line.call == call] or meanwhile


@lru_cache(maxsize=2_000)
def shown_text(text: str) -> str:
    """Return the text of a line with secrets masked, because it may be copied or seen by others."""
    return mask_text(text)


def _main_line(text: str) -> str:
    """Return the most informative line: the first, or the last of a traceback, which names the exception."""
    first, *others = text.rstrip().split("\n")
    return others[-1] if others and _is_stack(first) else first


def _below(text: str) -> list[str]:
    """Return all lines except the one that `_main_line` returns, in order."""
    first, *others = text.rstrip().split("\n")
    return [first, *others[:-1]] if others and _is_stack(first) else others


def _is_stack(first: str) -> bool:
    return first.lstrip(" ╭─┌").startswith(('File "', "Traceback (most recent"))
