"""What is known of an authorization server and of the tokens it gave, and the steps that find it out.

Flows of this package are generators of steps. They do no input or output: whoever runs them carries out
each step and sends its outcome back. Source: MCP basic/authorization.
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
    """Send a request; brings a `Fetched`."""

    what: str
    """What it is for, in words for a person: `the protected resource metadata`."""
    url: str
    method: str = "GET"
    headers: Mapping[str, str] = {}
    body: bytes | None = None
    is_named_by_server: bool = True
    """False for a URL that a person or a file of theirs gave."""


class Fetched(Struct, frozen=True):
    """What came back. Header names are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self, what: str) -> JSONObject:
        """The body as an object. Raises: AuthorizationError naming what it should have been."""
        try:
            found = orjson.loads(self.body)
        except orjson.JSONDecodeError:
            found = None
        if not isinstance(found, dict):
            raise AuthorizationError(
                f"{what}: HTTP {self.status} without a JSON object: {excerpt(self.body)}"
            )
        return found


class Deviation(Struct, frozen=True):
    """Report a fault of a server that does not stop the flow; brings None."""

    text: str


class Visit(Struct, frozen=True):
    """Have a person visit an address; brings the address to which the browser was sent back."""

    url: str


Step: TypeAlias = Fetch | Visit | Deviation
T = TypeVar("T")
Flow: TypeAlias = Generator[Step, Any, T]


class Challenge(Struct, frozen=True):
    """What a server asks for in `WWW-Authenticate`. Source: RFC 6750, 3; RFC 9728, 5.1."""

    scheme: str = ""
    """In lower case: `bearer` or `dpop`."""
    metadata_url: str = ""
    scope: str = ""
    error: str = ""


class ResourceMetadata(Struct, frozen=True):
    """What a server says of itself as a protected resource. Source: RFC 9728, 2."""

    resource: str
    """Exactly as it was received."""
    issuers: tuple[str, ...]
    scopes: tuple[str, ...] = ()
    is_proof_required: bool = False
    """Whether tokens have to be bound to a key. Source: RFC 9449."""


class AuthorizationServer(Struct, frozen=True):
    """The metadata of an authorization server. Source: RFC 8414, 2."""

    issuer: str
    """Exactly as its metadata has it."""
    token_endpoint: str
    authorization_endpoint: str = ""
    registration_endpoint: str = ""
    revocation_endpoint: str = ""
    client_authentication: tuple[str, ...] = ("client_secret_basic",)
    """How clients may authenticate at the token endpoint."""
    scopes: tuple[str, ...] = ()
    has_pkce: bool | None = False
    """True if it supports PKCE with S256; None if its metadata says nothing about PKCE."""
    sends_issuer: bool = False
    """Whether it names itself when it sends the browser back. Source: RFC 9207."""
    named_as: str = ""
    """Its address where that differs from `issuer` by a slash at the end; else empty."""
    takes_client_metadata: bool = False
    """Whether a client's id may be the address of a document about it."""


class ClientRegistration(Struct, frozen=True):
    """What an authorization server knows this client as."""

    id: str
    secret: str = ""
    authentication: str = ""
    """How it authenticates at the token endpoint; empty: as the server's metadata says."""
    redirect_uri: str = ""
    """The one it was registered with; empty for one that was not registered here."""

    def __repr__(self) -> str:
        return f"ClientRegistration({self.id!r})"  # no secret in a log


class OAuthGrant(Struct, frozen=True):
    """A token for one server."""

    issuer: str
    resource: str
    client: ClientRegistration
    access_token: str
    scopes: tuple[str, ...] = ()
    refresh_token: str = ""
    expires: float | None = None
    """Unix time in seconds; None: it was not said."""
    is_bound: bool = False
    """Whether requests have to prove that they have the key the token is bound to."""

    def __repr__(self) -> str:
        return f"OAuthGrant({self.issuer!r}, {self.resource!r}, {self.client!r})"

    def has_expired(self, now: float) -> bool:
        """Whether it is of no use any more, or will be in a moment."""
        return self.expires is not None and now >= self.expires - EARLY_S


EARLY_S = 10.0
"""How long before its end a token is renewed."""


def checked_endpoint(url: Any, what: str) -> str:
    """An address to which secrets may be sent. Raises: AuthorizationError for any other one."""
    if not isinstance(url, str) or not url.isprintable() or " " in url:
        raise AuthorizationError(f"{what} is no URL: {excerpt(repr(url))}", "RFC 8414, 2")
    try:
        parts = urlsplit(url)
        host = parts.hostname
    except ValueError:
        host, parts = None, urlsplit("")
    is_safe = parts.scheme == "https" or (parts.scheme == "http" and host in LOOPBACK)
    if not host or not is_safe or parts.fragment:
        shown = excerpt(without_query(url))
        raise AuthorizationError(f"{what} has to be an https URL, not {shown}", "OAuth 2.1, 1.5")
    return url


def texts(value: Any) -> tuple[str, ...]:
    """A list of texts as strangers send it: whatever is no text is left out."""
    return tuple(each for each in value if isinstance(each, str)) if isinstance(value, list) else ()
