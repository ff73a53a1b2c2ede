"""Catalogues, modes and client configurations of the servers in this process.

Catalogues and modes are cached until something changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from typing import Any

from msgspec.structs import replace

from mcpdesk.errors import DeskError, DeskUserError
from mcpdesk.hosting.client_config import ClientTransport, ServerAddress, client_config
from mcpdesk.hosting.folder.manifest import Mode
from mcpdesk.hosting.host import Host
from mcpdesk.hosting.hosted_folder import HostedFolder, no_tool
from mcpdesk.link.link import ServerFacet, finished, promise
from mcpdesk.link.local.upstream_views import UpstreamViews
from mcpdesk.link.values import (
    Catalogue,
    CatalogueItem,
    ItemKind,
    ModeView,
    SchemaFailure,
    ServerOffer,
    ServerView,
    TokenView,
    UntrustedFile,
)
from mcpdesk.server.offer.listing import WIRE
from mcpdesk.server.offer.registry import Registry
from mcpdesk.server.offer.server import Server

_LIST_KEYS = {
    ItemKind.TOOL: "tools",
    ItemKind.RESOURCE: "resources",
    ItemKind.TEMPLATE: "resourceTemplates",
    ItemKind.PROMPT: "prompts",
    ItemKind.SKILL: "skills",
}
"""Member of the response to a list request that has the items, by kind."""


def _client_configuration(client: str, target: ServerAddress, over: ClientTransport) -> Future[str]:
    """Return the text for a client's configuration. The future may fail with ValueError and the reason."""
    try:
        return finished(client_config(client, target, over))
    except DeskUserError as error:
        failed: Future[str] = promise()
        failed.set_exception(ValueError(f"{error} {error.hint}".strip()))
        return failed


