"""The desk's pages in a browser, and the permission to open them: real sockets, small screens."""

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

from mcpdesk.auth.operator import Operator
from mcpdesk.errors import DeskUserError
from mcpdesk.features.browser_desk import desk_pages, tab_process
from mcpdesk.features.browser_desk.desk_pages import BrowserDesk, BrowserDeskPlan
from mcpdesk.transports.base import Rules
from tests.support import tab_program
from tests.support.patience import WITHIN_S, until, within
from tests.support.ports import free_port

KEY = "k" * 32
ROOT = str(Path(__file__).parents[3])
OPERATOR = Operator(KEY)
PLAN = BrowserDeskPlan("127.0.0.1", 0, OPERATOR, (), {"PATH": os.environ["PATH"], "PYTHONPATH": ROOT})


@contextmanager
def pages(what: str = "screen", **changes: Any) -> Iterator[str]:
    """Pages whose screens are small programs; yield their URL without the last slash."""
    desk = BrowserDesk(replace(PLAN, command=[sys.executable, "-m", tab_program.__name__, what], **changes))
    try:
        yield desk.start().rstrip("/")
    finally:
        desk.close()


async def sign_in(url: str, word: str = KEY) -> dict[str, str]:
    """Sign in as the page does; return the headers for a program."""
    async with (
        aiohttp.ClientSession(url, headers={"Origin": url}) as browser,
        browser.post("/sign-in", json={"word": word}) as answer,
    ):
        assert answer.status == 200, await answer.text()
        cookie = answer.headers["Set-Cookie"].partition(";")[0]
        return {"Cookie": cookie, "X-Mcpdesk-Page": (await answer.json())["page_key"]}


@asynccontextmanager
async def visitor(url: str) -> AsyncIterator[aiohttp.ClientSession]:
    """A signed-in client."""
    async with aiohttp.ClientSession(url, headers=await sign_in(url)) as session:
        yield session


class Tab:
    """The terminal of one page."""

    def __init__(self, ws: aiohttp.ClientWebSocketResponse) -> None:
        self.ws = ws
        self.drawn = ""
        self.said: list[Any] = []

    async def see(self, words: str) -> str:
        """Wait until it was drawn."""
        async with within():
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


async def test_screens_are_for_the_operator_and_the_page_holds_nothing() -> None:
    with pages() as url:
        async with aiohttp.ClientSession(url) as stranger:
            for path in ("/", "/page.js", "/static/js/textual.js"):
                async with stranger.get(path) as answer:
                    assert answer.status == 200 and KEY not in await answer.text()
                    assert "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
                    assert answer.headers["Referrer-Policy"] == "no-referrer"
            for path in ("/ws/", "/ws/x", f"/ws/{KEY}"):
                async with stranger.get(path) as answer:
                    assert answer.status == 401 and "operator" in await answer.text(), path
            with pytest.raises(aiohttp.WSServerHandshakeError, match="401"):
                await stranger.ws_connect("/ws/x")
            async with stranger.get("/session") as answer:
                assert await answer.json() == {"signed_in": False}
            for wrong in ("", "x", KEY + "x", KEY[:-1], None):
                async with stranger.post("/sign-in", json={"word": wrong}, headers={"Origin": url}) as answer:
                    assert answer.status == 401 and "Set-Cookie" not in answer.headers
            async with stranger.post("/sign-in", json={"word": KEY}) as answer:
                assert answer.status == 403, "without the origin of the page"
            async with stranger.get("/nothing") as answer:
                assert answer.status == 404
            async with stranger.put("/") as answer:
                assert answer.status == 405


@pytest.mark.process
async def test_the_cookie_that_other_ports_receive_opens_nothing_alone() -> None:
    with pages() as url:
        async with (
            aiohttp.ClientSession(url, headers={"Origin": url}) as browser,
            browser.post("/sign-in", json={"word": KEY}) as answer,
        ):
            said, page_key = answer.headers["Set-Cookie"], (await answer.json())["page_key"]
        assert "HttpOnly" in said and "SameSite=Strict" in said and "Max-Age=86" in said
        cookie = said.partition(";")[0]
        assert KEY not in said and page_key not in said
        another = (await sign_in(url))["X-Mcpdesk-Page"]
        async with aiohttp.ClientSession(url) as thief:
            for headers, path in (
                ({"Cookie": cookie}, "/ws/"),
                ({"Cookie": cookie}, f"/ws/{another}"),
                ({"Cookie": cookie, "X-Mcpdesk-Page": cookie.partition("=")[2]}, "/ws/"),
                ({}, f"/ws/{page_key}"),
            ):
                with pytest.raises(aiohttp.WSServerHandshakeError, match="401"):
                    await thief.ws_connect(path, headers=headers)
            async with thief.ws_connect(f"/ws/{page_key}", headers={"Cookie": cookie}) as ws:
                await Tab(ws).see("pid")


