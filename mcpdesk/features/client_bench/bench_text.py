"""Report of a bench as lines of text. The lines contain no unsafe characters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from mcpdesk.cli.printing import aligned
from mcpdesk.features.client_bench.bench_report import BenchReport, BenchRun, Check, CheckVerdict
from mcpdesk.plain_text import clean


def report_lines(report: BenchReport, *, shows_messages: bool = False) -> list[str]:
    """Return the whole report. If `shows_messages`, it includes the messages of the client in each run."""
    lines = list[str]()
    for run in report.runs:
        lines += [*_run_lines(run, shows_messages), ""]
    lines.append(_summary(report))
    return [clean(line, newlines=False) for line in lines]


def _run_lines(run: BenchRun, shows_messages: bool) -> Iterator[str]:
    """Yield the lines about one run."""
    client = run.client
    name = " ".join(filter(None, (client.name, client.version))) or client.user_agent or "no client"
    yield f"{run.name}: {name}"
    yield from aligned([(each.verdict.value, each.name, each.observed) for each in run.checks], "  ")
    yield from _notes(run.checks)
    if run.outcome == "no client":
        yield "  no client connected"
    elif run.outcome == "incomplete":
        exit_note = "" if run.client_exit is None else f" The client ended with exit code {run.client_exit}."
        yield f"  incomplete: not all checks were decided.{exit_note}"
    if shows_messages:
        rows = list[tuple[str, str, str]]()
        for message in run.messages:
            count_note = f" ({message.count} times)" if message.count > 1 else ""
            rows.append((f"{message.at_s:.2f} s", message.sent, f"{message.answer}{count_note}"))
        yield from aligned(rows, "  ")


def _notes(checks: list[Check]) -> Iterator[str]:
    """Yield the rules that the client does not follow, with advice."""
    for each in checks:
        if each.verdict in (CheckVerdict.FAIL, CheckVerdict.WARNING):
            yield f"  {each.name}: {each.rule} ({each.source})"
            if each.hint:
                yield f"    {each.hint}"


def _summary(report: BenchReport) -> str:
    counts = Counter(check.verdict for run in report.runs for check in run.checks)
    names = {CheckVerdict.PASS: "passed", CheckVerdict.WARNING: "warnings", CheckVerdict.FAIL: "failed"}
    parts = [f"{counts[verdict]} {name}" for verdict, name in names.items() if counts[verdict]]
    if counts[CheckVerdict.NOT_SEEN]:
        parts.append(f"{counts[CheckVerdict.NOT_SEEN]} not seen")
    return f"{sum(counts.values())} checks: {', '.join(parts) or 'none decided'}"
