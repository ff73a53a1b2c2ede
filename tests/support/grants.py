"""Store of OAuth tokens that needs no files."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, nullcontext

from mcpdesk.client.oauth.values import ClientRegistration, OAuthGrant


class GrantsInMemory:
    """Store of tokens for the lifetime of the process."""

    def __init__(self) -> None:
        self._grants: dict[str, OAuthGrant] = {}
        self._clients: dict[str, ClientRegistration] = {}

    def grant(self, server_url: str) -> OAuthGrant | None:
        """Return the token for a server, or None."""
        return self._grants.get(server_url)

    def store(self, server_url: str, grant: OAuthGrant) -> None:
        """Store a token, and the client that it was issued to."""
        self._grants[server_url] = grant
        self._clients[grant.issuer] = grant.client

    def forget(self, server_url: str) -> None:
        """Delete the token for a server."""
        self._grants.pop(server_url, None)

    def client(self, issuer: str) -> ClientRegistration | None:
        """Return this client's registration at an authorization server, or None."""
        return self._clients.get(issuer)

    def renewal_lock(self, server_url: str) -> AbstractAsyncContextManager[None]:
        """Return a lock that does nothing, because no other process uses these tokens."""
        return nullcontext()

    def check(self) -> None:
        """Do nothing, because tokens can always be stored in memory."""
