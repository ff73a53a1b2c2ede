"""Pictures in kitty's graphics protocol: sent once, then shown by cells that are text like any other.

Source: https://sw.kovidgoyal.net/kitty/graphics-protocol/, direct transmission and Unicode placeholders.
"""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING

from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

if TYPE_CHECKING:
    from PIL.Image import Image

_PLACEHOLDER = "\U0010eeee"
_CHUNK = 4_096
"""Characters of a payload in one message."""
_RUNS = """
305 30d-30e 310 312 33d-33f 346 34a-34c 350-352 357 35b 363-36f 483-487 592-595 597-599 59c-5a1 5a8-5a9
5ab-5ac 5af 5c4 610-617 657-65b 65d-65e 6d6-6dc 6df-6e2 6e4 6e7-6e8 6eb-6ec 730 732-733 735-736 73a 73d
73f-741 743 745 747 749-74a 7eb-7f1 7f3 816-819 81b-823 825-827 829-82d 951 953-954 f82-f83 f86-f87
135d-135f 17dd 193a 1a17 1a75-1a7c 1b6b 1b6d-1b73 1cd0-1cd2 1cda-1cdb 1ce0 1dc0-1dc1 1dc3-1dc9 1dcb-1dcc
1dd1-1de6 1dfe 20d0-20d1 20d4-20d7 20db-20dc 20e1 20e7 20e9 20f0 2cef-2cf1 2de0-2dff a66f a67c-a67d
a6f0-a6f1 a8e0-a8f1 aab0 aab2-aab3 aab7-aab8 aabe-aabf aac1 fe20-fe26 10a0f 10a38 1d185-1d189 1d1aa-1d1ad
1d242-1d244
"""
"""The combining characters that count rows and columns, in hex, as runs from and to."""


def _numbers() -> list[str]:
    ends = [run.split("-") for run in _RUNS.split()]
    return [chr(code) for run in ends for code in range(int(run[0], 16), int(run[-1], 16) + 1)]


NUMBERS = _numbers()
MOST_CELLS = len(NUMBERS)
"""Rows, and columns, of one picture."""


def transmission(image: Image, number: int, columns: int, rows: int) -> str:
    """The messages that give the terminal a picture under a number below 2**24, to fill that many cells."""
    packed = io.BytesIO()
    image.save(packed, "PNG", compress_level=2)
    payload = base64.b64encode(packed.getvalue()).decode()
    pieces = [payload[start : start + _CHUNK] for start in range(0, len(payload), _CHUNK)]
    sent = [
        _message(f"i={number},f=100,q=2,m={int(left > 0)}", piece)
        for left, piece in zip(range(len(pieces) - 1, -1, -1), pieces, strict=True)
    ]
    return "".join(sent) + _message(f"a=p,U=1,i={number},c={columns},r={rows},q=2")


def deletion(number: int) -> str:
    """The message that lets the terminal forget a picture."""
    return _message(f"a=d,d=I,i={number},q=2")


def placeholders(number: int, columns: int, rows: int) -> list[Strip]:
    """The cells that show a picture: its number is their colour, combining characters tell their place."""
    style = Style(color=Color.from_rgb(number >> 16 & 255, number >> 8 & 255, number & 255))
    lines = ("".join(_PLACEHOLDER + row + column for column in NUMBERS[:columns]) for row in NUMBERS[:rows])
    return [Strip([Segment(line, style)], columns) for line in lines]


def _message(keys: str, payload: str = "") -> str:
    return f"\x1b_G{keys}{';' * bool(payload)}{payload}\x1b\\"
