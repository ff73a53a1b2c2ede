"""Flows that obtain a token: by a person's login, with a machine's credentials, or with a refresh token.

Source: MCP basic/authorization; OAuth 2.1; RFC 7591, 7636, 8707, 9207, 9449.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import parse_qs, parse_qsl, quote_plus, urlencode, urlsplit

import orjson
from msgspec import Struct

from mcpdesk.client.oauth.discovery import (
    canonical_url,
    find_authorization_server,
    find_own_server,
    find_resource,
)
from mcpdesk.client.oauth.proofs import ProofKey, signed_assertion
from mcpdesk.client.oauth.values import (
    AuthorizationServer,
    Challenge,
    ClientRegistration,
    Deviation,
    Fetch,
    FetchResult,
    Flow,
    OAuthGrant,
    ResourceMetadata,
    Visit,
)
from mcpdesk.client.transport import excerpt
from mcpdesk.errors import AuthorizationError

BEARER_ASSERTION = "urn:ietf:params:oauth:grant-type:jwt-bearer"
TOKEN_EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ID_TOKEN = "urn:ietf:params:oauth:token-type:id_token"
ID_JAG = "urn:ietf:params:oauth:token-type:id-jag"
CLIENT_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
FORM = "application/x-www-form-urlencoded"
PREFERRED_METHODS = ("none", "client_secret_basic", "client_secret_post")
"""Authentication methods that a newly registered client requests, best first."""


class ClientCredentials(Struct, frozen=True):
    """Credentials of a machine: a secret, or a private key that signs assertions."""

    client_id: str
    client_secret: str = ""
    private_key_pem: str = ""

    def __repr__(self) -> str:
        return f"ClientCredentials({self.client_id!r})"


class SignedAssertion(Struct, frozen=True):
    """Signed token from the machine's platform, to be exchanged for a token of the authorization server."""

    token: str

    def __repr__(self) -> str:
        return "SignedAssertion()"


class EnterpriseLogin(Struct, frozen=True):
    """Login of a person at an identity provider that the authorization server trusts."""

    provider_token_endpoint: str
    provider_client_id: str
    id_token: str
    client_id: str
    client_secret: str

    def __repr__(self) -> str:
        return f"EnterpriseLogin({self.client_id!r})"


Machine = ClientCredentials | SignedAssertion | EnterpriseLogin
"""Credentials with which a client logs in without a person."""
MAX_FIELDS = 100
"""Maximum number of fields in a token response with the content type `FORM`."""


class ClientSetup(Struct, frozen=True):
    """Identity and options of this client for authorization servers."""

    name: str = "mcpdesk"
    redirect_uri: str = ""
    """URL that the browser is redirected to."""
    metadata_url: str = ""
    """URL of a client ID metadata document about this client, or "" if the client has no such document."""
    client: ClientRegistration | None = None
    """Existing registration that the user or a file provides."""
    client_issuer: str = ""
    """Issuer at which `client` or `machine` is registered. If empty, any issuer is accepted."""
    machine: Machine | None = None
    assumes_pkce: bool = False
    """True to use PKCE even if the metadata of the authorization server does not mention PKCE."""
    scope: str = ""
    """Scopes to request. If empty, the scopes that the server names are requested."""

    @property
    def machine_id(self) -> str | None:
        """Id of a client that logs in without a person. Empty for a `SignedAssertion`, which has no id.

        None if a person must log in.
        """
        if self.machine is None:
            return None
        return "" if isinstance(self.machine, SignedAssertion) else self.machine.client_id

    def setup(self) -> ClientSetup:
        """Return this object. `LoginOptions.setup` has the same role, but creates a setup for each login."""
        return self


class Discovery(Struct, frozen=True):
    """Metadata of a server and of its authorization server."""

    resource: ResourceMetadata
    server: AuthorizationServer


def discover(server_url: str, challenge: Challenge) -> Flow[Discovery]:
    """Discover the authorization server that an MCP server trusts. Raises: AuthorizationError."""
    resource = yield from find_resource(server_url, challenge)
    if resource is None:
        own_server = yield from find_own_server(server_url, challenge.scope)
        return Discovery(ResourceMetadata(canonical_url(server_url), (own_server.issuer,)), own_server)
    server = yield from find_authorization_server(resource.issuers[0])
    return Discovery(resource, server)


