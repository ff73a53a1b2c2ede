"""What the head of a request says, read once: clients that keep their connection repeat most of it."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import parse_qs

from aiohttp import web
from multidict import CIMultiDictProxy

from mcpdesk.protocol.headers import ROUTING_HEADERS
from mcpdesk.recorder.masking import SECRET_HEADERS, mask_header, mask_text
from mcpdesk.recorder.record import Said
from mcpdesk.transports.http.answers import JSON, STREAM, accepted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcpdesk.transports.base import Rules

SESSION_HEADER = "Mcp-Session-Id"
VERSION_HEADER = "MCP-Protocol-Version"
LONGEST_SHARED = 4 << 10
"""Characters of headers beyond which they are not kept for the next client that sends the same."""
GATEWAY, GATEWAY_SOCKET = "?v1", "?v1/ws"
"""What stands for the way where the path is one of the dialect's: no path can say that."""
GATEWAY_WAYS = {"/v1/mcp": GATEWAY, "/v1/ws/mcp": GATEWAY_SOCKET}
IN_QUERY = "access_token"
SWITCHED_ON = frozenset({"1", "true", "yes", "on"})
_ABSOLUTE = re.compile(r"https?://([^/?#]+)(.*)", re.IGNORECASE | re.DOTALL)


@lru_cache(maxsize=64)
def _shared(line: str, headers: tuple[tuple[str, str], ...]) -> Said:
    """Line and headers as the recorder takes them, one value for all connections of like clients."""
    return Said(line, headers)


class Head:
    """Request line and headers. `passed`: the rules under which a request with this head may be answered."""

    def __init__(self, request: web.BaseRequest) -> None:
        headers = request.headers
        self.method, self.asked = request.method, request.raw_path
        self.line = f"{self.method} {self.asked} HTTP/1.1"
        if "?" in self.asked or "=" in self.asked or "%" in self.asked:
            self.line = mask_text(self.line)
        self.also_secret = ""
        """A header whose value is not to be recorded, besides the usual ones."""
        self.noted = _noted(headers)
        """The headers as they are recorded: without keys and tokens."""
        self.said = _said(self.line, self.noted)
        self.carried = headers
        """The same object for all requests with this head: what was compared once need not be again."""
        self.authority, target = _target(self.asked)
        """The name a target in absolute form is addressed to; empty for the usual form."""
        self.path, _, query = target.partition("?")
        self.server, self.way = place_of(self.path)
        """Name of a server and what follows it in the path; None: the path is no endpoint's."""
        self.content_type = headers.get("Content-Type", "")
        """Empty: none was given."""
        self.accepted = accepted(headers.get("Accept", ""))
        self.names_stream = STREAM in headers.get("Accept", "").lower()
        """Whether it is said in so many words that a stream is taken."""
        self.version = headers.get(VERSION_HEADER, "")
        self.session = headers.get(SESSION_HEADER)
        self.is_plain = "Content-Encoding" not in headers and "Expect" not in headers
        """Whether its body is what follows, without ado."""
        asked = parse_qs(query) if query else {}
        self.bearer, self.misplaced = _token(headers, IN_QUERY in asked)
        """The token of its `Authorization`, and what is wrong with how it was sent."""
        if self.way in (GATEWAY, GATEWAY_SOCKET):
            self.server = asked.get("server", ("",))[0]
        self.wants_stream = not SWITCHED_ON.isdisjoint(asked.get("stream", ()))
        self.mode = asked.get("mode", ("",))[0]
        """The mode it asks to see the server in; empty: as a whole."""
        repeated = [name for name in ROUTING_HEADERS if len(headers.getall(name, ())) > 1]
        self.repeated = repeated[0] if repeated else ""
        """A routing header given more than once: intermediaries may have read the other one."""
        self.passed: Rules | None = None
        if self.content_type != JSON and self.content_type.partition(";")[0].strip().lower() == JSON:
            self.content_type = JSON

    @property
    def key_status(self) -> int:
        """What who has no key is answered: on the protocol's own endpoints a 401 would start OAuth."""
        return 401 if self.way in (GATEWAY, GATEWAY_SOCKET) else 403

    def hide(self, name: str) -> None:
        """Record no value of this header from now on."""
        if name != self.also_secret and name in self.carried:
            self.also_secret = name
            self.noted = _noted(self.carried, name)
            self.said = Said(self.line, self.noted)

    def like(self, session: str, changes: Iterable[tuple[int, str]]) -> Head:
        """The head of a request that differs in its length and its session alone.

        `changes` are places of headers and their values.
        """
        head = Head.__new__(Head)
        head.__dict__ = self.__dict__.copy()
        noted, before, carried = list(self.noted), self.carried, self.carried.copy()
        for place, value in changes:
            name, shown = noted[place]
            if shown == before[name]:
                noted[place] = name, value
            carried[name] = value
        head.carried, head.noted, head.session = CIMultiDictProxy(carried), tuple(noted), session or None
        head.said = (Said if session else _said)(self.line, head.noted)
        return head


def _said(line: str, noted: tuple[tuple[str, str], ...]) -> Said:
    is_short = sum([len(name) + len(value) for name, value in noted]) <= LONGEST_SHARED
    return (_shared if is_short else Said)(line, noted)


def _noted(headers: CIMultiDictProxy[str], also_secret: str = "") -> tuple[tuple[str, str], ...]:
    """Headers as they are recorded: secret ones keep their name, a token its scheme, addresses no keys."""
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
    """The bearer token of a request, and what is wrong with how it was sent. Source: RFC 6750, 2."""
    given = headers.getall("Authorization", ())
    tokens = [
        value[6:].strip() for value in given if value[:6].lower() == "bearer" and value[6:7] in ("", " ")
    ]
    if len(given) > 1 and tokens:
        return None, "Authorization is given more than once"
    if is_in_query:
        return None, f"a token does not belong into the address ({IN_QUERY})"
    return (tokens[0] if tokens else None), ""


def _target(asked: str) -> tuple[str, str]:
    """Authority, and path with query: who takes this for a proxy names both. Source: RFC 9112, 3.2.2."""
    found = None if asked.startswith("/") else _ABSOLUTE.fullmatch(asked)
    if found is None:
        return "", asked
    return found[1], found[2] if found[2].startswith("/") else f"/{found[2]}"


def place_of(path: str) -> tuple[str, str | None]:
    """The server a path names and what follows its name; None for the latter: the path is no endpoint's.

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
