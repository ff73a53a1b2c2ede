"""Identification of the caller of a request by a token in its headers, its body or a cookie.

The token is taken from the first of these that has one. An invalid token is rejected even if the server
requires none. An invalid cookie counts as no token, because browsers send cookies automatically. Source: MCP
basic/authorization.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from aiohttp import web
from msgspec.structs import replace

from mcpdesk.auth.access import WELL_KNOWN, Access
from mcpdesk.auth.keys import KeysMissing
from mcpdesk.auth.principal import INVALID_TOKEN, KEY, MISSING_TOKEN, OPEN, Principal, Rejected
from mcpdesk.protocol import codec
from mcpdesk.protocol.jsonrpc import ErrorCode
from mcpdesk.transports.base import Rules
from mcpdesk.transports.http.request_head import head_of
from mcpdesk.transports.http.responses import REASON_KEY, RequestRefused, plain_error

if TYPE_CHECKING:
    from mcpdesk.transports.http.site import Endpoint

TOKEN_COOKIES = ("access_token", "jwt")
BODY_TOKEN_FIELD = "jwt"
HIDDEN = "***"
RETRY_AFTER_S = "30"
REJECTED_PRINCIPAL = Principal("token", "a token that was rejected", expires=0.0)
"""Placeholder principal for a rejected token on a socket. It has expired, so tools reject it as well."""

_TOKEN = re.compile(rb"eyJ[A-Za-z0-9_-]++(\.[A-Za-z0-9_-]++(?:\.[A-Za-z0-9_-]*+)?)?")
"""Beginning of a JWT. The pattern skips similar text without backtracking."""

log = logging.getLogger("mcpdesk.auth")


def anonymous(rules: Rules) -> Principal:
    """Return the principal of a request that has no token but was admitted."""
    return KEY if rules.api_key else OPEN


def is_identity_required(endpoints: Iterable[Endpoint], rules: Rules) -> bool:
    """Return True if callers need a key or a token to see data of other callers.

    If a server uses tokens, an answer may be meant for only one caller, even where anonymous callers are
    allowed.
    """
    return bool(rules.api_key) or any(each.access.evaluates_tokens for each in endpoints)


class CallerCheck:
    """Identification of the caller of one request, by the access rules of a server."""

    def __init__(self, request: web.BaseRequest, access: Access, rules: Rules) -> None:
        self._request = request
        self._head = head_of(request)
        self._access = access
        self._rules = rules

    async def identify_by_head(self, may_have_body: bool = False) -> Principal | None:
        """Identify the caller by the headers. Return None if the body must be read first.

        `may_have_body` is True if the token may be in the body. Raises: RequestRefused (400, 401, 403, 503).
        """
        if error := self._head.token_error:
            raise self._refusal(400, f"Bad request: {error}", "invalid_request", error)
        if self._head.bearer is not None:
            return await self._verified(self._head.bearer)
        return None if may_have_body else await self._without_token()

    async def identify_by_body(self, token: Any) -> Principal:
        """Identify the caller of a request without a token in its headers. `token` comes from its body.

        Raises: RequestRefused (401, 403, 503).
        """
        if token is not None:
            return await self._verified(token if isinstance(token, str) else "")
        return await self._without_token()

    def challenge(self, error: str = "", scopes: Iterable[str] = (), description: str = "") -> dict[str, str]:
        """Return the `WWW-Authenticate` header with the missing scopes and the metadata URL."""
        metadata_url = self._metadata_url()
        return {"WWW-Authenticate": self._access.challenge(metadata_url, error, scopes, description)}

    def challenge_for(self, answer: bytes) -> dict[str, str]:
        """Return the `WWW-Authenticate` header for a tool error that names the required scopes."""
        document = codec.decode(answer)
        error = document.get("error") if isinstance(document, dict) else None
        if not isinstance(error, dict):
            return self.challenge()
        data = error.get("data")
        scopes = str(data.get("scope", "")).split() if isinstance(data, dict) else ()
        if error.get("code") == ErrorCode.FORBIDDEN:
            return self.challenge("insufficient_scope", scopes, str(error.get("message")))
        return self.challenge("", scopes)

    async def _verified(self, token: str) -> Principal:
        """Return the principal of a token. Raises: RequestRefused (401, 403, 503)."""
        try:
            principal = await self._access.verify(token)
        except Rejected as reason:
            refusal = self._refusal(401, INVALID_TOKEN, "invalid_token")
            refusal.answer[REASON_KEY] = str(reason)
            raise refusal from None
        except KeysMissing as reason:
            answer = plain_error(503, "Tokens cannot be checked now", {"Retry-After": RETRY_AFTER_S})
            answer[REASON_KEY] = str(reason)
            raise RequestRefused(answer) from None
        missing_scopes = self._access.scopes - principal.scopes
        if missing_scopes:
            text = f"Forbidden: the token lacks the scope {' '.join(sorted(missing_scopes))}"
            raise self._refusal(403, text, "insufficient_scope", text)
        return principal

    async def _without_token(self) -> Principal:
        """Identify the caller by a cookie, or else return the anonymous principal.

        A cookie counts only if the request has an `Origin`. `RequestGuard` has then admitted this origin: it
        is the server's own or a listed one.
        """
        request, is_token_required = self._request, self._access.requires_token
        if "Origin" in request.headers and "Cookie" in request.headers:
            cookies = request.cookies
            token = next((cookies[name] for name in TOKEN_COOKIES if name in cookies), None)
            if token is not None:
                try:
                    return await self._verified(token)
                except RequestRefused:
                    if is_token_required:
                        raise
        if is_token_required:
            raise self._refusal(401, MISSING_TOKEN)
        return anonymous(self._rules)

    def _refusal(self, status: int, text: str, error: str = "", description: str = "") -> RequestRefused:
        return RequestRefused(plain_error(status, text, self.challenge(error, (), description)))

    def _metadata_url(self) -> str:
        """Return the URL of the OAuth metadata for the requested endpoint."""
        if self._access.resource:
            parts = urlsplit(self._access.resource)
            return f"{parts.scheme}://{parts.netloc}{WELL_KNOWN}{parts.path.rstrip('/')}"
        head = self._head
        path = "/v1/mcp"
        if head.path.startswith("/mcp"):
            path = f"/mcp/{head.server}" if head.server else "/mcp"
        elif head.route == "":
            path = f"/{head.server}/mcp"
        return f"{origin_of(self._request)}{WELL_KNOWN}{path}"


async def caller_on_socket(access: Access, token: Any, opener: Principal) -> Principal:
    """Identify the sender of a message with a token on a socket.

    If the socket was opened with a token, that token counts instead.
    """
    if opener.claims is not None and not opener.has_expired(time.time()):
        return opener
    try:
        principal = await access.verify(token if isinstance(token, str) else "")
    except (Rejected, KeysMissing) as reason:
        log.debug("refused a token on a socket: %s", reason)
        return REJECTED_PRINCIPAL
    return principal if opener.identity in ("", principal.identity) else REJECTED_PRINCIPAL


async def callers_of_site(
    request: web.BaseRequest,
    endpoints: Sequence[Endpoint],
    rules: Rules,
    must_pass_all: bool = False,
) -> list[Principal]:
    """Identify the caller of a request that names no server, by each server that accepts it.

    `must_pass_all` requires a valid token for every server that uses tokens. Raises: RequestRefused (400,
    401, 503) with the refusal of the first server.
    """
    callers: list[Principal] = []
    refusals: list[RequestRefused] = []
    for endpoint in endpoints:
        access = endpoint.access
        if must_pass_all and access.evaluates_tokens:
            access = replace(access, requires_token=True)
        caller: Principal | None = None
        try:
            if access.evaluates_tokens:
                caller = await CallerCheck(request, access, rules).identify_by_head()
        except RequestRefused as error:
            refusals.append(error)
        else:
            callers.append(caller or anonymous(rules))
    if refusals and (must_pass_all or not callers):
        raise refusals[0]
    return callers or [anonymous(rules)]


def pop_token(message: Any) -> tuple[Any, Any]:
    """Return the token in a message (`jwt`, else `data.jwt`), and the message without it.

    The token is None if the message has no token. In a batch, the first message with a token counts.
    """
    if isinstance(message, list):
        pairs = [pop_token(each) if has_token_field(each) else (None, each) for each in message]
        first_token = next((token for token, _ in pairs if token is not None), None)
        return first_token, [each for _, each in pairs]
    message_without_token = dict(message)
    token = message_without_token.pop(BODY_TOKEN_FIELD, None)
    data = message_without_token.get("data")
    if isinstance(data, dict) and BODY_TOKEN_FIELD in data:
        message_without_token["data"] = data = dict(data)
        data_token = data.pop(BODY_TOKEN_FIELD)
        token = data_token if token is None else token
    return token, message_without_token


def has_token_field(message: Any) -> bool:
    """Return True if a message, or one in a batch, has a field for a token."""
    if isinstance(message, dict):
        data = message.get("data")
        return BODY_TOKEN_FIELD in message or (isinstance(data, dict) and BODY_TOKEN_FIELD in data)
    members = message if isinstance(message, list) else []
    return any(isinstance(each, dict) and has_token_field(each) for each in members)


def masked_message(message: Any) -> bytes:
    """Return the bytes of a message to record, with the token hidden."""
    if isinstance(message, list):
        return codec.encode([_with_hidden_token(each) for each in message])
    return codec.encode(_with_hidden_token(message))


def masked_data(data: bytes) -> bytes:
    """Return invalid data to record. Everything that looks like a token is hidden."""
    return _TOKEN.sub(lambda match: match[0] if match[1] is None else HIDDEN.encode(), data)


def origin_of(request: web.BaseRequest) -> str:
    """Return the scheme and authority of a request's URL."""
    return f"{request.scheme}://{request.headers.get('Host', 'localhost').lower()}"


def _with_hidden_token(message: Any) -> Any:
    if not isinstance(message, dict):
        return message
    masked = dict(message)
    if BODY_TOKEN_FIELD in masked:
        masked[BODY_TOKEN_FIELD] = HIDDEN
    data = masked.get("data")
    if isinstance(data, dict) and BODY_TOKEN_FIELD in data:
        masked["data"] = data | {BODY_TOKEN_FIELD: HIDDEN}
    return masked
