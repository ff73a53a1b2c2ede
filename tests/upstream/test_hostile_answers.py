"""Upstream servers that try to choose pages, headers, redirects or cookies of the desk's origin."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple, TypeAlias

import aiohttp
import orjson
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from mcpdesk.client.targets import UrlTarget
from mcpdesk.transports.http.passing import relay_policy
from mcpdesk.upstream.target_transport import Reach
from mcpdesk.upstream.upstream import UpstreamPlan
from tests.support.desk import RunningDesk, running_desk
from tests.support.http_client import http_client
from tests.support.patience import WITHIN_S, within

CALL = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x","arguments":{}}}'
NOTIFICATION = b'{"jsonrpc":"2.0","method":"notifications/initialized"}'
RESULT = b'{"jsonrpc":"2.0","id":7,"result":{"content":[]}}'
JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
HTML = "<script>fetch('/mcp/other')</script>"
CLIENT = "X-Test-Client"
"""Header of the test's requests: the desk's own connection to the upstream server does not send it."""
HOSTILE = {
    "Access-Control-Allow-Origin": "*",
    "Clear-Site-Data": '"*"',
    "Content-Disposition": "inline",
    "Content-Security-Policy": "default-src *",
    "Link": "<https://evil.test/x.js>; rel=preload; as=script",
    "Location": "https://evil.test/",
    "NEL": "{}",
    "Refresh": "0; url=https://evil.test/",
    "Report-To": "{}",
    "Service-Worker-Allowed": "/",
    "Set-Cookie": "evil=1; Path=/",
    "SourceMap": "/x",
    "Strict-Transport-Security": "max-age=31536000",
    "X-Frame-Options": "ALLOWALL",
    "X-Anything": "else",
}
SANDBOX_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "sandbox; default-src 'none'; frame-ancestors 'none'",
}


Answer: TypeAlias = Callable[[web.Request], web.StreamResponse | Awaitable[web.StreamResponse]]


class Reached(NamedTuple):
    """A desk with a hostile upstream server."""

    client: aiohttp.ClientSession
    url: str
    received: list[dict[str, str]]
    """Headers of the requests that the upstream server received from the test."""
    desk: RunningDesk


@asynccontextmanager
async def desk_before(answer: Answer, reach: Reach | None = None, **flags: Any) -> AsyncIterator[Reached]:
    """A desk with an upstream server that answers the test's requests by `answer`."""
    received: list[dict[str, str]] = []

    async def answered(request: web.Request) -> web.StreamResponse:
        await request.read()
        if CLIENT not in request.headers:
            return web.Response(status=400)
        received.append(dict(request.headers))
        found = answer(request)
        return found if isinstance(found, web.StreamResponse) else await found

    app = web.Application()
    app.router.add_route("*", "/mcp", answered)
    async with TestServer(app) as server, http_client(headers={CLIENT: "1"}) as client:
        plan = UpstreamPlan("there", UrlTarget(str(server.make_url("/mcp"))), reach or Reach())
        async with (
            within(),
            running_desk(upstreams=[plan], http=True, **flags) as desk,
        ):
            yield Reached(client, desk.host.url("there"), received, desk)


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["text/html", "image/svg+xml", "text/javascript", "application/xhtml+xml", ""]
)
async def test_a_page_is_no_answer_but_quoted_in_an_error(kind: str) -> None:
    def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(body=HTML.encode(), headers=HOSTILE | {"Content-Type": kind})

    async with desk_before(answer) as there:
        for method, body in (("POST", CALL), ("GET", None)):
            got = await there.client.request(method, there.url, data=body, headers=JSON)
            error = orjson.loads(await got.read())["error"]
            assert (got.status, got.headers["Content-Type"]) == (502, "application/json")
            assert "answered HTTP 200 OK with" in error["message"]
            assert error["data"]["body"] == HTML
            assert SANDBOX_HEADERS.items() <= got.headers.items()
            assert not [name for name in HOSTILE if got.headers.get(name) == HOSTILE[name]]


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
async def test_an_upstream_chooses_no_header_that_a_browser_obeys(kind: str) -> None:
    useful = {"Mcp-Session-Id": "s1", "Retry-After": "3", "RateLimit": "a", "X-RateLimit-Limit": "9"}
    body = b"data: %b\n\n" % RESULT if kind == "text/event-stream" else RESULT

    def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(body=body, headers=HOSTILE | useful | {"Content-Type": f"{kind}; charset=utf-7"})

    async with desk_before(answer) as there, there.client.post(there.url, data=CALL, headers=JSON) as got:
        assert (got.status, await got.read(), got.headers["Content-Type"]) == (200, body, kind)
        assert SANDBOX_HEADERS.items() <= got.headers.items() and useful.items() <= got.headers.items()
        assert not [name for name in HOSTILE if got.headers.get(name) == HOSTILE[name]]


