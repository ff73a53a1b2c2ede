"""Pictures of every screen in every theme: `python -m tests.support.contact_sheets FOLDER [WHAT ...]`.

The real program is driven through all screens. Each theme gets a sheet of small pictures, each screen one
picture in the default theme at full size; texts with too little contrast are listed. WHAT may be one of three
sizes, such as 120x40, and names of themes.
"""

from __future__ import annotations

import asyncio
import html
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from PIL import Image, ImageDraw, ImageFont
from textual.app import App
from textual.color import Color

from mcpdesk.tui.themes import DEFAULT_THEME
from tests.support.contrast import contrast
from tests.support.picture import visit_screens
from tests.support.screen_text import DECORATION
from tests.support.screens import SIZES
from tests.support.tour import CELL, FONTS, POINTS

WIDE, HIGH = 12.2, 24.4
"""Units of a cell in a picture that Rich draws."""
LEAST = 4.5
"""Contrast below which a text is listed, from the accessibility guidelines."""
ACROSS = 4
"""Number of pictures in a row of a sheet."""
SHRINK = {80: 0.75, 120: 0.5, 200: 0.35}
"""Columns of a screen -> the size of its picture on a sheet."""
_STYLE = re.compile(r"\.terminal-\S*(r\d+) \{ fill: (#\w{6})[^}]*\}")
_BOLD = re.compile(r"\.terminal-\S*(r\d+) \{[^}]*font-weight: bold")
_RECT = re.compile(r'<rect fill="(#\w{6})" x="([\d.]+)" y="([\d.]+)" width="([\d.]+)" height="24.65"')
_TEXT = re.compile(r'<text class="terminal-\S*?(r\d+)" x="([\d.]+)" y="([\d.]+)"[^>]*>([^<]*)</text>')


class Cell(NamedTuple):
    """One character of a screen, with the colours it is drawn in."""

    letter: str
    fore: str
    back: str
    is_bold: bool


Screen = Mapping[tuple[int, int], Cell]
"""Cells by row and column."""


def cells_of(svg: str) -> Screen:
    """Read a picture that the program drew of itself."""
    colours, bold = dict(_STYLE.findall(svg)), set(_BOLD.findall(svg))
    grounds: dict[tuple[int, int], str] = {}
    for colour, x, y, width in _RECT.findall(svg):
        row, start = round((float(y) - 1.5) / HIGH), round(float(x) / WIDE)
        for column in range(start, start + round(float(width) / WIDE)):
            grounds[row, column] = colour
    cells = {cell: Cell(" ", "#000000", ground, False) for cell, ground in grounds.items()}
    for style, x, y, text in _TEXT.findall(svg):
        row, column = round((float(y) - 20) / HIGH), round(float(x) / WIDE)
        for letter in html.unescape(text).replace("\xa0", " "):
            back = grounds.get((row, column), "#000000")
            cells[row, column] = Cell(letter, colours.get(style, "#ffffff"), back, style in bold)
            column += 1
    return cells


def faint(screen: Screen, least: float) -> Iterator[tuple[float, int, str]]:
    """Texts with less contrast than `least`: the ratio, the row, and the letters in one style."""
    run: list[str] = []
    before: tuple[int, str, str] | None = None
    for (row, _), cell in [*sorted(screen.items()), ((-1, 0), Cell(" ", "", "", False))]:
        style = (row, cell.fore, cell.back)
        if style != before and before is not None:
            text = "".join(run).strip()
            if set(text) - DECORATION:
                ratio = contrast(Color.parse(before[1]), Color.parse(before[2]))
                if ratio < least:
                    yield ratio, before[0], text
            run = []
        before = style
        run.append(cell.letter)


def uncovered(screen: Screen, app: App[None]) -> Screen:
    """The part of a screen that is not dimmed by a dialog."""
    if not app.screen.is_modal:
        return screen
    boxes = [child.region for child in app.screen.children if child.display]
    return {
        (row, at): cell for (row, at), cell in screen.items() if any(box.contains(at, row) for box in boxes)
    }


def drawn(screen: Screen, size: tuple[int, int], fonts: Sequence[ImageFont.FreeTypeFont]) -> Image.Image:
    """A picture of a screen, with the fonts for plain and for bold letters."""
    width, height = CELL
    picture = Image.new("RGB", (size[0] * width, size[1] * height))
    pen = ImageDraw.Draw(picture)
    for (row, column), cell in screen.items():
        left, top = column * width, row * height
        pen.rectangle((left, top, left + width - 1, top + height - 1), fill=cell.back)
    for (row, column), cell in screen.items():
        if cell.letter.strip():
            pen.text((column * width, row * height), cell.letter, font=fonts[cell.is_bold], fill=cell.fore)
    return picture


def sheet(pictures: Sequence[Image.Image], across: int = ACROSS) -> Image.Image:
    """Pictures of one size in rows."""
    width, height = pictures[0].size
    whole = Image.new("RGB", (across * (width + 4), -(-len(pictures) // across) * (height + 4)), "#808080")
    for at, picture in enumerate(pictures):
        whole.paste(picture, (at % across * (width + 4), at // across * (height + 4)))
    return whole


async def shoot(folder: Path, size: tuple[int, int], wanted: Iterable[str]) -> list[str]:
    """Write the sheets of one size; return the texts with too little contrast."""
    fonts = [ImageFont.truetype(path, POINTS) for path in FONTS]
    columns, rows = size
    sheets: dict[str, list[Image.Image]] = {}
    complaints = []
    async for name, pilot in visit_screens(size):
        for theme in wanted or sorted(pilot.app.available_themes):
            pilot.app.theme = theme
            await pilot.pause()
            await pilot.pause()
            screen = cells_of(pilot.app.export_screenshot())
            complaints += [
                f"{ratio:5.2f} {theme:20} {name:10} {columns}x{rows} row {row:2}: {text[:50]}"
                for ratio, row, text in faint(uncovered(screen, pilot.app), LEAST)
            ]
            picture = drawn(screen, size, fonts)
            if theme == DEFAULT_THEME:
                picture.save(folder / f"{name}-{columns}x{rows}.png")
            small = picture.resize([round(side * SHRINK[columns]) for side in picture.size])
            sheets.setdefault(theme, []).append(small)
        pilot.app.theme = DEFAULT_THEME
        await pilot.pause()
    for theme, pictures in sheets.items():
        sheet(pictures).save(folder / f"theme-{theme}-{columns}x{rows}.png")
    return complaints


def main() -> None:
    """Write the sheets into the folder of the command line."""
    folder, *named = sys.argv[1:]
    sizes = [size for size in SIZES if f"{size[0]}x{size[1]}" in named] or SIZES
    wanted = [name for name in named if not name[0].isdigit()]
    Path(folder).mkdir(parents=True, exist_ok=True)
    complaints = [line for size in sizes for line in asyncio.run(shoot(Path(folder), size, wanted))]
    (Path(folder) / "faint.txt").write_text("\n".join(sorted(complaints)) + "\n")
    print(f"{folder}: {len(complaints)} places below 4.5, see faint.txt")


if __name__ == "__main__":
    main()
