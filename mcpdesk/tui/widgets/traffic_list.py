"""The traffic, one line per exchange or raw frame, however many there are.

Draws only the lines in sight, from the index, twenty times a second at most; keeps its own offset, so that a
flood of messages costs no layout. Looks when told to (`look`), never by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic, time
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual import events, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.scrollbar import ScrollBar, ScrollDown, ScrollTo, ScrollUp
from textual.strip import Strip
from textual.widget import Widget

from mcpdesk.recorder.exchange import Exchange
from mcpdesk.recorder.index import Index
from mcpdesk.recorder.query import EVERYTHING, Node
from mcpdesk.recorder.view import View
from mcpdesk.tui.actions import bindings_for
from mcpdesk.tui.render.traffic_line import Cell, Column, columns_for, exchange_cells, frame_cells, heading

_CLOCK_S = 0.1
"""How often the clock of a pending line is drawn anew."""
_KEPT_STRIPS = 300
_SLICE_S = 0.005
_PROGRESS_S = 0.1
"""How often a long search shows what it found so far."""
_WHEEL = 3


class TrafficList(Widget, can_focus=True):
    """Follows the newest line until the person moves; then the selection stays where it is.

    | component class | styles |
    | --- | --- |
    | `traffic--cursor` | the selected line |
    | `traffic--head` | column titles |
    | `traffic--in`, `traffic--out` | direction glyphs |
    | `traffic--method`, `traffic--name`, `traffic--peer` | what the line is about |
    | `traffic--good`, `traffic--bad`, `traffic--warn`, `traffic--clock`, `traffic--muted` | the rest |
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "traffic--cursor",
        "traffic--head",
        "traffic--in",
        "traffic--out",
        "traffic--method",
        "traffic--name",
        "traffic--peer",
        "traffic--mark",
        "traffic--good",
        "traffic--bad",
        "traffic--warn",
        "traffic--clock",
        "traffic--muted",
    }
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings_for("traffic_list"),
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup,ctrl+b", "page(-1)", "Page up", show=False),
        Binding("pagedown,ctrl+f", "page(1)", "Page down", show=False),
        Binding("home,g", "first", "First", show=False),
        Binding("end,G", "last", "Last", show=False),
        Binding("enter", "open", "Open", show=False),
    ]
    DEFAULT_CSS = """
    TrafficList {
        height: 1fr; background: transparent;
        & > ScrollBar { dock: right; width: 1; height: 1fr; }
        & > .traffic--cursor {
            background: $block-cursor-blurred-background;
            text-style: $block-cursor-blurred-text-style;
        }
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
        """The person moved to another line. `exchange` is None for a raw frame nobody has paired yet."""

        listing: TrafficList
        exchange: int | None

        def can_replace(self, message: Message) -> bool:
            """Only the newest choice matters."""
            return isinstance(message, TrafficList.Picked)

    @dataclass
    class Opened(Message):
        """The person asked for the details of a line."""

        listing: TrafficList
        exchange: int | None

    @dataclass
    class Shifted(Message):
        """Following, pausing, marks or the form of the lines changed."""

        listing: TrafficList

    def __init__(
        self, index: Index, *, compact: bool = False, id: str | None = None, classes: str | None = None
    ) -> None:
        """`compact` leaves the column titles out, for a strip of few lines."""
        super().__init__(id=id, classes=classes)
        self.index = index
        self.compact = compact
        self.node: Node = EVERYTHING
        self.view = View(index)
        self.following = True
        self.paused = False
        self.marks: set[int] = set()
        """Numbers of marked exchanges."""
        self.lesson: Sequence[Cell] = ()
        """Lines shown while there are none."""
        self._bar = ScrollBar(vertical=True, thickness=1)
        self._offset = 0
        self._top: int | None = None
        self._line: int | None = None
        self._drawn = -1
        self._clock_at = 0.0
        self._has_clock = False
        self._strips: dict[tuple[object, ...], Strip] = {}
        self._styles: dict[str, Style] = {}
        self._layout: tuple[tuple[int, bool], tuple[Column, ...]] = ((0, False), ())

    def compose(self) -> ComposeResult:
        """Only the scroll bar is a widget."""
        yield self._bar

    # What it shows

    def look(self, budget_s: float = _SLICE_S) -> bool:
        """Pair and filter what came since, for about `budget_s` seconds; True when it is drawn anew."""
        changed = self.index.catch_up(budget_s)
        changed = self.view.advance(budget_s) or changed
        is_tick = self._has_clock and monotonic() - self._clock_at > _CLOCK_S
        if not changed and not is_tick and self._drawn == len(self.view.lines):
            return False
        self._settle()
        return True

    @property
    def selected(self) -> int | None:
        """The number of the selected exchange; None without any, or while a raw frame is not paired."""
        if self._line is None or not self.view.raw:
            return self._line
        return next(iter(self.index.rows_of(self._line)), None)

    @property
    def rows_visible(self) -> int:
        """Lines there is room for."""
        return max(1, self.size.height - (not self.compact))

    def filter(self, node: Node) -> None:
        """Show only what a filter lets pass; the selected line stays selected if it is among them."""
        self.node = node
        self._rebuild(self.view.raw)

    def select(self, exchange: int) -> None:
        """Move to an exchange and stay there."""
        table = self.index.table
        line = table.first[exchange] if self.view.raw else exchange
        self._go(self.view.position(line))

    def notify_style_update(self) -> None:
        """Forget what was drawn in other colours."""
        self._strips.clear()
        self._styles.clear()
        super().notify_style_update()

    # Actions

    def action_move(self, by: int) -> None:
        """Move by lines."""
        self._go(self._position() + by)

    def action_page(self, by: int) -> None:
        """Move by pages."""
        self._go(self._position() + by * max(1, self.rows_visible - 1))

    def action_first(self) -> None:
        """Go to the oldest line."""
        self._go(0)

    def action_last(self) -> None:
        """Go to the newest line."""
        self._go(len(self.view.lines) - 1)

    def action_open(self) -> None:
        """Ask for the details of the selected line, and stay on it."""
        if self._line is not None:
            self._stay()
            self.post_message(self.Opened(self, self.selected))

    def action_follow(self) -> None:
        """Stay at the newest line, or stop."""
        self.following = not self.following
        if self.following and self.paused:
            self._resume()
        self._settle()
        self.post_message(self.Shifted(self))

    def action_pause(self) -> None:
        """Take in no more lines, or take in all that came meanwhile."""
        if self.paused:
            self._resume()
        else:
            self.paused = True
            self.view.hold()
        self._settle()
        self.post_message(self.Shifted(self))

    def action_mark(self) -> None:
        """Mark the selected exchange, or take its mark away, and go on to the next line."""
        if (chosen := self.selected) is not None:
            self.marks ^= {chosen}
            self.action_move(1)
            self.refresh()
            self.post_message(self.Shifted(self))

    def action_next_mark(self, by: int) -> None:
        """Go to the next or previous marked exchange."""
        here = -1 if self.selected is None else self.selected
        later = sorted(mark for mark in self.marks if (mark > here if by > 0 else mark < here))
        if later:
            self.select(later[0 if by > 0 else -1])

    def action_raw(self) -> None:
        """Show every frame for itself, or exchanges again."""
        chosen = self.selected
        self._rebuild(not self.view.raw)
        if chosen is not None and not self.following:
            self.select(chosen)
        self.post_message(self.Shifted(self))

    # Mouse

    def on_click(self, event: events.Click) -> None:
        """Select the line under the mouse; a second click opens it."""
        position = self._offset + event.y - (not self.compact)
        if event.y < (not self.compact) or position >= len(self.view.lines):
            return
        self._go(position)
        if event.chain == 2:
            self.action_open()

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll without moving the selection."""
        self._scroll(self._offset + _WHEEL, event)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll without moving the selection."""
        self._scroll(self._offset - _WHEEL, event)

    def on_scroll_to(self, event: ScrollTo) -> None:
        """The scroll bar was dragged."""
        if event.y is not None:
            self._scroll(round(event.y), event)

    def on_scroll_down(self, event: ScrollDown) -> None:
        """The scroll bar was clicked below its grip."""
        self._scroll(self._offset + self.rows_visible, event)

    def on_scroll_up(self, event: ScrollUp) -> None:
        """The scroll bar was clicked above its grip."""
        self._scroll(self._offset - self.rows_visible, event)

    def on_resize(self) -> None:
        """Keep the selected line in sight."""
        self._settle(reveal=True)

    # Drawing

    def render_line(self, y: int) -> Strip:
        """One line of the screen."""
        width = self.size.width - 1
        columns = self._columns(width - 1)
        if not self.compact:
            if y == 0:
                return self._strip(self._head_cells(columns), width, "traffic--head")
            y -= 1
        if not (lines := self.view.lines):
            return self._strip([self.lesson[y]] if y < len(self.lesson) else [], width)
        position = self._offset + y
        if position >= len(lines):
            return Strip.blank(self.size.width, self._base())
        return self._line_strip(lines[position], columns, width)

    def _head_cells(self, columns: tuple[Column, ...]) -> list[Cell]:
        return heading(columns) if len(self.view.lines) else []

    def _line_strip(self, line: int, columns: tuple[Column, ...], width: int) -> Strip:
        """The strip of a line, from the cache while nothing about it changed."""
        is_cursor = line == self._line
        style = "traffic--cursor" if is_cursor else ""
        if self.view.raw:
            rows = self.index.rows_of(line)
            key: tuple[object, ...] = (
                line,
                width,
                is_cursor,
                self.has_focus,
                any(row in self.marks for row in rows),
            )
            if (strip := self._strips.get(key)) is None:
                cells = self._frame_cells(line, columns, marked=bool(key[-1]))
                strip = self._keep(key, self._strip(cells, width, style))
            return strip
        exchange = self.index.exchange(line)
        marked = line in self.marks
        if exchange.ended is None:
            self._has_clock = True
            return self._strip(exchange_cells(exchange, columns, time(), marked=marked), width, style)
        key = (*_face(exchange), width, is_cursor, self.has_focus, marked)
        if (strip := self._strips.get(key)) is None:
            cells = exchange_cells(exchange, columns, 0.0, marked=marked)
            strip = self._keep(key, self._strip(cells, width, style))
        return strip

    def _frame_cells(self, number: int, columns: tuple[Column, ...], *, marked: bool) -> list[Cell]:
        frame = self.index.frame(number)
        connection = self.index.connections.get(frame.connection) if frame else None
        return frame_cells(frame, connection, columns, marked=marked)

    def _strip(self, cells: Sequence[Cell], width: int, line_style: str = "") -> Strip:
        """Cells as a strip of the widget's width; the place of the scroll bar stays blank."""
        base = self._base()
        over = self._style(line_style) if line_style else None
        segments = []
        for text, name in cells:
            style = base + self._style(name) if name else base
            segments.append(Segment(text, style + over if over else style))
        fill = base + over if over else base
        return Strip(segments).adjust_cell_length(width, fill).extend_cell_length(self.size.width, base)

    def _base(self) -> Style:
        """The widget's own style; asking Textual for it is dear, and it is asked for every line."""
        style = self._styles.get("")
        if style is None:
            style = self._styles[""] = self.rich_style
        return style

    def _style(self, name: str) -> Style:
        style = self._styles.get(name)
        if style is None:
            style = self._styles[name] = self.get_component_rich_style(name, partial=True)
        return style

    def _keep(self, key: tuple[object, ...], strip: Strip) -> Strip:
        if len(self._strips) >= _KEPT_STRIPS:
            self._strips.clear()
        self._strips[key] = strip
        return strip

    def _columns(self, width: int) -> tuple[Column, ...]:
        wanted = (width, self.view.raw)
        if self._layout[0] != wanted:
            self._layout = (wanted, columns_for(width, raw=self.view.raw))
            self._strips.clear()
        return self._layout[1]

    # Where it stands

    def _position(self) -> int:
        """Where the selected line stands."""
        return 0 if self._line is None else self.view.position(self._line)

    def _go(self, position: int) -> None:
        """Select the line at a position, as the person asked; following ends."""
        lines = self.view.lines
        if not lines:
            return
        before = self._line
        self._line = lines[max(0, min(position, len(lines) - 1))]
        self._stay()
        self._settle(reveal=True)
        if self._line != before:
            self.post_message(self.Picked(self, self.selected))

    def _stay(self) -> None:
        if self.following:
            self.following = False
            self.post_message(self.Shifted(self))

    def _scroll(self, offset: int, event: events.Event | Message) -> None:
        """Show other lines; at the end following goes on if it was on."""
        event.stop()
        event.prevent_default()
        end = self._end()
        if self.following and offset < end:
            self._stay()
        self._offset = max(0, min(offset, end))
        self._remember_top()
        self._settle()

    def _end(self) -> int:
        return max(0, len(self.view.lines) - self.rows_visible)

    def _resume(self) -> None:
        self.paused = False
        self.view.release()

    def _rebuild(self, raw: bool) -> None:
        """Begin the view anew under another filter or form."""
        chosen = self.selected
        self.view = View(self.index, self.node, raw=raw)
        if self.paused:
            self.view.hold()
        self._top = self._line = None
        if chosen is not None:
            self._line = self.index.table.first[chosen] if raw else chosen
        self._strips.clear()
        self._work_off()

    @work(exclusive=True, group="traffic-search")
    async def _work_off(self) -> None:
        """Filter all there is as fast as slices allow that let keys through between them."""
        drawn = 0.0
        while True:
            self.view.advance(_SLICE_S)
            if self.view.done >= 1 or monotonic() - drawn > _PROGRESS_S:
                self._settle(reveal=True)
                drawn = monotonic()
            if self.view.done >= 1:
                return
            await asyncio.sleep(0)

    def _settle(self, *, reveal: bool = False) -> None:
        """Bring offset, selection and scroll bar in line with the lines there are, and draw."""
        lines = self.view.lines
        if self.following and not self.paused:
            self._line = lines[-1] if lines else None
            self._offset = self._end()
        elif lines:
            self._hold_still(lines, reveal=reveal)
        self._remember_top()
        self._drawn = len(lines)
        self._clock_at, self._has_clock = monotonic(), False
        if self._bar.visible != (self._end() > 0):
            self._bar.visible = not self._bar.visible
        self._bar.window_virtual_size = max(1, len(lines))
        self._bar.window_size = self.rows_visible
        self._bar.position = self._offset
        self.refresh()

    def _hold_still(self, lines: Sequence[int], *, reveal: bool) -> None:
        """Keep the same lines in the same places."""
        position = min(self._position(), len(lines) - 1)
        if self._line is None or (lines[position] != self._line and self.view.done >= 1):
            self._line, reveal = lines[position], True
        if self._top is not None:
            self._offset = self.view.position(self._top)
        if reveal:
            self._offset = max(position - self.rows_visible + 1, min(self._offset, position))
        self._offset = max(0, min(self._offset, self._end()))

    def _remember_top(self) -> None:
        lines = self.view.lines
        self._top = lines[self._offset] if self._offset < len(lines) else None


def _face(exchange: Exchange) -> tuple[object, ...]:
    """Everything about a finished exchange that shows."""
    return (
        exchange.number,
        exchange.status,
        exchange.ended,
        exchange.peer,
        exchange.revision,
        exchange.is_slow,
    )
