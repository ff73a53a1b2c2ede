"""Screens as text: the characters, and the style of each run of cells. Read, written and compared.

A stored screen has the characters of each line between bars, and then the runs of each line: the column of
the first cell and the style, such as `0 bold primary on panel`; the background is left out if it is that of
the run before. Colours have the names of the theme's variables, `20% foreground` is a blend with a
background, and others are hexadecimal. Consecutive lines with equal runs are written once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import groupby, pairwise, product, zip_longest
from typing import Any

from rich.cells import cell_len
from rich.style import Style
from textual._context import visible_screen_stack
from textual.app import App
from textual.color import BLACK, WHITE, Color, ColorParseError
from textual.geometry import Region
from textual.widgets import Input, TextArea

from tests.support.contrast import contrast

LINES_SHOWN = 8
"""Maximum number of different lines that a comparison shows of one screen."""
RUNS_SHOWN = 6
"""Maximum number of different runs of styles that a comparison shows of one line."""
NAMES_FIRST = (
    *("background", "surface", "panel", "foreground", "text-muted", "text-disabled"),
    *("primary", "secondary", "accent", "success", "warning", "error"),
    *("text-primary", "text-secondary", "text-accent", "text-success", "text-warning", "text-error"),
    *("block-cursor-background", "block-cursor-foreground", "block-cursor-blurred-background"),
)
"""Names that a colour gets before all others of the same value."""
GROUNDS = NAMES_FIRST[:3]
PERCENTS = (50, 20, 10, 8, *range(5, 100, 5), 87)
"""Shares of a colour in a blend with a background that get a name."""
DECORATION = frozenset(" │─┃━╭╮╰╯┌┐└┘├┤┬┴┼▏▎▍▌▋▊▉█▇▆▅▄▃▂▁▔▕▐▀▝▘▖▗╸╹╺╻░▒▓⣿⠁·…")
"""Lines and bars: they are seen, not read."""
_DRAWS_BLANKS = ("underline", "strike", "reverse")
_ATTRIBUTES = ("bold", "dim", "italic", *_DRAWS_BLANKS)
_STYLES = "styles"


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell: a character, empty for the second cell of a wide one, and its style in words."""

    letter: str
    style: str


@dataclass(frozen=True, slots=True)
class ScreenText:
    """One screen."""

    lines: tuple[tuple[Cell, ...], ...]

    @property
    def size(self) -> tuple[int, int]:
        """Columns and rows."""
        return max(map(len, self.lines), default=0), len(self.lines)

    def letters(self, line: int) -> str:
        """Characters of one line."""
        return "".join(cell.letter for cell in self.lines[line]) if line < len(self.lines) else ""

    def shows(self, words: str) -> bool:
        """Whether a line contains the words."""
        return any(words in self.letters(line) for line in range(len(self.lines)))

    def encode(self) -> str:
        """Return the text that is stored."""
        letters = [f"{number:>3} |{self.letters(number)}|" for number in range(len(self.lines))]
        styles = []
        for runs, lines in groupby(range(len(self.lines)), lambda line: _runs(self.lines[line])):
            numbers = list(lines)
            label = f"{numbers[0]}-{numbers[-1]}" if len(numbers) > 1 else f"{numbers[0]}"
            styles.append(f"{label:>5} {', '.join(_shortened(runs))}")
        return "\n".join((*letters, _STYLES, *styles, ""))

    @classmethod
    def decode(cls, text: str) -> ScreenText:
        """Read a stored screen. Raises: ValueError."""
        rows = text.split("\n")[:-1]
        middle = rows.index(_STYLES)
        letters = [row[row.index("|") + 1 : -1] for row in rows[:middle]]
        runs: dict[int, list[tuple[int, str]]] = {}
        for row in rows[middle + 1 :]:
            label, _, written = row.strip().partition(" ")
            first, _, last = label.partition("-")
            parts = list(_in_full(written.split(", ")))
            runs |= dict.fromkeys(range(int(first), int(last or first) + 1), parts)
        return cls(tuple(_cells(line, runs.get(at, [])) for at, line in enumerate(letters)))


