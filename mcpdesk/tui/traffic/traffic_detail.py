"""Details of one exchange: messages as trees, steps, HTTP headers, and notifications during it.

Only the visible tab is filled. A message is decoded when it is shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePath
from time import time
from typing import Any, ClassVar

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Vertical, VerticalScroll
from textual.content import Content
from textual.widget import Widget
from textual.widgets import ContentSwitcher, Static

from mcpdesk.byte_size import size_text
from mcpdesk.link.state_looks import EXCHANGES
from mcpdesk.link.values import LogLine
from mcpdesk.protocol.revisions import with_era
from mcpdesk.recorder.index.exchange import Exchange, ExchangeKind, Status
from mcpdesk.recorder.index.traffic_index import Index, last_round
from mcpdesk.recorder.masking import mask_text
from mcpdesk.recorder.readable_message import changed_request, end_at_desk, message, remarks
from mcpdesk.recorder.record import Direction
from mcpdesk.tui.actions import bindings_for
from mcpdesk.tui.core_answers import frames_of
from mcpdesk.tui.render.amounts import clock, duration
from mcpdesk.tui.render.safe_text import ending, one_line, wrap_items
from mcpdesk.tui.render.tones import TEXT_STYLES
from mcpdesk.tui.results.after_call import LogBlock, failure_code, failure_line, log_blocks
from mcpdesk.tui.results.client_limits import MIN_CHECKED_BYTES, exceeded_limits
from mcpdesk.tui.results.json_tree import JsonTree
from mcpdesk.tui.results.long_text import LongText
from mcpdesk.tui.results.steady_text_scroll import SteadyTextScroll
from mcpdesk.tui.traffic.colour_rules import ColourRules
from mcpdesk.tui.traffic.exchange_details import (
    ENVELOPE,
    FOLDED_MEMBERS,
    MAX_SHOWN_BYTES,
    MESSAGES,
    failure_text,
    frame_heading,
    frame_text,
    held_tree,
    http_text,
    step_title,
    steps,
    with_important_first,
)
from mcpdesk.tui.traffic.line_cells import operation_words
from mcpdesk.tui.traffic.waterfall import phases_in_words
from mcpdesk.tui.widgets.choice_box import TabStrip
from mcpdesk.tui.widgets.first_size import WithFirstResize

TABS = ("frame", "messages", "steps", "held", "http", "events")
"""Names of all tabs, from the left."""
_STATUS_EXPLANATIONS = {
    Status.LEFT: "stopped waiting: its code still runs",
    Status.LATE: "late: the caller no longer waited for it",
    Status.ASKS: "asks the client",
}
"""Status -> text in the title, for statuses whose word is not clear alone."""
FAILED_CALL_STATUSES = frozenset({Status.ERROR, Status.TOOL_ERROR})
"""Statuses of calls whose server answered with an error."""
MIN_TALL_ROWS = 24
"""Minimum height in rows for showing the failure and the facts in full."""
MIN_WIDE_CELLS = 100
"""Minimum width in cells for showing request and response side by side, at any height."""
LOOKUP_INTERVAL_S = 0.5
"""Seconds between two lookups of the code line at which an exchange is waiting."""
LOG_UPDATE_S = 2.0
"""Seconds after the end of a failed call while its log is still updated."""
_MAX_REMARKS = 5
"""Maximum number of remarks on an exchange that are shown. These are the first remarks."""
_MAX_EVENTS = 500
"""Maximum number of notifications of a call that are shown. These are the newest notifications."""
MAX_FETCHED_BYTES = 32 << 20
"""Maximum total size in bytes of the large frames that the details wait for."""


class FramePage(SteadyTextScroll):
    """Raw frame of any length."""

    _heading = ""

    def show(self, index: Index, number: int) -> None:
        """Show another frame from its beginning."""
        self._heading = frame_heading(index, number)
        self.first_column = 0
        self.forget_position()
        self.remove_children()
        self.mount(LongText(frame_text(index, number, MAX_SHOWN_BYTES)))
        self.scroll_home(animate=False)
        self._show_heading()

    def columns_changed(self) -> None:
        super().columns_changed()
        self._show_heading()

    def _show_heading(self) -> None:
        """Show the description of the frame, and the columns on the screen, in the border."""
        heading = " · ".join(filter(None, (self._heading, self.columns_text)))
        self.border_title = Content(heading).markup


class TrafficDetail(WithFirstResize, Vertical):
    """Details of an exchange, or a text that explains how to choose one.

    `definition_of` returns the definition of a called tool, or None if it is unknown.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings_for("traffic_detail")
    ALLOW_MAXIMIZE = True  # as a whole, because a single part is not useful
    DEFAULT_CSS = """
    TrafficDetail {
        & > .title { height: 1; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
        &.-below > .title { display: none; }
        & > .failure { height: auto; max-height: 5; padding: 0 1; color: $text-error; }
        & > .place { height: 1; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
        & > .failure, & > .place { display: none; }
        &.-failed > .failure, &.-placed > .place { display: block; }
        & > .facts { height: auto; max-height: 6; padding: 0 1; color: $text-muted; }
        &.-short > .failure, &.-short > .facts { max-height: 2; }
        & > ContentSwitcher { height: 1fr; }
        & .sides { layout: horizontal; height: 1fr; }
        &.-stacked .sides { layout: vertical; }
        &.-stacked .request { height: auto; max-height: 50%; }
        &.-stacked .request JsonTree { height: auto; max-height: 100%; }
        & .side { width: 1fr; height: 1fr; border-top: solid $border-blurred; padding: 0 1;
            border-title-color: $text-muted; }
        & .side.-changed { border-title-color: $text-warning; }
        & .side:focus-within { border-top: solid $border; border-title-color: $text-primary; }
        & .problem { display: none; height: auto; color: $text-warning; }
        & .side.-problem .problem { display: block; }
        & .log { display: none; dock: bottom; height: auto; max-height: 50%; padding: 0 1;
            scrollbar-size: 1 1; overflow-x: auto; border-top: solid $border-blurred;
            border-title-color: $text-muted; }
        &.-short .log { scrollbar-size-horizontal: 0; }
        & .log:focus { border-top: solid $border; border-title-color: $text-primary; }
        & .log Static { width: 100%; height: auto; }
        & .log .lines { width: auto; min-width: 100%; text-wrap: nowrap; }
        &.-logged .log { display: block; }
        & .scroll {
            height: 1fr; padding: 0 1; scrollbar-size-vertical: 1; border-top: solid $border-blurred;
        }
        & .scroll:focus { border-top: solid $border; }
        & .scroll Static { height: auto; }
        & #frame { border-title-color: $text-muted; }
        & .tree { height: 1fr; padding: 0 1; border-top: solid $border-blurred; }
        & .tree:focus-within { border-top: solid $border; }
        & .nothing { display: none; height: 1fr; content-align: center middle; color: $text-muted; }
        &.-empty > * { display: none; }
        &.-empty > .nothing { display: block; }
    }
    """

    def __init__(
        self,
        index: Index,
        definition_of: Callable[[Exchange], Mapping[str, Any] | None] = lambda _: None,
        waiting_line_of: Callable[[Exchange], str] = lambda _: "",
        log_of: Callable[[Exchange], Sequence[LogLine]] = lambda _: (),
        rules: ColourRules | None = None,
    ) -> None:
        """Create the details.

        `waiting_line_of` returns the code line at which a pending exchange is waiting, or "". `log_of`
        returns the log lines of a call. `rules` are the colour rules that the facts name.
        """
        super().__init__(classes="-empty")
        self.index = index
        self.shown_exchange: Exchange | None = None
        self._definition_of, self._waiting_line_of, self._log_of = definition_of, waiting_line_of, log_of
        self._exceeded_limits: tuple[tuple[int, int], list[str]] = ((-1, -1), [])
        """Exchange and response that were compared with the limits of known clients last, and texts about the
        limits that it exceeds."""
        self.call_log: Sequence[LogLine] = ()
        """Log lines of the shown call, including an exception with its traceback."""
        self._failure_line: LogLine | None = None
        """Log line that names the location of the failure."""
        self._heading = Content("")
        self._waiting_line_lookup = (0.0, -1, "")
        """Unix time of the last lookup of a code line, number of the exchange, and the code line at which it
        was waiting."""
        self._remark_cache: tuple[object, list[str]] = (None, [])
        """Key of the exchange whose remarks were read last, and the texts of these remarks."""
        self._rules = rules
        self._tab = "messages"
        """Name of the visible tab."""
        self.frame: int | None = None
        """Number of the selected raw frame, or None if an exchange was selected."""
        self._side_states: dict[str, object] = {"request": None, "response": None}
        """State of the shown request and response: frame, change and end at the desk. None if not shown yet.
        A side is filled again when its state has changed."""
        self._stale_tabs: set[str] = set()
        """Tabs that show an older state than `shown_exchange`."""
        self._missing_frames = list[int]()
        """Frames of the shown exchange that are still being fetched from another process."""
        self._step_to_select: int | None = None
        """Step to select when the steps are filled."""

    def compose(self) -> ComposeResult:
        """Compose title, facts, tabs, and one page per tab."""
        yield Static("enter or a click on a line shows it here", classes="nothing", markup=False)
        for part in ("title", "failure", "place", "facts"):
            yield Static(classes=part, markup=False)
        yield TabStrip()
        with ContentSwitcher(initial=self._tab):
            with Container(id="messages", classes="sides"):
                for side in ("request", "response"):
                    with Vertical(classes=f"side {side}") as box:
                        box.border_title = side
                        yield Static(classes="problem", markup=False)
                        yield JsonTree()
                yield VerticalScroll(classes="log")
            yield FramePage(id="frame", classes="scroll")
            with Vertical(id="steps", classes="tree"):
                yield JsonTree()
            with Vertical(id="held", classes="tree"):
                yield JsonTree()
            with VerticalScroll(id="http", classes="scroll"):
                yield Static(markup=False)
            with Vertical(id="events", classes="tree"):
                yield JsonTree()

    @on(JsonTree.CopyRequested)
    def path_copied(self, event: JsonTree.CopyRequested) -> None:
        """Remove `envelope` from a copied path, because the message itself does not have this member."""
        if event.what == "path":
            event.text = event.text.removeprefix(f"{ENVELOPE}.")

    def show(self, number: int | None, frame: int | None = None) -> None:
        """Show another exchange, or none. A part of an exchange is shown as one of its steps.

        If a raw frame of the exchange is selected, `frame` is its number, and the frame is shown first.
        """
        if frame != self.frame:
            if self.frame is None:
                self._tab = "frame"
            self.frame = frame
            self._stale_tabs.add("frame")
        if number is None:
            self.shown_exchange = None
            self.add_class("-empty")
            self._show_heading(Content(""))
            return
        operation = self.index.operations.operation_of.get(number, number)
        self._step_to_select = number if number != operation and frame is None else None
        if self.shown_exchange is None or self.shown_exchange.number != operation:
            self.shown_exchange = None
            self._load(self.index.exchange(operation))
        elif self._step_to_select is not None:
            self._stale_tabs.add("steps")
            self._show_tab("steps")
        elif "frame" in self._stale_tabs:
            self._show_tab(self._tab if self._tab in self._tabs else self._tabs[0])

    def on_resize(self) -> None:
        """Wrap the facts for the new width, and arrange the messages for the new size."""
        width, height = self.size
        self.set_class(height < MIN_TALL_ROWS, "-short")
        self.set_class(width < min(MIN_WIDE_CELLS, 3 * height), "-stacked")
        if self.shown_exchange is not None:
            self._show_facts(self.shown_exchange)
            self._show_failure_location()
            self.call_after_refresh(self._scroll_to_failure)

    def update_exchange(self) -> None:
        """Show changes since the last call.

        These are the response, more notifications, and the clock of a pending exchange.
        """
        if self.shown_exchange is None:
            return
        exchange = self.index.exchange(self.shown_exchange.number)
        if any(self.index.is_available(frame) for frame in self._missing_frames):
            self._side_states = dict.fromkeys(self._side_states)
            self._stale_tabs |= set(TABS)
            self._load(exchange)
        elif exchange != self.shown_exchange:
            self._load(exchange)
        elif exchange.status in FAILED_CALL_STATUSES and time() - (exchange.ended or 0.0) < LOG_UPDATE_S:
            self._show_log(exchange)
        elif exchange.ended is None or exchange.asked_at is not None:
            self._show_facts(exchange)

    @property
    def is_ageing(self) -> bool:
        """True if the shown exchange has a running clock."""
        return self.shown_exchange is not None and (
            self.shown_exchange.ended is None or self.shown_exchange.asked_at is not None
        )

    def action_show_tab(self, by: int) -> None:
        """Show another tab."""
        tabs = self._tabs
        self._show_tab(tabs[(tabs.index(self._tab) + by) % len(tabs)])

    @property
    def _tabs(self) -> tuple[str, ...]:
        """Tabs with contents. The tab of steps exists only for an operation of several exchanges."""
        exchange = self.shown_exchange
        has_contents = {
            "frame": self.frame is not None,
            "steps": exchange is not None and bool(exchange.parts),
            "held": exchange is not None and bool(self.index.marks_of(exchange)),
        }
        return tuple(tab for tab in TABS if has_contents.get(tab, True))

    @on(TabStrip.Picked)
    def tab_picked(self, event: TabStrip.Picked) -> None:
        """Show the clicked tab."""
        event.stop()
        self._show_tab(self._tabs[event.index])

    def focus_first(self) -> None:
        """Focus the contents of the tab."""
        page = self.query_one(ContentSwitcher).visible_content
        if page is not None:
            target = next((child for child in page.walk_children(Widget) if child.focusable), page)
            self.screen.set_focus(target if target.focusable else None)

    def _show_tab(self, tab: str) -> None:
        self._tab = tab
        had_focus = self.has_focus_within
        self.query_one(ContentSwitcher).current = tab
        if self.shown_exchange is not None:
            self._fill(self.shown_exchange)
            self._show_facts(self.shown_exchange)
        if had_focus:
            self.focus_first()

    def _load(self, exchange: Exchange) -> None:
        """Show a newer state of an exchange. A tree whose frame is unchanged is kept."""
        previous = self.shown_exchange
        self.shown_exchange = exchange
        self.remove_class("-empty")
        self._stale_tabs |= {"messages", "held", "http"}
        if previous is None or previous.notifications != exchange.notifications:
            self._stale_tabs.add("events")
        if exchange.parts:
            self._stale_tabs.add("steps")
        if previous is None:
            self._side_states = dict.fromkeys(self._side_states)
        if exchange.parts and self._tab == "messages" and (previous is None or not previous.parts):
            self._tab = "steps"
        has_empty_events = self._tab == "events" and not exchange.notifications
        if self._tab not in self._tabs or (previous is None and has_empty_events):
            self._tab = self._tabs[0]
        self._show_failure(exchange)
        self._find_exceeded_limits(exchange)
        self._show_tab(self._tab)
        if previous is None:
            self.call_after_refresh(self._scroll_to_failure)

    def _fill(self, exchange: Exchange) -> None:
        """Fill the visible tab if it shows an older state."""
        if self._tab in self._stale_tabs:
            self._stale_tabs.remove(self._tab)
            fill_functions = {
                "frame": self._fill_frame,
                "messages": self._fill_messages,
                "steps": self._fill_steps,
                "held": self._fill_held,
                "http": self._fill_http,
            }
            fill_functions.get(self._tab, self._fill_events)(exchange)
            self._missing_frames = self._frames_to_fetch(exchange)

    def _frames_to_fetch(self, exchange: Exchange) -> list[int]:
        """Return the frames of the exchange that are still to be fetched.

        Their total size is limited, because fetching too many would remove others from memory.
        """
        if self.index.fetched_until is None:
            return []
        missing_frames, total_size = list[int](), 0
        selected_frames = () if self.frame is None else (self.frame,)
        event_frames = exchange.notifications[-_MAX_EVENTS:]
        for number in (*selected_frames, *frames_of(self.index, exchange), *event_frames):
            frame = self.index.frame(number)
            if frame is not None and len(frame.data) < frame.size:
                total_size += frame.size
            if total_size > MAX_FETCHED_BYTES and missing_frames:
                break
            if not self.index.is_available(number):
                missing_frames.append(number)
        return missing_frames

    def _fill_frame(self, _: Exchange) -> None:
        if self.frame is not None:
            self.query_one(FramePage).show(self.index, self.frame)

    def _fill_messages(self, exchange: Exchange) -> None:
        last = last_round(self.index, exchange)
        replacement = changed_request(self.index, exchange, self._schema_of(exchange))
        desk_end = end_at_desk(self.index, last)
        for side, side_exchange, frame, side_replacement, side_end in (
            ("request", exchange, exchange.request, replacement, ""),
            ("response", last, last.response, None, desk_end),
        ):
            frame_or_status = side_exchange.status if frame is None else frame
            side_state = (frame_or_status, side_replacement is not None, side_end)
            if self._side_states[side] != side_state:
                self._side_states[side] = side_state
                self._fill_side(side_exchange, side, frame, side_replacement, side_end)

    def _show_failure(self, exchange: Exchange) -> None:
        """Show why a call failed: the error in the response, the code line, and the log."""
        last = last_round(self.index, exchange)
        failure = ""
        if last.status in FAILED_CALL_STATUSES and last.response is not None:
            stored_frame = self.index.frame(last.response)
            if stored_frame is not None and stored_frame.size <= MAX_SHOWN_BYTES:
                failure = failure_text(message(self.index, last, last.response).value)
        self.set_class(bool(failure), "-failed")
        self.query_one(".failure", Static).update(Content(f"✗ {one_line(failure)}"))
        self._show_log(exchange)

    def _find_exceeded_limits(self, exchange: Exchange) -> None:
        """Find the known clients that cut, move or refuse the result of a tool, once for each response."""
        response = last_round(self.index, exchange).response
        if exchange.method != "tools/call" or response is None:
            return
        key = (exchange.number, response)
        if key == self._exceeded_limits[0]:
            return
        stored_frame = self.index.frame(response)
        if stored_frame is None or stored_frame.size < MIN_CHECKED_BYTES:
            return
        if len(stored_frame.data) == stored_frame.size:  # otherwise the rest must be fetched first
            self._exceeded_limits = key, []
            self._compare_with_limits(key, stored_frame.data, exchange)

    @work(exclusive=True, group="limits")
    async def _compare_with_limits(self, key: tuple[int, int], data: bytes, exchange: Exchange) -> None:
        definition = self._definition_of(exchange) or {}
        texts = await asyncio.to_thread(exceeded_limits, data, definition, exchange.peer)
        if texts and key == self._exceeded_limits[0]:
            self._exceeded_limits = key, texts
            if self.shown_exchange is not None and self.shown_exchange.number == exchange.number:
                self._show_facts(self.shown_exchange)

    def _schema_of(self, exchange: Exchange) -> Mapping[str, Any] | None:
        """Return the input schema of a called tool, or None if it is unknown."""
        definition = self._definition_of(exchange)
        return None if definition is None else definition.get("inputSchema")

    def _show_log(self, exchange: Exchange) -> None:
        """Show the current log of a failed call, starting at the code line."""
        last = last_round(self.index, exchange)
        call_log = self._log_of(last) if last.status in FAILED_CALL_STATUSES else ()
        if call_log == self.call_log:
            return
        self.call_log, self._failure_line = call_log, failure_line(call_log)
        self.set_class(bool(call_log), "-logged")
        self.set_class(self._failure_line is not None, "-placed")
        self._show_failure_location()
        log = self.query_one(".log", VerticalScroll)
        has_call_lines = any(line.call is not None for line in call_log)
        log.border_title = "log of this call" if has_call_lines else "stderr of the server during the call"
        log.remove_children()
        log.mount_all(log_blocks(call_log))
        self.call_after_refresh(self._scroll_to_failure)

    def _show_failure_location(self) -> None:
        """Show the code line where the call failed, and the keys that open it."""
        if (line := self._failure_line) is None:
            return
        keys_text = "g c opens it"
        path = PurePath(line.where)
        location = one_line(path.name if path.is_absolute() else line.where)
        _, code = failure_code(line)
        text = Content.assemble(
            ending(location, max(12, self.size.width - len(keys_text) - 5)),
            (f" · {keys_text}", "$text-muted"),
            (f" · {one_line(code)}" if code else "", "$text-muted"),
        )
        self.query_one(".place", Static).update(text)

    def _scroll_to_failure(self) -> None:
        """Scroll the log to the description of the failure."""
        log = self.query_one(".log", VerticalScroll)
        if (line := self._failure_line) is not None:
            for block in log.query(LogBlock):
                if block.shows(line):
                    region, height = block.virtual_region, log.scrollable_content_region.height
                    code_row, _ = failure_code(line)
                    row = region.y + 1 + code_row  # the level is in the first row
                    last_offset = region.bottom - height
                    offset = last_offset if row >= last_offset else row - height // 2
                    log.scroll_to(0, offset, animate=False, immediate=True)
                    return
        log.scroll_home(animate=False, immediate=True)

    def _fill_side(
        self, exchange: Exchange, side: str, frame: int | None, replacement: Any, desk_end: str
    ) -> None:
        """Show the message of one side, or a text about its absence.

        `replacement` is the request that replaced the message because a person changed it, or None.
        `desk_end` says how the desk ended the request before its server received it, or is empty.
        """
        value: Any = "no response" if desk_end else _missing_text(exchange, side)
        problem = ""
        if replacement is not None:
            value = replacement
        elif frame is not None:
            schema = self._schema_of(exchange) if side == "request" else None
            value, problem = message(self.index, exchange, frame, schema)
        if desk_end and not problem:
            problem = f"{desk_end} at the desk: the server never saw this request"
        box = self.query_one(f".{side}", Vertical)
        box.set_class(replacement is not None, "-changed")
        box.border_title = side if replacement is None else f"{side}, changed at the desk: see held"
        box.set_class(bool(problem), "-problem")
        box.query_one(".problem", Static).update(Content(one_line(problem)))
        box.query_one(JsonTree).load(with_important_first(value), folded=FOLDED_MEMBERS, begin=1)
        box.display = frame is not None or exchange.kind is ExchangeKind.REQUEST

    def _fill_steps(self, exchange: Exchange) -> None:
        tree = self.query_one("#steps JsonTree", JsonTree)
        tree.load(steps(self.index, exchange, self._schema_of(exchange)), folded=(MESSAGES,))
        if self._step_to_select is not None:
            title = step_title(self.index, exchange, self._step_to_select)
            if title is not None:
                tree.reveal((title,))

    def _fill_held(self, exchange: Exchange) -> None:
        self.query_one("#held JsonTree", JsonTree).load(held_tree(self.index, exchange))

    def _fill_http(self, exchange: Exchange) -> None:
        text = http_text(self.index, exchange, self._schema_of(exchange))
        self.query_one("#http Static", Static).update(text)

    def _fill_events(self, exchange: Exchange) -> None:
        events: dict[str, Any] = {}
        for frame in exchange.notifications[-_MAX_EVENTS:]:
            stored_frame = self.index.frame(frame)
            value = message(self.index, exchange, frame).value
            time_text = duration(stored_frame.time - exchange.started) if stored_frame else "?"
            members = value if isinstance(value, dict) else {}
            events[f"+{time_text} {members.get('method', '')} ({frame})"] = members.get("params", value)
        tree = self.query_one("#events JsonTree", JsonTree)
        tree.load(events or "no progress notifications and no log messages")

    def _show_facts(self, exchange: Exchange) -> None:
        """Show the title, the facts, and the tabs with their counts."""
        return_hint = "  z: back to the list" if self.is_maximized else ""
        self._show_heading(_title(exchange, time()) + Content.styled(return_hint, "$text-muted"))
        info = self.index.connections.get(exchange.connection)
        groups = [list(_facts(exchange, info.transport if info else "", time()))]
        groups.append(phases_in_words(self.index, exchange, time()))
        if exchange.status is Status.PENDING and (line := self._waiting_line(exchange)):
            groups.insert(0 if self.has_class("-short") else 2, [f"at {one_line(line)}"])
        (compared_exchange, _), limit_texts = self._exceeded_limits
        problems = limit_texts if compared_exchange == exchange.number else []
        groups += [[f"! {one_line(text)}"] for text in (*problems, *self._remarks_on(exchange))]
        if self._rules is not None and (rule := self._rules.rule_of(exchange)) is not None:
            groups.append([f"coloured by line {rule.number} of the rules: {one_line(rule.filter, 80)}"])
        if self.has_class("-short"):  # one group, because each group begins a line
            groups = [[fact.removeprefix("· ") for group in groups for fact in group]]
        lines = (wrap_items(group, self.size.width - 2) for group in groups if group)
        self.query_one(".facts", Static).update(Content("\n".join(lines)))
        counts = {
            "steps": f" {len(exchange.parts) + 1}",
            "events": f" {len(exchange.notifications)}" if exchange.notifications else "",
        }
        strip = self.query_one(TabStrip)
        strip.show([f"{tab}{counts.get(tab, '')}" for tab in self._tabs])
        strip.current = self._tabs.index(self._tab)

    def _remarks_on(self, exchange: Exchange) -> list[str]:
        """Return the remarks on the messages of an exchange. They are read again after new messages."""
        key = (exchange.number, exchange.response, len(self.index.remarks), self.index.reveals_secrets)
        if self._remark_cache[0] != key:
            texts = [remark.text for remark in remarks(self.index, exchange)]
            if (omitted_count := len(texts) - _MAX_REMARKS) > 0:
                texts[_MAX_REMARKS:] = [f"{omitted_count} more remarks"]
            self._remark_cache = key, texts
        return self._remark_cache[1]

    def _show_heading(self, heading: Content) -> None:
        """Show the title, also as the title of the border if the details are below the list."""
        if heading != self._heading:
            self._heading = heading
            self.query_one(".title", Static).update(heading, layout=False)
            self.border_title = heading

    def _waiting_line(self, exchange: Exchange) -> str:
        """Return the code line at which an exchange is waiting. It is looked up at most twice a second."""
        lookup_time, number, line = self._waiting_line_lookup
        if number != exchange.number or time() - lookup_time > LOOKUP_INTERVAL_S:
            line = self._waiting_line_of(exchange)
            self._waiting_line_lookup = time(), exchange.number, line
        return line


