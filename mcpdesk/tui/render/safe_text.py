"""Strangers' text made harmless, on one line, and cut to the cells there are. Knows no widget."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from rich.cells import cell_len, set_cell_size

from mcpdesk.plain_text import clean as clean
from mcpdesk.recorder.masking import MASK


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


_INDENT = "  "
_GOES_ON = " \\"


def shown(command: str, key: str, width: int) -> list[str]:
    """A command as the screen may show it: without control characters and `key`, on lines that fit."""
    return folded(clean(command.replace(key, MASK) if key else command), width)


def folded(command: str, width: int) -> list[str]:
    """The lines of a command, of at most `width` cells where its words are not longer.

    Copied off the screen they are the same command. An option stays with its value.
    """
    if cell_len(command) <= width:
        return [command]
    parts = list(_parts(command))
    lines = [parts[0]]
    for part in parts[1:]:
        longer = f"{lines[-1]} {part}"
        if cell_len(longer) + len(_GOES_ON) <= width:
            lines[-1] = longer
        else:
            lines.append(_INDENT + part)
    return [line + _GOES_ON for line in lines[:-1]] + lines[-1:]


def _parts(command: str) -> Iterator[str]:
    """Its words as they are quoted, an option with what follows it."""
    option = ""
    for word in _words(command):
        if option and word.startswith("-"):
            yield option
            option = ""
        if word.startswith("-"):
            option = word
        else:
            yield f"{option} {word}" if option else word
            option = ""
    if option:
        yield option


def _words(command: str) -> Sequence[str]:
    """All of it is one where words cannot be told apart."""
    try:
        words = shlex.split(command, posix=False)
    except ValueError:
        return [command]
    return words if " ".join(words) == command else [command]
