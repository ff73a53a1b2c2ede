"""Choice of the columns of the traffic: of exchanges, of raw frames, and beside the bars of the waterfall."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Sequence

from mcpdesk.tui.traffic.line_columns import HIDEABLE, hideable_columns
from mcpdesk.tui.traffic.sort_menu import COLUMN_LETTERS
from mcpdesk.tui.traffic.traffic_list import TrafficList
from mcpdesk.tui.widgets.column_menu import HideableColumn, WithColumnMenu


class WithTrafficColumns(WithColumnMenu):
    """Pane with a list of the traffic, whose columns the person can hide."""

    column_list_name = "traffic"

    @property
    @abstractmethod
    def listing(self) -> TrafficList:
        """List of the traffic."""

    def hideable_names(self) -> Collection[str]:
        return HIDEABLE

    def hideable_columns(self) -> Sequence[HideableColumn]:
        listing, index = self.listing, self.listing.index
        columns = hideable_columns(
            raw=listing.view.raw,
            has_bars=listing.waterfall.is_on,
            has_cores=index.has_cores,
            has_servers=index.has_servers,
        )
        return [HideableColumn(name, label, COLUMN_LETTERS[name]) for name, label in columns]

    def visible_columns(self) -> Collection[str]:
        return self.listing.visible_columns()

    def show_columns(self) -> None:
        self.listing.hide_columns(self.hidden_columns)
