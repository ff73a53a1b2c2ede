"""Apps in a headless Chromium: what they get, and what they cannot reach."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Error, Frame, Page

from mcpdesk.features.apps.open_apps import OpenApp
from tests.features.apps.board_folder import URI, board_folder
from tests.support.desk import RunningDesk, running_desk
from tests.support.patience import WITHIN_S, until
from tests.web.browsing import chromium, needs_browser

BOARD = OpenApp("boards", URI)
OPEN = "void ask('ui/open-link', {{url: '{}'}}).then(each => {{ window.link = each; }})"
"""Expression with which the app asks to open a link."""
pytestmark = [needs_browser, pytest.mark.browser]


@asynccontextmanager
async def opened(
    tmp_path: Path, meta: str = "{}", *, call: OpenApp = BOARD, http: bool = False
) -> AsyncIterator[tuple[RunningDesk, Page, Frame]]:
    """Open the app of the board in a browser; yield the desk, the host page, and the app's frame."""
    folder = board_folder(tmp_path / "boards", meta)
    async with running_desk(folder, http=http) as desk, chromium() as browser:
        url = await asyncio.wrap_future(desk.do(call))
        context = await browser.new_context()
        page = await context.new_page()
        page.set_default_timeout(WITHIN_S * 1000)
        await page.goto(url)
        yield desk, page, await app_frame(page)
        await context.close()


async def becomes(frame: Frame, expression: str) -> None:
    """Wait until an expression is true. A policy of the page forbids the browser library to do so itself."""

    async def is_true() -> bool:
        try:
            return bool(await frame.evaluate(f"Boolean({expression})"))
        except Error:
            return False  # the frame loads another page

    await until(is_true)


async def app_frame(page: Page) -> Frame:
    """Frame of the app, after it was initialized."""

    async def inner() -> Frame | None:
        return next(
            (each for each in page.frames if each.parent_frame and each.parent_frame.parent_frame), None
        )

    frame = await until(inner)
    assert isinstance(frame, Frame)
    await becomes(frame, "window.initialized")
    return frame


async def test_an_app_gets_the_call_and_calls_tools_of_its_server(tmp_path: Path) -> None:
    call = OpenApp("boards", URI, "board", '{"team":"blue"}', '{"content":[]}')
    async with opened(tmp_path, call=call) as (_, _page, frame):
        answer = await frame.evaluate("window.initialized")
        context = answer["result"]["hostContext"]
        assert context["toolInfo"]["tool"]["name"] == "board" and context["theme"] in ("light", "dark")
        await becomes(frame, "told.length === 2")
        told: list[dict[str, Any]] = await frame.evaluate("told")
        assert told[0]["params"] == {"arguments": {"team": "blue"}}
        assert [each["method"].rpartition("/")[2] for each in told] == ["tool-input", "tool-result"]
        called = await frame.evaluate("ask('tools/call', {name: 'refresh', arguments: {step: 3}})")
        assert called["result"]["content"][0]["text"] == "step 3"
        refused = await frame.evaluate("ask('tools/call', {name: 'secret'})")
        assert "visibility" in refused["error"]["message"]


