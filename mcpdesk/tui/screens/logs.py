"""Log of servers, tools, child processes and stray prints: filter, list, and details of one entry."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, cast

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from mcpdesk.link.link import Link
from mcpdesk.link.values import CoreView, LogLine
from mcpdesk.recorder.index.call_lookup import call_at, call_of
from mcpdesk.recorder.index.exchange import Exchange
from mcpdesk.tui.actions import bindings_for, key_or_menu
from mcpdesk.tui.pager import page
from mcpdesk.tui.render.amounts import clock, counted
from mcpdesk.tui.render.safe_text import clean, one_line
from mcpdesk.tui.screens.log_histogram import LogHistogram, row_at
from mcpdesk.tui.screens.log_list import (
    LEVELS,
    LogFilter,
    LogList,
    as_json_lines,
    as_text,
    lines_of,
    rank,
    shown_text,
)
from mcpdesk.tui.widgets.beside import DetailState, has_room_beside
from mcpdesk.tui.widgets.line_list import SCROLL_BINDINGS
from mcpdesk.tui.widgets.menu import Choice, Menu, ask_moment
from mcpdesk.tui.widgets.pane import Pane
from mcpdesk.tui.widgets.path_prompt import write_to_new_file
from mcpdesk.tui.widgets.section import FilterPane

if TYPE_CHECKING:
    from mcpdesk.tui.app import DeskApp
    from mcpdesk.tui.traffic.traffic_pane import TrafficPane


HISTOGRAM_S = 0.5
"""Seconds between two updates of the histogram while lines arrive."""


class LogDetail(VerticalScroll, can_focus=False):
    """All lines of one entry. It can have the focus only while it replaces the list."""

    BINDINGS: ClassVar[list[BindingType]] = SCROLL_BINDINGS


class LogsPane(FilterPane, Pane):
    """Filter, list, status, and details of one entry."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_for("logs")
    DEFAULT_CSS = """
    LogsPane {
        & > .status { height: 1; color: $text-muted; background: $surface; padding: 0 1; text-wrap: nowrap; }
        & > .panes { height: 1fr; layout: vertical; }
        & .rows { width: 1fr; height: 1fr; }
        & .empty { display: none; height: 1fr; content-align: center middle; color: $text-muted; }
        &.-empty .empty { display: block; }
        &.-empty LogList { height: 1; }
        & VerticalScroll {
            display: none; height: auto; max-height: 40%; border-top: solid $border-blurred; padding: 0 1;
            scrollbar-size-vertical: 1;
        }
        &.-detail VerticalScroll { display: block; }
        & VerticalScroll Static { height: auto; }
        &.-turns VerticalScroll { height: 1fr; max-height: 100%; }
        &.-beside > .panes { layout: horizontal; }
        &.-beside .rows { width: 3fr; }
        &.-beside VerticalScroll {
            width: 2fr; height: 1fr; max-height: 100%; border-top: none; border-left: solid $border-blurred;
        }
    }
    """
    back_action = "logs.reset"
    app: DeskApp

    def __init__(self, link: Link) -> None:
        super().__init__("filter: words in text, source or position")
        self.link = link
        self._last_number = -1
        """Number of the last line that was read."""
        self._last_words: tuple[str, ...] = ()
        """Words of the last filter."""
        self._histogram_drawn_at = -math.inf
        """Time of the last histogram update, in monotonic seconds."""
        self._is_histogram_stale = False
        """True if the histogram lacks newer lines."""
        self._details = DetailState()

    def compose(self) -> ComposeResult:
        """Compose the filter at the top and the status at the bottom."""
        yield from super().compose()
        yield LogHistogram()
        with Container(classes="panes"):
            with Vertical(classes="rows list-part"):
                yield LogList(self._peer_of)
                yield Static(classes="empty", markup=False)
            with LogDetail(classes="detail-part"):
                yield Static(markup=False)
        yield Static(classes="status", markup=False)

    def on_resize(self) -> None:
        """Put the details beside the list if there is space."""
        self._details.move(is_beside=has_room_beside(self), are_in_use=not self.listing.following)
        self.set_class(self._details.is_beside, "-beside")
        self.set_class(self.must_take_turns, "-turns")
        self._update_texts()

    def show_view(self, view: CoreView) -> None:
        """Add the lines that arrived since the last call."""
        if new_lines := self.link.logs(self._last_number):
            self._last_number = new_lines[-1].number
            self.listing.extend(new_lines)
            self._draw_histogram(HISTOGRAM_S)
        elif self._is_histogram_stale:
            self._draw_histogram(HISTOGRAM_S)
        elif not self.listing.lines:
            self._update_texts()

    def tick_s(self) -> float | None:
        """Return the seconds until the histogram must be updated, or None if it is up to date."""
        return HISTOGRAM_S if self._is_histogram_stale else None

    def _draw_histogram(self, min_period_s: float = 0.0) -> None:
        """Draw the histogram, unless it was drawn less than `min_period_s` seconds ago."""
        now, listing = time.monotonic(), self.listing
        self._is_histogram_stale = now - self._histogram_drawn_at < min_period_s
        if not self._is_histogram_stale:
            self._histogram_drawn_at = now
            selected_line = listing.selected
            selected_time = None if selected_line is None else selected_line.time
            self.query_one(LogHistogram).show(listing.entries, selected_time)

    def _peer_of(self, connection: int) -> str:
        info = self.link.traffic.connections.get(connection)
        return "" if info is None else info.peer

    @property
    def listing(self) -> LogList:
        """List of lines."""
        return self.query_one(LogList)

    @property
    def action_titles(self) -> Mapping[str, str]:
        """Titles of actions that have another effect while the details hide the list."""
        hide = {"logs.details": "hide the text"} if self.hides_list else {}
        return {**hide, **super().action_titles}

    @on(LogHistogram.Picked)
    def moment_picked(self, event: LogHistogram.Picked) -> None:
        """Go to the clicked time."""
        self._go_to_time(event.moment)

    @work
    async def action_go_to(self) -> None:
        """Ask for a time and go to its entry."""
        if (moment := await ask_moment(self.app)) is not None:
            self._go_to_time(moment)

    def _go_to_time(self, moment: float) -> None:
        if self.listing.rows:
            self.listing.cursor = row_at(self.listing.rows, moment)
            self.listing.handle_cursor_move()

    def action_next_bad(self, by: int) -> None:
        """Go to the next or previous error."""
        self.listing.select_next(by, lambda line: rank(line.level) >= rank("error"), "error")

    def action_next_hit(self, by: int) -> None:
        """Go to the next or previous line with the words of the last filter."""
        if self._last_words:
            log_filter = LogFilter(words=self._last_words)
            self.listing.select_next(by, log_filter.admits, "line with these words")
        else:
            self.notify("Filter by some words first: / and esc, then n goes through them.", markup=False)

    @work
    async def action_level(self) -> None:
        """Let the person choose the lowest level of the lines that are shown."""
        levels = LEVELS[: LEVELS.index("error") + 1]
        counts_by_rank = Counter(rank(line.level) for line in self.listing.lines)
        choices = []
        for number, level in enumerate(levels, 1):
            min_rank = rank(level)
            count = sum(count for line_rank, count in counts_by_rank.items() if line_rank >= min_rank)
            choices.append(Choice(f"{level} and above", level, counted(count, "line"), str(number)))
        current = self.listing.filter.level
        cursor = levels.index(current) if current in levels else len(levels) - 1
        chosen = await self.app.push_screen_wait(Menu("Lowest level", choices, cursor=cursor))
        if chosen is not None:
            self._change_filter(level=chosen)

    @work
    async def action_source(self) -> None:
        """Let the person choose a source, and show only its lines."""
        counts = Counter(line.source for line in self.listing.lines)
        choices = [Choice("all sources", "*", counted(len(self.listing.lines), "line"))]
        choices += [Choice(name, name, counted(count, "line")) for name, count in sorted(counts.items())]
        chosen = await self.app.push_screen_wait(Menu("Source", choices))
        if chosen is not None:
            self._change_filter(source="" if chosen == "*" else chosen)

    def action_only_new(self) -> None:
        """Hide the lines so far, and follow those that arrive from now."""
        self.listing.following = True
        self._change_filter(after=self._last_number, call=None)

    def action_follow(self) -> None:
        """Follow new lines, or stop."""
        self.listing.following = not self.listing.following

    def action_fold(self) -> None:
        """Hide the lines below an entry."""
        self.listing.fold(True)

    def action_unfold(self) -> None:
        """Show the lines below an entry."""
        self.listing.fold(False)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable actions on lines if no line is shown. If there are no lines, also disable the filters."""
        if not self.has_class("-empty") or action in ("follow", "reset", "next_hit"):
            return True
        return action in ("filter", "level", "source", "only_new") and bool(self.listing.lines)

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
            reason = "is no longer in the traffic" if line.call else "is not known: no client's call ran then"
            self.notify(f"The call of this line {reason}.", markup=False)
            return
        await self.app.main.show_screen("traffic")
        pane = cast("TrafficPane", self.app.main.pane)
        pane.set_filter("")
        pane.open_exchange(number)

    def show_lines_of(self, exchange: Exchange) -> None:
        """Show only the lines of a call.

        If no line names the call, select the first line that its server wrote during the call.
        """
        self.show_view(self.link.view())
        lines = lines_of(self.listing.lines, exchange)
        if not lines:
            return
        if (call := lines[0].call) == (exchange.connection, exchange.id):
            self._change_filter(call=call, level=LEVELS[0], source="", words=(), after=-1)
            self.listing.cursor = 0
            return
        self._change_filter(call=None)
        if lines[0] not in self.listing.entries:
            self.listing.set_filter(LogFilter())
        self.listing.cursor = self.listing.rows.index(self.listing.entry_of(lines[0]))
        self.listing.handle_cursor_move()

    @on(LogList.Opened)
    def action_details(self) -> None:
        """Show all lines of an entry, or hide them."""
        if self._details.is_open:
            self._details.close()
        else:
            self._details.open()
        self._update_texts()

    def action_reset(self) -> None:
        """Close details that are below the list. If there are none, clear the filter."""
        if self._details.is_open and not self._details.is_beside:
            self._details.close()
            self._update_texts()
            return
        self.close_filter()
        self.listing.set_filter(LogFilter())
        self.listing.focus()

    @work
    async def action_copy(self) -> None:
        """Copy the text or the position of the line, the complete line, or all shown lines."""
        line = self.listing.selected
        if line is None:
            return
        text, full_text = shown_text(line.text), _full_text(line)
        choices = [Choice("text", text, text, "t"), Choice("line", full_text, full_text, "l")]
        if line.where:
            choices.append(Choice("position", line.where, line.where, "p"))
        if (count := self.listing.match_count) > 1:
            choices.append(Choice("shown lines", self._text_function(), f"{count:,} lines", "a"))
        await self.app.copy_one_of(choices)

    @work
    async def action_export(self) -> None:
        """Write the shown lines to a file."""
        lines = list(self.listing.entries)
        count = counted(len(lines), "line")
        choices = [
            Choice(f"{count} as text", ("log", as_text), "to read", "t"),
            Choice(f"{count} as JSON Lines", ("jsonl", as_json_lines), "for programs", "j"),
        ]
        chosen = await self.app.push_screen_wait(Menu("Export, secrets masked", choices))
        if chosen is not None:
            extension, format_lines = chosen
            name = f"mcpdesk-log-{time.strftime('%Y%m%d-%H%M%S')}.{extension}"
            await write_to_new_file(self.app, partial(format_lines, lines), name, count)

    @work(exclusive=True, group="logs-pager")
    async def action_pager(self) -> None:
        """Show the shown lines in the user's pager."""
        page(self.app, await asyncio.to_thread(self._text_function()), "log.txt")

    def _text_function(self) -> Callable[[], str]:
        """Return a function that returns the shown lines as text. Call it on a worker thread."""
        return partial(as_text, list(self.listing.entries))

    def apply_filter(self) -> None:
        self._last_words = self.words or self._last_words
        self._change_filter(words=self.words)

    @on(LogList.Moved)
    def _update_texts(self) -> None:
        selected_line, listing = self.listing.selected, self.listing
        self._draw_histogram(0.0 if not listing.following else HISTOGRAM_S)
        self.query_one(".status", Static).update(_status_text(listing))
        if (is_empty := not listing.rows) != self.has_class("-empty"):
            self.set_class(is_empty, "-empty")
            self.refresh_bindings()
        if not listing.rows:
            self.query_one(".empty", Static).update(_empty_text(listing))
        self.set_class(self._details.is_open and bool(listing.lines), "-detail")
        if self.has_class("-detail"):
            self.query_one("VerticalScroll Static", Static).update(_detail_text(selected_line, listing))
        self._move_focus()

    def open_details(self, is_open: bool) -> None:
        """Show the details in the place of the list, or the list again."""
        if is_open:
            self._details.open()
        else:
            self._details.close()
        super().open_details(is_open and bool(self.listing.lines))
        self._update_texts()

    def _move_focus(self) -> None:
        """If the list and the details take turns, move the focus to the one that is shown."""
        detail = self.query_one(LogDetail)
        detail.can_focus = self.hides_list
        if detail.can_focus and self.listing.has_focus:
            self.call_after_refresh(detail.focus)
        elif detail.has_focus and not detail.can_focus:
            self.call_after_refresh(self.listing.focus)

    def _change_filter(self, **changes: Any) -> None:
        self.listing.set_filter(replace(self.listing.filter, **changes))


