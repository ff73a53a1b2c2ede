"""Server for the desk in a browser. The operator opens pages, each with a terminal.

Each page is a separate screen on the same core (`mcpdesk attach`), so closing a page leaves the core running.
The script of the terminal comes from textual-serve. The server of textual-serve is not used, because it has
no sign-in. The number of connections is small and limited, because the core needs open files as well.
"""

from __future__ import annotations

import asyncio
import errno
import json
import mimetypes
import socket
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from aiohttp import WSMsgType, web
from msgspec import Struct
from msgspec.structs import replace

from mcpdesk.auth.operator import Operator
from mcpdesk.errors import DeskUserError
from mcpdesk.features.browser_desk.tab_process import MAX_COLUMNS, MAX_ROWS, TabProcess
from mcpdesk.transports.base import Rules
from mcpdesk.transports.http.connections import HttpConnections
from mcpdesk.transports.http.request_guard import RequestGuard
from mcpdesk.transports.http.request_head import head_of
from mcpdesk.transports.http.responses import RequestRefused, json_answer, method_error, plain_error
from mcpdesk.transports.http.sign_in import SignIn, require_own_page
from mcpdesk.transports.http.socket_upgrade import upgrade

INSTALL = "pip install 'mcpdesk[web]'"
MAX_TABS = 12
"""Maximum number of screens. Each screen is a separate process."""
MAX_CONNECTIONS = 64
"""Maximum number of connections.

The connections and the pipes of all screens need fewer open files than the HTTP listener leaves free.
"""
MAX_MESSAGE_BYTES = 1 << 20
"""Maximum size in bytes of a message from a page, such as pasted text."""
HEARTBEAT_S = 15.0
"""Seconds between two pings to a page. A page that does not answer is disconnected."""
CLOSE_S = 1.0
"""Seconds to wait until a page acknowledges that its screen has ended."""
END_S = 8.0
"""Seconds that closing all pages may take."""
CHECK_S = 1.0
"""Seconds between two checks whether the operator of a page is still signed in."""
COOKIE = "mcpdesk-web"
SOCKET_PATH = "/ws/"
"""Path of a page's WebSocket.

The page key follows in the path, because browsers cannot send it in a header.
"""
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
PAGE_FOLDER = Path(__file__).parent
FILES: Final = {"/": "page.html", "/page.css": "page.css", "/page.js": "page.js"}


class BrowserDeskPlan(Struct, frozen=True):
    """Address of the pages, credentials for them, and the command of their screens."""

    host: str
    port: int
    operator: Operator
    command: Sequence[str]
    environment: Mapping[str, str]
    rules: Rules = Rules()
    """Allowed hosts and origins, and other limits."""
    may_move: bool = False
    """True to use another free port if the configured one is taken."""


