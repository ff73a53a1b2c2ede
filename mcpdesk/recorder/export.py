"""Exports of exchanges: JSON Lines, a Markdown report, an HTTP archive, text, curl commands.

Secrets are masked. Source: HAR 1.2. Values that the recorder does not know are written as the format
requires: -1 for sizes, 0 for phases.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from math import inf
from statistics import median
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import orjson

from mcpdesk.plain_text import clean, harmless, json_escaped
from mcpdesk.protocol import codec
from mcpdesk.recorder import exchange_summary
from mcpdesk.recorder.index.call_lookup import SaidLine
from mcpdesk.recorder.index.exchange import FAILED, Exchange, ExchangeKind
from mcpdesk.recorder.index.traffic_index import Index, gap_in_words, gaps_in_words, with_gaps
from mcpdesk.recorder.masking import mask_text
from mcpdesk.recorder.readable_message import HoldOutcome, held_messages, http, message
from mcpdesk.recorder.record import Direction, Gap
from mcpdesk.recorder.varying_values import pattern_of
from mcpdesk.version import __version__

_PRETTY = orjson.OPT_INDENT_2
_OWN_HEADERS = frozenset({"host", "content-length", "connection", "accept-encoding", "user-agent"})
"""Headers that curl sends by itself."""
_STATELESS_FROM = "2026"
_MOST_NOTIFICATIONS = 1_000
"""Maximum notifications that are written with one exchange."""
MOST_LOGGED = 200
"""Maximum log lines of one call; the last ones are written."""
_LONGEST = 4000
"""Maximum characters of one message in a report."""
_LONGEST_CELL = 120
"""Maximum characters of arguments, results and errors in a table of a report."""
_MOST_ROWS = 20
"""Maximum rows of the tables of errors and of slow calls in a report."""
_MOST_NAMES = 5


Logged = Callable[[Exchange], Sequence[SaidLine]]
"""Returns the log lines that the code of a call wrote."""


def nothing_logged(_: Exchange) -> Sequence[SaidLine]:
    """Return no log lines."""
    return ()


def as_dict(index: Index, number: int, logged: Logged = nothing_logged) -> dict[str, Any]:
    """Return all data of an exchange as a JSON object; times are Unix seconds, `took_ms` milliseconds."""
    exchange = index.exchange(number)
    record: dict[str, Any] = {
        "number": number,
        "time": exchange.started,
        "kind": exchange.kind.value,
        "server": exchange.server,
        "peer": exchange.peer,
        "direction": exchange.direction.name.lower(),
        "method": exchange.method,
        "name": exchange.name if index.reveals_secrets else mask_text(exchange.name),
        "id": exchange.id,
        "status": exchange.status.value,
        "took_ms": None if exchange.ended is None else round(exchange.elapsed(0) * 1000, 3),
        "size": exchange.size,
        "revision": exchange.revision,
    }
    if exchange.whole is not None:
        record["part_of"] = exchange.whole
    for side, frame in (("request", exchange.request), ("response", exchange.response)):
        if frame is not None:
            record[side] = _side(index, exchange, frame)
    if held := held_messages(index, exchange):
        record["held"] = [
            {
                "side": one.side,
                "how": one.how,
                "seconds": round(one.held_s, 3),
                "was": one.was,
                "now": one.now,
            }
            for one in held
        ]
    if lines := logged(exchange):
        record["log"] = [
            {"time": line.time, "level": line.level, "text": _line_text(index, line), "where": line.where}
            for line in lines[-MOST_LOGGED:]
        ]
    if exchange.notifications:
        shown = exchange.notifications[:_MOST_NOTIFICATIONS]
        record["notifications"] = [message(index, exchange, frame).value for frame in shown]
        if more := len(exchange.notifications) - len(shown):
            record["notifications_left_out"] = more
    return record


def with_parts(index: Index, numbers: Iterable[int]) -> list[int]:
    """Return the exchanges and their parts, in ascending order."""
    return sorted({row for number in numbers for row in (number, *index.exchange(number).parts)})


def json_lines(index: Index, numbers: Iterable[int], logged: Logged = nothing_logged) -> Iterator[bytes]:
    """Yield one line per exchange and per gap, including the newline."""
    for one in with_gaps(index, numbers):
        record = _gap(one) if isinstance(one, Gap) else as_dict(index, one, logged)
        yield _escaped(codec.dumps(record, option=orjson.OPT_APPEND_NEWLINE, default=str))


def as_json(index: Index, number: int, logged: Logged = nothing_logged) -> str:
    """Return one exchange as indented JSON, including its parts."""
    record = as_dict(index, number, logged)
    if parts := index.exchange(number).parts:
        record["parts"] = [as_dict(index, part, logged) for part in parts]
    return _escaped(codec.dumps(record, option=_PRETTY, default=str)).decode()


def as_text(index: Index, number: int, logged: Logged = nothing_logged) -> str:
    """Return one exchange and its parts as text, each with a heading, for a chat or an email."""
    pieces = []
    for one in map(index.exchange, with_parts(index, [number])):
        pieces.append(summary(one))
        for title, frame in (("request", one.request), ("response", one.response)):
            if frame is not None:
                value, problem = message(index, one, frame)
                pieces.append(f"{title}{f' ({_plain(problem)})' if problem else ''}:\n{_pretty(value)}")
        for held in held_messages(index, one):
            changed = f":\n{_pretty(held.now)}" if held.now is not None else ""
            pieces.append(f"{_held_line(held)}{changed}")
        if lines := logged(one):
            pieces.append(f"log of the call:\n{_log_text(index, lines)}")
    return "\n\n".join(pieces)


def report(index: Index, numbers: Iterable[int], logged: Logged = nothing_logged) -> Iterator[bytes]:
    """Yield a Markdown report: errors, slow calls, a table of the exchanges, then each exchange."""
    return (piece.encode("utf-8", "replace") for piece in _report(index, numbers, logged))


def as_markdown(index: Index, number: int, logged: Logged = nothing_logged) -> str:
    """Return one exchange and its parts as Markdown sections, for an issue."""
    parts = (_section_of(index, index.exchange(one), logged) for one in with_parts(index, [number]))
    return "\n".join("".join(pieces).strip() + "\n" for pieces in parts)


def curl(
    index: Index, number: int, url: str = "", headers: Mapping[str, str] | None = None, schema: Any = None
) -> str:
    """Return the request of an exchange as a curl command.

    `url` and `headers` are used if the exchange did not use HTTP; otherwise the request is repeated as
    recorded. `schema` is the input schema of the called tool; values that it marks as secret are masked too.
    """
    exchange = index.exchange(number)
    frame = exchange.request if exchange.request is not None else exchange.response
    if frame is None:
        return ""
    body = message(index, exchange, frame, schema).value
    said = http(index, exchange, frame)
    if said is None:
        pairs = {**_headers(exchange, body), **(headers or {})}
        return _command("POST", url or "http://127.0.0.1:3333/mcp", pairs.items(), body)
    line, given = said
    method, _, rest = line.partition(" ")
    path = rest.rpartition(" ")[0] or rest
    host = next((value for name, value in given if name.lower() == "host"), "127.0.0.1:3333")
    kept = [pair for pair in given if pair[0].lower() not in _OWN_HEADERS]
    return _command(method, f"http://{host}{path}", kept, body)


def curl_commands(index: Index, numbers: Iterable[int]) -> Iterator[bytes]:
    """Yield requests of clients as curl commands, each below a comment that identifies it."""
    for number in numbers:
        one = index.exchange(number)
        if one.kind is ExchangeKind.REQUEST and one.direction is Direction.IN and one.request is not None:
            told = clean(" ".join(summary(one).split()), newlines=False)
            yield f"# {number}. {told}\n{curl(index, number)}\n\n".encode("utf-8", "replace")


def summary(exchange: Exchange) -> str:
    """Return one line with peer, server, message, status and duration."""
    arrow = "→" if exchange.direction is Direction.IN else "←"
    took = "" if exchange.ended is None else f", {exchange.elapsed(0) * 1000:.1f} ms"
    revision = f", {exchange.revision}" if exchange.revision else ""
    ends = f"{exchange.peer} {arrow} {exchange.server or 'server'}"
    title = f"{ends}  {_title(exchange)}"
    return clean(f"{_moment(exchange)}  {title}  {exchange.status}{took}{revision}", newlines=False)


def _report(index: Index, numbers: Iterable[int], logged: Logged) -> Iterator[str]:
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
    peers, servers, whole = dict[str, None](), dict[str, None](), 0
    began, ended = inf, 0.0
    for one in map(index.exchange, numbers):
        peers[one.peer], servers[one.server] = None, None
        began, ended = min(began, one.started), max(ended, one.ended or one.started)
        if one.whole is not None:
            continue
        whole += 1
        title = _title(one)
        if one.kind is ExchangeKind.REQUEST and one.ended is not None:
            seconds = one.elapsed(0) if one.response is None else index.table.pace[one.number]
            times.setdefault((title, one.peer), []).append((seconds, one.number))
        if one.status in FAILED:
            message = exchange_summary.summary(index, one).answered or one.status.value
            kind = (title, str(pattern_of(message, frozenset())))
            failures.setdefault(kind, _Failure(one, message)).add(one)
    if not numbers:
        return
    failed = sum(one.count for one in failures.values())
    counts = f"{whole:,} exchange{'' if whole == 1 else 's'}, {failed:,} failed"
    yield f"{counts}, from {_time_text(began)} to {_time_text(ended)}. "
    yield f"Clients: {_plain(_some(peers))}. Servers: {_plain(_some(servers))}.\n\n"
    if failures:
        yield "## Errors\n\n| message | error | count | first # | clients |\n"
        yield "| --- | --- | --: | --- | --- |\n"
        ranked = sorted(failures.items(), key=lambda item: -item[1].count)
        for (title, _), found in ranked[:_MOST_ROWS]:
            first = f"{found.first.number} at {_moment(found.first)}"
            cells = [title, _shortened(found.message), f"{found.count:,}", first, _some(found.peers)]
            yield _cells(cells)
        yield _left_out(len(ranked))
    if times:
        yield "## Slowest exchanges, without waiting for people and clients\n\n"
        yield "| message | client | count | median | longest | # |\n"
        yield "| --- | --- | --: | --: | --: | --: |\n"
        slowest = sorted(times.items(), key=lambda item: max(item[1]), reverse=True)
        for (title, peer), took in slowest[:_MOST_ROWS]:
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
    more = f" and {len(shown) - _MOST_NAMES} more" if len(shown) > _MOST_NAMES else ""
    return ", ".join(shown[:_MOST_NAMES]) + more


def _left_out(rows: int) -> str:
    more = f"\n{rows - _MOST_ROWS:,} more are left out.\n" if rows > _MOST_ROWS else ""
    return f"{more}\n"


def _shortened(text: str) -> str:
    text = clean(text, newlines=False)
    return text if len(text) <= _LONGEST_CELL else f"{text[: _LONGEST_CELL - 1]}…"


def _section_of(index: Index, exchange: Exchange, logged: Logged) -> Iterator[str]:
    """Yield the section of one exchange: messages, outcomes at the desk, and log lines of its code."""
    yield f"\n## {exchange.number}. {_plain(_title(exchange))}\n\n{_plain(summary(exchange))}\n"
    for title, frame in (("Request", exchange.request), ("Response", exchange.response)):
        if frame is not None:
            yield from _section(index, exchange, title, frame)
    for held in held_messages(index, exchange):
        yield f"\n{_plain(_held_line(held))}\n"
        for title, value in (("It was", held.was), ("Changed to", held.now)):
            if value is not None:
                yield f"\n{title}:\n\n{_fenced(value)}"
    if lines := logged(exchange):
        text = _log_text(index, lines)
        fence = _fence(text)
        yield f"\nLog of the call:\n\n{fence}text\n{text}\n{fence}\n"


def _log_text(index: Index, lines: Sequence[SaidLine]) -> str:
    """Return the last lines, each below a heading with time, level and location."""
    shown = lines[-MOST_LOGGED:]
    left = [f"… {len(lines) - len(shown):,} lines before these"] if len(shown) < len(lines) else []
    told = []
    for line in shown:
        heading = "  ".join(filter(None, (_time_text(line.time), line.level, line.where)))
        told.append(f"{clean(heading)}\n{_line_text(index, line)}")
    return "\n".join([*left, *told])


def _line_text(index: Index, line: SaidLine) -> str:
    text = clean(line.text)
    return text if index.reveals_secrets else mask_text(text)


def _side(index: Index, exchange: Exchange, frame: int) -> dict[str, Any]:
    value, problem = message(index, exchange, frame)
    side: dict[str, Any] = {"message": value}
    if problem:
        side["problem"] = problem
    if said := http(index, exchange, frame):
        side["http"] = {"line": said[0], "headers": said[1]}
    return side


def _section(index: Index, exchange: Exchange, title: str, frame: int) -> Iterator[str]:
    value, problem = message(index, exchange, frame)
    yield f"\n{title}{f' ({_plain(problem)})' if problem else ''}:\n\n"
    if said := http(index, exchange, frame):
        lines = "\n".join(clean(line) for line in (said[0], *(f"{name}: {value}" for name, value in said[1])))
        fence = _fence(lines)
        yield f"{fence}http\n{lines}\n{fence}\n\n"
    yield _fenced(value)


def _fenced(value: Any) -> str:
    """Return a value as a code block, shortened."""
    text = _pretty(value)
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]}\n… {len(text) - _LONGEST:,} more characters"
    fence = _fence(text)
    return f"{fence}json\n{text}\n{fence}\n"


def _fence(text: str) -> str:
    return "`" * max(3, _longest_run(text) + 1)


def _held_line(held: HoldOutcome) -> str:
    """Return a sentence about the outcome of a held message."""
    return clean(f"At the desk the {held.side} was held for {held.held_s:.1f} s: {held.how}", newlines=False)


def _gap(gap: Gap) -> dict[str, Any]:
    return {"kind": "gap", "frames": gap.frames, "why": gap.why}


def _gap_row(gap: Gap) -> str:
    return f"| | | | {_plain(gap_in_words(gap))} | | | | |\n"


def _row(index: Index, exchange: Exchange) -> str:
    took = "" if exchange.ended is None else _ms(exchange.elapsed(0))
    said = exchange_summary.summary(index, exchange)
    answered = f"→ {_shortened(said.answered)}" if said.answered else ""
    cells = [
        str(exchange.number),
        _moment(exchange),
        exchange.peer,
        " ".join(filter(None, (_title(exchange), _shortened(said.asked), answered))),
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


def _title(exchange: Exchange) -> str:
    return f"{exchange.method or exchange.kind} {mask_text(exchange.name)}".strip()


def _moment(exchange: Exchange) -> str:
    return _time_text(exchange.started)


def _time_text(moment: float) -> str:
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds")


def _pretty(value: Any) -> str:
    """Return a message as text, with unsafe characters escaped in JSON."""
    text = value if isinstance(value, str) else codec.dumps(value, option=_PRETTY).decode()
    return harmless(text)


def _escaped(data: bytes) -> bytes:
    """Return JSON with characters that are unsafe on a terminal escaped."""
    return data if data.isascii() and b"\x7f" not in data else json_escaped(data.decode()).encode()


def _plain(text: str) -> str:
    """Return text that cannot break out of a Markdown table or heading."""
    words = clean(" ".join(text.split()), newlines=False)
    return words.replace("|", "\\|").replace("<", "&lt;").replace("`", "'")


def _longest_run(text: str) -> int:
    """Return the length of the longest run of backticks."""
    return max(map(len, re.findall("`+", text)), default=0)


def _headers(exchange: Exchange, body: Any) -> dict[str, str]:
    """Return the headers that an HTTP client of the same revision would send."""
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    if exchange.revision >= _STATELESS_FROM and isinstance(body, dict):
        headers |= {"MCP-Protocol-Version": exchange.revision, "Mcp-Method": exchange.method}
        if exchange.name:
            headers["Mcp-Name"] = mask_text(exchange.name)
    return headers


def _command(method: str, url: str, headers: Iterable[tuple[str, str]], body: Any) -> str:
    lines = [f"curl -X {shlex.quote(clean(method))} {shlex.quote(clean(url, newlines=False))}"]
    lines += [f"  -H {shlex.quote(clean(f'{name}: {value}', newlines=False))}" for name, value in headers]
    if body not in ("", None):
        text = body if isinstance(body, str) else codec.dumps(body).decode()
        lines.append(f"  --data {shlex.quote(harmless(text))}")
    return " \\\n".join(lines)


Pairs = tuple[tuple[str, str], ...]

_HAR_START = b'{"log":{"version":"1.2","creator":{"name":"mcpdesk","version":"%b"},"comment":%b,"entries":['


def posted(index: Index, numbers: Iterable[int]) -> list[int]:
    """Return the numbers of exchanges whose request came over HTTP."""
    asked = ((number, index.exchange(number).request) for number in numbers)
    return [number for number, frame in asked if frame is not None and index.note(frame) is not None]


def har(index: Index, numbers: Iterable[int]) -> Iterator[bytes]:
    """Yield an HTTP archive with one entry for each exchange that passed over HTTP."""
    yield _HAR_START % (__version__.encode(), _escaped(codec.dumps(gaps_in_words(index))))
    comma = b"\n"
    for number in posted(index, numbers):
        exchange = index.exchange(number)
        yield comma + _escaped(codec.dumps(_har_entry(index, exchange), default=str))
        comma = b",\n"
    yield b"\n]}}\n"


def _har_entry(index: Index, exchange: Exchange) -> dict[str, Any]:
    kept = None if exchange.response is None else index.frame(exchange.response)
    ended = kept.time if kept else exchange.ended
    took_ms = 0.0 if ended is None else max(0.0, round((ended - exchange.started) * 1000, 3))
    return {
        "startedDateTime": _moment(exchange),
        "time": took_ms,
        "request": _har_request(index, exchange),
        "response": _har_response(index, exchange),
        "cache": {},
        "timings": {"send": 0, "wait": took_ms, "receive": 0},
        "comment": "; ".join(
            [
                f"{exchange.peer}: {exchange.method} {mask_text(exchange.name)}".strip(),
                *map(_held_line, held_messages(index, exchange)),
            ]
        ),
    }


def _har_request(index: Index, exchange: Exchange) -> dict[str, Any]:
    assert exchange.request is not None
    line, headers = http(index, exchange, exchange.request) or ("", ())
    method, _, rest = line.partition(" ")
    path, _, version = rest.rpartition(" ")
    body, said = _har_body(index, exchange, exchange.request)
    return {
        "method": method,
        "url": f"http://{_header(headers, 'host') or 'localhost'}{path}",
        "httpVersion": version,
        **_har_common(headers, body, said),
        "queryString": [{"name": name, "value": value} for name, value in parse_qsl(_query(path), True)],
        "postData": {"mimeType": _header(headers, "content-type"), "text": body},
    }


def _har_response(index: Index, exchange: Exchange) -> dict[str, Any]:
    """Return the response; its status is 0, as in browsers, if the response is missing or unknown."""
    frame = exchange.response
    line, headers = (http(index, exchange, frame) if frame is not None else None) or ("", ())
    version, _, rest = line.partition(" ")
    status, _, words = rest.partition(" ")
    body, said = ("", "") if frame is None else _har_body(index, exchange, frame)
    content = {"size": len(body.encode("utf-8", "replace")), "text": body}
    return {
        "status": int(status) if len(status) == 3 and status.isdecimal() else 0,
        "statusText": words,
        "httpVersion": version,
        **_har_common(headers, body, said),
        "content": {**content, "mimeType": _header(headers, "content-type") or "application/json"},
        "redirectURL": "",
    }


def _har_common(headers: Pairs, body: str, comment: str) -> dict[str, Any]:
    return {
        **({"comment": comment} if comment else {}),
        "cookies": [],
        "headers": [{"name": name, "value": value} for name, value in headers],
        "headersSize": -1,
        "bodySize": len(body.encode("utf-8", "replace")),
    }


def _har_body(index: Index, exchange: Exchange, frame: int) -> tuple[str, str]:
    """Return the body as far as it was kept, and a comment on missing parts."""
    value, problem = message(index, exchange, frame)
    return value if isinstance(value, str) else codec.dumps(value, default=str).decode(), problem


def _header(headers: Pairs, wanted: str) -> str:
    return next((value for name, value in headers if name.lower() == wanted), "")


def _query(path: str) -> str:
    try:
        return urlsplit(path).query
    except ValueError:
        return ""
