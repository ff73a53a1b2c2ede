"""Views of upstream servers for a front end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcpdesk.hosting.client_config import ServerAddress
from mcpdesk.hosting.host import Host
from mcpdesk.link.values import Catalogue, CatalogueItem, ItemKind, SchemaFailure, ServerView, UpstreamView
from mcpdesk.server.schemas.validation import SchemaError, Validator, compile_schema

if TYPE_CHECKING:
    from mcpdesk.upstream.upstream import Upstream, UpstreamStatus


class SchemaChecks:
    """Checks arguments against the schemas of a catalogue. Each schema is compiled once."""

    def __init__(self) -> None:
        self._validators: dict[tuple[str, str], tuple[dict[str, Any], Validator | None]] = {}
        """Schema and its compiled form, or None if it is invalid, by server and tool."""

    def failures(self, tool: tuple[str, str], schema: dict[str, Any], arguments: Any) -> list[SchemaFailure]:
        """Return violations of a tool's schema, or an empty list if the schema itself is invalid.

        `tool` is the server and the name of the tool.
        """
        cached = self._validators.get(tool)
        if cached is None or cached[0] is not schema:
            cached = self._validators[tool] = (schema, _compiled(schema))
        return [] if cached[1] is None else cached[1].failures(arguments)


class UpstreamViews:
    """Views of the upstream servers of a host. Any thread may use it."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._catalogues: dict[str, tuple[UpstreamStatus, Catalogue]] = {}
        """Catalogues by server, each with the status that it shows."""
        self._checks = SchemaChecks()

    def names(self) -> list[str]:
        """Return the names of the upstream servers, in order."""
        return list(self._host.upstreams)

    def view(self, name: str) -> ServerView:
        """Return the view of one server."""
        upstream = self._host.upstreams[name]
        status = upstream.status
        agreement = status.agreement
        server_info = {} if agreement is None else agreement.server
        # The first revision supports completion but has no capability for it.
        has_completion = (
            agreement is None
            or not agreement.revision.has_completions
            or "completions" in agreement.capabilities
        )
        return ServerView(
            name=name,
            title=_text_or_empty(server_info.get("title")) or _text_or_empty(server_info.get("name")) or name,
            version=_text_or_empty(server_info.get("version")),
            folder="",
            url=self._host.url(name) if name in self._host.pass_throughs else "",
            catalogue_version=status.version,
            problems=status.problems,
            upstream=_upstream_view(upstream, status),
            log_level=upstream.log_level if agreement is not None and agreement.sends_logs else "",
            has_completion=has_completion,
        )

    def catalogue(self, name: str) -> Catalogue:
        """Return the catalogue of a server. The same object is returned until it changes."""
        status = self._host.upstreams[name].status
        cached = self._catalogues.get(name)
        if cached is None or cached[0] is not status:
            items = tuple(
                CatalogueItem(
                    ItemKind(offer.kind),
                    offer.name,
                    offer.title,
                    offer.description,
                    definition=offer.definition,
                )
                for offer in status.offers
            )
            cached = self._catalogues[name] = status, Catalogue(name, status.version, items)
        return cached[1]

    def validate(self, name: str, tool: str, arguments: Any) -> list[SchemaFailure]:
        """Return violations of the schema, or an empty list if the schema itself is invalid."""
        offers = self._host.upstreams[name].status.offers
        for offer in offers:
            if (offer.kind, offer.name) == ("tool", tool):
                schema = offer.definition["inputSchema"]
                return [] if schema is None else self._checks.failures((name, tool), schema, arguments)
        return []

    def address(self, name: str) -> ServerAddress:
        """Return the address at which clients reach the server: this core, the server's URL, or
        its command."""
        if name in self._host.pass_throughs and (url := self._host.url(name)):
            rules = self._host.rules
            return ServerAddress(name, "", url, rules.api_key, rules.api_key_header)
        from mcpdesk.client.targets import CommandTarget, UrlTarget

        target = self._host.upstreams[name].plan.target
        if isinstance(target, CommandTarget):
            return ServerAddress(name, "", program=target.argv)
        return ServerAddress(name, "", target.url if isinstance(target, UrlTarget) else "")


def _upstream_view(upstream: Upstream, status: UpstreamStatus) -> UpstreamView:
    agreement = status.agreement
    return UpstreamView(
        location=upstream.plan.location,
        state=status.state.value,
        steps=status.steps,
        hint=status.hint,
        login=status.login,
        wants_token=status.wants_token,
        revision="" if agreement is None else agreement.revision.name,
        instructions="" if agreement is None else agreement.instructions,
        capabilities={} if agreement is None else dict(agreement.capabilities),
    )


def _compiled(schema: dict[str, Any]) -> Validator | None:
    """Compile a schema. None if it is invalid."""
    try:
        return compile_schema(schema)
    except SchemaError:
        return None  # the server itself checks the arguments


def _text_or_empty(value: Any) -> str:
    return value if isinstance(value, str) else ""
