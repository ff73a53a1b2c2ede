"""Routes of the dashboard: the page at `/`, the stream of updates, and the actions.

Every caller may load the page, because it contains no data. All other routes require the operator's sign-in,
even if callers need no API key, because the dashboard shows all traffic and answers questions.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from hashlib import sha256
from importlib.resources import files
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from aiohttp import web

from mcpdesk.errors import DeskError
from mcpdesk.features.dashboard.dashboard_data import PATH
from mcpdesk.features.dashboard.page_updates import MAX_PAGES, DashboardPage, PageUpdates, encode
from mcpdesk.link import state_looks
from mcpdesk.transports.http.event_stream import EventStream
from mcpdesk.transports.http.job_routes import NO_FILE, NO_JOB, download
from mcpdesk.transports.http.responses import RequestRefused, json_answer, method_error, plain_error
from mcpdesk.transports.http.sign_in import SignIn, read_json, require_own_page

if TYPE_CHECKING:
    from mcpdesk.features.dashboard.link_board import LinkBoard
    from mcpdesk.link.front_end import FrontEnd
    from mcpdesk.transports.http.site import Site

COOKIE = "mcpdesk-dashboard"
MAX_BODY_BYTES = 1 << 20
MAX_FILTER_LENGTH = 2_000
"""Maximum length of a filter in characters."""
OLDER_LINES = 200
"""Number of older lines that are sent at a time."""
DOWNLOAD = re.compile(r"jobs/([A-Za-z0-9_-]{1,64})/download")
"""Path of the files of a job.

