"""Who is connected: one line a peer, and how to connect one where there is none."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Protocol, cast, runtime_checkable

from rich.cells import cell_len
from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from mcpdesk.link.link import Link
from mcpdesk.link.values import ClientView, CoreView, ServerView
from mcpdesk.tui.actions import bindings_for
from mcpdesk.tui.render.since import since
from mcpdesk.tui.render.text import clean, one_line
from mcpdesk.tui.widgets.line_list import LineList, Span
from mcpdesk.tui.widgets.menu import Choice, Menu

if TYPE_CHECKING:
    from mcpdesk.tui.app import DeskApp

COLUMNS = ("name", "server", "transport", "revision", "since", "calls", "errors")
NUMBERS = frozenset(("since", "calls", "errors"))
STATELESS_FROM = "2026"
"""Revisions from here on have no handshake."""


@runtime_checkable
class Filterable(Protocol):
    """A pane that can be narrowed from outside."""

    def set_filter(self, query: str) -> None:
        """Show only what matches."""


class ClientList(LineList):
    """One row a client, in columns as wide as their contents."""

    DEFAULT_CSS = """
    ClientList { height: auto; max-height: 1fr; min-height: 1; }
    """

    @dataclass
    class Opened(Message):
        """The client under the cursor was chosen."""

    def __init__(self) -> None:
        super().__init__()
        self.clients: tuple[ClientView, ...] = ()
        self.rows: list[tuple[str, ...]] = []
        self.widths: list[int] = [len(column) + 1 for column in COLUMNS]

    def show(self, clients: Sequence[ClientView], now: float) -> bool:
        """Take new clients; True when anything visible changed. The selected client stays selected."""
        rows = [_cells(client, now) for client in clients]
        if rows == self.rows:
            return False
        chosen = self.selected
        self.clients, self.rows = tuple(clients), rows
        self.widths = [
            max([len(column) + 1] + [cell_len(row[at]) for row in rows]) for at, column in enumerate(COLUMNS)
        ]
        self.rows_changed()
        same = [n for n, one in enumerate(clients) if chosen and one.connection == chosen.connection]
        self.cursor = same[0] if same else self.cursor
        self.refresh(layout=True)
        return True

    @property
    def selected(self) -> ClientView | None:
        """The client under the cursor."""
        return self.clients[self.cursor] if self.cursor < len(self.clients) else None

    @property
    def row_count(self) -> int:
        return len(self.rows)

    def get_content_height(self, *_: object) -> int:
        """As many lines as there are clients."""
        return max(1, len(self.rows))

    def spans(self, index: int, width: int) -> Iterable[Span]:
        yield " ", ""
        for at, cell in enumerate(self.rows[index]):
            style = (
                "lines--key" if at == 0 else "lines--bad" if COLUMNS[at] == "errors" and cell != "0" else ""
            )
            yield aligned(cell, COLUMNS[at], self.widths[at]), style or "lines--muted" * (at in (1, 2, 4))

    def row_chosen(self, index: int) -> None:
        self.post_message(self.Opened())

    def on_click(self, event: events.Click) -> None:
        """One click selects, two open."""
        event.prevent_default()
        if (index := event.style.meta.get("row")) is not None:
            self.cursor = index
            if event.chain > 1:
                self.row_chosen(index)


class ClientsPane(Vertical):
    """The list, and what teaches how to connect."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_for("clients")
    DEFAULT_CSS = """
    ClientsPane { padding: 1 1 0 1; }
    ClientsPane .heads { height: 1; color: $text-muted; text-style: bold; text-wrap: nowrap; }
    ClientsPane .teach {
        display: none; height: auto; margin: 1 0; padding: 1 2; border: round $border-blurred;
        border-title-color: $text-primary;
    }
    ClientsPane.-alone .teach { display: block; }
    """
    app: DeskApp

    def __init__(self, link: Link) -> None:
        super().__init__()
        self.link = link
        self._order = 0
        self._taught: ServerView | None = None

    def compose(self) -> ComposeResult:
        """Heads, rows, and the lesson."""
        yield Static(classes="heads", markup=False)
        yield ClientList()
        lesson = Static(classes="teach", markup=False)
        lesson.border_title = "Nobody is connected yet"
        yield lesson

    def look(self, view: CoreView) -> None:
        """Show who is there now."""
        if self.listing.show(self._sorted(view.clients), time.time()):
            heads = "".join(map(aligned, self._heads(), COLUMNS, self.listing.widths))
            self.query_one(".heads", Static).update(Content(" " + heads))
        alone = all(client.transport == "memory" for client in view.clients)
        self.set_class(alone, "-alone")
        shown = next((one for one in view.servers if one.name == self.app.server), None)
        if alone and shown is not None and shown != self._taught:
            self._taught = shown
            self._teach(shown, view.api_key)

    @property
    def listing(self) -> ClientList:
        """The rows."""
        return self.query_one(ClientList)

    def action_sort(self) -> None:
        """Sort by the next column."""
        self._order = (self._order + 1) % len(COLUMNS)
        self.listing.rows = []
        self.look(self.link.view())

    @work
    async def action_copy(self) -> None:
        """Copy the line, the name, or what to connect with."""
        client = self.listing.selected
        if client is None:
            return
        line = "  ".join(_cells(client, time.time()))
        choices = [
            Choice("name", client.name, client.name, "n"),
            Choice("line", line, line, "l"),
        ]
        if text := await self.app.push_screen_wait(Menu("Copy", choices)):
            self.app.copy(text, one_line(text, 40))

    @on(ClientList.Opened)
    async def action_open_traffic(self) -> None:
        """Show only the messages of the selected client."""
        client = self.listing.selected
        if client is None:
            return
        await self.app.main.show_screen("traffic")
        pane = self.app.main.pane
        if isinstance(pane, Filterable):
            pane.set_filter(f'peer:"{client.name}"')

    def _sorted(self, clients: Sequence[ClientView]) -> list[ClientView]:
        column = COLUMNS[self._order]
        if column in NUMBERS:
            field = "opened" if column == "since" else column
            return sorted(clients, key=lambda one: cast(float, getattr(one, field)), reverse=True)
        return sorted(clients, key=lambda one: str(getattr(one, column)))

    def _heads(self) -> list[str]:
        return [
            name + ("↓" if name in NUMBERS else "↑") * (at == self._order) for at, name in enumerate(COLUMNS)
        ]

    def _teach(self, server: ServerView, key: str) -> None:
        lessons = (
            ("Claude Code", self.link.client_config(server.name, "claude-code")),
            ("Any client that starts its servers itself", f"mcpdesk stdio {server.folder}"),
            ("By hand", self.link.client_config(server.name, "curl")),
        )
        lines = []
        for title, command in lessons:
            hidden = command.replace(key, "••••") if key else command
            lines += [Content.styled(title, "bold"), Content(clean(hidden)), Content("")]
        lines.append(
            Content.assemble(
                ("U", "bold $footer-key-foreground"), " copies what a client needs, with the key."
            )
        )
        self.query_one(".teach", Static).update(Content("\n").join(lines))


def aligned(cell: str, column: str, width: int) -> str:
    """A cell of a column, with the gap that follows it."""
    pad = " " * max(0, width - cell_len(cell))
    return (pad + cell if column in NUMBERS else cell + pad) + "  "


def era(revision: str) -> str:
    """`handshake` or `stateless`; empty while no revision is known."""
    return "" if not revision else "stateless" if revision >= STATELESS_FROM else "handshake"


def _cells(client: ClientView, now: float) -> tuple[str, ...]:
    return (
        one_line(client.name, 30),
        one_line(client.server, 20),
        client.transport,
        one_line(f"{client.revision} {era(client.revision)}".strip(), 24) or "…",
        since(now - client.opened),
        str(client.calls),
        str(client.errors),
    )
