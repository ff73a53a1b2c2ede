"""A person logs in with their browser; a small server on this machine catches where it is sent back to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, TypeAlias

from msgspec.structs import replace

from mcpdesk.errors import AuthorizationError

if TYPE_CHECKING:
    from aiohttp import web

    from mcpdesk.client.oauth.stored_grants import StoredGrants
    from mcpdesk.client.oauth.values import ClientRegistration, Fetch, Fetched, OAuthGrant

PORT = 33427
"""The port that is tried first: clients are registered with it."""
PATH = "/callback"
PATIENCE_S = 300.0
Watch: TypeAlias = "Callable[[Fetch, Fetched], None]"
"""Is shown each request of a login, and what came back."""
DONE = "<!doctype html><title>mcpdesk</title><p>You are logged in. This page can be closed."


class BrowserLogin:
    """Used as `async with`: listens on the loopback interface while the block runs."""

    def __init__(self, show: Callable[[str], None], patience_s: float = PATIENCE_S, port: int = PORT) -> None:
        """`show` shows a person the address to visit, and may open a browser."""
        self._show = show
        self._patience_s = patience_s
        self._port = port
        self._runner: web.ServerRunner
        self._returned: asyncio.Future[str] | None = None

    @property
    def redirect_uri(self) -> str:
        """Where the browser is to be sent back to."""
        return f"http://127.0.0.1:{self._port}{PATH}"

    async def __aenter__(self) -> BrowserLogin:
        from aiohttp import web

        self._runner = web.ServerRunner(web.Server(self._answer))
        await self._runner.setup()
        for port in (self._port, 0):
            site = web.TCPSite(self._runner, "127.0.0.1", port)
            try:
                await site.start()
            except OSError:
                continue
            assert site.port is not None
            self._port = site.port
            return self
        raise AuthorizationError("nothing can listen on 127.0.0.1, where the browser is to be sent back to")

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._runner.cleanup()

    async def visit(self, url: str) -> str:
        """Have a person visit an address; returns the one their browser came back with.

        Raises: AuthorizationError when it does not come back in time.
        """
        self._returned = asyncio.get_running_loop().create_future()
        self._show(url)
        try:
            async with asyncio.timeout(self._patience_s):
                return await self._returned
        except TimeoutError:
            raise AuthorizationError(f"nobody logged in within {self._patience_s:g} s") from None

    async def _answer(self, request: web.BaseRequest) -> web.Response:
        """Take the first return; anything else of this machine is told nothing."""
        from aiohttp import web

        is_local = request.headers.get("Host", "") == f"127.0.0.1:{self._port}"
        if request.method != "GET" or request.path != PATH or not is_local or self._returned is None:
            return web.Response(status=404)
        if not self._returned.done():
            self._returned.set_result(f"{self.redirect_uri}?{request.query_string}")
        return web.Response(text=DONE, content_type="text/html", headers={"Cache-Control": "no-store"})


async def log_in(
    url: str,
    store: StoredGrants,
    show: Callable[[str], None],
    *,
    client: ClientRegistration | None = None,
    scope: str = "",
    patience_s: float = PATIENCE_S,
    watch: Watch = lambda request, answer: None,
) -> OAuthGrant:
    """Have a person log in to the server at a URL, and keep the token.

    `show` is given the address to visit; `client` is what this program is known as, if it was registered by
    hand; `scope` replaces what the server says it wants.

    Raises: CallError; an AuthorizationError for a server that breaks a rule.
    """
    from mcpdesk.client.http_transports import HttpRequests
    from mcpdesk.client.oauth.authorizer import Authorizer
    from mcpdesk.client.oauth.grants import ClientSetup
    from mcpdesk.client.oauth.values import Challenge

    requests = HttpRequests(url, {})

    async def fetch(step: Fetch) -> Fetched:
        answer = await requests.fetch(step)
        watch(step, answer)
        return answer

    try:
        async with BrowserLogin(show, patience_s) as browser:
            known = None if client is None else replace(client, redirect_uri=browser.redirect_uri)
            setup = ClientSetup(redirect_uri=browser.redirect_uri, client=known)
            authorizer = Authorizer(url, setup, store, browser.visit)
            asked = await requests.challenge()
            challenge = Challenge("bearer", asked.metadata_url, scope or asked.scope)
            return await authorizer.log_in(fetch, challenge)
    finally:
        await requests.close()