def authorize(
    discovery: Discovery,
    challenge: Challenge,
    setup: ClientSetup,
    known_registration: ClientRegistration | None,
    earlier_scopes: tuple[str, ...] = (),
    key: ProofKey | None = None,
) -> Flow[OAuthGrant]:
    """Obtain a new token with the credentials in `setup`, or by a person's login.

    `known_registration` is an earlier registration at the issuer. `earlier_scopes` contains the scopes of an
    earlier token, which are requested again. If `key` is given, the token request has a DPoP proof.

    Raises: AuthorizationError.
    """
    scopes = () if earlier_scopes else tuple(setup.scope.split())
    scopes = scopes or _requested_scopes(challenge, discovery.resource, earlier_scopes)
    issuer, machine = discovery.server.issuer, setup.machine
    has_client = setup.client is not None or machine is not None
    if has_client and setup.client_issuer.rstrip("/") not in ("", issuer.rstrip("/")):
        text = f"the client is registered at {setup.client_issuer}, but the server trusts {issuer}"
        raise AuthorizationError(text, "MCP basic/authorization/client-registration")
    match machine:
        case ClientCredentials():
            return (yield from _grant_by_credentials(discovery, machine, scopes, key))
        case SignedAssertion():
            fields = {"grant_type": BEARER_ASSERTION, "assertion": machine.token}
            unnamed_client = ClientRegistration("", authentication="none")
            return (yield from _request_token(discovery, unnamed_client, fields, scopes, key))
        case EnterpriseLogin():
            return (yield from _grant_by_enterprise(discovery, machine, scopes, key))
    yield from _check_login(discovery.server, setup)
    client = yield from _client_registration(discovery.server, setup, known_registration)
    return (yield from _grant_by_person(discovery, client, setup, scopes, key))


def revoke(discovery: Discovery, grant: OAuthGrant) -> Flow[bool]:
    """Revoke the tokens of a grant. Source: RFC 7009.

    Return False if the server does not support revocation.

    Raises: AuthorizationError if the server refuses.
    """
    server, subject = discovery.server, "the revocation"
    if not server.revocation_endpoint:
        return False
    tokens = {"refresh_token": grant.refresh_token, "access_token": grant.access_token}
    for token_type, token in tokens.items():
        if token:
            fields = {"token": token, "token_type_hint": token_type}
            fields, headers = _with_client(fields, grant.client, server, {"Content-Type": FORM})
            body = urlencode(fields).encode()
            answer: FetchResult = yield Fetch(subject, server.revocation_endpoint, "POST", headers, body)
            if answer.status == 400 and b"client_secret" in answer.body:
                # Servers of the official Python SDK always require the secret in the form.
                body = urlencode({**fields, "client_secret": grant.client.secret}).encode()
                answer = yield Fetch(subject, server.revocation_endpoint, "POST", headers, body)
            if answer.status != 200:
                raise _refusal_error(subject, answer)
    return True


def refresh(discovery: Discovery, grant: OAuthGrant, key: ProofKey | None = None) -> Flow[OAuthGrant]:
    """Obtain a new token with a refresh token. Raises: AuthorizationError if the server refuses."""
    fields = {"grant_type": "refresh_token", "refresh_token": grant.refresh_token}
    return (
        yield from _request_token(discovery, grant.client, fields, grant.scopes, key, grant.refresh_token)
    )


def _requested_scopes(
    challenge: Challenge, resource: ResourceMetadata, earlier_scopes: tuple[str, ...]
) -> tuple[str, ...]:
    """Return the scopes to request: `earlier_scopes` and the scopes of the challenge.

    If both are empty, return the scopes in the resource metadata.
    """
    scopes = tuple(challenge.scope.split()) or (() if earlier_scopes else resource.scopes)
    return tuple(dict.fromkeys((*earlier_scopes, *scopes)))


def _client_registration(
    server: AuthorizationServer, setup: ClientSetup, known_registration: ClientRegistration | None
) -> Flow[ClientRegistration]:
    """Return this client's registration at an authorization server.

    The id that one authorization server issued is never sent to another one.
    """
    if setup.client is not None:
        return setup.client
    if setup.metadata_url:
        if server.accepts_client_metadata:
            return ClientRegistration(
                setup.metadata_url, authentication="none", redirect_uri=setup.redirect_uri
            )
        yield Deviation(f"{server.issuer} does not support client metadata documents; yours is not used")
    if known_registration is not None and known_registration.redirect_uri == setup.redirect_uri:
        return known_registration
    if server.registration_endpoint:
        return (yield from _register(server, setup))
    text = f"{server.issuer} does not register clients automatically: register one there and use its id"
    advice = "Register a client at the provider, and use its id: mcpdesk login URL --client-id ID."
    raise AuthorizationError(text, "MCP basic/authorization/client-registration", hint=advice)


