"""The clients: one line each, the selected one in full, and how to connect one; configurations to copy."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple, Protocol, cast, runtime_checkable

from rich.cells import cell_len
from textual import on, work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.widgets import Static

from mcpdesk.link.link import Link
from mcpdesk.link.values import ClientView, CoreView, Presence, ServerView
from mcpdesk.recorder.index.query import quoted
from mcpdesk.tui.actions import bindings_for
from mcpdesk.tui.render.amounts import since
from mcpdesk.tui.render.client_text import PRESENCES, client_text, duration_or_dash, era, seen_text, title_of
from mcpdesk.tui.render.safe_text import one_line, shown_command
from mcpdesk.tui.widgets.line_list import LineList, Span
from mcpdesk.tui.widgets.menu import Choice, Menu

if TYPE_CHECKING:
    from mcpdesk.link.link import Over
    from mcpdesk.tui.app import DeskApp
    from mcpdesk.tui.screens.main_screen import MainScreen

COLUMNS = (
    "name", "last seen", "server", "transport", "revision", "era", "since", "calls", "errors", "p50", "p95",
    "tools", "caller",
)  # fmt: skip
NUMBERS = frozenset(("last seen", "since", "calls", "errors", "p50", "p95"))
"""Sorted from the largest."""
GIVING_WAY = ("era", "server", "caller", "tools", "p50", "transport", "p95", "revision", "since")
"""Columns that are left out where there is little room, the first one first."""
GAP = 2
SEEN_STYLES = {
    PRESENCES[Presence.CONNECTED]: "lines--good",
    PRESENCES[Presence.QUIET]: "lines--warn",
    PRESENCES[Presence.LEFT]: "lines--muted",
}
_MUTED = frozenset(("server", "caller", "transport", "era", "since"))


class ClientList(LineList):
    """One row a client, in columns as wide as their contents."""

    CLICKS_TO_CHOOSE = 2
    DEFAULT_CSS = """
    ClientList { height: auto; max-height: 1fr; min-height: 1; }
    """

    @dataclass
    class Opened(Message):
        """The client under the cursor was chosen."""

    @dataclass
    class Moved(Message):
        """Another client is under the cursor."""

    def __init__(self) -> None:
        super().__init__()
        self.clients: tuple[ClientView, ...] = ()
        self.rows: list[tuple[str, ...]] = []
        self.widths: list[int] = [len(column) + 1 for column in COLUMNS]

    def show(self, clients: Sequence[ClientView], now: float) -> bool:
        """Show these clients; True when anything visible changed. The selected client stays selected."""
        rows = [cells(client, now) for client in clients]
        if rows == self.rows:
            self.clients = tuple(clients)
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

    def watch_cursor(self) -> None:
        super().watch_cursor()
        self.post_message(self.Moved())

    def shown(self, width: int) -> list[int]:
        """Which columns fit into so many cells, by their places."""
        left = [at for at, column in enumerate(COLUMNS) if column != "caller" or self._has_callers]
        for name in GIVING_WAY:
            if 1 + sum(self.widths[at] + GAP for at in left) <= width:
                break
            left = [at for at in left if COLUMNS[at] != name]
        return left

    @property
    def _has_callers(self) -> bool:
        """Whether any client has authenticated as a caller."""
        return any(client.caller for client in self.clients)

    def heads(self, marked: int, width: int) -> str:
        """The line of heads; `marked` is the column it is sorted by."""
        titles = (
            name + ("↓" if name in NUMBERS else "↑") * (at == marked) for at, name in enumerate(COLUMNS)
        )
        found = list(titles)
        return " " + "".join(aligned(found[at], COLUMNS[at], self.widths[at]) for at in self.shown(width))

    def spans(self, index: int, width: int) -> Iterable[Span]:
        yield " ", ""
        for at in self.shown(width):
            yield (
                aligned(self.rows[index][at], COLUMNS[at], self.widths[at]),
                _style(COLUMNS[at], self.rows[index][at]),
            )

    def row_chosen(self, index: int) -> None:
        self.post_message(self.Opened())


def aligned(cell: str, column: str, width: int) -> str:
    """A cell of a column, with the gap that follows it."""
    pad = " " * max(0, width - cell_len(cell))
    return (pad + cell if column in NUMBERS and column != "last seen" else cell + pad) + " " * GAP


def cells(client: ClientView, now: float) -> tuple[str, ...]:
    """The texts of a client's row, one for every column."""
    return (
        one_line(client.name, 26),
        seen_text(client, now),
        one_line(f"{client.server} · {client.mode}" if client.mode else client.server, 24),
        client.transport,
        one_line(client.revision, 12) or "…",
        era(client.revision),
        since((client.left or now) - client.opened),
        str(client.calls),
        str(client.errors),
        duration_or_dash(client.p50_s),
        duration_or_dash(client.p95_s),
        client.tools.value,
        one_line(client.caller, 24) or "–",
    )


def _style(column: str, cell: str) -> str:
    if column == "name":
        return "lines--key"
    if column == "last seen":
        return SEEN_STYLES[cell[0]]
    if (column == "errors" and cell != "0") or cell == "stale":
        return "lines--warn" if column == "tools" else "lines--bad"
    return "lines--muted" if column in _MUTED else ""