def _status_text(listing: LogList) -> Content:
    log_filter = listing.filter
    hidden_count = len(listing.lines) - listing.match_count
    count = counted(len(listing.lines), "line")
    parts = [
        "following" if listing.following else "not following",
        f"{listing.match_count:,} of {count}" if hidden_count else count,
        f"level {log_filter.level}+",
        f"source {one_line(log_filter.source, 20) or 'all'}",
    ]
    if log_filter.call is not None:
        parts.append(f"of call #{one_line(str(log_filter.call[1]), 20)}")
    if log_filter.after >= 0:
        parts.append("only new lines")
    if log_filter.words:
        parts.append("with " + one_line(" ".join(log_filter.words), 40))
    return Content(" · ".join(parts))


def _empty_text(listing: LogList) -> Content:
    level = listing.filter.level
    if listing.lines and listing.filter.after >= listing.lines[-1].number:
        return Content("No new lines yet. Esc shows all.")
    if listing.lines and level != LEVELS[0]:
        message = f"No line matches the filter, which shows level {level} and above."
        keys = key_or_menu("logs.level")
        return Content(f"{message}\nEsc shows all, {keys} changes the level.")
    if listing.lines:
        return Content("No line matches the filter. Esc shows all.")
    return Content(
        "No log lines yet.\nprint(), logging and ctx.log() in a tool, and stderr of children, appear here.\n"
        f"A server that sends few messages: {key_or_menu('main.log_level')} asks it for more."
    )


def _detail_text(line: LogLine | None, listing: LogList) -> Content:
    if line is None:
        return Content("")
    call_text = f"{listing.caller_of(line)} {line.tool}".strip()
    trace_text = f"trace {line.trace}" if line.trace else ""
    origin_parts = (line.core, line.server, line.source, call_text, line.where, trace_text)
    origin = "  ".join(part for part in origin_parts if part)
    first_line = Content.styled(f"{clock(line.time)}  {line.level}  {one_line(origin)}", "$text-muted")
    texts = [first_line, Content(clean(shown_text(line.text)))]
    for report in listing.reports.get(line.number, ()):
        title = f"The same failure, logged by {one_line(report.source)}"
        texts += [Content.styled(title, "$text-muted"), Content(clean(shown_text(report.text)))]
    return Content("\n").join(texts)


def _full_text(line: LogLine) -> str:
    parts = (
        clock(line.time),
        line.level,
        line.core,
        line.server,
        line.source,
        line.where,
        shown_text(line.text),
    )
    return "  ".join(part for part in parts if part)
