"""Estimated number of tokens that tool definitions cost a model."""

from __future__ import annotations

from mcpdesk.link.link import Link
from mcpdesk.link.values import ItemKind
from mcpdesk.protocol.catalogue.token_cost import definition_cost

Tokens = dict[tuple[str, str], int]
"""Tokens of each definition, by server and tool."""


class DefinitionCosts:
    """Costs of all tools of a core. They are computed once for each version of a catalogue."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._costs: dict[str, tuple[int, Tokens]] = {}
        """Version of the catalogue and the costs of its tools, by server."""

    @property
    def version(self) -> tuple[int, ...]:
        """Value that changes whenever the costs may change."""
        link = self._link
        return tuple(link.catalogue(server.name).version for server in link.view().servers)

    def now(self) -> Tokens:
        """Return the costs of all tools."""
        servers = [server.name for server in self._link.view().servers]
        if not servers:
            return self._link.traffic.statistics.definitions()
        all_costs: Tokens = {}
        for server in servers:
            catalogue = self._link.catalogue(server)
            version, costs = self._costs.get(server, (-1, {}))
            if version != catalogue.version:
                tools = (item for item in catalogue.items if item.kind is ItemKind.TOOL and item.definition)
                costs = {(server, tool.name): definition_cost(tool.definition).tokens for tool in tools}
                self._costs[server] = catalogue.version, costs
            all_costs |= costs
        return all_costs
