"""Who a request is from: the token in its head, its body or a cookie, and what is said of one that is wrong.

The first place that holds a token decides. One that was sent has to count even where none is asked for. Only
cookies are sent unasked: there a wrong one is nothing. Source: WIRE 11.1.
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
"""Who sent a token on a socket that is refused: whatever it asks for, its time is over."""

_TOKEN = re.compile(rb"eyJ[A-Za-z0-9_-]++(\.[A-Za-z0-9_-]++(?:\.[A-Za-z0-9_-]*+)?)?")
"""The beginning of a token, with what makes it one: what is none is passed over as a whole, in one go."""

log = logging.getLogger("mcpdesk.auth")


def anybody(rules: Rules) -> Principal:
    """Who a request without a token is from, once it passed the guard."""
    return KEY if rules.api_key else OPEN


def is_caller_due(endpoints: Iterable[Endpoint], rules: Rules) -> bool:
    """Whether whoever sees what others do here has to prove anything: where tokens count, answers may be
    one caller's alone, though anybody may call."""
    return bool(rules.api_key) or any(each.access.is_asked for each in endpoints)


async def caller_in_head(
    request: web.BaseRequest, head: RequestHead, access: Access, rules: Rules, may_have_body: bool = False
) -> Principal | None:
    """Who a head says the request is from; None: its body is to be looked at first.

    Raises: Refused (400, 401, 403, 503).
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
    """Who a request without a token in its head is from. `token` is what its body gives as one.

    Raises: Refused (401, 403, 503).
    """
    if token is not None:
        return await _verified(token if isinstance(token, str) else "", request, head, access)
    return await _without_token(request, head, access, rules)


async def caller_on_socket(access: Access, token: Any, opener: Principal) -> Principal:
    """Who a message on a socket is from that brings a token of its own: one that opened it comes first."""
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
    """Who a request that names no server is from, as each server sees it that lets it pass.

    With `has_to_suit_all` a token that counts is needed at each server that looks at tokens.
    Raises: Refused (400, 401, 503): as the first server would, when none or not every one lets it pass.
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
    """What a message gives as a token, `jwt` before `data.jwt`, and the message without it; None: nothing.

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
    """Whether a message, or one of a batch, has a place for a token, and something in it."""
    if isinstance(message, dict):
        data = message.get("data")
        return IN_BODY in message or (isinstance(data, dict) and IN_BODY in data)
    return isinstance(message, list) and any(isinstance(each, dict) and holds_token(each) for each in message)


def recorded(message: Any) -> bytes:
    """A message as it may be kept: what was sent but for the token."""
    return codec.encode(list(map(_hidden, message)) if isinstance(message, list) else _hidden(message))


def unreadable(data: bytes) -> bytes:
    """What is no message as it may be kept: what looks like a token in it is hidden."""
    return _TOKEN.sub(lambda found: found[0] if found[1] is None else HIDDEN.encode(), data)


def challenge(
    request: web.BaseRequest,
    head: RequestHead,
    access: Access,
    error: str = "",
    scopes: Iterable[str] = (),
    description: str = "",
) -> dict[str, str]:
    """The header that says what is missing and where to get it."""
    return {
        "WWW-Authenticate": access.challenge(_metadata_url(request, head, access), error, scopes, description)
    }


def challenge_for(
    answer: bytes, request: web.BaseRequest, head: RequestHead, access: Access
) -> dict[str, str]:
    """The header that belongs to a refusal by a tool: its error names the scopes."""
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
    """Scheme and authority this request was sent to."""
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
    """The caller by a cookie, else anybody.

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