class ServerCatalogue:
    """Catalogue of one server. Any thread may use it, because registries are replaced as a whole."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._catalogue: Catalogue | None = None

    @property
    def version(self) -> int:
        """Number that increases with every change of an item or a policy."""
        state = self.server.hosted
        policy_version = 0 if state is None else state.rules_version
        return policy_version + sum(registry.version for _, registry in self._registries())

    def catalogue(self) -> Catalogue:
        """Return items of all kinds in the order of the lists. Cached until they change."""
        version = self.version
        if self._catalogue is None or self._catalogue.version != version:
            registries = self._registries()
            items = [item for kind, registry in registries for item in _catalogue_items(kind, registry)]
            self._catalogue = Catalogue(self.server.name, version, tuple(map(self._with_policy, items)))
        return self._catalogue

    def _with_policy(self, item: CatalogueItem) -> CatalogueItem:
        """Return the item. If it is a tool, its policy is added."""
        state = self.server.hosted
        if state is None or item.kind is not ItemKind.TOOL:
            return item
        ruling = state.approvals.effective_policy(item.name)
        return replace(item, policy=ruling.policy, policy_origin=ruling.origin) if ruling.origin else item

    def _registries(self) -> tuple[tuple[ItemKind, Registry[Any]], ...]:
        server = self.server
        return (
            (ItemKind.TOOL, server.tools),
            (ItemKind.RESOURCE, server.resources),
            (ItemKind.TEMPLATE, server.templates),
            (ItemKind.PROMPT, server.prompts),
            (ItemKind.SKILL, server.skills),
        )


def _catalogue_items(kind: ItemKind, registry: Registry[Any]) -> Iterator[CatalogueItem]:
    """Yield the offered items of a registry, then the unavailable ones."""
    to_wire = WIRE[_LIST_KEYS[kind]]
    stale_items = {
        unavailable.name: unavailable for unavailable in registry.unavailable if unavailable.is_serving
    }
    for item in registry:
        name = registry.key(item)
        stale_item = stale_items.get(name)
        yield CatalogueItem(
            kind=kind,
            name=name,
            title=item.title or item.name,
            description=item.description,
            source=stale_item.source if stale_item else item.source,
            problem=stale_item.reason if stale_item else "",
            stale=stale_item is not None,
            changed=name in registry.changed,
            needs_token=kind is ItemKind.TOOL and item.requires_jwt,
            scopes=item.scopes if kind is ItemKind.TOOL else (),
            definition=to_wire(item),
        )
    for unavailable in registry.unavailable:
        if not unavailable.is_serving:
            yield CatalogueItem(
                kind=kind,
                name=unavailable.name,
                title=unavailable.name,
                source=unavailable.source,
                problem=unavailable.reason,
                is_fit=unavailable.is_fit,
            )


class ModeList:
    """Modes of one server folder. Cached until the modes or the tools change."""

    def __init__(self, hosted: HostedFolder) -> None:
        self.hosted = hosted
        self._cache_key: tuple[int, Mapping[str, Mode]] = (-1, {})
        """Version of the tools, and modes, that `_views` show."""
        self._views: tuple[ModeView, ...] = ()
        """Cached result of `views`."""

    def views(self) -> tuple[ModeView, ...]:
        """Return each mode with its available tools and its missing tools."""
        version, modes = self.hosted.server.tools.version, self.hosted.modes.describe()
        if self._cache_key[0] != version or self._cache_key[1] is not modes:
            self._views = tuple(self._mode_views(modes))
            self._cache_key = version, modes
        return self._views

    def _mode_views(self, modes: Mapping[str, Mode]) -> Iterator[ModeView]:
        tools = self.hosted.server.tools
        offered_names = {tool.name for tool in tools}
        reasons = {item.name: item.reason for item in tools.unavailable}
        for mode_name, mode in modes.items():
            tool_names = dict.fromkeys(mode.tools)
            available = tuple(name for name in tool_names if name in offered_names)
            missing = tuple(
                (name, reasons.get(name) or no_tool(name, self.hosted.tools))
                for name in tool_names
                if name not in offered_names
            )
            yield ModeView(mode_name, mode.description, available, missing)


class LocalServers(ServerFacet):
    """Servers of a host. At the first call, folders may still be loading."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._catalogues: dict[str, ServerCatalogue] = {}
        self._modes: dict[str, ModeList] = {}
        self._upstreams = UpstreamViews(host)

    def server_view(self, name: str, token: TokenView | None, log_level: str) -> ServerView:
        """Return the view of one server.

        `token` is the desk's token for the server. `log_level` is the level that the desk requests.
        """
        if name in self._host.upstreams:
            return self._upstreams.view(name)
        server = self._host.by_name[name].server
        return ServerView(
            name=name,
            title=server.title or name,
            version=server.version,
            folder=str(server.folder or ""),
            url=self._host.url(name),
            catalogue_version=self._catalogue_of(name).version,
            problems=(server.withheld, *server.problems) if server.withheld else server.problems,
            helpers=server.helpers,
            modes=self._modes_of(name).views(),
            mode=server.mode,
            wants_token=server.access.requires_token,
            token_scopes=tuple(sorted(server.access.scopes)),
            checks_tokens=server.access.verifier is not None,
            token=token,
            log_level=log_level,
            has_completion=self._host.by_name[name].dispatcher.offers.is_offered("completions"),
        )

    def catalogue(self, server: str) -> Catalogue:
        """Return the catalogue of a server."""
        if server in self._host.upstreams:
            return self._upstreams.catalogue(server)
        if server not in self._host.by_name:
            return super().catalogue(server)
        return self._catalogue_of(server).catalogue()

    def validate(self, server: str, tool: str, arguments: Any) -> list[SchemaFailure]:
        """Check arguments as a call would."""
        if server in self._host.upstreams:
            return self._upstreams.validate(server, tool, arguments)
        endpoint = self._host.by_name.get(server)
        return [] if endpoint is None else endpoint.dispatcher.tool_calls.check(tool, arguments)

    def reload(self, server: str) -> None:
        """Reload the server folder now, or reconnect to an upstream server."""
        self._host.call_soon(lambda: self._host.reload(server))

    def reconnect_with_revision(self, server: str, revision: str) -> None:
        """Reconnect to an upstream server with another revision."""

        def reconnect() -> None:
            if (upstream := self._host.upstreams.get(server)) is not None:
                self._host.start_chore(upstream.reconnect_with_revision(revision))

        self._host.call_soon(reconnect)

    def untrusted(self, text: str) -> Future[UntrustedFile | None]:
        """Return the file that the person must trust before `add_server` uses it."""
        future: Future[UntrustedFile | None] = promise()

        async def read() -> None:
            try:
                future.set_result(
                    await asyncio.to_thread(self._host.read_untrusted, text, self._host.settings)
                )
            except Exception as error:  # reported through the future
                future.set_exception(ValueError(f"mcpdesk failed: {error!r}"))
                raise

        self._host.call_soon(lambda: self._host.start_chore(read()))
        return future

    def server_offers(self) -> Future[tuple[ServerOffer, ...]]:
        """Return the servers of the working folder and of client configurations."""
        future: Future[tuple[ServerOffer, ...]] = promise()

        async def read() -> None:
            from mcpdesk.link.local.server_offers import server_offers

            try:
                future.set_result(await asyncio.to_thread(server_offers))
            except Exception as error:  # reported through the future
                future.set_exception(ValueError(f"mcpdesk failed: {error!r}"))
                raise

        self._host.call_soon(lambda: self._host.start_chore(read()))
        return future

    def add_server(self, text: str, agreed: str = "") -> Future[tuple[str, ...]]:
        """Add a server. `text` is written as on the command line."""
        future: Future[tuple[str, ...]] = promise()
        self._host.call_soon(lambda: self._host.start_chore(self._add_server(text, agreed, future)))
        return future

    async def _add_server(self, text: str, agreed: str, future: Future[tuple[str, ...]]) -> None:
        """Add a server, and set the result or the exception of `future`."""
        try:
            future.set_result(await self._host.add(text, agreed))
        except DeskError as error:
            future.set_exception(ValueError(f"{error} {getattr(error, 'hint', '')}".strip()))
        except Exception as error:  # reported through the future
            future.set_exception(ValueError(f"mcpdesk failed: {error!r}"))
            raise

    def remove_server(self, server: str) -> None:
        """Remove a server."""
        self._host.call_soon(lambda: self._host.start_chore(self._host.remove(server)))

    def log_in(self, server: str) -> None:
        """Log in to a remote server with a browser."""
        self._host.call_soon(lambda: self._host.log_in(server))

    def client_config(
        self, server: str, client: str, key: str | None = None, mode: str = "", over: ClientTransport = ""
    ) -> Future[str]:
        """Return text to paste into a client's configuration."""
        host = self._host
        if server in host.upstreams:
            target = self._upstreams.address(server)
            if target.key and key is not None:
                target = target._replace(key=key)
            return _client_configuration(client, target, over if target.program else "http")
        if server not in host.by_name:
            return super().client_config(server, client, key, mode, over)
        hosted = host.by_name[server].server
        own_key = host.rules.api_key
        target = ServerAddress(
            server,
            folder=str(hosted.folder or ""),
            url=host.url(server),
            key=key if own_key and key is not None else own_key,
            header=host.rules.api_key_header,
            mode=mode or hosted.mode,
            needs_token=hosted.access.requires_token,
            has_login=bool(hosted.access.authorization_servers),
        )
        return _client_configuration(client, target, over)

    def _catalogue_of(self, name: str) -> ServerCatalogue:
        """Return the cached catalogue of a server. Create it if the server is new."""
        catalogue = self._catalogues.get(name)
        server = self._host.by_name[name].server
        if catalogue is None or catalogue.server is not server:
            catalogue = self._catalogues[name] = ServerCatalogue(server)
        return catalogue

    def _modes_of(self, name: str) -> ModeList:
        """Return the cached modes of a server. Create them if the server is new."""
        modes = self._modes.get(name)
        hosted = self._host.folders[name]
        if modes is None or modes.hosted is not hosted:
            modes = self._modes[name] = ModeList(hosted)
        return modes
