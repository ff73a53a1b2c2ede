"""Pages of the open apps, on two ports of this machine that serve nothing else.

One port serves the page of the host, which the person opens. The other one serves the sandbox, so that both
have different origins, and both differ from the origin of the desk. The app itself is in a frame without an
origin (`sandbox` without `allow-same-origin`). Source: MCP Apps 2026-01-26, Sandbox proxy.

URLs contain words that cannot be guessed, one for the page and another for the sandbox. Cookies are neither
set nor read.
"""

from __future__ import annotations

import asyncio
import errno
import json
import secrets
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from aiohttp import WSMsgType, web

from mcpdesk.auth.principal import matches
from mcpdesk.features.apps.content_policy import allow_attribute, permissions_header, policy_header
from mcpdesk.features.apps.page_link import PageLink, page_facts
from mcpdesk.transports.base import Rules
from mcpdesk.transports.http.connections import HttpConnections, connection_of
from mcpdesk.transports.http.request_guard import RequestGuard
from mcpdesk.transports.http.request_head import head_of
from mcpdesk.transports.http.responses import method_error, plain_error
from mcpdesk.transports.http.socket_upgrade import CLOSE_TIMEOUT_S, close_socket, upgrade

if TYPE_CHECKING:
    from mcpdesk.features.apps.app_session import AppSession
    from mcpdesk.protocol.jsonrpc import JSONObject

MAX_MESSAGE_BYTES = 4 << 20
"""Maximum size in bytes of a message of an app."""
MAX_CONNECTIONS = 64
"""Maximum number of connections of each of the two ports."""
HEARTBEAT_S = 15.0
END_S = 3.0
"""Seconds that the handlers of all pages may take to end."""
LOAD_S = 60.0
"""Seconds that the sandbox waits for the page of its app."""
MAX_PORT_ATTEMPTS = 8
"""Maximum number of ports that are tried for the sandbox."""
WORD_BYTES = 24
"""Number of random bytes in the word of a URL."""
COMMON_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "X-DNS-Prefetch-Control": "off",
}
_CONTENT_TYPES: Final = {"html": "text/html", "css": "text/css", "js": "text/javascript"}


def loopback_sockets() -> tuple[socket.socket, list[socket.socket]]:
    """Return the listening socket of the host, and the listening sockets of the sandbox, which have one port.

    The sandbox listens at all addresses of the name `localhost`. Otherwise, a program of another user could
    listen at `[::1]` on the same port, and browsers would load the sandbox from it. Raises: OSError.
    """
    with ExitStack() as opened, ExitStack() as refused:
        host = opened.enter_context(socket.create_server(("127.0.0.1", 0)))
        for _ in range(MAX_PORT_ATTEMPTS):
            sandbox = [socket.create_server(("127.0.0.1", 0))]
            address = ("::1", sandbox[0].getsockname()[1])
            try:
                sandbox.append(socket.create_server(address, family=socket.AF_INET6))
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    # It stays open until the end, so that the next attempt has another port.
                    refused.enter_context(sandbox[0])
                    continue
                # This machine has no IPv6.
            opened.pop_all()
            return host, sandbox
    raise OSError(errno.EADDRINUSE, "other programs listen on the ports of the sandbox")


