"""A hostile upstream server in a real browser: none of its pages may run on the desk's origin."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from mcpdesk.client.targets import UrlTarget
from mcpdesk.upstream.upstream import UpstreamPlan
from tests.support.desk import running_desk
from tests.web.browsing import chromium, needs_browser

TOOL = """
def take(text: str) -> str:
    \"\"\"Note that the hostile page reached this server.\"\"\"
    return text
"""
SCRIPT = """
document.title = "OWNED";
const params = {name: "take", arguments: {text: "from the page"}};
const body = JSON.stringify({jsonrpc: "2.0", id: 1, method: "tools/call", params});
fetch("/mcp/victim", {method: "POST", headers: {"Content-Type": "application/json"}, body});
"""
BODIES = {
    "html": ("text/html", f"<!doctype html><script>{SCRIPT}</script>"),
    "svg": ("image/svg+xml", f'<svg xmlns="http://www.w3.org/2000/svg"><script>{SCRIPT}</script></svg>'),
    "xhtml": (
        "application/xhtml+xml",
        f'<html xmlns="http://www.w3.org/1999/xhtml"><body><script><![CDATA[{SCRIPT}]]></script></body></html>',
    ),
    "script": ("text/javascript", SCRIPT),
    "sniffed": ("application/json", f"<!doctype html><script>{SCRIPT}</script>"),
    "untyped": ("text/plain", f"<!doctype html><script>{SCRIPT}</script>"),
}
OPENED = {
    "link": '<a id="go" href="URL">go</a>',
    "form": '<form method="post" action="URL" enctype="text/plain"><button id="go">go</button></form>',
    "frame": '<iframe src="URL"></iframe><a id="go" href="#">go</a>',
    "object": '<object data="URL"></object><embed src="URL"><img src="URL"><a id="go" href="#">go</a>',
    "script": '<script src="URL"></script><link rel="stylesheet" href="URL"><a id="go" href="#">go</a>',
}


@needs_browser
@pytest.mark.browser
async def test_no_page_of_an_upstream_server_reaches_another_server_of_the_desk(tmp_path: Path) -> None:
    chosen = "html"

    async def answer(request: web.Request) -> web.StreamResponse:
        await request.read()
        if request.headers.get("User-Agent", "").startswith("mcpdesk"):
            return web.Response(status=400)
        if chosen == "redirect":
            place = str(request.url.with_path("/page"))
            return web.Response(status=302, headers={"Location": place, "Refresh": f"0; url={place}"})
        kind, body = BODIES[chosen]
        return web.Response(
            text=body, content_type=kind, headers={"Content-Security-Policy": "default-src *"}
        )

    async def outside(request: web.Request) -> web.StreamResponse:
        """Some other site, which opens or embeds an address of the desk."""
        how = OPENED[request.query["how"]].replace("URL", request.query["url"])
        return web.Response(text=f"<!doctype html><title>outside</title>{how}", content_type="text/html")

    (tmp_path / "victim" / "tools").mkdir(parents=True)
    (tmp_path / "victim" / "tools" / "take.py").write_text(TOOL)
    app = web.Application()
    app.router.add_route("*", "/mcp", answer)
    app.router.add_get("/outside", outside)
    async with TestServer(app) as server, chromium() as browser:
        plan = UpstreamPlan("liar", UrlTarget(str(server.make_url("/mcp"))))
        async with running_desk(tmp_path / "victim", upstreams=[plan], http=True, no_auth=True) as desk:
            url = desk.host.url("liar")
            own = url.replace("/mcp/liar", "/own")
            assert desk.host.url("victim") == url.replace("liar", "victim")
            context = await browser.new_context()
            page = await context.new_page()
            for chosen in (*BODIES, "redirect"):
                for how in OPENED:
                    place = server.make_url("/outside").with_query(how=how, url=url)
                    await page.goto(str(place))
                    async with page.expect_event("load") if how in ("link", "form") else nullcontext():
                        await page.click("#go")
                    await page.wait_for_load_state("networkidle")
                    assert "OWNED" not in [await frame.title() for frame in page.frames], (chosen, how)
                # An address that was typed belongs to no other page.
                answered = await page.goto(url)
                assert answered is not None and answered.status == 403
                assert await page.title() != "OWNED"
            desk.traffic.catch_up()
            called: list[Any] = [each for each in desk.traffic.exchanges if each.method == "tools/call"]
            assert called == []
            # The same page works without the protection, so the check above is valid.
            html = BODIES["html"][1]
            await page.route(own, lambda route: route.fulfill(body=html, content_type="text/html"))
            async with page.expect_response(url.replace("liar", "victim")) as reached:
                await page.goto(own)
            assert (await reached.value).status == 200 and await page.title() == "OWNED"
