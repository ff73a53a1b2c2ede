"""List of the traffic, one line per exchange or raw frame, for any number of lines.

The list draws only visible lines, and has its own scroll offset, so that a flood of messages causes no
layout. The list reads the index only when `update_lines` is called.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from math import ceil
from time import monotonic
from typing import ClassVar

from textual import events, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.geometry import Region
from textual.message import Message
from textual.scrollbar import ScrollBar, ScrollDown, ScrollTo, ScrollUp
from textual.strip import Strip
from textual.widget import Widget

from mcpdesk.protocol.jsonrpc import Id
from mcpdesk.recorder.index.query import EVERYTHING, Node
from mcpdesk.recorder.index.sorted_lines import SortedLines
from mcpdesk.recorder.index.traffic_index import Index
from mcpdesk.recorder.index.view import View
from mcpdesk.tui.actions import bindings_for
from mcpdesk.tui.traffic.colour_rules import ColourRules
from mcpdesk.tui.traffic.line_cells import Cell, Fold
from mcpdesk.tui.traffic.line_columns import SORT_KEYS, sorted_by
from mcpdesk.tui.traffic.shown_lines import ShownLines, UnfoldedLines
from mcpdesk.tui.traffic.sort_menu import sort_menu
from mcpdesk.tui.traffic.traffic_lines import STYLES, TrafficStrips
from mcpdesk.tui.traffic.waterfall import MAX_ZOOM_STEPS, Waterfall
from mcpdesk.tui.widgets.first_size import WithFirstResize
from mcpdesk.tui.widgets.line_list import CURSOR_BINDINGS

_CLOCK_UPDATE_S = 0.1
"""Seconds between two updates of the clocks of pending lines."""
_SLICE_S = 0.005
"""Maximum seconds of pairing, searching or sorting between two checks for keys."""
_FIRST_SORT_S = 0.02
"""Maximum seconds of sorting in the handler of a key. After this time, a worker continues to sort."""
_PROGRESS_UPDATE_S = 0.1
"""Seconds between two displays of the progress of a search or sort."""
_TYPING_PAUSE_S = 0.02
"""Seconds without typing before the lines are searched."""
_MANY_FRAMES = 100_000
_LONG_TYPING_PAUSE_S = 0.1
"""Seconds without typing before more than `_MANY_FRAMES` frames are searched, which takes longer."""
_WHEEL_LINES = 3
"""Number of lines that one step of the mouse wheel scrolls."""
_SORT_GROUP = "traffic-sort"


class TrafficList(WithFirstResize, Widget, can_focus=True):
    """List that follows the newest line until the person selects another line, which then stays selected.

    Its component classes are `traffic_lines.STYLES`.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = set(STYLES)
    BINDINGS: ClassVar[list[BindingType]] = [*bindings_for("traffic_list"), *CURSOR_BINDINGS]
    DEFAULT_CSS = """
    TrafficList {
        height: 1fr; background: transparent;
        & > ScrollBar { dock: right; width: 1; height: 1fr; }
        & > .traffic--cursor {
            background: $block-cursor-blurred-background;
            text-style: $block-cursor-blurred-text-style;
        }
        &:ansi > .traffic--cursor { color: $block-cursor-blurred-foreground; }
        &:focus > .traffic--cursor {
            background: $block-cursor-background;
            color: $block-cursor-foreground;
            text-style: $block-cursor-text-style;
        }
        & > .traffic--head { color: $text-muted; text-style: bold; }
        & > .traffic--in { color: $text-primary; }
        & > .traffic--out { color: $text-accent; }
        & > .traffic--method { color: $foreground; }
        & > .traffic--name { color: $text-primary; text-style: bold; }
        & > .traffic--peer { color: $text-secondary; }
        & > .traffic--mark { color: $text-warning; }
        & > .traffic--good { color: $text-success; }
        & > .traffic--bad { color: $text-error; }
        & > .traffic--warn { color: $text-warning; }
        & > .traffic--clock { color: $text-accent; }
        & > .traffic--muted { color: $text-muted; }
    }
    """

    @dataclass
    class Picked(Message):
        """The person moved to another line. `exchange` is its number, or None for an unpaired raw frame."""

        listing: TrafficList
        exchange: int | None

        def can_replace(self, message: Message) -> bool:
            """Let a newer message replace this one, because only the newest selection matters."""
            return isinstance(message, TrafficList.Picked)

    @dataclass
    class Opened(Message):
        """The person asked for the details of a line."""

        listing: TrafficList
        exchange: int | None

    def __init__(
        self, index: Index, *, compact: bool = False, state_changed: Callable[[], None] = lambda: None
    ) -> None:
        """Create the list. `compact` leaves the column titles out, for a strip of few lines.

        `state_changed` is called when following, pausing, marks, order or raw form change. It is called at
        once, so that its effects are drawn together with the lines.
        """
        super().__init__()
        self.state_changed = state_changed
        self.index = index
        self.compact = compact
        self.node: Node = EVERYTHING
        """Parsed filter."""
        self.view = View(index)
        self.sorted_lines: SortedLines | None = None
        """Lines sorted by a column, or None for the order of arrival."""
        self._unfolded: int | None = None
        """Exchange whose notifications and parts are shown below its line."""
        self._unfolded_lines: Sequence[int] = ()
        """Notifications and parts of this exchange."""
        self._unfolded_lines_key = (-1, -1)
        """Exchange, and version of the index, that `_unfolded_lines` belongs to."""
        self.following = True
        self.paused = False
        self.marks: set[int] = set()
        """Numbers of marked exchanges."""
        self.empty_text: Sequence[Cell] = ()
        """Lines shown in an empty list."""
        self._bar = ScrollBar(vertical=True, thickness=1)
        self._bar_state: tuple[int, ...] = ()
        self._offset = 0
        """Position of the first visible line."""
        self._top: int | None = None
        """Number of the first visible line. It stays the first one when other lines are added."""
        self._line: int | None = None
        """Number of the selected exchange or raw frame, or None."""
        self._clock_update_time = 0.0
        """Monotonic time of the last update of the clocks."""
        self._drawn_version = -1
        """Version of the index when the lines were last drawn."""
        self._pinned_end: int | None = None
        """Index of the line that stays selected while lines are sorted: 0 for the first line, -1 for the last
        line, or None."""
        self.waterfall = Waterfall(index)
        self._strips = TrafficStrips(self, index, self.waterfall)

    def show_held(self, exchanges: Collection[tuple[int, Id | None]]) -> None:
        """Mark the exchanges, by connection and id, with a message that is held at the desk."""
        if exchanges != self._strips.held:
            self._strips.held = self.index.held = exchanges
            self.refresh()

    def hide_columns(self, names: frozenset[str]) -> None:
        """Hide columns by name."""
        self._strips.hidden_columns = names
        self.refresh()

    def set_rules(self, rules: ColourRules) -> None:
        """Colour the lines by rules."""
        self._strips.rules = rules
        self.refresh()

    def compose(self) -> ComposeResult:
        """Compose the scroll bar, the only child widget."""
        yield self._bar

    # Contents

    def update_lines(self, budget_s: float = _SLICE_S) -> bool:
        """Pair, filter and sort for about `budget_s` seconds each. Return True if the list is redrawn."""
        self.index.catch_up(budget_s)
        has_changed = self.view.advance(budget_s) or self.index.version != self._drawn_version
        if self.sorted_lines is not None and self._continue_sort(self.sorted_lines, budget_s):
            has_changed = True
        is_clock_due = self._strips.has_clock and monotonic() - self._clock_update_time > _CLOCK_UPDATE_S
        if not has_changed and not is_clock_due:
            return False
        self._drawn_version = self.index.version
        if self.marks and min(self.marks) < (oldest := self.index.table.base):
            self.marks = {mark for mark in self.marks if mark >= oldest}
        self._place_lines()
        return True

    @property
    def is_ageing(self) -> bool:
        """True if the display changes with time although no message arrives.

        This is the case if a pending exchange is visible or may become visible.
        """
        if not self.index.pending():
            return False
        if self.sorted_lines is not None or self.node != EVERYTHING:
            return True
        visible_lines = () if self.view.raw else self.lines[self._offset : self._offset + self.rows_visible]
        exchanges = map(self.index.exchange, visible_lines)
        return any(exchange.ended is None or exchange.asked_at is not None for exchange in exchanges)

    @property
    def ordered(self) -> ShownLines:
        """Lines in their order, without those below the unfolded line."""
        return self.sorted_lines or self.view

    @property
    def line(self) -> int | None:
        """Number of the selected exchange, or of the selected frame while raw frames are shown."""
        return self._line

    @property
    def lines(self) -> UnfoldedLines:
        """Current lines, including those below the unfolded line."""
        if self._unfolded is None:
            return UnfoldedLines(self.ordered)
        if self._unfolded_lines_key != (self._unfolded, self.index.version):
            self._unfolded_lines = self.index.folded_in(self._unfolded)
            self._unfolded_lines_key = (self._unfolded, self.index.version)
        return UnfoldedLines(self.ordered, self._unfolded, self._unfolded_lines)

    @property
    def selected(self) -> int | None:
        """Number of the selected exchange, or None for an empty list or an unpaired raw frame."""
        if self._line is None or not self.view.raw:
            return self._line
        return next(iter(self.index.rows_of(self._line)), None)

    @property
    def frame(self) -> int | None:
        """Number of the selected raw frame, or None while exchanges are shown."""
        return self._line if self.view.raw and self.lines else None

    @property
    def rows_visible(self) -> int:
        """Number of visible lines."""
        return max(1, self.size.height - (not self.compact))

    def filter(self, node: Node, *, is_typed: bool = False) -> None:
        """Show only what matches a filter. The selected line stays selected if it matches.

        `is_typed` delays the search, because the filter may change again soon.
        """
        self.node = node
        pause_s = _LONG_TYPING_PAUSE_S if self.index.paired > _MANY_FRAMES else _TYPING_PAUSE_S
        self._rebuild(self.view.raw, pause_s if is_typed and node != EVERYTHING else 0.0)

    def select(self, exchange: int) -> None:
        """Select an exchange, or the line that shows it as a part, and stop following."""
        line = self._shown_line(exchange)
        if not self.view.raw and line != exchange and self._unfolded == line:
            line = exchange  # its own line is visible below the unfolded line
        if self.sorted_lines is not None and self.lines.position(line) >= len(self.lines):
            self.sort_by(None)
        self._select_position(self.lines.position(line))

    def select_moment(self, moment: float) -> None:
        """Select the first line at or after a time, or the last line if all are earlier."""
        if self.sorted_lines is not None:
            self.sort_by(None)
        lines, view = self.lines, self.view

        def start_time(line: int) -> float:
            if not view.raw:
                return self.index.table.started[line]
            frame = self.index.frame(line)
            return 0.0 if frame is None else frame.time

        position = bisect_left(lines, moment, key=start_time)
        self._select_position(min(position, len(lines) - 1))

    def _shown_line(self, exchange: int) -> int:
        """Return the line that shows an exchange."""
        if self.view.raw:
            table = self.index.table
            return table.first[exchange] if exchange >= table.base else self.index.first_frame
        return self.index.line_of(exchange)

    def notify_style_update(self) -> None:
        """Look the styles up again."""
        self._strips.forget_styles()
        super().notify_style_update()

    # Actions

    def action_cursor(self, by: int) -> None:
        """Move by lines."""
        self._select_position(self._position() + by)

    def action_page(self, by: int) -> None:
        """Move by pages."""
        self._select_position(self._position() + by * max(1, self.rows_visible - 1))

    def action_first(self) -> None:
        """Go to the oldest line."""
        self._select_end(0)

    def action_last(self) -> None:
        """Go to the newest line."""
        self._select_end(-1)

    def action_open(self) -> None:
        """Request the details of the selected line, and stop following."""
        if self._line is not None:
            self._stop_following()
            self.post_message(self.Opened(self, self.selected))

    def action_unfold(self) -> None:
        """Show the notifications and parts of the selected exchange below it."""
        if self._line is None or self.view.raw or not self.index.folded_in(self._line):
            return
        self._unfolded = self._line
        self._stop_following()
        self._place_lines(reveal=True)

    def action_fold(self) -> None:
        """Hide the unfolded lines."""
        if self._unfolded is None:
            return
        is_below = self._line is not None and self.lines.is_below(self._position())
        folded_line, self._unfolded = self._unfolded, None
        if is_below:
            self._select_position(self.ordered.position(folded_line))
        self._place_lines(reveal=True)

    def action_follow(self) -> None:
        """Follow the newest line, in arrival order, or stop."""
        self.following = not self.following
        if self.following:
            self.sorted_lines = None
        if self.following and self.paused:
            self._resume()
        self._place_lines()
        self.state_changed()

    def action_pause(self) -> None:
        """Stop adding lines, or add all that arrived in the meantime."""
        if self.paused:
            self._resume()
        else:
            self.paused = True
            self.view.hold()
        self._place_lines()
        self.state_changed()

    def action_mark(self) -> None:
        """Mark or unmark the selected exchange, and go to the next line."""
        if (selected := self.selected) is not None:
            self.marks ^= {selected}
            self.action_cursor(1)
            self.refresh()
            self.state_changed()

    def action_clear_marks(self) -> None:
        """Unmark all exchanges."""
        self.marks.clear()
        self.refresh()
        self.state_changed()

    def action_raw(self) -> None:
        """Toggle between raw frames and exchanges."""
        selected = self.selected
        self._rebuild(not self.view.raw)
        if selected is not None and not self.following:
            self.select(selected)
        self.refresh_bindings()
        self.state_changed()

    @work
    async def action_sort(self) -> None:
        """Let the person choose the column to sort by."""
        menu = sort_menu(self._strips.columns, self.sorted_lines, has_servers=self.index.has_servers)
        if (choice := await self.app.push_screen_wait(menu)) is not None:
            self._sort_or_reverse(choice.column)

    def visible_columns(self) -> list[str]:
        """Return the names of the columns that are shown at the current width."""
        self._fit_strips()
        return self._strips.columns

    def action_zero(self) -> None:
        """Show times relative to the selected exchange. If they already are, show the time of day."""
        if (selected := self.selected) is not None:
            started = self.index.table.started[selected]
            self._strips.time_origin = None if self._strips.time_origin == started else started
            self.refresh()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Enable the zoom only with the waterfall, and sorting only for exchanges.

        Opening, marking and relative times are enabled only if the list has lines.
        """
        if action in ("open", "mark", "zero"):
            return bool(self.lines)
        if action == "clear_marks":
            return bool(self.marks)
        if action == "sort":
            return not self.view.raw
        return action != "zoom_axis" or (self.waterfall.is_on and not self.view.raw)

    def action_waterfall(self) -> None:
        """Toggle between the waterfall, which shows the phases of each exchange, and the columns."""
        self.waterfall.is_on = not self.waterfall.is_on
        self._place_lines()
        self.refresh_bindings()
        self.state_changed()

    def action_zoom_axis(self, by: int) -> None:
        """Zoom the time axis in around the selected exchange (`by` 1), or out (-1)."""
        self.waterfall.zoom = max(0, min(self.waterfall.zoom + by, MAX_ZOOM_STEPS))
        self._place_lines()

    # Mouse

    def on_click(self, event: events.Click) -> None:
        """Select the line under the mouse. A second click opens it."""
        is_on_titles = event.y == 0 and not self.compact
        position = self._offset + event.y - (not self.compact)
        if is_on_titles and self.lines and not self.view.raw:
            self._sort_or_reverse(self._strips.column_at(event.x))
        if is_on_titles or position >= len(self.lines):
            return
        self._select_position(position)
        if event.chain == 2:
            self.action_open()

    def _sort_or_reverse(self, column: str | None) -> None:
        """Sort by a column. If it is already the sort column, reverse the order.

        None and the columns `mark` and `time` mean arrival order.
        """
        if self.sorted_lines is not None and column == self.sorted_lines.column:
            self.sort_by(column, not self.sorted_lines.is_descending)
        elif column in SORT_KEYS or column in (None, "mark", "time"):
            self.sort_by(column if column in SORT_KEYS else None)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll without moving the selection."""
        self._scroll(self._offset + _WHEEL_LINES, event)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll without moving the selection."""
        self._scroll(self._offset - _WHEEL_LINES, event)

    def on_scroll_to(self, event: ScrollTo) -> None:
        """Scroll after the scroll bar was dragged."""
        if event.y is not None:
            self._scroll(round(event.y), event)

    def on_scroll_down(self, event: ScrollDown) -> None:
        """Scroll after a click below the grip of the scroll bar."""
        self._scroll(self._offset + self.rows_visible, event)

    def on_scroll_up(self, event: ScrollUp) -> None:
        """Scroll after a click above the grip of the scroll bar."""
        self._scroll(self._offset - self.rows_visible, event)

    def on_resize(self) -> None:
        """Keep the selected line visible."""
        self._place_lines(reveal=True)

    # Drawing

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw lines without Textual's further processing.

        Textual would copy each line four times, for its cache and for features this widget does not use:
        border, padding, opacity. Under heavy traffic, most lines are drawn only once. This method takes a
        third less time.
        """
        width, lines = self._fit_strips(), self.lines
        strips = [self._draw_row(y, lines) for y in crop.line_range]
        start, stop = crop.column_span
        return strips if (start, stop) == (0, width) else [strip.crop(start, stop) for strip in strips]

    def render_line(self, y: int) -> Strip:
        """Draw one line of the widget."""
        self._fit_strips()
        return self._draw_row(y, self.lines)

    def _fit_strips(self) -> int:
        """Lay the lines out for the width of the widget, and return the width."""
        width, strips = self.size.width, self._strips
        strips.fit(width, self.view.raw)
        order = self.sorted_lines
        strips.order = ("", False) if order is None else (order.column, order.is_descending)
        return width

    def _draw_row(self, y: int, lines: UnfoldedLines) -> Strip:
        strips = self._strips
        if not self.compact:
            if y == 0:
                return strips.head() if lines else strips.text()
            y -= 1
        if not lines:
            return strips.text([self.empty_text[y]] if y < len(self.empty_text) else ())
        if (position := self._offset + y) >= len(lines):
            return strips.text()
        line = lines[position]
        if self.view.raw:
            is_marked = not self.marks.isdisjoint(self.index.rows_of(line))
            return strips.frame(line, has_cursor=line == self._line, is_marked=is_marked)
        fold = Fold.OPEN if line == self._unfolded else Fold.CLOSED
        if lines.is_below(position):
            fold = Fold.BELOW
        is_marked = line in self.marks
        return strips.exchange(line, has_cursor=line == self._line, is_marked=is_marked, fold=fold)

    # Offset and selection

    def _position(self) -> int:
        """Return the position of the selected line."""
        return 0 if self._line is None else self.lines.position(self._line)

    def _select_position(self, position: int) -> None:
        """Select the line at a position, because the person requested it. Stop following."""
        lines = self.lines
        if not lines:
            return
        previous_line = self._line
        self._line = lines[max(0, min(position, len(lines) - 1))]
        self._stop_following()
        self._place_lines(reveal=True)
        if self._line != previous_line:
            self.post_message(self.Picked(self, self.selected))

    def _select_end(self, end: int) -> None:
        """Go to the first line (`end` 0) or the last line (-1), and stay there until all lines are sorted."""
        self._select_position(0 if end == 0 else len(self.lines) - 1)
        self._pinned_end = end if self.sorted_lines is not None and self.sorted_lines.done < 1 else None

    def _stop_following(self) -> None:
        self._pinned_end = None
        if self.following:
            self.following = False
            self.state_changed()

    def sort_by(self, column: str | None, is_descending: bool | None = None) -> None:
        """Sort by a column and go to the first line. With None, use arrival order and keep the selection."""
        if column is None:
            self.sorted_lines = None
        else:
            self.sorted_lines = sorted_by(column, self.view, self.index, is_descending)
            self.sorted_lines.advance(_FIRST_SORT_S)
            self._unfolded = self._top = None
            self._offset = 0
            self._select_end(0)
            if self.sorted_lines.done < 1:
                self._sort_all(self.sorted_lines)
        self._place_lines(reveal=True)
        self.state_changed()

    def _continue_sort(self, lines: SortedLines, budget_s: float) -> bool:
        """Continue to sort, in a worker if lines are missing. Return True if lines may have changed."""
        if lines.done < 1 and not self._is_sorting:
            self._sort_all(lines)
        return not self._is_sorting and lines.advance(budget_s)

    @property
    def _is_sorting(self) -> bool:
        return any(worker.group == _SORT_GROUP and not worker.is_finished for worker in self.workers)

    @work(exclusive=True, group=_SORT_GROUP)
    async def _sort_all(self, lines: SortedLines) -> None:
        """Sort all lines in short slices, with keys handled in between. End if another order is chosen."""
        draw_time = monotonic()
        while self.sorted_lines is lines:
            lines.advance(_SLICE_S)
            is_done = lines.done >= 1
            if is_done or monotonic() - draw_time > _PROGRESS_UPDATE_S:
                self._show_sorted()
                draw_time = monotonic()
            if is_done:
                return
            await asyncio.sleep(0)

    def _show_sorted(self) -> None:
        """Draw the progress of sorting.

        If the person went to the first or last line, keep that end selected.
        """
        previous_line = self._line
        if self._pinned_end is not None and (lines := self.lines):
            self._line, self._top = lines[self._pinned_end], None
        self._place_lines(reveal=True)
        self.state_changed()
        if self._line != previous_line:
            self.post_message(self.Picked(self, self.selected))

    def _scroll(self, offset: int, event: events.Event | Message) -> None:
        """Scroll to an offset. If this is not the end, stop following."""
        event.stop()
        event.prevent_default()
        last_offset = self._last_offset()
        if self.following and offset < last_offset:
            self._stop_following()
        self._offset = max(0, min(offset, last_offset))
        self._remember_top()
        self._place_lines()

    def _last_offset(self) -> int:
        return max(0, len(self.lines) - self.rows_visible)

    def _resume(self) -> None:
        self.paused = False
        self.view.release()

    def _rebuild(self, raw: bool, pause_s: float = 0.0) -> None:
        """Create a new view of raw frames or exchanges. Its lines are searched after `pause_s` seconds."""
        selected = self.selected
        self.view = View(self.index, self.node, raw=raw)
        if self.sorted_lines is not None:
            column, is_descending = self.sorted_lines.column, self.sorted_lines.is_descending
            self.sorted_lines = None if raw else sorted_by(column, self.view, self.index, is_descending)
        if self.paused:
            self.view.hold()
        self._top = self._line = self._unfolded = None
        if selected is not None:
            self._line = self._shown_line(selected)
        self._search_all(pause_s)

    @work(exclusive=True, group="traffic-search")
    async def _search_all(self, pause_s: float) -> None:
        """Filter all lines in short slices, with keys handled in between."""
        if pause_s:
            await asyncio.sleep(pause_s)
        draw_time = monotonic()
        while True:
            self.view.advance(_SLICE_S)
            if self.view.done >= 1 or monotonic() - draw_time > _PROGRESS_UPDATE_S:
                if self.sorted_lines is not None:
                    self._continue_sort(self.sorted_lines, _SLICE_S)
                self._place_lines(reveal=True)
                self.state_changed()
                draw_time = monotonic()
            if self.view.done >= 1:
                return
            await asyncio.sleep(0)

    def _place_lines(self, *, reveal: bool = False) -> None:
        """Update offset, selection and scroll bar for the current lines, and redraw."""
        lines = self.lines
        if self.following and not self.paused:
            self._line = lines[-1] if lines else None
            self._offset = self._last_offset()
        elif lines:
            self._keep_position(lines, reveal=reveal)
        self._remember_top()
        if self.waterfall.is_on and not self.view.raw:
            self.waterfall.set_axis(lines[self._offset : self._offset + self.rows_visible], self._line)
        self._clock_update_time, self._strips.has_clock = monotonic(), False
        if self._bar.visible != (self._last_offset() > 0):
            self._bar.visible = not self._bar.visible
        self._update_bar(len(lines))
        self.refresh()

    def _update_bar(self, line_count: int) -> None:
        """Update the scroll bar, which is drawn in eighths of cells, if its look changes."""
        rows, height = self.rows_visible, self.size.height
        grip_height = max(1.0, rows * height / max(rows, line_count, 1))
        rows_above = (height - grip_height) * self._offset / max(1, line_count - rows)
        bar_state = (rows, height, int(8 * rows_above), ceil(8 * grip_height))
        if bar_state != self._bar_state:
            self._bar_state = bar_state
            self._bar.window_virtual_size = max(1, line_count)
            self._bar.window_size = rows
            self._bar.position = self._offset

    def _keep_position(self, lines: Sequence[int], *, reveal: bool) -> None:
        """Keep the selected line and the first visible line. With `reveal`, scroll to the selected line."""
        position = min(self._position(), len(lines) - 1)
        is_complete = self.view.done >= 1 and (self.sorted_lines is None or self.sorted_lines.done >= 1)
        if self._line is None or (lines[position] != self._line and is_complete):
            self._line, reveal = lines[position], True
        if self._top is not None:
            self._offset = self.lines.position(self._top)
        if not self.size:  # a list that is hidden, or not laid out since it was hidden, keeps its offset
            return
        if reveal:
            self._offset = max(position - self.rows_visible + 1, min(self._offset, position))
        self._offset = max(0, min(self._offset, self._last_offset()))

    def _remember_top(self) -> None:
        lines = self.lines
        self._top = lines[self._offset] if self._offset < len(lines) else None
