"""Exchanges as a Markdown report: errors, slow calls, a table, then each exchange."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from math import inf
from statistics import median
from typing import Any

from mcpdesk.plain_text import clean
from mcpdesk.recorder.exchange_summary import summary
from mcpdesk.recorder.exchange_text import (
    LogLinesOf,
    heading,
    held_line,
    log_text,
    moment_of,
    no_log_lines,
    pretty,
    time_text,
    title_of,
)
from mcpdesk.recorder.index.exchange import FAILED, Exchange, ExchangeKind
from mcpdesk.recorder.index.traffic_index import Index, gap_in_words, with_gaps, with_parts
from mcpdesk.recorder.readable_message import held_messages, http, message
from mcpdesk.recorder.record import Gap
from mcpdesk.recorder.varying_values import pattern_of

_MAX_MESSAGE_LENGTH = 4000
"""Maximum number of characters of one message in a report."""
_MAX_CELL_LENGTH = 120
"""Maximum number of characters of arguments, results and errors in a table of a report."""
_MAX_ROWS = 20
"""Maximum number of rows in the table of errors, and in the table of slow calls."""
_MAX_NAMES = 5
"""Maximum number of names of clients or servers in one cell or sentence."""


def report(index: Index, numbers: Iterable[int], log_lines_of: LogLinesOf = no_log_lines) -> Iterator[bytes]:
    """Yield a Markdown report: errors, slow calls, a table of the exchanges, then each exchange."""
    return (piece.encode("utf-8", "replace") for piece in _report(index, numbers, log_lines_of))


def as_markdown(index: Index, number: int, log_lines_of: LogLinesOf = no_log_lines) -> str:
    """Return one exchange and its parts as Markdown sections, for an issue."""
    parts = (
        _exchange_section(index, index.exchange(part), log_lines_of) for part in with_parts(index, [number])
    )
    return "\n".join("".join(pieces).strip() + "\n" for pieces in parts)


def _report(index: Index, numbers: Iterable[int], log_lines_of: LogLinesOf) -> Iterator[str]:
    numbers_and_gaps = list(with_gaps(index, numbers))
    yield "# MCP traffic\n\n"
    yield from _overview(index, [each for each in numbers_and_gaps if isinstance(each, int)])
    yield "## Exchanges\n\n| # | time | peer | message | id | status | took | bytes |\n"
    yield "| --: | --- | --- | --- | --- | --- | --: | --: |\n"
    for each in numbers_and_gaps:
        yield _gap_row(each) if isinstance(each, Gap) else _row(index, index.exchange(each))
    for each in numbers_and_gaps:
        if isinstance(each, Gap):
            yield f"\n**{_plain(gap_in_words(each))}**\n"
        else:
            yield from _exchange_section(index, index.exchange(each), log_lines_of)


def _overview(index: Index, numbers: Sequence[int]) -> Iterator[str]:
    """Yield counts and names, then the most frequent errors and the slowest calls."""
    failures: dict[tuple[str, str], _Failure] = {}
    durations_by_title: dict[tuple[str, str], list[tuple[float, int]]] = {}
    peers = dict[str, None]()
    servers = dict[str, None]()
    count = 0
    start, end = inf, 0.0
    for exchange in map(index.exchange, numbers):
        peers[exchange.peer] = None
        servers[exchange.server] = None
        start = min(start, exchange.started)
        end = max(end, exchange.ended or exchange.started)
        if exchange.part_of is not None:
            continue
        count += 1
        title = title_of(exchange)
        if exchange.kind is ExchangeKind.REQUEST and exchange.ended is not None:
            has_response = exchange.response is not None
            seconds = index.table.server_s[exchange.number] if has_response else exchange.elapsed(0)
            durations_by_title.setdefault((title, exchange.peer), []).append((seconds, exchange.number))
        if exchange.status in FAILED:
            message = summary(index, exchange).result or exchange.status.value
            key = (title, str(pattern_of(message, frozenset())))
            failures.setdefault(key, _Failure(exchange, message)).add(exchange)
    if not numbers:
        return
    failed_count = sum(failure.count for failure in failures.values())
    counts = f"{count:,} exchange{'' if count == 1 else 's'}, {failed_count:,} failed"
    yield f"{counts}, from {time_text(start)} to {time_text(end)}. "
    yield f"Clients: {_plain(_joined(peers))}. Servers: {_plain(_joined(servers))}.\n\n"
    if failures:
        yield "## Errors\n\n| message | error | count | first # | clients |\n"
        yield "| --- | --- | --: | --- | --- |\n"
        most_frequent = sorted(failures.items(), key=lambda item: -item[1].count)
        for (title, _), failure in most_frequent[:_MAX_ROWS]:
            cells = [
                title,
                _shortened(failure.message),
                f"{failure.count:,}",
                f"{failure.first.number} at {moment_of(failure.first)}",
                _joined(failure.peers),
            ]
            yield _cells(cells)
        yield _left_out(len(most_frequent))
    if durations_by_title:
        yield "## Slowest exchanges, without waiting for people and clients\n\n"
        yield "| message | client | count | median | longest | # |\n"
        yield "| --- | --- | --: | --: | --: | --: |\n"
        slowest = sorted(durations_by_title.items(), key=lambda item: max(item[1]), reverse=True)
        for (title, peer), durations in slowest[:_MAX_ROWS]:
            longest_s, number = max(durations)
            median_s = median(seconds for seconds, _ in durations)
            yield _cells([title, peer, f"{len(durations):,}", _ms(median_s), _ms(longest_s), str(number)])
        yield _left_out(len(slowest))


class _Failure:
    """Exchanges that failed with the same error."""

    def __init__(self, first: Exchange, message: str) -> None:
        self.first = first
        self.message = message
        self.count = 0
        self.peers: dict[str, None] = {}

    def add(self, exchange: Exchange) -> None:
        self.count += 1
        self.peers[exchange.peer] = None


def _joined(names: Iterable[str]) -> str:
    """Join the first `_MAX_NAMES` names. Append the number of the others."""
    known_names = [name for name in names if name]
    more = f" and {len(known_names) - _MAX_NAMES} more" if len(known_names) > _MAX_NAMES else ""
    return ", ".join(known_names[:_MAX_NAMES]) + more


def _left_out(row_count: int) -> str:
    """Return the text below a table with `row_count` rows, of which only `_MAX_ROWS` are written."""
    note = f"\n{row_count - _MAX_ROWS:,} more are left out.\n" if row_count > _MAX_ROWS else ""
    return f"{note}\n"


def _shortened(text: str) -> str:
    text = clean(text, newlines=False)
    return text if len(text) <= _MAX_CELL_LENGTH else f"{text[: _MAX_CELL_LENGTH - 1]}…"


def _exchange_section(index: Index, exchange: Exchange, log_lines_of: LogLinesOf) -> Iterator[str]:
    """Yield the section of one exchange: messages, decisions at the desk, and log lines of the call."""
    yield f"\n## {exchange.number}. {_plain(title_of(exchange))}\n\n{_plain(heading(exchange))}\n"
    for title, frame in (("Request", exchange.request), ("Response", exchange.response)):
        if frame is not None:
            yield from _message_section(index, exchange, title, frame)
    for outcome in held_messages(index, exchange):
        yield f"\n{_plain(held_line(outcome))}\n"
        for title, value in (("It was", outcome.was), ("Changed to", outcome.now)):
            if value is not None:
                yield f"\n{title}:\n\n{_fenced(value)}"
    if lines := log_lines_of(exchange):
        text = log_text(index, lines)
        fence = _fence(text)
        yield f"\nLog of the call:\n\n{fence}text\n{text}\n{fence}\n"


def _message_section(index: Index, exchange: Exchange, title: str, frame: int) -> Iterator[str]:
    value, problem = message(index, exchange, frame)
    yield f"\n{title}{f' ({_plain(problem)})' if problem else ''}:\n\n"
    if http_note := http(index, exchange, frame):
        lines = "\n".join(
            clean(line) for line in (http_note[0], *(f"{name}: {value}" for name, value in http_note[1]))
        )
        fence = _fence(lines)
        yield f"{fence}http\n{lines}\n{fence}\n\n"
    yield _fenced(value)


def _fenced(value: Any) -> str:
    """Return a value as a code block, shortened."""
    text = pretty(value)
    if len(text) > _MAX_MESSAGE_LENGTH:
        text = f"{text[:_MAX_MESSAGE_LENGTH]}\n… {len(text) - _MAX_MESSAGE_LENGTH:,} more characters"
    fence = _fence(text)
    return f"{fence}json\n{text}\n{fence}\n"


def _fence(text: str) -> str:
    return "`" * max(3, _longest_run(text) + 1)


def _gap_row(gap: Gap) -> str:
    return f"| | | | {_plain(gap_in_words(gap))} | | | | |\n"


def _row(index: Index, exchange: Exchange) -> str:
    """Return the row of an exchange in the table."""
    duration = "" if exchange.ended is None else _ms(exchange.elapsed(0))
    texts = summary(index, exchange)
    answer_text = f"→ {_shortened(texts.result)}" if texts.result else ""
    cells = [
        str(exchange.number),
        moment_of(exchange),
        exchange.peer,
        " ".join(filter(None, (title_of(exchange), _shortened(texts.arguments), answer_text))),
        "" if exchange.id is None else str(exchange.id),
        exchange.status.value,
        duration,
        str(exchange.size),
    ]
    return _cells(cells)


def _cells(cells: Iterable[str]) -> str:
    return "| " + " | ".join(_plain(cell) for cell in cells) + " |\n"


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:,.1f} ms"


def _plain(text: str) -> str:
    """Return text that cannot break out of a Markdown table or heading."""
    line = clean(" ".join(text.split()), newlines=False)
    return line.replace("|", "\\|").replace("<", "&lt;").replace("`", "'")


def _longest_run(text: str) -> int:
    """Return the length of the longest run of backticks."""
    return max(map(len, re.findall("`+", text)), default=0)
