"""Report of a check-up as lines of text, for the shell and the screen."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rich.cells import cell_len

from mcpdesk.cli.printing import aligned
from mcpdesk.features.doctor.report import (
    CheckState,
    ClientBudget,
    Duplicate,
    LoginState,
    Report,
    ServerReport,
)
from mcpdesk.plain_text import clean

HEADERS = ("server", "state", "start", "revision", "other era", "tools", "tokens", "login", "lock")
HIDING_ORDER = ("other era", "start", "lock", "tokens", "revision", "tools", "login")
"""Columns that are hidden if the table is too wide, in the order in which they are hidden."""
_STATES = {
    CheckState.NOT_TRUSTED: "not started: not trusted",
    CheckState.UNUSABLE: "not started: unusable",
    CheckState.ONLY_IN_CLIENT: "not started: only in client",
    CheckState.DISABLED: "not started: disabled",
}
_LOGINS = {
    LoginState.NONE: "no login",
    LoginState.RENEWABLE: "expired, renewable",
    LoginState.EXPIRED: "expired",
    LoginState.HEADER: "own header",
}
TRUST_COMMAND = "mcpdesk trust "
MAX_TARGET_LENGTH = 60
MAX_ANSWER_LENGTH = 24


def report_lines(report: Report) -> list[str]:
    """Return the whole report. The lines contain no unsafe characters."""
    table = table_lines(report)
    return [*table, *([""] if table else []), *note_lines(report)]


def table_lines(
    report: Report, max_target_length: int = MAX_TARGET_LENGTH, max_width: int | None = None
) -> list[str]:
    """Return the titles and a line for each server, or [] without servers.

    If the lines would be wider than `max_width` cells, some columns are left out.
    """
    rows = [HEADERS, *(_row(each, max_target_length) for each in report.servers)]
    lines = list(aligned(rows)) if report.servers else []
    if max_width is None:
        return lines
    is_empty = {name: not any(cells) for name, *cells in zip(*rows, strict=True)}
    hiding_order = sorted(HIDING_ORDER, key=lambda name: not is_empty[name])  # empty columns first
    while hiding_order and any(cell_len(line.rstrip()) > max_width for line in lines):
        column = rows[0].index(hiding_order.pop(0))
        rows = [(*row[:column], *row[column + 1 :]) for row in rows]
        lines = list(aligned(rows))
    return lines


def fact_lines(report: Report) -> Iterator[tuple[str, str]]:
    """Yield two lines for each server: its name and state, and all other columns with its entry."""
    for server in report.servers:
        target, state, *cells = _row(server, len(server.target))
        facts = (f"{name} {cell}" for name, cell in zip(HEADERS[2:], cells, strict=True) if cell)
        entry = (clean(text, newlines=False) for text in (server.address, server.file) if text)
        yield f"{target}: {state}", " · ".join((*facts, *entry))


def note_lines(report: Report) -> list[str]:
    """Return the lines below the table. The last line is the summary."""
    paragraphs = [*map(list, _paragraphs(report)), [_summary(report)]]
    lines = [line for paragraph in paragraphs if paragraph for line in (*paragraph, "")][:-1]
    return [clean(line, newlines=False) for line in lines]


def _paragraphs(report: Report) -> Iterator[Iterable[str]]:
    """Yield the lines of each paragraph below the table. A paragraph may be empty."""
    yield (f"{each.client}: {each.file} cannot be read: {each.reason}" for each in report.problems)
    for each in report.servers:
        yield _fault_lines(each)
    yield _untrusted_lines(report.servers)
    yield _grouped(
        (each.target, f"unsafe: {setting.message}. {setting.hint}")
        for each in report.servers
        for setting in each.unsafe
    )
    yield (line for each in report.servers for line in _lock_lines(each))
    yield _grouped((each.target, f"note: {remark}") for each in report.servers for remark in each.remarks)
    yield (line for each in report.duplicates for line in _duplicate_lines(each))
    yield aligned([_budget_row(each) for each in report.clients if each.uncounted < each.servers])
    yield (f"{client}: its tools have more tokens than --max-tokens allows" for client in report.over_budget)


def _grouped(texts: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield a line for each text, with all targets that it is about."""
    targets = dict[str, list[str]]()
    for target, text in texts:
        targets.setdefault(text, []).append(target)
    yield from (f"{', '.join(targets_of_text)}: {text}" for text, targets_of_text in targets.items())


