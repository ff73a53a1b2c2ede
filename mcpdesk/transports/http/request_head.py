"""Parsed heads of requests (request line and headers). Equal heads are parsed only once."""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from aiohttp import web
from multidict import CIMultiDictProxy

from mcpdesk.protocol.headers import ROUTING_HEADERS
from mcpdesk.recorder.masking import SECRET_HEADERS, mask_header, mask_text
from mcpdesk.recorder.record import HttpNote
from mcpdesk.transports.http.responses import JSON, STREAM, accepted

if TYPE_CHECKING:
    from mcpdesk.transports.base import Rules

SESSION_HEADER = "Mcp-Session-Id"
VERSION_HEADER = "MCP-Protocol-Version"
MAX_CACHED_HEAD_BYTES = 4 << 10
"""Maximum size in bytes of headers that are cached."""
MAX_CACHED_HEADS = 512
"""Maximum number of cached heads of one listener."""
DIALECT = "?"
"""First character of `route` if the path belongs to a dialect; the path follows it. No real path has it."""
QUERY_TOKEN = "access_token"
TRUE_VALUES = frozenset({"1", "true", "yes", "on"})
_ABSOLUTE = re.compile(r"https?://([^/?#]+)(.*)", re.IGNORECASE | re.DOTALL)


class RequestHead:
    """Request line and headers, and all values computed from them."""

    def __init__(self, request: web.BaseRequest, dialect_paths: Collection[str] = ()) -> None:
        """`dialect_paths` are the paths of clients that do not send standard MCP (`server/calls/dialect`)."""
        headers = request.headers
        self.method, self.raw_target = request.method, request.raw_path
        self.line = f"{self.method} {self.raw_target} HTTP/1.1"
        if "?" in self.raw_target or "=" in self.raw_target or "%" in self.raw_target:
            self.line = mask_text(self.line)
        self.extra_secret_header = ""
        """Name of another header whose value must not be recorded."""
        self.masked_headers = _masked_headers(headers)
        """Headers to record, without keys and tokens."""
        self.http_note = HttpNote(self.line, self.masked_headers)
        self.headers = headers
        """Headers of the request. Equal heads share this object, so results may be cached by its identity."""
        self.authority, target = _target(self.raw_target)
        """Host and port in the target if it is in absolute form, else empty."""
        self.path, _, query = target.partition("?")
        self.server, self.route = split_path(self.path)
        """Name of the server in the path, and the path after it. `route` is None for other paths."""
        self.is_dialect = self.path.rstrip("/") in dialect_paths
        """True for a path of a dialect."""
        self.content_type = headers.get("Content-Type", "")
        """Content type, or empty."""
        self.accepted = accepted(headers.get("Accept", ""))
        self.lists_event_stream = STREAM in headers.get("Accept", "").lower()
        """True if `Accept` lists event streams, and not only a wildcard."""
        self.version = headers.get(VERSION_HEADER, "")
        self.session = headers.get(SESSION_HEADER)
        self.body_size = _body_size(headers)
        """Size of the body in bytes, or None if the head does not state it."""
        self.is_plain = "Content-Encoding" not in headers and "Expect" not in headers
        """True if the body is not encoded and the client does not wait for `100 Continue`."""
        self.page_headers: dict[str, str] = {}
        """CORS headers for all answers to this request."""
        query_values = parse_qs(query) if query else {}
        self.bearer, self.token_error = _token(headers, QUERY_TOKEN in query_values)
        """Token in the `Authorization` header, and the error if the token is in a wrong place or repeated."""
        if self.is_dialect:
            self.server, self.route = query_values.get("server", ("",))[0], DIALECT + self.path.rstrip("/")
        self.wants_stream = not TRUE_VALUES.isdisjoint(query_values.get("stream", ()))
        self.mode = query_values.get("mode", ("",))[0]
        """Requested mode of the server. Empty for none."""
        repeated = [name for name in ROUTING_HEADERS if len(headers.getall(name, ())) > 1]
        self.repeated = repeated[0] if repeated else ""
        """Routing header that is repeated, or empty. A proxy may have used the other value."""
        self.admitted_rules: Rules | None = None
        """Rules under which an equal request was admitted, or None."""
        self.forwarded_headers: dict[str, str] | None = None
        """Headers to forward upstream under `admitted_rules`, or None before they are computed."""
        if self.content_type != JSON and self.content_type.partition(";")[0].strip().lower() == JSON:
            self.content_type = JSON

    @property
    def key_status(self) -> int:
        """Status for a missing key. On the protocol's endpoints, 401 would make clients start OAuth."""
        return 401 if self.is_dialect else 403

    def hide(self, name: str) -> None:
        """Mask the value of this header in records from now on."""
        if name != self.extra_secret_header and name in self.headers:
            self.extra_secret_header = name
            self.masked_headers = _masked_headers(self.headers, name)
            self.http_note = HttpNote(self.line, self.masked_headers)


