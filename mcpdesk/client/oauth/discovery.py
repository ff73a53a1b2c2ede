"""Discovery of a server's authorization server, and validation of its metadata.

Source: MCP basic/authorization; RFC 6750, 9728, 8414.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import urlsplit, urlunsplit

from mcpdesk.client.oauth.values import (
    AuthorizationServer,
    Challenge,
    Deviation,
    Fetch,
    FetchResult,
    Flow,
    ResourceMetadata,
    checked_endpoint,
    strings_in,
)
from mcpdesk.client.transport import excerpt, quoted_excerpt
from mcpdesk.errors import AuthorizationError, LoginUnavailable
from mcpdesk.protocol.jsonrpc import JSONObject

RESOURCE_PATH = "/.well-known/oauth-protected-resource"
SERVER_PATH = "/.well-known/oauth-authorization-server"
OPENID_PATH = "/.well-known/openid-configuration"
SCHEMES = ("dpop", "bearer")
MAX_CHALLENGE_LENGTH = 8 << 10
"""Maximum number of characters of a `WWW-Authenticate` header that are parsed."""
_MISSING_STATUSES = frozenset({404, 405, 410, 501})
"""Statuses of a path that is not an authorization endpoint."""
_TOKEN = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"
_CHALLENGE_PART = re.compile(
    rf'\s*,?\s*(?:(?P<name>{_TOKEN})\s*=\s*(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>[^\s,"]*))'
    rf"|(?P<scheme>{_TOKEN})(?=[\s,]|$))"
)


def parse_challenge(values: Sequence[str]) -> Challenge | None:
    """Parse the `WWW-Authenticate` headers of an answer.

    Return None if no header has the scheme DPoP or Bearer.
    """
    schemes: dict[str, dict[str, str]] = {}
    parameters: dict[str, str] = {}
    for value in values:
        text = value[:MAX_CHALLENGE_LENGTH]
        position = 0
        while part := _CHALLENGE_PART.match(text, position):
            position = part.end()
            if part["scheme"] is not None:
                parameters = schemes.setdefault(part["scheme"].lower(), {})
            else:
                quoted = part["quoted"]
                parameter = part["bare"] if quoted is None else re.sub(r"\\(.)", r"\1", quoted)
                parameters.setdefault(part["name"].lower(), parameter)
    for scheme in SCHEMES:
        if scheme in schemes:
            scheme_values = schemes[scheme]
            return Challenge(
                scheme,
                scheme_values.get("resource_metadata", ""),
                scheme_values.get("scope", ""),
                scheme_values.get("error", ""),
            )
    return None


def find_resource(server_url: str, challenge: Challenge) -> Flow[ResourceMetadata | None]:
    """Return the protected resource metadata of a server, or None if the server publishes none.

    Servers of revision 2025-03-26 usually publish none.

    Raises: AuthorizationError if the metadata is invalid or belongs to another server.
    """
    subject = "the protected resource metadata"
    if challenge.metadata_url:
        metadata_urls = [checked_endpoint(challenge.metadata_url, "resource_metadata")]
    else:
        parts = urlsplit(server_url)
        paths = dict.fromkeys((f"{RESOURCE_PATH}{parts.path.rstrip('/')}", RESOURCE_PATH))
        metadata_urls = [_url_at(server_url, path) for path in paths]
    fault: AuthorizationError | None = None
    for url in metadata_urls:
        answer: FetchResult = yield Fetch(subject, url, allows_broken_connection=True)
        if not answer.status:
            fault = fault or _connection_error(subject, url, answer)
        elif answer.status == 200:
            try:
                document = answer.json(subject)
            except AuthorizationError as error:
                fault = fault or error  # a web page, which some sites return for every path
                continue
            return _checked_resource(document, server_url)
    if fault is not None:
        raise fault
    if challenge.metadata_url:
        url = excerpt(metadata_urls[0])
        text = f"{subject} was not found at the URL that the server names: HTTP {answer.status} at {url}"
        raise AuthorizationError(text, "RFC 9728, 5.1")
    return None


def find_authorization_server(issuer: str) -> Flow[AuthorizationServer]:
    """Return the metadata of an authorization server. The well-known URLs are tried in order.

    Raises: AuthorizationError if the metadata is missing or belongs to another issuer.
    """
    checked_endpoint(issuer, "the authorization server")
    path = urlsplit(issuer).path.rstrip("/")
    well_known_paths = [f"{SERVER_PATH}{path}", f"{OPENID_PATH}{path}"]
    if path:
        well_known_paths.append(f"{path}{OPENID_PATH}")
    metadata_urls = [_url_at(issuer, each) for each in well_known_paths]
    subject = "the authorization server metadata"
    fault: AuthorizationError | None = None
    for url in metadata_urls:
        answer: FetchResult = yield Fetch(subject, url, allows_broken_connection=True)
        if not answer.status:
            fault = fault or _connection_error(subject, url, answer)
        elif answer.status == 200:
            try:
                document = answer.json(subject)
            except AuthorizationError as error:
                fault = fault or error  # a web page, which some sites return for every path
                continue
            server = authorization_server(document, issuer)
            if server.issuer != issuer:
                names_text = f"the server names the authorization server {excerpt(issuer)}"
                issuer_text = f"whose metadata has the issuer {excerpt(server.issuer)}"
                yield Deviation(f"{names_text}, {issuer_text}: one slash differs (RFC 8414, 3.3)")
            return server
        if answer.status >= 500:
            raise AuthorizationError(f"{subject}: HTTP {answer.status} at {excerpt(url)}")
    if fault is not None:
        raise fault
    raise AuthorizationError(
        f"{subject} was not found: tried {', '.join(map(excerpt, metadata_urls))}", "RFC 8414, 3"
    )


def _connection_error(subject: str, url: str, answer: FetchResult) -> AuthorizationError:
    """Return the error for a request whose connection broke. The body of `answer` has the reason."""
    return AuthorizationError(f"{subject} at {excerpt(url)}: {excerpt(answer.body)}")


def find_own_server(server_url: str, scope: str) -> Flow[AuthorizationServer]:
    """Return the authorization metadata of a server that issues its own tokens, as in revision 2025-03-26.

    If the server publishes no metadata, return the default endpoints of that revision. `scope` is the scope
    in the server's challenge. Raises: LoginUnavailable if the server has no authorization endpoint.
    """
    origin = _url_at(server_url, "")
    subject = "the authorization server metadata"
    answer: FetchResult = yield Fetch(subject, f"{origin}{SERVER_PATH}", allows_broken_connection=True)
    if answer.status == 200:
        return authorization_server(answer.json(subject), origin)
    # An error status does not prove that the endpoint is missing, because the request has no parameters.
    page: FetchResult = yield Fetch(
        "the authorization endpoint", f"{origin}/authorize", allows_broken_connection=True
    )
    if not answer.status and (not page.status or page.status in _MISSING_STATUSES):
        raise _connection_error(subject, origin, answer)
    if page.status in _MISSING_STATUSES:
        raise no_login_error(origin, scope)
    return AuthorizationServer(
        origin,
        token_endpoint=f"{origin}/token",
        authorization_endpoint=f"{origin}/authorize",
        registration_endpoint=f"{origin}/register",
        client_authentication=("none", "client_secret_basic", "client_secret_post"),
        has_pkce=True,
    )


def no_login_error(origin: str, scope: str) -> LoginUnavailable:
    """Return the error for a server that requires tokens but does not name an authorization server."""
    token_text = f"a token with the scope {quoted_excerpt(scope)}" if scope else "a token"
    text = f"no login is available: {origin} publishes no metadata and has nothing at /authorize"
    advice = f"If it needs {token_text}, its operator has one: use --token-env VAR or --header."
    return LoginUnavailable(text, hint=advice)


def authorization_server(metadata: JSONObject, issuer: str) -> AuthorizationServer:
    """Validate the metadata of an authorization server.

    The issuer in the metadata may differ from `issuer` by a trailing slash.

    Raises: AuthorizationError for metadata of another issuer.
    """
    metadata_issuer = metadata.get("issuer")
    if not isinstance(metadata_issuer, str) or metadata_issuer.removesuffix("/") != issuer.removesuffix("/"):
        subject = f"the metadata of the authorization server {excerpt(issuer)}"
        text = f"{subject} names the issuer {excerpt(repr(metadata_issuer))}"
        raise AuthorizationError(text, "RFC 8414, 3.3")

    def endpoint(name: str) -> str:
        return checked_endpoint(metadata[name], name) if metadata.get(name) is not None else ""

    if "token_endpoint" not in metadata:
        raise AuthorizationError(f"{excerpt(issuer)} has no token_endpoint", "RFC 8414, 2")
    methods = strings_in(metadata.get("token_endpoint_auth_methods_supported"))
    challenges = metadata.get("code_challenge_methods_supported")
    return AuthorizationServer(
        metadata_issuer,
        token_endpoint=endpoint("token_endpoint"),
        authorization_endpoint=endpoint("authorization_endpoint"),
        registration_endpoint=endpoint("registration_endpoint"),
        revocation_endpoint=endpoint("revocation_endpoint"),
        client_authentication=methods or ("client_secret_basic",),
        scopes=strings_in(metadata.get("scopes_supported")),
        has_pkce=None if challenges is None else "S256" in strings_in(challenges),
        sends_issuer=metadata.get("authorization_response_iss_parameter_supported") is True,
        issuer_as_named=issuer if issuer != metadata_issuer else "",
        accepts_client_metadata=metadata.get("client_id_metadata_document_supported") is True,
    )


def canonical_url(server_url: str) -> str:
    """Return a server's URL without query and fragment, as used for the `resource` of a token."""
    return urlunsplit(urlsplit(server_url)._replace(query="", fragment=""))


