"""Every message as it passes: the list, its filter, and the details of the chosen exchange."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from time import strftime, time
from typing import TYPE_CHECKING, Any, ClassVar

from rich.cells import cell_len
from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Container, Vertical
from textual.content import Content
from textual.widgets import Input, Static

from mcpdesk.link.link import Link
from mcpdesk.link.values import CoreView, ItemKind
from mcpdesk.recorder import export
from mcpdesk.recorder.exchange import Exchange
from mcpdesk.recorder.masking import MASK
from mcpdesk.recorder.query import EVERYTHING, QueryError, parse
from mcpdesk.tui.actions import bindings_for
from mcpdesk.tui.render.text import clean, one_line
from mcpdesk.tui.render.traffic_line import Cell
from mcpdesk.tui.widgets.json_tree import JsonTree
from mcpdesk.tui.widgets.menu import Choice, Menu
from mcpdesk.tui.widgets.traffic_detail import TrafficDetail
from mcpdesk.tui.widgets.traffic_list import TrafficList

if TYPE_CHECKING:
    from mcpdesk.tui.app import DeskApp

BESIDE = 110
"""Cells across from which the details stand beside the list, and stay open."""
_HINT = "filter: words · method: tool: peer: status:error kind: dir: id: >200ms >10kb since:5m · not or ( )"


class TrafficPane(Vertical):
    """Filter above, list and details, counts below."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_for("traffic")
    DEFAULT_CSS = """
    TrafficPane {
        & > Input { display: none; border: none; height: 1; padding: 0 1; background: $panel; }
        & > Input:focus { border: none; }
        &.-filtering > Input { display: block; }
        & > .wrong { display: none; height: auto; max-height: 3; color: $text-error; }
        &.-wrong > .wrong { display: block; }
        & > .panes { height: 1fr; layout: vertical; }
        & .panes > TrafficList { height: 1fr; padding: 0; }
        & .panes > TrafficDetail { display: none; height: 60%; border-top: solid $border-blurred; }
        &.-detail .panes > TrafficDetail { display: block; }
        &.-beside .panes { layout: horizontal; }
        &.-beside .panes > TrafficList { width: 3fr; height: 1fr; }
        &.-beside .panes > TrafficDetail {
            display: block; width: 2fr; height: 1fr; border-top: none; border-left: solid $border-blurred;
        }
        & > .status { height: 1; color: $text-muted; background: $surface; padding: 0 1; text-wrap: nowrap; }
    }
    """
    app: DeskApp

    def __init__(self, link: Link) -> None:
        super().__init__()
        self.link = link
        self._taught = ""
        self._said: tuple[object, ...] = ()

    def compose(self) -> ComposeResult:
        """Filter, what is wrong with it, list, details, status."""
        yield Input(placeholder=_HINT, compact=True, select_on_focus=False)
        yield Static(classes="wrong", markup=False)
        with Container(classes="panes"):
            yield TrafficList(self.link.traffic)
            yield TrafficDetail(self.link.traffic, self._schema_of)
        yield Static(classes="status", markup=False)

    @property
    def listing(self) -> TrafficList:
        """The list."""
        return self.query_one(TrafficList)

    @property
    def detail(self) -> TrafficDetail:
        """The details."""
        return self.query_one(TrafficDetail)

    def look(self, view: CoreView) -> None:
        """Show what came since; cheap when nothing did."""
        listing = self.listing
        if not listing.view.lines:
            self._teach(view)
        listing.look()
        if self.detail.display:
            self.detail.look()
        self._count(view)

    def set_filter(self, query: str) -> None:
        """Show only what matches, as if it had been typed."""
        field = self.query_one(Input)
        field.value = query
        self.set_class(bool(query), "-filtering")

    def open_exchange(self, number: int) -> None:
        """Select an exchange and show its details, as if it had been opened in the list."""
        self.listing.select(number)
        self.listing.action_open()

    # Actions

    def action_filter(self) -> None:
        """Type a filter."""
        self.add_class("-filtering")
        self.query_one(Input).focus()

    def action_back(self) -> None:
        """Esc: from the filter or the details to the list, then close them."""
        if self.query_one(Input).has_focus:
            self._drop_filter()
        elif self.detail.has_focus_within:
            self.listing.focus()
        elif self.has_class("-detail") and not self.has_class("-beside"):
            self.remove_class("-detail")
        else:
            self._drop_filter()

    @work
    async def action_copy(self) -> None:
        """Copy the exchange as text, JSON or curl."""
        chosen = self._chosen()
        if chosen is None:
            return
        kinds = [
            Choice("text", "text", "messages with a heading", "t"),
            Choice("JSON", "JSON", "everything known about it", "j"),
            Choice("curl", "curl", "its request, to run again", "c"),
        ]
        kind = await self.app.push_screen_wait(Menu("Copy exchange", kinds))
        if kind is not None:
            self.app.copy(self._as(kind, chosen), f"exchange {chosen} as {kind}")

    @work
    async def action_export(self) -> None:
        """Write the shown or marked exchanges to a file."""
        shown, marked = self._shown(), sorted(self.listing.marks)
        choices = [
            Choice(f"{len(shown):,} shown, JSON Lines", (shown, "jsonl"), "", "j"),
            Choice(f"{len(shown):,} shown, Markdown report", (shown, "md"), "", "m"),
        ]
        if marked:
            choices += [
                Choice(f"{len(marked)} marked, JSON Lines", (marked, "jsonl"), "", "J"),
                Choice(f"{len(marked)} marked, Markdown report", (marked, "md"), "", "M"),
            ]
        chosen = await self.app.push_screen_wait(Menu("Export, secrets masked", choices))
        if chosen is not None:
            self._write(*chosen)

    @work(thread=True, exclusive=True, group="traffic-export")
    def _write(self, numbers: Sequence[int], kind: str) -> None:
        """Write a file into the working folder, away from the screen's thread."""
        path = Path.cwd() / f"mcpdesk-{strftime('%Y%m%d-%H%M%S')}.{kind}"
        index = self.link.traffic
        try:
            with path.open("xb") as file:
                write = export.report if kind == "md" else export.json_lines
                file.writelines(write(index, numbers))
        except OSError as error:
            said, severity = f"Not exported: {error.strerror} ({path})", "error"
        else:
            said, severity = f"{len(numbers):,} exchanges written to {path}", "information"
        self.app.call_from_thread(self.notify, said, severity=severity, markup=False)

    # What happens in the parts

    @on(Input.Changed)
    def filter_typed(self, event: Input.Changed) -> None:
        """Filter while typing; while the filter is wrong, the last right one holds."""
        try:
            node = parse(event.value, time())
        except QueryError as error:
            before = cell_len(event.value[: error.position])
            wrong = f"{' ' * min(before, max(0, self.size.width - 20))}↑ {error.message}"
            self.query_one(".wrong", Static).update(Content(clean(wrong)))
            self.add_class("-wrong")
            return
        self.remove_class("-wrong")
        if node != self.listing.node:
            self.listing.filter(node)

    @on(Input.Submitted)
    def filter_done(self) -> None:
        """Enter leads back to the list; an empty filter goes away."""
        self.set_class(bool(self.query_one(Input).value), "-filtering")
        self.listing.focus()

    @on(TrafficList.Picked)
    def picked(self, event: TrafficList.Picked) -> None:
        """Show the details of the line where they are open."""
        if self.detail.display:
            self.detail.show(event.exchange)

    @on(TrafficList.Opened)
    def opened(self, event: TrafficList.Opened) -> None:
        """Open the details and go into them where they were open already."""
        shown = self.detail.shown
        was_open = bool(self.detail.display) and shown is not None and shown.number == event.exchange
        self.add_class("-detail")
        self.detail.show(event.exchange)
        if was_open:
            self.detail.focus_first()
        self.call_after_refresh(self.listing.on_resize)

    @on(TrafficList.Shifted)
    def shifted(self) -> None:
        """Say at once that following or pausing changed."""
        self._count(self.link.view())

    @on(JsonTree.CopyAsked)
    def copy_asked(self, event: JsonTree.CopyAsked) -> None:
        """A value of a message is wanted."""
        event.stop()
        self.app.copy(event.text, event.what)

    def on_resize(self, event: events.Resize) -> None:
        """Put the details beside the list where there is room."""
        beside = event.size.width >= BESIDE
        self.set_class(beside, "-beside")
        self.detail.set_class(beside, "-beside")

    # The rest

    def _drop_filter(self) -> None:
        self.query_one(Input).value = ""
        self.remove_class("-filtering", "-wrong")
        self.listing.focus()

    def _chosen(self) -> int | None:
        """The exchange the details show, else the selected one."""
        if self.detail.has_focus_within and self.detail.shown is not None:
            return self.detail.shown.number
        return self.listing.selected

    def _shown(self) -> list[int]:
        """The exchanges the filter lets pass, rising."""
        view = self.listing.view
        if not view.raw:
            return list(view.lines)
        return sorted({row for line in view.lines for row in self.link.traffic.rows_of(line)})

    def _as(self, kind: str, number: int) -> str:
        index = self.link.traffic
        if kind == "text":
            return export.as_text(index, number)
        if kind == "JSON":
            return export.as_json(index, number)
        view = self.link.view()
        server = index.exchange(number).server
        url = next((one.url for one in view.servers if one.name == server), "")
        return export.curl(index, number, url, {view.api_key_header: MASK} if view.api_key else {})

    def _schema_of(self, exchange: Exchange) -> Mapping[str, Any] | None:
        """The input schema of a called tool, where its server is hosted here."""
        if exchange.method != "tools/call" or exchange.server not in {
            one.name for one in self.link.view().servers
        }:
            return None
        items = self.link.catalogue(exchange.server).items
        found = (item for item in items if item.kind is ItemKind.TOOL and item.name == exchange.name)
        return next((item.definition.get("inputSchema") for item in found), None)

    def _teach(self, view: CoreView) -> None:
        """Say what to do while there is nothing to see."""
        if self.listing.view.total:
            lesson: list[Cell] = [("", ""), ("  Nothing passes the filter. Esc drops it.", "traffic--muted")]
        else:
            lesson = _lesson(self.link, view)
        if lesson != self.listing.lesson:
            self.listing.lesson = lesson
            self.listing.refresh()

    def _count(self, view: CoreView) -> None:
        """The status line: counts left, what is switched on at the right."""
        listing = self.listing
        lines = listing.view
        said = (
            len(lines.lines),
            lines.total,
            lines.raw,
            lines.held_back,
            round(lines.done, 1),
            listing.following,
            listing.paused,
            len(listing.marks),
            self.size.width,
            view.capture_path,
        )
        if said == self._said:
            return
        self._said = said
        left, right = _counts(listing), _mode(listing)
        gap = max(2, self.size.width - 2 - cell_len(left) - cell_len(right))
        self.query_one(".status", Static).update(
            Content.assemble(
                left, " " * gap, (right, "$text-warning" if listing.paused else "$text-primary")
            ),
            layout=False,
        )


