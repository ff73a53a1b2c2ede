"""Connections that `mcpdesk up` keeps open for later commands, each in a process of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mcpdesk.feature import Feature, FeatureCommand

if TYPE_CHECKING:
    from mcpdesk.feature import OpenConnection
    from mcpdesk.hosting.host_part import HostPart, StartedCore

_MODULE = "mcpdesk.features.open_connections.commands"
_GROUP = "Use a server"


class OpenConnections(Feature):
    """The commands `up`, `ps` and `down`, and the connections that other commands use."""

    commands = {
        "up": FeatureCommand(_MODULE, _GROUP, "login", takes_any_server=True),
        "ps": FeatureCommand(_MODULE, _GROUP, "login"),
        "down": FeatureCommand(_MODULE, _GROUP, "login"),
    }

    def open_connection(
        self, target: str, *, has_options: bool, is_name: bool = False
    ) -> OpenConnection | None:
        """Return the open connection with the name `target`, or to the same server, or None."""
        from mcpdesk.features.open_connections.lookup import connection_for

        return connection_for(target, has_options=has_options, is_name=is_name)

    def host_parts(self, core: StartedCore) -> Sequence[HostPart]:
        """Return the part that shows the traffic of open connections on a desk."""
        if not core.has_screen:
            return ()
        from mcpdesk.features.open_connections.copied_traffic import CopiedTraffic
        from mcpdesk.transports import rendezvous

        return (CopiedTraffic(core),) if rendezvous.HAS_SOCKETS else ()

    def open_connection_names(self) -> Sequence[str]:
        """Return the names of the open connections."""
        from mcpdesk.errors import DeskUserError
        from mcpdesk.features.open_connections.sockets import open_connections

        try:
            return [each.report.name for each in open_connections()]
        except DeskUserError:  # other users can write to the sockets' folder, so it cannot be trusted
            return []


FEATURE = OpenConnections()
