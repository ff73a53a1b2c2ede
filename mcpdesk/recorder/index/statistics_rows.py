"""The statistics as rows of a table, and those as CSV and JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import asdict

from mcpdesk.recorder.index.statistics import CallStatistics, CallTally, Subject
from mcpdesk.recorder.masking import mask_text

ALL = "all calls"
ALL_REQUESTS = "all requests"
"""The name of the row that sums all others up; of methods those requests count as well that call nothing."""
Definitions = Mapping[tuple[str, str], int]
"""Server and tool -> about how many tokens its definition has."""


class StatisticsRow(Struct, frozen=True):
    """The calls of one tool, client or method. Times are Unix seconds, durations seconds."""

    by: Subject
    name: str
    server: str
    """Empty for all together."""
    calls: int
    """Of tools, resources and prompts; of a method, its requests."""
    errors: int
    p50_s: float | None
    """None before a call was answered."""
    p95_s: float | None
    p99_s: float | None
    bytes_in: int
    bytes_out: int
    result_tokens: int
    """About how many tokens the results of tools had."""
    definition_tokens: int | None
    """Of the tool, or of all tools a client is offered; None where that is not known."""
    last: float
    """When the last call began."""


def rows_of(statistics: CallStatistics, subject: Subject, definitions: Definitions) -> list[StatisticsRow]:
    """One row a tool, client or method, whatever was called most first, after the row of all calls."""
    costs: dict[str, int] = {}
    for (server, _), tokens in definitions.items():
        costs[server] = costs.get(server, 0) + tokens
    rows = []
    for (server, name), tally in statistics.sums(subject).items():
        offered = definitions.get((server, name)) if subject is Subject.TOOL else costs.get(server)
        rows.append(
            _row(subject, mask_text(name), server, tally, offered if subject is not Subject.METHOD else None)
        )
    if subject is Subject.TOOL:
        called = {(row.server, row.name) for row in rows}
        unused = CallTally(statistics.times)
        rows += [
            _row(subject, tool, server, unused, tokens)
            for (server, tool), tokens in definitions.items()
            if (server, tool) not in called
        ]
    rows.sort(key=lambda row: (-row.calls, row.server, row.name))
    together = _row(
        subject,
        ALL_REQUESTS if subject is Subject.METHOD else ALL,
        "",
        statistics.whole(subject),
        sum(costs.values()) if costs else None,
    )
    return [together, *rows]


def _row(by: Subject, name: str, server: str, tally: CallTally, definition: int | None) -> StatisticsRow:
    return StatisticsRow(
        by,
        name,
        server,
        tally.calls,
        tally.errors,
        tally.at(0.5),
        tally.at(0.95),
        tally.at(0.99),
        tally.received,
        tally.sent,
        tally.tokens,
        definition,
        tally.seen,
    )


def as_csv(rows: Iterable[StatisticsRow]) -> str:
    """The rows as CSV with a line of heads."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(StatisticsRow.__struct_fields__)
    for row in rows:
        writer.writerow(_harmless(value) for value in asdict(row).values())
    return text.getvalue()


def as_json(rows: Iterable[StatisticsRow]) -> str:
    """The rows as a JSON array."""
    return json.dumps([asdict(row) for row in rows], indent=2, ensure_ascii=False) + "\n"


def _harmless(value: object) -> object:
    """A cell that no spreadsheet takes for a formula: names come from strangers."""
    return (
        f"'{value}"
        if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r"))
        else value
    )
