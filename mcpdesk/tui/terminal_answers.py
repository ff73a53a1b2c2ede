"""What a terminal answers when it is asked about pictures, picked out of what a person types. Pure."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

NUMBER = 31
QUESTION = (
    f"\x1b_Gi={NUMBER},s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\"  # kitty's protocol, with one pixel
    "\x1b[16t"  # the size of a cell
    "\x1b[c"  # what kind of terminal it is: all of them answer this, and answers come in order
)
WITHIN_S = 2.0
"""A piece of an answer is kept for so long for the rest of it."""
_ANSWERS = re.compile(
    r"\x1b_Gi=31;(?P<kitty>[^\x1b]*)\x1b\\"
    r"|\x1b\[6;(?P<height>\d+);(?P<width>\d+)t"
    r"|\x1b\[\?(?P<kind>[\d;]*)c"
)
_BEGUN = re.compile(r"\x1b(?:_G[^\x1b]*\x1b?|\[6(?:;[\d;]*)?|\[\?[\d;]*)\Z")
_SIXEL = "4"


class Answers:
    """Reads along with what is typed. `take` is for the thread that reads, the rest for any."""

    def __init__(self, on_last: Callable[[], object]) -> None:
        """`on_last` is called, by the thread that reads, when nothing more is to come."""
        self.knows_kitty = False
        self.knows_sixel = False
        self.cell: tuple[int, int] | None = None
        """Width and height of a cell in pixels, if that was told."""
        self._on_last = on_last
        self._asked = time.monotonic()
        self._begun = ""

    def take(self, typed: str) -> str:
        """What is left of the characters read when the answers in them are taken out."""
        typed, self._begun = self._begun + typed, ""
        left = _ANSWERS.sub(self._note, typed)
        begun = _BEGUN.search(left)
        if begun is None or time.monotonic() - self._asked > WITHIN_S:
            return left
        self._begun = begun.group()
        return left[: begun.start()]

    def _note(self, answer: re.Match[str]) -> str:
        if answer["kitty"] is not None:
            self.knows_kitty = answer["kitty"] == "OK"
        elif answer["width"] is not None:
            width, height = int(answer["width"]), int(answer["height"])
            self.cell = (width, height) if 0 < width < 1_000 and 0 < height < 1_000 else None
        else:
            self.knows_sixel = _SIXEL in answer["kind"].split(";")
            self._on_last()
        return ""
