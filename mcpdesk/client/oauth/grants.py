"""How a token is had: by a person's login, by credentials of a machine, or by a refresh token.

Source: MCP basic/authorization; OAuth 2.1; RFC 7591, 7636, 8707, 9207, 9449.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from collections.abc import Callable, Mapping
from urllib.parse import parse_qs, quote_plus, urlencode, urlsplit

import orjson
from msgspec import Struct

from mcpdesk.client.oauth.discovery import (
    canonical,
    find_authorization_server,
    find_own_server,
    find_resource,
)
from mcpdesk.client.oauth.proofs import ProofKey, signed_assertion
from mcpdesk.client.oauth.values import (
    AuthorizationServer,
    Challenge,
    ClientRegistration,
    Fetch,
    Fetched,
    Flow,
    OAuthGrant,
    ResourceMetadata,
    Visit,
)
from mcpdesk.client.transport import excerpt
from mcpdesk.errors import AuthorizationError

BEARER_ASSERTION = "urn:ietf:params:oauth:grant-type:jwt-bearer"
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ID_TOKEN = "urn:ietf:params:oauth:token-type:id_token"
ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"
CLIENT_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
FORM = "application/x-www-form-urlencoded"
PREFERRED = ("none", "client_secret_basic", "client_secret_post")
"""Ways to authenticate that a newly registered client asks for, the best first."""


Known = Callable[[str], ClientRegistration | None]


class ClientCredentials(Struct, frozen=True):
    """A machine that has its own credentials: a secret, or a private key that signs."""

    client_id: str
    client_secret: str = ""
    private_key_pem: str = ""
    algorithm: str = "ES256"

    def __repr__(self) -> str:
        return f"ClientCredentials({self.client_id!r})"


class SignedAssertion(Struct, frozen=True):
    """A machine whose platform gave it a signed token to be exchanged."""

    token: str

    def __repr__(self) -> str:
        return "SignedAssertion()"


class EnterpriseLogin(Struct, frozen=True):
    """A person who is logged in at an identity provider that the authorization server trusts."""

    provider_token_endpoint: str
    provider_client_id: str
    id_token: str
    client_id: str
    client_secret: str

    def __repr__(self) -> str:
        return f"EnterpriseLogin({self.client_id!r})"


class ClientSetup(Struct, frozen=True):
    """How this client presents itself to authorization servers."""

    name: str = "mcpdesk"
    redirect_uri: str = ""
    """Where the browser is sent back to."""
    metadata_url: str = ""
    """Where a document about this client lies; empty: there is none."""
    client: ClientRegistration | None = None
    """What a person or a file says it is registered as."""
    client_issuer: str = ""
    """The authorization server it is registered at; empty: whichever the server names."""
    machine: ClientCredentials | SignedAssertion | EnterpriseLogin | None = None
    """What stands in for a person's login."""


class Discovery(Struct, frozen=True):
    """Where a token for a server is to be had."""

    resource: ResourceMetadata
    server: AuthorizationServer


def discover(server_url: str, challenge: Challenge) -> Flow[Discovery]:
    """Find out who gives tokens for a server. Raises: AuthorizationError."""
    resource = yield from find_resource(server_url, challenge)
    if resource is None:
        own = yield from find_own_server(server_url)
        return Discovery(ResourceMetadata(canonical(server_url), (own.issuer,)), own)
    server = yield from find_authorization_server(resource.issuers[0])
    return Discovery(resource, server)


