"""Log of servers, tools, child processes and stray prints: filter, list, and details of one entry."""

from __future__ import annotations

import math
import time
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, cast

from rich.cells import cell_len
from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.reactive import reactive
from textual.widgets import Static

from mcpdesk.link.link import Link
from mcpdesk.link.values import CoreView, LogLine
from mcpdesk.recorder.index.call_lookup import call_at, call_of
from mcpdesk.recorder.index.exchange import Exchange, Id
from mcpdesk.recorder.masking import mask_text
from mcpdesk.tui.actions import bindings_for
from mcpdesk.tui.render.amounts import clock, counted
from mcpdesk.tui.render.safe_text import REASON_TAIL, clean, ending, one_line, shortened
from mcpdesk.tui.screens.log_histogram import LogHistogram, row_at
from mcpdesk.tui.widgets.line_list import RowList, Span, column
from mcpdesk.tui.widgets.menu import Choice, Menu, ask_moment
from mcpdesk.tui.widgets.pane import Pane
from mcpdesk.tui.widgets.section import FilterPane, has_words

if TYPE_CHECKING:
    from mcpdesk.tui.app import DeskApp
    from mcpdesk.tui.traffic.traffic_pane import TrafficPane


LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
HISTOGRAM_S = 0.5
"""Seconds between two updates of the histogram while lines arrive."""
NARROW, ROOMY, BROAD = 10, 100, 20
"""The source column has `NARROW` cells. In a line of at least `ROOMY` cells, it may have up to `BROAD`
cells."""
BOUND = 20_000
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


CORE_CELLS = 10
"""Cells of the core column, which exists only with several cores."""
MOST_UNFOLDED = 30
"""At most this many rows are shown below one entry. The last of them is the last line of the entry. Enter
shows the lines that are left out."""


