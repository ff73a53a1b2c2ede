"""Above form and result: what the item is, what its annotations say, where it comes from."""

from __future__ import annotations

from rich.cells import cell_len
from textual.content import Content
from textual.widget import Widget

from mcpdesk.link.values import CatalogueItem
from mcpdesk.tui.render.shelves import badges
from mcpdesk.tui.render.text import clean, one_line


class ItemHeader(Widget):
    """Two or three lines: title, badges and source; then the problem, or the description."""

    DEFAULT_CSS = """
    ItemHeader { height: auto; max-height: 4; padding: 0 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._item: CatalogueItem | None = None

    def show(self, item: CatalogueItem | None) -> None:
        """Show another item."""
        self._item = item
        self.refresh(layout=True)

    def render(self) -> Content:
        """The lines."""
        item = self._item
        if item is None:
            return Content("")
        words = " · ".join(badge.word for badge in badges(item))
        source, room = one_line(item.source), self.size.width - cell_len(words) - 3
        name = item.name if item.title == item.name else f"{item.name} · {item.title}"
        fits = cell_len(name) + cell_len(source) + 4 <= room
        title = one_line(name, max(10, room))
        right = f"  {source}" if fits else ""
        gap = max(2, self.size.width - cell_len(title) - cell_len(words) - cell_len(right) - 2)
        style = "$text-error" if "destructive" in words else "$text-success"
        top = Content.assemble(
            (title, "bold $text-primary"), " " * gap, (words, style), (right, "$text-muted")
        )
        parts = [top]
        if item.problem:
            word = "stale, the previous version serves" if item.stale else "unavailable"
            told = f"✕ {word}: {one_line(item.problem)}"
            parts.append(Content.styled(told, "$text-warning" if item.stale else "$text-error"))
        said = clean(item.description.strip())
        below = " · ".join(part for part in (said, "" if fits else source) if part)
        if below:
            parts.append(Content.styled(below, "$text-muted"))
        return Content("\n").join(parts)
