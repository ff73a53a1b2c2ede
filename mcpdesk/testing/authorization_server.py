"""Authorization server on 127.0.0.1 for tests of OAuth clients. It approves every login at once.

It registers clients, issues codes with PKCE, and rotates refresh tokens: each can be used only once. All
state is in memory. Source: OAuth 2.1; RFC 7591, 7636, 8414, 8707, 9207, 9728.
"""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, urlencode

import orjson
from aiohttp import web
from msgspec import Struct

Document: TypeAlias = dict[str, Any]

RESOURCE_METADATA = "/.well-known/oauth-protected-resource"
SERVER_METADATA = "/.well-known/oauth-authorization-server"
ENDPOINT = "/mcp"
MAX_RECORDS = 1000
"""Maximum number of clients, of unused codes, and of tokens that are kept. The oldest are deleted."""
MAX_BODY_BYTES = 64 << 10
"""Maximum size in bytes of a registration or a form."""
MAX_FORM_FIELDS = 100
"""Maximum number of fields in a form."""


class IssuedToken(Struct):
    """Access token with its refresh token."""

    access_token: str
    refresh_token: str
    scopes: tuple[str, ...]
    expires: float
    """Time of `time.monotonic` at which the access token expires."""
    is_revoked: bool = False
    """True if the access token is no longer accepted. The refresh token stays valid."""
    is_renewed: bool = False
    """True if the refresh token was used."""

    @property
    def has_expired(self) -> bool:
        """True if the lifetime of the access token is over."""
        return time.monotonic() >= self.expires


class TokenRefused(Exception):
    """Refusal of a token request, with the texts of the error response. Source: OAuth 2.1, 3.2.4."""

    def __init__(self, error: str, description: str) -> None:
        super().__init__(error)
        self.error = error
        self.description = description


