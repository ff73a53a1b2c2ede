"""What the commands write: results to stdout, messages and errors to stderr; and their exit codes.

On a terminal, control characters in a text are shown instead of sent, and JSON has them as escapes. A pipe or
a file gets results as they are; messages are cleaned everywhere.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from mcpdesk import private_files
from mcpdesk.errors import (
    AuthorizationError,
    CallError,
    CallTimeout,
    DeskError,
    DeskUserError,
    HttpError,
    ManifestError,
    ProtocolError,
    TransportError,
    Unreachable,
)
from mcpdesk.plain_text import clean, harmless, json_escaped

OK = 0
TOOL_ERROR = 1
USAGE = 2
CANNOT_CONNECT = 3
PROTOCOL_ERROR = 4
TIMED_OUT = 5

CODES: tuple[tuple[type[DeskError], int], ...] = (
    (ManifestError, USAGE),
    (TransportError, CANNOT_CONNECT),
    (ProtocolError, PROTOCOL_ERROR),
    (CallTimeout, TIMED_OUT),
    (HttpError, CANNOT_CONNECT),
    (AuthorizationError, CANNOT_CONNECT),
    (Unreachable, CANNOT_CONNECT),
    (CallError, PROTOCOL_ERROR),
)
"""Kind of error -> exit code; the first that fits counts."""
MOST_DATA = 4_000
"""Characters that are printed of what a server adds to an error."""
CRASHED = "mcpdesk: This is a mistake of mcpdesk. Please report it with these lines."


def print_text(text: str, *, exact: bool = False) -> None:
    """Write text and a line end; on a terminal control characters are made visible.

    With `exact`, a pipe or a file gets the text only, without a line end that is not its own.
    """
    if sys.stdout is None:
        raise DeskUserError("The output cannot be written: stdout is closed.")
    is_terminal = sys.stdout.isatty()
    if is_terminal:
        text = clean(text)
    is_whole = text.endswith("\n") or (exact and not is_terminal)
    # Lone surrogates can be in JSON but not in UTF-8.
    sys.stdout.buffer.write(text.encode("utf-8", "replace") + (b"" if is_whole else b"\n"))
    sys.stdout.flush()


def print_line(line: str, fd: int) -> None:
    """Write a line that is clean already to a descriptor, at once."""
    data = line.encode("utf-8", "replace") + b"\n"
    while data:
        data = data[os.write(fd, data) :]


def shows_colour(fd: int) -> bool:
    """True if a descriptor is a terminal that shows colours, and the person wants them."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return os.isatty(fd)


def print_message(text: str) -> None:
    """Write a message to stderr."""
    with contextlib.suppress(OSError):  # where it cannot be written, the exit code still tells
        click.echo(clean(text), err=True)


def print_json(value: Any) -> None:
    """Write a value as indented JSON; it stays JSON on a terminal, too."""
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    print_text(json_escaped(json.dumps(value, indent=2, ensure_ascii=not is_terminal)))


def print_bytes(data: bytes, mime_type: str) -> None:
    """Write bytes as they are; a terminal gets their size instead."""
    if sys.stdout is None or sys.stdout.isatty():
        print_text(f"[{mime_type or 'binary'}, {len(data)} bytes; redirect the output to a file to get them]")
        return
    sys.stdout.buffer.write(data)
    sys.stdout.flush()


def aligned(rows: Sequence[tuple[str, ...]], indent: str = "") -> Iterable[str]:
    """Return the rows as lines with aligned columns; the last column is not padded."""
    if not rows:
        return
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield indent + line.rstrip()


def summary(item: Mapping[str, Any]) -> str:
    """Return the first line of an item's description, else its title."""
    text = str(item.get("description") or item.get("title") or "").strip()
    return text.partition("\n")[0]


def exit_code(error: DeskError) -> int:
    """Return the exit code of a command that failed with this error."""
    if isinstance(error, DeskUserError):
        return error.exit_code
    return next((code for kind, code in CODES if isinstance(error, kind)), TOOL_ERROR)


def report(error: DeskError | click.ClickException, as_json: bool = False) -> int:
    """Write the error to stderr, and as an object in JSON to stdout if asked; returns its exit code."""
    if isinstance(error, click.ClickException):
        message, hint, code = " ".join(error.format_message().split()), "", USAGE
        if isinstance(error, click.UsageError):
            hint = f"See `{error.ctx.command_path if error.ctx else 'mcpdesk'} --help`."
    else:
        message, hint, code = str(error), getattr(error, "hint", ""), exit_code(error)
    print_message(f"mcpdesk: {message}")
    data = error.data if isinstance(error, ProtocolError) else None
    if data is not None:
        print_message(_error_data(data))
    if hint:
        print_message(f"  {hint}")
    if as_json:
        fields = {"code": code, "message": message, "hint": hint}
        more = {"rpc_code": error.code} if isinstance(error, ProtocolError) else {}
        more |= {} if data is None else {"data": data}
        print_text(json_escaped(json.dumps({"error": fields | more})))
    return code


def _error_data(data: Any) -> str:
    """Lines of an error's data, indented."""
    text = data if isinstance(data, str) else json.dumps(data, indent=2, ensure_ascii=False)
    if len(text) > MOST_DATA:
        text = f"{text[:MOST_DATA]}… (all {len(text):,} characters: --json)"
    return "\n".join(f"  {line}" for line in f"data: {text}".splitlines())


def report_crash() -> int:
    """Write to stderr where the current exception comes from, without local values; returns the exit code."""
    import traceback

    print_message(traceback.format_exc() + CRASHED)
    return TOOL_ERROR


class JUnitCase(NamedTuple):
    """One case of a JUnit report; it passed if it has no failure."""

    group: str
    name: str
    failure: str = ""
    seconds: float = 0.0
    output: str = ""


def junit_report(name: str, cases: Sequence[JUnitCase]) -> str:
    """Return a JUnit report as XML."""
    from xml.etree import ElementTree

    failed = sum(bool(case.failure) for case in cases)
    seconds = sum(case.seconds for case in cases)
    counts = {"tests": str(len(cases)), "failures": str(failed), "time": f"{seconds:.3f}"}
    suite = ElementTree.Element("testsuite", {"name": _xml(name), **counts})
    for case in cases:
        facts = {"classname": _xml(case.group), "name": _xml(case.name), "time": f"{case.seconds:.3f}"}
        element = ElementTree.SubElement(suite, "testcase", facts)
        if case.failure:
            message = {"message": _xml(case.failure.partition("\n")[0])}
            ElementTree.SubElement(element, "failure", message).text = _xml(case.failure)
        if case.output:
            ElementTree.SubElement(element, "system-out").text = _xml(case.output)
    ElementTree.indent(suite)
    return f"<?xml version='1.0' encoding='utf-8'?>\n{ElementTree.tostring(suite, encoding='unicode')}\n"


def _xml(text: str) -> str:
    """A text without control characters, and without the characters that XML cannot have."""
    text = harmless(text)
    return re.sub("[^\t\n -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\N{REPLACEMENT CHARACTER}", text)


def write_report(path: Path, text: str) -> None:
    """Write a file that others may read, whole or not at all. Raises: DeskUserError."""
    try:
        private_files.write(path, text.encode("utf-8", "replace"), mode=0o644)
    except OSError as error:
        raise DeskUserError(f"{path} cannot be written: {error.strerror}.") from None
