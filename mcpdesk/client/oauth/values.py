"""Values of the authorization flows: steps, metadata of servers, registrations and tokens.

The flows of this package are generators. They yield steps and perform no I/O themselves. The caller runs each
step and sends the outcome back into the generator. Source: MCP basic/authorization.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any, TypeAlias, TypeVar
from urllib.parse import urlsplit

import orjson
from msgspec import Struct

from mcpdesk.client.transport import excerpt, without_query
from mcpdesk.errors import AuthorizationError
from mcpdesk.protocol.jsonrpc import JSONObject

LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


class Fetch(Struct, frozen=True):
    """Step that sends a request. Its outcome is a `FetchResult`."""

    subject: str
    """Purpose of the request, for a person: `the protected resource metadata`."""
    url: str
    method: str = "GET"
    headers: Mapping[str, str] = {}
    body: bytes | None = None
    is_named_by_server: bool = True
    """True if the URL may come from the server. False if it comes from the user's options or files."""
    allows_broken_connection: bool = False
    """True if a broken connection is returned as an answer with status 0 and the reason in its body."""


class FetchResult(Struct, frozen=True):
    """Answer to a `Fetch`. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self, subject: str) -> JSONObject:
        """Return the body as a JSON object. Raises: AuthorizationError, which mentions `subject`."""
        try:
            value = orjson.loads(self.body)
        except orjson.JSONDecodeError:
            value = None
        if not isinstance(value, dict):
            raise AuthorizationError(
                f"{subject}: HTTP {self.status} without a JSON object: {excerpt(self.body)}"
            )
        return value


class Deviation(Struct, frozen=True):
    """Step that reports a fault of a server which does not stop the flow. Its outcome is None."""

    text: str


class Visit(Struct, frozen=True):
    """Step that opens a URL in a person's browser. Its outcome is the URL of the redirect."""

    url: str


Step: TypeAlias = Fetch | Visit | Deviation
T = TypeVar("T")
Flow: TypeAlias = Generator[Step, Any, T]


class Challenge(Struct, frozen=True):
    """Challenge in a server's `WWW-Authenticate` header. Source: RFC 6750, 3; RFC 9728, 5.1."""

    scheme: str = ""
    """In lower case: `bearer` or `dpop`."""
    metadata_url: str = ""
    scope: str = ""
    error: str = ""


class ResourceMetadata(Struct, frozen=True):
    """Metadata of a server as a protected resource. Source: RFC 9728, 2."""

    resource: str
    """Identifier of the server, exactly as received."""
    issuers: tuple[str, ...]
    scopes: tuple[str, ...] = ()
    is_proof_required: bool = False
    """True if tokens must be bound to a key. Source: RFC 9449."""


class AuthorizationServer(Struct, frozen=True):
    """Metadata of an authorization server. Source: RFC 8414, 2."""

    issuer: str
    """Identifier of the authorization server, exactly as in the metadata."""
    token_endpoint: str
    authorization_endpoint: str = ""
    registration_endpoint: str = ""
    revocation_endpoint: str = ""
    client_authentication: tuple[str, ...] = ("client_secret_basic",)
    """Methods of client authentication at the token endpoint."""
    scopes: tuple[str, ...] = ()
    has_pkce: bool | None = False
    """True if the server supports PKCE with S256. None if the metadata does not mention PKCE."""
    sends_issuer: bool = False
    """True if the server includes the parameter `iss` in redirects. Source: RFC 9207."""
    issuer_as_named: str = ""
    """Issuer as the MCP server names it, if that differs from `issuer` by a slash. Otherwise empty."""
    accepts_client_metadata: bool = False
    """True if a client's id may be the URL of a client ID metadata document."""


class ClientRegistration(Struct, frozen=True):
    """Registration of this client at an authorization server."""

    id: str
    secret: str = ""
    authentication: str = ""
    """Authentication method at the token endpoint. Empty to choose one from the server's metadata."""
    redirect_uri: str = ""
    """Redirect URI of a browser login. Empty for a client that logs in without a person."""

    def __repr__(self) -> str:
        return f"ClientRegistration({self.id!r})"  # keeps the secret out of logs


class OAuthGrant(Struct, frozen=True):
    """Token for one server."""

    issuer: str
    resource: str
    client: ClientRegistration
    access_token: str
    scopes: tuple[str, ...] = ()
    refresh_token: str = ""
    expires: float | None = None
    """Unix time in seconds, or None if unknown."""
    is_bound: bool = False
    """True if requests must prove possession of the key that the token is bound to."""

    def __repr__(self) -> str:
        return f"OAuthGrant({self.issuer!r}, {self.resource!r}, {self.client!r})"

    def has_expired(self, now: float) -> bool:
        """Return True if the token has expired or will soon expire, within `RENEWAL_LEAD_S` after `now`."""
        return self.expires is not None and now >= self.expires - RENEWAL_LEAD_S


RENEWAL_LEAD_S = 10.0
"""Seconds before its expiry at which a token is renewed."""


def checked_endpoint(url: Any, subject: str) -> str:
    """Return `url` if secrets may be sent to it: an https URL, or an http URL on the loopback interface.

    Raises: AuthorizationError for any other value.
    """
    if not isinstance(url, str) or not url.isprintable() or " " in url:
        raise AuthorizationError(f"{subject} is not a URL: {excerpt(repr(url))}", "RFC 8414, 2")
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        parts = urlsplit("")
        host = None
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and host in LOOPBACK)
    if not host or not is_safe or parts.fragment:
        url_text = excerpt(without_query(url))
        raise AuthorizationError(f"{subject} must be an https URL, not {url_text}", "OAuth 2.1, 1.5")
    return url


def strings_in(value: Any) -> tuple[str, ...]:
    """Return the strings in an untrusted list, without its other items. Empty for any other value."""
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()
