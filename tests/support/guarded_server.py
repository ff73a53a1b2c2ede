"""A server over HTTP that requires tokens, and its authorization server, on one port."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode

import orjson
from aiohttp import web

from mcpdesk.protocol.revisions import LATEST

Document = dict[str, Any]
Change = Callable[[Document], Any]


class GuardedServer:
    """Answers as specified; `changes` modifies one document or answer, by its name.

    The names: `challenge`, `resource`, `server`, `registration`, `redirect`, `token`. A change gets the
    document and changes it; a `web.Response` it returns is sent instead, a text is sent as it is.
    """

    def __init__(self, changes: dict[str, Change] | None = None) -> None:
        self.changes = changes or {}
        self.origin = ""
        self.needed: tuple[str, ...] = ("read",)
        """Scopes that every request needs."""
        self.lasts_s = 3600
        self.knows_refresh = True
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
        self._granted: dict[str, tuple[str, ...]] = {}
        self._codes: dict[str, Document] = {}
        self._count = 0

    @property
    def url(self) -> str:
        """URL of the MCP endpoint."""
        return f"{self.origin}/mcp"

    def revoke(self) -> None:
        """Revoke all tokens."""
        self._granted.clear()

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
                return await self._reconnect(request)
            case "/.well-known/oauth-protected-resource/mcp":
                return self._document("resource", self._resource())
            case "/.well-known/oauth-authorization-server":
                return self._document("server", self._metadata())
            case "/register":
                self.registrations.append(orjson.loads(await request.read()))
                identifier = f"client-{len(self.registrations)}"
                return self._document("registration", {"client_id": identifier}, 201)
            case "/authorize":
                return self._authorize(dict(parse_qsl(request.query_string)))
            case "/revoke":
                self.revocations.append(dict(parse_qsl((await request.read()).decode())))
                return self._document("revocation", {})
            case "/idp/token":
                self.exchanges.append(dict(parse_qsl((await request.read()).decode())))
                return self._document("exchange", {"access_token": "id-jag", "token_type": "N_A"})
            case "/token":
                return await self._token(request)
        return web.Response(status=404)

    def _document(self, name: str, document: Document, status: int = 200) -> web.Response:
        instead = self.changes[name](document) if name in self.changes else None
        if isinstance(instead, web.Response):
            return instead
        body = instead if isinstance(instead, bytes) else orjson.dumps(document)
        return web.Response(status=status, body=body, content_type="application/json")

    def _resource(self) -> Document:
        return {
            "resource": self.url,
            "authorization_servers": [self.origin],
            "scopes_supported": ["read", "write"],
        }

    def _metadata(self) -> Document:
        return {
            "issuer": self.origin,
            "authorization_endpoint": f"{self.origin}/authorize",
            "token_endpoint": f"{self.origin}/token",
            "registration_endpoint": f"{self.origin}/register",
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none"],
            "authorization_response_iss_parameter_supported": True,
        }

    def _authorize(self, asked: Document) -> web.Response:
        self.authorizations.append(asked)
        code = f"code-{len(self.authorizations)}"
        self._codes[code] = asked
        back: Document = {"code": code, "state": asked["state"], "iss": self.origin}
        if "redirect" in self.changes:
            self.changes["redirect"](back)
        return web.Response(status=302, headers={"Location": f"{asked['redirect_uri']}?{urlencode(back)}"})

    async def _token(self, request: web.BaseRequest) -> web.Response:
        given = {name: values[0] for name, values in parse_qs((await request.read()).decode()).items()}
        self.token_requests.append(given)
        self.basic.append(request.headers.get("Authorization", ""))
        if given["grant_type"] == "refresh_token":
            if not self.knows_refresh:
                return web.json_response({"error": "invalid_grant"}, status=400)
            scopes: tuple[str, ...] = ("read",)
        elif given["grant_type"] != "authorization_code":
            scopes = tuple(given.get("scope", "read").split())
        else:
            asked = self._codes.pop(given["code"])
            digest = hashlib.sha256(given["code_verifier"].encode()).digest()
            challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
            assert challenge == asked["code_challenge"]
            assert given["resource"] == asked["resource"] == self.url
            scopes = tuple(str(asked.get("scope", "")).split())
        self._count += 1
        token = f"token-{self._count}"
        self._granted[token] = scopes
        answer = {
            "access_token": token,
            "token_type": "Bearer",
            "expires_in": self.lasts_s,
            "refresh_token": f"refresh-{self._count}",
            "scope": " ".join(scopes),
        }
        return self._document("token", answer)

    async def _reconnect(self, request: web.BaseRequest) -> web.Response:
        granted = self._granted.get(request.headers.get("Authorization", "").removeprefix("Bearer "))
        given: Document = {"resource_metadata": f"{self.origin}/.well-known/oauth-protected-resource/mcp"}
        if "challenge" in self.changes:
            self.changes["challenge"](given)
        challenge = ", ".join(f'{name}="{value}"' for name, value in given.items())
        if granted is None:
            wanted = f'Bearer scope="{self.needed[0]}"{challenge and ", "}{challenge}'
            return web.Response(status=401, headers={"WWW-Authenticate": wanted})
        if not set(self.needed) <= set(granted):
            wanted = f'Bearer error="insufficient_scope", scope="{self.needed[-1]}", {challenge}'
            return web.Response(status=403, headers={"WWW-Authenticate": wanted})
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
