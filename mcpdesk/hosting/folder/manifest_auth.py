"""The `auth` part of `mcp.json`: how tokens are checked, who gives them, and what tools ask for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

import msgspec

from mcpdesk.errors import ManifestError

if TYPE_CHECKING:
    from mcpdesk.hosting.folder.manifest_errors import Step

SOURCES = ("secret_env", "jwks_file", "jwks_url")
LONGEST_LEEWAY_S = 600
SCOPE = r"[\x21\x23-\x5b\x5d-\x7e]{1,100}"


class Refuse(Protocol):
    """Makes an error from a message and the path to what it is about."""

    def __call__(self, message: str, *trail: Step) -> ManifestError: ...


class ManifestPart(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A part of the manifest; unknown keys are mistakes."""


class Jwt(ManifestPart):
    """How tokens are checked."""

    algorithms: list[str] = []
    secret_env: str = ""
    jwks_file: str = ""
    jwks_url: str = ""
    issuer: str = ""
    audience: str | list[str] = ""
    leeway_s: float = 0


class Needs(ManifestPart):
    """What one tool asks of its callers in addition."""

    requires_jwt: bool = True
    scopes: list[str] = []


class Auth(ManifestPart):
    """The `auth` object: who may call."""

    requires_jwt: bool = False
    jwt: Jwt | None = None
    scopes: list[str] = []
    """Scopes every token must allow."""
    includes: dict[str, list[str]] = {}
    """The scopes a broader one stands for."""
    authorization_servers: list[str] = []
    """Issuers of tokens, which clients find in the metadata of the protected resource."""
    resource: str = ""
    """The public URI of the server behind a proxy."""
    tools: dict[str, Needs] = {}
    """By tool name; added to what the tools ask for themselves."""


def check_auth(auth: Auth, refuse: Refuse) -> None:
    """Check that the parts fit together. Raises: ManifestError."""
    _check_scopes(auth, refuse)
    if auth.jwt is None:
        for key in ("requires_jwt", "scopes", "authorization_servers", "tools"):
            if getattr(auth, key):
                raise refuse(f"auth.{key}: needs auth.jwt, which says how tokens are checked", "auth", key)
        return
    _check_jwt(auth.jwt, refuse)
    if auth.resource and not _is_web(auth.resource):
        raise refuse("auth.resource: must be an address like https://h.example/mcp/name", "auth", "resource")
    for url in auth.authorization_servers:
        if not _is_web(url):
            told = f"auth.authorization_servers: {url!r} is not allowed; {_WEB}"
            raise refuse(told, "auth", "authorization_servers")
    if auth.authorization_servers and not (auth.jwt.issuer and audiences(auth)):
        reason = "tokens of others, or made for others, would count"
        raise refuse(
            f"auth.jwt: needs issuer and audience with authorization_servers: {reason}", "auth", "jwt"
        )


def audiences(auth: Auth) -> frozenset[str]:
    """The audiences a token may have; by default the server's own URI."""
    given = auth.jwt.audience if auth.jwt is not None else ""
    named = [given] if isinstance(given, str) else given
    return frozenset(each for each in named if each) or frozenset([auth.resource] if auth.resource else [])


def parts(auth: Any) -> list[tuple[tuple[Step, ...], Any, type[msgspec.Struct]]]:
    """Each object in `auth` as it was read: its path, the object, and its type."""
    found: list[tuple[tuple[Step, ...], Any, type[msgspec.Struct]]] = [(("auth",), auth, Auth)]
    if isinstance(auth, dict):
        found.append((("auth", "jwt"), auth.get("jwt"), Jwt))
        tools = auth.get("tools")
        for name, needs in tools.items() if isinstance(tools, dict) else ():
            found.append((("auth", "tools", name), needs, Needs))
    return found


_ALGORITHMS = ("auth", "jwt", "algorithms")
_WEB = "allowed: https addresses, and http ones of this machine, without a query or a fragment"


def _check_jwt(jwt: Jwt, refuse: Refuse) -> None:
    from mcpdesk.auth.keys import ALGORITHMS, HMAC  # most servers know no tokens

    if sum(bool(getattr(jwt, name)) for name in SOURCES) != 1:
        raise refuse(f"auth.jwt: needs exactly one of {', '.join(SOURCES)}", "auth", "jwt")
    if not jwt.algorithms or "none" in (each.lower() for each in jwt.algorithms):
        told = 'auth.jwt.algorithms: needs at least one, like "HS256", and never "none"'
        raise refuse(told, *_ALGORITHMS)
    for name in jwt.algorithms:
        if name not in ALGORITHMS:
            told = f"auth.jwt.algorithms: {name!r} is not known; known: {_listed(ALGORITHMS)}"
            raise refuse(told, *_ALGORITHMS)
    unfit = [name for name in jwt.algorithms if (name in HMAC) != bool(jwt.secret_env)]
    if unfit and not jwt.jwks_file:
        wanted = "jwks_file or jwks_url" if jwt.secret_env else "secret_env"
        raise refuse(f"auth.jwt.algorithms: {_listed(unfit)} cannot do without {wanted}", *_ALGORITHMS)
    if jwt.jwks_url and not _is_web(jwt.jwks_url, with_query=True):
        raise refuse(f"auth.jwt.jwks_url: {_WEB}", "auth", "jwt", "jwks_url")
    if not 0 <= jwt.leeway_s <= LONGEST_LEEWAY_S:
        told = f"auth.jwt.leeway_s: 0 to {LONGEST_LEEWAY_S} are allowed, not {jwt.leeway_s:g}"
        raise refuse(told, "auth", "jwt", "leeway_s")


def _check_scopes(auth: Auth, refuse: Refuse) -> None:
    found = [*auth.scopes, *auth.includes, *(each for more in auth.includes.values() for each in more)]
    found += [each for needs in auth.tools.values() for each in needs.scopes]
    for scope in found:
        if re.fullmatch(SCOPE, scope) is None:
            allowed = "printable ASCII without spaces, quotes and backslashes"
            raise refuse(f"auth: {scope!r} is no scope; allowed: {allowed}", "auth")


def _is_web(url: str, with_query: bool = False) -> bool:
    """Whether a URL is https, or http on this machine, without user, fragment or (by default) query."""
    from mcpdesk.auth.http_origin import is_loopback

    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    if not host or parts.fragment or parts.username is not None or (parts.query and not with_query):
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)
