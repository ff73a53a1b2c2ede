"""Who is connected: one line a peer, the selected one in full, and how to connect one where there is none."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol, cast, runtime_checkable

from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.widgets import Static

from mcpdesk.link.link import Link
from mcpdesk.link.values import ClientView, CoreView, ServerView
from mcpdesk.recorder.query import quoted
from mcpdesk.tui.actions import bindings_for
from mcpdesk.tui.render.client_text import client_text, title_of
from mcpdesk.tui.render.safe_text import one_line, shown
from mcpdesk.tui.widgets.client_list import COLUMNS, NUMBERS, ClientList, cells
from mcpdesk.tui.widgets.menu import Choice, Menu

if TYPE_CHECKING:
    from mcpdesk.tui.app import DeskApp

ROOMY = 26
"""Rows from which on the lesson leaves room for a detail."""
_FIELDS = {"last seen": "seen", "since": "opened", "p50": "p50_s", "p95": "p95_s", "era": "revision"}
"""Columns that are called otherwise where they come from."""


@runtime_checkable
class Filterable(Protocol):
    """A pane that can be narrowed from outside."""

    def set_filter(self, query: str) -> None:
        """Show only what matches."""


class ClientsPane(Vertical):
    """The list, the selected client in full, and what teaches how to connect."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_for("clients")
    DEFAULT_CSS = """
    ClientsPane { padding: 1 1 0 1; }
    ClientsPane .heads { height: 1; color: $text-muted; text-style: bold; text-wrap: nowrap; }
    ClientsPane .teach {
        display: none; height: auto; margin: 1 0; padding: 1 2; border: round $border-blurred;
        border-title-color: $text-primary;
    }
    ClientsPane.-alone .teach { display: block; }
    ClientsPane > ClientList { max-height: 50%; }
    ClientsPane > .detail {
        height: 1fr; margin-top: 1; padding: 0 1; scrollbar-size-vertical: 1;
        border-top: solid $border-blurred; border-title-color: $text-muted; border-title-style: bold;
    }
    ClientsPane.-alone > .detail { height: auto; max-height: 75%; }
    ClientsPane > .detail:focus { border-top: solid $border; border-title-color: $text-primary; }
    ClientsPane > .detail > Static { height: auto; }
    """
    app: DeskApp

    def __init__(self, link: Link) -> None:
        super().__init__()
        self.link = link
        self._order = 0
        self._taught: tuple[ServerView, int] | None = None

    def compose(self) -> ComposeResult:
        """Heads, rows, the detail, and the lesson."""
        yield Static(classes="heads", markup=False)
        yield ClientList()
        with VerticalScroll(classes="detail"):
            yield Static(markup=False)
        lesson = Static(classes="teach", markup=False)
        lesson.border_title = "Nobody is connected yet"
        yield lesson

    def look(self, view: CoreView) -> None:
        """Show who is there now."""
        alone = all(client.transport == "memory" for client in view.clients)
        self.set_class(alone, "-alone")
        if self.listing.show(self._sorted(view.clients), time.time()):
            self._show_heads()
        self._show_detail()
        server = next((one for one in view.servers if one.name == self.app.server), None)
        width = self.query_one(".teach").content_size.width
        if alone and server is not None and (server, width) != self._taught:
            self._taught = server, width
            self._teach(server, view.api_key, width)

    @property
    def listing(self) -> ClientList:
        """The rows."""
        return self.query_one(ClientList)

    def action_sort(self) -> None:
        """Sort by the next column."""
        self._order = (self._order + 1) % len(COLUMNS)
        self.listing.rows = []
        self.look(self.link.view())

    def on_resize(self) -> None:
        """Other columns may fit."""
        self._show_heads()

    @work
    async def action_copy(self) -> None:
        """Copy the line, the name, or everything that is known of the client."""
        client = self.listing.selected
        if client is None:
            return
        line = "  ".join(cells(client, time.time()))
        choices = [
            Choice("name", client.name, client.name, "n"),
            Choice("line", line, line, "l"),
            Choice("details", f"{title_of(client)}\n{self._detail(client)}", "everything below", "d"),
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
            pane.set_filter(f"peer:{quoted(client.name)}")

    @work
    async def action_disconnect(self) -> None:
        """End the session or the connection of the selected client, once the person says so again."""
        client = self.listing.selected
        if client is None:
            return
        if client.left is not None:
            self.notify(f"{one_line(client.name, 40)} has left already.", markup=False)
            return
        if client.transport == "memory":
            self.notify("This is the desk itself; it stays.", markup=False)
            return
        name = one_line(client.name, 40)
        choices = [
            Choice("disconnect", True, "its calls are cancelled; it may connect again", "d"),
            Choice("keep", False, key="k"),
        ]
        if await self.app.push_screen_wait(Menu(f"Disconnect {name}?", choices)):
            self.link.disconnect(client.connection)
            self.notify(f"{name} is disconnected.", markup=False)

    @on(ClientList.Moved)
    def _moved(self) -> None:
        self.query_one(".detail").scroll_home(animate=False)
        self._show_detail()

    def _show_heads(self) -> None:
        heads = self.listing.heads(self._order, self.listing.size.width or self.size.width)
        self.query_one(".heads", Static).update(Content(heads))

    def _show_detail(self) -> None:
        client, pane = self.listing.selected, self.query_one(".detail")
        text = self._detail(client, pane.size.width) if client is not None else Content("")
        has_room = self.size.height >= ROOMY or not self.has_class("-alone")
        pane.display = bool(text.plain) and has_room
        if client is not None and pane.display:
            pane.border_title = Content(title_of(client))
            pane.query_one(Static).update(text)

    def _detail(self, client: ClientView, width: int = 0) -> Content:
        """Everything that is known of it; empty when it is gone."""
        detail = self.link.client(client.connection)
        return Content("") if detail is None else client_text(client, detail, time.time(), width)

    def _sorted(self, clients: Sequence[ClientView]) -> list[ClientView]:
        """In the order of the chosen column; those who left come last."""
        column = COLUMNS[self._order]
        field = _FIELDS.get(column, column)
        if column in NUMBERS:
            most = float("inf") if column == "last seen" else 0.0
            found = sorted(clients, key=lambda one: cast(float, getattr(one, field) or most), reverse=True)
        else:
            found = sorted(clients, key=lambda one: str(getattr(one, field)))
        return sorted(found, key=lambda one: one.left is not None)

    def _teach(self, server: ServerView, key: str, width: int) -> None:
        lessons = (
            ("Claude Code", self.link.client_config(server.name, "claude-code")),
            ("Any client that starts its servers itself", f"mcpdesk stdio {server.folder}"),
            ("By hand", self.link.client_config(server.name, "curl")),
        )
        lines = []
        for title, command in lessons:
            lines += [Content.styled(title, "bold"), *map(Content, shown(command, key, width)), Content("")]
        lines.append(
            Content.assemble(
                ("U", "bold $footer-key-foreground"), " copies what a client needs, with the key."
            )
        )
        self.query_one(".teach", Static).update(Content("\n").join(lines))
