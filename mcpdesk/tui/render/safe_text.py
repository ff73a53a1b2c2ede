"""Functions that remove control characters from untrusted text, cut text to a width, and wrap shell
commands.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from unicodedata import combining

from rich.cells import cell_len, set_cell_size

from mcpdesk.plain_text import clean as clean
from mcpdesk.recorder.masking import MASK


def one_line(text: str, width: int = 0) -> str:
    """Return `text` cleaned, on one line, and cut to `width` cells with an ellipsis (0: not cut)."""
    line = clean(text, newlines=False)
    if not width or cell_len(line) <= width:
        return line
    return set_cell_size(line, width - 1).rstrip() + "…"


MIN_WIDTH_WITH_ENDS = 18
"""Minimum width at which a shortened text keeps its end as well as its beginning."""
REASON_TAIL = 0.5
"""Argument `tail` of `shortened` for a text that begins with a name and ends with a reason."""


def shortened(text: str, width: int, tail: float = 1 / 3) -> str:
    """Return `text` cleaned, on one line, and with its middle cut out if it is longer than `width` cells.

    `tail` is the share of `width` in which the end of the text is shown. Below `MIN_WIDTH_WITH_ENDS` cells,
    only the beginning is shown.
    """
    line = clean(text, newlines=False)
    if cell_len(line) <= width:
        return line
    if width < MIN_WIDTH_WITH_ENDS:
        return one_line(line, max(width, 1))
    end = ending(line, int((width - 1) * tail) + 1)
    return f"{set_cell_size(line, width - cell_len(end)).rstrip()}{end}"


def whole_sentences(text: str, width: int) -> str:
    """Return the sentences of `text` that fit into `width` cells, or else the words of the first that fit."""
    line = clean(text, newlines=False)
    if cell_len(line) <= width:
        return line
    ends = [index + 1 for index in range(len(line)) if line.startswith(". ", index)]
    fitting_texts = [line[:end] for end in ends if cell_len(line[:end]) <= width]
    if fitting_texts:
        return fitting_texts[-1]
    words = set_cell_size(line, max(width - 2, 1)).rpartition(" ")[0].rstrip(" ,:")
    return f"{words} …" if words else one_line(line, max(width, 1))


def wrap_items(items: Iterable[str], width: int) -> str:
    """Join items on lines of at most `width` cells, separated by dots.

    An item is broken only if it is longer than a line.
    """
    lines: list[str] = []
    for item in items:
        if lines and cell_len(f"{lines[-1]} · {item}") <= width:
            lines[-1] += f" · {item}"
        else:
            lines.append(item)
    return "\n".join(lines)


def ending(text: str, width: int = 0) -> str:
    """Return `text` cleaned, on one line, and cut to its last `width` cells (0: not cut), for paths."""
    line = clean(text, newlines=False)
    if not width or cell_len(line) <= width:
        return line
    start = max(0, len(line) - width + 1)
    if not line.isascii():
        start = max(0, len(line) - 4 * width)  # a letter may have several combining accents
        while start < len(line) and (cell_len(line[start:]) >= width or combining(line[start])):
            start += 1
    return "…" + line[start:]


_INDENT = "  "
_LINE_CONTINUATION = " \\"


def command_lines(command: str, key: str, width: int) -> list[str]:
    """Return a command as lines for the screen, without control characters and with `key` masked."""
    return fold_command(clean(command.replace(key, MASK) if key else command), width)


def fold_command(command: str, width: int) -> list[str]:
    """Break a command into lines of at most `width` cells, unless a word is longer.

    The lines are still the same command for a shell. An option stays with its value.
    """
    if cell_len(command) <= width:
        return [command]
    parts = list(_parts(command))
    lines = [parts[0]]
    for part in parts[1:]:
        longer_line = f"{lines[-1]} {part}"
        if cell_len(longer_line) + len(_LINE_CONTINUATION) <= width:
            lines[-1] = longer_line
        else:
            lines.append(_INDENT + part)
    return [line + _LINE_CONTINUATION for line in lines[:-1]] + lines[-1:]


def _parts(command: str) -> Iterator[str]:
    """Yield the quoted words of a command, each option together with the word after it."""
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
    """Return the words of a command. If the command cannot be split, return it as one word."""
    try:
        words = shlex.split(command, posix=False)
    except ValueError:
        return [command]
    return words if " ".join(words) == command else [command]
