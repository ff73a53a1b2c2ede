"""Statistics as rows of a table, as CSV and as JSON."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping

from msgspec import Struct
from msgspec.structs import asdict

from mcpdesk.recorder.index.statistics import CallStatistics, CallTally, Subject
from mcpdesk.recorder.masking import mask_text

ALL_CALLS = "all calls"
ALL_REQUESTS = "all requests"
"""Name of the row with the total. For methods, it includes requests that are not calls."""
Definitions = Mapping[tuple[str, str], int]
"""Approximate number of tokens of each tool definition, by server and tool."""


class StatisticsRow(Struct, frozen=True):
    """Statistics of one tool, client or method. Times are Unix seconds, durations seconds."""

    by: Subject
    name: str
    server: str
    """Name of the server. Empty in the row with all calls."""
    calls: int
    """Number of tool calls, resource reads and prompt requests. For a method, number of its requests.
    """
    errors: int
    p50_s: float | None
    """Median duration, or None before the first answered call."""
    p95_s: float | None
    p99_s: float | None
    bytes_in: int
    bytes_out: int
    result_tokens: int
    """Approximate number of tokens in tool results."""
    definition_tokens: int | None
    """Approximate number of tokens of the tool's definition, or of all tool definitions of a client, or None
    if unknown.
    """
    last: float
    """Unix time when the last call began."""


def rows_of(statistics: CallStatistics, subject: Subject, definitions: Definitions) -> list[StatisticsRow]:
    """Return the row with all calls, then one row for each tool, client or method, most calls first."""
    server_tokens: dict[str, int] = {}
    for (server, _), tokens in definitions.items():
        server_tokens[server] = server_tokens.get(server, 0) + tokens
    rows = []
    for (server, name), tally in statistics.sums(subject).items():
        definition_tokens: int | None = None
        if subject is Subject.TOOL:
            definition_tokens = definitions.get((server, name))
        elif subject is Subject.CLIENT:
            definition_tokens = server_tokens.get(server)
        rows.append(_row(subject, mask_text(name), server, tally, definition_tokens))
    if subject is Subject.TOOL:
        called_tools = {(row.server, row.name) for row in rows}
        unused = CallTally(statistics.times)
        rows += [
            _row(subject, tool, server, unused, tokens)
            for (server, tool), tokens in definitions.items()
            if (server, tool) not in called_tools
        ]
    rows.sort(key=lambda row: (-row.calls, row.server, row.name))
    total_row = _row(
        subject,
        ALL_REQUESTS if subject is Subject.METHOD else ALL_CALLS,
        "",
        statistics.total(subject),
        sum(server_tokens.values()) if server_tokens else None,
    )
    return [total_row, *rows]


def _row(
    by: Subject, name: str, server: str, tally: CallTally, definition_tokens: int | None
) -> StatisticsRow:
    return StatisticsRow(
        by,
        name,
        server,
        tally.calls,
        tally.errors,
        tally.quantile(0.5),
        tally.quantile(0.95),
        tally.quantile(0.99),
        tally.received,
        tally.sent,
        tally.tokens,
        definition_tokens,
        tally.latest_start,
    )


def as_csv(rows: Iterable[StatisticsRow]) -> str:
    """Return the rows as CSV with a header line."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(StatisticsRow.__struct_fields__)
    for row in rows:
        writer.writerow(_harmless(value) for value in asdict(row).values())
    return text.getvalue()


def as_json(rows: Iterable[StatisticsRow]) -> str:
    """Return the rows as a JSON array."""
    return json.dumps([asdict(row) for row in rows], indent=2, ensure_ascii=False) + "\n"


def _harmless(value: object) -> object:
    """Return a cell that spreadsheets do not treat as a formula. Names come from untrusted peers."""
    is_formula = isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r"))
    return f"'{value}" if is_formula else value