class AppPages:
    """Two listeners with the pages of all open apps of a core. Must be used on the core's loop."""

    def __init__(
        self,
        host: socket.socket,
        sandbox: Sequence[socket.socket],
        on_disconnect: Callable[[AppSession], object],
        on_close: Callable[[AppSession], object],
    ) -> None:
        """`host` and `sandbox` are listening sockets on loopback. All sockets of `sandbox` have one port.

        `on_disconnect` is called when a page has disconnected, and no other page of its app is open.
        `on_close` is called when the person closes an app.
        """
        self._sockets = (host,), sandbox
        # Two names of this machine, so that the page and the sandbox are also different sites.
        self.host = f"http://127.0.0.1:{host.getsockname()[1]}"
        self.sandbox = f"http://localhost:{sandbox[0].getsockname()[1]}"
        self._on_disconnect, self._on_close = on_disconnect, on_close
        self._by_word: dict[str, AppSession] = {}
        self._by_sandbox_word: dict[str, AppSession] = {}
        self._rules = Rules(max_connections=MAX_CONNECTIONS)
        self._files = {each.name: each.read_text() for each in files(__package__).joinpath("page").iterdir()}
        self._servers: list[asyncio.Server] = []
        self._connections: list[HttpConnections] = []
        self._show_tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Accept connections."""
        loop = asyncio.get_running_loop()
        for sockets, route in zip(self._sockets, (self._host_page, self._sandbox_page), strict=True):
            guard = RequestGuard("127.0.0.1", sockets[0].getsockname()[1])
            connections = HttpConnections(_Route(guard, self._rules, route).respond, lambda: self._rules)
            self._connections.append(connections)
            for each in sockets:
                self._servers.append(await loop.create_server(connections, sock=each))

    async def close(self) -> None:
        """Stop listening, and disconnect all pages."""
        for server in self._servers:
            server.close()
        for task in self._show_tasks:
            task.cancel()
        await asyncio.gather(*(each.close(END_S) for each in self._connections))
        if not self._servers:
            for sockets in self._sockets:
                for listening in sockets:
                    listening.close()

    def add(self, session: AppSession) -> str:
        """Return the URL of the page of an app."""
        word, sandbox_word = secrets.token_urlsafe(WORD_BYTES), secrets.token_urlsafe(WORD_BYTES)
        self._by_word[word], self._by_sandbox_word[sandbox_word] = session, session
        return f"{self.host}/{word}/"

    def session(self, url: str) -> AppSession | None:
        """Return the app with the page at a URL, or None if it was closed."""
        return self._by_word.get(url.removeprefix(self.host).strip("/"))

    def remove(self, session: AppSession) -> None:
        """Serve the page of an app no longer."""
        for table in (self._by_word, self._by_sandbox_word):
            for word in [word for word, each in table.items() if each is session]:
                del table[word]

    # the page of the host

    async def _host_page(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        if path in ("/host.js", "/host.css"):
            return self._file(path[1:])
        _, word, rest = (*path.split("/", 2), "")[:3]
        session = _app_of(self._by_word, word)
        if session is None or rest not in ("", "socket"):
            return plain_error(404, "this app was closed")
        if rest == "socket":
            return await self._socket(request, session)
        answer = self._file("host.html")
        answer.headers["Content-Security-Policy"] = (
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
            f"frame-src {self.sandbox}; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
        )
        answer.headers["X-Frame-Options"] = "DENY"
        answer.headers["Cross-Origin-Opener-Policy"] = "same-origin"
        return answer

    async def _socket(self, request: web.BaseRequest, session: AppSession) -> web.StreamResponse:
        if request.headers.get("Origin") != self.host:
            return plain_error(403, "only the page of the app may connect")
        page = web.WebSocketResponse(
            heartbeat=HEARTBEAT_S, max_msg_size=MAX_MESSAGE_BYTES, timeout=CLOSE_TIMEOUT_S
        )
        if refusal := await upgrade(request, page):
            return refusal
        link = PageLink(page.send_str, partial(close_socket, page, connection_of(request), b""))
        try:
            async for message in page:
                if message.type is not WSMsgType.TEXT:
                    break
                await self._page_message(session, link, message.data)
        except ConnectionError:
            pass  # the page was closed while it received a message
        finally:
            link.decline_all()
            session.detach(link)
            if session.link is None:
                self._on_disconnect(session)
        return page

    async def _page_message(self, session: AppSession, link: PageLink, text: str) -> None:
        """Handle a message of our own page. Messages of a page that another one replaced are ignored."""
        try:
            message = json.loads(text)
        except (ValueError, RecursionError):
            return
        match message:
            case {"hello": _} if session not in self._by_word.values():
                await link.end("it was closed")
            case {"hello": facts}:
                previous_link = session.link
                session.attach(link, page_facts(facts))
                if previous_link is not None and previous_link is not link:
                    await previous_link.end("opened in another tab")
                task = asyncio.create_task(self._show(session, link))
                self._show_tasks.add(task)
                task.add_done_callback(self._show_tasks.discard)
            case _ if session.link is not link:
                return
            case {"view": view}:
                await session.receive(view)
            case {"facts": facts}:
                session.change_facts(page_facts(facts))
            case {"mode": str(mode)}:
                session.choose_mode(mode)
            case {"answer": {"number": number, "agreed": agreed}}:
                link.set_answer(number, agreed)
            case {"close": _}:
                self._on_close(session)
            case _:
                pass

    async def _show(self, session: AppSession, link: PageLink) -> None:
        """Show the app, or the reason why it cannot be shown."""
        await session.loaded.wait()
        state: JSONObject = {"name": session.name, "server": session.server, "uri": session.uri}
        if session.page is None:
            state["failure"] = session.failure
        else:
            policy = session.page.policy
            word = next((word for word, each in self._by_sandbox_word.items() if each is session), "")
            state |= {
                "frame": f"{self.sandbox}/{word}/",
                "allow": allow_attribute(policy),
                "outside": list(policy.allowed_origins),
                "refused": list(policy.refused),
                "permissions": list(policy.permissions),
                "border": session.page.prefers_border is not False,
            }
        with suppress(ConnectionError):
            await link.show(state)

    # the sandbox

    async def _sandbox_page(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        if path == "/sandbox.js":
            return self._file("sandbox.js")
        session = _app_of(self._by_sandbox_word, path.strip("/"))
        if session is None:
            return plain_error(404, "this app was closed")
        async with asyncio.timeout(LOAD_S):
            await session.loaded.wait()
        if session.page is None:
            return plain_error(404, session.failure)
        answer = self._file("sandbox.html", {"host": self.host})
        answer.headers["Content-Security-Policy"] = policy_header(session.page.policy, self.host)
        answer.headers["Permissions-Policy"] = permissions_header(session.page.policy)
        return answer

    def _file(self, name: str, values: Mapping[str, str] = {}) -> web.Response:
        text = self._files[name]
        for key, value in values.items():
            text = text.replace("{{" + key + "}}", escape(value))
        return web.Response(text=text, content_type=_CONTENT_TYPES[name.rpartition(".")[2]], charset="utf-8")


class _Route:
    """Handler of the requests at one port."""

    def __init__(
        self,
        guard: RequestGuard,
        rules: Rules,
        route: Callable[[web.BaseRequest, str], Any],
    ) -> None:
        self._guard, self._rules, self._route = guard, rules, route

    async def respond(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        answer: web.StreamResponse | None = self._guard.refuse(request, self._rules)
        if answer is None:
            if request.method != "GET":
                answer = method_error(request, ("GET",))
            else:
                answer = await self._route(request, head_of(request).path)
        assert answer is not None
        if not answer.prepared:
            answer.headers.update(COMMON_HEADERS)
        return answer


def _app_of(table: Mapping[str, AppSession], word: str) -> AppSession | None:
    """Return the app of a word, or None. The time of the comparison does not depend on the word."""
    return next((session for app_word, session in table.items() if matches(word, app_word)), None)