def _missing_text(exchange: Exchange, side: str) -> str:
    """Return the text for a missing message."""
    if side == "request":
        return "no request with this id was seen"
    return "no response yet" if exchange.status is Status.PENDING else f"no response: {exchange.status}"


def _title(exchange: Exchange, now: float) -> Content:
    """Return method, name, status and duration of an exchange."""
    name = one_line(f"{mask_text(exchange.name)} ")
    look = EXCHANGES[exchange.status]
    status = _STATUS_EXPLANATIONS.get(exchange.status, look.word)
    parts = [
        Content.styled(one_line(f"{exchange.method or exchange.kind.value} "), "bold"),
        Content.styled(name, "bold $text-primary") if exchange.name else Content(""),
    ]
    if exchange.status is not Status.SENT:
        parts += (Content.styled(f" {status} ", f"{TEXT_STYLES[look.tone]} reverse"), Content(" "))
    if exchange.kind is ExchangeKind.REQUEST:
        parts.append(Content(duration(max(0.0, exchange.elapsed(now)))))
    if exchange.is_slow:
        parts.append(Content.styled("  ▲ slow for its kind", "$text-warning"))
    return Content("").join(parts)


def _facts(exchange: Exchange, transport: str, now: float) -> Iterator[str]:
    """Yield peer, server, id, start, size, revision, transport and operation, as far as they are known."""
    arrow = "→" if exchange.direction is Direction.IN else "←"
    core_text = f" on {exchange.core}" if exchange.core else ""
    facts = [
        f"{exchange.peer} {arrow} {exchange.server or 'server'}{core_text}",
        "" if exchange.id is None else f"#{exchange.id}",
        clock(exchange.started),
        size_text(exchange.size),
        with_era(exchange.revision),
        transport,
        operation_words(exchange, now),
    ]
    return (one_line(fact) for fact in facts if fact)
