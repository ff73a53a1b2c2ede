"""What the commands write: results to stdout, messages to stderr. Texts of strangers control no terminal.

On a terminal, control characters in a text are shown instead of sent, and JSON has them as escapes. A pipe or
a file gets results as they are; messages are cleaned everywhere.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import click

from mcpdesk.errors import DeskUserError
from mcpdesk.plain_text import clean, json_escaped


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


def tell(text: str) -> None:
    """Write a message to stderr."""
    with contextlib.suppress(OSError):  # where it cannot be told, the exit code still tells
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
    """The rows as lines with aligned columns; the last column is not padded."""
    if not rows:
        return
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        line = "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        yield indent + line.rstrip()