def _counts(listing: TrafficList) -> str:
    view = listing.view
    shown = len(view.lines)
    noun = ("frame" if view.raw else "exchange") + ("" if view.total == 1 else "s")
    parts = [f"{shown:,} {noun}" if listing.node == EVERYTHING else f"{shown:,} of {view.total:,} {noun}"]
    if view.done < 1:
        parts.append(f"searching {view.done:.0%}")
    if listing.marks:
        parts.append(f"{len(listing.marks)} marked")
    if listing.index.gone:
        parts.append(f"{listing.index.gone:,} frames gone")
    return " · ".join(parts)


def _mode(listing: TrafficList) -> str:
    if listing.paused:
        return f"paused · {listing.view.held_back:,} waiting · p goes on"
    return "following" if listing.following else "f follows"


def _lesson(link: Link, view: CoreView) -> list[Cell]:
    """How to make something pass."""
    lines: list[Cell] = [("", ""), ("  No message has passed yet.", "traffic--name"), ("", "")]
    if not view.servers:
        return lines
    server = view.servers[0]
    lines.append(("  Call a tool on the workbench (1), or connect a client:", ""))
    for title, client in (("Claude Code", "claude-code"), ("by hand", "curl")):
        lines += [("", ""), (f"  {title}", "traffic--muted")]
        text = clean(link.client_config(server.name, client))
        lines += [(f"    {line}", "traffic--peer") for line in text.splitlines()]
    lines += [("", ""), ("  U copies the configuration other clients need.", "traffic--muted")]
    return [(one_line(text), style) for text, style in lines]
