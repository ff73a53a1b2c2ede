"""Requests a page can send to a server on this machine: in a real browser, and by hand on every route."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import aiohttp
import pytest
from aiohttp import web

from mcpdesk.transports.base import Rules
from tests.support.features import having
from tests.support.site import Served, serving
from tests.web.browsing import chromium, needs_browser

if TYPE_CHECKING:
    from mcpdesk.link.front_end import FrontEnd

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "page", "version": "1"},
    },
}
TRIES = """
async ({url, message}) => {
  const body = JSON.stringify(message), json = {"Content-Type": "application/json"};
  const socket = place => new Promise(resolve => {
    const open = new WebSocket(url.replace("http", "ws") + place);
    open.onopen = () => open.send(body);
    open.onmessage = event => resolve(event.data.includes("serverInfo") ? "answered" : "told");
    open.onerror = () => resolve("refused");
  });
  const fetched = (place, options) => fetch(url + place, options).then(
    answer => answer.type === "opaque" ? "sent" : answer.ok ? "answered" : "refused", () => "refused");
  const events = place => new Promise(resolve => {
    const open = new EventSource(url + place);
    open.addEventListener("endpoint", () => { open.close(); resolve("answered"); });
    open.onerror = () => { open.close(); resolve("refused"); };
  });
  return {
    blind: await fetched("/mcp/sample", {method: "POST", mode: "no-cors", body: new Blob([body])}),
    form: await fetched("/v1/mcp", {method: "POST", mode: "no-cors", body}),
    json: await fetched("/mcp/sample", {method: "POST", headers: json, body}),
    status: await fetched("/status", {}),
    blindly: await fetched("/mcp/sample/sse", {mode: "no-cors", signal: AbortSignal.timeout(1000)}),
    events: await events("/mcp/sample/sse"),
    socket: await socket("/mcp/sample/ws"),
    gateway: await socket("/v1/ws/mcp"),
  };
}
"""
"""Everything a page can send. `blind`, `form` and `blindly` are sent, but their answers are not shown."""


def no_front_end() -> FrontEnd:
    """Data of the dashboard, which no test here opens; a dashboard is the only page that may fetch it."""
    raise AssertionError("the dashboard asked for its data")


@asynccontextmanager
async def another_server(heads: list[str] | None = None) -> AsyncIterator[int]:
    """Some other program's page on this machine; it keeps the cookies that it receives in `heads`."""

    async def page(request: web.BaseRequest) -> web.Response:
        if heads is not None:
            heads.append(request.headers.get("Cookie", ""))
        return web.Response(text="<!doctype html><title>another</title>", content_type="text/html")

    server = web.Server(page)
    runner = web.ServerRunner(server)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()


async def tried(served: Served, page_url: str) -> dict[str, str]:
    """Outcomes of all attempts of a page at that address."""
    async with chromium() as browser:
        page = await browser.new_page()
        await page.route("**/*.js", lambda route: route.abort())  # the dashboard would ask for its data
        await page.goto(page_url)
        return dict(await page.evaluate(TRIES, {"url": served.url, "message": INITIALIZE}))


@needs_browser
@pytest.mark.browser
@pytest.mark.parametrize("name", ["localhost", "127.0.0.1"])
async def test_a_page_of_another_port_reaches_nothing(name: str) -> None:
    async with another_server() as port, serving() as served:
        outcome = await tried(served, f"http://{name}:{port}/")
        assert served.recorder.seen == []
        blind = {"blind", "form", "blindly"}
        assert {each for each, became in outcome.items() if became != "refused"} <= blind, outcome


@needs_browser
@pytest.mark.browser
async def test_a_page_of_the_servers_own_and_a_listed_one_reach_everything() -> None:
    async with (
        another_server() as port,
        serving(Rules(allowed_origins=(f"http://localhost:{port}",))) as served,
    ):
        served.front_end = no_front_end
        for page in (f"{served.url}/", f"http://localhost:{port}/"):
            outcome = await tried(served, page)
            ways = ("json", "status", "events", "socket", *having("gateway", "gateway"))
            assert [outcome[way] for way in ways] == ["answered"] * len(ways), (page, outcome)