def _checked_resource(metadata: JSONObject, server_url: str) -> ResourceMetadata:
    """Return the metadata if it is valid for the server. Raises: AuthorizationError."""
    resource = metadata.get("resource")
    if not isinstance(resource, str) or not _contains(resource, server_url):
        text = (
            f"the metadata describes the resource {excerpt(repr(resource))}, not {canonical_url(server_url)}"
        )
        raise AuthorizationError(text, "RFC 9728, 3.3")
    issuers = strings_in(metadata.get("authorization_servers"))
    if not issuers:
        raise AuthorizationError("the metadata names no authorization_servers", "MCP basic/authorization")
    return ResourceMetadata(
        resource,
        issuers,
        strings_in(metadata.get("scopes_supported")),
        metadata.get("dpop_bound_access_tokens_required") is True,
    )


def _contains(resource: str, server_url: str) -> bool:
    """Return True if `resource` is the server's URL or a parent path of that URL."""
    try:
        resource_parts, server_parts = urlsplit(resource), urlsplit(server_url)
        resource_origin = (resource_parts.scheme.lower(), resource_parts.hostname, resource_parts.port)
        server_origin = (server_parts.scheme, server_parts.hostname, server_parts.port)
    except ValueError:
        return False
    resource_path, server_path = resource_parts.path.rstrip("/"), server_parts.path.rstrip("/")
    is_below = server_path == resource_path or server_path.startswith(f"{resource_path}/")
    return resource_origin == server_origin and not resource_parts.fragment and is_below


def _url_at(url: str, path: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}{path}"
