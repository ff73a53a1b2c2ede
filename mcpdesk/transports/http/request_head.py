"""What the head of a request says. It is worked out once for equal heads: clients repeat theirs."""

from __future__ import annotations

import re
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
MAX_SHARED = 4 << 10
"""Bytes of headers beyond which a head is not kept for the next request with the same."""
MAX_HEADS = 512
"""Heads kept of one listener."""
GATEWAY, GATEWAY_SOCKET = "?v1", "?v1/ws"
"""The `way` of the gateway dialect's paths. No real path can have these values."""
GATEWAY_WAYS = {"/v1/mcp": GATEWAY, "/v1/ws/mcp": GATEWAY_SOCKET}
IN_QUERY = "access_token"
SWITCHED_ON = frozenset({"1", "true", "yes", "on"})
_ABSOLUTE = re.compile(r"https?://([^/?#]+)(.*)", re.IGNORECASE | re.DOTALL)


class RequestHead:
    """The request line and headers, and everything derived from them."""

    def __init__(self, request: web.BaseRequest) -> None:
        headers = request.headers
        self.method, self.asked = request.method, request.raw_path
        self.line = f"{self.method} {self.asked} HTTP/1.1"
        if "?" in self.asked or "=" in self.asked or "%" in self.asked:
            self.line = mask_text(self.line)
        self.also_secret = ""
        """A further header whose value is not recorded."""
        self.noted = _noted(headers)
        """The headers as they are recorded: without keys and tokens."""
        self.said = HttpNote(self.line, self.noted)
        self.carried = headers
        """The headers. Equal heads share this object, so that results can be kept by its identity."""
        self.authority, target = _target(self.asked)
        """Host and port of a target in absolute form; empty for the usual form."""
        self.path, _, query = target.partition("?")
        self.server, self.way = place_of(self.path)
        """The server in the path and what follows its name; `way` is None when the path is no endpoint's."""
        self.content_type = headers.get("Content-Type", "")
        """Empty: none was given."""
        self.accepted = accepted(headers.get("Accept", ""))
        self.names_stream = STREAM in headers.get("Accept", "").lower()
        """Whether `Accept` names event streams, not only a wildcard."""
        self.version = headers.get(VERSION_HEADER, "")
        self.session = headers.get(SESSION_HEADER)
        self.body_size = _body_size(headers)
        """Bytes of the body; None when the head does not say."""
        self.is_plain = "Content-Encoding" not in headers and "Expect" not in headers
        """Whether the body is neither encoded nor held back until we answer `100 Continue`."""
        self.page_headers: dict[str, str] = {}
        """CORS headers for every answer to it."""
        asked = parse_qs(query) if query else {}
        self.bearer, self.misplaced = _token(headers, IN_QUERY in asked)
        """The token of its `Authorization` header, and what is wrong with how it was sent."""
        if self.way in (GATEWAY, GATEWAY_SOCKET):
            self.server = asked.get("server", ("",))[0]
        self.wants_stream = not SWITCHED_ON.isdisjoint(asked.get("stream", ()))
        self.mode = asked.get("mode", ("",))[0]
        """The mode of the server it asks for; empty: none."""
        repeated = [name for name in ROUTING_HEADERS if len(headers.getall(name, ())) > 1]
        self.repeated = repeated[0] if repeated else ""
        """A routing header given more than once: intermediaries may have read the other one."""
        self.passed: Rules | None = None
        """The rules under which such a request was let in."""
        self.sent_on: dict[str, str] | None = None
        """The headers that go on to a server elsewhere under these rules, once that is known."""
        if self.content_type != JSON and self.content_type.partition(";")[0].strip().lower() == JSON:
            self.content_type = JSON

    @property
    def key_status(self) -> int:
        """The status for a missing key. On the protocol's own endpoints a 401 would start OAuth."""
        return 401 if self.way in (GATEWAY, GATEWAY_SOCKET) else 403

    def hide(self, name: str) -> None:
        """Hide the value of this header in the record from now on."""
        if name != self.also_secret and name in self.carried:
            self.also_secret = name
            self.noted = _noted(self.carried, name)
            self.said = HttpNote(self.line, self.noted)


