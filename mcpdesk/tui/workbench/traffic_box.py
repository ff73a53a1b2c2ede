"""Traffic on the workbench: a strip below the item, or on a wide screen a column beside it."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from textual.containers import Vertical
from textual.content import Content
from textual.geometry import Size

from mcpdesk.link.values import CatalogueItem
from mcpdesk.protocol.jsonrpc import Id
from mcpdesk.recorder.index.traffic_index import Index
from mcpdesk.tui.render.safe_text import shortened

if TYPE_CHECKING:
    from mcpdesk.tui.workbench.item_traffic import ItemTraffic

MIN_STRIP_PANE_ROWS = 29
"""Minimum height in rows of a pane that shows the strip."""
_TITLE = "Traffic"
_MIN_NAME_WIDTH = 10
"""Minimum number of cells for the name of the item in the title of the column."""


class TrafficBox(Vertical):
    """Box with the list of the traffic. The list, which takes longer to import, is added later.

    A strip shows all messages, and is as high as its lines, at most a quarter of the pane. A column shows the
    requests for the open item, and has the full height.
    """

    DEFAULT_CSS = """
    TrafficBox {
        height: 2; border-top: solid $foreground 20%; border-title-color: $text-muted;
        border-title-style: bold;
    }
    TrafficBox:focus-within { border-top: solid $primary; border-title-color: $text-primary; }
    TrafficBox.-column { width: 30%; max-width: 80; border-left: vkey $foreground 15%; }
    """

    def __init__(self, index: Index) -> None:
        super().__init__()
        self._index = index
        self._pane_size = Size(0, 0)
        self._server_and_item: tuple[str, CatalogueItem | None] = ("", None)
        """Name of the server, and the open item or None."""
        self._is_list_requested = False
        self.listing: ItemTraffic | None = None
        """List, or None until `add_list` is called and there is space for the list."""
        self.display = False

    @property
    def is_column(self) -> bool:
        """True if the box is a column beside the item."""
        return self.has_class("-column")

    def lay_out(self, pane: Size, *, is_column: bool) -> None:
        """Arrange the box for the size of its pane."""
        self._pane_size = pane
        self.set_class(is_column, "-column")
        self.display = is_column or pane.height >= MIN_STRIP_PANE_ROWS
        self._arrange()

    def add_list(self) -> None:
        """Add the list, as soon as there is space for it."""
        self._is_list_requested = True
        self._arrange()

    def show_item(self, server: str, item: CatalogueItem | None) -> None:
        """Set the item whose requests a column shows."""
        if (server, item) != self._server_and_item:
            self._server_and_item = (server, item)
            self._arrange()

    def update_lines(self, held_exchanges: Collection[tuple[int, Id | None]]) -> None:
        """Show new messages.

        `held_exchanges` has the connections and ids of exchanges with a message that is held at the desk.
        """
        if (listing := self.listing) is not None and listing.is_mounted and self.display:
            listing.show_held(held_exchanges)
            listing.update_lines()
            self._fit()

    def _arrange(self) -> None:
        if self.listing is None and self._is_list_requested and self.display:
            from mcpdesk.tui.workbench.item_traffic import ItemTraffic

            self.listing = ItemTraffic(self._index)
            self.mount(self.listing)
        server, item = self._server_and_item if self.is_column else ("", None)
        name_width = max(_MIN_NAME_WIDTH, self._pane_size.width * 3 // 10 - len(f"{_TITLE} of") - 6)
        self.border_title = Content(
            _TITLE if item is None else f"{_TITLE} of {shortened(item.title, name_width)}"
        )
        if self.listing is not None:
            self.listing.show_item(server, item, may_call=self._server_and_item[1] is not None)
        self._fit()

    def _fit(self) -> None:
        """Set the height of a strip to its number of lines. The result gets the remaining height."""
        lines = 0 if self.listing is None else len(self.listing.lines)
        strip_height = 1 + max(1, min(lines, self._pane_size.height // 4 - 1))
        self.styles.height = "1fr" if self.is_column else strip_height