@pytest.mark.process
async def test_a_link_signs_in_once_and_signing_out_ends_the_screen() -> None:
    with pages() as url:
        word = OPERATOR.new_link_code()
        page = await sign_in(url, word)
        async with aiohttp.ClientSession(url, headers=page) as owner:
            async with owner.post("/sign-in", json={"word": word}, headers={"Origin": url}) as answer:
                assert answer.status == 401
            async with owner.ws_connect("/ws/") as ws:
                pid = await Tab(ws).pid()
                async with owner.post("/sign-out", headers={"Origin": url}) as answer:
                    assert answer.status == 204
                await until(lambda: not lives(pid))
                while (await ws.receive(WITHIN_S)).type is not WSMsgType.CLOSE:
                    pass
            async with owner.get("/ws/") as answer:
                assert answer.status == 401


@pytest.mark.process
async def test_screens_end_when_all_browsers_are_signed_out() -> None:
    with pages() as url:
        async with visitor(url) as owner, owner.ws_connect("/ws/") as ws:
            pid = await Tab(ws).pid()
            assert OPERATOR.revoke_all() >= 1
            await until(lambda: not lives(pid))


@pytest.mark.slow
async def test_half_requests_are_few_and_do_not_last() -> None:
    rules = Rules(request_timeout_s=3)  # longer than all connections take to be made
    with pages(rules=rules) as url:
        port = int(url.rpartition(":")[2])
        kept = [socket.create_connection(("127.0.0.1", port)) for _ in range(desk_pages.MAX_CONNECTIONS + 40)]
        try:
            for each in kept:
                each.sendall(b"GET / HTTP/1.1\r\nX: ")
            async with aiohttp.ClientSession(url) as other, other.get("/") as answer:
                assert answer.status == 200  # in place of the one that waited longest
            statuses = await asyncio.gather(*(asyncio.to_thread(_last_words, each) for each in kept))
        finally:
            for each in kept:
                each.close()
        # Those that made room before their first byte arrived are closed without a word.
        assert {b"", b"503", b"408"} >= set(statuses) and statuses.count(b"408") <= desk_pages.MAX_CONNECTIONS


def _last_words(connection: socket.socket) -> bytes:
    """The status that a server sends before it closes the connection."""
    connection.settimeout(WITHIN_S)
    said = b""
    with suppress(ConnectionResetError):
        while data := connection.recv(4096):
            said += data
    return said[9:12]


async def test_a_head_and_a_message_have_the_limits_of_the_main_listener() -> None:
    with pages() as url:
        async with aiohttp.ClientSession(url) as stranger:
            async with stranger.get("/", headers={"X-Long": "x" * 9_000}) as answer:
                assert answer.status == 431
            body = json.dumps({"word": "x" * 20_000})
            headers = {"Origin": url, "Content-Type": "application/json"}
            async with stranger.post("/sign-in", data=body, headers=headers) as answer:
                assert answer.status == 413
        async with visitor(url) as owner, owner.get("/ws/") as answer:
            assert answer.status == 426


@pytest.mark.process
async def test_foreign_hosts_and_pages_are_refused_even_with_the_key() -> None:
    with pages() as url:
        async with visitor(url) as owner:
            async with owner.get("/", headers={"Host": "evil.example"}) as answer:
                assert answer.status == 403 and "evil.example" in await answer.text()
            for origin in ("http://evil.example", "null", "http://127.0.0.1:1", "https://localhost:1"):
                async with owner.get("/ws/", headers={"Origin": origin}) as answer:
                    assert answer.status == 403 and "is not allowed" in await answer.text(), origin
                with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
                    await owner.ws_connect("/ws/", headers={"Origin": origin})
            async with owner.ws_connect("/ws/", headers={"Origin": url}) as ws:
                await Tab(ws).see("pid")
    with pages(
        rules=Rules(allowed_hosts=("desk.example",), allowed_origins=("https://desk.example",))
    ) as url:
        async with visitor(url) as owner:
            async with owner.get("/", headers={"Host": "desk.example"}) as answer:
                assert answer.status == 200
            async with owner.ws_connect("/ws/", headers={"Origin": "https://desk.example"}) as ws:
                await Tab(ws).see("pid")


