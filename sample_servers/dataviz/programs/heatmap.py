"""visualize-heatmap: draws a grid as a picture, with a title, axes and a colour scale."""

from __future__ import annotations

import argparse
import math
from array import array
from pathlib import Path
from typing import NamedTuple

from grids import Grid, read_grid, report, stop
from palettes import PALETTES, Colour, scale
from ticks import degrees, tick_text, ticks

try:
    from PIL import Image, ImageDraw, ImageFilter, ImageFont
except ImportError:
    stop("needs pillow, which is not installed: pip install 'mcpdesk[tools]'")

STEPS = 4
"""Number of steps of the progress."""
TICK = 6
"""Length of a tick, in pixels of a picture that is 960 pixels wide."""


class Theme(NamedTuple):
    """Colours of the picture outside the field."""

    paper: str
    ink: str
    soft: str
    missing: Colour
    line: Colour


THEMES = {
    "light": Theme("#fcfcfa", "#1f2328", "#6a737d", (222, 222, 218), (20, 20, 20)),
    "dark": Theme("#14171c", "#e8e8e3", "#9aa3ad", (48, 52, 58), (245, 245, 245)),
}


class Frame(NamedTuple):
    """Rectangle in the picture, in pixels."""

    left: int
    top: int
    right: int
    bottom: int

    @property
    def size(self) -> tuple[int, int]:
        return self.right - self.left, self.bottom - self.top


class Picture:
    """Heat map that is being drawn."""

    def __init__(self, grid: Grid, arguments: argparse.Namespace) -> None:
        self.grid = grid
        self.theme = THEMES[arguments.theme]
        self.unit = arguments.unit or grid.extent.unit
        self.title = arguments.title or grid.extent.title or Path(arguments.input).stem
        low, high = grid.range()
        self.low = low if arguments.minimum is None else arguments.minimum
        self.high = high if arguments.maximum is None else arguments.maximum
        if not self.high > self.low:
            self.low, self.high = self.low - 0.5, self.low + 0.5
        self.colours = scale(arguments.palette)
        self.has_contours = arguments.contours
        self.unit_px = arguments.width / 960
        self.frame = self._frame(arguments.width)
        self.image = Image.new("RGB", (arguments.width, self.frame.bottom + self._px(58)), self.theme.paper)
        self.draw = ImageDraw.Draw(self.image)

    def field(self) -> None:
        """Draw the values as smooth colours. Cells without a value are grey."""
        size = self.frame.size
        values = array("f", [value if math.isfinite(value) else self.low for value in self.grid.values])
        factor = 255 / (self.high - self.low)
        plane = Image.frombytes("F", (self.grid.width, self.grid.height), values.tobytes())
        plane = plane.point(lambda value: value * factor + -self.low * factor)
        is_coarse = max(size[0] / self.grid.width, size[1] / self.grid.height) > 40
        shades = plane.resize(
            size, Image.Resampling.NEAREST if is_coarse else Image.Resampling.BICUBIC
        ).convert("L")
        coloured = shades.copy()
        coloured.putpalette([channel for colour in self.colours for channel in colour])
        field = coloured.convert("RGB")
        if self.has_contours:
            self._contours(field, shades)
        gaps = bytes(255 * (not math.isfinite(value)) for value in self.grid.values)
        if any(gaps):
            mask = Image.frombytes("L", (self.grid.width, self.grid.height), gaps)
            field.paste(self.theme.missing, mask=mask.resize(size, Image.Resampling.NEAREST))
        self.image.paste(field, (self.frame.left, self.frame.top))
        self.draw.rectangle(self._outline(self.frame), outline=self.theme.ink, width=self._px(1))

    def axes(self) -> None:
        """Draw ticks with numbers: degrees if the grid has edges on a map, or else columns and rows."""
        extent, frame = self.grid.extent, self.frame
        is_map = None not in (extent.west, extent.east, extent.south, extent.north)
        west, east = (extent.west, extent.east) if is_map else (0, self.grid.width)
        north, south = (extent.north, extent.south) if is_map else (0, self.grid.height)
        assert west is not None and east is not None and north is not None and south is not None
        small, width, height = self._font(13), *frame.size
        for value in _degree_ticks(west, east, 9) if is_map else ticks(west, east, 9):
            x = frame.left + (value - west) / (east - west) * width
            self.draw.line((x, frame.bottom, x, frame.bottom + self._px(TICK)), self.theme.ink, self._px(1))
            text = degrees(value, "EW") if is_map else tick_text(value)
            self.draw.text((x, frame.bottom + self._px(TICK + 4)), text, self.theme.ink, small, anchor="ma")
        low, high = min(north, south), max(north, south)
        for value in _degree_ticks(low, high, 7) if is_map else ticks(low, high, 7):
            y = frame.top + (value - north) / (south - north) * height
            self.draw.line((frame.left - self._px(TICK), y, frame.left, y), self.theme.ink, self._px(1))
            text = degrees(value, "NS") if is_map else tick_text(value)
            self.draw.text((frame.left - self._px(TICK + 4), y), text, self.theme.ink, small, anchor="rm")

    def legend(self) -> None:
        """Draw the colour scale with numbers and the unit."""
        top, bottom = self.frame.top, self.frame.bottom
        left = self.frame.right + self._px(26)
        bar = Frame(left, top, left + self._px(20), bottom)
        ramp = Image.new("RGB", (1, 256))
        for step, colour in enumerate(reversed(self.colours)):
            ramp.putpixel((0, step), colour)
        self.image.paste(ramp.resize(bar.size, Image.Resampling.BILINEAR), (bar.left, bar.top))
        self.draw.rectangle(self._outline(bar), outline=self.theme.ink, width=self._px(1))
        for value in ticks(self.low, self.high, 8):
            y = bottom - (value - self.low) / (self.high - self.low) * (bottom - top)
            self.draw.line((bar.right, y, bar.right + self._px(TICK), y), self.theme.ink, self._px(1))
            position = (bar.right + self._px(TICK + 4), y)
            self.draw.text(position, tick_text(value), self.theme.ink, self._font(13), anchor="lm")
        if self.unit:
            self.draw.text(
                (bar.left, top - self._px(8)), self.unit, self.theme.soft, self._font(13), anchor="ls"
            )

    def heading(self) -> None:
        """Draw the title and the summary of the grid."""
        left, soft = self.frame.left, self.theme.soft
        self.draw.text((left, self._px(22)), self.title, self.theme.ink, self._font(22))
        self.draw.text((left, self._px(52)), self.grid.summary(), soft, self._font(13))

    def _contours(self, field: Image.Image, shades: Image.Image) -> None:
        line = Image.new("RGB", field.size, self.theme.line)
        for value in ticks(self.low, self.high, 12):
            level = (value - self.low) / (self.high - self.low) * 255
            above = shades.point([255 * (shade >= level) for shade in range(256)])
            edge = above.filter(ImageFilter.FIND_EDGES)
            # The filter does not change the outermost pixels.
            ImageDraw.Draw(edge).rectangle((0, 0, edge.width - 1, edge.height - 1), outline=0, width=2)
            edge = edge.filter(ImageFilter.GaussianBlur(0.6 * self.unit_px))
            field.paste(line, mask=edge.point([min(shade, 96) for shade in range(256)]))

    def _frame(self, width: int) -> Frame:
        left, top, right = self._px(78), self._px(92), width - self._px(112)
        height = (right - left) * self.grid.height / self.grid.width
        return Frame(left, top, right, top + round(min(max(height, self._px(160)), self._px(720))))

    def _outline(self, frame: Frame) -> tuple[int, int, int, int]:
        return frame.left - 1, frame.top - 1, frame.right, frame.bottom

    def _px(self, size: float) -> int:
        return max(1, round(size * self.unit_px))

    def _font(self, size: float) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
        return ImageFont.load_default(size=max(8, size * self.unit_px))


