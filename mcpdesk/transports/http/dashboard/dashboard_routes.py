"""The dashboard: the page at `/`, the stream that keeps it up to date, and what can be done on it.

Everything but the page itself, which holds nothing of anybody, is for who may call; what changes something,
for the page this listener served alone.

Who may see it is who may call, and a browser that signed in, by a cookie. The cookie is a random word that
stands for a sign-in kept here. It holds no key and no token, is sent to the dashboard's own addresses alone,
and means nothing to any other route.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Awaitable, Callable
from hashlib import sha256
from importlib.resources import files
from typing import Any, NamedTuple, TypeAlias

from aiohttp import web
from msgspec import Struct
from msgspec.structs import replace

from mcpdesk.auth.http_origin import is_same_site
from mcpdesk.auth.principal import Principal
from mcpdesk.errors import DeskError, ProtocolError
from mcpdesk.protocol import codec
from mcpdesk.transports.base import Rules, Site
from mcpdesk.transports.http.callers import is_caller_due
from mcpdesk.transports.http.dashboard.dashboard_data import PATH, Board
from mcpdesk.transports.http.dashboard.page_updates import MAX_PAGES, DashboardPage, PageUpdates, encode
from mcpdesk.transports.http.event_stream import EventStream
from mcpdesk.transports.http.job_routes import NO_FILE, NO_JOB, download
from mcpdesk.transports.http.request_body import read_body
from mcpdesk.transports.http.request_guard import FOREIGN
from mcpdesk.transports.http.request_head import head_of
from mcpdesk.transports.http.responses import JSON, RequestRefused, json_answer, no_method, plain_error

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


MAX_BODY = 1 << 20
MAX_FILTER = 2_000
"""Characters of a filter."""
OLDER = 200
"""Older lines sent at a time."""
DOWNLOAD = re.compile(r"jobs/([A-Za-z0-9_-]{1,64})/download")
"""The path of a job's files. Browsers cannot use that of clients: they send neither key nor token."""

MEDIA_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
PAGE = "index.html"
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "form-action 'none'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
"""Forbids everything from elsewhere, inline scripts, and turning text into markup."""
SAFE = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
PRIVATE = SAFE | {"Cache-Control": "no-store"}
"""Headers of everything but the page's files."""
CONFINED = SAFE | {
    "Content-Security-Policy": POLICY,
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
    "Vary": "Accept",
}
"""Headers of the page's files."""

Read: TypeAlias = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class PageFile(NamedTuple):
    """One file of the page."""

    body: bytes
    media_type: str
    tag: str
    """The `ETag`: a hash of the contents."""

    def answer(self, request: web.BaseRequest) -> web.Response:
        """Return the file, or that it did not change."""
        headers = CONFINED | {"ETag": self.tag}
        if request.headers.get("If-None-Match") == self.tag:
            return web.Response(status=304, headers=headers)
        return web.Response(body=self.body, headers=headers | {"Content-Type": self.media_type})


def page_files() -> dict[str, PageFile]:
    """Return the files of the page by their names, as they lie in the package."""
    found = {}
    for place in files("mcpdesk").joinpath("web").iterdir():
        media_type = MEDIA_TYPES.get(place.name.rpartition(".")[2])
        if media_type is not None:
            body = place.read_bytes()
            found[place.name] = PageFile(body, media_type, f'"{sha256(body).hexdigest()[:16]}"')
    return found


