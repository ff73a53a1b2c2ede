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


def report(index: Index, numbers: Iterable[int], logged: LogLinesOf = no_log_lines) -> Iterator[bytes]:
    """Yield a Markdown report: errors, slow calls, a table of the exchanges, then each exchange."""
    return (piece.encode("utf-8", "replace") for piece in _report(index, numbers, logged))


def as_markdown(index: Index, number: int, logged: LogLinesOf = no_log_lines) -> str:
    """Return one exchange and its parts as Markdown sections, for an issue."""
    parts = (_section_of(index, index.exchange(one), logged) for one in with_parts(index, [number]))
    return "\n".join("".join(pieces).strip() + "\n" for pieces in parts)


def _report(index: Index, numbers: Iterable[int], logged: LogLinesOf) -> Iterator[str]:
    chosen = list(with_gaps(index, numbers))
    yield "# MCP traffic\n\n"
    yield from _overview(index, [one for one in chosen if isinstance(one, int)])
    yield "## Exchanges\n\n| # | time | peer | message | id | status | took | bytes |\n"
    yield "| --: | --- | --- | --- | --- | --- | --: | --: |\n"
    for one in chosen:
        yield _gap_row(one) if isinstance(one, Gap) else _row(index, index.exchange(one))
    for one in chosen:
        if isinstance(one, Gap):
            yield f"\n**{_plain(gap_in_words(one))}**\n"
        else:
            yield from _section_of(index, index.exchange(one), logged)


def _overview(index: Index, numbers: Sequence[int]) -> Iterator[str]:
    """Yield counts and names, then the most frequent errors and the slowest calls."""
    failures: dict[tuple[str, str], _Failure] = {}
    times: dict[tuple[str, str], list[tuple[float, int]]] = {}
    peers, servers, count = dict[str, None](), dict[str, None](), 0
    began, ended = inf, 0.0
    for one in map(index.exchange, numbers):
        peers[one.peer], servers[one.server] = None, None
        began, ended = min(began, one.started), max(ended, one.ended or one.started)
        if one.part_of is not None:
            continue
        count += 1
        title = title_of(one)
        if one.kind is ExchangeKind.REQUEST and one.ended is not None:
            seconds = one.elapsed(0) if one.response is None else index.table.server_s[one.number]
            times.setdefault((title, one.peer), []).append((seconds, one.number))
        if one.status in FAILED:
            message = summary(index, one).result or one.status.value
            kind = (title, str(pattern_of(message, frozenset())))
            failures.setdefault(kind, _Failure(one, message)).add(one)
    if not numbers:
        return
    failed = sum(one.count for one in failures.values())
    counts = f"{count:,} exchange{'' if count == 1 else 's'}, {failed:,} failed"
    yield f"{counts}, from {time_text(began)} to {time_text(ended)}. "
    yield f"Clients: {_plain(_some(peers))}. Servers: {_plain(_some(servers))}.\n\n"
    if failures:
        yield "## Errors\n\n| message | error | count | first # | clients |\n"
        yield "| --- | --- | --: | --- | --- |\n"
        ranked = sorted(failures.items(), key=lambda item: -item[1].count)
        for (title, _), group_calls in ranked[:_MAX_ROWS]:
            first = f"{group_calls.first.number} at {moment_of(group_calls.first)}"
            cells = [
                title,
                _shortened(group_calls.message),
                f"{group_calls.count:,}",
                first,
                _some(group_calls.peers),
            ]
            yield _cells(cells)
        yield _left_out(len(ranked))
    if times:
        yield "## Slowest exchanges, without waiting for people and clients\n\n"
        yield "| message | client | count | median | longest | # |\n"
        yield "| --- | --- | --: | --: | --: | --: |\n"
        slowest = sorted(times.items(), key=lambda item: max(item[1]), reverse=True)
        for (title, peer), took in slowest[:_MAX_ROWS]:
            longest, number = max(took)
            middle = median(seconds for seconds, _ in took)
            yield _cells([title, peer, f"{len(took):,}", _ms(middle), _ms(longest), str(number)])
        yield _left_out(len(slowest))


class _Failure:
    """Exchanges that failed in the same way."""

    def __init__(self, first: Exchange, message: str) -> None:
        self.first = first
        self.message = message
        self.count = 0
        self.peers: dict[str, None] = {}

    def add(self, one: Exchange) -> None:
        self.count += 1
        self.peers[one.peer] = None


def _some(names: Iterable[str]) -> str:
    shown = [name for name in names if name]
    more = f" and {len(shown) - _MAX_NAMES} more" if len(shown) > _MAX_NAMES else ""
    return ", ".join(shown[:_MAX_NAMES]) + more


def _left_out(rows: int) -> str:
    more = f"\n{rows - _MAX_ROWS:,} more are left out.\n" if rows > _MAX_ROWS else ""
    return f"{more}\n"


def _shortened(text: str) -> str:
    text = clean(text, newlines=False)
    return text if len(text) <= _MAX_CELL_LENGTH else f"{text[: _MAX_CELL_LENGTH - 1]}…"


def _section_of(index: Index, exchange: Exchange, logged: LogLinesOf) -> Iterator[str]:
    """Yield the section of one exchange: messages, outcomes at the desk, and log lines of its code."""
    yield f"\n## {exchange.number}. {_plain(title_of(exchange))}\n\n{_plain(heading(exchange))}\n"
    for title, frame in (("Request", exchange.request), ("Response", exchange.response)):
        if frame is not None:
            yield from _section(index, exchange, title, frame)
    for outcome in held_messages(index, exchange):
        yield f"\n{_plain(held_line(outcome))}\n"
        for title, value in (("It was", outcome.was), ("Changed to", outcome.now)):
            if value is not None:
                yield f"\n{title}:\n\n{_fenced(value)}"
    if lines := logged(exchange):
        text = log_text(index, lines)
        fence = _fence(text)
        yield f"\nLog of the call:\n\n{fence}text\n{text}\n{fence}\n"


def _section(index: Index, exchange: Exchange, title: str, frame: int) -> Iterator[str]:
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
    took = "" if exchange.ended is None else _ms(exchange.elapsed(0))
    texts = summary(index, exchange)
    answer_text = f"→ {_shortened(texts.result)}" if texts.result else ""
    cells = [
        str(exchange.number),
        moment_of(exchange),
        exchange.peer,
        " ".join(filter(None, (title_of(exchange), _shortened(texts.arguments), answer_text))),
        "" if exchange.id is None else str(exchange.id),
        exchange.status.value,
        took,
        str(exchange.size),
    ]
    return _cells(cells)


def _cells(cells: Iterable[str]) -> str:
    return "| " + " | ".join(_plain(cell) for cell in cells) + " |\n"


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:,.1f} ms"


def _plain(text: str) -> str:
    """Return text that cannot break out of a Markdown table or heading."""
    words = clean(" ".join(text.split()), newlines=False)
    return words.replace("|", "\\|").replace("<", "&lt;").replace("`", "'")


def _longest_run(text: str) -> int:
    """Return the length of the longest run of backticks."""
    return max(map(len, re.findall("`+", text)), default=0)
