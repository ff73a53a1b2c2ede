"""Clients: a list, details of the selected client, instructions to connect, and configurations to copy."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, cast

from textual import work
from textual.binding import BindingType
from textual.content import Content

from mcpdesk.byte_size import size_text
from mcpdesk.link.link import Link
from mcpdesk.link.state_looks import PRESENCES
from mcpdesk.link.values import (
    ClientDetail,
    ClientView,
    CoreView,
    Presence,
    RunningCall,
    ServerView,
    SessionView,
    ToolsSeen,
)
from mcpdesk.protocol.methods import CALLS, canonical
from mcpdesk.protocol.revisions import with_era
from mcpdesk.recorder.index.query import quoted
from mcpdesk.recorder.index.statistics import CallTally
from mcpdesk.recorder.record import ConnectionInfo
from mcpdesk.tui.actions import bindings_for, key_or_menu
from mcpdesk.tui.core_answers import ClientConfigs, answer_of
from mcpdesk.tui.following import TICK_S
from mcpdesk.tui.render.amounts import counted, duration, seconds_until_since_changes, since
from mcpdesk.tui.render.safe_text import clean, command_lines, one_line, shortened
from mcpdesk.tui.render.tones import LINE_STYLES
from mcpdesk.tui.screens.latest_calls import latest_lines
from mcpdesk.tui.widgets.column_section import MUTED, Column, ColumnSection
from mcpdesk.tui.widgets.menu import Choice, Menu, is_confirmed
from mcpdesk.tui.widgets.pane import Pane
from mcpdesk.tui.widgets.section import DIGITS, EmptySectionText

if TYPE_CHECKING:
    from mcpdesk.link.link import ClientTransport
    from mcpdesk.tui.screens.main_screen import MainScreen
    from mcpdesk.tui.traffic.traffic_pane import TrafficPane


_PRESENCE_ORDER = {presence: position for position, presence in enumerate(PRESENCES)}
RUNNING = "▸"
"""Glyph of a client with a running request."""
LABEL_CELLS = 15
"""Width in cells of the column of labels in the details of a client."""
_MAX_LINES = 12
"""Maximum number of lines for one label in the details of a client. Further lines are only counted."""


def era(revision: str) -> str:
    """Return the era of a protocol revision, `handshake` or `stateless`, or "" if the revision is unknown."""
    return with_era(revision).removeprefix(revision).strip()


UsedTools = Sequence[tuple[str, CallTally]]
"""Tools that a client called, with their call statistics."""


def client_text(
    client: ClientView, detail: ClientDetail, now: float, width: int = 0, used_tools: UsedTools = ()
) -> Content:
    """Return all details of one client as lines with labels.

    Lines are wrapped into `width` cells, or not wrapped if `width` is 0. `now` is Unix time in seconds.
    """
    lines: list[Content] = []
    for label, texts in _client_facts(client, detail, used_tools, now):
        for index, text in enumerate(_wrapped(texts, width - LABEL_CELLS)):
            label_text = label if index == 0 else ""
            lines.append(
                Content.assemble((f"{label_text:<{LABEL_CELLS}}", "$text-accent"), Content(one_line(text)))
            )
    return Content("\n").join(lines)


def title_of(client: ClientView) -> str:
    """Return the title of a client: `claude-code 2.1 · profiles over http · 2025-11-25 handshake`."""
    if not client.transport:  # this row is the sum of clients that are no longer stored
        return one_line(f"{client.name} · {client.server}")
    revision = with_era(client.revision) or "no message yet"
    return one_line(f"{client.name} · {client.server} over {client.transport} · {revision}")


def seen_text(client: ClientView, now: float) -> str:
    """Return `▸ 1 running`, `● now`, `● 14 s`, `○ quiet 14 min` or `✕ left 3 min`.

    `now` is Unix time in seconds.
    """
    if client.running:
        return f"{RUNNING} {client.running} running"
    presence = client.presence(now)
    look = PRESENCES[presence]
    word = "" if presence is Presence.CONNECTED else f"{look.word} "
    age_text = "now" if client.seen is None else since(now - client.seen)
    return f"{look.glyph} {word}{age_text}"


def capabilities_text(capabilities: dict[str, Any]) -> str:
    """Format capabilities: `elicitation (form, url) · sampling · roots`, or `none declared`."""
    parts = []
    for name, value in capabilities.items():
        inner = ", ".join(value) if isinstance(value, dict) else ""
        parts.append(f"{name} ({inner})" if inner else str(name))
    return " · ".join(parts) or "none declared"


def duration_or_dash(seconds: float | None) -> str:
    """Format a duration, or return a dash for None."""
    return "–" if seconds is None else duration(seconds)


def _client_facts(
    client: ClientView, detail: ClientDetail, used_tools: UsedTools, now: float
) -> Iterator[tuple[str, list[str]]]:
    if client.left is not None:
        yield "left", [f"{since(now - client.left)} ago"]
    if client.core:
        yield "replica", [client.core]
    if client.caller:
        yield "known as", [client.caller]
    if client.mode:
        yield "mode", [client.mode]
    yield "capabilities", [capabilities_text(detail.capabilities)]
    durations_text = ""
    if client.p50_s is not None:
        durations_text = f" · p50 {duration_or_dash(client.p50_s)} · p95 {duration_or_dash(client.p95_s)}"
    errors_text = f"{client.errors} error{'' if client.errors == 1 else 's'}"
    connections_text = f" · over {client.connections:,} connections" if client.connections > 1 else ""
    yield "calls", [f"{client.calls} · {errors_text}{durations_text}{connections_text}"]
    tools_prefix = "" if client.tools is ToolsSeen.NEVER else "last listed: "
    yield "tools", [f"{tools_prefix}{client.tools.value}"]
    if used_tools:
        usage_text = " · ".join(_limited([_usage_text(tool, tally) for tool, tally in used_tools]))
        if sum(tally.calls for _, tally in used_tools) > client.calls:
            usage_text += " (by all connections of this name)"
        yield "tools used", [usage_text]
    if detail.session is not None:
        yield "session", list(_session_lines(detail.session, detail.session_ttl_s, now - client.opened))
    else:
        yield "connected", [since((client.left or now) - client.opened)]
    subscriptions = ["changes of every list"] if detail.receives_list_changes else []
    if subscriptions or detail.subscribed:
        yield "notified of", _limited([*subscriptions, *detail.subscribed])
    if detail.listens:
        yield "listens to", _limited([", ".join(topics) or "nothing" for topics in detail.listens])
    if detail.running:
        yield "running", _limited([_running_text(call) for call in detail.running])
    if detail.parked:
        parked_texts = [
            f"{call.method} {call.name}: {', '.join(call.asks) or 'a retry'}" for call in detail.parked
        ]
        yield "waited for", _limited(parked_texts)


def _includes_calls_of(client: ClientView, info: ConnectionInfo) -> bool:
    """Return True if the row of a client includes the calls of a connection."""
    if info.number == client.connection:
        return True
    is_same = (info.server, info.peer, info.transport) == (client.server, client.name, client.transport)
    return client.connections > 1 and is_same and info.closed is not None


def _usage_text(tool: str, tally: CallTally) -> str:
    """Format a tool with its calls: `Bash 12 (2 failed, p95 1.2 s)`."""
    failure_texts = [f"{tally.errors:,} failed"] if tally.errors else []
    p95_s = tally.quantile(0.95)
    duration_texts = [f"p95 {duration(p95_s)}"] if p95_s is not None else []
    details = ", ".join([*failure_texts, *duration_texts])
    return f"{one_line(tool, 40)} {tally.calls:,}{details and f' ({details})'}"


def _wrapped(texts: list[str], width: int) -> list[str]:
    if width <= 0:
        return texts
    return [row.plain.rstrip() for text in texts for row in Content(one_line(text)).wrap(width)]


def _session_lines(session: SessionView, ttl_s: float, age_s: float) -> Iterator[str]:
    lifetime = "kept open by a call or a stream"
    if session.expires_in_s is not None:
        idle_time = since(max(0.0, ttl_s - session.expires_in_s))
        lifetime = f"last used {idle_time} ago, ends in {since(session.expires_in_s)} unless used"
    yield f"open for {since(age_s)} · {lifetime} · session_ttl_s {ttl_s:g}"
    stream_state = "GET stream open" if session.has_get_stream else "no GET stream"
    events_text = f"{session.kept_events} kept events, {size_text(session.kept_bytes)}"
    yield f"{stream_state} · {counted(session.streams, 'stream')} in all · {events_text}"


def _running_text(call: RunningCall) -> str:
    asks_text = f" · waits for {counted(call.asks, 'answer')} of the client" if call.asks else ""
    location = f" · at {call.where}" if call.where else ""
    return f"{call.method} {call.name} {duration(call.elapsed_s)}{asks_text}{location}"


def _limited(lines: list[str]) -> list[str]:
    if len(lines) <= _MAX_LINES:
        return lines
    return [*lines[:_MAX_LINES], f"and {len(lines) - _MAX_LINES} more"]


COLUMNS: tuple[Column[ClientView], ...] = (
    Column("name", lambda one, _: shortened(one.name, 60), lambda one: one.name, "lines--key", min_width=26),
    Column("replica", lambda one, _: one_line(one.core, 16), lambda one: one.core, MUTED),
    Column("last seen", seen_text, lambda one: -(one.seen or math.inf), is_descending=True),
    Column(
        "server",
        lambda one, _: one_line(f"{one.server} · {one.mode}" if one.mode else one.server, 24),
        lambda one: one.server,
        MUTED,
    ),
    Column("transport", lambda one, _: one.transport, lambda one: one.transport, MUTED),
    Column("revision", lambda one, _: one_line(one.revision, 12) or "…", lambda one: one.revision),
    Column("era", lambda one, _: era(one.revision), lambda one: one.revision, MUTED),
    Column(
        "connected",
        lambda one, now: since((one.left or now) - one.opened),
        lambda one: -one.opened,
        MUTED,
        is_number=True,
    ),
    Column("conns", lambda one, _: str(one.connections), lambda one: -one.connections, MUTED, is_number=True),
    Column("calls", lambda one, _: str(one.calls), lambda one: -one.calls, is_number=True),
    Column("errors", lambda one, _: str(one.errors), lambda one: -one.errors, is_number=True),
    Column("p50", lambda one, _: duration_or_dash(one.p50_s), lambda one: -(one.p50_s or 0), is_number=True),
    Column("p95", lambda one, _: duration_or_dash(one.p95_s), lambda one: -(one.p95_s or 0), is_number=True),
    Column("tools", lambda one, _: one.tools.value, lambda one: one.tools),
    Column(
        "caller", lambda one, _: one_line(one.caller, 60) or "–", lambda one: one.caller, MUTED, min_width=24
    ),
)
AGE_COLUMNS = ("last seen", "connected")
"""Columns whose text changes with time alone."""
HIDING_ORDER = (
    "era",
    "caller",
    "tools",
    "p50",
    "conns",
    "transport",
    "server",
    "revision",
    "connected",
    "p95",
)
"""Columns that may be hidden if space is short. They are hidden in this order."""
SEEN_STYLES = {
    RUNNING: "lines--warn",
    **{look.glyph: LINE_STYLES[look.tone] for look in PRESENCES.values()},
}
"""Glyph of a text that `seen_text` returns -> style of the text."""


def cells_of(client: ClientView, now: float) -> tuple[str, ...]:
    """Return the cells of a client's row, one for each column."""
    return tuple(column.text(client, now) for column in COLUMNS)


