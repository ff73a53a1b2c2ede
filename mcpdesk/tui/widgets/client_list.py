"""The connected clients as rows. Columns that do not fit give way; the detail has all of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from textual import events
from textual.message import Message

from mcpdesk.link.values import ClientView, Presence
from mcpdesk.tui.render.amounts import since
from mcpdesk.tui.render.client_text import PRESENCES, era, pace, seen_text
from mcpdesk.tui.render.safe_text import one_line
from mcpdesk.tui.widgets.line_list import LineList, Span

COLUMNS = (
    "name", "last seen", "server", "transport", "revision", "era", "since", "calls", "errors", "p50", "p95",
    "tools", "caller",
)  # fmt: skip
NUMBERS = frozenset(("last seen", "since", "calls", "errors", "p50", "p95"))
"""Sorted from the largest."""
GIVING_WAY = ("era", "server", "caller", "tools", "p50", "transport", "p95", "revision", "since")
"""Columns that go where there is little room, the first one first."""
GAP = 2
SEEN_STYLES = {
    PRESENCES[Presence.CONNECTED]: "lines--good",
    PRESENCES[Presence.QUIET]: "lines--warn",
    PRESENCES[Presence.LEFT]: "lines--muted",
}
_MUTED = frozenset(("server", "caller", "transport", "era", "since"))


class ClientList(LineList):
    """One row a client, in columns as wide as their contents."""

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
        """Take new clients; True when anything visible changed. The selected client stays selected."""
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
        """Whether anybody proved to be somebody."""
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

    def on_click(self, event: events.Click) -> None:
        """One click selects, two open."""
        event.prevent_default()
        if (index := event.style.meta.get("row")) is not None:
            self.cursor = index
            if event.chain > 1:
                self.row_chosen(index)


def aligned(cell: str, column: str, width: int) -> str:
    """A cell of a column, with the gap that follows it."""
    pad = " " * max(0, width - cell_len(cell))
    return (pad + cell if column in NUMBERS and column != "last seen" else cell + pad) + " " * GAP


def cells(client: ClientView, now: float) -> tuple[str, ...]:
    """What its row shows, a text for every column."""
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
        pace(client.p50_s),
        pace(client.p95_s),
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