Clients use another path, which requires a key or a token. Browsers do not send keys or tokens.
"""

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
"""Content security policy. It forbids other origins, inline scripts, and creating markup from text."""
SAFE_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
PRIVATE_HEADERS = SAFE_HEADERS | {"Cache-Control": "no-store"}
"""Headers of all responses except the files of the page."""
CONFINED_HEADERS = SAFE_HEADERS | {
    "Content-Security-Policy": POLICY,
    "X-Frame-Options": "DENY",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
    "Vary": "Accept",
}
"""Headers of the files of the page."""

ReadRoute: TypeAlias = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class PageFile(NamedTuple):
    """One file of the page."""

    body: bytes
    media_type: str
    tag: str
    """`ETag` of the file: a hash of its content."""

    def answer(self, request: web.BaseRequest) -> web.Response:
        """Return the file, or status 304 if the browser already has this version."""
        headers = CONFINED_HEADERS | {"ETag": self.tag}
        if request.headers.get("If-None-Match") == self.tag:
            return web.Response(status=304, headers=headers)
        return web.Response(body=self.body, headers=headers | {"Content-Type": self.media_type})


def page_files() -> dict[str, PageFile]:
    """Read the files of the page from the package, by name."""
    page_folder = files("mcpdesk.features.dashboard").joinpath("page")
    bodies = {each.name: each.read_bytes() for each in page_folder.iterdir() if each.is_file()}
    bodies["states.js"] = _states_script()
    page = {}
    for name, body in bodies.items():
        media_type = MEDIA_TYPES.get(name.rpartition(".")[2])
        if media_type is not None:
            page[name] = PageFile(body, media_type, f'"{sha256(body).hexdigest()[:16]}"')
    return page


def _states_script() -> bytes:
    """Return the script that exports the looks of states: `LOOKS.jobs.failed` is `[glyph, tone, word]`."""
    looks = {
        table: {state: (look.glyph, look.tone, look.word) for state, look in rows.items()}
        for table, rows in state_looks.LOOK_TABLES.items()
    }
    return b"export const LOOKS = " + encode(looks) + b";\n"


class DashboardRoutes:
    """Dashboard of one HTTP listener."""

    def __init__(self, site: Site, front_end: Callable[[], FrontEnd], files: dict[str, PageFile]) -> None:
        """`front_end` returns a link to the core and a function that counts viewers.

        `files` are the files of the page, by name.
        """
        self._site = site
        self._front_end = front_end
        self._files = files
        self._sign_in = SignIn(site.operator, COOKIE, PATH)
        self._updates: PageUpdates | None = None
        self._creation_lock = asyncio.Lock()
        self._read_routes: dict[str, ReadRoute] = {
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
            for header, value in PRIVATE_HEADERS.items():
                answer.headers.setdefault(header, value)
        return answer

    async def close(self) -> None:
        """Close all pages."""
        if self._updates is not None:
            await self._updates.close()

    async def _get(self, request: web.BaseRequest, name: str) -> web.StreamResponse:
        """Answer a request other than POST. `name` is the path below `/dashboard`. Raises: RequestRefused."""
        download_match = DOWNLOAD.fullmatch(name)
        exists = download_match is not None or name in ("", "events") or name in self._read_routes
        if request.method not in ("GET", "HEAD"):
            if exists:
                return method_error(request, ("GET",))
        elif file := self._files.get(name or PAGE):
            return file.answer(request)
        elif name == "session":
            return self._session(request)
        elif exists:
            if request.method == "HEAD" and not download_match:
                return method_error(request, ("GET",))
            if download_match:
                return await self._file(request, download_match[1])
            is_signed_in = self._sign_in.admit(request)  # function that checks the sign-in again later
            if name == "events":
                return await self._events(request, is_signed_in)
            return await self._read_routes[name](request)
        return plain_error(404, f"the dashboard has nothing at {name[:100]!r}")

    async def _post(self, request: web.BaseRequest, name: str) -> web.Response:
        """Execute an action, sign in or sign out. Raises: RequestRefused."""
        require_own_page(request)
        if name == "sign-in":
            return await self._sign_in.sign_in(request)
        if name == "sign-out":
            return self._sign_in.sign_out(request)
        self._sign_in.admit(request)
        body = await read_json(request, MAX_BODY_BYTES)
        if name == "download":
            job = body.get("job") if isinstance(body, dict) else None
            if not isinstance(job, str):
                return plain_error(400, "download: job must be a text")
            return json_answer(200, encode({"ticket": self._sign_in.ticket(request, job)}))
        updates = await self._page_updates()
        if name == "watch":
            return await self._watch(updates, body)
        status, outcome = await updates.board.act(name, body, "dashboard")
        return json_answer(status, encode(outcome))

    def _board(self) -> LinkBoard:
        from mcpdesk.features.dashboard.link_board import LinkBoard

        return LinkBoard(*self._front_end())

    async def _page_updates(self) -> PageUpdates:
        """Return the object that updates pages.

        The object is created on a worker thread when the first page opens.
        """
        async with self._creation_lock:
            if self._updates is None:
                self._updates = PageUpdates(await asyncio.to_thread(self._board))
            return self._updates

    def _session(self, request: web.BaseRequest) -> web.Response:
        """Report whether the browser is signed in. The page sends this request before it opens the stream."""
        try:
            self._sign_in.admit(request)
        except RequestRefused:
            return json_answer(200, b'{"signed_in":false}')
        return json_answer(200, b'{"signed_in":true}')

    async def _events(self, request: web.BaseRequest, is_signed_in: Callable[[], bool]) -> web.StreamResponse:
        """Send updates to a page until the page disconnects or is closed."""
        updates = await self._page_updates()
        if len(updates.pages) >= MAX_PAGES:
            updates.make_room()
        stream = EventStream(request, PRIVATE_HEADERS)
        page = DashboardPage(stream, is_signed_in)
        updates.add(page)
        try:
            await page.closed.wait()
        finally:
            updates.remove(page)
        return await stream.finish()

    async def _exchange(self, request: web.BaseRequest) -> web.StreamResponse:
        number = _number(request, "number")
        updates = await self._page_updates()
        exchange = await updates.on_thread(updates.board.exchange, number)
        if exchange is None:
            return plain_error(404, f"exchange {number} does not exist")
        return json_answer(200, encode(exchange))

    async def _older(self, request: web.BaseRequest) -> web.StreamResponse:
        updates = await self._page_updates()
        lines = updates.lines.get(request.query.get("filter", ""))
        if lines is None:
            return plain_error(404, "no open page shows that filter")
        rows = await updates.on_thread(lines.before, _number(request, "before"), OLDER_LINES)
        return json_answer(200, encode(rows))

    async def _config(self, request: web.BaseRequest) -> web.StreamResponse:
        updates, query = await self._page_updates(), request.query
        try:
            text = await updates.on_thread(
                updates.board.config, query.get("server", ""), query.get("client", "")
            )
        except DeskError as error:
            return plain_error(404, str(error))
        return json_answer(200, encode({"text": text}))

    async def _file(self, request: web.BaseRequest, identifier: str) -> web.StreamResponse:
        """Send the files of a job.

        Other requests of the page have a header with the page key. A hyperlink cannot send headers, so its
        URL contains a ticket instead.
        """
        self._sign_in.admit_ticket(request, identifier)
        job = self._site.jobs.by_id(identifier)
        if job is None:
            return plain_error(404, NO_JOB)
        return await download(request, job, PRIVATE_HEADERS) or plain_error(404, NO_FILE)

    async def _watch(self, updates: PageUpdates, state: Any) -> web.Response:
        """Change the filter and the job of a page. `state` is the body of the request."""
        names = ("page", "filter", "job")
        values: list[Any] = [state.get(name, "") if isinstance(state, dict) else None for name in names]
        if not all(isinstance(value, str) for value in values):
            return plain_error(400, "page, filter and job must be strings")
        page_id, filter_text, job = values
        if len(filter_text) > MAX_FILTER_LENGTH:
            return plain_error(422, f"a filter has at most {MAX_FILTER_LENGTH} characters")
        page = updates.pages.get(page_id)
        if page is None:
            return plain_error(404, "that page is not open")
        try:
            await updates.watch(page, filter_text, job)
        except DeskError as error:
            return plain_error(422, str(error))
        return json_answer(200, b'{"watched":true}')


def _number(request: web.BaseRequest, name: str) -> int:
    text = request.query.get(name, "")
    if not text.isdecimal() or len(text) > 15:
        raise RequestRefused(plain_error(400, f"{name} must be a number, not {text[:40]!r}"))
    return int(text)
