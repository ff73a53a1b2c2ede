"""Checks of requests before their body is read, CORS headers, and the log of rejected requests.

The form of the request, Host, Origin and the API key are checked. Source: MCP basic/transports of 2025-11-25,
basic/security; Fetch, CORS.
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
from mcpdesk.transports.http.responses import IS_RECORDED, REASON_KEY, plain_error

OTHER_SITE_VALUES = frozenset({"cross-site", "same-site"})
"""Values of `Sec-Fetch-Site` for requests from pages of others. Two ports of one machine are `same-site`."""
SCRIPT_DESTINATIONS = frozenset({"empty", "websocket"})
"""Values of `Sec-Fetch-Dest` for fetch, EventSource and WebSocket. Browsers never display their responses."""
PROTOCOL_PATHS = ("/mcp/", "/v1/", "/jobs", "/ws/")
"""Paths for clients only, besides the endpoints that `split_path` knows."""
DOWNLOAD_PATH = re.compile(r"(?:/v1)?/jobs/[^/]+/download/?")
"""Paths of attachments, which a browser saves."""
INTERPRETED_HEADERS = frozenset(
    {
        "accept", "accept-encoding", "access-control-request-headers", "access-control-request-method",
        "authorization", "baggage", "content-encoding", "content-type", "cookie", "expect", "host",
        "if-none-match", "if-range", "last-event-id", "origin", "range", "sec-fetch-dest", "sec-fetch-mode",
        "sec-fetch-site", "traceparent", "tracestate", "upgrade",
    }
)  # fmt: skip
"""Headers that this program interprets, in lower case, in addition to those that begin with `Mcp-`."""
CLIENTS_ONLY = "This address is for MCP clients: a browser cannot open or embed it"


class RequestGuard:
    """Checks the requests that arrive at one address.

    `host` and `port` are this address. On a Unix socket, `host` is empty and `port` is 0.
    """

    def __init__(self, host: str, port: int = 0) -> None:
        self._host = host
        self._port = port

    def refuse(self, request: web.BaseRequest, rules: Rules) -> web.Response | None:
        """Return the error for a malformed request or a forbidden Host or Origin, or None."""
        headers = request.headers
        if request.version not in (HttpVersion10, HttpVersion11):
            return _closing_error(505, "the request line must contain HTTP/1.1 or HTTP/1.0")
        codings = headers.getall("Transfer-Encoding", ())
        if codings and [each.strip().lower() for each in codings] != ["chunked"]:
            # A proxy in front of this server might find a different end of the body.
            return _closing_error(501, "Transfer-Encoding must be only chunked, or omitted")
        if fault := _malformed(request, rules.api_key_header.lower()):
            return plain_error(400, fault)
        host, origin = headers.get("Host"), headers.get("Origin")
        target = head_of(request).authority
        if len(headers.getall("Origin", ())) > 1:
            # A proxy in front of this server might have checked the other value.
            return plain_error(400, "Origin is given more than once")
        if origin is None and _is_hidden_page(headers):
            return plain_error(403, "Pages of other sites must not load this", hint="see allowed_origins")
        # The request target may also contain a host. Both must be allowed, because either may be used.
        for name in (host, target) if target else (host,):
            if not (check_host(name, rules.allowed_hosts, self._host) or _is_probe(request, name)):
                return plain_error(403, f"Host {_quoted(name)} is not served here", hint="see allowed_hosts")
        if not check_origin(origin, rules.allowed_origins, host, self._host, self._port):
            return plain_error(403, f"Origin {_quoted(origin)} is not allowed", hint="see allowed_origins")
        if _is_displayed(headers) and _is_protocol(request):
            return plain_error(403, CLIENTS_ONLY, hint="open / for the dashboard")
        return None

    def refuse_caller(
        self, request: web.BaseRequest, rules: Rules, in_query: bool = False, status: int = 401
    ) -> web.Response | None:
        """Return the error for a missing or wrong key, with this status, or None if the key is right.

        `in_query` allows the key in `?api_key=` as well.
        """
        if not rules.api_key:
            return None
        sent_key = request.headers.get(rules.api_key_header)
        if sent_key is None and in_query:
            sent_key = request.query.get("api_key")
        if matches(sent_key, rules.api_key):
            return None
        state = "missing" if sent_key is None else "wrong"
        status_phrase = "Unauthorized" if status == 401 else "Forbidden"
        return plain_error(status, f"{status_phrase}: {state} key in the header {rules.api_key_header}")


def _is_probe(request: web.BaseRequest, host: str | None) -> bool:
    """Return True for a health probe without a Host, as load balancers send over HTTP/1.0.

    Browsers always send a Host.
    """
    return host is None and request.version == HttpVersion10 and request.path in PROBES


def _malformed(request: web.BaseRequest, key_header: str) -> str:
    """Return an error message for a target or header that is not UTF-8, or an invalid session id, else ""."""
    if not _is_text(request.path_qs):
        return "The request target is not UTF-8; percent-encode other octets"
    for name, value in request.headers.items():
        if value.isascii():
            continue
        lower_name = name.lower()
        is_mcp_or_key = lower_name.startswith("mcp-") or lower_name == key_header
        if (lower_name in INTERPRETED_HEADERS or is_mcp_or_key) and not _is_text(value):
            return f"The header {name} is not UTF-8"
    session = request.headers.get(SESSION_HEADER, "")
    if not (session.isascii() and session.isprintable() and " " not in session):
        return f"{SESSION_HEADER} must consist of visible ASCII characters"
    return ""


def _is_text(value: str) -> bool:
    """Return True if a decoded value was valid UTF-8."""
    return value.isascii() or not any("\ud800" <= each <= "\udfff" for each in value)


def _closing_error(status: int, message: str) -> web.Response:
    """Return an error that closes the connection, because the start of the next request is unknown."""
    answer = plain_error(status, message)
    answer.force_close()
    return answer


def _is_hidden_page(headers: Mapping[str, str]) -> bool:
    """Return True if a page of another site caused this request without an `Origin`, such as for an image.

    A link that a person follows does not count.
    """
    return headers.get("Sec-Fetch-Site") in OTHER_SITE_VALUES and headers.get("Sec-Fetch-Mode") != "navigate"


def _is_displayed(headers: Mapping[str, str]) -> bool:
    """Return True if a browser displays or embeds the response, so that no script receives it."""
    is_navigation = headers.get("Sec-Fetch-Mode") in ("navigate", "nested-navigate")
    return is_navigation or headers.get("Sec-Fetch-Dest", "empty") not in SCRIPT_DESTINATIONS


def _is_protocol(request: web.BaseRequest) -> bool:
    """Return True if only clients use the path. Browsers may save files of jobs, so these do not count."""
    head = head_of(request)
    if head.route is None and not head.path.startswith(PROTOCOL_PATHS):
        return False
    is_saved = DOWNLOAD_PATH.fullmatch(head.path) and request.headers.get("Sec-Fetch-Dest") == "document"
    return not is_saved


def _quoted(value: str | None) -> str:
    return "(missing)" if value is None else repr(value[:100])


PROBES = frozenset({"/health", "/ready"})
"""Paths that load balancers poll."""
CROSS_ORIGIN_PATHS = ("/mcp", "/v1/", "/jobs", "/.well-known/")
"""Paths that pages of listed origins may use, in addition to those with facts. Not the dashboard."""
PREFLIGHT_HEADER = "Access-Control-Request-Method"
"""Header that distinguishes the preflight request of a browser from a client's OPTIONS request."""
METHODS = "GET, POST, DELETE, OPTIONS"
EXPOSED_HEADERS = "Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate, Content-Disposition"
"""Response headers that a page may read, in addition to the default ones."""
PREFLIGHT_CACHE_S = 600
"""Seconds for which a browser may cache a preflight response."""
MAX_HEADER_LIST_LENGTH = 2_000
"""Maximum length in characters of the list of headers that a page asks for."""


