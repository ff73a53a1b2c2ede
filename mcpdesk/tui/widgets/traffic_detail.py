"""One exchange in full: both messages as trees, what HTTP said, and what came along while it ran."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import time
from typing import Any, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import ContentSwitcher, Static

from mcpdesk.recorder.exchange import Exchange, Kind, Status
from mcpdesk.recorder.index import Index
from mcpdesk.recorder.legible import http, message
from mcpdesk.recorder.record import Direction
from mcpdesk.tui.actions import bindings_for
from mcpdesk.tui.render.amounts import duration
from mcpdesk.tui.render.content import size_text
from mcpdesk.tui.render.since import clock
from mcpdesk.tui.render.text import clean, one_line
from mcpdesk.tui.widgets.json_tree import JsonTree
from mcpdesk.tui.widgets.part_line import Part, PartLine

TABS = ("messages", "http", "events")
_STYLES = {
    Status.OK: "$text-success",
    Status.ERROR: "$text-error",
    Status.TOOL_ERROR: "$text-error",
    Status.MALFORMED: "$text-error",
    Status.PENDING: "$text-accent",
}
_WORDS = {Status.TOOL_ERROR: "tool error", Status.LATE: "late: nobody waited for it any more"}
_EVENTS = 500
"""Notifications of a call that are laid out; the newest."""


class TabLine(PartLine):
    """The tabs; a click on one posts `Picked`."""

    @dataclass
    class Picked(Message):
        """A tab was clicked."""

        tab: str

    def action_pick(self, tab: str) -> None:
        """What a click runs."""
        self.post_message(self.Picked(tab))


class TrafficDetail(Vertical):
    """Shows an exchange, or says how to choose one. `schema_of` gives the input schema of a called tool."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_for("traffic_detail")
    DEFAULT_CSS = """
    TrafficDetail {
        & > .title { height: 1; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
        & > .facts { height: auto; max-height: 2; padding: 0 1; color: $text-muted; }
        & > TabLine { height: 1; padding: 0 1; }
        & > ContentSwitcher { height: 1fr; }
        & .sides { layout: horizontal; height: 1fr; }
        &.-beside .sides { layout: vertical; }
        & .side { width: 1fr; height: 1fr; border-top: solid $border-blurred; padding: 0 1;
            border-title-color: $text-muted; border-subtitle-color: $text-warning; }
        & .side:focus-within { border-top: solid $border; border-title-color: $text-primary; }
        & .problem { display: none; height: auto; color: $text-warning; }
        & .side.-problem .problem { display: block; }
        & .scroll {
            height: 1fr; padding: 0 1; scrollbar-size-vertical: 1; border-top: solid $border-blurred;
        }
        & .scroll:focus { border-top: solid $border; }
        & .scroll Static { height: auto; }
        & .events { height: 1fr; padding: 0 1; border-top: solid $border-blurred; }
        & .nothing { display: none; height: 1fr; content-align: center middle; color: $text-muted; }
        &.-empty > * { display: none; }
        &.-empty > .nothing { display: block; }
    }
    """

    def __init__(
        self,
        index: Index,
        schema_of: Callable[[Exchange], Mapping[str, Any] | None] = lambda _: None,
        *,
        id: str | None = None,
    ) -> None:
        super().__init__(id=id, classes="-empty")
        self.index = index
        self.shown: Exchange | None = None
        self._schema_of = schema_of
        self._tab = TABS[0]

    def compose(self) -> ComposeResult:
        """Title, facts, tabs, and one page a tab."""
        yield Static("enter or a click on a line shows it here", classes="nothing", markup=False)
        yield Static(classes="title", markup=False)
        yield Static(classes="facts", markup=False)
        yield TabLine()
        with ContentSwitcher(initial=TABS[0]):
            with Container(id="messages", classes="sides"):
                for side in ("request", "response"):
                    with Vertical(classes=f"side {side}") as box:
                        box.border_title = side
                        yield Static(classes="problem", markup=False)
                        yield JsonTree()
            with VerticalScroll(id="http", classes="scroll"):
                yield Static(markup=False)
            with Vertical(id="events", classes="events"):
                yield JsonTree()

    def show(self, number: int | None) -> None:
        """Show another exchange, or none."""
        if number is None:
            self.shown = None
            self.add_class("-empty")
            return
        if self.shown is None or self.shown.number != number:
            self.shown = None
            self._load(self.index.exchange(number))

    def look(self) -> None:
        """Take up what changed since: the response, more notifications, the running clock."""
        if self.shown is None:
            return
        fresh = self.index.exchange(self.shown.number)
        if fresh != self.shown:
            self._load(fresh)
        elif fresh.ended is None:
            self._describe(fresh)

    def action_show_tab(self, by: int) -> None:
        """Go to another tab."""
        self._show_tab(TABS[(TABS.index(self._tab) + by) % len(TABS)])

    @on(TabLine.Picked)
    def tab_picked(self, event: TabLine.Picked) -> None:
        """A tab was clicked."""
        event.stop()
        self._show_tab(event.tab)

    def focus_first(self) -> None:
        """Put the focus on what the tab shows."""
        page = self.query_one(ContentSwitcher).visible_content
        if page is not None:
            target = next((child for child in page.walk_children(Widget) if child.focusable), page)
            self.screen.set_focus(target if target.focusable else None)

    def _show_tab(self, tab: str) -> None:
        self._tab = tab
        had_focus = self.has_focus_within
        self.query_one(ContentSwitcher).current = tab
        if self.shown is not None:
            self._describe(self.shown)
        if had_focus:
            self.call_after_refresh(self.focus_first)

    def _load(self, exchange: Exchange) -> None:
        """Fill in what is new of an exchange; trees that show the same frame stay as they are."""
        before = self.shown
        self.shown = exchange
        self.remove_class("-empty")
        for side in ("request", "response"):
            frame = getattr(exchange, side)
            if before is None or getattr(before, side) != frame:
                self._load_side(exchange, side, frame)
        if before is None or before.notifications != exchange.notifications:
            self._load_events(exchange)
        self._load_http(exchange)
        self._describe(exchange)

    def _load_side(self, exchange: Exchange, side: str, frame: int | None) -> None:
        box = self.query_one(f".{side}", Vertical)
        value, problem = _awaited(exchange, side), ""
        if frame is not None:
            schema = self._schema_of(exchange) if side == "request" else None
            value, problem = message(self.index, exchange, frame, schema)
        box.set_class(bool(problem), "-problem")
        box.query_one(".problem", Static).update(Content(one_line(problem)))
        box.query_one(JsonTree).load(value)
        box.display = frame is not None or exchange.kind is Kind.REQUEST

    def _load_events(self, exchange: Exchange) -> None:
        events = {}
        for frame in exchange.notifications[-_EVENTS:]:
            kept = self.index.frame(frame)
            value = message(self.index, exchange, frame).value
            after = duration(kept.time - exchange.started) if kept else "?"
            method = value.get("method", "") if isinstance(value, dict) else ""
            params = value.get("params", value) if isinstance(value, dict) else value
            events[f"+{after} {method} ({frame})"] = params
        self.query_one("#events JsonTree", JsonTree).load(
            events or "no progress and no log messages came with it"
        )

    def _load_http(self, exchange: Exchange) -> None:
        blocks = []
        for frame in (exchange.request, exchange.response):
            said = None if frame is None else http(self.index, frame)
            if said is not None:
                lines = [Content.styled(clean(said[0]), "bold")]
                lines += [_header(name, value) for name, value in said[1]]
                blocks.append(Content("\n").join(lines))
        missing = Content("This did not pass over HTTP.")
        self.query_one("#http Static", Static).update(Content("\n\n").join(blocks) if blocks else missing)

    def _describe(self, exchange: Exchange) -> None:
        self.query_one(".title", Static).update(_title(exchange, time()), layout=False)
        self.query_one(".facts", Static).update(Content(_facts(exchange)))
        counts = {"events": f" {len(exchange.notifications)}" if exchange.notifications else ""}
        parts = []
        for tab in TABS:
            style = "bold underline $text-primary" if tab == self._tab else "$text-muted"
            text = Content.styled(f"{tab}{counts.get(tab, '')}", style)
            parts.append(Part(text, f"pick('{tab}')"))
            parts.append(Part(Content("   ")))
        self.query_one(TabLine).show(parts[:-1])


