"""List of servers that can be opened, for a desk without servers."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from textual import work

from mcpdesk import paths
from mcpdesk.link.values import ServerOffer
from mcpdesk.tui.render.safe_text import one_line
from mcpdesk.tui.widgets.line_list import LineList, Span, column
from mcpdesk.tui.workbench.catalogue_list import CatalogueList

if TYPE_CHECKING:
    from mcpdesk.tui.app import DeskApp

_MAX_TITLE_WIDTH = 36
"""Maximum width in cells of the title of an offer."""


class OfferedServers(LineList):
    """Servers in the working folder and in the configurations of clients. Enter opens one."""

    app: DeskApp

    def __init__(self) -> None:
        super().__init__()
        self._offers: tuple[ServerOffer, ...] = ()
        self._message = ""
        self.can_focus = False

    @property
    def row_count(self) -> int:
        """Number of offers. A message is one row."""
        return len(self._offers) or 1

    @work(exclusive=True, group="offers")
    async def search(self) -> None:
        """Look for servers and list them. If the catalogue has the focus, move the focus to the list."""
        self._offers, self._message = (), "Looking for servers on this machine ..."
        self.rows_changed()
        try:
            offers = await asyncio.wrap_future(self.app.link.server_offers())
        except ValueError as reason:
            self._message = str(reason)
            self.rows_changed()
            return
        sample_folder = shlex.quote(str(paths.sample_servers() / "desk"))
        self._offers = (*offers, ServerOffer(sample_folder, "the sample of mcpdesk", "to try things out"))
        self.can_focus = True
        self.cursor = next((index for index, offer in enumerate(self._offers) if not offer.problem), 0)
        self.rows_changed()
        if self.display and (self.screen.focused is None or isinstance(self.screen.focused, CatalogueList)):
            self.focus()

    def spans(self, index: int, width: int) -> Iterator[Span]:
        """Yield the name of an offer with its address, or with the reason why it cannot be used."""
        if not self._offers:
            yield f"  {one_line(self._message, max(1, width - 2))}", "lines--muted"
            return
        offer = self._offers[index]
        max_title_length = max(len(other.title) for other in self._offers)
        title_width = max(8, min(max_title_length, _MAX_TITLE_WIDTH, width // 2))
        yield (" ✕ ", "lines--bad") if offer.problem else ("   ", "")
        yield column(offer.title, title_width), "lines--muted" if offer.problem else ""
        note = one_line(offer.problem or offer.note, max(1, width - title_width - 5))
        yield f"  {note}", "lines--bad" if offer.problem else "lines--muted"

    def choose_row(self, index: int) -> None:
        """Open the server after a question about trust, or show why it cannot be opened."""
        if not self._offers:
            return
        offer = self._offers[index]
        if offer.problem:
            self.notify(
                f"{one_line(offer.title, 60)}: {one_line(offer.problem, 300)}",
                severity="warning",
                markup=False,
            )
        else:
            self._open(offer)

    @work(exclusive=True, group="menu")
    async def _open(self, offer: ServerOffer) -> None:
        from mcpdesk.tui.forms.server_prompts import open_offer

        await open_offer(self.app.main, offer)
        if self.app.main.link.view().servers and self.has_focus:
            self.screen.query_one(CatalogueList).focus()
