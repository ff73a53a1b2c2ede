"""The desk in a browser: a page with a terminal, which only those who have the key may open.

Each page is a screen of its own on one core (`mcpdesk attach`), so that leaving it leaves the core running.
The terminal's script is that of textual-serve; its server is not used, which would let anybody in. Nothing is
loaded from elsewhere, and the page of no other site may be around it or speak to it.
"""

from __future__ import annotations

import asyncio
import errno
import json
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import Future
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from aiohttp import WSMsgType, web
from msgspec import Struct

from mcpdesk.auth.api_key import matches
from mcpdesk.auth.http_origin import check_host, check_origin
from mcpdesk.errors import DeskUserError
from mcpdesk.transports.browser_desk.tab_process import HIGHEST, WIDEST, TabProcess

INSTALL = "pip install 'mcpdesk[web]'"
MOST_TABS = 12
"""Screens at a time: each is a process of its own."""
LARGEST_MESSAGE = 1 << 20
"""Bytes of what a page sends at once, such as a text that is pasted."""
HEARTBEAT_S = 15.0
CLOSE_S = 1.0
"""How long a page may take to agree that its screen has ended."""
END_S = 8.0
"""How long the end may take."""
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "font-src 'self'; img-src 'self' data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'none'",
    "X-Frame-Options": "DENY",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
NO_KEY = (
    "401: this desk is opened with its key. Use the address that `mcpdesk --web` told, which ends with "
    "?token=KEY; the key is in the file it named.\n"
)
FOREIGN_HOST = (
    "403: nobody is served under the name {!r}. Use the address that was told, or set allowed_hosts.\n"
)
FOREIGN_ORIGIN = "403: pages of {} may not speak to this desk.\n"
FULL = f"503: {MOST_TABS} screens are open already, which is the most. Close one.\n"
HERE = Path(__file__).parent
FILES = {"/": ("page.html", "text/html"), "/page.css": ("page.css", "text/css"),
         "/page.js": ("page.js", "text/javascript")}  # fmt: skip
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class BrowserDeskPlan(Struct, frozen=True):
    """Where the pages are, who may open them, and what each of them runs."""

    host: str
    port: int
    key: str
    command: Sequence[str]
    environment: Mapping[str, str]
    may_move: bool = False
    """Take any free port when this one is taken."""
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()