def _awaited(exchange: Exchange, side: str) -> str:
    """What stands where a message is missing."""
    if side == "request":
        return "no request with this id was seen"
    return "no response yet" if exchange.status is Status.PENDING else f"no response: {exchange.status}"


def _title(exchange: Exchange, now: float) -> Content:
    identifier = "" if exchange.id is None else f"#{exchange.id}  "
    status = _WORDS.get(exchange.status, exchange.status.value)
    parts = [
        Content.styled(one_line(f"{exchange.method or exchange.kind.value} "), "bold"),
        Content.styled(one_line(f"{exchange.name} "), "bold $text-primary") if exchange.name else Content(""),
        Content.styled(one_line(identifier), "$text-muted"),
    ]
    if exchange.status is not Status.SENT:
        parts.append(Content.styled(f"{status} ", _STYLES.get(exchange.status, "$text-warning")))
    if exchange.kind is Kind.REQUEST:
        parts.append(Content(f"{duration(max(0.0, exchange.elapsed(now)))}  "))
    if exchange.is_slow:
        parts.append(Content.styled("▲ slow for its kind", "$text-warning"))
    return Content("").join(parts)


def _facts(exchange: Exchange) -> str:
    arrow = "→" if exchange.direction is Direction.IN else "←"
    facts = [
        f"{exchange.peer} {arrow} {exchange.server or 'server'}",
        clock(exchange.started),
        size_text(exchange.size),
        exchange.revision,
    ]
    return " · ".join(one_line(fact) for fact in facts if fact)


def _header(name: str, value: str) -> Content:
    """One header; those the protocol itself reads stand out."""
    style = "$text-primary" if name.lower().startswith("mcp-") else "$text-muted"
    return Content.assemble((f"{one_line(name)}: ", style), one_line(value))
