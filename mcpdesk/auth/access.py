"""Access rules of a server: which callers it admits, and its OAuth metadata and challenges."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from mcpdesk.auth.principal import Principal, Rejected

if TYPE_CHECKING:
    from mcpdesk.auth.tokens import Verifier

WELL_KNOWN = "/.well-known/oauth-protected-resource"


class Access(Struct, frozen=True, eq=False):
    """Access rules of one server. A tool may have further requirements."""

    requires_token: bool = False
    verifier: Verifier | None = None
    """Verifies tokens. None if tokens are ignored."""
    scopes: frozenset[str] = frozenset()
    """Scopes that every request with a token needs."""
    authorization_servers: tuple[str, ...] = ()
    scopes_supported: tuple[str, ...] = ()
    resource: str = ""
    """URI of this server as a protected resource. Empty to use the requested URL."""

    @property
    def evaluates_tokens(self) -> bool:
        """True if tokens are evaluated."""
        return self.requires_token or self.verifier is not None

    def recognize(self, token: str | None) -> Principal | None:
        """Return the principal of a token that was verified before.

        Return None if `verify` must verify the token, or if the token lacks a required scope.
        """
        principal = self.verifier.recognize(token) if self.verifier is not None else None
        return principal if principal is not None and self.scopes <= principal.scopes else None

    async def verify(self, token: str) -> Principal:
        """Return the principal of a token.

        Raises: Rejected with the reason; KeysMissing if no keys are available.
        """
        if self.verifier is None:
            raise Rejected("this server accepts no tokens")
        return await self.verifier.verify(token)

    def admits(self, principal: Principal) -> bool:
        """Return True if a caller meets the requirements that all requests to this server have."""
        if principal.claims is None:
            return not self.requires_token
        return self.scopes <= principal.scopes

    def metadata(self, url: str, name: str) -> dict[str, Any]:
        """Return the protected resource metadata. `url` is the requested URL. Source: RFC 9728."""
        document: dict[str, Any] = {
            "resource": self.resource or url,
            "authorization_servers": list(self.authorization_servers),
            "bearer_methods_supported": ["header"],
            "resource_name": name,
        }
        return document | ({"scopes_supported": list(self.scopes_supported)} if self.scopes_supported else {})

    def challenge(
        self, metadata_url: str, error: str = "", scopes: Iterable[str] = (), description: str = ""
    ) -> str:
        """Return the value of `WWW-Authenticate`. Source: RFC 6750 (3), RFC 9728 (5.1)."""
        parts = {
            "error": error,
            "error_description": description,
            "scope": " ".join(sorted({*self.scopes, *scopes})),
            "resource_metadata": metadata_url if self.authorization_servers else "",
        }
        parameters = ", ".join(f'{name}="{_quotable(value)}"' for name, value in parts.items() if value)
        return "Bearer " + (parameters or 'realm="mcpdesk"')


OPEN_ACCESS = Access()


def _quotable(text: str) -> str:
    return "".join(char for char in text if char.isprintable() and char not in '"\\')