def page_headers(
    request: web.BaseRequest, origins: tuple[str, ...], fact_paths: tuple[str, ...]
) -> dict[str, str]:
    """Return the CORS headers for a page of an allowed origin, or an empty dict for other requests."""
    origin, path = request.headers.get("Origin"), request.path
    is_shared = path.startswith((*CROSS_ORIGIN_PATHS, *fact_paths)) or split_path(path)[1] is not None
    if origin is None or not is_shared or not is_listed(origin, origins):
        return {}
    return {
        "Access-Control-Allow-Origin": origin,
        "Access-Control-Allow-Credentials": "true",
        "Access-Control-Expose-Headers": EXPOSED_HEADERS,
        "Vary": "Origin",
    }


def is_preflight(request: web.BaseRequest) -> bool:
    """Return True for a CORS preflight request."""
    return request.method == "OPTIONS" and PREFLIGHT_HEADER in request.headers


def preflight_answer(request: web.BaseRequest) -> web.Response:
    """Answer a preflight request. It contains neither key nor token."""
    headers = {"Access-Control-Allow-Methods": METHODS, "Access-Control-Max-Age": str(PREFLIGHT_CACHE_S)}
    requested_headers = request.headers.get("Access-Control-Request-Headers", "")
    if requested_headers and len(requested_headers) <= MAX_HEADER_LIST_LENGTH:
        headers["Access-Control-Allow-Headers"] = requested_headers
    if request.headers.get("Access-Control-Request-Private-Network") == "true":
        headers["Access-Control-Allow-Private-Network"] = "true"
    return web.Response(status=204, headers=headers)