class LogList(RowList[LogLine]):
    """Keeps the last `BOUND` lines and shows those that match the filter. Multi-line errors are unfolded.

    Equal tracebacks share one folded entry, which shows their number and is at the position of the newest.
    """

    DEFAULT_CSS = """
    LogList { height: 1fr; }
    """
    following: reactive[bool] = reactive(True)
    rows: list[LogLine]

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[LogLine] = []
        self.rows = []
        """Entry that each row belongs to. An unfolded entry occurs again for each row below it."""
        self.entries: list[LogLine] = []
        """All lines that match the filter, including the lines that share an entry with a newer equal
        line."""
        self._newest: dict[TracebackKey, LogLine] = {}
        """Newest line with each traceback."""
        self._counts: dict[int, int] = {}
        """Number of the newest line of each traceback -> count of equal lines."""
        self._parts: list[int] = []
        """Line number within the entry, for each row. 0 is the entry itself."""
        self._has_cores = False
        """True if lines come from several cores, whose names are shown in a column."""
        self._widest = NARROW
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

        This is the line itself, or the newest line with an equal traceback.
        """
        key = _traceback_key(line)
        return line if key is None else self._newest.get(key, line)

    def extend(self, lines: Sequence[LogLine]) -> None:
        """Add newer lines. Lines of several cores are sorted by time."""
        chosen = self.selected
        self._has_cores = self._has_cores or any(line.core for line in lines)
        self._widest = max([self._widest, *(min(len(line.source), BROAD) for line in lines)])
        later: list[LogLine] = []
        if self._has_cores:
            later, lines = self._merged(lines)
        self.lines.extend(lines)
        is_full = len(self.lines) > BOUND
        if is_full:
            del self.lines[: len(self.lines) - BOUND * 4 // 5]
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
        self._newest, self._counts = {}, {}
        self._add(self.lines)
        self._restore_cursor(chosen)

    def fold(self, folded: bool) -> None:
        """Hide the lines below the selected entry, or show them."""
        if (line := self.selected) is not None and len(_below(_shown(line.text))) > 0:
            self._folds[line.number] = not folded
            self.following = False
            self.narrow(self.filter)

    def _add(self, lines: Iterable[LogLine]) -> None:
        for line in filter(self.filter.admits, lines):
            self.entries.append(line)
            if (key := _traceback_key(line)) is not None:
                self._join(key, line)
            below = min(len(_below(_shown(line.text))), MOST_UNFOLDED) if self._is_unfolded(line) else 0
            self.rows.extend([line] * (1 + below))
            self._parts.extend(range(1 + below))

    def _join(self, key: TracebackKey, line: LogLine) -> None:
        """Remove the entry of an equal traceback, which `line` replaces."""
        before = self._newest.get(key)
        self._newest[key], self._counts[line.number] = line, 1
        if before is None:
            return
        self._counts[line.number] += self._counts.pop(before.number)
        if before.number in self._folds:
            self._folds[line.number] = self._folds.pop(before.number)
        order = _time if self._has_cores else _number
        start = bisect_left(self.rows, order(before), key=order)
        while start < len(self.rows) and self.rows[start] is not before:
            start += 1
        stop = start
        while stop < len(self.rows) and self.rows[stop] is before:
            stop += 1
        del self.rows[start:stop], self._parts[start:stop]

    def _is_unfolded(self, line: LogLine) -> bool:
        is_first = self.count_of(line) == 1
        return self._folds.get(line.number, is_first and rank(line.level) >= rank("error"))

    def spans(self, index: int, width: int) -> Iterable[Span]:
        line, part = self.rows[index], self._parts[index]
        if part:
            below = _below(_shown(line.text))
            text = below[part - 1]
            if len(below) > MOST_UNFOLDED and part == MOST_UNFOLDED - 1:
                text = f"… {len(below) - part} more lines: enter"
            elif len(below) > MOST_UNFOLDED == part:
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
            yield column(line.core, CORE_CELLS) + " ", "lines--muted"
            width -= CORE_CELLS + 1
        named = NARROW if width < ROOMY else self._widest
        yield column(line.source, named) + " ", "lines--key"
        where = f"  {ending(line.where, 40)} " if line.where and width >= 90 else ""
        repeated = f"×{count:,} " if (count := self.count_of(line)) > 1 else ""
        if repeated:
            yield repeated, style
        room = max(10, width - (26 if is_wide else 22) - named - cell_len(where) - len(repeated))
        others = len(_below(_shown(line.text)))
        more = f" (+{others} line{'s' * (others > 1)})" if others and not self._is_unfolded(line) else ""
        text = shortened(_main_line(_shown(line.text)), room - len(more), REASON_TAIL) + more
        yield text + " " * max(0, room - cell_len(text)), "lines--muted" if line.level == "debug" else ""
        yield where, "lines--muted"

    def action_cursor(self, by: int) -> None:
        """Move by entries. The lines below an entry are skipped."""
        heads = [at for at, part in enumerate(self._parts) if part == 0]
        chosen = bisect_right(heads, self.cursor) - 1
        if heads and chosen + by < len(heads):
            self.cursor = heads[max(0, chosen + by)]
        self.cursor_was_moved()

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
                self.cursor_was_moved()
                if not 0 <= at < count:
                    end = "below: continued from the top" if by > 0 else "above: continued from the bottom"
                    self.notify(f"No {noun} {end}.", markup=False)
                return
        self.notify(f"No other {noun}.", markup=False)

    def cursor_was_moved(self) -> None:
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
def _shown(text: str) -> str:
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


class LogsPane(FilterPane, Pane):
    """Filter, list, status, and details of one entry."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_for("logs")
    DEFAULT_CSS = """
    LogsPane {
        & > .status { height: 1; color: $text-muted; background: $surface; padding: 0 1; text-wrap: nowrap; }
        & > .empty { display: none; height: 1fr; content-align: center middle; color: $text-muted; }
        &.-empty > .empty { display: block; }
        &.-empty > LogList { height: 1; }
        & > VerticalScroll {
            display: none; height: auto; max-height: 40%; border-top: solid $border-blurred; padding: 0 1;
        }
        &.-detail > VerticalScroll { display: block; }
        & > VerticalScroll Static { height: auto; }
    }
    """
    app: DeskApp

    def __init__(self, link: Link) -> None:
        super().__init__("filter: words in text, source or place")
        self.link = link
        self._newest = -1
        self._sought: tuple[str, ...] = ()
        """Words of the last filter."""
        self._drawn = -math.inf
        """Time of the last histogram update, in monotonic seconds."""
        self._is_stale = False
        """True if the histogram lacks newer lines."""

    def compose(self) -> ComposeResult:
        """Compose the filter at the top and the status at the bottom."""
        yield from super().compose()
        yield LogHistogram()
        yield LogList()
        yield Static(classes="empty", markup=False)
        with VerticalScroll(can_focus=False):
            yield Static(markup=False)
        yield Static(classes="status", markup=False)

    def show_view(self, view: CoreView) -> None:
        """Add the lines that arrived since the last call."""
        if fresh := self.link.logs(self._newest):
            self._newest = fresh[-1].number
            self.listing.extend(fresh)
            self._draw_histogram(HISTOGRAM_S)
        elif self._is_stale:
            self._draw_histogram(HISTOGRAM_S)
        elif not self.listing.lines:
            self._describe()

    def tick_s(self) -> float | None:
        """Return the seconds until the histogram must be updated. None if it is up to date."""
        return HISTOGRAM_S if self._is_stale else None

    def _draw_histogram(self, rest_s: float = 0.0) -> None:
        """Draw the histogram, unless it was drawn less than `rest_s` seconds ago."""
        now, rows = time.monotonic(), self.listing
        self._is_stale = now - self._drawn < rest_s
        if not self._is_stale:
            self._drawn = now
            chosen = rows.selected
            self.query_one(LogHistogram).show(rows.entries, None if chosen is None else chosen.time)

    @property
    def listing(self) -> LogList:
        """List of lines."""
        return self.query_one(LogList)

    @on(LogHistogram.Picked)
    def moment_picked(self, event: LogHistogram.Picked) -> None:
        """Go to the clicked time."""
        self._go(event.moment)

    @work
    async def action_go_to(self) -> None:
        """Ask for a time and go to its entry."""
        if (moment := await ask_moment(self.app)) is not None:
            self._go(moment)

    def _go(self, moment: float) -> None:
        if self.listing.rows:
            self.listing.cursor = row_at(self.listing.rows, moment)
            self.listing.cursor_was_moved()

    def action_next_bad(self, by: int) -> None:
        """Go to the next or previous error."""
        self.listing.select_next(by, lambda line: rank(line.level) >= rank("error"), "error")

    def action_next_hit(self, by: int) -> None:
        """Go to the next or previous line with the words of the last filter."""
        if self._sought:
            wanted = LogFilter(words=self._sought)
            self.listing.select_next(by, wanted.admits, "line with these words")
        else:
            self.notify("Filter by some words first: / and esc, then n goes through them.", markup=False)

    def action_level(self) -> None:
        """Raise the minimum level. After the highest level, use the lowest."""
        at = LEVELS.index(self.listing.filter.level)
        self._narrow(level=LEVELS[(at + 1) % (LEVELS.index("error") + 1)])

    @work
    async def action_source(self) -> None:
        """Show only one source."""
        counts = Counter(line.source for line in self.listing.lines)
        choices = [Choice("all sources", "*", counted(len(self.listing.lines), "line"))]
        choices += [Choice(name, name, counted(count, "line")) for name, count in sorted(counts.items())]
        chosen = await self.app.push_screen_wait(Menu("Source", choices))
        if chosen is not None:
            self._narrow(source="" if chosen == "*" else chosen)

    def action_follow(self) -> None:
        """Follow new lines, or stop."""
        self.listing.following = not self.listing.following

    def action_fold(self) -> None:
        """Hide the lines below an entry."""
        self.listing.fold(True)

    def action_unfold(self) -> None:
        """Show the lines below an entry."""
        self.listing.fold(False)

    async def action_show_call(self) -> None:
        """Show the call that wrote the selected line.

        If the line names no call, show the call that ran on its server at that time.
        """
        line, index = self.listing.selected, self.link.traffic
        if line is None:
            return
        index.catch_up()
        number = call_of(index, *line.call) if line.call else call_at(index, line.server, line.time)
        if number is None:
            why = "is no longer in the traffic" if line.call else "is not known: no client's call ran then"
            self.notify(f"The call of this line {why}.", markup=False)
            return
        await self.app.main.show_screen("traffic")
        pane = cast("TrafficPane", self.app.main.pane)
        pane.set_filter("")
        pane.open_exchange(number)

    def show_lines_of(self, exchange: Exchange) -> None:
        """Show only the lines of a call.

        If no line names it, select the first line its server wrote during the call.
        """
        self.show_view(self.link.view())
        lines = lines_of(self.listing.lines, exchange)
        if not lines:
            return
        if (call := lines[0].call) == (exchange.connection, exchange.id):
            self._narrow(call=call, level=LEVELS[0], source="", words=())
            self.listing.cursor = 0
            return
        self._narrow(call=None)
        if lines[0] not in self.listing.entries:
            self.listing.narrow(LogFilter())
        self.listing.cursor = self.listing.rows.index(self.listing.entry_of(lines[0]))
        self.listing.cursor_was_moved()

    @on(LogList.Opened)
    def action_details(self) -> None:
        """Show all lines of an entry, or hide them."""
        self.toggle_class("-detail")
        self._describe()

    def action_reset(self) -> None:
        """Close the details. If they are closed, clear the filter."""
        if self.has_class("-detail"):
            self.remove_class("-detail")
            return
        self.close_filter()
        self.listing.narrow(LogFilter())
        self.listing.focus()

    @work
    async def action_copy(self) -> None:
        """Copy the text, the location or the whole line."""
        line = self.listing.selected
        if line is None:
            return
        text, full_text = _shown(line.text), _full_text(line)
        choices = [Choice("text", text, text, "t"), Choice("line", full_text, full_text, "l")]
        if line.where:
            choices.append(Choice("place", line.where, line.where, "p"))
        await self.app.copy_one_of(choices)

    def apply_filter(self) -> None:
        self._sought = self.words or self._sought
        self._narrow(words=self.words)

    @on(LogList.Moved)
    def _describe(self) -> None:
        chosen, rows = self.listing.selected, self.listing
        self._draw_histogram(0.0 if not rows.following else HISTOGRAM_S)
        self.query_one(".status", Static).update(_status(rows))
        self.set_class(not rows.rows, "-empty")
        if not rows.rows:
            self.query_one(".empty", Static).update(_empty(rows))
        if self.has_class("-detail"):
            self.query_one("VerticalScroll Static", Static).update(_detail(chosen))

    def _narrow(self, **changes: Any) -> None:
        self.listing.narrow(replace(self.listing.filter, **changes))