class DashboardRoutes:
    """The dashboard of one listener."""

    def __init__(
        self,
        site: Site,
        make_board: Callable[[], Board],
        identify: Callable[[web.BaseRequest, Rules], Awaitable[Principal]],
    ) -> None:
        self._site = site
        self._make_board = make_board
        self._files = page_files()
        self._sign_ins = SignIns(identify, lambda rules: is_caller_due(site.endpoints(), rules))
        self._updates: PageUpdates | None = None
        self._making = asyncio.Lock()
        self._reads: dict[str, Read] = {
            "exchange": self._exchange,
            "older": self._older,
            "config": self._config,
        }

    async def answer(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        """Answer a request for `/` or below `/dashboard`."""
        name = path.removeprefix(PATH).removeprefix("/")
        try:
            if request.method == "POST":
                answer: web.StreamResponse = await self._post(request, name)
            else:
                answer = await self._get(request, name)
        except RequestRefused as refused:
            answer = refused.answer
        if not answer.prepared:
            for header, value in PRIVATE.items():
                answer.headers.setdefault(header, value)
        return answer

    async def close(self) -> None:
        """End all pages."""
        if self._updates is not None:
            await self._updates.close()

    async def _get(self, request: web.BaseRequest, name: str) -> web.StreamResponse:
        is_file = DOWNLOAD.fullmatch(name)
        is_known = is_file or name in ("", "events") or name in self._reads
        if request.method not in ("GET", "HEAD"):
            if is_known:
                return no_method(request, ("GET",))
        elif file := self._files.get(name or PAGE):
            return file.answer(request)
        elif name == "session":
            return await self._session(request)
        elif is_known:
            if request.method == "HEAD" and not is_file:
                return no_method(request, ("GET",))
            visitor = await self._sign_ins.admit(request, self._site.rules)
            if name == "events":
                return await self._events(request, visitor)
            return await self._file(request, is_file[1]) if is_file else await self._reads[name](request)
        return plain_error(404, f"the dashboard has nothing at {name[:100]!r}")

    async def _post(self, request: web.BaseRequest, name: str) -> web.Response:
        if not is_own_page(request):
            return plain_error(403, "only the dashboard's own page may do that (Origin)")
        rules = self._site.rules
        if name == "sign-in":
            return await self._sign_ins.sign_in(request, rules)
        if name == "sign-out":
            return self._sign_ins.sign_out(request)
        visitor = await self._sign_ins.admit(request, rules)
        if "Content-Type" not in request.headers or head_of(request).content_type != JSON:
            return plain_error(415, "the body must be application/json")
        try:
            given = codec.decode(await read_body(request, MAX_BODY))
        except ProtocolError as error:
            return plain_error(400, str(error))
        updates = await self._running()
        if name == "watch":
            return await self._watch(updates, given)
        status, outcome = await updates.board.act(name, given, visitor.name)
        return json_answer(status, encode(outcome))

    async def _running(self) -> PageUpdates:
        """Return the updates of pages, made on a thread when the first page opens."""
        async with self._making:
            if self._updates is None:
                self._updates = PageUpdates(await asyncio.to_thread(self._make_board))
            return self._updates

    async def _session(self, request: web.BaseRequest) -> web.Response:
        """Return what the page must know before anybody signs in."""
        rules = self._site.rules
        try:
            is_in = bool(await self._sign_ins.admit(request, rules))
        except RequestRefused:
            is_in = False
        due = self._sign_ins.is_due(rules)
        return json_answer(200, encode({"signed_in": is_in, "due": due, "key_header": rules.api_key_header}))

    async def _events(self, request: web.BaseRequest, visitor: Visitor) -> web.StreamResponse:
        updates = await self._running()
        if len(updates.pages) >= MAX_PAGES:
            updates.make_room()
        stream = EventStream(request, PRIVATE)
        page = DashboardPage(stream, lambda: self._sign_ins.is_welcome(visitor, self._site.rules))
        updates.add(page)
        try:
            await page.over.wait()
        finally:
            updates.remove(page)
        return await stream.finish()

    async def _exchange(self, request: web.BaseRequest) -> web.StreamResponse:
        number = _number(request, "number")
        updates = await self._running()
        found = await updates.on_thread(updates.board.exchange, number)
        if found is None:
            return plain_error(404, f"there is no exchange {number}")
        return json_answer(200, encode(found))

    async def _older(self, request: web.BaseRequest) -> web.StreamResponse:
        updates = await self._running()
        lines = updates.lines.get(request.query.get("filter", ""))
        if lines is None:
            return plain_error(404, "no open page shows the traffic through that filter")
        rows = await updates.on_thread(lines.before, _number(request, "before"), OLDER)
        return json_answer(200, encode(rows))

    async def _config(self, request: web.BaseRequest) -> web.StreamResponse:
        updates, asked = await self._running(), request.query
        try:
            text = await updates.on_thread(
                updates.board.config, asked.get("server", ""), asked.get("client", "")
            )
        except DeskError as error:
            return plain_error(404, str(error))
        return json_answer(200, encode({"text": text}))

    async def _file(self, request: web.BaseRequest, identifier: str) -> web.StreamResponse:
        job = self._site.jobs.known(identifier)
        if job is None:
            return plain_error(404, NO_JOB)
        return await download(request, job, PRIVATE) or plain_error(404, NO_FILE)

    async def _watch(self, updates: PageUpdates, given: Any) -> web.Response:
        """Change what a page watches."""
        texts = [given.get(name, "") for name in ("page", "filter", "job")] if isinstance(given, dict) else []
        if not texts or not all(isinstance(text, str) for text in texts):
            return plain_error(400, "page, filter and job are texts")
        if len(texts[1]) > MAX_FILTER:
            return plain_error(422, f"a filter has at most {MAX_FILTER} characters")
        page = updates.pages.get(texts[0])
        if page is None:
            return plain_error(404, "that page is not open")
        try:
            await updates.watch(page, texts[1], texts[2])
        except DeskError as error:
            return plain_error(422, str(error))
        return json_answer(200, b'{"watched":true}')


def _number(request: web.BaseRequest, name: str) -> int:
    text = request.query.get(name, "")
    if not text.isdecimal() or len(text) > 15:
        raise RequestRefused(plain_error(400, f"{name} must be a number, not {text[:40]!r}"))
    return int(text)
