"""Forwarding of clients to a server with a URL. Each request is forwarded unchanged."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

from mcpdesk.client.credentials import credential_headers
from mcpdesk.client.http_transports import HttpRequests
from mcpdesk.client.oauth.authorizer import Authorizer
from mcpdesk.client.oauth.stored_grants import open_grants
from mcpdesk.client.targets import UrlTarget
from mcpdesk.upstream.session_cookies import SessionCookies
from mcpdesk.upstream.target_transport import ClientPlace, Reach, login_options

_SESSION_HEADER = "mcp-session-id"


class PassedAnswer:
    """Answer to a forwarded request."""

    def __init__(
        self, status: int, headers: Sequence[tuple[str, str]], chunks: Callable[[], AsyncIterator[bytes]]
    ) -> None:
        self.status = status
        self.headers = headers
        self.chunks = chunks


class UrlRequests:
    """Requests of clients to one URL, with the desk's or the client's credentials."""

    def __init__(self, target: UrlTarget, reach: Reach, client_place: ClientPlace, has_login: bool) -> None:
        """`has_login` is the result of `has_stored_login`.

        It is read only once, because it decides whether callers need a key.
        """
        self.desk_headers = own_headers(target, reach, client_place)
        """Headers that are added to requests, with names in lower case."""
        authorizer = None
        if "authorization" not in self.desk_headers:
            options = login_options(target, reach)
            if options.is_machine or has_login:
                store = open_grants(client_place.state_dir, target.account or reach.account)
                authorizer = Authorizer(target.url, options, store)
        self.holds_credentials = bool(self.desk_headers) or authorizer is not None
        """True if headers or tokens of the desk are added to requests."""
        self.with_desk_credentials = HttpRequests(
            target.url, self.desk_headers, reach.mode, authorizer=authorizer
        )
        self.with_client_credentials = HttpRequests(target.url, {}, reach.mode)

    async def close(self) -> None:
        """Close the connections."""
        await self.with_desk_credentials.close()
        await self.with_client_credentials.close()


def has_stored_login(target: UrlTarget, reach: Reach, client_place: ClientPlace) -> bool:
    """Return True if a token of an earlier login to the server is stored.

    Reads files, so call it on a worker thread.
    """
    return open_grants(client_place.state_dir, target.account or reach.account).grant(target.url) is not None


class UrlPassThrough:
    """Forwards requests of clients to one URL. Use it on one event loop."""

    accepts_pieces = True
    """True, because the body of a request may be sent in pieces, as they arrive."""
    has_lines = False

    dropped = 0
    """Always 0, because data is read from the server only as fast as the client reads it."""

    def __init__(
        self,
        name: str,
        requests: UrlRequests,
        next_connection: Callable[[], int],
        offered: Callable[[], Mapping[str, int]],
    ) -> None:
        self.name = name
        self.offered = offered
        """Function that returns the number of items that the server listed, by kind."""
        self.next_connection = next_connection
        """Function that returns the recorder's number for a new client connection."""
        self.leads = False
        """True if this server comes before all folders on the command line."""
        self.holds_credentials = requests.holds_credentials
        self._requests = requests
        self._cookies = SessionCookies(requests.with_client_credentials.url)

    @asynccontextmanager
    async def ask(
        self,
        method: str,
        headers: Mapping[str, str],
        body: bytes | AsyncIterator[bytes],
        on_unclaimed: Callable[[bytes], None] | None = None,
    ) -> AsyncIterator[PassedAnswer]:
        """Forward a request. The desk's credentials are added only if the request has no `Authorization`.

        The client receives everything that the server sends, so `on_unclaimed` is never called. Raises:
        HttpError if no complete answer arrives.
        """
        requests, desk_headers = self._requests.with_client_credentials, self._requests.desk_headers
        if "authorization" not in {key.lower() for key in headers}:
            requests = self._requests.with_desk_credentials
            if desk_headers:
                headers = {key: value for key, value in headers.items() if key.lower() not in desk_headers}
        session = next((value for key, value in headers.items() if key.lower() == _SESSION_HEADER), "")
        request_headers = dict(headers) | self._cookies.header(session)
        async with requests.answered(method, request_headers, body or None) as answer:
            if method == "DELETE":
                self._cookies.forget(session)
            elif answer.status < 400 and (set_cookies := answer.headers.getall("Set-Cookie", ())):
                # Only successful answers count: invented session ids cannot displace other cookies.
                self._cookies.store(answer.headers.get(_SESSION_HEADER, session), set_cookies)
            answer_headers = list(answer.headers.items())
            if "Content-Encoding" in answer.headers:
                # The body was decoded here, so these two headers no longer describe it.
                invalid_names = {"content-encoding", "content-length"}
                answer_headers = [
                    (key, value) for key, value in answer_headers if key.lower() not in invalid_names
                ]
            yield PassedAnswer(answer.status, answer_headers, answer.content.iter_any)

    async def close(self) -> None:
        """Close the connections."""
        await self._requests.close()


def own_headers(target: UrlTarget, reach: Reach, client_place: ClientPlace) -> dict[str, str]:
    """Return the headers that are added to requests, with names in lower case.

    Raises: DeskUserError for an invalid header.
    """
    extra_headers = dict(target.headers) | dict(reach.headers)
    desk_headers = credential_headers(reach.token, reach.key, client_place.key_header, extra_headers)
    return {key.lower(): value for key, value in desk_headers.items()}