def _register(server: AuthorizationServer, setup: ClientSetup) -> Flow[ClientRegistration]:
    """Register this client. Source: RFC 7591."""
    methods = [method for method in PREFERRED_METHODS if method in server.client_authentication]
    if not methods:
        methods_text = excerpt(", ".join(server.client_authentication))
        text = f"clients of {server.issuer} authenticate by {methods_text} only"
        raise AuthorizationError(text, "RFC 7591, 2")
    metadata = {
        "client_name": setup.name,
        "redirect_uris": [setup.redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": methods[0],
        "application_type": "native",
    }
    subject = "the registration"
    headers = {"Content-Type": "application/json"}
    answer: FetchResult = yield Fetch(
        subject, server.registration_endpoint, "POST", headers, orjson.dumps(metadata)
    )
    if answer.status not in (200, 201):
        raise _refusal_error(subject, answer)
    registration = answer.json(subject)
    identifier, secret = registration.get("client_id"), registration.get("client_secret")
    if not isinstance(identifier, str) or not identifier:
        keys_text = f"; its keys are: {excerpt(', '.join(registration)) or 'none'}"
        raise AuthorizationError(f"the registration returned no client_id{keys_text}", "RFC 7591, 3.2.1")
    if secret is not None and not isinstance(secret, str):
        raise AuthorizationError(
            "the registration returned a client_secret that is not text", "RFC 7591, 3.2.1"
        )
    assigned_method = registration.get("token_endpoint_auth_method")
    if not secret:
        method = "none"
    elif isinstance(assigned_method, str) and assigned_method in PREFERRED_METHODS:
        method = assigned_method
    else:
        method = "" if methods[0] == "none" else methods[0]  # a secret was issued, so the secret must be used
    return ClientRegistration(identifier, secret or "", method, setup.redirect_uri)


def _check_login(server: AuthorizationServer, setup: ClientSetup) -> Flow[None]:
    """Check that the authorization server supports a person's login with PKCE. Raises: AuthorizationError.

    Called before the client is registered.
    """
    if not server.authorization_endpoint:
        raise AuthorizationError(f"{server.issuer} has no authorization_endpoint", "RFC 8414, 2")
    if server.has_pkce is None and setup.assumes_pkce:
        yield Deviation(f"the metadata of {server.issuer} does not mention PKCE; it is used as you asked")
    elif not server.has_pkce:
        text = f"the metadata of {server.issuer} does not say that it supports PKCE with S256"
        advice = "If the provider documents PKCE (Entra and Cognito do), log in with --assume-pkce."
        raise AuthorizationError(
            text, "MCP basic/authorization", hint=advice if server.has_pkce is None else ""
        )


def _grant_by_person(
    discovery: Discovery,
    client: ClientRegistration,
    setup: ClientSetup,
    scopes: tuple[str, ...],
    key: ProofKey | None,
) -> Flow[OAuthGrant]:
    """Obtain a token by a person's login, with an authorization code and PKCE. Source: OAuth 2.1, 4.1."""
    server, redirect_uri = discovery.server, setup.redirect_uri
    verifier, state = secrets.token_urlsafe(64), secrets.token_urlsafe(32)
    digest = hashlib.sha256(verifier.encode()).digest()
    parameters = {
        "response_type": "code",
        "client_id": client.id,
        "redirect_uri": redirect_uri,
        "state": state,
        "code_challenge": base64.urlsafe_b64encode(digest).rstrip(b"=").decode(),
        "code_challenge_method": "S256",
        "resource": discovery.resource.resource,
    }
    if scopes:
        parameters["scope"] = " ".join(scopes)
    separator = "&" if urlsplit(server.authorization_endpoint).query else "?"
    redirect_url: str = yield Visit(f"{server.authorization_endpoint}{separator}{urlencode(parameters)}")
    fields = {
        "grant_type": "authorization_code",
        "code": _authorization_code(redirect_url, state, server),
        "redirect_uri": redirect_uri,
        "code_verifier": verifier,
    }
    return (yield from _request_token(discovery, client, fields, scopes, key))


def _authorization_code(redirect_url: str, state: str, server: AuthorizationServer) -> str:
    """Return the authorization code in the URL of the redirect.

    Raises: AuthorizationError if `state` or `iss` is wrong, or the login failed.
    """
    parameters = {name: values[0] for name, values in parse_qs(urlsplit(redirect_url).query).items()}
    if not secrets.compare_digest(parameters.get("state", "").encode(), state.encode()):
        raise AuthorizationError("the state of the redirect is not that of the login", "OAuth 2.1, 7.12")
    issuer = parameters.get("iss")
    if issuer is None and server.sends_issuer:
        raise AuthorizationError(
            "the redirect has no iss, although the metadata announced it", "RFC 9207, 2.4"
        )
    if issuer is not None and issuer not in (server.issuer, server.issuer_as_named or server.issuer):
        text = f"the iss of the redirect is {excerpt(issuer)}, not {server.issuer}"
        raise AuthorizationError(text, "RFC 9207, 2.4")
    if "error" in parameters:
        description = parameters.get("error_description", "")
        raise AuthorizationError(
            f"the login was refused: {excerpt(parameters['error'])} {excerpt(description)}".rstrip()
        )
    if "code" not in parameters:
        raise AuthorizationError("the redirect has no code", "OAuth 2.1, 4.1.2")
    return parameters["code"]


def _grant_by_credentials(
    discovery: Discovery, machine: ClientCredentials, scopes: tuple[str, ...], key: ProofKey | None
) -> Flow[OAuthGrant]:
    """Obtain a token with a machine's secret or private key."""
    fields = {"grant_type": "client_credentials"}
    if not machine.private_key_pem:
        client = ClientRegistration(machine.client_id, machine.client_secret)
        return (yield from _request_token(discovery, client, fields, scopes, key))
    fields |= {
        "client_assertion_type": CLIENT_ASSERTION,
        "client_assertion": signed_assertion(
            machine.client_id, discovery.server.issuer, machine.private_key_pem
        ),
    }
    client = ClientRegistration(machine.client_id, authentication="none")
    return (yield from _request_token(discovery, client, fields, scopes, key))


def _grant_by_enterprise(
    discovery: Discovery, machine: EnterpriseLogin, scopes: tuple[str, ...], key: ProofKey | None
) -> Flow[OAuthGrant]:
    """Obtain a token with an assertion that an identity provider issues for this authorization server."""
    parameters = {
        "grant_type": TOKEN_EXCHANGE,
        "requested_token_type": ID_JAG,
        "subject_token": machine.id_token,
        "subject_token_type": ID_TOKEN,
        "audience": discovery.server.issuer,
        "resource": discovery.resource.resource,
        "client_id": machine.provider_client_id,
    }
    subject = "the exchange at the identity provider"
    headers = {"Content-Type": FORM}
    body = urlencode(parameters).encode()
    answer: FetchResult = yield Fetch(
        subject, machine.provider_token_endpoint, "POST", headers, body, is_named_by_server=False
    )
    if answer.status != 200:
        raise _refusal_error(subject, answer)
    assertion = answer.json(subject).get("access_token")
    if not isinstance(assertion, str):
        raise AuthorizationError(f"{subject} returned no access_token", "RFC 8693, 2.2.1")
    client = ClientRegistration(machine.client_id, machine.client_secret, "client_secret_basic")
    fields = {"grant_type": BEARER_ASSERTION, "assertion": assertion}
    return (yield from _request_token(discovery, client, fields, scopes, key))


def _request_token(
    discovery: Discovery,
    client: ClientRegistration,
    fields: dict[str, str],
    scopes: tuple[str, ...],
    key: ProofKey | None,
    refresh_token: str = "",
) -> Flow[OAuthGrant]:
    """Request a token from the token endpoint with these fields. Raises: AuthorizationError."""
    server, subject = discovery.server, "the token request"
    parameters = fields | {"resource": discovery.resource.resource}
    if scopes and fields["grant_type"] == "client_credentials":
        parameters["scope"] = " ".join(scopes)
    headers = {"Content-Type": FORM, "Accept": "application/json"}
    parameters, headers = _with_client(parameters, client, server, headers)
    body = urlencode(parameters).encode()
    answer = yield from _post_form(subject, server.token_endpoint, headers, body, key)
    if answer.status != 200:
        raise _refusal_error(subject, answer)
    token_fields = _token_fields(subject, answer)
    if "access_token" not in token_fields and "error" in token_fields:
        raise _refusal_error(subject, answer)  # some servers, such as GitHub, send errors with status 200
    token, token_type = token_fields.get("access_token"), token_fields.get("token_type")
    if not isinstance(token, str) or not token.isascii() or not token.isprintable() or " " in token:
        raise AuthorizationError(
            f"{subject} returned no access_token that fits in a header", "OAuth 2.1, 3.2.3"
        )
    if token_type is None:
        yield Deviation(f"{subject} returned no token_type; Bearer is assumed (OAuth 2.1, 3.2.3)")
        token_type = "Bearer"
    if not isinstance(token_type, str) or token_type.strip().lower() not in ("bearer", "dpop"):
        raise AuthorizationError(
            f"{subject} returned a token of type {excerpt(repr(token_type))}", "OAuth 2.1, 3.2.3"
        )
    scope, new_refresh_token = token_fields.get("scope"), token_fields.get("refresh_token")
    return OAuthGrant(
        server.issuer,
        discovery.resource.resource,
        client,
        token,
        tuple(scope.split()) if isinstance(scope, str) else scopes,
        new_refresh_token if isinstance(new_refresh_token, str) and new_refresh_token else refresh_token,
        _expiry_time(token_fields.get("expires_in")),
        token_type.strip().lower() == "dpop",
    )


def _with_client(
    fields: Mapping[str, str],
    client: ClientRegistration,
    server: AuthorizationServer,
    headers: Mapping[str, str],
) -> tuple[dict[str, str], dict[str, str]]:
    """Return `fields` and `headers` with additions that authenticate the client.

    The form always has the client's id, even if the headers authenticate the client, because Python servers
    use the form to look up the client.
    """
    form, request_headers = dict(fields), dict(headers)
    if client.id:
        form["client_id"] = client.id
    match _authentication_method(client, server):
        case "client_secret_basic":
            credentials = f"{quote_plus(client.id)}:{quote_plus(client.secret)}"
            request_headers["Authorization"] = f"Basic {base64.b64encode(credentials.encode()).decode()}"
        case "client_secret_post":
            form["client_secret"] = client.secret
    return form, request_headers


def _token_fields(subject: str, answer: FetchResult) -> dict[str, Any]:
    """Return the fields of a token response, which is JSON or a form. Raises: AuthorizationError."""
    if answer.headers.get("content-type", "").partition(";")[0].strip().lower() == FORM:
        try:
            return dict(parse_qsl(answer.body.decode("utf-8", "replace"), max_num_fields=MAX_FIELDS))
        except ValueError:
            raise AuthorizationError(f"{subject}: the form has more than {MAX_FIELDS} fields") from None
    return answer.json(subject)


def _expiry_time(lifetime_s: Any) -> float | None:
    """Return the Unix time at which a token expires. Return None if its lifetime is not a number."""
    if isinstance(lifetime_s, str) and re.fullmatch(r"[0-9]{1,12}", lifetime_s):
        lifetime_s = int(lifetime_s)
    if isinstance(lifetime_s, bool) or not isinstance(lifetime_s, int | float):
        return None
    return time.time() + lifetime_s


def _post_form(
    subject: str, url: str, headers: Mapping[str, str], body: bytes, key: ProofKey | None
) -> Flow[FetchResult]:
    """Post a form, with a DPoP proof if `key` is given.

    If the server rejects the proof and sends a nonce, post the form once more with that nonce.
    """
    answer: FetchResult
    if key is None:
        answer = yield Fetch(subject, url, "POST", headers, body)
        return answer
    answer = yield Fetch(subject, url, "POST", {**headers, **key.header("POST", url)}, body)
    if key.store_nonce(url, answer.headers) and answer.status in (400, 401):
        answer = yield Fetch(subject, url, "POST", {**headers, **key.header("POST", url)}, body)
        key.store_nonce(url, answer.headers)
    return answer


def _authentication_method(client: ClientRegistration, server: AuthorizationServer) -> str:
    """Return the authentication method of a client at the token endpoint."""
    if client.authentication or not client.secret:
        return client.authentication or "none"
    methods = [method for method in server.client_authentication if method in PREFERRED_METHODS[1:]]
    return methods[0] if methods else "client_secret_basic"


def _refusal_error(subject: str, answer: FetchResult) -> AuthorizationError:
    try:
        token_fields = _token_fields(subject, answer)
    except AuthorizationError as error:
        return error
    description = " ".join(
        str(token_fields[name]) for name in ("error", "error_description") if name in token_fields
    )
    return AuthorizationError(f"{subject} was refused: HTTP {answer.status} {excerpt(description)}".rstrip())
