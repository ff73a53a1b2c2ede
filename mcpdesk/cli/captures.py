"""`mcpdesk diff` and `prune`: captures on disk."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mcpdesk.byte_size import size_text
from mcpdesk.cli.printing import OK, TOOL_ERROR, print_json, print_message, print_text
from mcpdesk.errors import DeskUserError
from mcpdesk.plain_text import clean

if TYPE_CHECKING:
    from mcpdesk.recorder.archive import Archive
    from mcpdesk.recorder.capture_diff import CaptureDiff, Change

DIFF_EXAMPLES = """\b
Examples:
  mcpdesk diff before.jsonl after.jsonl
  mcpdesk diff before.jsonl after.jsonl --json

Exit codes: 0 all calls are the same, 1 some differ. A call that only takes longer does not count as a
difference, but it is listed.
"""
PRUNE_EXAMPLES = """\b
Examples:
  mcpdesk prune --older-than 7d
  mcpdesk prune --keep 20 --dry-run
  mcpdesk prune --older-than 12h --keep 5
"""
SIGNS = {"differs": "~", "only in a": "-", "only in b": "+", "slower": "~", "faster": "~"}
"""Sign at the start of a line, by kind of change."""
MAX_VALUE_LENGTH = 120
"""Maximum characters of a value in an output line."""


@contextmanager
def opened(file: Path) -> Iterator[Archive]:
    """Read a capture to its end and yield it. Problems are reported on stderr. Raises: DeskUserError."""
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


@click.command(name="diff", epilog=DIFF_EXAMPLES, short_help="Compare two captures.")
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def diff_command(a: Path, b: Path, as_json: bool) -> int:
    """Compare the calls in the captures A and B. The command lists calls that are in only one capture, and
    calls with different arguments, results, errors or durations.

    A call in A is compared with a call in B that has the same method and name. If a capture has several such
    calls, calls with the same arguments in A and B are paired first. The others are paired in the order in
    which they were made.
    """
    from mcpdesk.recorder.capture_diff import compare

    with opened(a) as first, opened(b) as second:
        comparison = compare(first.index, second.index)
    if as_json:
        print_json(
            {"same": comparison.same_count, "changes": [_as_object(each) for each in comparison.changes]}
        )
    else:
        print_text("\n".join(_lines(comparison)))
    return TOOL_ERROR if any(each.kind not in ("slower", "faster") for each in comparison.changes) else OK


def _as_object(change: Change) -> dict[str, Any]:
    """Return a difference as an object of the output of `--json`."""
    call = change.a or change.b
    assert call is not None
    sides = {"a": change.a, "b": change.b}
    return {
        "change": change.kind,
        "method": call.method,
        "name": call.name,
        **{
            side: None if side_call is None else {"number": side_call.number, "took_ms": side_call.took_ms}
            for side, side_call in sides.items()
        },
        "differences": [{"path": each.path, "a": each.a, "b": each.b} for each in change.differences],
    }


def _lines(comparison: CaptureDiff) -> Iterator[str]:
    """Yield the lines of the output, and then a line with the number of changes of each kind."""
    for change in comparison.changes:
        calls = [call for call in (change.a, change.b) if call is not None]
        numbers = " → ".join(f"#{call.number}" for call in calls)
        durations = " → ".join(
            "unanswered" if call.took_ms is None else f"{call.took_ms:.1f} ms" for call in calls
        )
        title = clean(f"{calls[0].method} {calls[0].name}".strip(), newlines=False)
        yield f"{SIGNS[change.kind]} {title}  {numbers}  {change.kind}, {durations}"
        for difference in change.differences:
            path = clean(difference.path, newlines=False)
            yield f"    {path}: {_short(difference.a)} → {_short(difference.b)}"
    counts = [f"{comparison.same_count} the same"]
    for kind in SIGNS:
        if count := sum(change.kind == kind for change in comparison.changes):
            counts.append(f"{count} {kind}")
    yield ", ".join(counts)


def _short(value: Any) -> str:
    """Return a value as one line of JSON. Return `nothing` for None."""
    import json

    if value is None:
        return "nothing"
    text = clean(json.dumps(value, ensure_ascii=False), newlines=False)
    return text if len(text) <= MAX_VALUE_LENGTH else f"{text[: MAX_VALUE_LENGTH - 1]}…"


@click.command(name="prune", epilog=PRUNE_EXAMPLES, short_help="Remove old captures.")
@click.option(
    "--older-than",
    "age",
    metavar="AGE",
    help="Remove captures that were last written more than AGE ago, such as 12h, 7d or 4w.",
)
@click.option("--keep", type=click.IntRange(0), metavar="N", help="Keep the N newest captures.")
@click.option("--dry-run", is_flag=True, help="Only list the captures that would be removed.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def prune_command(age: str | None, keep: int | None, dry_run: bool, as_json: bool) -> None:
    """Remove old captures. If you give both --older-than and --keep, a capture is removed only if both
    options allow it. A capture that a running program still writes is never removed. `mcpdesk settings`
    prints the folder of the captures.
    """
    from mcpdesk import paths, private_files
    from mcpdesk.recorder.capture.capture_parts import stored_captures
    from mcpdesk.settings import resolve

    if age is None and keep is None:
        raise DeskUserError("No condition was given.", "Use --older-than 7d, --keep 20, or both.")
    age_limit = time.time() - _seconds(age)
    folder = paths.captures_folder(resolve({}, os.environ).settings.state_dir)
    captures = [
        capture
        for capture in stored_captures(folder)[keep or 0 :]
        if age is None or capture.changed < age_limit
    ]
    captures = [
        capture for capture in captures if not any(private_files.is_held(file.path) for file in capture.files)
    ]
    if not dry_run:
        for file in [file for capture in captures for file in capture.files]:
            _remove(file.path)
    if as_json:
        rows = [{"path": str(capture.path), "bytes": capture.size} for capture in captures]
        print_json({"removed": rows, "dry_run": dry_run})
        return
    total = sum(capture.size for capture in captures)
    outcome = "would be removed" if dry_run else "removed"
    summary = f"{len(captures)} capture{'' if len(captures) == 1 else 's'}, {size_text(total)}, {outcome}"
    print_text("\n".join([*(f"{capture.path}  {size_text(capture.size)}" for capture in captures), summary]))


def _seconds(age: str | None) -> float:
    """Return an age in seconds, or 0 for None. Raises: DeskUserError for an invalid age."""
    from mcpdesk.setting_values import seconds_of

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