class BrowserDesk:
    """Serves the pages on a thread of its own, so that they go on whatever hosted code does."""

    def __init__(self, plan: BrowserDeskPlan) -> None:
        """Raises: DeskUserError when the extra is not installed."""
        self._plan = plan
        self._static = _static_folder()
        self._cookie = ""
        self._port = 0
        self._tabs: set[TabProcess] = set()
        self._started: Future[str] = Future()
        self._loop = asyncio.new_event_loop()
        self._ended = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="mcpdesk-web", daemon=True)

    def start(self) -> str:
        """Listen; returns the address. Raises: DeskUserError when nobody can listen there."""
        self._thread.start()
        return self._started.result()

    def close(self) -> None:
        """Close all pages and end their screens."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._ended.set)
            self._thread.join(END_S)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        app = web.Application(middlewares=[self._guard])
        app.router.add_get("/ws", self._screen)
        for path in FILES:
            app.router.add_get(path, self._file)
        app.router.add_static("/static", self._static)
        app.on_shutdown.append(self._leave)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=END_S - 1)
        await runner.setup()
        try:
            try:
                self._port = await self._listen(runner)
            except OSError as error:
                place = f"{self._plan.host}:{self._plan.port}"
                hint = "--web 127.0.0.1:0 takes any free port."
                told = DeskUserError(f"--web: nobody can listen on {place}: {error.strerror}.", hint)
                self._started.set_exception(told)
                return
            # Cookies are for all ports of a name.
            self._cookie = f"mcpdesk-web-{self._port}"
            name = f"[{self._plan.host}]" if ":" in self._plan.host else self._plan.host
            self._started.set_result(f"http://{name}:{self._port}/")
            await self._ended.wait()
        finally:
            await runner.cleanup()

    async def _listen(self, runner: web.AppRunner) -> int:
        """Returns the port. Raises: OSError."""
        plan = self._plan
        try:
            site = web.TCPSite(runner, plan.host, plan.port)
            await site.start()
        except OSError as error:
            if error.errno != errno.EADDRINUSE or not plan.may_move:
                raise
            site = web.TCPSite(runner, plan.host, 0)
            await site.start()
        return site.port

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        answer: web.StreamResponse
        if (refusal := self._refusal(request)) is not None:
            answer = refusal
        else:
            try:
                answer = await handler(request)
            except web.HTTPException as error:
                answer = web.Response(status=error.status, text=f"{error.status}: {error.reason}\n")
        if not answer.prepared:
            answer.headers.update(HEADERS)
        return answer

    def _refusal(self, request: web.Request) -> web.Response | None:
        """What a request gets that may not be served; None: it may."""
        plan, host = self._plan, request.headers.get("Host")
        if not check_host(host, plan.allowed_hosts, plan.host):
            return web.Response(status=403, text=FOREIGN_HOST.format(host))
        origin = request.headers.get("Origin")
        if not check_origin(origin, plan.allowed_origins, host, plan.host, self._port):
            return web.Response(status=403, text=FOREIGN_ORIGIN.format(origin))
        if request.path == "/" and (token := request.query.get("token")) is not None:
            if not matches(token, plan.key):
                return web.Response(status=401, text=NO_KEY)
            # Out of the address bar, and of what the browser remembers.
            away = web.Response(status=303, headers={"Location": "/"})
            away.set_cookie(self._cookie, plan.key, httponly=True, samesite="Strict", path="/")
            return away
        if not matches(request.cookies.get(self._cookie), plan.key):
            return web.Response(status=401, text=NO_KEY)
        return None

    async def _file(self, request: web.Request) -> web.Response:
        name, kind = FILES[request.path]
        return web.Response(body=(HERE / name).read_bytes(), content_type=kind, charset="utf-8")

    async def _screen(self, request: web.Request) -> web.StreamResponse:
        if len(self._tabs) >= MOST_TABS:
            return web.Response(status=503, text=FULL)
        socket = web.WebSocketResponse(heartbeat=HEARTBEAT_S, max_msg_size=LARGEST_MESSAGE, timeout=CLOSE_S)
        tab = TabProcess(self._plan.command, self._plan.environment)
        self._tabs.add(tab)
        try:
            await socket.prepare(request)
            wide, high = _number(request, "width", 80, WIDEST), _number(request, "height", 24, HIGHEST)
            await _show(tab, socket, wide, high)
        finally:
            self._tabs.discard(tab)
        return socket

    async def _leave(self, app: web.Application) -> None:
        for tab in self._tabs:
            tab.leave()


async def _show(tab: TabProcess, socket: web.WebSocketResponse, width: int, height: int) -> None:
    """Run a screen until it, or its page, is gone."""

    async def open_url(url: str) -> None:
        await socket.send_str(json.dumps(["open_url", {"url": url, "new_tab": True}]))

    async def run() -> None:
        try:
            await tab.run(socket.send_bytes, open_url, width, height)
        finally:
            await socket.close()

    screen = asyncio.create_task(run())
    try:
        async for message in socket:
            if message.type is WSMsgType.TEXT:
                await _take(tab, socket, message.data)
    finally:
        tab.leave()
        await asyncio.gather(screen, return_exceptions=True)


async def _take(tab: TabProcess, socket: web.WebSocketResponse, text: str) -> None:
    """A message of the page; what is none of its language is ignored."""
    try:
        message = json.loads(text)
    except ValueError:
        return
    match message:
        case ["ping", str(stamp)]:
            await socket.send_str(json.dumps(["pong", stamp]))
        case _:
            await tab.take(message)


def _number(request: web.Request, name: str, usual: int, most: int) -> int:
    text = request.query.get(name, "")
    return max(1, min(int(text), most)) if text.isdecimal() and len(text) < 6 else usual


def _static_folder() -> Path:
    """Where the script of the terminal lies. Raises: DeskUserError without it."""
    try:
        found = find_spec("textual_serve")
    except ImportError:
        found = None
    if found is None or found.origin is None:
        raise DeskUserError("--web: textual-serve is not installed.", f"Install it: {INSTALL}")
    return Path(found.origin).parent / "static"
