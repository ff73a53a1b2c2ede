"""Strangers' text made harmless, on one line, and cut to the cells there are. Knows no widget."""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size

from mcpdesk.plain_text import clean as clean


def one_line(text: str, width: int = 0) -> str:
    """`text` cleaned, on one line, and cut to `width` cells with an ellipsis (0: not cut)."""
    line = clean(text, newlines=False)
    if not width or cell_len(line) <= width:
        return line
    return set_cell_size(line, width - 1).rstrip() + "…"


def ending(text: str, width: int = 0) -> str:
    """`text` cleaned, on one line, and cut to its last `width` cells (0: not cut); paths say most there."""
    line = clean(text, newlines=False)
    if not width or cell_len(line) <= width:
        return line
    while cell_len(line) >= width:
        line = line[1:]
    return "…" + line
