"""HTTP listener of a core. It checks each request and calls the handler for its path and method."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from aiohttp import web
from aiohttp.http import HttpVersion11

from mcpdesk.auth.access import OPEN_ACCESS
from mcpdesk.auth.operator import OPERATOR_HEADER
from mcpdesk.auth.principal import KEY, OPEN, Principal
from mcpdesk.errors import TransportError, UnknownMode
from mcpdesk.features import features_with
from mcpdesk.recorder.former_clients import FormerClients
from mcpdesk.transports import rendezvous
from mcpdesk.transports.base import PassThrough, Rules, first_pass_through
from mcpdesk.transports.http.callers import CallerCheck, callers_of_site, is_identity_required
from mcpdesk.transports.http.connections import HttpConnections
from mcpdesk.transports.http.discovery_routes import discover as discover_server
from mcpdesk.transports.http.discovery_routes import is_discovery
from mcpdesk.transports.http.job_routes import JobPath, JobRoutes
from mcpdesk.transports.http.mcp_routes import McpRoutes, Verb
from mcpdesk.transports.http.passing.pass_through_routes import PassThroughRoutes
from mcpdesk.transports.http.passing.passed_clients import PassedClient
from mcpdesk.transports.http.request_guard import (
    RefusalLog,
    RequestGuard,
    is_preflight,
    page_headers,
    preflight_answer,
)
from mcpdesk.transports.http.request_head import DIALECT, RequestHead, head_of
from mcpdesk.transports.http.responses import (
    SANDBOX_HEADERS,
    RequestRefused,
    method_error,
    mode_error,
    plain_error,
    unavailable_error,
)
from mcpdesk.transports.http.sessions.http_sessions import HttpSession, HttpSessions
from mcpdesk.transports.http.site_routes import (
    FACT_PATHS,
    FACTS,
    FactSource,
    is_metadata,
    metadata,
)
from mcpdesk.transports.http.sse_transport import SseRoutes
from mcpdesk.transports.http.websocket import SocketRoutes
from mcpdesk.transports.pipe import start_accepting, stop_accepting
from mcpdesk.transports.unread_answers import UNREAD

if TYPE_CHECKING:
    from mcpdesk.transports.http.other_processes import OtherProcesses
    from mcpdesk.transports.http.site import Site

SHUTDOWN_S = 2.0
"""Seconds for which handlers may continue when the listener closes."""
DISCONNECT_REASON = "disconnected at the desk"
POLICY_HEADER = "Content-Security-Policy"
PORTS_TRIED = 50
"""Number of ports that are tried if the listener may move to a later port."""

QUERY_KEY_ROUTES = frozenset({"ws"})
"""Routes that accept the key as `?api_key=`, because browsers send no headers with a WebSocket."""


class PortTaken(TransportError):
    """The address is in use."""


class ListeningForbidden(TransportError):
    """This process may not listen on TCP."""


class HttpService:
    """Serves a core over HTTP, on TCP or on a Unix socket."""

    def __init__(self, site: Site) -> None:
        self._site = site
        UNREAD.limit = site.rules.unread_answers_max_bytes
        self._mcp = McpRoutes(site, partial(_other_processes, site))
        self._sockets = SocketRoutes(site)
        self._sse = SseRoutes(site, self._mcp.other_processes)
        self._passing = PassThroughRoutes(site)
        self._extra_routes = [
            routes for feature in features_with("http_routes") for routes in feature.http_routes(site)
        ]
        self._jobs = JobRoutes(site, self._mcp.other_processes)
        self._verbs: dict[str | None, dict[str, Verb]] = {
            "": {"POST": self._mcp.post, "GET": self._mcp.get, "DELETE": self._mcp.delete},
            "ws": {"GET": self._sockets.get},
            "sse": {"GET": self._sse.get},
            "messages": {"POST": self._sse.post},
        }
        """Handlers by the path after the server's name, then by method."""
        self._dialect_paths = [
            path
            for feature in features_with("dialect_paths")
            for path in feature.dialect_paths(self._mcp, self._sockets)
        ]
        self._verbs |= {DIALECT + each.path: dict(each.verbs) for each in self._dialect_paths}
        dialect_routes = {DIALECT + each.path for each in self._dialect_paths if each.takes_key_in_query}
        self._query_key_routes = QUERY_KEY_ROUTES | dialect_routes
        self._guard = RequestGuard("")
        self._refusals = RefusalLog()
        self._origins: tuple[str, ...] = ()
        self._listener: HttpConnections | None = None
        self._server: asyncio.Server | None = None
        self._socket: socket.socket | None = None
        """Listening socket."""
        self._socket_path: Path | None = None
        self.address = ""
        """`http://127.0.0.1:3333` or `unix:/path`, or "" before the start."""

    async def listen_tcp(self, host: str, port: int, may_move: bool) -> int:
        """Listen on TCP and return the port. `may_move` allows a later port if this one is taken.

        Raises: PortTaken, ListeningForbidden, or TransportError for an invalid address.
        """
        sock, bound_port = _bind(host, port, PORTS_TRIED if may_move and port else 1)
        self._guard = RequestGuard(host, bound_port)
        await self._serve(sock)
        url_host = f"[{host}]" if ":" in host else host
        self.address = f"http://{url_host}:{bound_port}"
        return bound_port

    async def listen_unix(self, path: Path) -> None:
        """Listen on a Unix socket that only this user can access.

        Raises: TransportError if another process listens there.
        """
        if not rendezvous.HAS_SOCKETS:
            raise TransportError(f"cannot listen on {path}: Unix sockets are not available on Windows")
        sock = _bind_unix(path)
        self._socket_path = path
        await self._serve(sock)
        self.address = f"unix:{path}"

    @property
    def has_sign_in(self) -> bool:
        """True if a browser can sign in on TCP."""
        return self.address.startswith("http") and any(each.has_sign_in for each in self._extra_routes)

    def sign_in_link(self) -> str:
        """Return the URL of the dashboard with a one-time sign-in code.

        Raises: ValueError if no dashboard is served on TCP.
        """
        if not self.has_sign_in:
            raise ValueError("The dashboard is not served on TCP here.")
        return f"{self.address}/#sign-in={self._site.operator.new_link_code()}"

    def session(self, connection: int) -> HttpSession | None:
        """Return the session with a connection number, or None."""
        return self._mcp.sessions.by_connection().get(connection)

    def last_seen(self) -> dict[int, float | None]:
        """Return the last activity of clients whose dialogue may exist without a connection.

        The result has a Unix time in seconds, or None for a connected client, by connection number. May be
        called on any thread.
        """
        session_times = {number: each.seen for number, each in self._mcp.sessions.by_connection().items()}
        return session_times if self._listener is None else session_times | self._listener.lost_at()

    def passed_clients(self) -> list[PassedClient]:
        """Return the clients of pass-through servers. May be called on any thread."""
        return self._passing.clients.clients()

    def former_passed_clients(self) -> dict[str, FormerClients]:
        """Return former clients of pass-through servers, by server. May be called on any thread."""
        return dict(self._passing.clients.former)

    def disconnect(self, connection: int) -> bool:
        """End a session or connection. Return False if the number is unknown."""
        session = self.session(connection)
        if session is not None and session.events.is_leaving and session.shared is not None:
            self._mcp.sessions.drop(session)  # another process has the session
            return True
        if session is not None:
            self._mcp.sessions.end(session, DISCONNECT_REASON)
            return True
        owners = (self._sockets, self._sse, self._passing, self._listener)
        return any(each.disconnect(connection) for each in owners if each is not None)

    async def leave(self) -> None:
        """Accept no more connections, and close each open one after its next answer."""
        if self._server is None or self._listener is None or self._socket is None:
            return
        loop, listening_copy = asyncio.get_running_loop(), self._socket.dup()
        await stop_accepting(self._server)
        accepted_sockets = _accept_waiting(listening_copy)  # these connections would otherwise get no answer
        listening_copy.close()
        self._listener.is_leaving = True
        await asyncio.gather(
            *(loop.connect_accepted_socket(self._listener, each) for each in accepted_sockets)
        )
        self._mcp.sessions.release_streams()

    @property
    def greetings(self) -> list[str]:
        """Messages of `mcpdesk serve` about routes of features."""
        return [line for each in self._extra_routes if (line := each.greeting(self.address))]

    @property
    def is_left(self) -> bool:
        """True if clients no longer send requests to this process."""
        return self._listener is None or self._listener.is_quiet

    def leave_sessions(self) -> None:
        """Keep the sessions for the next process, because this one ends."""
        self._mcp.sessions.leave()

    async def close(self) -> None:
        """Accept no more connections, and end sessions, streams and connections."""
        if self._server is None or self._listener is None:
            return
        await stop_accepting(self._server)
        self._mcp.sessions.close()
        await self._mcp.sessions.wait_until_left()
        self._sse.close()
        for routes in self._extra_routes:
            await routes.close()
        await self._sockets.close()
        await self._listener.close(SHUTDOWN_S)
        self._refusals.flush()
        self._passing.close()
        if self._socket_path is not None:
            self._socket_path.unlink(missing_ok=True)

    async def _serve(self, sock: socket.socket) -> None:
        """Accept connections on a listening socket."""
        sock.setblocking(False)
        self._socket = sock
        loop = asyncio.get_running_loop()
        self._origins = self._site.rules.allowed_origins
        paths = frozenset(each.path for each in self._dialect_paths)
        self._listener = HttpConnections(self._respond, lambda: self._site.rules, paths)
        if self._socket_path is not None:
            start_coroutine = loop.create_unix_server(self._listener, sock=sock, backlog=1024)
        else:
            start_coroutine = loop.create_server(self._listener, sock=sock, backlog=1024)
        self._server = await start_accepting(start_coroutine)

    async def _respond(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request. Headers keep browsers from running or embedding the answer.

        Pages of listed origins may read it.
        """
        head = head_of(request)
        if self._origins and "Origin" in request.headers:
            answer = await self._respond_to_page(request, head)
        else:
            answer = await self._handle(request, head)
        if not answer.prepared and POLICY_HEADER not in answer.headers:
            answer.headers.update(SANDBOX_HEADERS)
        return answer

    async def _respond_to_page(self, request: web.BaseRequest, head: RequestHead) -> web.StreamResponse:
        """Answer a request of a page. Headers allow a listed origin to read the answer."""
        cors_headers = head.page_headers = page_headers(request, self._origins, FACT_PATHS)
        if cors_headers and is_preflight(request):
            refusal = self._guard.refuse(request, self._site.rules)
            answer: web.StreamResponse = refusal or preflight_answer(request)
        else:
            answer = await self._handle(request, head)
        if not answer.prepared:
            answer.headers.update(cors_headers)
        return answer

    async def _handle(self, request: web.BaseRequest, head: RequestHead) -> web.StreamResponse:
        """Check a request, and call the handler for its path and method."""
        rules = self._site.rules
        if head.admitted_rules is not rules or request.version is not HttpVersion11:
            refusal = self._guard.refuse(request, rules)
            if refusal is not None:
                return self._refusals.log(request, refusal)
        handlers = self._verbs.get(head.route)
        is_first = head.route == "" and not head.server
        pass_through = first_pass_through(self._site.pass_throughs) if is_first else None
        endpoint = None if handlers is None or pass_through is not None else self._site.endpoint(head.server)
        if endpoint is None and head.route == "":
            pass_through = pass_through or self._find_pass_through(head.server)
        if pass_through is not None:
            return await self._forward(request, head, pass_through, rules)
        if endpoint is None or handlers is None:
            job_path = self._jobs.parse_path(head.path)
            if job_path is not None:
                return await self._answer_of_job(request, job_path, rules)
            for routes in self._extra_routes:
                if (extra_answer := await routes.answer(request, head.path)) is not None:
                    return extra_answer
            return await self._answer_public_page(request, head)
        if head.admitted_rules is not rules:
            if not rules.enable_mcp:
                return plain_error(404, "MCP is switched off here (enable_mcp)")
            refusal = self._guard.refuse_caller(
                request, rules, head.route in self._query_key_routes, head.key_status
            )
            if refusal is not None:
                return self._refusals.log(request, refusal)
            # An equal head passes without a check as long as the rules are the same.
            head.hide(rules.api_key_header)
            head.admitted_rules, head.forwarded_headers = rules, None
        handler = handlers.get(head.method)
        if handler is None:
            return method_error(request, handlers)
        if refusal_text := endpoint.refusal:
            return self._refusals.log(request, unavailable_error(refusal_text, _is_message(head)))
        access = endpoint.access
        caller: Principal | None = KEY if rules.api_key else OPEN
        if access is not OPEN_ACCESS and access.evaluates_tokens:
            caller = access.recognize(head.bearer)
        if caller is None:
            try:
                caller = await CallerCheck(request, access, rules).identify_by_head(head.method == "POST")
            except RequestRefused as refused:
                return self._refusals.log(request, refused.answer)
        if head.mode:
            try:
                endpoint = self._site.endpoint(endpoint.name, head.mode) or endpoint
            except UnknownMode as error:
                return mode_error(error, _is_message(head))
        answer = await handler(request, endpoint, caller)
        if answer.status >= 400 and isinstance(answer, web.Response):
            self._refusals.log(request, answer)
        return answer

    def _find_pass_through(self, name: str) -> PassThrough | None:
        """Return the pass-through server with that name, or None.

        For an empty name, return the first one, because this core hosts no server.
        """
        pass_throughs = self._site.pass_throughs
        return pass_throughs.get(name) if name else next(iter(pass_throughs.values()), None)

    async def _forward(
        self, request: web.BaseRequest, head: RequestHead, pass_through: PassThrough, rules: Rules
    ) -> web.StreamResponse:
        """Check the key of a request, and forward the request to an upstream server."""
        if not rules.enable_mcp:
            return plain_error(404, "MCP is switched off here (enable_mcp)")
        if head.admitted_rules is not rules:
            refusal = self._guard.refuse_caller(request, rules, status=head.key_status)
            if refusal is not None:
                return self._refusals.log(request, refusal)
            head.hide(rules.api_key_header)
            head.admitted_rules, head.forwarded_headers = rules, None
        try:
            return await self._passing.answer(request, pass_through)
        except RequestRefused as refused:
            return self._refusals.log(request, refused.answer)

    async def _require_caller(self, request: web.BaseRequest, rules: Rules) -> None:
        """Require the API key if one is set, else a valid token for every server that uses tokens.

        Raises: RequestRefused.
        """
        refusal = self._guard.refuse_caller(request, rules)
        if refusal is not None:
            raise RequestRefused(refusal)
        endpoints = [each for each in self._site.endpoints() if each.access.evaluates_tokens]
        if not rules.api_key and endpoints:
            await callers_of_site(request, endpoints, rules, must_pass_all=True)

    async def _answer_of_job(
        self, request: web.BaseRequest, job_path: JobPath, rules: Rules
    ) -> web.StreamResponse:
        """Check the key and the tokens of a request about jobs, and answer it."""
        if not rules.enable_mcp:
            return plain_error(404, "MCP is switched off here (enable_mcp)")
        refusal = self._guard.refuse_caller(request, rules, in_query=job_path.is_socket)
        if refusal is not None:
            return self._refusals.log(request, refusal)
        try:
            callers = await callers_of_site(request, self._site.endpoints(), rules)
        except RequestRefused as refused:
            return self._refusals.log(request, refused.answer)
        return await self._jobs.answer(request, job_path, callers)

    async def _answer_public_page(self, request: web.BaseRequest, head: RequestHead) -> web.Response:
        """Answer a request for a public page, OAuth metadata or a discovery document."""
        path = head.path
        if is_metadata(path):
            return metadata(self._site, request, path)
        if is_discovery(head):
            return discover_server(self._site, request, head)
        handler = FACTS.get(path)
        if handler is None:
            return plain_error(404, await self._not_found_message(request, head))
        if request.method not in ("GET", "HEAD"):
            return method_error(request, ("GET",))
        assert self._listener is not None
        passed_servers = [client.key.server for client in self._passing.clients.clients()]
        may_see_names = partial(self._may_see_names, request)
        lines = [each.front_line for each in self._extra_routes if each.front_line]
        endpoints = [f"{each.path} for {each.clients}" for each in self._dialect_paths if each.clients]
        source = FactSource(
            self._site,
            self._listener,
            len(self._mcp.sessions),
            passed_servers,
            may_see_names,
            endpoints,
            lines,
        )
        return await handler(source)

    async def _may_see_names(self, request: web.BaseRequest) -> bool:
        """Return True if a caller may see names: the caller has the key or a token, or is the operator."""
        rules = self._site.rules
        if not is_identity_required(self._site.endpoints(), rules):
            return True
        if self._site.operator.matches(request.headers.get(OPERATOR_HEADER)):
            return True
        try:
            await self._require_caller(request, rules)
        except RequestRefused:
            return False
        return True

    async def _not_found_message(self, request: web.BaseRequest, head: RequestHead) -> str:
        """Return the error for an unknown path. It lists the servers if the caller may see them."""
        may_see_names = await self._may_see_names(request)
        names = [endpoint.name for endpoint in self._site.endpoints()] if may_see_names else []
        if head.is_dialect:
            names_text = f"; ?server= may be: {', '.join(names)}" if may_see_names else ""
            return f"No server {head.server[:100]!r} here{names_text}"
        paths = [f"/mcp/{name}" for name in names] if may_see_names else ["/mcp/<name>"]
        dialect_paths = [each.path for each in self._dialect_paths if each.clients]
        served_paths = [*paths, *dialect_paths] if self._site.rules.enable_mcp else []
        return f"Nothing at {head.path[:100]}; served: {', '.join([*served_paths, *FACT_PATHS])}"


def _accept_waiting(listening: socket.socket) -> list[socket.socket]:
    """Accept and return the connections that wait on a listening socket."""
    sockets: list[socket.socket] = []
    listening.setblocking(False)
    while True:
        try:
            connection, _ = listening.accept()
        except OSError:
            return sockets
        connection.setblocking(False)
        sockets.append(connection)


def _is_message(head: RequestHead) -> bool:
    """Return True if the request has a JSON-RPC message. Errors must then be JSON-RPC errors."""
    return head.route != "messages" and head.method == "POST"


def require_free_port(host: str, port: int) -> None:
    """Check that this process can listen on a port.

    Raises: PortTaken, or TransportError for an invalid address.
    """
    with suppress(ListeningForbidden):  # HTTP is then served on a Unix socket
        _bind(host, port, 1)[0].close()


def require_free_socket(path: Path) -> None:
    """Check that no other process listens on a Unix socket. Raises: TransportError."""
    if path.is_socket() and not rendezvous.is_stale(str(path)):
        raise TransportError(f"{path} is served by another process")


def _other_processes(site: Site, sessions: HttpSessions) -> OtherProcesses | None:
    if site.shared is None:
        return None
    return next(
        (feature.other_processes(site, sessions) for feature in features_with("other_processes")), None
    )


def _bind(host: str, port: int, tries: int) -> tuple[socket.socket, int]:
    """Listen on `port`, or on the first free one of `tries` ports from there. Return the socket and its port.

    Raises: PortTaken, ListeningForbidden, or TransportError for an invalid address.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for candidate in range(port, min(port + tries, 65536)):
        try:
            sock = socket.socket(family, socket.SOCK_STREAM)
        except PermissionError:
            raise ListeningForbidden(f"listening on {host}:{candidate} is not permitted") from None
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((host, candidate))
            # Two processes can bind the same port before one of them listens. Only listening decides.
            sock.listen(1024)
        except OSError as error:
            sock.close()
            if error.errno in (errno.EACCES, errno.EPERM):
                raise ListeningForbidden(f"listening on {host}:{candidate} is not permitted") from None
            if error.errno != errno.EADDRINUSE:
                raise TransportError(f"cannot listen on {host}:{candidate}: {error.strerror}") from None
            continue
        return sock, sock.getsockname()[1]
    raise PortTaken(f"port {port} on {host} is taken; choose another with --port, 0 takes any free one")


def _bind_unix(path: Path) -> socket.socket:
    """Bind a Unix socket of mode 0600. Delete the file of an ended process. Raises: TransportError."""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise TransportError(f"cannot listen on {path}: {error.strerror}") from None
    require_free_socket(path)
    if path.is_socket():
        path.unlink(missing_ok=True)
    elif path.exists():
        raise TransportError(f"cannot listen on {path}: a file that is not a socket has this path")
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    old_umask = os.umask(0o177)
    try:
        sock.bind(str(path))
    except OSError as error:
        sock.close()
        raise TransportError(f"cannot listen on {path}: {error.strerror or error}") from None
    finally:
        os.umask(old_umask)
    return sock
