"""Access of one app to its own server. Other servers cannot be reached through it."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from mcpdesk.features import client_extensions
from mcpdesk.link.local.desk_client import DeskClient, HostedDesk
from mcpdesk.protocol.revisions import BY_NAME
from mcpdesk.server.offer.listing import WIRE

if TYPE_CHECKING:
    from mcpdesk.hosting.host_part import StartedCore
    from mcpdesk.protocol.jsonrpc import JSONObject

REMOVED = "The server of this app was removed or replaced."


class ServerAccess(ABC):
    """Requests of one app to its server. Must be used on the core's loop."""

    needs_consent: bool
    """True if a person must agree before the app calls a tool that is not marked as read-only."""

    @abstractmethod
    def definition(self, tool: str) -> Mapping[str, Any] | None:
        """Return the definition of a tool, or None if the server does not list it."""

    @abstractmethod
    async def request(self, method: str, params: JSONObject) -> JSONObject:
        """Return the response to a request: an object with `result` or `error`.

        Raises: ValueError if the server was removed or replaced.
        """

    @abstractmethod
    def close(self) -> None:
        """End the running requests."""


class HostedAccess(ServerAccess):
    """Access to a server of this process, over a connection of the app. Policies apply to its calls."""

    needs_consent = False

    def __init__(self, core: StartedCore, server: str, peer: str) -> None:
        self._core = core
        self._endpoint = core.endpoints[server]
        self._client = HostedDesk(
            self._endpoint,
            _run,
            revision=BY_NAME[core.settings.desk_revision],
            peer=peer,
            extensions=client_extensions(),
        )

    def definition(self, tool: str) -> Mapping[str, Any] | None:
        item = self._endpoint.server.tools.get(tool)
        return None if item is None else WIRE["tools"](item)

    async def request(self, method: str, params: JSONObject) -> JSONObject:
        if self._core.endpoints.get(self._endpoint.name) is not self._endpoint:
            raise ValueError(REMOVED)
        return await _response(self._client, method, params)

    def close(self) -> None:
        self._client.close()


class UpstreamAccess(ServerAccess):
    """Access to an upstream server, over the connection of the desk."""

    needs_consent = True

    def __init__(self, core: StartedCore, server: str) -> None:
        self._core = core
        self._upstream = core.upstreams[server]
        self._client: DeskClient | None = None

    def definition(self, tool: str) -> Mapping[str, Any] | None:
        offers = (each for each in self._upstream.status.offers if each.kind == "tool" and each.name == tool)
        return next((each.definition for each in offers), None)

    async def request(self, method: str, params: JSONObject) -> JSONObject:
        upstream = self._upstream
        if self._core.upstreams.get(upstream.name) is not upstream:
            raise ValueError(REMOVED)
        if self._client is None or self._client.server is not upstream.connection:
            self.close()
            self._client = DeskClient(upstream.connection, upstream.number, _run)
        return await _response(self._client, method, params)

    def close(self) -> None:
        if self._client is not None:
            self._client.close()


def access_to(core: StartedCore, server: str, peer: str) -> ServerAccess:
    """Return the access of the app `peer` to a server. Raises: ValueError if the server does not exist."""
    if server in core.endpoints:
        return HostedAccess(core, server, peer)
    if server in core.upstreams:
        return UpstreamAccess(core, server)
    raise ValueError(f"This core has no server {server}.")


async def _response(desk: DeskClient, method: str, params: JSONObject) -> JSONObject:
    call = desk.request(method, params)
    try:
        outcome = await asyncio.wrap_future(call.outcome)
    except asyncio.CancelledError:
        call.cancel()
        raise
    return {"error": outcome.error} if outcome.result is None else {"result": outcome.result}


def _run(function: Callable[[], object]) -> None:
    function()
