"""Checks of requests before they are read, CORS headers, and the log of rejected requests.

The checks cover the form of the request, Host, Origin and the API key. Source: MCP basic/transports of
2025-11-25, basic/security; Fetch, CORS.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Mapping

from aiohttp import web
from aiohttp.http import HttpVersion10, HttpVersion11

from mcpdesk.auth.http_origin import check_host, check_origin, is_listed
from mcpdesk.auth.principal import matches
from mcpdesk.protocol import codec
from mcpdesk.protocol.codec import sendable
from mcpdesk.transports.base import Rules
from mcpdesk.transports.http.request_head import SESSION_HEADER, head_of, peer_of, split_path
from mcpdesk.transports.http.responses import IS_RECORDED, WHY, plain_error

FOREIGN = frozenset({"cross-site", "same-site"})
"""Values of `Sec-Fetch-Site` for requests from other sites' pages. Another port of this machine is the
same site."""


FOR_SCRIPTS = frozenset({"empty", "websocket"})
"""Values of `Sec-Fetch-Dest` for fetch, EventSource and WebSocket, whose responses a browser never
renders."""
PROTOCOL = ("/mcp/", "/v1/", "/jobs", "/ws/")
"""Paths for clients only, besides the endpoints that `split_path` knows."""
SAVED = re.compile(r"(?:/v1)?/jobs/[^/]+/download/?")
"""Paths whose response a browser saves, because it is an attachment."""
INTERPRETED = frozenset(
    {
        "accept", "accept-encoding", "access-control-request-headers", "access-control-request-method",
        "authorization", "baggage", "content-encoding", "content-type", "cookie", "expect", "host",
        "if-none-match", "if-range", "last-event-id", "origin", "range", "sec-fetch-dest", "sec-fetch-mode",
        "sec-fetch-site", "traceparent", "tracestate", "upgrade",
    }
)  # fmt: skip
"""Headers that this program interprets, in lower case, besides all that begin with `Mcp-`."""
NOT_OPENED = "This address is for MCP clients: a browser cannot open or embed it"


class RequestGuard:
    """Checks requests that arrive on one address.

    `bound` and `port` are that address; empty and 0 on a Unix socket.
    """

    def __init__(self, bound: str, port: int = 0) -> None:
        self._bound = bound
        self._port = port

    def refuse(self, request: web.BaseRequest, rules: Rules) -> web.Response | None:
        """Return the error for a malformed request, or one with a forbidden Host or Origin.

        None if the request is valid.
        """
        headers = request.headers
        if request.version not in (HttpVersion10, HttpVersion11):
            return _closing(505, "the request line must contain HTTP/1.1 or HTTP/1.0")
        codings = headers.getall("Transfer-Encoding", ())
        if codings and [each.strip().lower() for each in codings] != ["chunked"]:
            # A proxy in front of us may see the body end at another position.
            return _closing(501, "Transfer-Encoding must be only chunked, or omitted")
        if wrong := _malformed(request, rules.api_key_header.lower()):
            return plain_error(400, wrong)
        host, origin = headers.get("Host"), headers.get("Origin")
        target = head_of(request).authority
        if len(headers.getall("Origin", ())) > 1:
            # A proxy in front of us may have checked the other one.
            return plain_error(400, "Origin is given more than once")
        if origin is None and _is_hidden_page(headers):
            return plain_error(403, "Pages of other sites must not load this", hint="see allowed_origins")
        # A target may contain a host, too. Both must be allowed, because either may be used.
        for name in (host, target) if target else (host,):
            if not (check_host(name, rules.allowed_hosts, self._bound) or _is_probe(request, name)):
                return plain_error(403, f"Host {_shown(name)} is not served here", hint="see allowed_hosts")
        if not check_origin(origin, rules.allowed_origins, host, self._bound, self._port):
            return plain_error(403, f"Origin {_shown(origin)} is not allowed", hint="see allowed_origins")
        if _is_opened(headers) and _is_protocol(request):
            return plain_error(403, NOT_OPENED, hint="open / for the dashboard")
        return None

    def refuse_caller(
        self, request: web.BaseRequest, rules: Rules, in_query: bool = False, status: int = 401
    ) -> web.Response | None:
        """Return the error for a missing or wrong key, with this status, or None if the key is right.

        With `in_query`, `?api_key=` may carry the key, too.
        """
        if not rules.api_key:
            return None
        given = request.headers.get(rules.api_key_header)
        if given is None and in_query:
            given = request.query.get("api_key")
        if matches(given, rules.api_key):
            return None
        state = "missing" if given is None else "wrong"
        refused = "Unauthorized" if status == 401 else "Forbidden"
        return plain_error(status, f"{refused}: {state} key in the header {rules.api_key_header}")


def _is_probe(request: web.BaseRequest, host: str | None) -> bool:
    """Return True for a health probe without a Host, as load balancers send in HTTP/1.0.

    Browsers never do.
    """
    return host is None and request.version == HttpVersion10 and request.path in PROBES


def _malformed(request: web.BaseRequest, key_header: str) -> str:
    """Return the error for a target or header that is not UTF-8, or for an invalid session id; else empty."""
    if not _is_text(request.path_qs):
        return "The request target is not UTF-8; percent-encode other octets"
    for name, value in request.headers.items():
        if value.isascii():
            continue
        lower = name.lower()
        if not _is_text(value) and (lower in INTERPRETED or lower.startswith("mcp-") or lower == key_header):
            return f"The header {name} is not UTF-8"
    session = request.headers.get(SESSION_HEADER, "")
    if not (session.isascii() and session.isprintable() and " " not in session):
        return f"{SESSION_HEADER} must consist of visible ASCII characters"
    return ""


def _is_text(value: str) -> bool:
    """True if all octets of a decoded value were UTF-8."""
    return value.isascii() or not any("\ud800" <= each <= "\udfff" for each in value)


def _closing(status: int, message: str) -> web.Response:
    """Return an error that closes the connection, because the start of the next request is uncertain."""
    answer = plain_error(status, message)
    answer.force_close()
    return answer


def _is_hidden_page(headers: Mapping[str, str]) -> bool:
    """True if another site's page caused this request without an `Origin`, as for an image.

    A link that a person follows is not such a request.
    """
    return headers.get("Sec-Fetch-Site") in FOREIGN and headers.get("Sec-Fetch-Mode") != "navigate"


def _is_opened(headers: Mapping[str, str]) -> bool:
    """True if a browser opens or embeds the response instead of passing it to a script."""
    is_navigation = headers.get("Sec-Fetch-Mode") in ("navigate", "nested-navigate")
    return is_navigation or headers.get("Sec-Fetch-Dest", "empty") not in FOR_SCRIPTS


def _is_protocol(request: web.BaseRequest) -> bool:
    """True if a path is for clients only. Links to a job's files are not, because browsers save them."""
    head = head_of(request)
    if head.way is None and not head.path.startswith(PROTOCOL):
        return False
    is_saved = SAVED.fullmatch(head.path) and request.headers.get("Sec-Fetch-Dest") == "document"
    return not is_saved


