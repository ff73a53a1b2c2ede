"""What a server asks of its callers: a token or not, which scopes, and who gives tokens for it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from mcpdesk.auth.principal import Principal

if TYPE_CHECKING:
    from mcpdesk.auth.tokens import Verifier

WELL_KNOWN = "/.well-known/oauth-protected-resource"
MISSING = "Unauthorized: missing JWT"
INVALID = "Unauthorized: invalid JWT"


class Access(Struct, frozen=True, eq=False):
    """What holds for one server. Tools may ask for more."""

    requires_token: bool = False
    verifier: Verifier | None = None
    """None: tokens are not looked at, and nobody has one."""
    scopes: frozenset[str] = frozenset()
    """What every request of a token has to be allowed."""
    authorization_servers: tuple[str, ...] = ()
    scopes_supported: tuple[str, ...] = ()
    resource: str = ""
    """The URI this server is known under; empty: where it was asked."""

    @property
    def is_asked(self) -> bool:
        """Whether tokens make a difference here."""
        return self.requires_token or self.verifier is not None

    def recognize(self, token: str | None) -> Principal | None:
        """Whoever a token is of that was seen before and still counts here; None: look closer."""
        principal = self.verifier.recognize(token) if self.verifier is not None else None
        return principal if principal is not None and self.scopes <= principal.scopes else None

    async def verify(self, token: str) -> Principal:
        """Who a token is of. Raises: Rejected with the reason; KeysMissing when nothing can be checked."""
        if self.verifier is None:
            from mcpdesk.auth.tokens import Rejected

            raise Rejected("no token counts here")
        return await self.verifier.verify(token)

    def admits(self, principal: Principal) -> bool:
        """Whether a caller has what every request needs."""
        if principal.claims is None:
            return not self.requires_token
        return self.scopes <= principal.scopes

    def metadata(self, url: str, name: str) -> dict[str, Any]:
        """The description of the protected resource. `url` is where it was asked. Source: RFC 9728."""
        found: dict[str, Any] = {
            "resource": self.resource or url,
            "authorization_servers": list(self.authorization_servers),
            "bearer_methods_supported": ["header"],
            "resource_name": name,
        }
        return found | ({"scopes_supported": list(self.scopes_supported)} if self.scopes_supported else {})

    def challenge(
        self, metadata_url: str, error: str = "", scopes: Iterable[str] = (), description: str = ""
    ) -> str:
        """The value of `WWW-Authenticate`. Source: RFC 6750 (3), RFC 9728 (5.1)."""
        parts = {
            "error": error,
            "error_description": description,
            "scope": " ".join(sorted({*self.scopes, *scopes})),
            "resource_metadata": metadata_url if self.authorization_servers else "",
        }
        said = ", ".join(f'{name}="{_quoted(value)}"' for name, value in parts.items() if value)
        return "Bearer " + (said or 'realm="mcpdesk"')


NOTHING_ASKED = Access()


def _quoted(text: str) -> str:
    return "".join(each for each in text if each.isprintable() and each not in '"\\')
