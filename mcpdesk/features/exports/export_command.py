"""The command `export`."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from mcpdesk.cli.captures import opened
from mcpdesk.cli.printing import print_message
from mcpdesk.errors import DeskUserError
from mcpdesk.features import features_with
from mcpdesk.plain_text import clean

if TYPE_CHECKING:
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
CASE_FORMATS = ("cases",) if any(features_with("case_recorder")) else ()
"""Format of test cases if a feature can record them, otherwise empty."""
FORMATS = ("capture", "har", "jsonl", "md", "mermaid", "curl", *CASE_FORMATS, "csv", "json")


@click.command(name="export", epilog=EXPORT_EXAMPLES, short_help="Write a capture in another format.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--as",
    "kind",
    type=click.Choice(FORMATS),
    help="Format of the output. Required, except with --redact, where the default is capture.",
)
@click.option(
    "--output",
    type=click.Path(path_type=Path),
    help="New file to write; it must not exist yet. Default: stdout.",
)
@click.option(
    "--filter",
    "query",
    default="",
    metavar="QUERY",
    help="Export only exchanges that match this filter (see docs/filters.md). Default: all.",
)
@click.option(
    "--with-secrets",
    is_flag=True,
    help="Show tokens, keys and passwords as they were sent. Default: they are masked.",
)
@click.option(
    "--redact",
    is_flag=True,
    help="Mask secrets also inside texts and base64, to share the output.",
)
def export_command(
    file: Path, kind: str | None, output: Path | None, query: str, with_secrets: bool, redact: bool
) -> None:
    """Write the capture FILE in another format. Secrets are masked.

    \b
    capture    a redacted capture, for `mcpdesk open` and `--mock`
    har        an HTTP archive
    jsonl      one JSON object per exchange, with the log of each call
    md         a Markdown report, with the log of each call
    mermaid    a sequence diagram of the first 200 exchanges
    curl       the requests as curl commands
    cases      the calls as test cases, with the answers to questions
    csv, json  statistics: calls, errors, times, bytes and tokens
    """
    from mcpdesk.features.exports.curl_command import curl_commands
    from mcpdesk.features.exports.formats import EXPORTERS
    from mcpdesk.features.exports.sequence_diagram import mermaid
    from mcpdesk.recorder.index.call_lookup import logs_by_call
    from mcpdesk.recorder.index.query import parse
    from mcpdesk.recorder.index.traffic_index import with_parts
    from mcpdesk.recorder.index.view import View
    from mcpdesk.recorder.redaction import redacted

    if kind is None and not redact:
        raise DeskUserError("No format was given.", f"Use --as {', '.join(FORMATS[:-1])} or {FORMATS[-1]}.")
    if with_secrets and (redact or kind == "capture"):
        raise DeskUserError("--with-secrets and --redact cannot be used together.", "Copy the file as it is.")
    exporters = {each.name: each for each in EXPORTERS}
    text_writers = {"mermaid": mermaid, "curl": curl_commands}
    kind = kind or "capture"
    if kind in ("csv", "json") and query:
        raise DeskUserError(
            f"--filter cannot be used with --as {kind}.", "Statistics always include all calls."
        )
    with _redacted_copy(file) if redact and kind != "capture" else nullcontext(file) as source:
        if kind in ("csv", "json"):
            return _export_statistics(source, kind, output)
        with opened(source) as archive:
            index = archive.index
            index.reveals_secrets = with_secrets
            view = View(index, parse(query, time.time()))
            view.advance(float("inf"))
            numbers = with_parts(index, view.lines)
            if kind in CASE_FORMATS:
                recorder = next(
                    filter(None, (each.case_recorder() for each in features_with("case_recorder")))
                )
                numbers = recorder.recordable(index, numbers)
                _warn_of_several_servers({index.exchange(number).server for number in numbers})
                cases = recorder.cases(index, numbers)
                _write(recorder.case_file(cases), output)
                return print_message(f"{len(cases):,} test cases of {len(numbers):,} calls")
            if kind == "capture":
                pieces = redacted(index, archive.call_logs, _redactor(), numbers if query else None)
            elif kind in text_writers:
                pieces = text_writers[kind](index, numbers)
            else:
                pieces = exporters[kind].write(index, numbers, logs_by_call(archive.call_logs))
            _write(pieces, output)
            select_supported = exporters[kind].requests if kind in exporters else None
            omitted = len(numbers) - len(select_supported(index, numbers)) if select_supported else 0
            omission = f"; {omitted:,} did not use HTTP" if omitted else ""
            print_message(f"{len(numbers) - omitted:,} exchanges{omission}")


def _warn_of_several_servers(names: set[str]) -> None:
    if len(names) > 1:
        servers = ", ".join(sorted(names))
        print_message(f"These are calls of {servers}; --filter server:NAME selects one server.")


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
    from mcpdesk.recorder.redaction import Redactor, environment_secrets
    from mcpdesk.settings import resolve

    settings = resolve({}, os.environ).settings
    known_secrets = environment_secrets(os.environ, settings.state_dir)
    known_secrets += [
        settings.api_key,
        settings.operator_key,
        settings.token,
        *settings.request_state_secret.split(","),
    ]
    return Redactor(known_secrets, [settings.api_key_header])


def _export_statistics(file: Path, kind: str, output: Path | None) -> None:
    from mcpdesk.recorder.index.statistics import Subject
    from mcpdesk.recorder.index.statistics_rows import as_csv, as_json, rows_of

    with opened(file) as archive:
        statistics = archive.index.statistics
        statistics.update(float("inf"))
        definitions = statistics.definitions()
        rows = [row for subject in Subject for row in rows_of(statistics, subject, definitions)]
    text = as_csv(rows) if kind == "csv" else as_json(rows)
    _write(iter([text.encode()]), output)


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
        data = clean(piece.decode("utf-8", "replace")).encode() if is_terminal else piece
        sys.stdout.buffer.write(data)
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
