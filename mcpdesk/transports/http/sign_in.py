"""Sign-in of the operator's browser, for the dashboard and for the desk in a browser.

A browser sends a cookie to all ports of a host, so another server on this machine may receive it. The cookie
alone is therefore not enough: a second secret, the page key, is also required. The page receives this key
once, and keeps it while the tab is open. It sends the key in a header or in the path of a WebSocket.
"""

from __future__ import annotations

from collections.abc import Callable

from aiohttp import web

from mcpdesk.auth.http_origin import is_same_site
from mcpdesk.auth.operator import OPERATOR_HEADER, BrowserSession, Operator
from mcpdesk.errors import ProtocolError
from mcpdesk.protocol import codec
from mcpdesk.transports.http.request_body import read_body
from mcpdesk.transports.http.request_guard import OTHER_SITE_VALUES
from mcpdesk.transports.http.request_head import head_of
from mcpdesk.transports.http.responses import JSON, RequestRefused, json_answer, plain_error

PAGE_HEADER = "X-Mcpdesk-Page"
"""Header with the page key of a browser."""
MAX_BODY_BYTES = 10_000
"""Maximum size of a sign-in request in bytes."""
NOT_SIGNED_IN = "Unauthorized: sign in as the operator"
HINT = (
    "the desk creates a sign-in link (ctrl+p, then dashboard); `mcpdesk serve` prints the path of the file "
    "with the operator's key"
)


class SignIn:
    """Sign-ins of the pages of one listener."""

    def __init__(self, operator: Operator, cookie: str, path: str) -> None:
        """`cookie` is the name of the cookie without the port. Browsers send it only to `path`."""
        self.operator = operator
        self._cookie = cookie
        self._path = path

    def admit(self, request: web.BaseRequest, page_key: str = "") -> Callable[[], bool]:
        """Check that the operator sent a request. Return a function that checks this again later.

        The function returns True while the operator is signed in. `page_key` is the page key in the path, or
        empty if it is in a header. Raises: RequestRefused.
        """
        refuse_other_sites(request)
        if OPERATOR_HEADER in request.headers:
            if self.operator.matches(request.headers[OPERATOR_HEADER]):
                return lambda: True
        elif session := self.session(request, page_key):
            return lambda: self.operator.is_valid(session)
        raise RequestRefused(plain_error(401, NOT_SIGNED_IN, hint=HINT))

    def session(self, request: web.BaseRequest, page_key: str = "") -> BrowserSession | None:
        """Return the session of the browser that sent a request, or None if the browser is not signed in."""
        cookie = request.cookies.get(self.cookie_name(request), "")
        return self.operator.find(cookie, page_key or request.headers.get(PAGE_HEADER, ""))

    def ticket(self, request: web.BaseRequest, purpose: str) -> str:
        """Return a ticket for a link in the browser that sent a request, or "" if a program sent it."""
        session = self.session(request)
        return "" if session is None else self.operator.ticket(session, purpose)

    def admit_ticket(self, request: web.BaseRequest, purpose: str) -> None:
        """Accept a link with a valid ticket, or any request that `admit` accepts. Raises: RequestRefused."""
        cookie = request.cookies.get(self.cookie_name(request), "")
        if self.operator.accepts_ticket(cookie, request.query.get("ticket", ""), purpose):
            refuse_other_sites(request)
        else:
            self.admit(request)

    async def sign_in(self, request: web.BaseRequest) -> web.Response:
        """Create a session for a browser that sends `{"word": ...}`. Raises: RequestRefused."""
        document = await read_json(request, MAX_BODY_BYTES)
        word = document.get("word") if isinstance(document, dict) else None
        session = self.operator.sign_in(word) if isinstance(word, str) else None
        if session is None:
            raise RequestRefused(plain_error(401, "That is not the operator's key, or the link was used."))
        answer = json_answer(200, codec.encode({"page_key": session.page_key}))
        self._set_cookie(request, answer, session.cookie, int(session.expires - self.operator.now()))
        return answer

    def sign_out(self, request: web.BaseRequest) -> web.Response:
        """End the session of the browser that sent a request."""
        if session := self.session(request):
            self.operator.sign_out(session)
        answer = web.Response(status=204)
        self._set_cookie(request, answer, "", 0)
        return answer

    def cookie_name(self, request: web.BaseRequest) -> str:
        """Return the name of the cookie. It contains the port, so that several desks can coexist."""
        port = request.headers.get("Host", "").rpartition(":")[2]
        return f"{self._cookie}-{port}" if port.isdecimal() else self._cookie

    def _set_cookie(self, request: web.BaseRequest, answer: web.Response, value: str, max_age: int) -> None:
        answer.set_cookie(
            self.cookie_name(request),
            value,
            max_age=max_age,
            path=self._path,
            httponly=True,
            samesite="Strict",
            secure=request.headers.get("Origin", "").startswith("https:"),
        )


def refuse_other_sites(request: web.BaseRequest) -> None:
    """Reject a request that a page of another site caused. Raises: RequestRefused."""
    if request.headers.get("Sec-Fetch-Site", "") in OTHER_SITE_VALUES:
        raise RequestRefused(plain_error(403, "only a page of this server may do this"))


def require_own_page(request: web.BaseRequest) -> None:
    """Reject a request whose `Origin` is not this listener. Raises: RequestRefused."""
    if not is_same_site(request.headers.get("Origin", ""), request.headers.get("Host")):
        raise RequestRefused(plain_error(403, "only a page of this server may do this (Origin)"))


async def read_json(request: web.BaseRequest, limit: int) -> object:
    """Decode a JSON body of at most `limit` bytes. Raises: RequestRefused for any other body."""
    if "Content-Type" not in request.headers or head_of(request).content_type != JSON:
        raise RequestRefused(plain_error(415, "the body must be application/json"))
    try:
        return codec.decode(await read_body(request, limit))
    except ProtocolError as error:
        raise RequestRefused(plain_error(400, str(error))) from None
