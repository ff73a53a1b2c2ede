"""Login of a person with a browser. A small HTTP server on this machine receives the redirect."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Sequence
from html import escape
from types import TracebackType
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import parse_qs, urlsplit

from mcpdesk.errors import AuthorizationError, CallError
from mcpdesk.plain_text import clean

if TYPE_CHECKING:
    from aiohttp import web

    from mcpdesk.client.http_transports import HttpRequests
    from mcpdesk.client.oauth.login_options import LoginOptions
    from mcpdesk.client.oauth.stored_grants import StoredGrants
    from mcpdesk.client.oauth.values import Fetch, FetchResult, OAuthGrant

LOOPBACK = "127.0.0.1"
CALLBACK_PATH = "/callback"
LOGIN_TIMEOUT_S = 300.0
LATE_HINT = "Log in again: open the address in a browser on this machine, and finish the login there."
PAGE_HEADERS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
Watcher: TypeAlias = "Callable[[Fetch, FetchResult], None]"
"""Function that receives each request of a login, and its answer."""
SUCCESS_PAGE = "<!doctype html><title>mcpdesk</title><p>You are logged in. This page can be closed."
FAILURE_PAGE = "<!doctype html><title>mcpdesk</title><p>The login failed: {}"
IGNORED_PAGE = """<!doctype html><title>mcpdesk</title>
<p>mcpdesk ignored this request: its state is not that of a login in progress. To log in, use the address that
mcpdesk shows. A login in progress continues."""


class BrowserLogin:
    """Async context manager that listens on the loopback interface while the block runs."""

    def __init__(
        self,
        show: Callable[[str], None],
        timeout_s: float = LOGIN_TIMEOUT_S,
        port: int = 0,
        host: str = "",
        path: str = "",
    ) -> None:
        """`show` displays the URL that the person must visit, and may open a browser.

        Port 0 selects a free port. Set `host` and `path` if the client's registered redirect URI has other
        values than `127.0.0.1` and `CALLBACK_PATH`.
        """
        self._host, self._path = host or LOOPBACK, path or CALLBACK_PATH
        self._show = show
        self._timeout_s = timeout_s
        self._port = port
        self._runner: web.ServerRunner
        self._redirect_future: asyncio.Future[str] | None = None
        self._state = ""
        self._outcome: asyncio.Future[str] | None = None
        """Reason why the login failed, or an empty string. The response to the browser waits for it."""

    @property
    def redirect_uri(self) -> str:
        """URL that the browser is redirected to."""
        return f"http://{self._host}:{self._port}{self._path}"

    async def __aenter__(self) -> BrowserLogin:
        from aiohttp import web

        self._runner = web.ServerRunner(web.Server(self._answer))
        await self._runner.setup()
        site = web.TCPSite(self._runner, LOOPBACK, self._port)
        try:
            await site.start()
        except OSError as error:
            await self._runner.cleanup()
            text = f"cannot listen for the redirect on {LOOPBACK}:{self._port}: {error.strerror}"
            raise AuthorizationError(text) from None
        assert site.port is not None
        self._port = site.port
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.conclude("it was cancelled in mcpdesk")
        await self._runner.cleanup()  # completes the response to the browser

    def conclude(self, fault: str) -> None:
        """Show the result of the login in the browser. An empty `fault` means success.

        Later calls do nothing.
        """
        if self._outcome is not None and not self._outcome.done():
            self._outcome.set_result(fault)

    async def visit(self, url: str) -> str:
        """Show a URL to the person and return the URL that the person's browser is redirected to.

        A redirect is ignored if its `state` is not the one in `url`.

        Raises: AuthorizationError if the browser is not redirected in time.
        """
        self._state = _single_value(parse_qs(urlsplit(url).query).get("state", []))
        self._redirect_future = asyncio.get_running_loop().create_future()
        self._outcome = asyncio.get_running_loop().create_future()
        self._show(url)
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._redirect_future
        except TimeoutError:
            message = f"no login within {self._timeout_s:g} s"
            raise AuthorizationError(message, hint=LATE_HINT) from None

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        """Accept a redirect with the right `state`, and answer once the login has ended.

        Answer any other `state` with an error page.
        """
        from aiohttp import web

        has_right_host = request.headers.get("Host", "") == f"{self._host}:{self._port}"
        is_redirect = request.method == "GET" and request.path == self._path and has_right_host
        if not is_redirect or self._redirect_future is None:
            return web.Response(status=404)
        state = _single_value(request.query.getall("state", []))
        if not (self._state and secrets.compare_digest(state.encode(), self._state.encode())):
            return web.Response(status=400, text=IGNORED_PAGE, content_type="text/html", headers=PAGE_HEADERS)
        if not self._redirect_future.done():
            self._redirect_future.set_result(f"{self.redirect_uri}?{request.query_string}")
        assert self._outcome is not None
        fault = await asyncio.shield(self._outcome)
        if fault:
            page = FAILURE_PAGE.format(escape(clean(fault)))
            return web.Response(status=400, text=page, content_type="text/html", headers=PAGE_HEADERS)
        return web.Response(text=SUCCESS_PAGE, content_type="text/html", headers=PAGE_HEADERS)


def _single_value(values: Sequence[str]) -> str:
    """Return the value of a parameter, or "" if the parameter is missing or repeated."""
    return values[0] if len(values) == 1 else ""


class WatchedRequests:
    """Sends the requests of a login. Calls `watch` with each request and answer.

    `report_deviation` receives the text of each `Deviation` of the server.
    """

    def __init__(
        self, requests: HttpRequests, watch: Watcher, report_deviation: Callable[[str], None]
    ) -> None:
        self._requests = requests
        self._watch = watch
        self.check_page = requests.check_page
        self.report_deviation = report_deviation

    async def fetch(self, step: Fetch) -> FetchResult:
        """Send one request. Raises: AuthorizationError, HttpError."""
        answer = await self._requests.fetch(step)
        self._watch(step, answer)
        return answer


async def log_in(
    url: str,
    store: StoredGrants,
    show: Callable[[str], None],
    *,
    options: LoginOptions | None = None,
    timeout_s: float = LOGIN_TIMEOUT_S,
    watch: Watcher = lambda request, answer: None,
    report_deviation: Callable[[str], None] = lambda text: None,
) -> OAuthGrant:
    """Log in to the server at a URL and store the token.

    A person logs in, unless `options` has the credentials of a machine.

    `show` receives the URL that the person must visit. `watch` receives each request with its answer.
    `report_deviation` receives the text of each `Deviation` of the server. Deviations do not stop the login.

    Raises: CallError; AuthorizationError if the server violates a rule of the specifications.
    """
    from mcpdesk.client.http_transports import HttpRequests
    from mcpdesk.client.oauth.authorizer import Authorizer
    from mcpdesk.client.oauth.login_options import NO_OPTIONS
    from mcpdesk.client.oauth.values import Challenge

    options = options or NO_OPTIONS
    await asyncio.to_thread(store.check)
    requests = HttpRequests(url, {})
    watched = WatchedRequests(requests, watch, report_deviation)
    try:
        if options.is_machine:
            authorizer = Authorizer(url, options, store)
            return await authorizer.log_in(watched, await requests.challenge())
        redirect = options.callback_port, options.callback_host, options.callback_path
        async with BrowserLogin(show, timeout_s, *redirect) as browser:
            setup = await asyncio.to_thread(options.setup, browser.redirect_uri)
            authorizer = Authorizer(url, setup, store, browser.visit)
            sent_challenge = await requests.challenge()
            challenge = Challenge("bearer", sent_challenge.metadata_url, sent_challenge.scope)
            try:
                grant = await authorizer.log_in(watched, challenge)
            except CallError as error:
                browser.conclude(str(error))
                raise
            browser.conclude("")
            return grant
    finally:
        await requests.close()


async def revoke(url: str, store: StoredGrants) -> bool:
    """Revoke the stored token at the server. Return False if the server does not support revocation.

    Raises: CallError.
    """
    from mcpdesk.client.http_transports import HttpRequests
    from mcpdesk.client.oauth.authorizer import Authorizer
    from mcpdesk.client.oauth.grants import ClientSetup

    requests = HttpRequests(url, {})
    try:
        return await Authorizer(url, ClientSetup(), store).revoke(requests, await requests.challenge())
    finally:
        await requests.close()
