"""One or two lines made of clickable parts that are shortened or hidden if space is short."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct
from msgspec.structs import replace
from textual import events
from textual.content import Content
from textual.style import Style
from textual.widget import Widget

from mcpdesk.tui.render.safe_text import clean


class LinePart(Struct, frozen=True):
    """Piece of a line."""

    text: Content
    action: str = ""
    """Action to run when clicked, such as `screen.copy_url`, or "" if the part cannot be clicked."""
    tip: str = ""
    """Tooltip."""
    short: Content | None = None
    """Shorter text. If space is short, it is used before the part is hidden."""
    rank: int = 0
    """Parts of low rank are shortened and hidden first."""
    right: bool = False
    """True if the part is at the right end."""


def fit(parts: Sequence[LinePart], width: int) -> list[LinePart]:
    """Return the parts that fit into `width` cells: low ranks are shortened first, then hidden."""
    remaining_parts = list(parts)
    excess = _cells(remaining_parts) - width
    for part in sorted(parts, key=lambda part: part.rank):
        if excess > 0 and part.short is not None:
            remaining_parts[remaining_parts.index(part)] = replace(part, text=part.short, short=None)
            excess -= part.text.cell_length - part.short.cell_length
    for part in sorted(remaining_parts, key=lambda part: part.rank)[:-1]:
        if excess > 0:
            remaining_parts.remove(part)
            excess -= part.text.cell_length
    return remaining_parts


def fit_rows(parts: Sequence[LinePart], width: int) -> list[list[LinePart]]:
    """Return the parts that fit into two rows.

    Right-aligned parts are in the second row. The others are in the first row and, if it is full, in the
    second.
    """
    right_parts = [part for part in parts if part.right]
    left_parts = [part for part in parts if not part.right]
    first_row = fit(left_parts, width)
    overflow = [part for part in left_parts if part not in first_row]
    return [first_row, fit([*overflow, *right_parts], width)]


def _cells(parts: Sequence[LinePart]) -> int:
    return sum(part.text.cell_length for part in parts)


def _is_equal(part: LinePart, other: LinePart) -> bool:
    """Return True if two parts are equal including their styles. `Content` compares only the text."""
    return part == other and part.text.is_same(other.text)


class PartLine(Widget):
    """Line of parts. A click on a part runs its action."""

    ALLOW_SELECT = False
    DEFAULT_CSS = """
    PartLine { height: 1; width: 1fr; text-wrap: nowrap; text-overflow: ellipsis; }
    """

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self.parts: tuple[LinePart, ...] = ()
        self._drawn_parts: list[LinePart] = []
        self._hovered_part: LinePart | None = None

    def show(self, parts: Sequence[LinePart]) -> None:
        """Replace the parts. Redraw only if they differ."""
        if len(parts) != len(self.parts) or not all(map(_is_equal, parts, self.parts)):
            self.parts = tuple(parts)
            self.refresh()

    def render(self) -> Content:
        """Lay the parts out for the current width, in two rows if the widget is higher than one line."""
        width = self.size.width
        rows = fit_rows(self.parts, width) if self.size.height > 1 else [fit(self.parts, width)]
        self._drawn_parts = [part for row in rows for part in row]
        return Content("\n").join([self._row(row, width) for row in rows])

    def _row(self, parts: Sequence[LinePart], width: int) -> Content:
        """Return a row with a gap between the parts on the left and those at the right end."""
        gap = max(0, width - _cells(parts))
        left_texts: list[Content] = []
        right_texts: list[Content] = []
        for part in parts:
            text = part.text.stylize("underline") if part == self._hovered_part else part.text
            side_texts = right_texts if part.right else left_texts
            side_texts.append(text.stylize(Style.from_meta({"part": self._drawn_parts.index(part)})))
        return Content("").join([*left_texts, Content(" " * gap), *right_texts])

    def _part_at(self, event: events.MouseEvent) -> LinePart | None:
        """Return the clickable part under the mouse, or None."""
        part_index = event.style.meta.get("part", len(self._drawn_parts))
        return next((part for part in self._drawn_parts[part_index : part_index + 1] if part.action), None)

    async def on_click(self, event: events.Click) -> None:
        """Run the action of the part under the mouse."""
        if (part := self._part_at(event)) is not None:
            event.stop()
            await self.run_action(part.action)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Underline the clickable part under the mouse and show its tooltip."""
        self._hover(self._part_at(event))

    def on_leave(self) -> None:
        """Remove the underline and the tooltip."""
        self._hover(None)

    def _hover(self, part: LinePart | None) -> None:
        if part != self._hovered_part:
            self._hovered_part = part
            self.tooltip = Content(clean(part.tip)) if part is not None and part.tip else None
            self.refresh()
