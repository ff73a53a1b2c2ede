"""`mcpdesk export`, `diff` and `prune`: captures on disk."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import click

from mcpdesk.byte_size import size_text
from mcpdesk.cli.printing import OK, TOOL_ERROR, print_json, print_message, print_text
from mcpdesk.errors import DeskUserError
from mcpdesk.plain_text import clean

if TYPE_CHECKING:
    from mcpdesk.recorder.archive import Archive
    from mcpdesk.recorder.capture_diff import CaptureDiff, Change
    from mcpdesk.recorder.redaction import Redactor

EXPORT_EXAMPLES = """\b
Examples:
  mcpdesk export capture.jsonl --as md --output report.md
  mcpdesk export capture.jsonl --as jsonl --filter 'tool:greet status:error'
  mcpdesk export capture.jsonl --as har > traffic.har
  mcpdesk export capture.jsonl --as csv > calls-by-tool-and-client.csv
  mcpdesk export capture.jsonl --as mermaid --filter 'peer:cursor'
  mcpdesk export capture.jsonl --redact --output to-share.jsonl

`mcpdesk settings` prints the folder of the captures.
"""
DIFF_EXAMPLES = """\b
Examples:
  mcpdesk diff before.jsonl after.jsonl
  mcpdesk diff before.jsonl after.jsonl --json

Exit codes: 0 the same calls, 1 some differ. A call that only takes longer is listed, but is not a difference.
"""
PRUNE_EXAMPLES = """\b
Examples:
  mcpdesk prune --older-than 7d
  mcpdesk prune --keep 20 --dry-run
  mcpdesk prune --older-than 12h --keep 5
