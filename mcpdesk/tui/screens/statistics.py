"""Statistics of tools, clients and methods: calls, errors, durations and costs, in total and over time."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, ClassVar, cast

from textual import on, work
from textual.binding import BindingType
from textual.content import Content
from textual.widget import Widget

from mcpdesk.byte_size import size_text
from mcpdesk.link.link import Link
from mcpdesk.link.local.definition_costs import DefinitionCosts
from mcpdesk.link.values import CoreView
from mcpdesk.protocol import methods
from mcpdesk.recorder.index.exchange import Exchange
from mcpdesk.recorder.index.query import quoted
from mcpdesk.recorder.index.statistics import OTHER, CallTally, Subject
from mcpdesk.recorder.index.statistics_rows import (
    ALL_CALLS,
    ALL_REQUESTS,
    StatisticsRow,
    as_csv,
    as_json,
    rows_of,
)
from mcpdesk.recorder.record import ConnectionInfo
from mcpdesk.tui.actions import bindings_for
from mcpdesk.tui.render.amounts import chart, clock, counted, duration, rate
from mcpdesk.tui.render.safe_text import one_line, wrap_items
from mcpdesk.tui.screens.latest_calls import latest_lines
from mcpdesk.tui.widgets.choice_box import TabStrip
from mcpdesk.tui.widgets.column_section import MUTED, Column, ColumnSection
from mcpdesk.tui.widgets.menu import Choice, Menu
from mcpdesk.tui.widgets.pane import Pane
from mcpdesk.tui.widgets.path_prompt import write_to_new_file

if TYPE_CHECKING:
    from mcpdesk.tui.traffic.traffic_pane import TrafficPane

MAX_COUNT_S = 0.02
"""Maximum seconds of counting in one refresh. The rest of a capture is counted in later refreshes."""
UPDATE_S = 1.0
"""Seconds between two updates of the table while calls arrive."""
SUBJECTS = tuple(Subject)
TITLES = {Subject.TOOL: "Tools", Subject.CLIENT: "Clients", Subject.METHOD: "Methods"}
_FILTERS = {Subject.TOOL: "tool", Subject.CLIENT: "peer", Subject.METHOD: "method"}
_USERS = {Subject.TOOL: ("called by", Subject.CLIENT), Subject.CLIENT: ("tools used", Subject.TOOL)}
"""Subject -> label of the list of users in the details, and the subject of these users."""
_MAX_USERS = 12
"""Maximum number of users in the details."""
_MIN_CHART_LINES, _MAX_CHART_LINES = 2, 16
"""Minimum and maximum height of a chart in lines, without its heading and axis."""
_MIN_CHART_S = 60
"""Minimum time span of a chart in seconds."""
_MIN_WIDTH_SIDE_BY_SIDE = 70
"""Minimum width in cells for showing the two charts side by side."""


def _duration_text(seconds: float | None) -> str:
    return "–" if seconds is None else duration(seconds)


def _token_text(count: int | None) -> str:
    return "–" if count is None else f"{count:,}"


COLUMNS: tuple[Column[StatisticsRow], ...] = (
    Column(
        "name",
        lambda one, _: one_line(one.name, 80),
        lambda one: one.name.lower(),
        "lines--key",
        min_width=30,
    ),
    Column("server", lambda one, _: one_line(one.server, 60), lambda one: one.server, MUTED, min_width=20),
    Column("calls", lambda one, _: f"{one.calls:,}", lambda one: -one.calls, "", True),
    Column("requests", lambda one, _: f"{one.calls:,}", lambda one: -one.calls, "", True),
    Column("errors", lambda one, _: f"{one.errors:,}", lambda one: -one.errors, "", True),
    Column("p50", lambda one, _: _duration_text(one.p50_s), lambda one: -(one.p50_s or 0), "", True),
    Column("p95", lambda one, _: _duration_text(one.p95_s), lambda one: -(one.p95_s or 0), "", True),
    Column("p99", lambda one, _: _duration_text(one.p99_s), lambda one: -(one.p99_s or 0), "", True),
    Column("in", lambda one, _: size_text(one.bytes_in), lambda one: -one.bytes_in, "", True),
    Column("out", lambda one, _: size_text(one.bytes_out), lambda one: -one.bytes_out, "", True),
    Column(
        "result tok",
        lambda one, _: _token_text(one.result_tokens),
        lambda one: -one.result_tokens,
        "",
        True,
    ),
    Column(
        "def tok",
        lambda one, _: _token_text(one.definition_tokens),
        lambda one: -(one.definition_tokens or 0),
        "",
        True,
    ),
)
CALLS, REQUESTS = 2, 3
"""Indexes of the columns `calls` and `requests`. The table of methods has the second column instead of the
first, because it also counts requests that are not calls."""
HIDING_ORDER = ("in", "out", "server", "p99", "def tok", "result tok", "p50")
"""Columns that are hidden if space is short, the first one first."""


class StatisticsPane(ColumnSection[StatisticsRow], Pane):
    """One row per tool, client or method, and charts over time of the selected one."""

    BINDINGS: ClassVar[list[BindingType]] = bindings_for("statistics")
    DEFAULT_CSS = """
    StatisticsPane > .body > .detail { min-height: 9; }
    StatisticsPane TabStrip { background: $surface; }
    """
    empty_message = (
        "No calls yet",
        "Calls are counted here by tool and by client: number, errors, duration, bytes, and the approximate "
        "number of tokens that definitions and results cost a model. A call is a tool call, a resource read "
        "or a prompt fetch; the table of methods counts all other requests as well.\n\n"
        "Call a tool in the workbench (1), or connect a client (4).",
    )
    may_be_beside = False
    may_take_turns = False
    column_list_name = "statistics"
    table = COLUMNS
    hiding_order = HIDING_ORDER

    def __init__(self, link: Link) -> None:
        super().__init__(link)
        self.order = CALLS
        self._statistics = link.traffic.statistics
        self._updated_at = -math.inf
        self._has_uncounted = False
        """True if some exchanges are not counted yet."""
        self._is_stale = False
        """True if the shown rows lack counted exchanges."""
        self._costs = DefinitionCosts(link)

    @property
    def subject(self) -> Subject:
        """Subject of the current table: tools, clients or methods."""
        return SUBJECTS[self.query_one(TabStrip).current]

    def parts(self) -> Iterable[Widget]:
        yield TabStrip(tuple(TITLES.values()))
        yield from super().parts()

    def show_view(self, view: CoreView) -> None:
        """Count new exchanges, and show them once a second."""
        self._has_uncounted = self._statistics.update(MAX_COUNT_S)
        if (now := time.monotonic()) >= self._updated_at + UPDATE_S:
            self._updated_at = now
            self.update_data(view)
        self._is_stale = self.version_of(view) != self._version
        if self.screen.focused is None:
            self.entry.focus()

    def tick_s(self) -> float | None:
        """Return the seconds until the next refresh, or None if all calls are counted and shown."""
        return MAX_COUNT_S if self._has_uncounted else UPDATE_S if self._is_stale else None

    def version_of(self, view: CoreView) -> object:
        view_state = (self.subject, self.order, self.is_reversed)
        return self._statistics.version, self._has_uncounted, self._costs.version, view_state

    def fetch(self) -> Sequence[StatisticsRow]:
        """Return the rows, the total first."""
        table_rows = rows_of(self._statistics, self.subject, self._costs.now())
        total, *others = table_rows
        rows = [total, *self.in_order(others)] if others else []
        self.cells = {
            self.keys_of(row)[0]: tuple(column.text(row, 0.0) for column in self.table) for row in rows
        }
        self._show_titles(len(others))
        return rows

    def keys_of(self, row: StatisticsRow) -> tuple[tuple[str, str]]:
        return ((row.server, row.name),)

    def is_empty_column(self, column: Column[StatisticsRow]) -> bool:
        if column.name == "server":
            return len({row.server for row in self.rows if row.server}) < 2
        is_method = self.subject is Subject.METHOD
        return column.name in (("calls", "def tok") if is_method else ("requests",))

    def style_of(self, column: Column[StatisticsRow], cell: str) -> str:
        return "lines--bad" if column.name == "errors" and cell != "0" else column.style

    def detail_of(self, row: StatisticsRow) -> tuple[str, Content]:
        title = row.name if not row.server else f"{one_line(row.name, 60)} · {one_line(row.server, 30)}"
        tally = self._tally(row)
        room = self.query_one(".detail").content_size
        width = max(20, (room.width or self.size.width - 2) - 1)
        lines = (wrap_items(fact.split(" · "), width) for fact in self._fact_lines(row, tally))
        facts = [Content(line) for text in lines for line in text.split("\n")]
        height = room.height - sum(1 + fact.cell_length // width for fact in facts)
        charts = self._charts(tally, width, height)
        calls = self._latest_calls(row, width, height - len(charts) - 1)
        return one_line(title), Content("\n").join([*facts, *charts, *calls])

    def _latest_calls(self, row: StatisticsRow, width: int, height: int) -> list[Content]:
        """Return the latest calls of a row, if the charts leave space."""
        subject, is_all = self.subject, not row.server and row.name in (ALL_CALLS, ALL_REQUESTS)

        def is_included(info: ConnectionInfo, method: str, name: str) -> bool:
            if subject is Subject.METHOD:
                return is_all or (info.server, methods.canonical(method)) == (row.server, row.name)
            if subject is Subject.CLIENT:
                return methods.canonical(method) in methods.CALLS and (
                    is_all or (info.server, info.peer) == (row.server, row.name)
                )
            if is_all or row.name in methods.CALLS:
                called_method = methods.canonical(method)
                is_of_row = (info.server, called_method) == (row.server, row.name)
                return is_of_row or (is_all and called_method in methods.CALLS)
            return method in methods.TOOL_CALLS and (info.server, name) == (row.server, row.name)

        def title(call: Exchange) -> str:
            is_single_tool = subject is Subject.TOOL and not is_all and row.name not in methods.CALLS
            return call.peer if is_single_tool else call.name or call.method

        lines = latest_lines(self.link.traffic, is_included, title, width, height, time.time())
        return [Content(""), *lines] if lines else []

    def copy_choices(self, row: StatisticsRow) -> list[Choice]:
        line = "  ".join(self.cells[self.keys_of(row)[0]])
        return [
            Choice("name", row.name, row.name, "n"),
            Choice("line", line, line, "l"),
            Choice(f"{counted(len(self.rows), 'row')} as CSV", as_csv(self.rows), "", "c"),
            Choice(f"{counted(len(self.rows), 'row')} as JSON", as_json(self.rows), "", "j"),
        ]

    def show_order(self) -> None:
        self.update_data(self.link.view())

    def action_show_tab(self, by: int) -> None:
        """Select another subject."""
        self.query_one(TabStrip).action_step(by)

    @on(TabStrip.Picked)
    def _picked(self) -> None:
        if self.order in (CALLS, REQUESTS):
            self.order = REQUESTS if self.subject is Subject.METHOD else CALLS
        self.update_data(self.link.view())

    async def action_open(self) -> None:
        """Show the calls behind the selected row."""
        row = self.listing.selected
        if row is None or row.name == OTHER:
            return
        await self.app.main.show_screen("traffic")
        field = "method" if row.name in methods.CALLS else _FILTERS[self.subject]
        query = "" if row.name in (ALL_CALLS, ALL_REQUESTS) else f"{field}:{quoted(row.name)}"
        cast("TrafficPane", self.app.main.pane).show_only(query)

    @work
    async def action_export(self) -> None:
        """Write the table to a file."""
        choices = [
            Choice(f"{counted(len(self.rows), 'row')} as CSV", ("csv", as_csv), "for a spreadsheet", "c"),
            Choice(f"{counted(len(self.rows), 'row')} as JSON", ("json", as_json), "for a program", "j"),
        ]
        chosen = await self.app.push_screen_wait(Menu(f"Export {TITLES[self.subject].lower()}", choices))
        if chosen is None:
            return
        extension, format_rows = chosen
        name = f"mcpdesk-{self.subject.value}s-{time.strftime('%Y%m%d-%H%M%S')}.{extension}"
        await write_to_new_file(
            self.app, partial(format_rows, self.rows), name, counted(len(self.rows), "row")
        )

    def _show_titles(self, rows: int) -> None:
        titles = [
            f"{title} {rows}" if subject is self.subject else title for subject, title in TITLES.items()
        ]
        if self._has_uncounted:
            titles.append(f"counted {self._statistics.done:.0%}")
        if missing_count := self.link.traffic.missing_frames:
            titles.append(f"{counted(missing_count, 'frame')} deleted uncounted")
        self.query_one(TabStrip).show(titles)

    def _tally(self, row: StatisticsRow) -> CallTally | None:
        if row.name in (ALL_CALLS, ALL_REQUESTS) and not row.server:
            return self._statistics.total(self.subject)
        return self._statistics.sums(self.subject).get((row.server, row.name))

    def _fact_lines(self, row: StatisticsRow, tally: CallTally | None) -> list[str]:
        if tally is None or not row.calls:
            token_text = (
                ""
                if row.definition_tokens is None
                else f" · definition about {row.definition_tokens:,} tokens"
            )
            return [f"no calls{token_text}" if row.by is Subject.CLIENT else f"never called{token_text}"]
        share = f" ({row.errors / row.calls:.1%})" if row.errors else ""
        durations = (
            f" · p50 {_duration_text(row.p50_s)} · p95 {_duration_text(row.p95_s)}"
            f" · p99 {_duration_text(row.p99_s)} · slowest {duration(tally.slowest_s)}"
            + (
                f" · without {duration(tally.waited_s)} of waiting for people and clients"
                * (tally.waited_s > 0.001)
            )
            if row.p50_s is not None
            else ""
        )
        lines = [
            f"{counted(row.calls, self._unit[:-1])} · {counted(row.errors, 'error')}{share}{durations}",
            f"in {size_text(row.bytes_in)} · out {size_text(row.bytes_out)}"
            f" · results about {row.result_tokens:,} tokens"
            + (
                ""
                if row.definition_tokens is None
                else f" · definitions about {row.definition_tokens:,} tokens"
            ),
        ]
        if row.server and self.subject in _USERS:
            label, _ = _USERS[self.subject]
            users = (
                self._statistics.clients_of(row.server, row.name)
                if self.subject is Subject.TOOL
                else self._statistics.tools_of(row.server, row.name)
            )
            user_texts = [f"{one_line(name, 40)} {one.calls:,}" for name, one in users[:_MAX_USERS]]
            more_texts = [f"and {len(users) - _MAX_USERS} more"] if len(users) > _MAX_USERS else []
            lines.append(f"{label}: {' · '.join([*user_texts, *more_texts]) or 'none'}")
        return [*lines, ""]

    @property
    def _unit(self) -> str:
        return "requests" if self.subject is Subject.METHOD else "calls"

    def _charts(self, tally: CallTally | None, width: int, height: int) -> list[Content]:
        """Return charts of calls and of the slowest call over time, side by side if there is space."""
        times = self._statistics.times
        if tally is None or times.began is None or not tally.calls:
            return []
        length_s = times.length_s
        slots = max(len(self._statistics.total().rates), _MIN_CHART_S // length_s)
        is_wide = width >= _MIN_WIDTH_SIDE_BY_SIDE
        chart_height = max(_MIN_CHART_LINES, min(_MAX_CHART_LINES, (height if is_wide else height // 2) - 2))
        cells = (width - 3) // 2 if is_wide else width
        rates = [count / length_s for count in tally.rates]
        slowest = list(tally.longest)
        end_times = clock(times.began)[:8], clock(times.began + slots * length_s)[:8]
        axis = f"{end_times[0]}{end_times[1]:>{max(9, cells - 8)}}"
        blocks = []
        for heading, values, style in (
            (f"{self._unit} a second, at most {rate(max(rates, default=0))}", rates, "$text-primary"),
            (
                f"slowest {self._unit[:-1]}, at most {duration(max(slowest, default=0))}",
                slowest,
                "$text-warning",
            ),
        ):
            values += [0.0] * (slots - len(values))
            lines = chart(values, cells, chart_height)
            blocks.append(
                [
                    Content.styled(f"{one_line(heading, cells):<{cells}}", "$text-muted"),
                    *(Content.styled(f"{line:<{cells}}", style) for line in lines),
                    Content.styled(f"{axis:<{cells}}", "$text-muted"),
                ]
            )
        if is_wide:
            return [Content("   ").join(pair) for pair in zip(*blocks, strict=True)]
        return [line for block in blocks for line in block]
