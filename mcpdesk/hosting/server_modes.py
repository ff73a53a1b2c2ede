"""Modes of a server: named selections of its tools."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from mcpdesk.errors import UnknownMode
from mcpdesk.hosting.folder.manifest import Mode
from mcpdesk.server.offer.server import Server
from mcpdesk.server.offer.tool import Tool

if TYPE_CHECKING:
    from mcpdesk.server.offer.registry import Selection


class Modes:
    """Modes of a server. A mode is a named selection of tools that a client requests with `?mode=NAME`.

    If a mode is removed, its view remains but offers no tools.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._modes: Mapping[str, Mode] = {}
        self._views: dict[str, tuple[Server, Selection[Tool]]] = {}
        """View of the server in each mode that a client has requested, with the tools of the mode."""

    def __iter__(self) -> Iterator[str]:
        return iter(self._modes)

    @property
    def removed(self) -> frozenset[str]:
        """Removed modes that a client has requested."""
        return frozenset(self._views.keys() - self._modes.keys())

    def describe(self) -> Mapping[str, Mode]:
        """Return the modes of the manifest, by name."""
        return self._modes

    def choose(self, modes: Mapping[str, Mode]) -> None:
        """Set the modes of the manifest. Call `refresh` after the server's tools have been set."""
        self._modes = modes
        self._server.modes = tuple(modes)
        for name, (_, tools) in self._views.items():
            mode = modes.get(name)
            tools.names = frozenset(mode.tools if mode is not None else ())

    def refresh(self) -> None:
        """Update the views to the server's current offers."""
        for view, tools in self._views.values():
            view.sync(self._server)
            tools.select_items()

    def view(self, name: str) -> Server:
        """Return the view of the server in a mode.

        While the server is withheld, any name is accepted, because the fixed manifest may define it. Raises:
        UnknownMode, which lists the existing modes.
        """
        mode = self._modes.get(name)
        if mode is None and not self._server.withheld:
            raise UnknownMode(self._server.name, name, tuple(self._modes))
        entry = self._views.get(name)
        if entry is None:
            from mcpdesk.server.offer.registry import Selection

            tools = Selection(self._server.tools, mode.tools if mode is not None else ())
            entry = self._views[name] = self._server.view_in_mode(name, tools), tools
        return entry[0]
