"""Servers: one line for each server of the desk, and the page of the selected one."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar, cast

from textual.binding import BindingType
from textual.content import Content

from mcpdesk.link.link import Link
from mcpdesk.link.values import CoreView, LogLine
from mcpdesk.recorder.index.query import quoted
from mcpdesk.tui.actions import FEATURE_ACTIONS, bindings_for, check_up_hint, with_feature_actions
from mcpdesk.tui.render.amounts import clock, counted
from mcpdesk.tui.render.name_cuts import distinct_cuts
from mcpdesk.tui.render.safe_text import REASON_TAIL, clean, one_line, shortened
from mcpdesk.tui.render.tones import LINE_STYLES
from mcpdesk.tui.screens.server_lines import (
    CallCounts,
    ServerLine,
    counts_of,
    recorded_lines,
    server_lines,
)
from mcpdesk.tui.screens.server_page import server_text
from mcpdesk.tui.widgets.column_section import MUTED, Column, ColumnSection
from mcpdesk.tui.widgets.line_list import Span
from mcpdesk.tui.widgets.menu import Choice
from mcpdesk.tui.widgets.pane import Pane

if TYPE_CHECKING:
    from mcpdesk.tui.traffic.traffic_pane import TrafficPane

MAX_COUNT_S = 0.004
"""Maximum seconds for counting calls in one refresh. The rest of a large recording is counted in later
refreshes.
"""
UPDATE_S = 1.0
"""Minimum seconds between two updates of the numbers of calls."""
STDERR_LINES = 8
"""Number of stderr lines of a server that the details show."""
_OUTPUT_SOURCES = ("stderr", "print")
"""Sources of log lines that are a server's own output."""
NOTE_COLUMN = "reason · last stderr line"
"""Name of the column with the note that `_note` returns."""
CURRENT_MARK = "▸"
"""Mark of the current server."""


def _note(line: ServerLine) -> str:
    """Return the reason why a server is down or has problems, or else its last stderr line."""
    return one_line(line.reason or line.stderr)


COLUMNS: tuple[Column[ServerLine], ...] = (
    Column("server", lambda one, _: one_line(one.name), lambda one: one.position, "lines--key", min_width=24),
    Column("state", lambda one, _: one.look.text, lambda one: (not one.is_down, one.look.text)),
    Column("transport", lambda one, _: one.transport, lambda one: one.transport, MUTED),
    Column("revision", lambda one, _: one_line(one.revision, 12) or "–", lambda one: one.revision),
    Column(
        "tools",
        lambda one, _: "–" if one.tools is None else f"{one.tools:,}",
        lambda one: -(one.tools or 0),
        is_number=True,
    ),
    Column("clients", lambda one, _: f"{one.clients:,}", lambda one: -one.clients, is_number=True),
    Column("calls", lambda one, _: f"{one.counts.calls:,}", lambda one: -one.counts.calls, is_number=True),
    Column("errors", lambda one, _: f"{one.counts.errors:,}", lambda one: -one.counts.errors, is_number=True),
    Column(NOTE_COLUMN, lambda one, _: _note(one), _note, MUTED, min_width=20),
)
HIDING_ORDER = ("calls", "transport", "revision", "clients", "tools")
"""Columns that may be hidden if space is short. They are hidden in this order."""