class LocalAuthorizationServer:
    """Authorization server of one protected resource, at the same origin.

    A subclass overrides the methods that create documents, or `observe` to receive the requests.
    """

    def __init__(self, lifetime_s: float = 3600, scopes: tuple[str, ...] = ("read", "write")) -> None:
        """`lifetime_s` is the lifetime of access tokens, `scopes` are the scopes of the resource."""
        self.origin = ""
        """Origin of the server, once it is known. It is also the issuer."""
        self.lifetime_s = lifetime_s
        self.scopes = scopes
        self._clients: dict[str, Document] = {}
        """Metadata of registered clients, by client id."""
        self._codes: dict[str, Document] = {}
        """Authorization requests, by unused code."""
        self._tokens: dict[str, IssuedToken] = {}
        """Tokens by access token."""
        self._token_count = 0

    @property
    def url(self) -> str:
        """URL of the protected resource, an MCP endpoint."""
        return f"{self.origin}{ENDPOINT}"

    def observe(self, kind: str, fields: Document) -> None:
        """Receive the fields of a request. `kind` is registration, authorization, token or revocation."""

    async def answer(self, request: web.BaseRequest) -> web.Response | None:
        """Return the answer to a request, or None if the path is not one of the authorization server."""
        match request.path:
            case path if path in (RESOURCE_METADATA, f"{RESOURCE_METADATA}{ENDPOINT}"):
                return self.document("resource", self.resource_metadata())
            case path if path == SERVER_METADATA:
                return self.document("server", self.server_metadata())
            case "/register":
                return await self._register(request)
            case "/authorize":
                return await self._authorize(request)
            case "/token":
                return await self._token(request)
            case "/revoke":
                self.observe("revocation", await _form(request))
                return self.document("revocation", {})
        return None

    def document(self, name: str, document: Document, status: int = 200) -> web.Response:
        """Return the answer with a document. `name` is `resource`, `server`, `registration` or `token`."""
        body = orjson.dumps(document)
        headers = {"Cache-Control": "no-store"}
        return web.Response(status=status, body=body, content_type="application/json", headers=headers)

    def resource_metadata(self) -> Document:
        """Return the metadata of the protected resource."""
        return {
            "resource": self.url,
            "authorization_servers": [self.origin],
            "scopes_supported": list(self.scopes),
            "bearer_methods_supported": ["header"],
        }

    def server_metadata(self) -> Document:
        """Return the metadata of the authorization server."""
        return {
            "issuer": self.origin,
            "authorization_endpoint": f"{self.origin}/authorize",
            "token_endpoint": f"{self.origin}/token",
            "registration_endpoint": f"{self.origin}/register",
            "response_types_supported": ["code"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"],
            "authorization_response_iss_parameter_supported": True,
        }

    def registration(self, client_metadata: Document) -> Document:
        """Return the answer to a client that registers itself."""
        return client_metadata | {
            "client_id": f"client-{len(self._clients) + 1}",
            "token_endpoint_auth_method": "none",
        }

    def redirect(self, authorization: Document, code: str) -> Document:
        """Return the parameters with which the browser is redirected to the client."""
        parameters: Document = {"code": code, "iss": self.origin}
        return parameters | {"state": authorization["state"]} if "state" in authorization else parameters

    async def login_page(self, request: web.BaseRequest, authorization: Document) -> web.Response | None:
        """Return a page that a person must confirm, or None to approve the login."""
        return None

    def scopes_of(self, token_request: Document) -> tuple[str, ...]:
        """Return the scopes of a new token for a token request. Raises: TokenRefused."""
        match token_request.get("grant_type"):
            case "authorization_code":
                authorization = self._codes.pop(token_request.get("code", ""), None)
                if authorization is None:
                    raise TokenRefused("invalid_grant", "the code is unknown or was used before")
                self.check_code(authorization, token_request)
                return tuple(str(authorization.get("scope", "")).split())
            case "refresh_token":
                return self.check_refresh(token_request.get("refresh_token", "")).scopes
        raise TokenRefused("unsupported_grant_type", "use authorization_code or refresh_token")

    def check_code(self, authorization: Document, token_request: Document) -> None:
        """Check the token request for a code. `authorization` is the request for this code. Raises:
        TokenRefused.
        """
        if not is_verified(authorization, token_request):
            raise TokenRefused("invalid_grant", "the code_verifier does not match the code_challenge")
        if token_request.get("redirect_uri", authorization.get("redirect_uri")) != authorization.get(
            "redirect_uri"
        ):
            raise TokenRefused("invalid_grant", "the redirect_uri differs from the authorization request")

    def check_refresh(self, refresh_token: str) -> IssuedToken:
        """Return the token that a refresh token renews. Raises: TokenRefused.

        If a refresh token is used twice, all tokens are deleted. Source: OAuth 2.1, 4.3.1.
        """
        token = next((each for each in self._tokens.values() if each.refresh_token == refresh_token), None)
        if token is None:
            raise TokenRefused("invalid_grant", "the refresh token is unknown")
        if token.is_renewed:
            self._tokens.clear()
            raise TokenRefused("invalid_grant", "the refresh token was used before")
        token.is_renewed = True
        return token

    def issue(self, scopes: tuple[str, ...]) -> IssuedToken:
        """Return a new token."""
        self._token_count += 1
        access_token = f"token-{self._token_count}-{secrets.token_urlsafe(12)}"
        refresh_token = f"refresh-{self._token_count}-{secrets.token_urlsafe(12)}"
        token = IssuedToken(access_token, refresh_token, scopes, time.monotonic() + self.lifetime_s)
        _put(self._tokens, token.access_token, token)
        return token

    def presented(self, request: web.BaseRequest) -> IssuedToken | None:
        """Return the token in the `Authorization` header, even if it is no longer valid. None if the token is
        missing or unknown.
        """
        scheme, _, access_token = request.headers.get("Authorization", "").partition(" ")
        return self._tokens.get(access_token.strip()) if scheme.lower() == "bearer" else None

    async def _register(self, request: web.BaseRequest) -> web.Response:
        """Answer a client that registers itself."""
        body = await request.read()
        try:
            client_metadata = orjson.loads(body) if len(body) <= MAX_BODY_BYTES else None
            # The answer contains the metadata, and the encoder allows fewer levels than the decoder.
            orjson.dumps(client_metadata)
        except (orjson.JSONDecodeError, TypeError):
            client_metadata = None
        if not isinstance(client_metadata, dict) or not isinstance(
            client_metadata.get("redirect_uris", []), list
        ):
            problem = f"the body must be a JSON object of at most {MAX_BODY_BYTES >> 10} KiB"
            return _refusal("invalid_client_metadata", f"{problem}, with redirect_uris as a list")
        self.observe("registration", client_metadata)
        document = self.registration(client_metadata)
        _put(self._clients, document["client_id"], client_metadata)
        return self.document("registration", document, 201)

    async def _authorize(self, request: web.BaseRequest) -> web.Response:
        """Answer a request of the browser: redirect it to the client with a code."""
        authorization = _fields(request.query_string)
        problem = self.redirect_problem(authorization)
        if problem:
            return _refusal("invalid_request", problem)
        if (page := await self.login_page(request, authorization)) is not None:
            return page
        self.observe("authorization", authorization)
        code = f"code-{secrets.token_urlsafe(16)}"
        _put(self._codes, code, authorization)
        separator = "&" if "?" in authorization["redirect_uri"] else "?"
        location = (
            f"{authorization['redirect_uri']}{separator}{urlencode(self.redirect(authorization, code))}"
        )
        return web.Response(status=302, headers={"Location": location, "Cache-Control": "no-store"})

    def redirect_problem(self, authorization: Document) -> str:
        """Return the reason why the browser cannot be redirected to the client, or ""."""
        address = authorization.get("redirect_uri", "")
        client = self._clients.get(authorization.get("client_id", ""))
        if not address:
            return "redirect_uri is missing"
        if client is not None and address not in client.get("redirect_uris", ()):
            return "the client has not registered this redirect_uri"
        return ""

    async def _token(self, request: web.BaseRequest) -> web.Response:
        """Answer a token request."""
        token_request = await _form(request)
        self.observe("token", token_request)
        try:
            scopes = self.scopes_of(token_request)
        except TokenRefused as refused:
            return _refusal(refused.error, refused.description)
        token = self.issue(scopes)
        answer = {
            "access_token": token.access_token,
            "token_type": "Bearer",
            "expires_in": self.lifetime_s,
            "refresh_token": token.refresh_token,
            "scope": " ".join(scopes),
        }
        return self.document("token", answer)


def is_verified(authorization: Document, token_request: Document) -> bool:
    """Return True if the `code_verifier` of a token request matches the challenge (PKCE with S256)."""
    digest = hashlib.sha256(token_request.get("code_verifier", "").encode()).digest()
    challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    return (
        authorization.get("code_challenge_method") == "S256"
        and authorization.get("code_challenge") == challenge
    )


def _refusal(error: str, description: str) -> web.Response:
    return web.json_response({"error": error, "error_description": description}, status=400)


async def _form(request: web.BaseRequest) -> Document:
    body = await request.read()
    return _fields(body.decode("utf-8", "replace")) if len(body) <= MAX_BODY_BYTES else {}


def _fields(text: str) -> Document:
    """Return the fields of a form or a query. Empty if there are too many."""
    try:
        return dict(parse_qsl(text, max_num_fields=MAX_FORM_FIELDS))
    except ValueError:
        return {}


def _put(table: dict[str, Any], key: str, value: Any) -> None:
    """Add an entry to a table. If the table then has more than `MAX_RECORDS`, delete the oldest entries."""
    table[key] = value
    while len(table) > MAX_RECORDS:
        del table[next(iter(table))]
