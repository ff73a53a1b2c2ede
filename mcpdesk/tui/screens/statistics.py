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
"""Subjects of the tables, in the order of the tabs."""
TITLES = {Subject.TOOL: "Tools", Subject.CLIENT: "Clients", Subject.METHOD: "Methods"}
"""Subject -> title of its tab."""
_FILTER_FIELDS = {Subject.TOOL: "tool", Subject.CLIENT: "peer", Subject.METHOD: "method"}
"""Subject -> field of the traffic filter that selects its exchanges."""
_USE_LABELS = {Subject.TOOL: "called by", Subject.CLIENT: "tools used"}
"""Subject -> label of a list in the details: the clients of a tool, or the tools of a client."""
_MAX_USE_ENTRIES = 12
"""Maximum number of entries of this list."""
_MIN_CHART_LINES = 2
"""Minimum height of a chart in lines, without its heading and axis."""
_MAX_CHART_LINES = 16
"""Maximum height of a chart in lines, without its heading and axis."""
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
    Column("calls", lambda one, _: f"{one.calls:,}", lambda one: -one.calls, is_number=True),
    Column("requests", lambda one, _: f"{one.calls:,}", lambda one: -one.calls, is_number=True),
    Column("errors", lambda one, _: f"{one.errors:,}", lambda one: -one.errors, is_number=True),
    Column("p50", lambda one, _: _duration_text(one.p50_s), lambda one: -(one.p50_s or 0), is_number=True),
    Column("p95", lambda one, _: _duration_text(one.p95_s), lambda one: -(one.p95_s or 0), is_number=True),
    Column("p99", lambda one, _: _duration_text(one.p99_s), lambda one: -(one.p99_s or 0), is_number=True),
    Column("in", lambda one, _: size_text(one.bytes_in), lambda one: -one.bytes_in, is_number=True),
    Column("out", lambda one, _: size_text(one.bytes_out), lambda one: -one.bytes_out, is_number=True),
    Column(
        "result tok",
        lambda one, _: _token_text(one.result_tokens),
        lambda one: -one.result_tokens,
        is_number=True,
    ),
    Column(
        "def tok",
        lambda one, _: _token_text(one.definition_tokens),
        lambda one: -(one.definition_tokens or 0),
        is_number=True,
    ),
)
CALLS_COLUMN = 2
"""Index of the column `calls`."""
REQUESTS_COLUMN = 3
"""Index of the column `requests`. The table of methods has it instead of `calls`, because it also counts
requests that are not calls."""
HIDING_ORDER = ("in", "out", "server", "p99", "def tok", "result tok", "p50")
"""Columns that may be hidden if space is short. They are hidden in this order."""


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
        self.order = CALLS_COLUMN
        self._statistics = link.traffic.statistics
        self._updated_at = -math.inf
        """Monotonic time of the last update of the table."""
        self._has_uncounted_exchanges = False
        """True if some exchanges are not counted yet."""
        self._are_rows_stale = False
        """True if the shown rows lack counted exchanges."""
        self._definition_costs = DefinitionCosts(link)

    @property
    def subject(self) -> Subject:
        """Subject of the current table: tools, clients or methods."""
        return SUBJECTS[self.query_one(TabStrip).current]

    def parts(self) -> Iterable[Widget]:
        yield TabStrip(tuple(TITLES.values()))
        yield from super().parts()

    def show_view(self, view: CoreView) -> None:
        """Count new exchanges, and show them once a second."""
        self._has_uncounted_exchanges = self._statistics.update(MAX_COUNT_S)
        if (now := time.monotonic()) >= self._updated_at + UPDATE_S:
            self._updated_at = now
            self.update_data(view)
        self._are_rows_stale = self.version_of(view) != self._version
        if self.screen.focused is None:
            self.entry.focus()

    def tick_s(self) -> float | None:
        """Return the seconds until the next refresh, or None if all calls are counted and shown."""
        if self._has_uncounted_exchanges:
            return MAX_COUNT_S
        return UPDATE_S if self._are_rows_stale else None

    def version_of(self, view: CoreView) -> object:
        versions = self._statistics.version, self._definition_costs.version
        return versions, self._has_uncounted_exchanges, self.subject, self.order, self.is_reversed

    def fetch(self) -> Sequence[StatisticsRow]:
        """Return the rows, the total first."""
        table_rows = rows_of(self._statistics, self.subject, self._definition_costs.now())
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
        empty_columns = ("calls", "def tok") if self.subject is Subject.METHOD else ("requests",)
        return column.name in empty_columns

    def style_of(self, column: Column[StatisticsRow], cell: str) -> str:
        return "lines--bad" if column.name == "errors" and cell != "0" else column.style

    def detail_of(self, row: StatisticsRow) -> tuple[str, Content]:
        title = row.name if not row.server else f"{one_line(row.name, 60)} · {one_line(row.server, 30)}"
        tally = self._tally(row)
        detail_size = self.query_one(".detail").content_size
        width = max(20, (detail_size.width or self.size.width - 2) - 1)
        fact_texts = (wrap_items(fact.split(" · "), width) for fact in self._fact_lines(row, tally))
        fact_lines = [Content(line) for text in fact_texts for line in text.split("\n")]
        height = detail_size.height - sum(1 + line.cell_length // width for line in fact_lines)
        charts = self._charts(tally, width, height)
        calls = self._latest_calls(row, width, height - len(charts) - 1)
        return one_line(title), Content("\n").join([*fact_lines, *charts, *calls])

    def _latest_calls(self, row: StatisticsRow, width: int, height: int) -> list[Content]:
        """Return the latest calls of a row, if the charts leave space."""
        subject, is_total = self.subject, _is_total(row)
        is_single_tool = subject is Subject.TOOL and not is_total and row.name not in methods.CALLS

        def is_included(info: ConnectionInfo, method: str, name: str) -> bool:
            canonical_method = methods.canonical(method)
            if is_total:
                return subject is Subject.METHOD or canonical_method in methods.CALLS
            if info.server != row.server:
                return False
            if subject is Subject.CLIENT:
                return canonical_method in methods.CALLS and info.peer == row.name
            if is_single_tool:
                return method in methods.TOOL_CALLS and name == row.name
            return canonical_method == row.name

        def title(call: Exchange) -> str:
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
        if self.order in (CALLS_COLUMN, REQUESTS_COLUMN):
            self.order = REQUESTS_COLUMN if self.subject is Subject.METHOD else CALLS_COLUMN
        self.update_data(self.link.view())

    async def action_open(self) -> None:
        """Show the calls behind the selected row."""
        row = self.listing.selected
        if row is None or row.name == OTHER:
            return
        await self.app.main.show_screen("traffic")
        field = "method" if row.name in methods.CALLS else _FILTER_FIELDS[self.subject]
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
        row_count = counted(len(self.rows), "row")
        await write_to_new_file(self.app, partial(format_rows, self.rows), name, row_count)

    def _show_titles(self, row_count: int) -> None:
        """Update the tabs. The current tab has the number of its rows, without the total."""
        titles = [
            f"{title} {row_count}" if subject is self.subject else title for subject, title in TITLES.items()
        ]
        if self._has_uncounted_exchanges:
            titles.append(f"counted {self._statistics.done:.0%}")
        if missing_count := self.link.traffic.missing_frames:
            titles.append(f"{counted(missing_count, 'frame')} deleted uncounted")
        self.query_one(TabStrip).show(titles)

    def _tally(self, row: StatisticsRow) -> CallTally | None:
        if _is_total(row):
            return self._statistics.total(self.subject)
        return self._statistics.sums(self.subject).get((row.server, row.name))

    def _fact_lines(self, row: StatisticsRow, tally: CallTally | None) -> list[str]:
        if tally is None or not row.calls:
            no_calls_text = "no calls" if row.by is Subject.CLIENT else "never called"
            if row.definition_tokens is not None:
                no_calls_text += f" · definition about {row.definition_tokens:,} tokens"
            return [no_calls_text]
        call_facts = [counted(row.calls, self._unit), counted(row.errors, "error")]
        if row.errors:
            call_facts[-1] += f" ({row.errors / row.calls:.1%})"
        if row.p50_s is not None:
            percentiles = (("p50", row.p50_s), ("p95", row.p95_s), ("p99", row.p99_s))
            call_facts += [f"{name} {_duration_text(seconds)}" for name, seconds in percentiles]
            call_facts.append(f"slowest {duration(tally.slowest_s)}")
            if tally.waited_s > 0.001:
                call_facts.append(f"without {duration(tally.waited_s)} of waiting for people and clients")
        size_facts = [f"in {size_text(row.bytes_in)}", f"out {size_text(row.bytes_out)}"]
        size_facts.append(f"results about {row.result_tokens:,} tokens")
        if row.definition_tokens is not None:
            size_facts.append(f"definitions about {row.definition_tokens:,} tokens")
        lines = [" · ".join(call_facts), " · ".join(size_facts)]
        if row.server and self.subject in _USE_LABELS:
            lines.append(f"{_USE_LABELS[self.subject]}: {self._use_text(row)}")
        return [*lines, ""]

    def _use_text(self, row: StatisticsRow) -> str:
        """Return the clients of a tool, or the tools of a client, with their numbers of calls."""
        if self.subject is Subject.TOOL:
            uses = self._statistics.clients_of(row.server, row.name)
        else:
            uses = self._statistics.tools_of(row.server, row.name)
        texts = [f"{one_line(name, 40)} {tally.calls:,}" for name, tally in uses[:_MAX_USE_ENTRIES]]
        if len(uses) > _MAX_USE_ENTRIES:
            texts.append(f"and {len(uses) - _MAX_USE_ENTRIES} more")
        return " · ".join(texts) or "none"

    @property
    def _unit(self) -> str:
        """Noun for one exchange that the current table counts."""
        return "request" if self.subject is Subject.METHOD else "call"

    def _charts(self, tally: CallTally | None, width: int, height: int) -> list[Content]:
        """Return charts of calls and of the slowest call over time, side by side if there is space."""
        times = self._statistics.times
        if tally is None or times.began is None or not tally.calls:
            return []
        slot_s = times.length_s
        slot_count = max(len(self._statistics.total().rates), _MIN_CHART_S // slot_s)
        is_wide = width >= _MIN_WIDTH_SIDE_BY_SIDE
        free_height = (height if is_wide else height // 2) - 2
        chart_height = max(_MIN_CHART_LINES, min(_MAX_CHART_LINES, free_height))
        cells = (width - 3) // 2 if is_wide else width
        start, end = clock(times.began)[:8], clock(times.began + slot_count * slot_s)[:8]
        axis = f"{start}{end:>{max(9, cells - 8)}}"

        def chart_lines(heading: str, values: list[float], style: str) -> list[Content]:
            values += [0.0] * (slot_count - len(values))
            return [
                Content.styled(f"{one_line(heading, cells):<{cells}}", "$text-muted"),
                *(Content.styled(f"{line:<{cells}}", style) for line in chart(values, cells, chart_height)),
                Content.styled(f"{axis:<{cells}}", "$text-muted"),
            ]

        rates = [count / slot_s for count in tally.rates]
        rate_heading = f"{self._unit}s a second, at most {rate(max(rates, default=0))}"
        rate_chart = chart_lines(rate_heading, rates, "$text-primary")
        durations = list(tally.longest)
        duration_heading = f"slowest {self._unit}, at most {duration(max(durations, default=0))}"
        duration_chart = chart_lines(duration_heading, durations, "$text-warning")
        if is_wide:
            return [Content("   ").join(pair) for pair in zip(rate_chart, duration_chart, strict=True)]
        return [*rate_chart, *duration_chart]


def _is_total(row: StatisticsRow) -> bool:
    """Return True for the row with the sums of all other rows."""
    return not row.server and row.name in (ALL_CALLS, ALL_REQUESTS)