@pytest.mark.parametrize("status", [301, 302, 303, 304, 307, 308])
async def test_a_redirect_is_neither_relayed_nor_followed(status: int) -> None:
    def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, headers={"Location": "https://evil.test/stolen"})

    async with (
        desk_before(answer) as there,
        there.client.post(there.url, data=CALL, headers=JSON, allow_redirects=False) as got,
    ):
        error = orjson.loads(await got.read())["error"]["message"]
        assert got.status == 502 and "Location" not in got.headers
        assert f"redirects to https://evil.test/stolen (HTTP {status})" in error
        assert len(there.received) == 1


@pytest.mark.sampled(2)
@pytest.mark.parametrize("status", [400, 404, 405, 500, 503, 520])
async def test_a_refusal_in_plain_text_keeps_its_status_and_its_words(status: int) -> None:
    def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, text="Session not found\x1b[2J", headers={"Retry-After": "3"})

    async with desk_before(answer) as there, there.client.post(there.url, data=CALL, headers=JSON) as got:
        told = orjson.loads(await got.read())
        assert (got.status, told["id"], got.headers["Retry-After"]) == (status, 7, "3")
        assert "with text/plain instead of JSON: Session not found" in told["error"]["message"]
        assert "\x1b" not in told["error"]["message"]
        assert told["error"]["data"]["status"] == status


@pytest.mark.parametrize("status", [400, 404, 503])
async def test_a_refusal_without_a_body_passes_as_it_is(status: int) -> None:
    def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, headers={"Retry-After": "3"})

    async with desk_before(answer) as there, there.client.post(there.url, data=CALL, headers=JSON) as got:
        assert (got.status, await got.read(), got.headers["Retry-After"]) == (status, b"", "3")


@pytest.mark.parametrize("kind", ["application/json", "application/problem+json"])
async def test_a_refusal_in_json_passes_as_it_is(kind: str) -> None:
    def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(status=520, body=b'{"title":"no"}', content_type=kind)

    async with desk_before(answer) as there, there.client.post(there.url, data=CALL, headers=JSON) as got:
        found = (got.status, got.headers["Content-Type"], await got.read())
        assert found == (520, "application/json", b'{"title":"no"}')


async def test_where_no_message_is_due_the_status_passes_alone() -> None:
    def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(
            status=202 if request.method == "POST" else 200, text=HTML, content_type="text/html"
        )

    async with desk_before(answer) as there:
        for method, body, status in (("POST", NOTIFICATION, 202), ("DELETE", None, 200)):
            async with there.client.request(method, there.url, data=body, headers=JSON) as got:
                assert (got.status, await got.read()) == (status, b"")
                assert SANDBOX_HEADERS.items() <= got.headers.items()


async def test_an_oauth_challenge_reaches_the_client_and_a_password_prompt_does_not() -> None:
    bearer = 'Bearer resource_metadata="https://up.test/.well-known/oauth-protected-resource"'

    def answer(request: web.Request) -> web.StreamResponse:
        given = web.Response(status=401, text="Unauthorized", headers={"WWW-Authenticate": bearer})
        given.headers.add("WWW-Authenticate", 'Basic realm="your desk"')
        given.headers.add("WWW-Authenticate", 'DPoP algs="ES256", Digest realm="x"')
        return given

    async with desk_before(answer) as there, there.client.post(there.url, data=CALL, headers=JSON) as got:
        assert (got.status, got.headers.getall("WWW-Authenticate")) == (401, [bearer])


@pytest.mark.parametrize("is_endless", [True, False])
async def test_a_page_that_never_ends_is_quoted_from_its_beginning(
    is_endless: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay_policy, "QUOTE_TIMEOUT_S", WITHIN_S if is_endless else 0.01)

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/html"})
        await response.prepare(request)
        while True:
            await response.write(b"x" * 1000)
            if not is_endless:
                await asyncio.Event().wait()

    async with desk_before(answer) as there, there.client.post(there.url, data=CALL, headers=JSON) as got:
        body = orjson.loads(await got.read())["error"]["data"]["body"]
        assert got.status == 502 and 0 < len(body) <= relay_policy.MAX_QUOTED_BYTES


async def test_neither_our_key_nor_what_a_browser_adds_reaches_an_upstream() -> None:
    def answer(request: web.Request) -> web.StreamResponse:
        return web.Response(body=RESULT, content_type="application/json")

    async with desk_before(answer, Reach(token="theirs"), api_key="our-secret-key") as there:
        key = there.desk.host.rules.api_key
        browser = {
            "Cookie": "mcpdesk-dashboard-1=word",
            "Forwarded": "for=10.0.0.7",
            "Referer": "http://intranet.test/page",
            "Sec-Fetch-Mode": "cors",
            "X-Forwarded-For": "10.0.0.7",
            "X-Mcpdesk-Forwarded": "1",
        }
        ours = {
            "X-API-Key": key,
            "X-Operator-Key": "the operator's",
            "X-Copy": key,
            "X-Other-Copy": f"Bearer {key}",
        }
        sent = JSON | browser | ours | {"X-Mine": "kept"}
        async with there.client.post(there.url, data=CALL, headers=sent) as got:
            assert got.status == 200
        [received] = there.received
        assert (received["X-Mine"], received["Authorization"]) == ("kept", "Bearer theirs")
        assert not {name.lower() for name in received} & {name.lower() for name in browser | ours}
        assert key not in str(received)