class ServersPane(ColumnSection[ServerLine], Pane):
    """Servers of the desk or of a capture."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_for("servers")
    DEFAULT_CSS = """
    ServersPane { padding: 1 1 0 1; }
    ServersPane > .body > LineList { max-height: 60%; }
    ServersPane.-beside > .body > LineList { max-height: 100%; }
    """
    empty_message = (
        "No server yet",
        "A server is a folder, a URL, a program, or a file with the configuration of a client.\n\n"
        "Press ctrl+n to add one."
        + check_up_hint("\n\nPress {key} to check the servers of all your clients."),
    )
    back_action = "servers.back"
    opens_details = False
    column_list_name = "servers"
    table = COLUMNS
    hiding_order = HIDING_ORDER

    def __init__(self, link: Link) -> None:
        super().__init__(link)
        self._lines: list[ServerLine] = []
        self._counts: dict[str, CallCounts] = {}
        self._counts_version: object = None
        """Version of the statistics when the calls were last counted."""
        self._counts_update_time = -math.inf
        """Monotonic time of the last update of the numbers of calls."""
        self._has_uncounted_calls = False
        """True if some calls are not counted yet."""
        self._log_number = -1
        """Number of the last log line that was read."""
        self._output_lines: dict[str, deque[LogLine]] = {}
        """Latest lines of each server's own output, by name of the server."""
        self._cut_names: tuple[int, dict[str, str]] = (-1, {})
        """Width of the first column in cells, and the names cut to this width, by full name."""
        self._awaited_name = ""
        """Name of an added server that is selected as soon as it has a row, or ""."""
        self._has_placed_cursor = False
        """True if the cursor was placed on the first server to select. Later, only the person moves it."""
        self._action_conditions: tuple[bool, str] | None = None
        """Facts that decide which actions are enabled, or None if no row is selected.

        The first is True if the selected server is on the desk, and False if it is in a capture. The second
        is its transport.
        """

    @property
    def selected_server(self) -> str:
        line = self.listing.selected
        return "" if line is None or line.view is None else line.name

    def show_view(self, view: CoreView) -> None:
        """Show the current states."""
        statistics = self.link.traffic.statistics
        self._has_uncounted_calls = statistics.update(MAX_COUNT_S)
        now = time.monotonic()
        if statistics.version != self._counts_version and now >= self._counts_update_time + UPDATE_S:
            self._counts_update_time, self._counts_version = now, statistics.version
            self._counts = counts_of(statistics)
        self._read_log(view)
        self.update_data(view)
        if not self._has_placed_cursor and self._lines:
            self._has_placed_cursor = True
            self.select(self.app.server)
        if self._awaited_name and any(line.name == self._awaited_name for line in self._lines):
            self.select(self._awaited_name)
            self._awaited_name = ""

    def select_added(self, name: str) -> None:
        """Select a server that was just added as soon as it has a row."""
        self._awaited_name, self._has_placed_cursor = name, True

    def show_detail(self) -> None:
        """Show the details of the selected row, and the keys of its actions in the footer."""
        super().show_detail()
        line = self.listing.selected
        conditions = None if line is None else (line.view is not None, line.transport)
        if conditions != self._action_conditions:
            self._action_conditions = conditions
            self.refresh_bindings()

    def tick_s(self) -> float | None:
        """Return the seconds until the next refresh, or None if all calls are counted and shown."""
        if self._has_uncounted_calls:
            return MAX_COUNT_S
        return UPDATE_S if self.link.traffic.statistics.version != self._counts_version else None

    def select(self, name: str) -> None:
        """Move the cursor to a server, if it has a row."""
        for index, row in enumerate(self.listing.rows):
            if row.name == name:
                self.listing.cursor = index
                return

    def show_section(self, name: str) -> None:
        """Select the first server that is down. `name` must be `down`; other names are ignored."""
        down_row = next((row for row in self.listing.rows if row.is_down), None)
        if name == "down" and down_row is not None:
            self._has_placed_cursor = True
            self.select(down_row.name)

    def _read_log(self, view: CoreView) -> None:
        """Store the latest lines of each server's own output."""
        lines = self.link.logs(self._log_number)
        if lines:
            self._log_number = lines[-1].number
        names = {one.name for one in view.servers}
        for line in lines:
            if line.source in _OUTPUT_SOURCES and line.server and line.text.strip():
                self._output_lines.setdefault(line.server, deque(maxlen=STDERR_LINES)).append(line)
        if view.servers:
            for name in self._output_lines.keys() - names:
                del self._output_lines[name]

    def version_of(self, view: CoreView) -> object:
        last_stderr = {name: lines[-1].text for name, lines in self._output_lines.items()}
        if view.servers or not view.capture_path:
            self._lines = list(server_lines(self.link, view, self.app.server, self._counts, last_stderr))
        else:
            connections = list(dict(self.link.traffic.connections).values())
            self._lines = list(recorded_lines(connections, self._counts, last_stderr))
        return self.order, self.is_reversed, self._lines

    def fetch(self) -> Sequence[ServerLine]:
        """Return the lines in the chosen order."""
        lines = self.in_order(self._lines)
        self.cells = {line.name: tuple(column.text(line, 0.0) for column in self.table) for line in lines}
        self._cut_names = (-1, {})
        return lines

    def keys_of(self, row: ServerLine) -> tuple[str]:
        return (row.name,)

    def is_empty_column(self, column: Column[ServerLine]) -> bool:
        if column.name == "tools":
            return all(row.tools is None for row in self.rows)
        return column.name == NOTE_COLUMN and not any(self.cells[row.name][-1] for row in self.rows)

    def cut_cell(self, column: Column[ServerLine], cell: str, width: int) -> str:
        if column.name == NOTE_COLUMN:
            return shortened(cell, width, REASON_TAIL)
        if column.name != "server":
            return super().cut_cell(column, cell, width)
        if self._cut_names[0] != width:
            self._cut_names = width, distinct_cuts([row.name for row in self.rows], width)
        return self._cut_names[1].get(cell) or shortened(cell, width)

    def spans(self, row: ServerLine, width: int) -> Iterable[Span]:
        yield CURRENT_MARK if row.is_current else " ", "lines--key"
        cells = self.cells[row.name]
        for index, column, room in self._shown_columns(width):
            cell, style = cells[index], column.style
            if column.name == "state" or (column.name == NOTE_COLUMN and row.reason):
                style = LINE_STYLES[row.look.tone]
            elif column.name == "errors" and row.counts.errors:
                style = "lines--bad"
            yield column.aligned(self.cut_cell(column, cell, room), room), style

    def detail_of(self, row: ServerLine) -> tuple[str, Content]:
        parts = [_recorded_text(row) if row.view is None else server_text(row.view)]
        if lines := self._output_lines.get(row.name):
            parts += [Content(""), Content.styled("Latest output", "bold $text-primary")]
            for line, count in _without_repetitions(lines):
                count_text = f"×{count} " if count > 1 else ""
                line_start = f"  {clock(line.time)[:8]}  {count_text}"
                parts.append(Content.assemble((line_start, "$text-muted"), clean(line.text.rstrip())))
        return one_line(row.name), Content("\n").join(parts)

    def copy_choices(self, row: ServerLine) -> list[Choice]:
        _, text = self.detail_of(row)
        location = "" if row.view is None else row.view.location
        choices = [
            Choice("name", row.name, row.name, "n"),
            Choice("location", location, "" if row.view is None else row.view.shown_location, "l"),
            Choice("reason", row.reason, one_line(row.reason), "r"),
            Choice("page", text.plain, "everything below", "p"),
        ]
        return [choice for choice in choices if choice.value]

    def show_order(self) -> None:
        self.update_data(self.link.view())

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable actions that are impossible for the selected server, such as a restart in a capture."""
        line = self.listing.selected if self.is_mounted else None
        if action in ("restart", "remove"):
            return line is not None and line.view is not None
        if action == "give_token":
            return line is not None and line.view is not None and line.transport != "stdio"
        if action == "add":
            return bool(self.screen.check_action("add_server", ()))
        if (feature_action := FEATURE_ACTIONS.get(f"servers.{action}")) is not None:
            return feature_action.is_available(self.link.view())
        return super().check_action(action, parameters)

    async def action_open(self) -> None:
        """Make the selected server the current one, and return to the previous screen.

        In a capture, show the messages of the server.
        """
        line, main = self.listing.selected, self.app.main
        if line is None:
            return
        if line.view is None:
            await main.show_screen("traffic")
            cast("TrafficPane", main.pane).show_only(f"server:{quoted(line.name)}")
        else:
            main.server = line.name
            await main.leave_servers()
            main.refresher.refresh()

    async def action_back(self) -> None:  # type: ignore[override]
        """Move the focus from the details to the list.

        On the list, clear the filter. Without a filter, return to the previous screen.
        """
        is_at_start = self.listing.has_focus and not self.words
        super().action_back()
        if is_at_start or self.has_class("-empty"):
            await self.app.main.leave_servers()

    async def action_restart(self) -> None:
        """Connect again, start the program again, or read the folder again."""
        self.app.main.action_reload()

    async def action_give_token(self) -> None:
        """Log in to the selected server, or give it a token."""
        self.app.main.action_give_token()

    async def action_remove(self) -> None:
        """Remove the selected server from the desk after a confirmation."""
        self.app.main.action_remove_server()

    async def action_add(self) -> None:
        """Add a server."""
        self.app.main.action_add_server()


with_feature_actions(ServersPane, "servers")


def _without_repetitions(lines: Iterable[LogLine]) -> Iterable[tuple[LogLine, int]]:
    """Return each line whose text differs, with the number of equal lines. Of equal lines, return the newest.

    A server that is started again and again writes the same traceback each time.
    """
    newest: dict[str, tuple[LogLine, int]] = {}
    for line in lines:
        _, count = newest.pop(line.text, (line, 0))
        newest[line.text] = (line, count + 1)
    return newest.values()


def _recorded_text(line: ServerLine) -> Content:
    """Return the details of a server of a capture."""
    counts = line.counts
    facts = (
        f"{counted(counts.calls, 'call')} · {counted(counts.errors, 'error')}",
        f"{counted(line.clients, 'client')} · {line.transport} · {line.revision or 'revision unknown'}",
        "Press enter to see its messages.",
    )
    return Content("\n").join([Content(clean(fact)) for fact in facts])
