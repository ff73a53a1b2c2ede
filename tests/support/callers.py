"""One request on every route of a listener, with the credentials of a case, and the outcome on each route."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import orjson
from multidict import CIMultiDict

from mcpdesk.auth.access import Access
from mcpdesk.auth.keys import CONSTANT, KeySet, KeySource, constant, jwk_keys
from mcpdesk.auth.tokens import TokenTerms, Verifier
from mcpdesk.protocol.revisions import V2026_07_28
from mcpdesk.protocol.stateless import request_meta
from mcpdesk.server.offer.tool import CLAIMS, Tool
from mcpdesk.transports.base import Rules
from tests.support import messages
from tests.support.features import having
from tests.support.patience import WITHIN_S
from tests.support.site import Served, serving
from tests.support.tokens import AUDIENCE, ISSUER, jwk, jwks

ALLOWED = ("RS256", "ES256", "EdDSA", "HS256")
OPEN_OBJECT = {"type": "object"}
JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}

Sent = tuple[CIMultiDict[str], dict[str, Any]]
"""Headers, and members of the message."""


async def _whoami(arguments: dict[str, Any], context: Any) -> Any:
    claims = context.claims or {}
    return {"sub": claims.get("sub", ""), "own": sorted(set(arguments) - {CLAIMS}), "caller": context.caller}


async def _guarded(arguments: dict[str, Any], context: Any) -> Any:
    return context.claims["sub"]


def public_keys(*names: str) -> KeySet:
    """The keys an issuer publishes."""
    public = [
        jwk(algorithm, name) for algorithm in ("RS256", "ES256", "EdDSA") for name in names or ("first",)
    ]
    return jwk_keys(
        jwks(*(each | {"kid": f"{each['alg']}-{each['kid']}"} for each in public)),
        ALLOWED,
        with_secrets=False,
    )


def checking(keys: KeySet | None = None, source: KeySource | None = None, **more: Any) -> Access:
    """Access rules of a server that accepts tokens of our issuer."""
    terms = TokenTerms(frozenset({"RS256", "ES256", "EdDSA"}), ISSUER, frozenset({AUDIENCE}), leeway_s=10)
    source = source or KeySource(constant(keys or public_keys()), CONSTANT)
    return Access(**{"requires_token": True, "verifier": Verifier(terms, source), **more})


@asynccontextmanager
async def guarding(access: Access, rules: Rules | None = None) -> AsyncIterator[Served]:
    """A listener whose server requires tokens, with tools that return their caller."""
    async with serving(rules) as served:
        server = served.peer.server
        server.access = access
        more = [
            Tool("whoami", _whoami, OPEN_OBJECT),
            Tool("guarded", _guarded, OPEN_OBJECT, requires_jwt=True),
            Tool("scoped", _guarded, OPEN_OBJECT, requires_jwt=True, scopes=("wallet:send",)),
        ]
        server.tools.replace([*server.tools, *more])
        yield served


def call(tool: str = "whoami", **arguments: Any) -> dict[str, Any]:
    """A call of the handshake era."""
    return messages.call(tool, **arguments)


def modern(tool: str = "whoami", **arguments: Any) -> dict[str, Any]:
    """A call of the stateless era."""
    message = call(tool, **arguments)
    message["params"]["_meta"] = request_meta(V2026_07_28, {"name": "tester", "version": "1"})
    return message


def routing(tool: str = "whoami") -> dict[str, str]:
    """The headers of such a call."""
    return {"MCP-Protocol-Version": V2026_07_28.name, "Mcp-Method": "tools/call", "Mcp-Name": tool}


class Outcome:
    """Response of one route."""

    def __init__(self, status: int, headers: Any, text: str) -> None:
        self.status = status
        self.challenge = headers.get("WWW-Authenticate", "")
        self.text = text

    @property
    def error(self) -> str:
        """Reason of a refusal in plain JSON."""
        body = orjson.loads(self.text) if self.text.startswith("{") else {}
        return str(body.get("error", ""))


Route = Callable[[Served, Sent], Awaitable[Outcome]]


async def _outcome(answer: aiohttp.ClientResponse) -> Outcome:
    return Outcome(answer.status, answer.headers, await answer.text())


def _posting(path: str, message: Callable[[], dict[str, Any]], **more: str) -> Route:
    async def route(served: Served, sent: Sent) -> Outcome:
        headers = CIMultiDict({**JSON, **more})
        headers.extend(sent[0])
        body = orjson.dumps(message() | sent[1])
        return await _outcome(await served.client.post(served.url + path, data=body, headers=headers))

    return route


def _asking(method: str, path: str, **more: str) -> Route:
    async def route(served: Served, sent: Sent) -> Outcome:
        headers = CIMultiDict(more)
        headers.extend(sent[0])
        async with served.client.request(method, served.url + path, headers=headers) as answer:
            is_stream = answer.content_type == "text/event-stream"
            text = (await answer.content.readline()).decode() if is_stream else await answer.text()
            return Outcome(answer.status, answer.headers, text)

    return route


def _opening(path: str) -> Route:
    """A WebSocket: refused, or asked for its caller."""

    async def route(served: Served, sent: Sent) -> Outcome:
        try:
            async with served.client.ws_connect(served.url + path, headers=sent[0]) as socket:
                await socket.send_str(orjson.dumps(modern() | sent[1]).decode())
                return Outcome(200, {}, (await socket.receive_str(timeout=WITHIN_S)))
        except aiohttp.WSServerHandshakeError as refused:
            headers: Mapping[str, str] = refused.headers or {}
            return Outcome(refused.status, headers, "")

    return route


async def _messages(served: Served, sent: Sent) -> Outcome:
    """Send a message of the 2024-11-05 transport on a stream opened with the good token."""
    good, url = good_headers(), f"{served.url}/mcp/sample/sse"
    async with served.client.get(url, headers={**good, "Accept": "text/event-stream"}) as stream:
        await stream.content.readline()
        where = (await stream.content.readline()).decode().removeprefix("data: ").strip()
        return await _posting(where, modern)(served, sent)


def good_headers() -> dict[str, str]:
    """Headers of a known caller."""
    from tests.support.tokens import token

    return {"Authorization": f"Bearer {token('RS256', header={'kid': 'RS256-first'})}"}


WITH_BODY: dict[str, Route] = {
    "POST": _posting("/mcp/sample", call),
    "POST stateless": _posting("/mcp/sample", modern, **routing()),
    "POST stream": _posting("/mcp/sample?stream=1", modern, **routing()),
    "POST first": _posting("/mcp", call),
    "SSE message": _messages,
}
"""Routes that accept the token in the body."""
WITH_BODY |= having("gateway", ("POST gateway", _posting("/v1/mcp", call)))
WITHOUT_BODY: dict[str, Route] = {
    "GET": _asking("GET", "/mcp/sample"),
    "DELETE": _asking("DELETE", "/mcp/sample"),
    "SSE": _asking("GET", "/mcp/sample/sse", Accept="text/event-stream"),
    "job": _asking("GET", "/jobs/unknown"),
    "job progress": _asking("GET", "/v1/mcp/progress/unknown"),
    "WebSocket": _opening("/mcp/sample/ws"),
}
WITHOUT_BODY |= having(
    "gateway",
    ("gateway GET", _asking("GET", "/v1/mcp")),
    ("gateway OPTIONS", _asking("OPTIONS", "/v1/mcp")),
    ("gateway WebSocket", _opening("/v1/ws/mcp")),
)
PASSED = {
    "GET": 405,
    "DELETE": 405,
    "SSE message": 202,
    "job": 404,
    "job progress": 404,
}
"""Status of a route for an allowed caller, if it is not 200."""


async def everywhere(served: Served, sent: Sent) -> dict[str, Outcome]:
    """Response of each route; the requests run concurrently."""
    routes = WITH_BODY | WITHOUT_BODY
    answers = await asyncio.gather(*(route(served, sent) for route in routes.values()))
    return dict(zip(routes, answers, strict=True))
