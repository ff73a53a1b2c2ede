"""The dashboard: the page at `/`, the stream that keeps it up to date, and what can be done on it.

Everything but the page itself, which holds nothing of anybody, is for who may call; what changes something,
for the page this listener served alone.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from aiohttp import web

from mcpdesk.auth.principal import Principal
from mcpdesk.errors import DeskError, ProtocolError
from mcpdesk.protocol import codec
from mcpdesk.transports.base import Rules, Site
from mcpdesk.transports.http.callers import is_caller_due
from mcpdesk.transports.http.dashboard.dashboard_data import PATH, Board
from mcpdesk.transports.http.dashboard.page_files import PAGE, SAFE, PageFiles
from mcpdesk.transports.http.dashboard.page_updates import MOST_PAGES, DashboardPage, PageUpdates, encode
from mcpdesk.transports.http.dashboard.sign_ins import SignIns, Visitor, is_own_page
from mcpdesk.transports.http.event_stream import EventStream
from mcpdesk.transports.http.job_routes import NO_FILE, NO_JOB, download
from mcpdesk.transports.http.request_body import read_body
from mcpdesk.transports.http.request_head import head_of
from mcpdesk.transports.http.responses import JSON, RequestRefused, json_answer, no_method, plain_error

MOST_BODY = 1 << 20
MOST_FILTER = 2_000
"""Characters of a filter."""
OLDER = 200
"""Older lines sent at a time."""
FILES = re.compile(r"jobs/([A-Za-z0-9_-]{1,64})/download")
"""The path of a job's files. Browsers cannot use that of clients: they send neither key nor token."""
PRIVATE = SAFE | {"Cache-Control": "no-store"}
"""Headers of everything but the page itself."""

