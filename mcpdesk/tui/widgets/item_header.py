"""Above form and result: what the item is, what its annotations say, where it comes from."""

from __future__ import annotations

import time

from rich.cells import cell_len
from textual.content import Content
from textual.widget import Widget

from mcpdesk.link.values import CatalogueItem, ServerView
from mcpdesk.tui.render.shelves import badges
from mcpdesk.tui.render.text import clean, one_line
from mcpdesk.tui.render.token_text import token_line


class ItemHeader(Widget):
    """Two to four lines: title, badges and source; then the problem, the token it needs, the description."""

    DEFAULT_CSS = """
    ItemHeader { height: auto; max-height: 4; padding: 0 1; }
    """

    def __init__(self) -> None:
        super().__init__()
        self._item: CatalogueItem | None = None
        self._server: ServerView | None = None
        self._token = ("", "")
        """What is said of tokens, and its colour."""

    def show(self, item: CatalogueItem | None) -> None:
        """Show another item."""
        self._item = item
        self._token = self._token_line()
        self.refresh(layout=True)

    def know(self, server: ServerView | None) -> None:
        """What is known of the item's server by now; cheap when it says the same as before."""
        self._server = server
        line = self._token_line()
        if line != self._token:
            self._token = line
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
            # Below the header there is room for the whole of what keeps an item from being called.
            told = one_line(f"✕ {word}: {item.problem}", 0 if item.stale else max(10, self.size.width))
            parts.append(Content.styled(told, "$text-warning" if item.stale else "$text-error"))
        if self._token[0]:
            parts.append(Content.styled(*self._token))
        said = clean(item.description.strip())
        below = " · ".join(part for part in (said, "" if fits else source) if part)
        if below:
            parts.append(Content.styled(below, "$text-muted"))
        return Content("\n").join(parts)

    def _token_line(self) -> tuple[str, str]:
        item, server = self._item, self._server
        is_offered = item is not None and bool(item.definition)
        if item is None or server is None or not is_offered:
            return "", ""
        return token_line(item, server, time.time())