def _shortened(runs: Sequence[tuple[int, str]]) -> Iterator[str]:
    """Write runs, without the backgrounds that do not change."""
    before = ""
    for at, style in runs:
        fore, _, back = style.rpartition("on ")
        yield f"{at} {fore.rstrip() if fore and back == before else style}"
        before = back


def _in_full(written: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Read runs that `_shortened` wrote."""
    back = ""
    for part in written:
        at, _, style = part.partition(" ")
        if "on " in style:
            back = style[style.rindex("on ") :]
        else:
            style = f"{style} {back}"
        yield int(at), style


def _cells(letters: str, runs: Sequence[tuple[int, str]]) -> tuple[Cell, ...]:
    cells: list[Cell] = []
    starts = dict(runs)
    style = ""
    for letter in letters:
        style = starts.get(len(cells), style)
        cells.append(Cell(letter, style))
        cells += [Cell("", style)] * (cell_len(letter) - 1)
    return tuple(cells)


def _runs(line: Sequence[Cell]) -> tuple[tuple[int, str], ...]:
    return tuple(
        (at, cell.style) for at, cell in enumerate(line) if at == 0 or cell.style != line[at - 1].style
    )


def draw_screen(app: App[Any]) -> ScreenText:
    """Draw the screen of an app that runs in a test. A cursor that blinks is drawn."""
    for field in app.screen.query("Input, TextArea"):
        if isinstance(field, (Input, TextArea)) and field.has_focus:
            field._restart_blink()
    names = _names(tuple(sorted(app.get_css_variables().items())))
    visible_screen_stack.set(app._background_screens)
    known: dict[Style | None, tuple[str, str]] = {}
    lines = []
    for strip in app.screen._compositor.render_strips():
        cells: list[Cell] = []
        before = ("", "")
        for segment in strip:
            if segment.style not in known:
                known[segment.style] = _in_words(segment.style or Style.null(), names)
            fore, back = known[segment.style]
            for letter in segment.text:
                if not letter.strip() and not any(each in fore for each in _DRAWS_BLANKS):
                    is_on = before[1] == back and not any(each in before[0] for each in _DRAWS_BLANKS)
                    here = before if is_on else ("", back)
                else:
                    here = (fore, back)
                style = f"{here[0]} on {here[1]}".lstrip()
                cells.append(Cell(letter, style))
                cells += [Cell("", style)] * (cell_len(letter) - 1)
                before = here
        lines.append(tuple(cells))
    return ScreenText(tuple(lines))


@cache
def _names(variables: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Colour in hexadecimal -> name of the variable that has it, or of the blend with a background."""
    known: dict[str, Color] = {}
    for name, value in variables:
        with suppress(ColorParseError):
            colour = Color.parse(value)
            if colour.a == 1 and not colour.auto and colour.ansi is None:
                known[name] = colour
    names: dict[str, str] = {}
    rest = sorted(known.keys() - set(NAMES_FIRST), key=lambda name: (len(name), name))
    for name in (*NAMES_FIRST, *rest):
        if name in known:
            names.setdefault(known[name].hex.lower(), name)
    blended = {name: known[name] for name in NAMES_FIRST if name in known} | {"white": WHITE, "black": BLACK}
    for ground, percent in product((known[name] for name in GROUNDS if name in known), PERCENTS):
        for name, colour in blended.items():
            blend = ground.blend(colour, percent / 100, alpha=1)
            names.setdefault(blend.hex.lower(), f"{percent}% {name}")
    return names


def _in_words(style: Style, names: dict[str, str]) -> tuple[str, str]:
    """Attributes and foreground, and background."""
    words = [name for name in _ATTRIBUTES if getattr(style, name)]
    colours = []
    for colour in (style.color, style.bgcolor):
        if colour is None or colour.is_default:
            colours.append("default")
        elif colour.triplet is None:
            colours.append(colour.name)
        else:
            colours.append(names.get(colour.triplet.hex, colour.triplet.hex))
    return " ".join((*words, colours[0])), colours[1]


def faint_words(app: App[Any], screen: ScreenText, least: float) -> Iterator[str]:
    """Describe text with less contrast than `least`, a ratio of WCAG, outside the part that a dialog dims."""
    colours = {
        name: colour for colour, name in _names(tuple(sorted(app.get_css_variables().items()))).items()
    }
    ratios: dict[str, float] = {}
    boxes = [child.region for child in app.screen.children if child.display]
    lit = boxes if app.screen.is_modal else [Region(0, 0, *screen.size)]
    for number, line in enumerate(screen.lines):
        runs = [*(at for at, _ in _runs(line)), len(line)]
        for start, end in pairwise(runs):
            style, text = line[start].style, "".join(cell.letter for cell in line[start:end]).strip()
            if not set(text) - DECORATION or not any(box.contains(start, number) for box in lit):
                continue
            if style not in ratios:
                ratios[style] = _ratio(style, colours)
            if ratios[style] < least:
                yield f"line {number}: {text!r} is {style}, contrast {ratios[style]:.1f}"


def _ratio(style: str, colours: dict[str, str]) -> float:
    fore, _, back = style.rpartition(" on ")
    words = [word for word in fore.split() if word not in _ATTRIBUTES]
    return contrast(*(Color.parse(colours.get(name, name)) for name in (" ".join(words), back)))


def difference(stored: ScreenText, drawn: ScreenText) -> str:
    """Describe the difference of two screens: the lines, with marks below the changed cells.

    Returns an empty text if they are equal.
    """
    if stored.size != drawn.size:
        sizes = [f"{columns} x {rows}" for columns, rows in (stored.size, drawn.size)]
        return f"stored {sizes[0]}, drawn {sizes[1]}"
    pairs = [list(zip_longest(*lines)) for lines in zip(stored.lines, drawn.lines, strict=True)]
    changed = [at for at, cells in enumerate(pairs) if any(_is_changed(*each) for each in cells)]
    if not changed:
        return "" if stored == drawn else "only foregrounds of blank cells"
    count = sum(_is_changed(*each) for at in changed for each in pairs[at])
    report = [f"{count} {'cell' if count == 1 else 'cells'} in {len(changed)} of {len(pairs)} lines"]
    for at in changed[:LINES_SHOWN]:
        report += _line_difference(at, stored.letters(at), drawn.letters(at), pairs[at])
    if len(changed) > LINES_SHOWN:
        report.append(f"and lines {', '.join(map(str, changed[LINES_SHOWN:]))}")
    return "\n".join(report)


def _line_difference(
    line: int, old: str, new: str, cells: Sequence[tuple[Cell | None, Cell | None]]
) -> Iterator[str]:
    marks = "".join("^" if _is_changed(*each) else " " for each in cells).rstrip()
    if old != new:
        yield f"line {line:>3} - |{old}|"
        yield f"         + |{new}|"
    else:
        yield f"line {line:>3}   |{new}|"
    yield f"            {marks}"
    runs = []
    for change, group in groupby(enumerate(cells), lambda each: _restyled(*each[1])):
        columns = [at for at, _ in group]
        if change:
            runs.append(f"           columns {columns[0]}-{columns[-1]}: {change[0]} -> {change[1]}")
    yield from runs[:RUNS_SHOWN]
    if len(runs) > RUNS_SHOWN:
        yield f"           and {len(runs) - RUNS_SHOWN} more runs of styles"


def _is_changed(old: Cell | None, new: Cell | None) -> bool:
    """Whether a cell looks different: blank cells have no visible foreground."""
    if old is None or new is None or old.letter != new.letter:
        return old != new
    return old.style != new.style and not (
        old.letter == " "
        and old.style.rpartition("on ")[2] == new.style.rpartition("on ")[2]
        and not any(each in cell.style for each in _DRAWS_BLANKS for cell in (old, new))
    )


def _restyled(old: Cell | None, new: Cell | None) -> tuple[str, str] | None:
    styles = (old.style if old else "nothing", new.style if new else "nothing")
    return styles if styles[0] != styles[1] and _is_changed(old, new) else None
