"""Two exchanges side by side as a list of differences: what the first says, what the second says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Static

from mcpdesk.tui.render.json_diff import MOST, NOTHING, Difference, differences
from mcpdesk.tui.render.json_text import compact, path_text
from mcpdesk.tui.render.text import one_line
from mcpdesk.tui.widgets.dialog import Dialog
from mcpdesk.tui.widgets.line_list import LineList, Span

_NEVER_COMPARED = ("jsonrpc", "id")
_SHOWN = 2_000
"""Characters of a value that are laid out."""


class DifferenceList(LineList):
    """Three rows a difference at most: the place, `-` the first value, `+` the second."""

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
    CompareScreen { align: center middle; background: $background 50%; }
    CompareScreen > Vertical {
        width: 110; max-width: 96%; height: auto; max-height: 90%;
        border: round $border; border-title-color: $text-primary; border-title-style: bold;
        background: $surface; padding: 0 1;
    }
    CompareScreen .titles { height: 2; color: $text-muted; text-wrap: nowrap; text-overflow: ellipsis; }
    CompareScreen:ansi { background: transparent; }
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
        box = Vertical()
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
        for glyph, value, style in (("-", each.before, "lines--bad"), ("+", each.after, "lines--good")):
            if value is not NOTHING:
                yield glyph, one_line(compact(value)[:_SHOWN]), style