def _status(rows: LogList) -> Content:
    wanted = rows.filter
    hidden = len(rows.lines) - rows.shown
    count = counted(len(rows.lines), "line")
    pieces = [
        "following" if rows.following else "not following",
        f"{rows.shown:,} of {count}" if hidden else count,
        f"level {wanted.level}+",
        f"source {one_line(wanted.source, 20) or 'all'}",
    ]
    if wanted.call is not None:
        pieces.append(f"of call #{one_line(str(wanted.call[1]), 20)}")
    if wanted.words:
        pieces.append("with " + one_line(" ".join(wanted.words), 40))
    return Content(" · ".join(pieces))


def _empty(rows: LogList) -> Content:
    level = rows.filter.level
    if rows.lines and level != LEVELS[0]:
        message = f"No line matches the filter, which shows level {level} and above."
        return Content(f"{message}\nEsc shows all, l the lines of the next level.")
    if rows.lines:
        return Content("No line matches the filter. Esc shows all.")
    return Content(
        "No log lines yet.\nprint(), logging and ctx.log() in a tool, and stderr of children, appear here."
    )


def _detail(line: LogLine | None) -> Content:
    if line is None:
        return Content("")
    location = "  ".join(
        part
        for part in (line.core, line.server, line.source, line.where, line.trace and f"trace {line.trace}")
        if part
    )
    head = Content.styled(f"{clock(line.time)}  {line.level}  {one_line(location)}", "$text-muted")
    return Content("\n").join([head, Content(clean(_shown(line.text)))])


def _full_text(line: LogLine) -> str:
    parts = (
        clock(line.time),
        line.level,
        line.core,
        line.server,
        line.source,
        line.where,
        _shown(line.text),
    )
    return "  ".join(part for part in parts if part)