"""
FORMATS = ("capture", "har", "jsonl", "md", "mermaid", "curl", "cases", "csv", "json")
SIGNS = {"differs": "~", "only in a": "-", "only in b": "+", "slower": "~", "faster": "~"}
LONGEST = 120
"""Characters of a value in an output line."""


@click.command(name="export", epilog=EXPORT_EXAMPLES, short_help="Write a capture in another format.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--as", "ending", type=click.Choice(FORMATS), help="Format. With --redact the default is capture."
)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    help="File to write, which must not exist; by default stdout.",
)
@click.option(
    "--filter",
    "query",
    default="",
    metavar="QUERY",
    help="Only exchanges that match this filter, as in Traffic.",
)
@click.option(
    "--with-secrets", is_flag=True, help="Do not mask secrets: tokens, keys and passwords appear as sent."
)
@click.option(
    "--redact",
    is_flag=True,
    help="For sharing: mask secrets wherever they occur, also in texts and base64.",
)
def export_command(
    file: Path, ending: str | None, output: Path | None, query: str, with_secrets: bool, redact: bool
) -> None:
    """Write the capture FILE as an HTTP archive, JSON Lines or a Markdown report. Secrets are masked.

    Reports and JSON Lines contain the log of each call, with the traceback of a failed one.

    `capture` is a redacted capture for `mcpdesk open` and `--mock`.

    `mermaid` is a sequence diagram of its first 200 exchanges, `curl` its requests as commands.

    `cases` are its calls as test cases: arguments, answers to questions, results.

    `csv` and `json` are its statistics: calls, errors, times, bytes and tokens by tool and by client, and
    those of all requests by method.
    """
    from mcpdesk.recorder import export, recorded_cases
    from mcpdesk.recorder.index.call_lookup import logs_by_call
    from mcpdesk.recorder.index.query import parse
    from mcpdesk.recorder.index.view import View
    from mcpdesk.recorder.redaction import redacted
    from mcpdesk.recorder.sequence_diagram import mermaid

    if ending is None and not redact:
        raise DeskUserError("Which format?", f"Use --as {', '.join(FORMATS[:-1])} or {FORMATS[-1]}.")
    if with_secrets and (redact or ending == "capture"):
        raise DeskUserError("--with-secrets and --redact cannot be used together.", "Copy the file as it is.")
    writers = {
        "har": export.har, "mermaid": mermaid, "curl": export.curl_commands,
    }  # fmt: skip
    with_logs = {"jsonl": export.json_lines, "md": export.report}
    ending = ending or "capture"
    if ending in ("csv", "json") and query:
        raise DeskUserError(
            f"--filter cannot be used with --as {ending}.", "Statistics always include all calls."
        )
    with _redacted_copy(file) if redact and ending != "capture" else nullcontext(file) as source:
        if ending in ("csv", "json"):
            return _export_statistics(source, ending, output)
        with opened(source) as archive:
            index = archive.index
            index.reveals_secrets = with_secrets
            view = View(index, parse(query, time.time()))
            view.advance(float("inf"))
            numbers = export.with_parts(index, view.lines)
            if ending == "cases":
                numbers = recorded_cases.recordable(index, numbers)
                _tell_of_servers({index.exchange(number).server for number in numbers})
                found = recorded_cases.cases(index, numbers)
                _write(recorded_cases.case_file(found), output)
                return print_message(f"{len(found):,} test cases of {len(numbers):,} calls")
            if ending == "capture":
                pieces = redacted(index, archive.call_logs, _redactor(), numbers if query else None)
            elif ending in with_logs:
                pieces = with_logs[ending](index, numbers, logs_by_call(archive.call_logs))
            else:
                pieces = writers[ending](index, numbers)
            _write(pieces, output)
            left = len(numbers) - len(export.posted(index, numbers)) if ending == "har" else 0
            print_message(
                f"{len(numbers) - left:,} exchanges{f'; {left:,} did not use HTTP' if left else ''}"
            )


def _tell_of_servers(names: set[str]) -> None:
    if len(names) > 1:
        told = ", ".join(sorted(names))
        print_message(f"These are calls of {told}; --filter server:NAME selects one server.")


@contextmanager
def _redacted_copy(file: Path) -> Iterator[Path]:
    """Yield a fully redacted copy of a capture, as the source for other formats."""
    from mcpdesk.recorder.redaction import redacted

    with TemporaryDirectory(prefix="mcpdesk-") as folder:
        copy = Path(folder) / file.name
        with opened(file) as archive:
            _to_file(copy, redacted(archive.index, archive.call_logs, _redactor()))
        yield copy


def _redactor() -> Redactor:
    """Return a redactor that knows the keys of this desk and the secrets in its environment."""
    from mcpdesk.recorder.redaction import Redactor, secrets_here
    from mcpdesk.settings import resolve

    settings = resolve({}, os.environ).settings
    known = secrets_here(os.environ, settings.state_dir)
    known += [
        settings.api_key,
        settings.operator_key,
        settings.token,
        *settings.request_state_secret.split(","),
    ]
    return Redactor(known, [settings.api_key_header])


def _export_statistics(file: Path, ending: str, output: Path | None) -> None:
    from mcpdesk.recorder.index.statistics import Subject
    from mcpdesk.recorder.index.statistics_rows import as_csv, as_json, rows_of

    with opened(file) as archive:
        counted = archive.index.statistics
        counted.update(float("inf"))
        definitions = counted.definitions()
        rows = [row for subject in Subject for row in rows_of(counted, subject, definitions)]
    text = as_csv(rows) if ending == "csv" else as_json(rows)
    _write(iter([text.encode()]), output)


@contextmanager
def opened(file: Path) -> Iterator[Archive]:
    """Yield a capture, read to its end. Problems are reported on stderr. Raises: DeskUserError."""
    from mcpdesk.link.capture_link import problems
    from mcpdesk.recorder.archive import Archive

    archive = Archive(file.expanduser())
    try:
        archive.index.catch_up(float("inf"))
        for problem in problems(archive):
            print_message(f"mcpdesk: {file}: {problem}")
        yield archive
    finally:
        archive.close()


def _write(pieces: Iterator[bytes], output: Path | None) -> None:
    if output is None:
        _to_stdout(pieces)
    else:
        _to_file(output.expanduser(), pieces)


def _to_stdout(pieces: Iterator[bytes]) -> None:
    if sys.stdout is None:
        raise DeskUserError("The output cannot be written: stdout is closed.")
    is_terminal = sys.stdout.isatty()
    for piece in pieces:
        shown = clean(piece.decode("utf-8", "replace")).encode() if is_terminal else piece
        sys.stdout.buffer.write(shown)
    sys.stdout.flush()


def _to_file(path: Path, pieces: Iterator[bytes]) -> None:
    """Write a new file. Raises: DeskUserError if it exists or cannot be written."""
    from mcpdesk import private_files

    try:
        with os.fdopen(private_files.create(path), "wb") as file:
            file.writelines(pieces)
    except FileExistsError:
        raise DeskUserError(f"{path} already exists.", "Choose another name, or remove it first.") from None
    except OSError as error:
        raise DeskUserError(f"{path} cannot be written: {error.strerror}.") from None


@click.command(name="diff", epilog=DIFF_EXAMPLES, short_help="Compare two captures.")
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def diff_command(a: Path, b: Path, as_json: bool) -> int:
    """Compare the calls in the captures A and B: which are in one of them only, and which differ in their
    arguments, results, errors and durations.

    Calls of the same method and name belong together, those with the same arguments first.
    """
    from mcpdesk.recorder.capture_diff import compare

    with opened(a) as first, opened(b) as second:
        found = compare(first.index, second.index)
    if as_json:
        print_json({"same": found.same, "changes": [_as_object(each) for each in found.changes]})
    else:
        print_text("\n".join(_lines(found)))
    return TOOL_ERROR if any(each.kind not in ("slower", "faster") for each in found.changes) else OK


def _as_object(change: Change) -> dict[str, Any]:
    call = change.a or change.b
    assert call is not None
    sides = {"a": change.a, "b": change.b}
    return {
        "change": change.kind,
        "method": call.method,
        "name": call.name,
        **{side: one and {"number": one.number, "took_ms": one.took_ms} for side, one in sides.items()},
        "differences": [{"path": each.path, "a": each.a, "b": each.b} for each in change.differences],
    }


def _lines(found: CaptureDiff) -> Iterator[str]:
    for change in found.changes:
        sides = [one for one in (change.a, change.b) if one is not None]
        numbers = " → ".join(f"#{one.number}" for one in sides)
        took = " → ".join("unanswered" if one.took_ms is None else f"{one.took_ms:.1f} ms" for one in sides)
        what = clean(f"{sides[0].method} {sides[0].name}".strip(), newlines=False)
        yield f"{SIGNS[change.kind]} {what}  {numbers}  {change.kind}, {took}"
        for each in change.differences:
            yield f"    {clean(each.path, newlines=False)}: {_short(each.a)} → {_short(each.b)}"
    counts = [f"{found.same} the same"]
    for kind in SIGNS:
        if count := sum(change.kind == kind for change in found.changes):
            counts.append(f"{count} {kind}")
    yield ", ".join(counts)


def _short(value: Any) -> str:
    """Value as one line of JSON, or `nothing` for None."""
    import json

    if value is None:
        return "nothing"
    text = clean(json.dumps(value, ensure_ascii=False), newlines=False)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


@click.command(name="prune", epilog=PRUNE_EXAMPLES, short_help="Remove old captures.")
@click.option("--older-than", "age", metavar="AGE", help="Those not written to since, such as 12h, 7d or 4w.")
@click.option("--keep", type=click.IntRange(0), metavar="N", help="Keep the N newest.")
@click.option("--dry-run", is_flag=True, help="List the captures that would be removed, but keep them.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def prune_command(age: str | None, keep: int | None, dry_run: bool, as_json: bool) -> None:
    """Remove captures from the folder that `mcpdesk settings` names. One that is being written stays."""
    from mcpdesk import paths, private_files
    from mcpdesk.recorder.capture.capture_parts import stored_captures
    from mcpdesk.settings import resolve

    if age is None and keep is None:
        raise DeskUserError("No condition was given.", "Use --older-than 7d, --keep 20, or both.")
    oldest = time.time() - _seconds(age)
    folder = paths.captures_folder(resolve({}, os.environ).settings.state_dir)
    chosen = [one for one in stored_captures(folder)[keep or 0 :] if age is None or one.changed < oldest]
    chosen = [one for one in chosen if not any(private_files.is_held(file.path) for file in one.files)]
    if not dry_run:
        for file in [file for one in chosen for file in one.files]:
            _remove(file.path)
    if as_json:
        removed = [{"path": str(one.path), "bytes": one.size} for one in chosen]
        print_json({"removed": removed, "dry_run": dry_run})
        return
    total = sum(one.size for one in chosen)
    verb = "would be removed" if dry_run else "removed"
    count = f"{len(chosen)} capture{'' if len(chosen) == 1 else 's'}, {size_text(total)}, {verb}"
    print_text("\n".join([*(f"{one.path}  {size_text(one.size)}" for one in chosen), count]))


def _seconds(age: str | None) -> float:
    from mcpdesk.settings import seconds_of

    if age is None:
        return 0.0
    try:
        if age.isdigit():
            raise ValueError  # without a unit, 30 may mean days
        return float(seconds_of(age))
    except ValueError:
        raise DeskUserError(f"--older-than: {age!r} is not a duration.", "Use 30m, 12h, 7d or 4w.") from None


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise DeskUserError(f"{path} cannot be removed: {error.strerror}.") from None
