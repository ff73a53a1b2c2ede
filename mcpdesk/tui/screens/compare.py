"""Two exchanges side by side as a list of differences: what the first says, what the second says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher, unified_diff
from itertools import islice, zip_longest
from typing import Any, ClassVar, Final

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Static

from mcpdesk.tui.render.json_text import Path, compact, path_text
from mcpdesk.tui.render.safe_text import one_line
from mcpdesk.tui.widgets.line_list import LineList, Span
from mcpdesk.tui.widgets.menu import Dialog

_NEVER_COMPARED = ("jsonrpc", "id")
_SHOWN = 2_000
"""Characters of a value that are laid out."""


class DifferenceList(LineList):
    """Rows of a difference: the place, `-` the first value, `+` the second; of long texts their lines."""

    DEFAULT_CSS = "DifferenceList { height: auto; max-height: 100%; min-height: 1; }"

    def __init__(self, found: Sequence[tuple[str, Difference]]) -> None:
        super().__init__()
        self.rows = list(_rows(found)) or [("", "no difference", "lines--good")]

    @property
    def row_count(self) -> int:
        return len(self.rows)

    def spans(self, index: int, width: int) -> Iterator[Span]:
        """Glyph and text; a place has no glyph."""
        glyph, text, style = self.rows[index]
        if glyph:
            yield f"  {glyph} ", style
        yield text, style


class CompareScreen(Dialog[None]):
    """Shows in what the messages of two exchanges differ."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,d", "dismiss(None)", "Close", show=False),
    ]
    DEFAULT_CSS = """
    CompareScreen { align: center middle; }
    CompareScreen > .box { width: 110; }
    CompareScreen .titles { height: 2; color: $text-muted; text-wrap: nowrap; text-overflow: ellipsis; }
    """

    def __init__(self, titles: tuple[str, str], before: Mapping[str, Any], after: Mapping[str, Any]) -> None:
        """`before` and `after` hold the messages of an exchange by side: `request`, `response`."""
        super().__init__()
        self.titles = titles
        self.found = [
            (side, each)
            for side in dict.fromkeys([*before, *after])
            for each in differences(_compared(before.get(side, NOTHING)), _compared(after.get(side, NOTHING)))
        ]

    def compose(self) -> ComposeResult:
        """Which two, then what differs."""
        box = Vertical(classes="box")
        count = f"{MOST:,} or more" if len(self.found) >= MOST else f"{len(self.found):,}"
        box.border_title = f"{count} difference{'' if len(self.found) == 1 else 's'}"
        box.border_subtitle = "esc close"
        with box:
            first, second = (one_line(title) for title in self.titles)
            yield Static(f"- {first}\n+ {second}", classes="titles", markup=False)
            yield DifferenceList(self.found)

    def on_mount(self) -> None:
        """Arrow keys move at once."""
        self.query_one(DifferenceList).focus()


def _compared(message: Any) -> Any:
    """A message without what differs in any case."""
    if not isinstance(message, dict):
        return message
    return {key: value for key, value in message.items() if key not in _NEVER_COMPARED}


def _rows(found: Sequence[tuple[str, Difference]]) -> Iterator[tuple[str, str, str]]:
    for side, each in found:
        yield "", one_line(f"{side} {path_text(each.path)}"), "lines--key"
        if (lines := _changed_lines(each)) is not None:
            yield from lines
            continue
        for glyph, value, style in (("-", each.before, "lines--bad"), ("+", each.after, "lines--good")):
            if value is not NOTHING:
                yield glyph, one_line(compact(value)[:_SHOWN]), style


def _changed_lines(found: Difference) -> list[tuple[str, str, str]] | None:
    """In what two texts of several lines differ; None for other values, and for texts of very many lines."""
    before, after = found.before, found.after
    if not (isinstance(before, str) and isinstance(after, str) and ("\n" in before or "\n" in after)):
        return None
    old, new = before.split("\n"), after.split("\n")
    if max(len(old), len(new)) > _MOST_LINES:
        return None
    changes = islice(unified_diff(old, new, n=1, lineterm=""), 2, _MOST_LINES)
    return [
        (line[:1], one_line(line[1 : 1 + _SHOWN]), _STYLES.get(line[:1], "lines--muted")) for line in changes
    ]


_STYLES: Final = {"-": "lines--bad", "+": "lines--good"}
_MOST_LINES: Final = 5_000
"""Lines of a text up to which those that changed are found."""
MOST: Final = 1_000
"""Differences that are listed."""
_ALIGNED: Final = 300
"""Items of two lists up to which those left out and put in are found; longer ones go item by item."""


NOTHING: Final = object()
"""Stands where one of the values has no such place."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One place; a side without it is `NOTHING`. Indices are those of the second value, or of what left."""

    path: Path
    before: Any
    after: Any


def differences(before: Any, after: Any) -> list[Difference]:
    """Where two values differ, in the order of the first; the first `MOST` of them."""
    return list(islice(_differ((), before, after), MOST))


def _differ(path: Path, before: Any, after: Any) -> Iterator[Difference]:
    if isinstance(before, dict) and isinstance(after, dict):
        for key in {**before, **after}:
            yield from _differ((*path, key), before.get(key, NOTHING), after.get(key, NOTHING))
    elif isinstance(before, list) and isinstance(after, list):
        yield from _differ_in_lists(path, before, after)
    elif type(before) is not type(after) or before != after:
        yield Difference(path, before, after)


def _differ_in_lists(path: Path, before: list[Any], after: list[Any]) -> Iterator[Difference]:
    if max(len(before), len(after)) > _ALIGNED:
        yield from _item_by_item(path, 0, before, after)
        return
    matcher = SequenceMatcher(None, [compact(one) for one in before], [compact(one) for one in after], False)
    for what, start, stop, other_start, other_stop in matcher.get_opcodes():
        if what != "equal":
            at = start if what == "delete" else other_start
            yield from _item_by_item(path, at, before[start:stop], after[other_start:other_stop])


def _item_by_item(path: Path, at: int, before: list[Any], after: list[Any]) -> Iterator[Difference]:
    for offset, (one, other) in enumerate(zip_longest(before, after, fillvalue=NOTHING)):
        yield from _differ((*path, at + offset), one, other)
