"""Cookies of load balancers for forwarded clients, by session."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

MAX_SESSIONS = 1_000
"""Maximum number of sessions with cookies. The cookies of the one used longest ago are dropped first."""
MAX_COOKIES = 20
"""Maximum number of cookies of one session. Further ones are ignored."""
MAX_COOKIE_CHARS = 4_096
"""Maximum characters of a cookie's name and value. Longer ones are ignored. Source: RFC 6265, 6.1."""


class SessionCookies:
    """Cookies that a server set for sessions of its clients.

    A load balancer finds the server of a session by them. Clients neither receive nor choose them, and a
    cookie of one session is never sent for another, because it may identify a person.
    """

    def __init__(self) -> None:
        self._cookies: OrderedDict[str, dict[str, str]] = OrderedDict()

    def header(self, session: str) -> dict[str, str]:
        """Return the `Cookie` header of requests for a session. Empty without cookies."""
        cookies = self._cookies.get(session)
        if not cookies:
            return {}
        self._cookies.move_to_end(session)
        return {"Cookie": "; ".join(f"{name}={value}" for name, value in cookies.items())}

    def store(self, session: str, set_cookies: Iterable[str]) -> None:
        """Store the cookies of an answer. `set_cookies` are the values of its `Set-Cookie` headers.

        Cookies with control characters or invalid UTF-8 are ignored, because no request can contain them.
        """
        for each in set_cookies:
            pair = each.partition(";")[0].strip()
            name, has_value, value = pair.partition("=")
            is_valid = session and name and has_value and pair.isprintable()
            if not is_valid or len(name) + len(value) > MAX_COOKIE_CHARS:
                continue
            cookies = self._cookies.setdefault(session, {})
            if name in cookies or len(cookies) < MAX_COOKIES:
                cookies[name] = value
        while len(self._cookies) > MAX_SESSIONS:
            self._cookies.popitem(last=False)

    def forget(self, session: str) -> None:
        """Drop the cookies of a session that has ended."""
        self._cookies.pop(session, None)
