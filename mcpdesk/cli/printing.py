"""Results on stdout: readable, or JSON when asked for; nothing of a stranger's controls the terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any


def print_text(text: str) -> None:
    """Write text and a line end; on a terminal control characters are made visible."""
    if sys.stdout.isatty():
        from mcpdesk.tui.render.text import clean

        text = clean(text)
    # Lone surrogates can be in JSON but not in UTF-8.
    sys.stdout.buffer.write(text.encode("utf-8", "replace") + (b"" if text.endswith("\n") else b"\n"))
    sys.stdout.flush()


def print_json(value: Any) -> None:
    """Write a value as indented JSON."""
    print_text(json.dumps(value, indent=2, ensure_ascii=not sys.stdout.isatty()))


def print_bytes(data: bytes, mime_type: str) -> None:
    """Write bytes as they are; a terminal gets their size instead."""
    if sys.stdout.isatty():
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
