"""Strangers' text made harmless and legible. Knows no widget."""

from __future__ import annotations

import re

from rich.cells import cell_len, set_cell_size

_UNSAFE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060\u2066-\u2069\ufeff\ud800-\udfff]"
)


def clean(text: str, *, newlines: bool = True) -> str:
    """`text` with control characters made visible: `\\x1b` becomes `␛`, others `‹200e›`.

    Newlines stay when `newlines` is true, else become `⏎`; tabs become four spaces. The result never
    contains markup of ours, but is not escaped: show it with `Content(...)` or `markup=False`.
    """
    if text.isascii() and text.isprintable():
        return text
    text = _UNSAFE.sub(_visible, text.replace("\r\n", "\n").replace("\t", "    "))
    return text if newlines else text.replace("\n", "⏎")


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


def _visible(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)
    return "␡" if code == 0x7F else f"‹{code:x}›"
