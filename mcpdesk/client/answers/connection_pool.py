"""HTTP connections to one server, with the cookies of its load balancer."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from http.cookies import Morsel
from typing import Any

import aiohttp
from aiohttp.abc import AbstractCookieJar
from aiohttp.typedefs import LooseCookies
from yarl import URL

from mcpdesk.client.timing import CONNECT_TIMEOUT_S

MAX_HEADER_BYTES = 64 << 10
"""Maximum bytes of one header of an answer. Content security policies may have over 8 KiB."""
MAX_COOKIES = 20
"""Maximum number of cookies of one server. At the limit, a cookie with a new name is ignored. A cookie that
only has another path than a stored one removes all cookies of its name.
"""
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
        pairs = cookies.items() if isinstance(cookies, Mapping) else cookies
        for name, cookie in pairs:
            value = str(getattr(cookie, "coded_value", cookie))
            is_valid = (name + value).isprintable() and len(name) + len(value) <= MAX_COOKIE_CHARS
            is_full = len(self) >= MAX_COOKIES
            if not is_valid or (is_full and name not in {stored.key for stored in self}):
                continue
            if isinstance(cookie, Morsel):
                cookie = cookie.copy()
                cookie.set(name, value, value)  # quotes are part of the value
            super().update_cookies([(name, cookie)], response_url or URL())
            if len(self) > MAX_COOKIES:  # the same name with another path
                self._remove(name)

    def update_cookies_from_headers(self, headers: Sequence[str], response_url: URL) -> None:
        """Store the cookies of an answer within the limits. `headers` are its `Set-Cookie` headers."""
        # aiohttp's jar would store them without a call of `update_cookies`.
        AbstractCookieJar.update_cookies_from_headers(self, headers, response_url)

    def _remove(self, name: str) -> None:
        """Remove all cookies of a name."""
        self.clear(lambda stored: stored.key == name)


def connection_pool(
    new_socket: Callable[[Any], socket.socket] | None, *, keeps_cookies: bool = False
) -> aiohttp.ClientSession:
    """Return a connection pool without proxies.

    Without `new_socket`, aiohttp opens the sockets.
    """
    return aiohttp.ClientSession(
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
        cookie_jar=ServerCookies() if keeps_cookies else aiohttp.DummyCookieJar(),
        connector=aiohttp.TCPConnector(limit=0, socket_factory=new_socket),
        headers={"User-Agent": "mcpdesk-bridge", "Accept-Encoding": "identity"},
        max_field_size=MAX_HEADER_BYTES,
    )