def authorize(
    found: Discovery,
    challenge: Challenge,
    setup: ClientSetup,
    known: Known,
    earlier: tuple[str, ...] = (),
    key: ProofKey | None = None,
) -> Flow[OAuthGrant]:
    """A new token, by whatever `setup` has.

    `known` gives what this client was registered as before, by issuer; `earlier` are the scopes of an earlier
    token, which are asked for again; `key` is what the token is to be bound to. Raises: AuthorizationError.
    """
    scopes = _scopes(challenge, found.resource, earlier)
    machine = setup.machine
    match machine:
        case ClientCredentials():
            return (yield from _by_credentials(found, machine, scopes, key))
        case SignedAssertion():
            fields = {"grant_type": BEARER_ASSERTION, "assertion": machine.token}
            return (
                yield from _token(found, ClientRegistration("", authentication="none"), fields, scopes, key)
            )
        case EnterpriseLogin():
            return (yield from _by_enterprise(found, machine, scopes, key))
    client = yield from _client(found.server, setup, known)
    return (yield from _by_person(found, client, setup.redirect_uri, scopes, key))


def refresh(found: Discovery, grant: OAuthGrant, key: ProofKey | None = None) -> Flow[OAuthGrant]:
    """A new token for one that has expired. Raises: AuthorizationError when it is refused."""
    fields = {"grant_type": "refresh_token", "refresh_token": grant.refresh_token}
    return (yield from _token(found, grant.client, fields, grant.scopes, key, grant.refresh_token))


def _scopes(challenge: Challenge, resource: ResourceMetadata, earlier: tuple[str, ...]) -> tuple[str, ...]:
    """What to ask for: what the operation needs, else all there is; and what was granted before."""
    wanted = tuple(challenge.scope.split()) or (() if earlier else resource.scopes)
    return tuple(dict.fromkeys((*earlier, *wanted)))


def _client(server: AuthorizationServer, setup: ClientSetup, known: Known) -> Flow[ClientRegistration]:
    """What this client is at an authorization server. An id is never shown to another one."""
    if setup.client is not None:
        if setup.client_issuer not in ("", server.issuer):
            told = f"the client is registered at {setup.client_issuer}, and the server trusts {server.issuer}"
            raise AuthorizationError(told, "MCP basic/authorization/client-registration")
        return setup.client
    if server.takes_client_metadata and setup.metadata_url:
        return ClientRegistration(setup.metadata_url, authentication="none", redirect_uri=setup.redirect_uri)
    before = known(server.issuer)
    if before is not None and before.redirect_uri == setup.redirect_uri:
        return before
    if server.registration_endpoint:
        return (yield from _register(server, setup))
    told = f"{server.issuer} registers no clients by itself: register one there and give its id"
    raise AuthorizationError(told, "MCP basic/authorization/client-registration")


