"""Decides who may see the dashboard: who may call, and a browser that signed in, by a cookie.

The cookie is a random word that stands for a sign-in kept here. It holds no key and no token, is sent to the
dashboard's own addresses alone, and means nothing to any other route.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Awaitable, Callable

from aiohttp import web
from msgspec import Struct
from msgspec.structs import replace

from mcpdesk.auth.http_origin import is_same_site
from mcpdesk.auth.principal import Principal
from mcpdesk.transports.base import Rules
from mcpdesk.transports.http.dashboard.dashboard_data import PATH
from mcpdesk.transports.http.request_guard import FOREIGN
from mcpdesk.transports.http.responses import RequestRefused, plain_error

COOKIE = "mcpdesk-dashboard"
LASTS_S = 24 * 3600.0
MAX_SIGN_INS = 200
"""Sign-ins kept; the oldest are dropped first."""


class Visitor(Struct, frozen=True):
    """Somebody who may see the dashboard."""

    name: str
    """The name others see: `dashboard`, or that of the token's owner."""
    until: float | None = None
    """Expiry, Unix time in seconds; None: it does not expire."""
    word: str = ""
    """The value of the cookie."""
    key: str = ""
    """The key used to sign in: when the key changes, the sign-in ends."""
    is_proven: bool = False
    """Whether a key or a token was shown."""


class SignIns:
    """The sign-ins of one listener.

    `identify` returns who makes a request or raises `RequestRefused`; `is_due`: whether anybody must sign in.
    """

    def __init__(
        self,
        identify: Callable[[web.BaseRequest, Rules], Awaitable[Principal]],
        is_due: Callable[[Rules], bool],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._identify = identify
        self.is_due = is_due
        self._clock = clock
        self._signed_in: dict[str, Visitor] = {}

    async def admit(self, request: web.BaseRequest, rules: Rules) -> Visitor:
        """Return the visitor who makes a request. Raises: RequestRefused."""
        if request.headers.get("Sec-Fetch-Site", "") in FOREIGN:
            raise RequestRefused(plain_error(403, "this is for the dashboard's own page"))
        if not self.is_due(rules):
            return Visitor("dashboard")
        visitor = self._signed_in.get(request.cookies.get(cookie_name(request), ""))
        if visitor is not None and self.is_welcome(visitor, rules):
            return visitor
        return await self._identified(request, rules)

    def is_welcome(self, visitor: Visitor, rules: Rules) -> bool:
        """Whether a visitor may still see the dashboard."""
        has_key = visitor.key == rules.api_key or not rules.api_key
        has_time = visitor.until is None or visitor.until >= self._clock()
        is_proven = visitor.is_proven or not self.is_due(rules)
        is_signed_in = not visitor.word or visitor.word in self._signed_in
        return has_key and has_time and is_proven and is_signed_in

    async def sign_in(self, request: web.BaseRequest, rules: Rules) -> web.Response:
        """Set a cookie for who sends the key or token that a call would need. Raises: RequestRefused."""
        visitor = await self._identified(request, rules)
        now, word = self._clock(), secrets.token_urlsafe(32)
        until = min(now + LASTS_S, visitor.until or now + LASTS_S)
        self._signed_in[word] = replace(visitor, until=until, word=word)
        while len(self._signed_in) > MAX_SIGN_INS:
            del self._signed_in[next(iter(self._signed_in))]
        return _with_cookie(request, word, max(1, int(until - now)))

    def sign_out(self, request: web.BaseRequest) -> web.Response:
        """Make the cookie worthless."""
        self._signed_in.pop(request.cookies.get(cookie_name(request), ""), None)
        return _with_cookie(request, "", 0)

    async def _identified(self, request: web.BaseRequest, rules: Rules) -> Visitor:
        """The visitor for a caller; one with a token has its name and expiry."""
        who = await self._identify(request, rules)
        name = f"{who.name} (dashboard)" if who.kind == "token" else "dashboard"
        return Visitor(name, who.expires, key=rules.api_key, is_proven=who.kind != "open")


def _with_cookie(request: web.BaseRequest, word: str, lasts_s: int) -> web.Response:
    answer = web.Response(status=204)
    is_encrypted = request.headers.get("Origin", "").startswith("https:")
    answer.set_cookie(
        cookie_name(request),
        word,
        max_age=lasts_s,
        path=PATH,
        httponly=True,
        samesite="Strict",
        secure=is_encrypted,
    )
    return answer


def cookie_name(request: web.BaseRequest) -> str:
    """Return the name of the cookie. It contains the port, which cookies do not tell apart."""
    port = request.headers.get("Host", "").rpartition(":")[2]
    return f"{COOKIE}-{port}" if port.isdecimal() else COOKIE


def is_own_page(request: web.BaseRequest) -> bool:
    """Whether this listener's own page makes the request: browsers name the origin with every POST."""
    return is_same_site(request.headers.get("Origin", ""), request.headers.get("Host"))
