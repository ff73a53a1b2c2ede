"""Records the tour that the README shows: `python -m tests.support.tour docs/tour.gif [FONT.ttf BOLD.ttf]`.

The real program is typed at in a pseudo-terminal. Every pause of the person at it becomes a picture.
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyte
from PIL import Image, ImageDraw, ImageFont

from tests.support.terminal import Desk

COLUMNS, ROWS = 110, 30
CELL = (8, 16)
POINTS = 13
FONTS = tuple(f"/usr/share/fonts/truetype/dejavu/DejaVuSansMono{kind}.ttf" for kind in ("", "-Bold"))
COLOURS = 128
LOOK_S = 1.0
"""Seconds until the person types: the desk takes no key that was typed as a question came."""
STUCK = "loop stuck"
"""Words of the header while another program has the processor; a picture with them tells something untrue."""
DARK, LIGHT = "#101010", "#d0d0d0"
NAMED = {
    "black": "#000000",
    "red": "#cc3333",
    "green": "#33aa33",
    "brown": "#aa8800",
    "blue": "#3366cc",
    "magenta": "#aa33aa",
    "cyan": "#33aaaa",
    "white": "#cccccc",
}
KEYS = {
    "enter": "\r",
    "escape": "\x1b",
    "tab": "\t",
    "down": "\x1b[B",
    "right": "\x1b[C",
    "up": "\x1b[A",
    "left": "\x1b[D",
    "run": "\x12",
}


class Step(NamedTuple):
    """Keys of the person, the text they wait for, and how long they look at it."""

    keys: str
    """Words are typed as they are; one of `KEYS` in angle brackets: `ada<enter>`."""
    sees: str
    """A regular expression."""
    looks_s: float


TOUR = (
    Step("", r"(?s)Count down.*Call \^r", 2.0),
    Step("<run>", r"\(3 of 5\)", 0.8),
    Step("", r"Lift-off!", 2.0),
    Step("/order<enter>", r"Order a cup", 1.5),
    Step("<run>", r"Which tea", 2.0),
    Step("2<enter>", r"What goes", 1.5),
    Step("13<enter>", r"coming up", 2.0),
    Step("2", r"order-tea", 2.5),
    Step("<up>", r"countdown", 0.6),
    Step("<right>", r"5 of 5", 2.5),
    Step("<left>w", r"handler|client|person", 3.5),
    Step("6", r"p95", 3.0),
)


def strokes(keys: str) -> list[str]:
    """Keys as sent to the terminal, one item each."""
    return [KEYS[name] if name else letter for name, letter in re.findall(r"<(\w+)>|(.)", keys)]


def frames() -> Iterator[tuple[pyte.Screen, float]]:
    """The screen after every key, and how long it stays as it is, in seconds."""
    with tempfile.TemporaryDirectory() as home:
        environ = {"MCPDESK_STATE_DIR": f"{home}/state", "MCPDESK_CONFIG_DIR": f"{home}/config", "HOME": home}
        arguments = ["sample_servers/hello", "--http", "0"]
        with Desk(arguments, columns=COLUMNS, rows=ROWS, environ=environ, has_colours=True) as desk:
            for step in TOUR:
                *typed, last = strokes(step.keys) or [""]
                for key in typed:
                    desk.press(key)
                    desk.settle(0.2)
                    yield desk.screen, 0.12
                desk.press(last)
                desk.see(step.sees)
                desk.wait(lambda: STUCK not in desk.text, "a loop that is not stuck")
                desk.settle(LOOK_S)
                yield desk.screen, step.looks_s


def drawn(screen: pyte.Screen, fonts: tuple[ImageFont.FreeTypeFont, ...]) -> Image.Image:
    """A picture of a screen."""
    width, height = CELL
    picture = Image.new("RGB", (screen.columns * width, screen.lines * height), DARK)
    pen = ImageDraw.Draw(picture)
    for row in range(screen.lines):
        for column in range(screen.columns):
            cell = screen.buffer[row][column]
            fore, back = _colour(cell.fg, LIGHT), _colour(cell.bg, DARK)
            if cell.reverse:
                fore, back = back, fore
            left, top = column * width, row * height
            pen.rectangle((left, top, left + width - 1, top + height - 1), fill=back)
            if cell.data.strip():
                pen.text((left, top), cell.data, font=fonts[cell.bold], fill=fore)
    return picture


def _colour(name: str, default: str) -> str:
    if name == "default":
        return default
    return (
        f"#{name}" if re.fullmatch(r"[0-9a-f]{6}", name) else NAMED.get(name.removeprefix("bright"), default)
    )


def main() -> None:
    """Write the tour to the file that is named."""
    target, *named = sys.argv[1:]
    fonts = tuple(ImageFont.truetype(path, POINTS) for path in named or FONTS)
    taken, shown = list[tuple[Image.Image, int]](), list[str]()
    for screen, pause in frames():
        if STUCK in "".join(screen.display):
            raise SystemExit(f"The screen says {STUCK!r}: record the tour on a machine that is not busy.")
        taken.append((drawn(screen, fonts), round(pause * 1000)))
        shown.append("\n".join(screen.display))
    pictures = [picture.quantize(COLOURS, dither=Image.Dither.NONE) for picture, _ in taken]
    pauses = [pause for _, pause in taken]
    first, *rest = pictures
    first.save(
        target,
        save_all=True,
        append_images=rest,
        duration=pauses,
        loop=0,
        optimize=True,
        comment=shown[0].encode(),  # the tests read what the first picture shows
    )
    size = Path(target).stat().st_size >> 10
    print(f"{target}: {len(pictures)} pictures, {size} KB, {sum(pauses) / 1000:.0f} s")


if __name__ == "__main__":
    main()