def _style(column: Column[ClientView], cell: str) -> str:
    if column.name == "last seen":
        return SEEN_STYLES[cell[0]]
    if column.name == "errors" and cell != "0":
        return "lines--bad"
    return "lines--warn" if cell == ToolsSeen.STALE and column.name == "tools" else column.style


class ClientsPane(ColumnSection[ClientView], Pane):
    """List of clients, and details of the selected one, or instructions to connect one."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_for("clients")
    DEFAULT_CSS = """
    ClientsPane { padding: 1 1 0 1; }
    ClientsPane.-alone > .lesson { display: block; }
    ClientsPane.-alone > .body { height: auto; layout: vertical; }
    ClientsPane.-alone > .body > LineList { width: 1fr; height: auto; }
    """
    empty_message = ("No client is connected yet", "")
    back_action = "clients.back"
    opens_details = False
    column_list_name = "clients"
    table = COLUMNS
    hiding_order = HIDING_ORDER

    def __init__(self, link: Link) -> None:
        super().__init__(link)
        self._clients: list[ClientView] = []
        self._has_servers = False
        """True if the desk has several servers."""
        self._configs = ClientConfigs(link)
        self._instructions = Content("")

    def show_view(self, view: CoreView) -> None:
        """Show the current clients."""
        self.update_data(view)
        self.update_clock(view, time.time())
        server = next((one for one in view.servers if one.name == self.app.server), None)
        instructions_widget = self.query_one(EmptySectionText)
        if instructions_widget.display and server is not None:
            text = self._connect_instructions(view, server, instructions_widget.content_size.width)
            if text != self._instructions:
                self._instructions = text
                instructions_widget.update(text)

    def version_of(self, view: CoreView) -> object:
        self._has_servers = len(view.servers) > 1
        now = time.time()
        self._clients = sorted(
            self.in_order(view.clients), key=lambda one: _PRESENCE_ORDER[one.presence(now)]
        )
        self.cells = {client.connection: cells_of(client, now) for client in self._clients}
        rows = [(one.connection, one.seen, self._cells_without_ages(one)) for one in self._clients]
        return self.order, self.is_reversed, rows

    def _cells_without_ages(self, client: ClientView) -> tuple[str, ...]:
        """Return the cells of a client with each digit of an age replaced by zero.

        Column widths depend only on the number of digits, so they need not be computed again when only the
        digits of an age change.
        """
        cells = zip(COLUMNS, self.cells[client.connection], strict=True)
        return tuple(DIGITS.sub("0", text) if column.name in AGE_COLUMNS else text for column, text in cells)

    def fetch(self) -> Sequence[ClientView]:
        """Return the clients: connected clients first, disconnected clients last."""
        return self._clients

    def load(self) -> None:
        is_desk_alone = all(client.transport == "memory" for client in self._clients)
        self.set_class(is_desk_alone, "-alone")
        super().load()

    def keys_of(self, row: ClientView) -> tuple[int]:
        return (row.connection,)

    def is_empty_column(self, column: Column[ClientView]) -> bool:
        if column.name == "server":
            return not self._has_servers and len({(one.server, one.mode) for one in self.rows}) < 2
        if column.name == "replica":
            return not any(client.core for client in self.rows)
        if column.name == "conns":
            return not any(client.connections > 1 for client in self.rows)
        return column.name == "caller" and not any(client.caller for client in self.rows)

    def style_of(self, column: Column[ClientView], cell: str) -> str:
        return _style(column, cell)

    def cut_cell(self, column: Column[ClientView], cell: str, width: int) -> str:
        """Return a cell cut to `width` cells, in the middle, because names often differ at the end."""
        return shortened(cell, width)

    def detail_of(self, row: ClientView) -> tuple[str, Content]:
        return title_of(row), self._with_calls(row, self._text_of(row, self.detail_cells))

    def _with_calls(self, client: ClientView, text: Content) -> Content:
        """Append the latest calls of the client, if there is space."""
        if not text:
            return text
        free_height = self.query_one(".detail").size.height - text.plain.count("\n") - 2
        lines = latest_lines(
            self.link.traffic,
            lambda info, method, _: canonical(method) in CALLS and _includes_calls_of(client, info),
            lambda call: call.name,
            self.detail_cells,
            free_height,
            time.time(),
        )
        return Content("\n").join([text, Content(""), *lines]) if lines else text

    def _text_of(self, client: ClientView, width: int = 0) -> Content:
        """Return all details of a client, or an empty text if the client no longer exists.

        If `width` is 0, lines are not wrapped.
        """
        detail = self.link.client(client.connection)
        if detail is None:
            return Content("")
        used_tools = self.link.traffic.statistics.tools_of(client.server, client.name)
        return client_text(client, detail, time.time(), width, used_tools)

    def copy_choices(self, row: ClientView) -> list[Choice]:
        line = "  ".join(filter(None, self.cells[row.connection]))
        details = f"{title_of(row)}\n{self._text_of(row)}"
        return [
            Choice("name", row.name, row.name, "n"),
            Choice("line", line, line, "l"),
            Choice("details", details, "everything below", "d"),
        ]

    def seconds_until_change(self, row: ClientView) -> float:
        if row.left is not None:
            return seconds_until_since_changes(self.now - row.left)
        if row.running or row.transport == "http":
            return TICK_S  # the duration of a call or the last use of the session changes
        last_seen = self.now if row.seen is None else row.seen
        return min(
            seconds_until_since_changes(self.now - row.opened),
            seconds_until_since_changes(self.now - last_seen),
        )

    def update_ages(self) -> None:
        super().update_ages()
        self.show_detail()

    def show_detail(self) -> None:
        """Show the details of the selected client, unless the instructions to connect need the space."""
        super().show_detail()
        if self.has_class("-alone"):
            self.query_one(".detail").add_class("-blank")

    @property
    def offers_details(self) -> bool:
        return super().offers_details and not self.has_class("-alone")

    def show_order(self) -> None:
        self.show_view(self.link.view())

    async def action_open(self) -> None:
        """Show only the messages of the selected client."""
        client = self.listing.selected
        if client is None:
            return
        await self.app.main.show_screen("traffic")
        cast("TrafficPane", self.app.main.pane).show_only(f"peer:{quoted(client.name)}")

    @work
    async def action_disconnect(self) -> None:
        """End the session or the connection of the selected client after a confirmation."""
        client = self.listing.selected
        if client is None:
            return
        name = one_line(client.name, 40)
        disconnect = Choice("disconnect", True, "its calls are cancelled; it may connect again")
        if client.left is not None:
            self.notify(f"{name} is already disconnected.", markup=False)
        elif client.transport == "memory":
            self.notify("This is the desk itself; it cannot be disconnected.", markup=False)
        elif await is_confirmed(self.app, f"Disconnect {name}?", disconnect, "keep"):
            self.link.disconnect(client.connection)
            self.notify(f"{name} was disconnected.", markup=False)

    def _connect_instructions(self, view: CoreView, server: ServerView, width: int) -> Content:
        if not server.location:
            return Content("\n".join(map(clean, server.problems)))
        target = server.location if server.upstream is None else f"-- {server.shown_location}"
        sections = [("Claude Code", self._configs.lines(view, server, "claude-code", width))]
        if server.is_started:
            command = command_lines(f"mcpdesk stdio {target}", view.api_key, width)
            sections.append(("Any client that starts its servers itself", command))
        if server.url or not server.is_started:
            sections.append(("By hand", self._configs.lines(view, server, "curl", width)))
        lines = []
        for title, section_lines in sections:
            lines += [Content.styled(title, "bold"), *map(Content, section_lines), Content("")]
        key_text = (key_or_menu("main.client_config"), "bold $footer-key-foreground")
        lines.append(Content.assemble(key_text, " copies what a client needs, with the key."))
        return Content("\n").join(lines)


class ConfigTarget(NamedTuple):
    """Client, and a transport with which it can be configured for a server."""

    name: str
    """Name of the client in the link's API."""
    over: ClientTransport
    """With `stdio` the client starts the server itself. With `http` it connects to the URL."""
    title: str
    recipient: str
    """File or program that receives the text."""


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
"""Choices of the menu. Clients that connect to the running server by URL come before clients that start the
server themselves."""


