"""Graphics capabilities of a terminal, the query for them, and the size of a picture in cells."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from math import ceil

CELL_PIXELS = (10, 20)
"""Default width and height of a cell in pixels, as on a VT340 terminal."""
MIN_COLUMNS = 16
"""Minimum width in cells. Smaller pictures are enlarged to about this width."""
_ROUNDING_ERROR = 1e-6
MAX_SIXEL_PIXELS = 1_200_000
"""Maximum number of pixels of a picture in sixels. Larger pictures take too long to write."""


class GraphicsKind(Enum):
    """Method of drawing a picture."""

    HALF_BLOCKS = "half blocks"
    SIXEL = "sixel"
    KITTY = "kitty"
    WORDS = "words"
    """Only a description, because the terminal shows no colours."""


@dataclass(frozen=True, slots=True)
class Graphics:
    """Graphics capabilities of one terminal. `cell` is the width and height of a cell in pixels."""

    kind: GraphicsKind = GraphicsKind.HALF_BLOCKS
    cell: tuple[int, int] = CELL_PIXELS

    @property
    def pixels_per_cell(self) -> tuple[float, float]:
        """Number of pixels of an unscaled picture per cell: horizontally and vertically."""
        width, height = self.cell
        is_half_blocks = self.kind is GraphicsKind.HALF_BLOCKS
        return (1.0, height / width) if is_half_blocks else (float(width), float(height))

    def cells(self, width: int, height: int, columns: int, rows: int) -> tuple[int, int]:
        """Return columns and rows, within `columns` by `rows`, of a picture of `width` by `height` pixels.

        The proportions are kept, and only tiny pictures are enlarged.
        """
        cell_width, cell_height = self.pixels_per_cell
        max_scale = max(1.0, MIN_COLUMNS * cell_width / max(width, height))
        scale = min(columns * cell_width / width, rows * cell_height / height, max_scale)
        if self.kind is GraphicsKind.SIXEL:
            scale = min(scale, (MAX_SIXEL_PIXELS / (width * height)) ** 0.5)
        picture_columns = ceil(width * scale / cell_width - _ROUNDING_ERROR)
        picture_rows = ceil(height * scale / cell_height - _ROUNDING_ERROR)
        return min(columns, max(1, picture_columns)), min(rows, max(1, picture_rows))

    def pixels(self, columns: int, rows: int) -> tuple[int, int]:
        """Return width and height in pixels of a drawing in these cells."""
        if self.kind is GraphicsKind.HALF_BLOCKS:
            return columns, 2 * rows
        cell_width, cell_height = self.cell
        return columns * cell_width, rows * cell_height

    def within(self, width: int, height: int, columns: int, rows: int) -> tuple[int, int]:
        """Return width and height of a picture scaled into these cells, with its proportions."""
        cell_width, cell_height = self.pixels_per_cell
        horizontal_scale = columns * cell_width / width
        vertical_scale = rows * cell_height / height
        max_width, max_height = self.pixels(columns, rows)
        scale = min(horizontal_scale, vertical_scale)
        return (
            max(1, round(max_width * scale / horizontal_scale)),
            max(1, round(max_height * scale / vertical_scale)),
        )


QUERY_NUMBER = 31
QUERY = (
    f"\x1b_Gi={QUERY_NUMBER},s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\"  # kitty's protocol, with a picture of one pixel
    "\x1b[16t"  # query of the size of a cell
    "\x1b[c"  # query of the device attributes; all terminals answer it, and answers come in order
)
ANSWER_TIMEOUT_S = 2.0
"""Seconds after the query in which the beginning of an answer is kept until the rest arrives."""
_ANSWERS = re.compile(
    r"\x1b_Gi=31;(?P<kitty>[^\x1b]*)\x1b\\"
    r"|\x1b\[6;(?P<height>\d+);(?P<width>\d+)t"
    r"|\x1b\[\?(?P<kind>[\d;]*)c"
)
_PARTIAL_ANSWER = re.compile(r"\x1b(?:_G[^\x1b]*\x1b?|\[6(?:;[\d;]*)?|\[\?[\d;]*)\Z")
_SIXEL = "4"
"""Device attribute of a terminal that draws sixels."""


class TerminalAnswers:
    """Collects the answers among typed keys. Only the reading thread may call `extract`."""

    def __init__(self, on_last: Callable[[], object]) -> None:
        """Create a collector. The reading thread calls `on_last` when the last answer has arrived."""
        self.knows_kitty = False
        self.knows_sixel = False
        self.cell: tuple[int, int] | None = None
        """Width and height of a cell in pixels, if the terminal reported it."""
        self._on_last = on_last
        self._query_time = time.monotonic()
        self._partial_answer = ""

    def extract(self, typed: str) -> str:
        """Return the typed characters without the terminal's answers. The answers are stored."""
        typed, self._partial_answer = self._partial_answer + typed, ""
        typed_keys = _ANSWERS.sub(self._read_answer, typed)
        partial_answer = _PARTIAL_ANSWER.search(typed_keys)
        if partial_answer is None or time.monotonic() - self._query_time > ANSWER_TIMEOUT_S:
            return typed_keys
        self._partial_answer = partial_answer.group()
        return typed_keys[: partial_answer.start()]

    def _read_answer(self, answer: re.Match[str]) -> str:
        if answer["kitty"] is not None:
            self.knows_kitty = answer["kitty"] == "OK"
        elif answer["width"] is not None:
            width, height = int(answer["width"]), int(answer["height"])
            self.cell = (width, height) if 0 < width < 1_000 and 0 < height < 1_000 else None
        else:
            self.knows_sixel = _SIXEL in answer["kind"].split(";")
            self._on_last()
        return ""
