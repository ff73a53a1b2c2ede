"""HTTP connections to one server, with the cookies of its load balancer."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp
from aiohttp.typedefs import LooseCookies
from yarl import URL

from mcpdesk.client.timing import CONNECT_TIMEOUT_S

MAX_HEADER_BYTES = 64 << 10
"""Maximum bytes of one header of an answer. Content security policies may have over 8 KiB."""
MAX_COOKIES = 20
"""Maximum number of cookies of one server. Further ones are ignored."""
MAX_COOKIE_CHARS = 4_096
"""Maximum characters of a cookie's name and value. Longer ones are ignored. Source: RFC 6265, 6.1."""


class ServerCookies(aiohttp.CookieJar):
    """Cookies of one server, until the connection ends.

    Load balancers use cookies to send all requests of a session to the same server.
    """

    def __init__(self) -> None:
        super().__init__(unsafe=True, quote_cookie=False)  # unsafe: also for IP addresses

    def update_cookies(self, cookies: LooseCookies, response_url: URL | None = None) -> None:
        """Store cookies within the limits. `response_url` is the URL that sets them."""
        names = {each.key for each in self}
        accepted = list[tuple[str, Any]]()
        for name, cookie in cookies.items() if isinstance(cookies, Mapping) else cookies:
            value = getattr(cookie, "value", cookie)
            if len(name) + len(str(value)) <= MAX_COOKIE_CHARS and len(names | {name}) <= MAX_COOKIES:
                names.add(name)
                accepted.append((name, cookie))
        super().update_cookies(accepted, response_url or URL())


def connection_pool(
    new_socket: Callable[[Any], socket.socket] | None, *, keeps_cookies: bool = False
) -> aiohttp.ClientSession:
    """Return a connection pool without proxies.

    If `new_socket` is None, aiohttp opens the sockets.
    """
    return aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
        cookie_jar=ServerCookies() if keeps_cookies else aiohttp.DummyCookieJar(),
        connector=aiohttp.TCPConnector(limit=0, socket_factory=new_socket),
        headers={"User-Agent": "mcpdesk-bridge", "Accept-Encoding": "identity"},
        max_field_size=MAX_HEADER_BYTES,
    )