async def test_files_are_served_and_no_folder_is_listed() -> None:
    with pages() as url:
        async with visitor(url) as owner:
            page = await (await owner.get("/")).text()
            style = await (await owner.get("/page.css")).text()
            named = re.findall(r'(?:src|href)="(/[^"]+)"', page) + re.findall(r'url\("([^"]+)"\)', style)
            assert len(named) >= 5
            named += re.findall(r'"(/static/[^"]+)"', await (await owner.get("/page.js")).text())
            assert "/static/js/textual.js" in named
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
                    assert answer.status == 404, path


@pytest.mark.process
async def test_page_types_resizes_and_leaves_its_screen() -> None:
    with pages() as url:
        async with visitor(url) as owner:
            async with owner.ws_connect("/ws/?width=101&height=31") as ws:
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
                # Links that are not http or https are not passed to the browser.
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
            async with owner.ws_connect("/ws/?width=x&height=99999999") as ws:
                tab = Tab(ws)
                assert "80x24" in await tab.see("driver")
                await ws.send_json(["stdin", "leave"])
                assert (await ws.receive(WITHIN_S)).type is WSMsgType.CLOSE


@pytest.mark.process
async def test_screen_that_cannot_begin_says_why() -> None:
    with pages("broken") as url:
        async with visitor(url) as owner, owner.ws_connect("/ws/") as ws:
            drawn = await Tab(ws).see("on this machine.")
    assert "The desk cannot be shown.\r\nmcpdesk: No core of mcpdesk is running" in drawn


@pytest.mark.slow
async def test_screen_that_does_not_read_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tab_process, "MAX_UNREAD_BYTES", 1_000_000)
    with pages("stubborn") as url:
        async with visitor(url) as owner, owner.ws_connect("/ws/") as ws:
            pid = await Tab(ws).pid()
            for _ in range(3):
                await ws.send_json(["stdin", "x" * 900_000])
            await ws.send_str("[" * 100_000)
            await ws.send_json(["ping", "17"])
            assert (await ws.receive_json())[1] == "17"
        await until(lambda: not lives(pid))


@pytest.mark.slow
async def test_screen_that_does_not_leave_is_ended() -> None:
    with pages("stubborn") as url:
        async with visitor(url) as owner, owner.ws_connect("/ws/") as ws:
            pid = await Tab(ws).pid()
        await until(lambda: not lives(pid))


@pytest.mark.process
async def test_all_screens_end_with_the_pages() -> None:
    pids = list[int]()
    with pages() as url:
        async with visitor(url) as owner:
            tabs = [await owner.ws_connect("/ws/") for _ in range(3)]
            pids = [await Tab(ws).pid() for ws in tabs]
            assert all(map(lives, pids)) and len(set(pids)) == 3
            closing = asyncio.create_task(tabs[0].receive())
            await asyncio.sleep(0)
    assert not any(map(lives, pids))
    closing.cancel()


async def admitted(owner: aiohttp.ClientSession) -> aiohttp.ClientWebSocketResponse:
    """Connect as soon as a place is free, a moment after a program has ended."""
    async with within():
        while True:
            with suppress(aiohttp.WSServerHandshakeError):
                return await owner.ws_connect("/ws/")
            await asyncio.sleep(0.01)


@pytest.mark.process
async def test_no_more_screens_than_there_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(desk_pages, "MAX_TABS", 2)
    with pages() as url:
        async with visitor(url) as owner:
            first, second = await owner.ws_connect("/ws/"), await owner.ws_connect("/ws/")
            pid = await Tab(first).pid()
            with pytest.raises(aiohttp.WSServerHandshakeError, match="503"):
                await owner.ws_connect("/ws/")
            await first.close()
            await until(lambda: not lives(pid))
            async with await admitted(owner) as third:
                await Tab(third).see("pid")
            await second.close()


def test_port_that_is_taken_is_told_unless_another_will_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(DeskUserError, match=f"cannot listen on 127.0.0.1:{port}"), pages(port=port):
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
