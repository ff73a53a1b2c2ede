"""Which panes there are. Each is imported when it is first visited, to keep the first paint fast."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from textual.widget import Widget

if TYPE_CHECKING:
    from mcpdesk.link.link import Link


def _workbench(link: Link) -> Widget:
    from mcpdesk.tui.screens.workbench import WorkbenchPane

    return WorkbenchPane(link)


def _traffic(link: Link) -> Widget:
    from mcpdesk.tui.screens.traffic import TrafficPane

    return TrafficPane(link)


def _activity(link: Link) -> Widget:
    from mcpdesk.tui.screens.activity import ActivityPane

    return ActivityPane(link)


def _clients(link: Link) -> Widget:
    from mcpdesk.tui.screens.clients import ClientsPane

    return ClientsPane(link)


def _logs(link: Link) -> Widget:
    from mcpdesk.tui.screens.logs import LogsPane

    return LogsPane(link)


Panes = Mapping[str, Callable[["Link"], Widget]]
"""Screen name to what makes its pane."""

PANES: Panes = {
    "workbench": _workbench,
    "traffic": _traffic,
    "activity": _activity,
    "clients": _clients,
    "logs": _logs,
}