def _fault_lines(server: ServerReport) -> Iterator[str]:
    if server.state in (CheckState.FAILED, CheckState.UNUSABLE):
        yield f"{server.target}: {server.reason}"
        if server.hint:
            yield f"  {server.hint}"
        yield from (f"  stderr: {line}" for line in server.stderr)


def _untrusted_lines(servers: Sequence[ServerReport]) -> Iterator[str]:
    """Yield the command that trusts a file, once for each file."""
    untrusted = [each for each in servers if each.state is CheckState.NOT_TRUSTED]
    counts = Counter(each.hint for each in untrusted)
    for hint, count in counts.items():
        reason = next((f" ({each.reason})" for each in untrusted if each.hint == hint and each.reason), "")
        yield f"{_count(count, 'server')} not trusted{reason}. Read and trust the file: {hint}"
    if len(counts) > 1:
        files = " ".join(hint.removeprefix(TRUST_COMMAND) for hint in counts)
        yield f"To read and trust them one after the other: {TRUST_COMMAND}{files}"


def _duplicate_lines(duplicate: Duplicate) -> Iterator[str]:
    names = ", ".join(duplicate.targets)
    equality_note = "" if duplicate.differences else ", with equal entries"
    yield f"{names} are the same server {duplicate.server}{equality_note}"
    yield from (f"  {each.kind}: {each.message}" for each in duplicate.differences)


def _lock_lines(server: ServerReport) -> Iterator[str]:
    if server.lock is None:
        return
    if server.lock.verdict == "unreadable":
        yield f"{server.target}: {server.lock.file} is not a lock file"
    for each in server.lock.changes:
        yield f"{server.target}: {each.verdict}: {each.subject}: {each.message}"


def _row(server: ServerReport, max_target_length: int) -> tuple[str, ...]:
    start = "" if server.start_s is None else f"{server.start_s:.2f} s"
    tools = ("", "") if server.tools is None else (str(server.tools.count), f"{server.tools.tokens:,}")
    other_era = server.other_era
    other_era_text = "" if other_era is None else f"{other_era.era}: {_brief(other_era.answer)}"
    cells = (
        _short(server.target.replace(f"{Path.home()}{os.sep}", f"~{os.sep}", 1), max_target_length),
        _STATES.get(server.state, server.state.value) + ("; unsafe" if server.unsafe else ""),
        start,
        server.revision,
        other_era_text,
        *tools,
        _login(server),
        "" if server.lock is None else server.lock.verdict,
    )
    return tuple(clean(cell, newlines=False) for cell in cells)


def _short(text: str, max_length: int) -> str:
    """Cut the middle of a long text, because both ends of a name matter."""
    half = max_length // 2
    return text if len(text) <= max_length else f"{text[:half]}…{text[len(text) - max_length + half + 1 :]}"


def _brief(answer: str) -> str:
    """Return the code of an error, or the beginning of another answer."""
    if answer.startswith("-"):
        return answer.partition(" ")[0]
    return answer if len(answer) <= MAX_ANSWER_LENGTH else f"{answer[: MAX_ANSWER_LENGTH - 1]}…"


def _login(server: ServerReport) -> str:
    login = server.login
    if login is None:
        return ""
    if login.state is not LoginState.VALID:
        return _LOGINS[login.state]
    if login.expires is None:
        return "valid"
    return f"until {time.strftime('%Y-%m-%d %H:%M', time.localtime(login.expires))}"


def _budget_row(budget: ClientBudget) -> tuple[str, ...]:
    return (
        clean(budget.client, newlines=False),
        _count(budget.servers, "server"),
        _count(budget.tools.count, "tool"),
        f"about {budget.tools.tokens:,} tokens",
        f"without {budget.uncounted} that did not answer" if budget.uncounted else "",
    )


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'' if number == 1 else 's'}"


def _summary(report: Report) -> str:
    """Return the last line: the number of servers in each state."""
    states = Counter(each.state for each in report.servers)
    counts = ", ".join(f"{states[state]} {state.value}" for state in CheckState if states[state])
    unsafe = sum(bool(each.unsafe) for each in report.servers)
    counts += f", {unsafe} unsafe" if unsafe else ""
    cut_note = " There are more configuration files or servers than are read." if report.is_cut else ""
    if not report.servers:
        return f"No client on this machine has a server in its configuration.{cut_note}"
    return f"{_count(len(report.servers), 'server')}: {counts}. {report.seconds:.1f} s.{cut_note}"
