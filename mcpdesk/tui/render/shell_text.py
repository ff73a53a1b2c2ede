"""Commands for a shell, on lines that fit."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from rich.cells import cell_len

from mcpdesk.recorder.masking import MASK
from mcpdesk.tui.render.text import clean

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