def _degree_ticks(low: float, high: float, max_count: int) -> list[float]:
    """Return at most `max_count` round numbers of degrees on an axis of a map."""
    step = next((each for each in (1, 2, 5, 10, 15, 30, 45, 60, 90) if (high - low) / each <= max_count), 90)
    if high - low < 4:
        return ticks(low, high, max_count)
    return [float(value) for value in range(math.ceil(low / step) * step, math.floor(high) + 1, step)]


def main() -> None:
    """Read a grid, draw it, and write the picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--input", required=True)
    parser.add_argument("--output", required=True)
    parser.add_argument("--title", default="")
    parser.add_argument("--unit", default="")
    parser.add_argument("--palette", choices=PALETTES, default="viridis")
    parser.add_argument("--theme", choices=THEMES, default="light")
    parser.add_argument("--minimum", type=float)
    parser.add_argument("--maximum", type=float)
    parser.add_argument("--width", type=int, default=960)
    parser.add_argument("--contours", action="store_true")
    arguments = parser.parse_args()
    report(0, STEPS, f"reading {Path(arguments.input).name}")
    grid = read_grid(Path(arguments.input))
    picture = Picture(grid, arguments)
    for step, (part, draw) in enumerate(
        (("the field", picture.field), ("the axes", picture.axes), ("the legend", picture.legend)), 1
    ):
        report(step, STEPS, f"drawing {part}")
        draw()
    picture.heading()
    try:
        picture.image.save(arguments.output, "PNG", optimize=True)
    except OSError as error:
        stop(f"{arguments.output} cannot be written: {error.strerror or error}")
    report(STEPS, STEPS, "done")
    print(f"{grid.summary()}; drawn from {picture.low:g} to {picture.high:g} in {arguments.palette}")


if __name__ == "__main__":
    main()
