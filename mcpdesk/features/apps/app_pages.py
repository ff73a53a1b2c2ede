"""Host pages and sandboxes of the open apps, on two ports of this machine that serve nothing else.

The person opens the host page of an app. This page contains the sandbox in an iframe, and the sandbox
contains the app, which is HTML of a server, in another iframe. One port serves the host pages, and the other
one the sandboxes. Therefore, both have different origins, and neither has the origin of the desk. The iframe
of the app has an opaque origin (`sandbox` without `allow-same-origin`). Source: MCP Apps 2026-01-26, Sandbox
proxy.

Each URL contains a random secret. The host page and the sandbox of an app have different secrets. Cookies are
neither set nor read.
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
"""Maximum number of connections to each of the two ports."""
HEARTBEAT_S = 15.0
END_S = 3.0
"""Seconds that the handlers of all connections may take to end."""
LOAD_S = 60.0
"""Seconds that a request for a sandbox waits until the HTML of its app is loaded."""
MAX_PORT_ATTEMPTS = 8
"""Maximum number of ports that are tried for the sandbox."""
SECRET_BYTES = 24
"""Number of random bytes in the secret of a URL."""
COMMON_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "X-DNS-Prefetch-Control": "off",
}
_CONTENT_TYPES: Final = {"html": "text/html", "css": "text/css", "js": "text/javascript"}


def loopback_sockets() -> tuple[socket.socket, list[socket.socket]]:
    """Return the listening socket for host pages, and those for sandboxes. The latter share one port.

    Sandboxes are served at all addresses of the name `localhost`. Otherwise, a program of another user could
    listen at `[::1]` on the same port, and browsers would load the sandbox from it. Raises: OSError.
    """
    with ExitStack() as host_stack, ExitStack() as unusable_sockets:
        host_socket = host_stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        for _ in range(MAX_PORT_ATTEMPTS):
            sandbox_sockets = [socket.create_server(("127.0.0.1", 0))]
            address = ("::1", sandbox_sockets[0].getsockname()[1])
            try:
                sandbox_sockets.append(socket.create_server(address, family=socket.AF_INET6))
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    # Keep the socket open for now, so that the next attempt gets another port.
                    unusable_sockets.enter_context(sandbox_sockets[0])
                    continue
                # All other errors mean that this machine has no IPv6.
            host_stack.pop_all()  # the caller closes the socket
            return host_socket, sandbox_sockets
    raise OSError(errno.EADDRINUSE, "other programs listen on the ports of the sandbox")


class AppPages:
    """Serves the host pages and sandboxes of all open apps of a core. Must be used on the core's loop."""

    def __init__(
        self,
        host_socket: socket.socket,
        sandbox_sockets: Sequence[socket.socket],
        on_disconnect: Callable[[AppSession], object],
        on_close: Callable[[AppSession], object],
    ) -> None:
        """All sockets listen on loopback. The sandbox sockets have the same port.

        `on_disconnect` is called when a host page has disconnected, and its app is open in no other host
        page. `on_close` is called when the person closes an app.
        """
        self._sockets = (host_socket,), sandbox_sockets
        # Two names of this machine. For browsers, host page and sandbox are then also different sites.
        self._host_origin = f"http://127.0.0.1:{host_socket.getsockname()[1]}"
        self._sandbox_origin = f"http://localhost:{sandbox_sockets[0].getsockname()[1]}"
        self._on_disconnect, self._on_close = on_disconnect, on_close
        self._by_secret: dict[str, AppSession] = {}
        """Apps by the secret of their host page."""
        self._by_sandbox_secret: dict[str, AppSession] = {}
        """Apps by the secret of their sandbox."""
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
            connections = HttpConnections(
                _PortHandler(guard, self._rules, route).respond, lambda: self._rules
            )
            self._connections.append(connections)
            for each in sockets:
                self._servers.append(await loop.create_server(connections, sock=each))

    async def close(self) -> None:
        """Stop listening, and disconnect all host pages."""
        for server in self._servers:
            server.close()
        for task in self._show_tasks:
            task.cancel()
        await asyncio.gather(*(each.close(END_S) for each in self._connections))
        if not self._servers:
            for sockets in self._sockets:
                for listener in sockets:
                    listener.close()

    def add(self, session: AppSession) -> str:
        """Start to serve the host page and the sandbox of an app. Return the URL of the host page."""
        secret = secrets.token_urlsafe(SECRET_BYTES)
        sandbox_secret = secrets.token_urlsafe(SECRET_BYTES)
        self._by_secret[secret] = session
        self._by_sandbox_secret[sandbox_secret] = session
        return f"{self._host_origin}/{secret}/"

    def session(self, url: str) -> AppSession | None:
        """Return the app whose host page has this URL, or None if the app was closed."""
        return self._by_secret.get(url.removeprefix(self._host_origin).strip("/"))

    def remove(self, session: AppSession) -> None:
        """Stop serving the host page and the sandbox of an app."""
        for table in (self._by_secret, self._by_sandbox_secret):
            for secret in [secret for secret, each in table.items() if each is session]:
                del table[secret]

    # the host page

    async def _host_page(self, request: web.BaseRequest, path: str) -> web.StreamResponse:
        """Answer a request at the port of the host pages."""
        if path in ("/host.js", "/host.css"):
            return self._file(path[1:])
        secret, _, rest = path.removeprefix("/").partition("/")
        session = _app_of(self._by_secret, secret)
        if session is None or rest not in ("", "socket"):
            return plain_error(404, "this app was closed")
        if rest == "socket":
            return await self._socket(request, session)
        answer = self._file("host.html")
        answer.headers["Content-Security-Policy"] = (
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
            f"frame-src {self._sandbox_origin}; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
        )
        answer.headers["X-Frame-Options"] = "DENY"
        answer.headers["Cross-Origin-Opener-Policy"] = "same-origin"
        return answer

    async def _socket(self, request: web.BaseRequest, session: AppSession) -> web.StreamResponse:
        """Serve the WebSocket of a host page until the page disconnects."""
        if request.headers.get("Origin") != self._host_origin:
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
        """Handle a message of a host page.

        If the app was opened again in another tab, messages of the first tab are ignored.
        """
        try:
            message = json.loads(text)
        except (ValueError, RecursionError):
            return
        match message:
            case {"hello": _} if session not in self._by_secret.values():
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
        """Show the app in its host page, or the reason why it cannot be shown."""
        await session.loaded.wait()
        state: JSONObject = {"name": session.name, "server": session.server, "uri": session.uri}
        if session.page is None:
            state["failure"] = session.failure
        else:
            policy = session.page.policy
            secret = next((secret for secret, each in self._by_sandbox_secret.items() if each is session), "")
            state |= {
                "frame": f"{self._sandbox_origin}/{secret}/",
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
        """Answer a request at the port of the sandboxes."""
        if path == "/sandbox.js":
            return self._file("sandbox.js")
        session = _app_of(self._by_sandbox_secret, path.strip("/"))
        if session is None:
            return plain_error(404, "this app was closed")
        async with asyncio.timeout(LOAD_S):
            await session.loaded.wait()
        if session.page is None:
            return plain_error(404, session.failure)
        answer = self._file("sandbox.html", {"host": self._host_origin})
        answer.headers["Content-Security-Policy"] = policy_header(session.page.policy, self._host_origin)
        answer.headers["Permissions-Policy"] = permissions_header(session.page.policy)
        return answer

    def _file(self, name: str, values: Mapping[str, str] = {}) -> web.Response:
        text = self._files[name]
        for key, value in values.items():
            text = text.replace("{{" + key + "}}", escape(value))
        return web.Response(text=text, content_type=_CONTENT_TYPES[name.rpartition(".")[2]], charset="utf-8")


class _PortHandler:
    """Checks the requests at one port, and calls `route` for each valid one."""

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


def _app_of(table: Mapping[str, AppSession], secret: str) -> AppSession | None:
    """Return the app with a secret, or None. Secrets are compared in constant time."""
    return next((session for app_secret, session in table.items() if matches(secret, app_secret)), None)
