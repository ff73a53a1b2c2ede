"""Output of the commands: results on stdout, messages and errors on stderr, and exit codes.

On a terminal, control characters are made visible in text and escaped in JSON. A pipe or file receives
results unchanged. Messages are always cleaned.
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
    ConnectTimeout,
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

EXIT_CODES: tuple[tuple[type[DeskError], int], ...] = (
    (ManifestError, USAGE),
    (TransportError, CANNOT_CONNECT),
    (ProtocolError, PROTOCOL_ERROR),
    (ConnectTimeout, CANNOT_CONNECT),
    (CallTimeout, TIMED_OUT),
    (HttpError, CANNOT_CONNECT),
    (AuthorizationError, CANNOT_CONNECT),
    (Unreachable, CANNOT_CONNECT),
    (CallError, PROTOCOL_ERROR),
)
"""Exit code by class of error. The first match is used."""
MAX_DATA_LENGTH = 4_000
"""Maximum number of characters that are printed of a server's error data."""
MAX_PADDED_CHARS = 60
"""Maximum width of a column of a table, in characters. Longer cells move the rest of their row."""
CRASH_MESSAGE = "mcpdesk: This is a bug in mcpdesk. Please report it with these lines."

LIMIT = click.option(
    "--limit",
    "limit",
    type=click.IntRange(1),
    metavar="CHARACTERS",
    help="Cut each text of the result after this number of characters. Default: texts are not cut.",
)
"""Option of the commands that print a result."""


def print_text(text: str, *, exact: bool = False) -> None:
    """Print text and a line end. On a terminal, control characters are made visible. With `exact`, no line
    end is added if stdout is a pipe or a file.
    """
    if sys.stdout is None:
        raise DeskUserError("The output cannot be written: stdout is closed.")
    is_terminal = sys.stdout.isatty()
    if is_terminal:
        text = clean(text)
    has_line_end = text.endswith("\n") or (exact and not is_terminal)
    # Lone surrogates can be in JSON but not in UTF-8.
    sys.stdout.buffer.write(text.encode("utf-8", "replace") + (b"" if has_line_end else b"\n"))
    sys.stdout.flush()


def print_line(line: str, fd: int) -> None:
    """Write a line that is already clean to a descriptor, unbuffered."""
    data = line.encode("utf-8", "replace") + b"\n"
    while data:
        data = data[os.write(fd, data) :]


def shows_colour(fd: int) -> bool:
    """Return True if a descriptor is a terminal and the user has not disabled colours."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return os.isatty(fd)


def print_message(text: str) -> None:
    """Print a message on stderr."""
    with contextlib.suppress(OSError):  # stderr is closed; the exit code still reports the outcome
        click.echo(clean(text), err=True)


def print_json(value: Any) -> None:
    """Print a value as indented JSON. Control characters are escaped on a terminal, so that the output stays
    valid JSON.
    """
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    print_text(json_escaped(json.dumps(value, indent=2, ensure_ascii=not is_terminal)))


def cut_text(text: str, limit: int | None) -> str:
    """Return the beginning of a text, with the number of missing characters. Without a limit, or if the text
    is shorter, return it unchanged.
    """
    if limit is None or len(text) <= limit:
        return text
    return f"{text[:limit]}… [{len(text) - limit:,} more characters; omit --limit to get them]"


def cut_texts(value: Any, limit: int | None) -> Any:
    """Return a JSON value in which each string is cut, except keys. The value may be nested deeply."""
    if limit is None:
        return value
    pending: list[dict[str, Any] | list[Any]] = []  # copies whose members are not cut yet

    def cut(item: Any) -> Any:
        if isinstance(item, str):
            return cut_text(item, limit)
        if not isinstance(item, dict | list):
            return item
        copied = item.copy()
        pending.append(copied)
        return copied

    result = cut(value)
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            part.update({key: cut(item) for key, item in part.items()})
        else:
            part[:] = [cut(item) for item in part]
    return result


def print_bytes(data: bytes, mime_type: str) -> None:
    """Print bytes unchanged. On a terminal, print their size instead."""
    if sys.stdout is None or sys.stdout.isatty():
        print_text(f"[{mime_type or 'binary'}, {len(data)} bytes; redirect the output to a file to get them]")
        return
    sys.stdout.buffer.write(data)
    sys.stdout.flush()


def aligned(rows: Sequence[tuple[str, ...]], indent: str = "") -> Iterable[str]:
    """Yield the rows as lines with aligned columns. The last column is not padded, and no other column is
    padded to more than `MAX_PADDED_CHARS`, so that one very long name does not widen all rows.
    """
    if not rows:
        return
    widths = [min(MAX_PADDED_CHARS, max(map(len, column))) for column in zip(*rows, strict=True)]
    for row in rows:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield indent + line.rstrip()


def summary(item: Mapping[str, Any]) -> str:
    """Return the first line of an item's description, or else its title."""
    text = str(item.get("description") or item.get("title") or "").strip()
    return text.partition("\n")[0]


