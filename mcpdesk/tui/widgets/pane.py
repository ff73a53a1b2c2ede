"""Base of the panes that the main screen shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from textual.widget import Widget

if TYPE_CHECKING:
    from mcpdesk.link.values import CoreView


class Pane(Widget):
    """One of the screens below the tabs. The methods do nothing by default."""

    def show_view(self, view: CoreView) -> None:
        """Show the state of the core."""

    def tick_s(self) -> float | None:
        """Return the seconds until a refresh is needed even if no change is reported, or None if never.

        Ages, running times and regular reads need such refreshes.
        """
        return None

    @property
    def selected_server(self) -> str:
        """Name of the server that is selected in the pane, or "" if the pane has no such choice."""
        return ""

    def select_added(self, name: str) -> None:
        """Select a server that was just added, if the pane lists servers."""

    @property
    def likely_actions(self) -> Sequence[str]:
        """Ids of actions that a person probably wants next, most probable first, for the footer."""
        return ()

    @property
    def action_titles(self) -> Mapping[str, str]:
        """Action id -> title in the footer, for actions that currently have another effect."""
        return {}

    def position(self) -> Any:
        """Return the state that `return_to` needs after a restart, or None if the pane has no position."""
        return None

    def return_to(self, position: Any) -> None:
        """Restore the position. The pane is mounted and was refreshed once."""

    def show_section(self, name: str) -> None:
        """Show a section, if the pane has several."""
