"""Cookies of load balancers for forwarded clients, by session."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mcpdesk.client.answers.connection_pool import ServerCookies

MAX_SESSIONS = 1_000
"""Maximum number of sessions with cookies. Those of the least recently used session are deleted first."""


class SessionCookies:
    """Cookies that a server set for sessions of its clients.

    A load balancer uses these cookies to find the server of a session. Clients neither receive nor choose the
    cookies. A cookie of one session is never sent for another, because the cookie may identify a person.
    """

    def __init__(self, url: str) -> None:
        """`url` is the URL of all requests."""
        self._url = url
        self._cookies: OrderedDict[str, ServerCookies] = OrderedDict()
        """Cookies by session id. The least recently used session is first."""

    def header(self, session: str) -> dict[str, str]:
        """Return the `Cookie` header of requests for a session, or an empty dict if it has no cookies."""
        from yarl import URL

        cookies = self._cookies.get(session)
        if cookies is None:
            return {}
        self._cookies.move_to_end(session)
        header = cookies.filter_cookies(URL(self._url)).output(attrs=[], header="", sep=";").strip()
        return {"Cookie": header} if header else {}

    def store(self, session: str, set_cookies: Sequence[str]) -> None:
        """Store the cookies of an answer. `set_cookies` are the values of its `Set-Cookie` headers."""
        from yarl import URL

        from mcpdesk.client.answers.connection_pool import ServerCookies

        if not session:
            return
        if session not in self._cookies:
            self._cookies[session] = ServerCookies()
        self._cookies[session].update_cookies_from_headers(set_cookies, URL(self._url))
        while len(self._cookies) > MAX_SESSIONS:
            self._cookies.popitem(last=False)

    def forget(self, session: str) -> None:
        """Delete the cookies of a session that has ended."""
        self._cookies.pop(session, None)
