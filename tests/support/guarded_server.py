"""A server over HTTP that requires tokens, and its authorization server, on one port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias
from urllib.parse import parse_qsl

import orjson
from aiohttp import web

from mcpdesk.protocol.revisions import LATEST
from mcpdesk.testing.authorization_server import (
    IssuedToken,
    LocalAuthorizationServer,
    TokenRefused,
    is_verified,
)

Document: TypeAlias = dict[str, Any]
Change = Callable[[Document], Any]


class GuardedServer(LocalAuthorizationServer):
    """Answers as specified; `changes` modifies one document or answer, by its name.

    The names: `challenge`, `resource`, `server`, `registration`, `redirect`, `token`. A change gets the
    document and changes it; a `web.Response` it returns is sent instead, a text is sent as it is.
    """

    def __init__(self, changes: dict[str, Change] | None = None) -> None:
        super().__init__()
        self.changes = changes or {}
        self.needed: tuple[str, ...] = ("read",)
        """Scopes that every request needs."""
        self.lasts_s = 3600
        """`expires_in` of token responses. The server accepts tokens for longer."""
        self.knows_refresh = True
        self.failure = 0
        """HTTP status of requests with a valid token, or 0 to answer them."""
        self.requests: list[str] = []
        """Requested paths with their methods."""
        self.authorizations: list[Document] = []
        self.token_requests: list[Document] = []
        self.basic: list[str] = []
        """`Authorization` headers of the token requests."""
        self.exchanges: list[Document] = []
        """Requests to the identity provider, which is at `/idp/token`."""
        self.registrations: list[Document] = []
        self.revocations: list[Document] = []

    def revoke(self) -> None:
        """Revoke all tokens."""
        self._tokens.clear()

    def observe(self, kind: str, fields: Document) -> None:
        """Record a request."""
        lists = {
            "registration": self.registrations,
            "authorization": self.authorizations,
            "token": self.token_requests,
            "revocation": self.revocations,
        }
        lists[kind].append(fields)

    @asynccontextmanager
    async def running(self, host: str = "127.0.0.1") -> AsyncIterator[GuardedServer]:
        """Serve on a free port while the block runs."""
        runner = web.ServerRunner(web.Server(self._answer))
        await runner.setup()
        site = web.TCPSite(runner, host, 0)
        await site.start()
        assert site.port is not None
        self.origin = f"http://{host}:{site.port}"
        try:
            yield self
        finally:
            await runner.cleanup()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        self.requests.append(f"{request.method} {request.path}")
        match request.path:
            case "/mcp":
                return await self._endpoint(request)
            case "/.well-known/oauth-protected-resource":
                return web.Response(status=404)
            case "/idp/token":
                self.exchanges.append(dict(parse_qsl((await request.read()).decode())))
                return self.document("exchange", {"access_token": "id-jag", "token_type": "N_A"})
            case "/token":
                self.basic.append(request.headers.get("Authorization", ""))
        return await self.answer(request) or web.Response(status=404)

    def document(self, name: str, document: Document, status: int = 200) -> web.Response:
        """Return the answer with a document, which `changes` may replace."""
        if name == "token":
            document["expires_in"] = self.lasts_s
        instead = self.changes[name](document) if name in self.changes else None
        if isinstance(instead, web.Response):
            return instead
        body = instead if isinstance(instead, bytes) else orjson.dumps(document)
        return web.Response(status=status, body=body, content_type="application/json")

    def registration(self, authorization: Document) -> Document:
        """Return only the members that a client needs."""
        return {"client_id": f"client-{len(self.registrations)}"}

    def redirect(self, authorization: Document, code: str) -> Document:
        """Return the parameters of the redirect."""
        back = super().redirect(authorization, code)
        if "redirect" in self.changes:
            self.changes["redirect"](back)
        return back

    def redirect_problem(self, authorization: Document) -> str:
        """Accept every redirect URI: a test may use the registration of an earlier login."""
        return ""

    def scopes_of(self, given: Document) -> tuple[str, ...]:
        """Return the scopes of a new token; also for grants without a person. Any refresh token is valid."""
        match given["grant_type"]:
            case "refresh_token" if self.knows_refresh:
                return ("read",)
            case "refresh_token":
                raise TokenRefused("invalid_grant", "")
            case "authorization_code":
                return super().scopes_of(given)
        return tuple(given.get("scope", "read").split())

    def check_code(self, authorization: Document, given: Document) -> None:
        """Check that the client sends what it must."""
        assert is_verified(authorization, given)
        assert given["resource"] == authorization["resource"] == self.url

    def issue(self, scopes: tuple[str, ...]) -> IssuedToken:
        """Return a token with a name that a test can predict."""
        token = super().issue(scopes)
        del self._tokens[token.access_token]
        token.access_token, token.refresh_token = f"token-{self._token_count}", f"refresh-{self._token_count}"
        self._tokens[token.access_token] = token
        return token

    async def _endpoint(self, request: web.BaseRequest) -> web.Response:
        token = self.presented(request)
        given: Document = {"resource_metadata": f"{self.origin}/.well-known/oauth-protected-resource/mcp"}
        if "challenge" in self.changes:
            self.changes["challenge"](given)
        challenge = ", ".join(f'{name}="{value}"' for name, value in given.items())
        if token is None:
            wanted = f'Bearer scope="{self.needed[0]}"{challenge and ", "}{challenge}'
            return web.Response(status=401, headers={"WWW-Authenticate": wanted})
        if not set(self.needed) <= set(token.scopes):
            wanted = f'Bearer error="insufficient_scope", scope="{self.needed[-1]}", {challenge}'
            return web.Response(status=403, headers={"WWW-Authenticate": wanted})
        if self.failure:
            return web.Response(status=self.failure)
        message = orjson.loads(await request.read())
        answer: Document = {"jsonrpc": "2.0", "id": message.get("id")}
        match message["method"]:
            case "server/discover":
                result: Document = {
                    "resultType": "complete",
                    "supportedVersions": [LATEST.name],
                    "capabilities": {},
                }
                return web.json_response(answer | {"result": result})
            case "tools/list":
                result = {"resultType": "complete", "tools": [], "ttlMs": 0, "cacheScope": "private"}
                return web.json_response(answer | {"result": result})
        return web.json_response(answer | {"error": {"code": -32601, "message": "no"}}, status=404)


class SilentServer(GuardedServer):
    """Does not answer until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.released = asyncio.Event()

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        await self.released.wait()
        return web.Response(status=404)