def _shown(value: str | None) -> str:
    return "(missing)" if value is None else repr(value[:100])


PROBES = frozenset({"/health", "/ready"})
"""Paths that load balancers poll."""
SHARED = ("/mcp", "/v1/", "/jobs", "/.well-known/")
"""Paths that pages of listed origins may use, besides those of facts. The dashboard is not among them."""
ASKS_FIRST = "Access-Control-Request-Method"
"""Header that distinguishes a browser's preflight request from a client's OPTIONS request."""
METHODS = "GET, POST, DELETE, OPTIONS"
READABLE = "Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate, Content-Disposition"
"""Response headers that a page may read besides the default ones."""
HOLDS_S = 600
"""Time for which a browser may cache a preflight response."""
LONGEST = 2_000
"""Maximum number of characters in the headers a page asks for."""


def page_headers(
    request: web.BaseRequest, origins: tuple[str, ...], fact_paths: tuple[str, ...]
) -> dict[str, str]:
    """Return the CORS headers for a page of a listed origin; empty for all others."""
    origin, path = request.headers.get("Origin"), request.path
    is_shared = path.startswith((*SHARED, *fact_paths)) or split_path(path)[1] is not None
    if origin is None or not is_shared or not is_listed(origin, origins):
        return {}
    return {
        "Access-Control-Allow-Origin": origin,
        "Access-Control-Allow-Credentials": "true",
        "Access-Control-Expose-Headers": READABLE,
        "Vary": "Origin",
    }