def exit_code(error: DeskError) -> int:
    """Return the exit code for an error."""
    if isinstance(error, DeskUserError):
        return error.exit_code
    return next((code for kind, code in EXIT_CODES if isinstance(error, kind)), TOOL_ERROR)


def report(error: DeskError | click.ClickException, as_json: bool = False) -> int:
    """Print an error on stderr, and as JSON on stdout if requested. Return its exit code."""
    hint = next_command = ""
    if isinstance(error, click.ClickException):
        message = " ".join(error.format_message().split())
        code = USAGE
        if isinstance(error, click.UsageError):
            next_command = f"{error.ctx.command_path if error.ctx else 'mcpdesk'} --help"
            hint = f"See `{next_command}`."
    else:
        message = str(error)
        code = exit_code(error)
        hint = getattr(error, "hint", "")
        next_command = getattr(error, "next_command", "")
    print_message(f"mcpdesk: {message}")
    data = error.data if isinstance(error, ProtocolError) else None
    if data is not None:
        print_message(_error_data(data))
    if hint:
        print_message(f"  {hint}")
    if as_json:
        fields = {"code": code, "message": message, "hint": hint, "next": next_command}
        error_fields = {"rpc_code": error.code} if isinstance(error, ProtocolError) else {}
        error_fields |= {} if data is None else {"data": data}
        print_text(json_escaped(json.dumps({"error": fields | error_fields})))
    return code


def _error_data(data: Any) -> str:
    """Format the data of an error as indented lines."""
    text = data if isinstance(data, str) else json.dumps(data, indent=2, ensure_ascii=False)
    if len(text) > MAX_DATA_LENGTH:
        text = f"{text[:MAX_DATA_LENGTH]}… (all {len(text):,} characters: --json)"
    return "\n".join(f"  {line}" for line in f"data: {text}".splitlines())


def report_crash() -> int:
    """Print the traceback of the current exception on stderr, without local values. Return the exit code."""
    import traceback

    print_message(traceback.format_exc() + CRASH_MESSAGE)
    return TOOL_ERROR


class JUnitCase(NamedTuple):
    """Case of a JUnit report. It passed if `failure` is empty."""

    group: str
    name: str
    failure: str = ""
    seconds: float = 0.0
    output: str = ""


def junit_report(name: str, cases: Sequence[JUnitCase]) -> str:
    """Return a JUnit report as XML."""
    from xml.etree import ElementTree

    failed_count = sum(bool(case.failure) for case in cases)
    seconds = sum(case.seconds for case in cases)
    counts = {"tests": str(len(cases)), "failures": str(failed_count), "time": f"{seconds:.3f}"}
    suite = ElementTree.Element("testsuite", {"name": _xml_text(name), **counts})
    for case in cases:
        attributes = {
            "classname": _xml_text(case.group),
            "name": _xml_text(case.name),
            "time": f"{case.seconds:.3f}",
        }
        element = ElementTree.SubElement(suite, "testcase", attributes)
        if case.failure:
            message = {"message": _xml_text(case.failure.partition("\n")[0])}
            ElementTree.SubElement(element, "failure", message).text = _xml_text(case.failure)
        if case.output:
            ElementTree.SubElement(element, "system-out").text = _xml_text(case.output)
    ElementTree.indent(suite)
    return f"<?xml version='1.0' encoding='utf-8'?>\n{ElementTree.tostring(suite, encoding='unicode')}\n"


def _xml_text(text: str) -> str:
    """Replace control characters, and characters that XML does not allow."""
    text = harmless(text)
    return re.sub("[^\t\n -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\N{REPLACEMENT CHARACTER}", text)


def write_report(path: Path, text: str) -> None:
    """Write a file that other users may read, atomically. Raises: DeskUserError."""
    try:
        private_files.write(path, text.encode("utf-8", "replace"), mode=0o644)
    except OSError as error:
        raise DeskUserError(f"{path} cannot be written: {error.strerror}.") from None