HEAD = web.RequestKey("head", RequestHead)


class RequestHeads:
    """Heads by their method, path and headers, the oldest forgotten first: clients repeat theirs."""

    def __init__(self) -> None:
        self._heads: dict[tuple[str, str, tuple[tuple[bytes, bytes], ...]], RequestHead] = {}

    def __len__(self) -> int:
        return len(self._heads)

    def find(self, request: web.BaseRequest) -> RequestHead:
        """Return the head of a request, the same value for equal ones."""
        key = (request.method, request.raw_path, request.raw_headers)
        head = self._heads.get(key)
        if head is None:
            head = RequestHead(request)
            if sum([len(name) + len(value) for name, value in key[2]]) <= MAX_SHARED:
                if len(self._heads) >= MAX_HEADS:
                    del self._heads[next(iter(self._heads))]
                self._heads[key] = head
        return head


def head_of(request: web.BaseRequest) -> RequestHead:
    """Return what the head of a request says."""
    return request[HEAD]


def peer_of(request: web.BaseRequest) -> str:
    """Return what the client calls itself, or its address, until it introduces itself."""
    agent = head_of(request).carried.get("User-Agent", "").partition(" ")[0].replace("/", " ")
    return agent[:60] or (request.remote or "unix")


def _noted(headers: CIMultiDictProxy[str], also_secret: str = "") -> tuple[tuple[str, str], ...]:
    """Return the headers as they are recorded, with secrets, tokens and keys in addresses masked."""
    more = also_secret.lower()
    return tuple(
        [
            (
                str(name),
                mask_header(value)
                if (low := name.lower()) in SECRET_HEADERS or low == more
                else mask_text(value)
                if "=" in value or "%" in value
                else value,
            )
            for name, value in headers.items()
        ]
    )


def _token(headers: CIMultiDictProxy[str], is_in_query: bool) -> tuple[str | None, str]:
    """Return the bearer token of a request, and what is wrong with how it was sent. Source: RFC 6750, 2."""
    given = headers.getall("Authorization", ())
    tokens = [
        value[6:].strip() for value in given if value[:6].lower() == "bearer" and value[6:7] in ("", " ")
    ]
    if len(given) > 1 and tokens:
        return None, "Authorization is given more than once"
    if is_in_query:
        return None, f"a token does not belong into the address ({IN_QUERY})"
    return (tokens[0] if tokens else None), ""


def _body_size(headers: CIMultiDictProxy[str]) -> int | None:
    if "Transfer-Encoding" in headers or "Upgrade" in headers:
        return None
    length = headers.get("Content-Length", "0")
    return int(length) if length.isascii() and length.isdigit() else None


def _target(asked: str) -> tuple[str, str]:
    """Split a target into authority and path with query; proxies are sent both. Source: RFC 9112, 3.2.2."""
    found = None if asked.startswith("/") else _ABSOLUTE.fullmatch(asked)
    if found is None:
        return "", asked
    return found[1], found[2] if found[2].startswith("/") else f"/{found[2]}"


def place_of(path: str) -> tuple[str, str | None]:
    """Return the server a path names and what follows its name, which is None when it is no endpoint's.

    `/<name>/mcp` is the same as `/mcp/<name>`: some clients know an endpoint by how its address ends.
    """
    if path == "/mcp":
        return "", ""
    if path.startswith("/mcp/"):
        name, _, way = path[5:].rstrip("/").partition("/")
        return name, way
    bare = path.rstrip("/")
    if bare in GATEWAY_WAYS:
        return "", GATEWAY_WAYS[bare]
    name, slash, end = bare[1:].partition("/")
    return (name, "") if slash and end == "mcp" else ("", None)
