"""The pages of the desk in a browser, and who may open them: real sockets, small screens."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import WSMsgType
from msgspec.structs import replace

from mcpdesk.errors import DeskUserError
from mcpdesk.transports.browser_desk import desk_pages
from mcpdesk.transports.browser_desk.desk_pages import BrowserDesk, BrowserDeskPlan
from tests.support import tab_program
from tests.support.desk import until
from tests.support.patience import WITHIN_S
from tests.support.ports import free_port

KEY = "k" * 32
ROOT = str(Path(__file__).parents[2])
PLAN = BrowserDeskPlan("127.0.0.1", 0, KEY, (), {"PATH": os.environ["PATH"], "PYTHONPATH": ROOT})


@contextmanager
def pages(what: str = "screen", **changes: Any) -> Iterator[str]:
    """Pages whose screens are small programs; gives their address without the last slash."""
    desk = BrowserDesk(replace(PLAN, command=[sys.executable, "-m", tab_program.__name__, what], **changes))
    try:
        yield desk.start().rstrip("/")
    finally:
        desk.close()


@asynccontextmanager
async def visitor(url: str, key: str = KEY) -> AsyncIterator[aiohttp.ClientSession]:
    """Somebody whose browser has the cookie already."""
    cookie = f"mcpdesk-web-{url.rpartition(':')[2]}={key}"
    async with aiohttp.ClientSession(url, headers={"Cookie": cookie}) as session:
        yield session


class Tab:
    """The terminal of one page."""

    def __init__(self, ws: aiohttp.ClientWebSocketResponse) -> None:
        self.ws = ws
        self.drawn = ""
        self.said: list[Any] = []

    async def see(self, words: str) -> str:
        """Wait until it was drawn."""
        async with asyncio.timeout(WITHIN_S):
            while words not in self.drawn:
                message = await self.ws.receive()
                if message.type is WSMsgType.BINARY:
                    self.drawn += message.data.decode()
                elif message.type is WSMsgType.TEXT:
                    self.said.append(json.loads(message.data))
                else:
                    raise AssertionError(f"{message.type} before {words!r}: {self.drawn}")
        return self.drawn

    async def pid(self) -> int:
        """The process of the screen."""
        found = re.search(r"pid (\d+) ", await self.see("driver"))
        assert found is not None
        return int(found[1])


def lives(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    try:
        return " Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False


async def test_only_who_has_the_key_is_served() -> None:
    with pages() as url:
        async with aiohttp.ClientSession(url) as stranger:
            for path in ("/", "/ws", "/page.js", "/static/js/textual.js", "/nothing"):
                async with stranger.get(path) as answer:
                    assert answer.status == 401 and "?token=KEY" in await answer.text(), path
            for wrong in ("", "x", KEY + "x", KEY[:-1], "k%00"):
                async with stranger.get(f"/?token={wrong}", allow_redirects=False) as answer:
                    assert answer.status == 401 and "Set-Cookie" not in answer.headers
            with pytest.raises(aiohttp.WSServerHandshakeError, match="401"):
                await stranger.ws_connect("/ws")
            async with stranger.get(f"/?token={KEY}", allow_redirects=False) as answer:
                assert (answer.status, answer.headers["Location"]) == (303, "/")
                cookie = answer.headers["Set-Cookie"]
        assert "HttpOnly" in cookie and "SameSite=Strict" in cookie
        async with visitor(url) as owner, owner.get("/") as answer:
            page = await answer.text()
            assert answer.status == 200 and 'class="textual-terminal"' in page
            assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
            assert answer.headers["Referrer-Policy"] == "no-referrer"
        async with visitor(url, "x" * 32) as other, other.get("/") as answer:
            assert answer.status == 401


async def test_foreign_hosts_and_pages_are_refused_even_with_the_key() -> None:
    with pages() as url:
        async with visitor(url) as owner:
            async with owner.get("/", headers={"Host": "evil.example"}) as answer:
                assert answer.status == 403 and "evil.example" in await answer.text()
            for origin in ("http://evil.example", "null", "http://127.0.0.1:1", "https://localhost:1"):
                async with owner.get("/ws", headers={"Origin": origin}) as answer:
                    assert answer.status == 403 and "may not speak" in await answer.text(), origin
                with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
                    await owner.ws_connect("/ws", headers={"Origin": origin})
            async with owner.ws_connect("/ws", headers={"Origin": url}) as ws:
                await Tab(ws).see("pid")
    with pages(allowed_hosts=("desk.example",), allowed_origins=("https://desk.example",)) as url:
        async with visitor(url) as owner:
            async with owner.get("/", headers={"Host": "desk.example"}) as answer:
                assert answer.status == 200
            async with owner.ws_connect("/ws", headers={"Origin": "https://desk.example"}) as ws:
                await Tab(ws).see("pid")


async def test_files_are_served_and_no_folder_is_listed() -> None:
    with pages() as url:
        async with visitor(url) as owner:
            page = await (await owner.get("/")).text()
            style = await (await owner.get("/page.css")).text()
            named = re.findall(r'(?:src|href)="(/[^"]+)"', page) + re.findall(r'url\("([^"]+)"\)', style)
            assert "/static/js/textual.js" in named and len(named) >= 6
            for path in named:
                async with owner.get(path) as answer:
                    assert answer.status == 200 and await answer.read(), path
            assert re.findall(r"(?:https?:)?//[a-z]", page + style) == []
            for path in (
                "/static",
                "/static/",
                "/static/js/",
                "/static/../server.py",
                "/static/%2e%2e/server.py",
            ):
                async with owner.get(path, allow_redirects=False) as answer:
                    assert answer.status in (403, 404), path


async def test_page_types_resizes_and_leaves_its_screen() -> None:
    with pages() as url:
        async with visitor(url) as owner:
            async with owner.ws_connect("/ws?width=101&height=31") as ws:
                tab = Tab(ws)
                pid = await tab.pid()
                assert "101x31" in tab.drawn and "secret None" in tab.drawn
                assert "textual.drivers.web_driver:WebDriver" in tab.drawn
                await ws.send_json(["stdin", "ä€"])
                await tab.see("typed ä€")
                await ws.send_json(["resize", {"width": 90, "height": 20}])
                await tab.see('told {"type": "resize", "width": 90, "height": 20}')
                await ws.send_json(["resize", {"width": 10**9, "height": -4}])
                await tab.see('{"type": "resize", "width": 1000, "height": 1}')
                await ws.send_json(["blur"])
                await tab.see('{"type": "blur"}')
                await ws.send_json(["ping", "17"])
                await ws.send_json(["stdin", "url"])
                await ws.send_json(["stdin", "later"])
                await tab.see("typed later")
                # A link that is none of the web is not handed to the browser.
                assert tab.said == [
                    ["pong", "17"],
                    ["open_url", {"url": "https://example.com/", "new_tab": True}],
                ]
                for junk in (
                    '"',
                    "[]",
                    "{}",
                    '["stdin"]',
                    '["stdin", 5]',
                    '["resize", {"width": "x"}]',
                    "[[[",
                    "7",
                ):
                    await ws.send_str(junk)
                await ws.send_bytes(b"\x00")
                await ws.send_json(["stdin", "still"])
                await tab.see("typed still")
            await until(lambda: not lives(pid))
            async with owner.ws_connect("/ws?width=x&height=99999999") as ws:
                tab = Tab(ws)
                assert "80x24" in await tab.see("driver")
                await ws.send_json(["stdin", "leave"])
                assert (await ws.receive(WITHIN_S)).type is WSMsgType.CLOSE


async def test_screen_that_cannot_begin_says_why() -> None:
    with pages("broken") as url:
        async with visitor(url) as owner, owner.ws_connect("/ws") as ws:
            drawn = await Tab(ws).see("on this machine.")
    assert "The desk cannot be shown.\r\nmcpdesk: No core of mcpdesk runs" in drawn


@pytest.mark.slow
async def test_screen_that_does_not_leave_is_ended() -> None:
    with pages("stubborn") as url:
        async with visitor(url) as owner, owner.ws_connect("/ws") as ws:
            pid = await Tab(ws).pid()
        await until(lambda: not lives(pid))


async def test_all_screens_end_with_the_pages() -> None:
    pids = list[int]()
    with pages() as url:
        async with visitor(url) as owner:
            tabs = [await owner.ws_connect("/ws") for _ in range(3)]
            pids = [await Tab(ws).pid() for ws in tabs]
            assert all(map(lives, pids)) and len(set(pids)) == 3
            closing = asyncio.create_task(tabs[0].receive())
            await asyncio.sleep(0)
    assert not any(map(lives, pids))
    closing.cancel()


async def admitted(owner: aiohttp.ClientSession) -> aiohttp.ClientWebSocketResponse:
    """Connect as soon as there is room, which comes a moment after a program has ended."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            with suppress(aiohttp.WSServerHandshakeError):
                return await owner.ws_connect("/ws")
            await asyncio.sleep(0.01)


async def test_no_more_screens_than_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk_pages, "MOST_TABS", 2)
    with pages() as url:
        async with visitor(url) as owner:
            first, second = await owner.ws_connect("/ws"), await owner.ws_connect("/ws")
            pid = await Tab(first).pid()
            with pytest.raises(aiohttp.WSServerHandshakeError, match="503"):
                await owner.ws_connect("/ws")
            await first.close()
            await until(lambda: not lives(pid))
            async with await admitted(owner) as third:
                await Tab(third).see("pid")
            await second.close()


def test_port_that_is_taken_is_told_unless_another_will_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(DeskUserError, match=f"nobody can listen on 127.0.0.1:{port}"), pages(port=port):
            pass
        with pages(port=port, may_move=True) as url:
            assert not url.endswith(f":{port}")
    with pages(port=(free := free_port())) as url:
        assert url == f"http://127.0.0.1:{free}"


def test_without_the_extra_a_sentence_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk_pages, "find_spec", lambda name: None)
    with pytest.raises(DeskUserError, match="textual-serve is not installed") as raised:
        BrowserDesk(PLAN)
    assert "pip install 'mcpdesk[web]'" in raised.value.hint
