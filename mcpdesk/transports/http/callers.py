"""Finds out who sent a request, by the token in its head, its body or a cookie.

The first place that holds a token decides. One that was sent has to count even where none is asked for. Only
cookies are sent unasked: there a wrong one is nothing. Source: MCP basic/authorization.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import urlsplit

from aiohttp import web
from msgspec.structs import replace

from mcpdesk.auth.keys import KeysMissing
from mcpdesk.auth.principal import KEY, OPEN, Principal
from mcpdesk.auth.token_rules import INVALID, MISSING, WELL_KNOWN, Access
from mcpdesk.auth.tokens import Rejected
from mcpdesk.protocol import codec
from mcpdesk.protocol.jsonrpc import ErrorCode
from mcpdesk.transports.base import Endpoint, Rules
from mcpdesk.transports.http.request_head import RequestHead
from mcpdesk.transports.http.responses import WHY, RequestRefused, plain_error

COOKIES = ("access_token", "jwt")
IN_BODY = "jwt"
HIDDEN = "***"
RETRY_S = "30"
NOBODY = Principal("token", "a token that does not count", expires=0.0)
"""The sender of a refused token on a socket. It has expired, so that tools refuse it, too."""

_TOKEN = re.compile(rb"eyJ[A-Za-z0-9_-]++(\.[A-Za-z0-9_-]++(?:\.[A-Za-z0-9_-]*+)?)?")
"""The beginning of a JWT. Text that only begins like one is skipped without backtracking."""

log = logging.getLogger("mcpdesk.auth")


def anybody(rules: Rules) -> Principal:
    """Return the caller of a request without a token that passed the guard."""
    return KEY if rules.api_key else OPEN


def is_caller_due(endpoints: Iterable[Endpoint], rules: Rules) -> bool:
    """Whether somebody who wants to see what other callers do must show a key or a token.

    Where tokens count, answers may be meant for one caller only, even if everybody may call.
    """
    return bool(rules.api_key) or any(each.access.is_asked for each in endpoints)


async def caller_in_head(
    request: web.BaseRequest, head: RequestHead, access: Access, rules: Rules, may_have_body: bool = False
) -> Principal | None:
    """Return the caller that a head names; None: its body must be read first.

    Raises: RequestRefused (400, 401, 403, 503).
    """
    if head.misplaced:
        told = {"error": "invalid_request", "description": head.misplaced}
        raise RequestRefused(
            _challenged(400, f"Bad request: {head.misplaced}", request, head, access, **told)
        )
    if head.bearer is not None:
        return await _verified(head.bearer, request, head, access)
    return None if may_have_body else await _without_token(request, head, access, rules)


async def caller_in_body(
    request: web.BaseRequest, head: RequestHead, access: Access, rules: Rules, token: Any
) -> Principal:
    """Return the caller of a request without a token in its head. `token` is the one its body gives.

    Raises: RequestRefused (401, 403, 503).
    """
    if token is not None:
        return await _verified(token if isinstance(token, str) else "", request, head, access)
    return await _without_token(request, head, access, rules)


async def caller_on_socket(access: Access, token: Any, opener: Principal) -> Principal:
    """Return the sender of a message with a token. The one that opened the socket comes first."""
    if opener.claims is not None and not opener.has_expired(time.time()):
        return opener
    try:
        principal = await access.verify(token if isinstance(token, str) else "")
    except (Rejected, KeysMissing) as reason:
        log.debug("refused a token on a socket: %s", reason)
        return NOBODY
    return principal if opener.identity in ("", principal.identity) else NOBODY


async def callers_of_site(
    request: web.BaseRequest,
    head: RequestHead,
    endpoints: Sequence[Endpoint],
    rules: Rules,
    has_to_suit_all: bool = False,
) -> list[Principal]:
    """Return the caller of a request that names no server, as each server that lets it pass sees it.

    With `has_to_suit_all` a valid token is needed for every server that asks for tokens.
    Raises: RequestRefused (400, 401, 503), as the first server would that refuses it.
    """
    found: list[Principal] = []
    refusals: list[RequestRefused] = []
    for endpoint in endpoints:
        access = endpoint.access
        if has_to_suit_all and access.is_asked:
            access = replace(access, requires_token=True)
        try:
            caller = await caller_in_head(request, head, access, rules) if access.is_asked else None
        except RequestRefused as refused:
            refusals.append(refused)
        else:
            found.append(caller or anybody(rules))
    if refusals and (has_to_suit_all or not found):
        raise refusals[0]
    return found or [anybody(rules)]


def take_token(message: Any) -> tuple[Any, Any]:
    """Return the token in a message, `jwt` before `data.jwt`, or None, and the message without it.

    Of a batch the first message that gives one decides.
    """
    if isinstance(message, list):
        taken = [take_token(each) if holds_token(each) else (None, each) for each in message]
        return next((token for token, _ in taken if token is not None), None), [each for _, each in taken]
    token, rest = message.get(IN_BODY), {name: value for name, value in message.items() if name != IN_BODY}
    data = message.get("data")
    if isinstance(data, dict) and IN_BODY in data:
        token = data[IN_BODY] if token is None else token
        rest["data"] = {name: value for name, value in data.items() if name != IN_BODY}
    return token, rest


def holds_token(message: Any) -> bool:
    """Whether a message, or one of a batch, has a field for a token."""
    if isinstance(message, dict):
        data = message.get("data")
        return IN_BODY in message or (isinstance(data, dict) and IN_BODY in data)
    return isinstance(message, list) and any(isinstance(each, dict) and holds_token(each) for each in message)


def recorded(message: Any) -> bytes:
    """Return a message as it is recorded: what was sent, with the token hidden."""
    return codec.encode(list(map(_hidden, message)) if isinstance(message, list) else _hidden(message))


def unreadable(data: bytes) -> bytes:
    """Return bytes that are no message as they are recorded: whatever looks like a token is hidden."""
    return _TOKEN.sub(lambda found: found[0] if found[1] is None else HIDDEN.encode(), data)


def challenge(
    request: web.BaseRequest,
    head: RequestHead,
    access: Access,
    error: str = "",
    scopes: Iterable[str] = (),
    description: str = "",
) -> dict[str, str]:
    """Return the header that names what is missing and where to get it."""
    return {
        "WWW-Authenticate": access.challenge(_metadata_url(request, head, access), error, scopes, description)
    }


def challenge_for(
    answer: bytes, request: web.BaseRequest, head: RequestHead, access: Access
) -> dict[str, str]:
    """Return the header that goes with a refusal by a tool, whose error names the scopes."""
    found = codec.decode(answer)
    error = found.get("error") if isinstance(found, dict) else None
    data = error.get("data") if isinstance(error, dict) else None
    scopes = str(data.get("scope", "")).split() if isinstance(data, dict) else ()
    code = error.get("code") if isinstance(error, dict) else 0
    if code == ErrorCode.FORBIDDEN:
        assert isinstance(error, dict)
        return challenge(request, head, access, "insufficient_scope", scopes, str(error.get("message")))
    return challenge(request, head, access, "", scopes)


def origin_of(request: web.BaseRequest) -> str:
    """Return the scheme and authority this request was sent to."""
    return f"{request.scheme}://{request.headers.get('Host', 'localhost').lower()}"


def _hidden(message: Any) -> Any:
    if not isinstance(message, dict):
        return message
    shown = dict(message)
    if IN_BODY in shown:
        shown[IN_BODY] = HIDDEN
    data = shown.get("data")
    if isinstance(data, dict) and IN_BODY in data:
        shown["data"] = data | {IN_BODY: HIDDEN}
    return shown


async def _verified(token: str, request: web.BaseRequest, head: RequestHead, access: Access) -> Principal:
    try:
        principal = await access.verify(token)
    except Rejected as reason:
        answer = _challenged(401, INVALID, request, head, access, "invalid_token")
        answer[WHY] = str(reason)
        raise RequestRefused(answer) from None
    except KeysMissing as reason:
        answer = plain_error(503, "Tokens cannot be checked now", {"Retry-After": RETRY_S})
        answer[WHY] = str(reason)
        raise RequestRefused(answer) from None
    lacking = access.scopes - principal.scopes
    if lacking:
        told = f"Forbidden: the token lacks the scope {' '.join(sorted(lacking))}"
        raise RequestRefused(_challenged(403, told, request, head, access, "insufficient_scope", told))
    return principal


async def _without_token(
    request: web.BaseRequest, head: RequestHead, access: Access, rules: Rules
) -> Principal:
    """Return the caller that a cookie names, else anybody.

    A cookie counts only from a page that names its origin: the guard let the server's own and listed ones in.
    """
    if "Origin" in request.headers and "Cookie" in request.headers:
        cookies = request.cookies
        token = next((cookies[name] for name in COOKIES if name in cookies), None)
        if token is not None:
            try:
                return await _verified(token, request, head, access)
            except RequestRefused:
                if access.requires_token:
                    raise
    if access.requires_token:
        raise RequestRefused(_challenged(401, MISSING, request, head, access))
    return anybody(rules)


def _challenged(
    status: int,
    told: str,
    request: web.BaseRequest,
    head: RequestHead,
    access: Access,
    error: str = "",
    description: str = "",
) -> web.Response:
    return plain_error(status, told, challenge(request, head, access, error, (), description))


def _metadata_url(request: web.BaseRequest, head: RequestHead, access: Access) -> str:
    if access.resource:
        public = urlsplit(access.resource)
        return f"{public.scheme}://{public.netloc}{WELL_KNOWN}{public.path.rstrip('/')}"
    path = "/v1/mcp"
    if head.path.startswith("/mcp"):
        path = f"/mcp/{head.server}" if head.server else "/mcp"
    elif head.way == "":
        path = f"/{head.server}/mcp"
    return f"{origin_of(request)}{WELL_KNOWN}{path}"