def is_question(request: web.BaseRequest) -> bool:
    """Return True for a CORS preflight request."""
    return request.method == "OPTIONS" and ASKS_FIRST in request.headers


def permission(request: web.BaseRequest) -> web.Response:
    """Answer a preflight request, which has neither key nor token."""
    told = {"Access-Control-Allow-Methods": METHODS, "Access-Control-Max-Age": str(HOLDS_S)}
    wanted = request.headers.get("Access-Control-Request-Headers", "")
    if wanted and len(wanted) <= LONGEST:
        told["Access-Control-Allow-Headers"] = wanted
    if request.headers.get("Access-Control-Request-Private-Network") == "true":
        told["Access-Control-Allow-Private-Network"] = "true"
    return web.Response(status=204, headers=told)


LOGGERS = {status: logging.getLogger("mcpdesk.auth") for status in (401, 403, 503)} | {
    status: logging.getLogger("mcpdesk.http") for status in (400, 404, 406, 413, 415)
}
"""Loggers by status. These refusals are logged because the traffic does not show them."""
SECOND_S = 1.0
MAX_A_SECOND = 5
"""Maximum number of causes logged in one second, so that a retrying client cannot fill the log."""


class RefusalLog:
    """Logs rejected requests of one listener: one per second and cause, then the number of the others.

    Used on one loop.
    """

    def __init__(self) -> None:
        self._left_out = 0
        self._counts: dict[tuple[int, str, str], int] = {}
        """Number of omitted refusals of this second, by cause."""
        self._ending: asyncio.TimerHandle | None = None
        """Timer that ends this second, or None while nothing is counted."""

    def log(self, request: web.BaseRequest, answer: web.Response) -> web.Response:
        """Log and return an answer. Only refusals are logged, one per cause and second."""
        logger = LOGGERS.get(answer.status)
        if logger is None or IS_RECORDED in answer:
            return answer
        if self._ending is None:
            self._ending = asyncio.get_running_loop().call_later(SECOND_S, self.flush)
        reason, peer = _reason(answer), sendable(peer_of(request))
        # Temporary failures concern all clients alike.
        cause = answer.status, reason, "" if answer.status == 503 else peer
        if cause in self._counts:
            self._counts[cause] += 1
        elif len(self._counts) == MAX_A_SECOND:
            self._left_out += 1
        else:
            self._counts[cause] = 0
            line = sendable(head_of(request).line.removesuffix(" HTTP/1.1")[:200])
            logger.warning("refused %s from %s: %d %s", line, peer, answer.status, reason)
        return answer

    def flush(self) -> None:
        """Log the number of refusals that were omitted in this second, and begin the next one."""
        if self._ending is not None:
            self._ending.cancel()
            self._ending = None
        for (status, reason, _), count in self._counts.items():
            if count:
                LOGGERS[status].warning("refused %d more requests: %d %s", count, status, reason)
        if self._left_out:
            LOGGERS[403].warning("refused %d more requests for other reasons", self._left_out)
        self._counts.clear()
        self._left_out = 0


def _reason(answer: web.Response) -> str:
    """Return the text of an HTTP or JSON-RPC error, with the requested unknown value."""
    if not isinstance(answer.body, bytes):
        return ""
    error = codec.decode(answer.body).get("error", "")
    if isinstance(error, dict):
        data = error.get("data")
        asked = data.get("requested") if isinstance(data, dict) else None
        error = f"{error.get('message')}: {asked}" if asked else error.get("message")
    reason = str(error)[:200]
    return f"{reason} ({answer[WHY]})" if WHY in answer else reason