ROOMY = 26
"""Rows from which on the lesson leaves room for a detail."""
_FIELDS = {"last seen": "seen", "since": "opened", "p50": "p50_s", "p95": "p95_s", "era": "revision"}
"""Columns whose field of `ClientView` has another name."""


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
        self._lesson_shown: tuple[ServerView, int] | None = None

    def compose(self) -> ComposeResult:
        """Heads, rows, the detail, and the lesson."""
        yield Static(classes="heads", markup=False)
        yield ClientList()
        with VerticalScroll(classes="detail"):
            yield Static(markup=False)
        lesson = Static(classes="teach", markup=False)
        lesson.border_title = "Nobody is connected yet"
        yield lesson

    def show_view(self, view: CoreView) -> None:
        """Show the clients there are now."""
        alone = all(client.transport == "memory" for client in view.clients)
        self.set_class(alone, "-alone")
        if self.listing.show(self._sorted(view.clients), time.time()):
            self._show_heads()
        self._show_detail()
        server = next((one for one in view.servers if one.name == self.app.server), None)
        width = self.query_one(".teach").content_size.width
        if alone and server is not None and (server, width) != self._lesson_shown:
            self._lesson_shown = server, width
            self._show_how_to_connect(server, view.api_key, width)

    @property
    def listing(self) -> ClientList:
        """The rows."""
        return self.query_one(ClientList)

    def action_sort(self) -> None:
        """Sort by the next column."""
        self._order = (self._order + 1) % len(COLUMNS)
        self.listing.rows = []
        self.show_view(self.link.view())

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

    def _show_how_to_connect(self, server: ServerView, key: str, width: int) -> None:
        lessons = (
            ("Claude Code", self.link.client_config(server.name, "claude-code")),
            ("Any client that starts its servers itself", f"mcpdesk stdio {server.folder}"),
            ("By hand", self.link.client_config(server.name, "curl")),
        )
        lines = []
        for title, command in lessons:
            shown = map(Content, shown_command(command, key, width))
            lines += [Content.styled(title, "bold"), *shown, Content("")]
        lines.append(
            Content.assemble(
                ("U", "bold $footer-key-foreground"), " copies what a client needs, with the key."
            )
        )
        self.query_one(".teach", Static).update(Content("\n").join(lines))


class ConfigTarget(NamedTuple):
    """A client, and one way to configure it for a server."""

    name: str
    """The name the link knows it by."""
    over: Over
    """`stdio`: it starts the server itself; `http`: it is given the URL."""
    title: str
    place: str
    """Where the text goes."""


CONFIG_TARGETS = (
    ConfigTarget("claude-code", "http", "Claude Code", "a command for the shell"),
    ConfigTarget("claude-desktop", "stdio", "Claude Desktop", "claude_desktop_config.json"),
    ConfigTarget("cursor", "http", "Cursor", ".cursor/mcp.json"),
    ConfigTarget("vscode", "http", "VS Code", ".vscode/mcp.json"),
    ConfigTarget("curl", "http", "curl", "one request by hand"),
    ConfigTarget("claude-code", "stdio", "Claude Code, starting it", "a command for the shell"),
    ConfigTarget("cursor", "stdio", "Cursor, starting it", ".cursor/mcp.json"),
    ConfigTarget("vscode", "stdio", "VS Code, starting it", ".vscode/mcp.json"),
)
"""First those that connect to the running server, then those that start or find one by a command."""


def targets_for(server: ServerView) -> list[ConfigTarget]:
    """The clients that can reach a server: a URL needs a listener, and only curl can use a Unix socket."""
    is_served = server.url.startswith("http")
    return [
        one
        for one in CONFIG_TARGETS
        if is_served or one.over == "stdio" or (one.name == "curl" and server.url)
    ]


async def choose_client(main: MainScreen) -> None:
    """Ask which client and, where there are modes, which tools; copy the configuration."""
    server = next((one for one in main.link.view().servers if one.name == main.server), None)
    if server is None:
        return
    choices = [Choice(one.title, one, one.place, str(at)) for at, one in enumerate(targets_for(server), 1)]
    chosen = await main.app.push_screen_wait(Menu(f"Connect a client to {server.name}", choices))
    mode = "" if chosen is None or server.mode or not server.modes else await _choose_mode(main, server)
    if chosen is None or mode is None:
        return
    text = main.link.client_config(server.name, chosen.name, mode=mode, over=chosen.over)
    what = f"{chosen.title} in the mode {mode}" if mode else chosen.title
    main.app.copy(text, f"the configuration for {what}")


async def _choose_mode(main: MainScreen, server: ServerView) -> str | None:
    """A mode, or nothing for all tools; None when nothing was chosen."""
    choices = [Choice("all tools", "", "without ?mode=", "0")]
    for at, mode in enumerate(server.modes, 1):
        hint = mode.description or ", ".join(mode.tools)
        choices.append(Choice(mode.name, mode.name, hint, str(at) if at < 10 else ""))
    chosen: str | None = await main.app.push_screen_wait(Menu("With which tools?", choices))
    return chosen