def listening_socket(host: str, port: int, *, may_move: bool) -> socket.socket:
    """Listen on a port. If the port is taken and `may_move` is set, listen on another port.

    Raises: DeskUserError if the address cannot be used.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        try:
            return socket.create_server((host, port), family=family)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or not may_move:
                raise
            return socket.create_server((host, 0), family=family)
    except OSError as error:
        hint = "--web 127.0.0.1:0 takes any free port."
        raise DeskUserError(f"--web: cannot listen on {host}:{port}: {error.strerror}.", hint) from None


class BrowserDesk:
    """Serves the pages on a separate thread, so that hosted code cannot delay them."""

    def __init__(self, plan: BrowserDeskPlan) -> None:
        """Raises: DeskUserError if the optional extra is not installed."""
        self._plan = plan
        self._rules = replace(
            plan.rules, api_key="", max_connections=min(MAX_CONNECTIONS, plan.rules.max_connections)
        )
        self._files = _page_files(_static_folder())
        self._sign_in = SignIn(plan.operator, COOKIE, "/")
        self._guard = RequestGuard("")
        self._tabs: set[TabProcess] = set()
        self._started: Future[str] = Future()
        self._loop = asyncio.new_event_loop()
        self._close_requested = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="mcpdesk-web", daemon=True)

    def start(self) -> str:
        """Listen, and return the URL. Raises: DeskUserError if the address cannot be used."""
        self._thread.start()
        return self._started.result()

    def close(self) -> None:
        """Close all pages and end their screens."""
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._close_requested.set)
            self._thread.join(END_S)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:  # cancels the tasks that remain
            runner.run(self._serve())

    async def _serve(self) -> None:
        """Listen, and serve requests until `close` is called."""
        plan = self._plan
        connections = HttpConnections(self._respond, lambda: self._rules)
        try:
            listener = listening_socket(plan.host, plan.port, may_move=plan.may_move)
        except DeskUserError as refusal:
            self._started.set_exception(refusal)
            return
        port = listener.getsockname()[1]
        self._guard = RequestGuard(plan.host, port)
        server = await self._loop.create_server(connections, sock=listener)
        try:
            url_host = f"[{plan.host}]" if ":" in plan.host else plan.host
            self._started.set_result(f"http://{url_host}:{port}/")
            await self._close_requested.wait()
        finally:
            server.close()
            for tab in self._tabs:
                tab.leave()
            await connections.close(END_S - 1)

    async def _respond(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request, with the security headers of the pages."""
        answer: web.StreamResponse | None = self._guard.refuse(request, self._rules)
        if answer is None:
            try:
                answer = await self._route(request, head_of(request).path)
            except RequestRefused as refused:
                answer = refused.answer
        if not answer.prepared:
            answer.headers.update(HEADERS)
        return answer

    async def _route(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        if path in ("/sign-in", "/sign-out"):
            if request.method != "POST":
                return method_error(request, ("POST",))
            require_own_page(request)
            if path == "/sign-out":
                return self._sign_in.sign_out(request)
            return await self._sign_in.sign_in(request)
        if request.method not in ("GET", "HEAD"):
            return method_error(request, ("GET",))
        if path.startswith(SOCKET_PATH):
            return await self._screen(request, path.removeprefix(SOCKET_PATH))
        if path == "/session":
            is_signed_in = self._sign_in.session(request) is not None
            return json_answer(200, b'{"signed_in":true}' if is_signed_in else b'{"signed_in":false}')
        if file := self._files.get(path):
            content_type = mimetypes.guess_type(file.name)[0] or "application/octet-stream"
            return web.Response(body=await asyncio.to_thread(file.read_bytes), content_type=content_type)
        return plain_error(404, f"nothing at {path[:100]!r}")

    async def _screen(self, request: web.BaseRequest, page_key: str) -> web.StreamResponse:
        """Run a screen for the WebSocket of a page. Raises: RequestRefused if no operator is signed in."""
        is_signed_in = self._sign_in.admit(request, page_key)
        if len(self._tabs) >= MAX_TABS:
            return plain_error(503, f"{MAX_TABS} screens are already open", hint="close one")
        web_socket = web.WebSocketResponse(
            heartbeat=HEARTBEAT_S, max_msg_size=MAX_MESSAGE_BYTES, timeout=CLOSE_S
        )
        tab = TabProcess(self._plan.command, self._plan.environment)
        self._tabs.add(tab)

        async def leave_when_signed_out() -> None:
            while is_signed_in():  # noqa: ASYNC110 (a session ends on any thread, or by the clock)
                await asyncio.sleep(CHECK_S)
            tab.leave()

        try:
            if refusal := await upgrade(request, web_socket):
                return refusal
            watch = asyncio.create_task(leave_when_signed_out())
            try:
                width = _number(request, "width", 80, MAX_COLUMNS)
                height = _number(request, "height", 24, MAX_ROWS)
                await _show(tab, web_socket, width, height)
            finally:
                watch.cancel()
        finally:
            self._tabs.discard(tab)
        return web_socket


async def _show(tab: TabProcess, web_socket: web.WebSocketResponse, width: int, height: int) -> None:
    """Run a screen until it ends or its page disconnects."""

    async def open_url(url: str) -> None:
        await web_socket.send_str(json.dumps(["open_url", {"url": url, "new_tab": True}]))

    async def run() -> None:
        try:
            await tab.run(web_socket.send_bytes, open_url, width, height)
        finally:
            await web_socket.close()

    screen = asyncio.create_task(run())
    try:
        async for message in web_socket:
            if message.type is WSMsgType.TEXT:
                await _handle_page_message(tab, web_socket, message.data)
    finally:
        tab.leave()
        await asyncio.gather(screen, return_exceptions=True)


async def _handle_page_message(tab: TabProcess, web_socket: web.WebSocketResponse, text: str) -> None:
    """Handle a message of the page. Unknown messages are ignored."""
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        return
    match message:
        case ["ping", str(stamp)]:
            await web_socket.send_str(json.dumps(["pong", stamp]))
        case _:
            tab.handle(message)


def _number(request: web.BaseRequest, name: str, default: int, maximum: int) -> int:
    text = request.query.get(name, "")
    return max(1, min(int(text), maximum)) if text.isdecimal() and len(text) < 6 else default


def _page_files(static_folder: Path) -> dict[str, Path]:
    """Return the files that browsers may load, by path: the page itself and the files of the terminal."""
    static_files = {
        f"/static/{each.relative_to(static_folder).as_posix()}": each for each in static_folder.rglob("*.*")
    }
    return {path: PAGE_FOLDER / name for path, name in FILES.items()} | static_files


def _static_folder() -> Path:
    """Return the folder with the terminal's script. Raises: DeskUserError if it is not installed."""
    try:
        spec = find_spec("textual_serve")
    except ImportError:
        spec = None
    if spec is None or spec.origin is None:
        raise DeskUserError("--web: textual-serve is not installed.", f"Install it: {INSTALL}")
    return Path(spec.origin).parent / "static"