WAYS = {
    "POST": ("POST", "/mcp/sample"),
    "GET stream": ("GET", "/mcp/sample"),
    "end of a session": ("DELETE", "/mcp/sample"),
    "question of a browser": ("OPTIONS", "/mcp/sample"),
    "event stream": ("GET", "/mcp/sample/sse"),
    "post to an event stream": ("POST", "/mcp/sample/messages?connection=x"),
    "WebSocket": ("GET", "/mcp/sample/ws"),
    "progress": ("GET", "/v1/mcp/progress/x"),
    "job": ("GET", "/jobs/x"),
    "end of a job": ("DELETE", "/jobs/x"),
    "files of a job": ("GET", "/jobs/x/download"),
    "WebSocket of a job": ("GET", "/ws/jobs/x"),
    "status": ("GET", "/status"),
    "metrics": ("GET", "/metrics"),
    "nothing": ("GET", "/nothing"),
}
WAYS |= having(
    "gateway",
    ("discovery", ("GET", "/v1/mcp")),
    ("discovery by OPTIONS", ("OPTIONS", "/v1/mcp")),
    ("gateway", ("POST", "/v1/mcp")),
    ("gateway's WebSocket", ("GET", "/v1/ws/mcp")),
)
WAYS |= having(
    "dashboard",
    ("dashboard", ("GET", "/dashboard/events")),
    ("act on the dashboard", ("POST", "/dashboard/answer")),
)
STRANGERS = ["http://localhost:9", "http://127.0.0.1", "https://localhost:{port}0", "http://[::1]:9", "null"]


@pytest.mark.sampled(6)
@pytest.mark.requirement("12.1")
@pytest.mark.parametrize("way", WAYS)
async def test_a_page_of_another_origin_is_refused_on_every_way_in(way: str) -> None:
    method, path = WAYS[way]
    async with serving() as served:
        port = served.url.rpartition(":")[2]
        for origin in STRANGERS:
            headers = {"Origin": origin.format(port=port), "Content-Type": "application/json"}
            headers |= {"Access-Control-Request-Method": "POST", "Upgrade": "websocket"}
            async with served.client.request(method, served.url + path, headers=headers) as answer:
                assert (answer.status, answer.headers.get("Access-Control-Allow-Origin")) == (403, None), (
                    origin
                )
        hidden = {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"}
        async with served.client.request(method, served.url + path, headers=hidden) as answer:
            assert answer.status == 403


async def status(served: Served, path: str, body: bytes, **headers: str) -> int:
    """The status of a POST with these headers alone."""
    skipped = [aiohttp.hdrs.CONTENT_TYPE]
    async with served.client.post(
        served.url + path, data=body, headers=headers, skip_auto_headers=skipped
    ) as answer:
        return answer.status


@pytest.mark.parametrize("path", ["/mcp/sample", *having("gateway", "/v1/mcp")])
async def test_a_post_without_a_content_type_is_refused(path: str) -> None:
    body = b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}'
    async with serving() as served:
        for given in ({}, {"Content-Type": ""}, {"Content-Type": "text/plain; application/json"}):
            assert await status(served, path, body, **given) == 415
        assert await status(served, path, body, **{"Content-Type": "Application/JSON; charset=utf-8"}) == 200


async def test_a_page_reached_by_another_name_of_this_machine_is_the_servers_own() -> None:
    async with serving() as served:
        port = served.url.rpartition(":")[2]
        for name in ("localhost", "127.0.0.1", "[::1]", "LOCALHOST"):
            origin = f"http://{name}:{port}"
            async with served.client.get(f"{served.url}/status", headers={"Origin": origin}) as answer:
                assert answer.status == 200, origin
        forwarded = {"Host": "localhost:1234", "Origin": "http://localhost:1234"}
        async with served.client.get(f"{served.url}/status", headers=forwarded) as answer:
            assert answer.status == 200