Look: TypeAlias = Callable[["DashboardRoutes", web.BaseRequest, Visitor], Awaitable[web.StreamResponse]]


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
        self._files = PageFiles()
        self._door = SignIns(identify, lambda rules: is_caller_due(site.endpoints(), rules))
        self._pulse: PageUpdates | None = None
        self._making = asyncio.Lock()

    async def answer(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        """Answer a request for `/` or below `/dashboard`."""
        try:
            answer = await self._answered(request, path.removeprefix(PATH).removeprefix("/"))
        except RequestRefused as refused:
            answer = refused.answer
        if not answer.prepared:
            for name, value in PRIVATE.items():
                answer.headers.setdefault(name, value)
        return answer

    async def close(self) -> None:
        """End all pages."""
        if self._pulse is not None:
            await self._pulse.close()

    async def _answered(self, request: web.BaseRequest, name: str) -> web.StreamResponse:
        if request.method in ("GET", "HEAD"):
            file = self._files.answer(request, name or PAGE)
            if file is not None:
                return file
            if name == "session":
                return await self._session(request)
            look = _look(name)
            if look is not None and (request.method == "GET" or look is DashboardRoutes._file):
                visitor = await self._door.admit(request, self._site.rules)
                return visitor if isinstance(visitor, web.Response) else await look(self, request, visitor)
        elif request.method == "POST":
            return await self._post(request, name)
        if not name or _look(name) is not None:
            return no_method(request, ("GET",))
        return plain_error(404, f"the dashboard has nothing at {name[:100]!r}")

    async def _post(self, request: web.BaseRequest, name: str) -> web.StreamResponse:
        if not is_own_page(request):
            return plain_error(403, "only the dashboard's own page may do that (Origin)")
        rules = self._site.rules
        if name == "sign-in":
            return await self._door.sign_in(request, rules)
        if name == "sign-out":
            return self._door.sign_out(request)
        visitor = await self._door.admit(request, rules)
        if isinstance(visitor, web.Response):
            return visitor
        given = await _body(request)
        pulse = await self._running()
        if name == "watch":
            return await self._watch(pulse, given)
        status, told = await pulse.board.act(name, given, visitor.name)
        return json_answer(status, encode(told))

    async def _running(self) -> PageUpdates:
        """Return the updates of pages, made on a thread when the first page opens."""
        async with self._making:
            if self._pulse is None:
                self._pulse = PageUpdates(await asyncio.to_thread(self._make_board))
            return self._pulse

    async def _session(self, request: web.BaseRequest) -> web.Response:
        """Return what the page must know before anybody signs in."""
        rules = self._site.rules
        is_in = isinstance(await self._door.admit(request, rules), Visitor)
        told = {"signed_in": is_in, "due": self._door.is_due(rules), "key_header": rules.api_key_header}
        return json_answer(200, encode(told))

    async def _events(self, request: web.BaseRequest, visitor: Visitor) -> web.StreamResponse:
        pulse = await self._running()
        if len(pulse.pages) >= MOST_PAGES:
            pulse.make_room()
        stream = EventStream(request, PRIVATE)
        page = DashboardPage(stream, lambda: self._door.is_welcome(visitor, self._site.rules), visitor.word)
        pulse.add(page)
        try:
            await page.over.wait()
        finally:
            pulse.remove(page)
        return await stream.finish()

    async def _exchange(self, request: web.BaseRequest, visitor: Visitor) -> web.StreamResponse:
        number = _number(request, "number")
        pulse = await self._running()
        found = await pulse.apart(pulse.board.exchange, number)
        if found is None:
            return plain_error(404, f"there is no exchange {number}")
        return json_answer(200, encode(found))

    async def _older(self, request: web.BaseRequest, visitor: Visitor) -> web.StreamResponse:
        pulse = await self._running()
        lane = pulse.lanes.get(request.query.get("filter", ""))
        if lane is None:
            return plain_error(404, "no open page shows the traffic through that filter")
        rows = await pulse.apart(lane.before, _number(request, "before"), OLDER)
        return json_answer(200, encode(rows))

    async def _config(self, request: web.BaseRequest, visitor: Visitor) -> web.StreamResponse:
        try:
            pulse, asked = await self._running(), request.query
            text = await pulse.apart(pulse.board.config, asked.get("server", ""), asked.get("client", ""))
        except DeskError as error:
            return plain_error(404, str(error))
        return json_answer(200, encode({"text": text}))

    async def _file(self, request: web.BaseRequest, visitor: Visitor) -> web.StreamResponse:
        place = FILES.search(request.path)
        job = None if place is None else self._site.jobs.known(place[1])
        if job is None:
            return plain_error(404, NO_JOB)
        answer = await download(request, job, PRIVATE)
        return plain_error(404, NO_FILE) if answer is None else answer

    async def _watch(self, pulse: PageUpdates, given: Any) -> web.Response:
        """Change what a page watches."""
        texts = [given.get(name, "") for name in ("page", "filter", "job")] if isinstance(given, dict) else []
        if not texts or not all(isinstance(text, str) for text in texts):
            return plain_error(400, "page, filter and job are texts")
        if len(texts[1]) > MOST_FILTER:
            return plain_error(422, f"a filter has at most {MOST_FILTER} characters")
        page = pulse.pages.get(texts[0])
        if page is None:
            return plain_error(404, "that page is not open")
        try:
            await pulse.follow(page, texts[1], texts[2])
        except DeskError as error:
            return plain_error(422, str(error))
        return json_answer(200, b'{"watched":true}')


_LOOKS: dict[str, Look] = {
    "events": DashboardRoutes._events,
    "exchange": DashboardRoutes._exchange,
    "older": DashboardRoutes._older,
    "config": DashboardRoutes._config,
}


def _look(name: str) -> Look | None:
    """Return the handler for a name."""
    return DashboardRoutes._file if FILES.fullmatch(name) else _LOOKS.get(name)


async def _body(request: web.BaseRequest) -> Any:
    if "Content-Type" not in request.headers or head_of(request).content_type != JSON:
        raise RequestRefused(plain_error(415, "the body has to be application/json"))
    try:
        return codec.decode(await read_body(request, MOST_BODY))
    except ProtocolError as error:
        raise RequestRefused(plain_error(400, str(error))) from None


def _number(request: web.BaseRequest, name: str) -> int:
    text = request.query.get(name, "")
    if not text.isdecimal() or len(text) > 15:
        raise RequestRefused(plain_error(400, f"{name} has to be a number, not {text[:40]!r}"))
    return int(text)