def _register(server: AuthorizationServer, setup: ClientSetup) -> Flow[ClientRegistration]:
    """Register this client. Source: RFC 7591."""
    ways = [way for way in PREFERRED if way in server.client_authentication]
    if not ways:
        told = f"clients of {server.issuer} authenticate by {', '.join(server.client_authentication)} only"
        raise AuthorizationError(told, "RFC 7591, 2")
    asked = {
        "client_name": setup.name,
        "redirect_uris": [setup.redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": ways[0],
        "application_type": "native",
    }
    what = "the registration"
    headers = {"Content-Type": "application/json"}
    answer: Fetched = yield Fetch(what, server.registration_endpoint, "POST", headers, orjson.dumps(asked))
    if answer.status not in (200, 201):
        raise _refused(what, answer)
    found = answer.json(what)
    identifier, secret = found.get("client_id"), found.get("client_secret", "")
    if not isinstance(identifier, str) or not isinstance(secret, str):
        raise AuthorizationError("the registration brought no client_id", "RFC 7591, 3.2.1")
    granted = found.get("token_endpoint_auth_method")
    way = granted if isinstance(granted, str) and granted in PREFERRED else ways[0]
    return ClientRegistration(identifier, secret, way, setup.redirect_uri)


def _by_person(
    found: Discovery,
    client: ClientRegistration,
    redirect_uri: str,
    scopes: tuple[str, ...],
    key: ProofKey | None,
) -> Flow[OAuthGrant]:
    """A token by the login of a person: an authorization code with PKCE. Source: OAuth 2.1, 4.1."""
    server = found.server
    if not server.authorization_endpoint:
        raise AuthorizationError(f"{server.issuer} has no authorization_endpoint", "RFC 8414, 2")
    if not server.has_pkce:
        told = f"{server.issuer} does not say that it knows PKCE with S256"
        raise AuthorizationError(told, "MCP basic/authorization")
    verifier, state = secrets.token_urlsafe(64), secrets.token_urlsafe(32)
    digest = hashlib.sha256(verifier.encode()).digest()
    asked = {
        "response_type": "code",
        "client_id": client.id,
        "redirect_uri": redirect_uri,
        "state": state,
        "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
        "code_challenge_method": "S256",
        "resource": found.resource.resource,
    }
    if scopes:
        asked["scope"] = " ".join(scopes)
    joint = "&" if urlsplit(server.authorization_endpoint).query else "?"
    returned: str = yield Visit(f"{server.authorization_endpoint}{joint}{urlencode(asked)}")
    fields = {
        "grant_type": "authorization_code",
        "code": _code(returned, state, server),
        "redirect_uri": redirect_uri,
        "code_verifier": verifier,
    }
    return (yield from _token(found, client, fields, scopes, key))


def _code(returned: str, state: str, server: AuthorizationServer) -> str:
    """The code in the address the browser was sent back to, if it came from the server that was asked.

    Raises: AuthorizationError.
    """
    given = {name: values[0] for name, values in parse_qs(urlsplit(returned).query).items()}
    if not secrets.compare_digest(given.get("state", "").encode(), state.encode()):
        raise AuthorizationError("the browser came back with another state", "OAuth 2.1, 7.12")
    issuer = given.get("iss")
    if issuer is None and server.sends_issuer:
        raise AuthorizationError("the browser came back without iss, which was announced", "RFC 9207, 2.4")
    if issuer is not None and issuer != server.issuer:
        told = f"the browser came back from {excerpt(issuer)}, not from {server.issuer}"
        raise AuthorizationError(told, "RFC 9207, 2.4")
    if "error" in given:
        said = given.get("error_description", "")
        raise AuthorizationError(f"the login was refused: {excerpt(given['error'])} {excerpt(said)}".rstrip())
    if "code" not in given:
        raise AuthorizationError("the browser came back without a code", "OAuth 2.1, 4.1.2")
    return given["code"]


def _by_credentials(
    found: Discovery, machine: ClientCredentials, scopes: tuple[str, ...], key: ProofKey | None
) -> Flow[OAuthGrant]:
    fields = {"grant_type": "client_credentials"}
    if not machine.private_key_pem:
        client = ClientRegistration(machine.client_id, machine.client_secret)
        return (yield from _token(found, client, fields, scopes, key))
    fields |= {
        "client_assertion_type": CLIENT_ASSERTION,
        "client_assertion": signed_assertion(
            machine.client_id, found.server.issuer, machine.private_key_pem, machine.algorithm
        ),
    }
    client = ClientRegistration(machine.client_id, authentication="none")
    return (yield from _token(found, client, fields, scopes, key))


def _by_enterprise(
    found: Discovery, machine: EnterpriseLogin, scopes: tuple[str, ...], key: ProofKey | None
) -> Flow[OAuthGrant]:
    """A token by an assertion that an identity provider makes for this authorization server."""
    asked = {
        "grant_type": EXCHANGE,
        "requested_token_type": ID_JAG,
        "subject_token": machine.id_token,
        "subject_token_type": ID_TOKEN,
        "audience": found.server.issuer,
        "resource": found.resource.resource,
        "client_id": machine.provider_client_id,
    }
    what = "the exchange at the identity provider"
    headers = {"Content-Type": FORM}
    body = urlencode(asked).encode()
    answer: Fetched = yield Fetch(
        what, machine.provider_token_endpoint, "POST", headers, body, is_named_by_server=False
    )
    if answer.status != 200:
        raise _refused(what, answer)
    assertion = answer.json(what).get("access_token")
    if not isinstance(assertion, str):
        raise AuthorizationError(f"{what} brought no access_token", "RFC 8693, 2.2.1")
    client = ClientRegistration(machine.client_id, machine.client_secret, "client_secret_basic")
    fields = {"grant_type": BEARER_ASSERTION, "assertion": assertion}
    return (yield from _token(found, client, fields, scopes, key))


def _token(
    found: Discovery,
    client: ClientRegistration,
    fields: dict[str, str],
    scopes: tuple[str, ...],
    key: ProofKey | None,
    refresh_token: str = "",
) -> Flow[OAuthGrant]:
    """What the token endpoint gives for these fields. Raises: AuthorizationError."""
    server, what = found.server, "the token request"
    asked = fields | {"resource": found.resource.resource}
    if scopes and fields["grant_type"] == "client_credentials":
        asked["scope"] = " ".join(scopes)
    headers = {"Content-Type": FORM, "Accept": "application/json"}
    match _authentication(client, server):
        case "client_secret_basic":
            pair = f"{quote_plus(client.id)}:{quote_plus(client.secret)}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        case "client_secret_post":
            asked |= {"client_id": client.id, "client_secret": client.secret}
        case _ if client.id:
            asked["client_id"] = client.id
    body = urlencode(asked).encode()
    answer = yield from _posted(what, server.token_endpoint, headers, body, key)
    if answer.status != 200:
        raise _refused(what, answer)
    given = answer.json(what)
    token, kind = given.get("access_token"), given.get("token_type")
    if not isinstance(token, str) or not token.isascii() or not token.isprintable() or " " in token:
        raise AuthorizationError(
            f"{what} brought no access_token that a header can carry", "OAuth 2.1, 3.2.3"
        )
    if not isinstance(kind, str) or kind.lower() not in ("bearer", "dpop"):
        raise AuthorizationError(f"{what} brought a token of type {excerpt(repr(kind))}", "OAuth 2.1, 3.2.3")
    lasts, scope, renewed = given.get("expires_in"), given.get("scope"), given.get("refresh_token")
    return OAuthGrant(
        server.issuer,
        found.resource.resource,
        client,
        token,
        tuple(scope.split()) if isinstance(scope, str) else scopes,
        renewed if isinstance(renewed, str) else refresh_token,
        time.time() + lasts if isinstance(lasts, int | float) and not isinstance(lasts, bool) else None,
        kind.lower() == "dpop",
    )


def _posted(
    what: str, url: str, headers: Mapping[str, str], body: bytes, key: ProofKey | None
) -> Flow[Fetched]:
    """Post a form, with a proof of `key`; once more when the server wants a nonce of its own in it."""
    answer: Fetched
    if key is None:
        answer = yield Fetch(what, url, "POST", headers, body)
        return answer
    answer = yield Fetch(what, url, "POST", {**headers, **key.header("POST", url)}, body)
    if key.learn(url, answer.headers) and answer.status in (400, 401):
        answer = yield Fetch(what, url, "POST", {**headers, **key.header("POST", url)}, body)
        key.learn(url, answer.headers)
    return answer


def _authentication(client: ClientRegistration, server: AuthorizationServer) -> str:
    """How a client authenticates at the token endpoint."""
    if client.authentication or not client.secret:
        return client.authentication or "none"
    ways = [way for way in server.client_authentication if way in PREFERRED[1:]]
    return ways[0] if ways else "client_secret_basic"


def _refused(what: str, answer: Fetched) -> AuthorizationError:
    try:
        given = answer.json(what)
    except AuthorizationError as error:
        return error
    said = " ".join(str(given[name]) for name in ("error", "error_description") if name in given)
    return AuthorizationError(f"{what} was refused: HTTP {answer.status} {excerpt(said)}".rstrip())
