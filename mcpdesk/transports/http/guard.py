"""What every request must pass before anything of it is read: its form, Host, Origin, the key.

Source: WIRE 4.6, 12.
"""

from __future__ import annotations

from collections.abc import Mapping

from aiohttp import web
from aiohttp.http import HttpVersion10, HttpVersion11

from mcpdesk.auth.api_key import matches
from mcpdesk.auth.http_origin import check_host, check_origin
from mcpdesk.transports.base import Rules
from mcpdesk.transports.http.answers import plain_error
from mcpdesk.transports.http.head import head_of

FOREIGN = frozenset({"cross-site", "same-site"})
"""What browsers say in `Sec-Fetch-Site` of requests that other pages cause. Another port of this machine is
the same site."""


class Guard:
    """Checks requests that arrive on one address.

    `bound` and `port` are that address; on a Unix socket they are empty and 0.
    """

    def __init__(self, bound: str, port: int = 0) -> None:
        self._bound = bound
        self._port = port
        self._passed: set[tuple[str | None, str | None, str]] = set()
        self._passed_rules: Rules | None = None

    def refuse(self, request: web.BaseRequest, rules: Rules) -> web.Response | None:
        """The refusal for a request of doubtful form, from a foreign page or to a foreign name.

        None to go on.
        """
        headers = request.headers
        if request.version not in (HttpVersion10, HttpVersion11):
            return _closing(505, "the request line must say HTTP/1.1 or HTTP/1.0")
        codings = headers.getall("Transfer-Encoding", ())
        if codings and [each.strip().lower() for each in codings] != ["chunked"]:
            # Whoever is asked in front of us may see the body end elsewhere.
            return _closing(501, "Transfer-Encoding must be chunked alone, or left out")
        host, origin = headers.get("Host"), headers.get("Origin")
        target = head_of(request).authority
        if rules is not self._passed_rules or len(self._passed) > 256:
            self._passed_rules = rules
            self._passed.clear()
        if len(headers.getall("Origin", ())) > 1:
            # Whoever is asked in front of us may have looked at the other one.
            return plain_error(400, "Origin is given more than once")
        if origin is None and _is_hidden_page(headers):
            return plain_error(403, "Another site's page may not load this", hint="see allowed_origins")
        if (host, origin, target) in self._passed:
            return None
        # A target may name whom it is for as well: whichever of the two somebody looks at is no stranger.
        for name in (host, target) if target else (host,):
            if not check_host(name, rules.allowed_hosts, self._bound):
                return plain_error(403, f"Host {_shown(name)} is not served here", hint="see allowed_hosts")
        if not check_origin(origin, rules.allowed_origins, host, self._bound, self._port):
            return plain_error(403, f"Origin {_shown(origin)} may not call", hint="see allowed_origins")
        self._passed.add((host, origin, target))
        return None

    def refuse_caller(
        self, request: web.BaseRequest, rules: Rules, in_query: bool = False, status: int = 401
    ) -> web.Response | None:
        """The refusal for a missing or wrong key, with this status; None to go on.

        `in_query`: `?api_key=` may carry it too.
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


def _closing(status: int, message: str) -> web.Response:
    """A refusal after which nothing more is read: where the next request begins is anybody's guess."""
    answer = plain_error(status, message)
    answer.force_close()
    return answer


def _is_hidden_page(headers: Mapping[str, str]) -> bool:
    """Whether another site's page causes this request without naming its origin, as for an image.

    A link that somebody follows is no such request.
    """
    return headers.get("Sec-Fetch-Site") in FOREIGN and headers.get("Sec-Fetch-Mode") != "navigate"


def _shown(value: str | None) -> str:
    return "(missing)" if value is None else repr(value[:100])