_AUTH_LOG, _HTTP_LOG = logging.getLogger("mcpdesk.auth"), logging.getLogger("mcpdesk.http")
LOGGERS = dict.fromkeys((401, 403, 503), _AUTH_LOG) | dict.fromkeys((400, 404, 406, 413, 415), _HTTP_LOG)
"""Loggers by status. The traffic does not contain these refusals, so they are logged."""
SECOND_S = 1.0
MAX_A_SECOND = 5
"""Maximum number of causes logged per second. A client that retries cannot fill the log."""


class RefusalLog:
    """Log of rejected requests of one listener.

    In each second, the first request of each cause is logged, and later the number of the others. Use it on
    one loop.
    """

    def __init__(self) -> None:
        self._uncounted_causes = 0
        self._counts: dict[tuple[int, str, str], int] = {}
        """Number of refusals in this second that were not logged, by cause."""
        self._flush_timer: asyncio.TimerHandle | None = None
        """Timer for the end of this second, or None."""

    def log(self, request: web.BaseRequest, answer: web.Response) -> web.Response:
        """Return the answer. If it is a refusal, log the request, at most once per cause and second."""
        logger = LOGGERS.get(answer.status)
        if logger is None or IS_RECORDED in answer:
            return answer
        if self._flush_timer is None:
            self._flush_timer = asyncio.get_running_loop().call_later(SECOND_S, self.flush)
        reason, peer = _reason(answer), sendable(peer_of(request))
        # A temporary failure concerns all clients.
        cause = answer.status, reason, "" if answer.status == 503 else peer
        if cause in self._counts:
            self._counts[cause] += 1
        elif len(self._counts) == MAX_A_SECOND:
            self._uncounted_causes += 1
        else:
            self._counts[cause] = 0
            line = sendable(head_of(request).line.removesuffix(" HTTP/1.1")[:200])
            logger.warning("refused %s from %s: %d %s", line, peer, answer.status, reason)
        return answer

    def flush(self) -> None:
        """Log the number of refusals that were not logged in this second."""
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None
        for (status, reason, _), count in self._counts.items():
            if count:
                LOGGERS[status].warning("refused %d more requests: %d %s", count, status, reason)
        if self._uncounted_causes:
            LOGGERS[403].warning("refused %d more requests for other reasons", self._uncounted_causes)
        self._counts.clear()
        self._uncounted_causes = 0


def _reason(answer: web.Response) -> str:
    """Return the text of an HTTP or JSON-RPC error, with the unknown value that was requested."""
    if not isinstance(answer.body, bytes):
        return ""
    error = codec.decode(answer.body).get("error", "")
    if isinstance(error, dict):
        data = error.get("data")
        requested = data.get("requested") if isinstance(data, dict) else None
        error = f"{error.get('message')}: {requested}" if requested else error.get("message")
    reason = str(error)[:200]
    return f"{reason} ({answer[REASON_KEY]})" if REASON_KEY in answer else reason