HEAD = web.RequestKey("head", RequestHead)


class RequestHeads:
    """Cache of heads by method, path and headers. The oldest one is removed first."""

    def __init__(self, dialect_paths: Collection[str] = ()) -> None:
        self._dialect_paths = dialect_paths
        self._heads: dict[tuple[str, str, tuple[tuple[bytes, bytes], ...]], RequestHead] = {}

    def __len__(self) -> int:
        return len(self._heads)

    def find(self, request: web.BaseRequest) -> RequestHead:
        """Return the head of a request. Equal requests share one object."""
        key = (request.method, request.raw_path, request.raw_headers)
        head = self._heads.get(key)
        if head is None:
            head = RequestHead(request, self._dialect_paths)
            if sum([len(name) + len(value) for name, value in key[2]]) <= MAX_CACHED_HEAD_BYTES:
                if len(self._heads) >= MAX_CACHED_HEADS:
                    del self._heads[next(iter(self._heads))]
                self._heads[key] = head
        return head


def head_of(request: web.BaseRequest) -> RequestHead:
    """Return the parsed head of a request."""
    return request[HEAD]


def peer_of(request: web.BaseRequest) -> str:
    """Return the client's `User-Agent`, or else its address. Used until the client sends its name."""
    agent = head_of(request).headers.get("User-Agent", "").partition(" ")[0].replace("/", " ")
    return agent[:60] or (request.remote or "unix")


def _masked_headers(
    headers: CIMultiDictProxy[str], extra_secret_header: str = ""
) -> tuple[tuple[str, str], ...]:
    """Return the headers to record. Secrets, tokens, and keys in URLs are masked."""
    extra_name = extra_secret_header.lower()
    masked: list[tuple[str, str]] = []
    for name, value in headers.items():
        lower_name = name.lower()
        if lower_name in SECRET_HEADERS or lower_name == extra_name:
            value = mask_header(value)
        elif "=" in value or "%" in value:
            value = mask_text(value)
        masked.append((str(name), value))
    return tuple(masked)


def _token(headers: CIMultiDictProxy[str], is_in_query: bool) -> tuple[str | None, str]:
    """Return the bearer token of a request, and the error if the token is in a wrong place or repeated.

    Source: RFC 6750, 2.
    """
    header_values = headers.getall("Authorization", ())
    tokens = [
        value[6:].strip()
        for value in header_values
        if value[:6].lower() == "bearer" and value[6:7] in ("", " ")
    ]
    if len(header_values) > 1 and tokens:
        return None, "Authorization is given more than once"
    if is_in_query:
        return None, f"a token must not be in the URL ({QUERY_TOKEN})"
    return (tokens[0] if tokens else None), ""


def _body_size(headers: CIMultiDictProxy[str]) -> int | None:
    if "Transfer-Encoding" in headers or "Upgrade" in headers:
        return None
    length = headers.get("Content-Length", "0")
    return int(length) if length.isascii() and length.isdigit() else None


def _target(raw_target: str) -> tuple[str, str]:
    """Split a target into authority, and path with query. Source: RFC 9112, 3.2.2."""
    match = None if raw_target.startswith("/") else _ABSOLUTE.fullmatch(raw_target)
    if match is None:
        return "", raw_target
    return match[1], match[2] if match[2].startswith("/") else f"/{match[2]}"


def split_path(path: str) -> tuple[str, str | None]:
    """Return the name of the server in a path, and the path after the name.

    The second value is None if the path is not that of an endpoint.
    `/<name>/mcp` is the same as `/mcp/<name>`, because some clients recognize an endpoint by the end of its
    URL.
    """
    if path == "/mcp":
        return "", ""
    if path.startswith("/mcp/"):
        name, _, route = path[5:].rstrip("/").partition("/")
        return name, route
    stripped_path = path.rstrip("/")
    name, slash, last_part = stripped_path[1:].partition("/")
    return (name, "") if slash and last_part == "mcp" else ("", None)
