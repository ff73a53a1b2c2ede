"""The modes of a server: under each name some of its tools, which clients ask for with `?mode=NAME`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from mcpdesk.errors import UnknownMode
from mcpdesk.hosting.manifest import Mode
from mcpdesk.server.server import Server

if TYPE_CHECKING:
    from mcpdesk.server.selection import Selection
    from mcpdesk.server.tool import Tool


class Modes:
    """Those of one server. A mode that is given up keeps its view, which offers no tool any more."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._modes: Mapping[str, Mode] = {}
        self._views: dict[str, tuple[Server, Selection[Tool]]] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._modes)

    @property
    def lost(self) -> frozenset[str]:
        """Modes somebody asked for that are there no more."""
        return frozenset(self._views.keys() - self._modes.keys())

    def describe(self) -> Mapping[str, Mode]:
        """What the manifest says of each."""
        return self._modes

    def choose(self, modes: Mapping[str, Mode]) -> None:
        """Take what the manifest says now. It counts from `settle` on."""
        self._modes = modes
        self._server.modes = tuple(modes)
        for name, (_, tools) in self._views.items():
            mode = modes.get(name)
            tools.names = frozenset(mode.tools if mode is not None else ())

    def settle(self) -> None:
        """The server is what it is to be: its views follow."""
        for view, tools in self._views.values():
            view.keep_up(self._server)
            tools.follow()

    def view(self, name: str) -> Server:
        """The server as it is seen in a mode; one that is withheld may have any once it is mended.

        Raises: UnknownMode, naming those there are.
        """
        mode = self._modes.get(name)
        if mode is None and not self._server.withheld:
            raise UnknownMode(self._server.name, name, tuple(self._modes))
        kept = self._views.get(name)
        if kept is None:
            from mcpdesk.server.selection import Selection

            tools = Selection(self._server.tools, mode.tools if mode is not None else ())
            kept = self._views[name] = self._server.seen_in(name, tools), tools
        return kept[0]