def targets_for(server: ServerView) -> list[ConfigTarget]:
    """Return the clients that can connect to a server.

    A client can use a URL only if the server listens on a port. Only curl can use a Unix socket.
    """
    has_http_url = server.url.startswith("http") or not server.is_started

    def is_possible(target: ConfigTarget) -> bool:
        if target.over == "stdio":
            return server.is_started
        return has_http_url or (target.name == "curl" and bool(server.url))

    return [target for target in CONFIG_TARGETS if is_possible(target)]


async def choose_client(main: MainScreen) -> None:
    """Ask for a client, and for a mode if the server has modes. Copy the client's configuration.

    A mode is a named selection of the server's tools.
    """
    server = main.server_view
    if server is None:
        return
    targets = enumerate(targets_for(server), 1)
    choices = [Choice(one.title, one, one.recipient, str(number)) for number, one in targets]
    chosen = await main.app.push_screen_wait(Menu(f"Connect a client to {server.name}", choices))
    if chosen is None:
        return
    needs_mode = bool(server.modes) and not server.mode
    mode = await _choose_mode(main, server) if needs_mode else ""
    if mode is None:
        return
    requested_config = main.link.client_config(server.name, chosen.name, mode=mode, over=chosen.over)
    if (text := await answer_of(main.app, requested_config, "configuration")) is None:
        return
    name = f"{chosen.title} in the mode {mode}" if mode else chosen.title
    main.desk.copy(text, f"the configuration for {name} · ! shows it")


async def _choose_mode(main: MainScreen, server: ServerView) -> str | None:
    """Ask for a mode. Return its name, "" for all tools, or None if the person cancels."""
    choices = [Choice("all tools", "", "without ?mode=", "0")]
    for number, mode in enumerate(server.modes, 1):
        hint = mode.description or ", ".join(mode.tools)
        choices.append(Choice(mode.name, mode.name, hint, str(number) if number < 10 else ""))
    chosen: str | None = await main.app.push_screen_wait(Menu("With which tools?", choices))
    return chosen
