"""One line made of parts that can be clicked and give way to each other when there is little room."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual import events
from textual.content import Content
from textual.widget import Widget

from mcpdesk.tui.render.safe_text import clean


@dataclass(frozen=True, slots=True)
class LinePart:
    """A piece of a line."""

    text: Content
    action: str = ""
    """Run when clicked, `screen.copy_url`; empty: nothing happens."""
    tip: str = ""
    """Shown when the mouse rests on it."""
    short: Content | None = None
    """What stands here when there is little room, before the part goes altogether."""
    rank: int = 0
    """Parts of low rank give way first."""
    right: bool = False
    """Whether it stands at the right end."""


def fit(parts: Sequence[LinePart], width: int) -> list[LinePart]:
    """The parts that fit into `width` cells: low ranks are shortened, then left out."""
    kept = list(parts)
    excess = sum(part.text.cell_length for part in kept) - width
    for part in sorted(parts, key=lambda part: part.rank):
        if excess <= 0:
            break
        if part.short is not None:
            shorter = LinePart(part.short, part.action, part.tip, None, part.rank, part.right)
            kept[kept.index(part)] = shorter
            excess -= part.text.cell_length - part.short.cell_length
    for part in sorted(kept, key=lambda part: part.rank):
        if excess <= 0 or len(kept) == 1:
            break
        kept.remove(part)
        excess -= part.text.cell_length
    return kept


def _alike(one: LinePart, other: LinePart) -> bool:
    """Equality that minds styles; that of Content compares the letters only."""
    return one == other and one.text.is_same(other.text)


class PartLine(Widget):
    """Draws its parts on one line and runs the action of the one that is clicked."""

    ALLOW_SELECT = False
    DEFAULT_CSS = """
    PartLine { height: 1; width: 1fr; text-wrap: nowrap; text-overflow: ellipsis; }
    """

    def __init__(self, id: str | None = None) -> None:
        super().__init__(id=id)
        self.parts: tuple[LinePart, ...] = ()
        self._places: list[tuple[int, int, LinePart]] = []
        self._hovered: LinePart | None = None

    def show(self, parts: Sequence[LinePart]) -> None:
        """Replace the parts; draws only when they differ."""
        fresh = tuple(parts)
        if len(fresh) != len(self.parts) or not all(map(_alike, fresh, self.parts)):
            self.parts = fresh
            self.refresh()

    def render(self) -> Content:
        """Lay the parts out for the present width."""
        kept = fit(self.parts, self.size.width)
        left = [part for part in kept if not part.right]
        right = [part for part in kept if part.right]
        gap = max(0, self.size.width - sum(part.text.cell_length for part in kept))
        self._places = []
        at = self._place(left, 0)
        self._place(right, at + gap)
        return Content("").join([*map(self._drawn, left), Content(" " * gap), *map(self._drawn, right)])

    def part_at(self, x: int) -> LinePart | None:
        """The part at column `x`."""
        return next((part for start, end, part in self._places if start <= x < end), None)

    async def on_click(self, event: events.Click) -> None:
        """Run the action of the part under the mouse."""
        part = self.part_at(event.x)
        if part is not None and part.action:
            event.stop()
            await self.run_action(part.action)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Underline what can be clicked and say what it does."""
        part = self.part_at(event.x)
        self._hover(part if part is not None and part.action else None)

    def on_leave(self) -> None:
        """The mouse went elsewhere."""
        self._hover(None)

    def _hover(self, part: LinePart | None) -> None:
        if part != self._hovered:
            self._hovered = part
            self.tooltip = Content(clean(part.tip)) if part is not None and part.tip else None
            self.refresh()

    def _drawn(self, part: LinePart) -> Content:
        return part.text.stylize("underline") if part == self._hovered else part.text

    def _place(self, parts: Sequence[LinePart], at: int) -> int:
        for part in parts:
            self._places.append((at, at + part.text.cell_length, part))
            at += part.text.cell_length
        return at
