"""`mcpdesk --web`: the desk itself in pages, seen by a client of ours and by a headless Chromium."""

from __future__ import annotations

import asyncio
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import aiohttp
import psutil
import pyte
import pytest
from aiohttp import WSMsgType

from mcpdesk.features import VARIABLE
from tests.support.folders import write
from tests.support.patience import WITHIN_S, until, within
from tests.support.ports import free_port
from tests.support.terminal import Desk
from tests.web.browsing import chromium, needs_browser
from tests.web.test_origins import another_server

if TYPE_CHECKING:
    from playwright.async_api import ConsoleMessage, Request, WebSocket

ROOT = Path(__file__).parents[3]
TOOL = '''
    async def greet(name: str) -> str:
        """Greet somebody."""
        return f"Hello, {name}!"
    '''
FOLDER = {"mcp.json": '{"name": "shown"}', "tools/t.py": TOOL}
COLUMNS, ROWS = 110, 30


class Shown:
    """A running `mcpdesk --web`."""

    def __init__(self, state: Path, *arguments: str, **environ: str) -> None:
        self.state = state
        self.port, self.lines = free_port(), list[str]()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mcpdesk", "--web", f"127.0.0.1:{self.port}", "--port", "0", *arguments],
            cwd=ROOT,
            env={**os.environ, "MCPDESK_STATE_DIR": str(state), **environ},
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line)
            if "the desk in a browser" in line:
                break
        else:
            raise AssertionError(self.lines)
        self.file = state / "operator" / str(self.process.pid)
        self.key = self.file.read_text().strip()
        self.url = f"http://127.0.0.1:{self.port}"

    async def sign_in(self) -> dict[str, str]:
        """Sign in as the page does; return the headers for a program."""
        async with (
            aiohttp.ClientSession(self.url, headers={"Origin": self.url}) as browser,
            browser.post("/sign-in", json={"word": self.key}) as answer,
        ):
            cookie = answer.headers["Set-Cookie"].partition(";")[0]
            return {"Cookie": cookie, "X-Mcpdesk-Page": (await answer.json())["page_key"]}

    def screens(self) -> list[psutil.Process]:
        """The processes of the pages that are open."""
        found = psutil.Process(self.process.pid).children(recursive=True)
        with suppress(psutil.NoSuchProcess, psutil.ZombieProcess):
            return [each for each in found if "attach" in each.cmdline()]
        return self.screens()

    def health(self) -> bytes:
        """Health of the core, requested over HTTP."""
        address = re.search(r"serving shown at (http://[^/]+)/", "".join(self.lines))
        assert address is not None
        with urllib.request.urlopen(f"{address[1]}/health", timeout=WITHIN_S) as answer:
            told: bytes = answer.read()
            return told

    def end(self, number: int = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(WITHIN_S)


@pytest.fixture
def show(tmp_path: Path) -> Iterator[Callable[..., Shown]]:
    """Starts the desk on a folder; it is ended after the test."""
    folder = write(tmp_path / "shown", FOLDER)
    started: list[Shown] = []

    def start(*arguments: str, **environ: str) -> Shown:
        started.append(Shown(tmp_path / "state", str(folder), *arguments, **environ))
        return started[-1]

    yield start
    for shown in started:
        shown.process.kill()
        shown.process.wait()
        assert shown.process.stderr is not None
        shown.process.stderr.close()


class Page:
    """A terminal that shows the data sent to a page."""

    def __init__(self, ws: aiohttp.ClientWebSocketResponse) -> None:
        self.ws = ws
        self.screen = pyte.Screen(COLUMNS, ROWS)
        self._stream = pyte.ByteStream(self.screen)

    async def see(self, words: str) -> str:
        """Wait until the screen has them."""
        async with within(within_s=WITHIN_S * 2):
            while words not in (text := "\n".join(self.screen.display)):
                message = await self.ws.receive()
                assert message.type in (WSMsgType.BINARY, WSMsgType.TEXT), f"{message}\n{text}"
                if message.type is WSMsgType.BINARY:
                    self._stream.feed(message.data)
        return text

    async def type(self, keys: str) -> None:
        await self.ws.send_str(json.dumps(["stdin", keys]))


@pytest.mark.slow
async def test_each_page_is_a_screen_on_one_core_which_outlives_it(show: Callable[..., Shown]) -> None:
    shown = await asyncio.to_thread(show, "--theme", "textual-light", MCPDESK_API_KEY="not-for-screens")
    where = f"/ws/?width={COLUMNS}&height={ROWS}"
    async with aiohttp.ClientSession(shown.url, headers=await shown.sign_in()) as browser:
        async with browser.ws_connect(where) as first, browser.ws_connect(where) as second:
            one, other = Page(first), Page(second)
            await one.see("greet")
            await other.see("greet")
            await one.type("2")
            await one.see("No messages yet")
            await other.type("\x12")  # calls, as ctrl+r does; the argument is missing
            await other.see("name")
            screens = shown.screens()
            assert len(screens) == 2
            assert not any("not-for-screens" in str(each.environ()) for each in screens)
            assert all("--theme" in each.cmdline() for each in screens)
            await one.type("\x11")  # ctrl+q
            while (await first.receive(WITHIN_S)).type not in (WSMsgType.CLOSE, WSMsgType.CLOSED):
                pass
        await until(lambda: not shown.screens())
        assert b"ok" in await asyncio.to_thread(shown.health)
        async with browser.ws_connect(where) as again:
            await Page(again).see("greet")
            (screen,) = shown.screens()
            assert await asyncio.to_thread(shown.end) == 0
            assert not screen.is_running()


@pytest.mark.slow
async def test_screens_end_with_a_desk_that_is_killed(show: Callable[..., Shown]) -> None:
    shown = await asyncio.to_thread(show)
    async with (
        aiohttp.ClientSession(shown.url, headers=await shown.sign_in()) as browser,
        browser.ws_connect("/ws/") as ws,
    ):
        await Page(ws).see("shown")
        (screen,) = shown.screens()
        shown.process.kill()
        await until(lambda: not screen.is_running() or screen.status() == psutil.STATUS_ZOMBIE)


@pytest.mark.slow
def test_ctrl_c_ends_it_and_the_terminal_is_told_the_whole_address(tmp_path: Path) -> None:
    folder = write(tmp_path / "shown", FOLDER)
    environ = {"MCPDESK_STATE_DIR": str(tmp_path / "state"), "MCPDESK_PORT": "0"}
    with Desk(["--web", str(folder)], environ=environ, columns=160) as desk:
        desk.see(r"the desk in a browser: http://127\.0\.0\.1:\d+/; sign in there with the operator's key")
        desk.see(r"signs in there once, within 10 minutes: http://127\.0\.0\.1:\d+/#sign-in=[\w-]{32}")
        (file,) = (tmp_path / "state" / "operator").iterdir()
        assert file.stat().st_mode & 0o777 == 0o600
        desk.press("\x03")
        assert desk.end() == 0
    assert not file.exists()


FROM_ANOTHER_PORT = """
url => new Promise(resolve => {
  const socket = new WebSocket(`${url}/ws/x`);
  socket.onopen = () => resolve("open");
  socket.onerror = () => resolve("refused");
})
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="limits of other processes are of Linux")
async def test_half_requests_to_the_pages_leave_the_core_its_files(show: Callable[..., Shown]) -> None:
    shown = await asyncio.to_thread(show)
    resource.prlimit(shown.process.pid, resource.RLIMIT_NOFILE, (256, 256))
    kept = list[socket.socket]()
    try:
        for _ in range(400):
            kept.append(socket.create_connection(("127.0.0.1", shown.port), WITHIN_S))
            kept[-1].sendall(b"GET / HTTP/1.1\r\nX: ")
        assert b"ok" in await asyncio.to_thread(shown.health)
    finally:
        for each in kept:
            each.close()
    assert await asyncio.to_thread(shown.end) == 0


def refused(*arguments: str, **environ: str) -> str:
    """Stderr of a command that ends with 2."""
    ended = subprocess.run(
        [sys.executable, "-m", "mcpdesk", *arguments],
        cwd=ROOT, env={**os.environ, **environ}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert ended.returncode == 2, ended
    return ended.stderr


@pytest.mark.process
def test_mistakes_are_told_before_anything_is_served(tmp_path: Path) -> None:
    folder = str(write(tmp_path / "shown", FOLDER))
    state = {"MCPDESK_STATE_DIR": str(tmp_path)}
    assert "HOST:PORT, or a port alone" in refused(folder, "--web=nowhere", **state)
    without = write(
        tmp_path / "hook", {"sitecustomize.py": 'import sys\nsys.modules["textual_serve"] = None\n'}
    )
    told = refused("serve", folder, "--web", "0", PYTHONPATH=str(without), **state)
    assert "textual-serve is not installed" in told and "pip install 'mcpdesk[web]'" in told


@pytest.mark.process
def test_a_taken_address_is_told_before_any_code_of_a_folder_runs(tmp_path: Path) -> None:
    loud = "from pathlib import Path\nPath(__file__).with_name('ran').touch()\nasync def loud(): ...\n"
    folder = write(tmp_path / "shown", FOLDER | {"tools/loud.py": loud})
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        told = refused("serve", str(folder), "--port", "0", "--web", address, MCPDESK_STATE_DIR=str(tmp_path))
    assert f"--web: cannot listen on {address}" in told and not (folder / "tools" / "ran").exists()


@pytest.mark.process
def test_without_the_feature_the_option_is_refused(tmp_path: Path) -> None:
    folder = str(write(tmp_path / "shown", FOLDER))
    told = refused(
        "serve", folder, "--web", "0", MCPDESK_STATE_DIR=str(tmp_path), **{VARIABLE: "browser_desk"}
    )
    assert "--web: this program cannot serve the desk to browsers" in told and "disabled_features" in told


@needs_browser
@pytest.mark.browser
async def test_chromium_shows_the_desk_and_what_a_key_changes(show: Callable[..., Shown]) -> None:
    shown = await asyncio.to_thread(show)
    screen = pyte.Screen(300, 100)
    stream, sockets, problems = pyte.ByteStream(screen), list[str](), list[str]()

    def received(data: bytes | str) -> None:
        if isinstance(data, bytes):
            stream.feed(data)

    def opened(ws: WebSocket) -> None:
        sockets.append(ws.url)
        ws.on("framereceived", received)

    def asked(request: Request) -> None:
        if not request.url.startswith(f"{shown.url}/"):
            problems.append(request.url)

    def said(message: ConsoleMessage) -> None:
        # The terminal's script tells a screen that has ended that it lost the focus.
        if message.type == "error" and "already in CLOSING or CLOSED" not in message.text:
            problems.append(message.text)

    def text() -> str:
        return "\n".join(screen.display)

    async with chromium() as browser:
        context = await browser.new_context(viewport={"width": 1100, "height": 650})
        page = await context.new_page()
        page.on("websocket", opened)
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on("request", asked)
        page.on("console", said)
        await page.goto(f"{shown.url}/")
        await page.get_by_label("Operator's key").fill("wrong")
        await page.keyboard.press("Enter")
        await page.get_by_text("That is not the operator's key").wait_for()
        assert problems and all("401" in each for each in problems)
        problems.clear()
        await page.get_by_label("Operator's key").fill(shown.key)
        await page.keyboard.press("Enter")
        await page.locator("body.-first-byte").wait_for()
        await until(lambda: "greet" in text())
        await page.wait_for_timeout(500)
        before = await page.screenshot()
        await page.keyboard.press("2")  # without a click into it
        await until(lambda: "No messages yet" in text())
        async with within():
            while (after := await page.screenshot()) == before:
                await page.wait_for_timeout(50)
        assert len(after) > 5_000
        assert len(sockets) == 1 and sockets[0].startswith(f"ws://127.0.0.1:{shown.port}/ws/")
        await page.keyboard.press("Control+q")
        await page.get_by_text("This screen has ended").wait_for()
        await page.get_by_role("link", name="Open another").click()
        await until(lambda: len(sockets) == 2)
        assert problems == []
        stranger = await (await browser.new_context()).new_page()
        await stranger.goto(f"{shown.url}/")
        await stranger.get_by_label("Operator's key").wait_for()
        # A page of another port receives the cookie, and neither opens a screen nor reads anything.
        cookies = list[str]()
        async with another_server(cookies) as port:
            other = await context.new_page()
            await other.goto(f"http://127.0.0.1:{port}/ws/x")
            (caught,) = [each for each in cookies if each][:1]
            assert caught.startswith("mcpdesk-web-")
            tried = await other.evaluate(FROM_ANOTHER_PORT, shown.url.replace("http", "ws"))
            assert tried == "refused"
        async with aiohttp.ClientSession(shown.url, headers={"Cookie": caught}) as thief:
            with pytest.raises(aiohttp.WSServerHandshakeError, match="401"):
                await thief.ws_connect("/ws/x")
    await until(lambda: not shown.screens())
    assert await asyncio.to_thread(shown.end) == 0
