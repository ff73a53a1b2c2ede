"""Output of programs made harmless: colours become styles, other commands to a terminal are dropped.

Knows no widget. A line begins without any style, as programs that colour lines do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rich.cells import cell_len, chop_cells
from rich.color import Color
from rich.style import Style

from mcpdesk.tui.render.text import clean

_COMMAND = re.compile(
    r"\x1b(?:"
    r"\[(?P<numbers>[0-?]*)[ -/]*(?P<final>[@-~]?)"
    r"|[\]PX^_].*?(?:\x07|\x1b\\|$)"
    r"|[ -/]*[0-~]?"
    r")",
    re.DOTALL,
)
"""CSI with its numbers; strings (titles, links) up to their end; every other escape sequence."""
PLAIN = Style()
BLACK, GREY, WHITES = 0, 8, (7, 15)
"""Numbers of colours."""
DIGITS = 9
"""Of a number; more say nothing, and thousands could not even be read."""
_ATTRIBUTES: dict[int, dict[str, bool | None]] = {
    1: {"bold": True},
    2: {"dim": True},
    3: {"italic": True},
    4: {"underline": True},
    7: {"reverse": True},
    9: {"strike": True},
    22: {"bold": None, "dim": None},
    23: {"italic": None},
    24: {"underline": None},
    27: {"reverse": None},
    29: {"strike": None},
}
"""What one number switches on, or (None) off. Blinking and hiding are left out on purpose."""

Look = dict[str, bool | Color | None]


def plain(line: str) -> str:
    """The letters of a line."""
    return clean(_COMMAND.sub("", line) if "\x1b" in line else line, newlines=False)


def spans(line: str) -> Iterator[tuple[str, Style]]:
    """The letters of a line with their styles; joined they are `plain(line)`."""
    if "\x1b" not in line:
        yield clean(line, newlines=False), PLAIN
        return
    look: Look = {}
    style, at = PLAIN, 0
    for command in _COMMAND.finditer(line):
        if command.start() > at:
            yield clean(line[at : command.start()], newlines=False), style
        at = command.end()
        if command["final"] == "m":
            style = _restyled(look, command["numbers"])
    if at < len(line):
        yield clean(line[at:], newlines=False), style


def wrapped(text: str, width: int) -> Iterator[tuple[int, int]]:
    """Where the rows of a plain text of one line start and end, so that each fits into `width` cells."""
    if width <= 0 or (len(text) <= width and cell_len(text) <= width):
        yield 0, len(text)
        return
    if text.isascii():
        for start in range(0, len(text), width):
            yield start, min(start + width, len(text))
        return
    at = 0
    for row in chop_cells(text, width):
        yield at, at + len(row)
        at += len(row)


def _restyled(look: Look, numbers: str) -> Style:
    """The style after a command of the kind `1;31`; `look` is changed."""
    codes = iter([int(each[:DIGITS]) if each.isdigit() else 0 for each in re.split("[;:]", numbers)])
    for code in codes:
        if code == 0:
            look.clear()
        elif code in _ATTRIBUTES:
            look.update(_ATTRIBUTES[code])
        elif code in (38, 48):
            look["color" if code == 38 else "bgcolor"] = _chosen(codes)
        elif code in (39, 49):
            look["color" if code == 39 else "bgcolor"] = None
        elif 30 <= code <= 37 or 90 <= code <= 97:
            look["color"] = Color.from_ansi(code % 10 + (8 if code >= 90 else 0))
        elif 40 <= code <= 47 or 100 <= code <= 107:
            look["bgcolor"] = Color.from_ansi(code % 10 + (8 if code >= 100 else 0))
    return Style(**_legible(look)) if look else PLAIN  # type: ignore[arg-type]


def _legible(look: Look) -> Look:
    """Black and white letters must not drown in the theme's ground, where the program chose none for them."""
    colour = look.get("color")
    number = colour.number if isinstance(colour, Color) and not look.get("bgcolor") else None
    if number == BLACK:
        return look | {"color": Color.from_ansi(GREY)}
    return look | {"color": None} if number in WHITES else look


def _chosen(codes: Iterator[int]) -> Color | None:
    """The colour `5;n` or `2;r;g;b`."""
    kind = next(codes, 0)
    if kind == 5:
        return Color.from_ansi(min(next(codes, 0), 255))
    if kind == 2:
        red, green, blue = (min(next(codes, 0), 255) for _ in range(3))
        return Color.from_rgb(red, green, blue)
    return None