async def test_an_app_reaches_neither_the_desk_nor_other_origins(tmp_path: Path) -> None:
    meta = '{"csp": {"connectDomains": ["http://127.0.0.1:PORT", "http://localhost:PORT"]}}'
    reached: list[str] = []

    async def reach(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reached.append((await reader.read(200)).decode())
        writer.write(b"HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: *\r\nContent-Length: 0\r\n\r\n")
        writer.close()

    other = await asyncio.start_server(reach, "127.0.0.1", 0)
    port = other.sockets[0].getsockname()[1]
    meta = meta.replace("PORT", str(port))
    async with opened(tmp_path, meta, http=True) as (desk, page, frame):
        refusals = page.get_by_text(f"It must not use http://127.0.0.1:{port}, http://localhost:{port}.")
        await refusals.wait_for()
        addresses = [desk.view().servers[0].url, page.url, frame.parent_frame.url]  # type: ignore[union-attr]
        addresses += [f"http://127.0.0.1:{port}/", f"http://localhost:{port}/"]
        for address in addresses:
            tries = """async url => [
                await fetch(url).then(() => "fetched", () => "refused"),
                await fetch(url, {mode: "no-cors"}).then(() => "fetched", () => "refused"),
                await new Promise(done => {
                  const image = new Image();
                  image.onload = () => done("loaded");
                  image.onerror = () => done("refused");
                  image.src = url;
                }),
                await new Promise(done => {
                  const script = document.createElement("script");
                  script.onload = () => done("loaded");
                  script.onerror = () => done("refused");
                  script.src = url;
                  document.body.append(script);
                }),
                await new Promise(done => {
                  const socket = new WebSocket(url.replace("http", "ws"));
                  socket.onopen = () => done("open");
                  socket.onerror = () => done("refused");
                }).catch(() => "refused"),
                await import(url).then(() => "loaded", () => "refused"),
            ]"""
            assert await frame.evaluate(tries, address) == ["refused"] * 6, address
        target = f"http://127.0.0.1:{port}/"
        await frame.evaluate(
            """url => {
              navigator.sendBeacon(url, "secret");
              const inner = document.createElement("iframe");
              inner.src = url;
              document.body.append(inner);
              open(url);
              try { top.location = url; } catch {}
            }""",
            target,
        )
        assert await frame.evaluate("ask('ping', {})")  # the app is still there
        assert len(page.context.pages) == 1
        for leave in ("form.action = url; document.body.append(form); form.submit();", "location = url;"):
            with suppress(Error):  # the browser shows an error in the frame instead
                await frame.evaluate(
                    f"url => {{ const form = document.createElement('form'); {leave} }}", target
                )
            await becomes(frame, "document.URL.startsWith('chrome-error:')")
            await page.reload()
            frame = await app_frame(page)
        assert reached == []
    other.close()


async def test_an_app_has_no_origin_and_sees_nothing_of_the_pages_around_it(tmp_path: Path) -> None:
    async with opened(tmp_path) as (_, page, frame):
        seen = """() => {
          const tried = (work) => { try { return String(work()); } catch (error) { return error.name; } };
          return {
            origin: self.origin,
            storage: tried(() => localStorage.length),
            cookie: tried(() => document.cookie),
            parent: tried(() => parent.document.title),
            top: tried(() => top.document.title),
            address: tried(() => top.location.href),
          };
        }"""
        assert await frame.evaluate(seen) == {
            "origin": "null",
            "storage": "SecurityError",
            "cookie": "SecurityError",
            "parent": "SecurityError",
            "top": "SecurityError",
            "address": "SecurityError",
        }
        # The host page listens only to the sandbox, and the sandbox passes no reserved messages on.
        await frame.evaluate(
            """() => {
              const loud = {jsonrpc: "2.0", id: 77, method: "tools/call", params: {name: "refresh"}};
              top.postMessage(loud, "*");
              top.postMessage({close: true}, "*");
              tell("ui/notifications/sandbox-proxy-ready", {});
              tell("ui/notifications/sandbox-resource-ready", {html: "<p>other"});
            }"""
        )
        assert "result" in await frame.evaluate("ask('ping', {})")
        assert not await frame.evaluate("told.some(each => each.id === 77)")
        assert await page.locator("iframe").count() == 1


async def test_a_link_is_opened_after_the_person_agreed(tmp_path: Path) -> None:
    async with opened(tmp_path) as (_, page, frame):
        await page.context.route("https://a.example/**", lambda route: route.fulfill(body="visited"))
        await frame.evaluate(OPEN.format("https://a.example/x"))
        await page.get_by_text("https://a.example/x").wait_for()
        assert len(page.context.pages) == 1
        async with page.context.expect_page() as other:
            await page.get_by_role("button", name="Open the link").click()
        assert (await other.value).url == "https://a.example/x"
        await becomes(frame, "window.link?.result")
        await frame.evaluate(OPEN.format("https://a.example/y"))
        await page.get_by_role("button", name="Decline").click()
        await becomes(frame, "window.link?.error")


async def test_size_mode_and_end_of_an_app(tmp_path: Path) -> None:
    async with opened(tmp_path) as (_, page, frame):
        await frame.evaluate("tell('ui/notifications/size-changed', {width: 300, height: 222})")
        await becomes(page.main_frame, "document.querySelector('iframe').clientHeight === 222")
        mode = await frame.evaluate("ask('ui/request-display-mode', {mode: 'fullscreen'})")
        assert mode["result"] == {"mode": "inline"}
        await page.emulate_media(color_scheme="dark")
        await becomes(frame, "told.some(each => each.params.theme === 'dark')")
        await page.get_by_role("button", name="Close the app").click()
        await page.get_by_text("The app has ended: closed by the person.").wait_for()
        assert await page.locator("iframe").count() == 0
